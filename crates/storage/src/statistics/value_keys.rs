//! The bytes by which statistics know a value: those of a key that has it alone, shortened where they are long.
//!
//! ```text
//! up to 64 bytes   the value, as a key has it
//! more             its first 56 bytes, SipHash-2-4 of all of them (8)
//! ```
//!
//! Different texts that begin alike are different values then, and lie where their beginning does. The hash has a key of zeros, as
//! keys of statistics are on disk.

use std::hash::Hasher;

use rowmill_base::SqlType;
use siphasher::sip::SipHasher24;

use crate::keyed::{KeyCodec, KeyPart, ValueRef};

/// What a key of a value has at most.
pub const VALUE_KEY_BYTES_MAX: usize = 64;
const HASH_BYTES: usize = 8;

/// Makes keys of the values of a column.
#[derive(Clone, Debug)]
pub struct ValueKeys {
    /// None of types without an order.
    codec: Option<KeyCodec>,
}

impl ValueKeys {
    /// For values of `kind`.
    pub fn new(kind: &SqlType) -> ValueKeys {
        ValueKeys { codec: KeyCodec::new(&[KeyPart::new(kind.clone())]).ok() }
    }

    /// Whether greater values have greater keys. Those of other types have keys that tell whether they are equal.
    pub fn is_ordered(&self) -> bool {
        self.codec.is_some()
    }

    /// The key of a value; `None` of NULL, and of what the column cannot have, or cannot be compared to.
    pub fn key(&self, value: ValueRef<'_>) -> Option<Vec<u8>> {
        let mut key = Vec::new();
        let is_made = self.is_ordered() && self.write_whole(value, &mut key);
        shorten(&mut key);
        is_made.then_some(key)
    }

    /// Sets `out` to all bytes of a value that is not NULL, for a hash; whether there are any.
    pub(super) fn write_whole(&self, value: ValueRef<'_>, out: &mut Vec<u8>) -> bool {
        out.clear();
        match (&self.codec, value) {
            (_, ValueRef::Null) => false,
            (Some(codec), value) => codec.encode_part(0, value, out).is_ok(),
            (None, ValueRef::Bytes(bytes)) => {
                out.extend_from_slice(bytes);
                true
            }
            (None, ValueRef::Interval(value)) => {
                out.extend_from_slice(&value.months.to_le_bytes());
                out.extend_from_slice(&value.days.to_le_bytes());
                out.extend_from_slice(&value.nanoseconds.to_le_bytes());
                true
            }
            (None, _) => false,
        }
    }
}

/// Makes a key of all bytes of a value.
pub(super) fn shorten(key: &mut Vec<u8>) {
    if key.len() <= VALUE_KEY_BYTES_MAX {
        return;
    }
    let mut hasher = SipHasher24::new();
    hasher.write(key);
    key.truncate(VALUE_KEY_BYTES_MAX - HASH_BYTES);
    key.extend_from_slice(&hasher.finish().to_be_bytes());
}
