//! The bytes that represent a value in statistics: those of a key with only this value, shortened if they are long.
//!
//! ```text
//! up to 64 bytes   the value, encoded as in a key
//! more             its first 56 bytes, SipHash-2-4 of all of them (8)
//! ```
//!
//! So different texts that begin alike are still different values, and sort by their beginning. The hash has a key of
//! zeros and must not change, because keys of statistics are on disk.

use std::hash::Hasher;

use rowmill_base::SqlType;
use siphasher::sip::SipHasher24;

use crate::keyed::{KeyCodec, KeyPart, ValueRef};

/// The maximum size of a value's key in bytes.
pub const VALUE_KEY_BYTES_MAX: usize = 64;
const HASH_BYTES: usize = 8;

/// Makes keys of the values of a column.
#[derive(Clone, Debug)]
pub struct ValueKeys {
    /// `None` for types without an order.
    codec: Option<KeyCodec>,
}

impl ValueKeys {
    /// Makes the encoder for values of `kind`.
    pub fn new(kind: &SqlType) -> ValueKeys {
        ValueKeys { codec: KeyCodec::new(&[KeyPart::new(kind.clone())]).ok() }
    }

    /// Whether keys sort like values. For other types, keys only tell whether values are equal.
    pub fn is_ordered(&self) -> bool {
        self.codec.is_some()
    }

    /// The key of a value. `None` for NULL, for a value that the column cannot have, and for types without an order.
    pub fn key(&self, value: ValueRef<'_>) -> Option<Vec<u8>> {
        let mut key = Vec::new();
        let is_made = self.is_ordered() && self.write_whole(value, &mut key);
        shorten(&mut key);
        is_made.then_some(key)
    }

    /// Sets `out` to all bytes of a value, for hashing. Returns `false` for NULL and for a value that the column cannot
    /// have.
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

/// Shortens all bytes of a value to its key.
pub(super) fn shorten(key: &mut Vec<u8>) {
    if key.len() <= VALUE_KEY_BYTES_MAX {
        return;
    }
    let mut hasher = SipHasher24::new();
    // Hash the whole key before it is cut, so that keys with equal beginnings differ.
    hasher.write(key);
    key.truncate(VALUE_KEY_BYTES_MAX - HASH_BYTES);
    key.extend_from_slice(&hasher.finish().to_be_bytes());
}
