//! Types whose values are unsigned numbers of up to 128 bits with a text form of their own, such as network addresses.
//!
//! Such a type is one [`NumberedType`] in [`NUMBERED_TYPES`], in a file of its own. Everything else follows from the
//! entry: names, texts, casts, keys, files. Values are ordered as numbers.
//!
//! Arrow has neither unsigned numbers of 128 bits nor types of our own. We carry the values in arrays of `Decimal128`
//! with one digit more than Arrow allows a decimal, so that no array from outside is mistaken for ours, and with a
//! negative scale: -1 is the type with the code 1, and so on. The highest bit is flipped, so that the signed order of
//! the array is the order of the values. So every kernel, key and encoding for decimals works on these types. Only code
//! that treats values as quantities must tell the types apart: no DECIMAL has a negative scale. Such arrays must not
//! leave the engine, because no other program can read them: results and files get texts.

mod ipv4;
mod ipv6;

use std::fmt;
use std::hash::{Hash, Hasher};

use arrow_schema::DataType;

use super::SqlType;

/// Every numbered type.
pub static NUMBERED_TYPES: &[&NumberedType] = &[&ipv6::IPV6, &ipv4::IPV4];

/// A type whose values are numbers with a text form of their own.
pub struct NumberedType {
    /// The number of the type in the catalog, from 1 to 127. It must never change or be used again.
    pub code: u8,
    /// The name in SQL, in upper case.
    pub name: &'static str,
    /// Other names in SQL, in upper case.
    pub aliases: &'static [&'static str],
    /// The length of a value as a BLOB, big-endian, at most 16. No value is `256^bytes` or more.
    pub bytes: usize,
    /// Reads a text. Returns `None` if it is not a value.
    pub read: fn(&str) -> Option<u128>,
    /// Appends the one text of a value that [`NumberedType::read`] reads back.
    pub write: fn(u128, &mut String),
    /// A sentence for the user about how values are written.
    pub hint: &'static str,
}

/// The highest bit of a value, which is flipped in arrays.
const SIGN: u128 = 1 << 127;

/// The digits of every [`NumberedType::arrow`].
const DIGITS: u8 = 39;

impl NumberedType {
    /// The Arrow type that carries values of this type in memory.
    pub fn arrow(&self) -> DataType {
        DataType::Decimal128(DIGITS, -(self.code as i8))
    }

    /// The type whose values an Arrow type carries.
    #[inline]
    pub fn of_arrow(kind: &DataType) -> Option<&'static NumberedType> {
        match kind {
            DataType::Decimal128(DIGITS, scale @ ..0) => NumberedType::of_code(scale.unsigned_abs()),
            _ => None,
        }
    }

    /// The type with this code.
    pub fn of_code(code: u8) -> Option<&'static NumberedType> {
        NUMBERED_TYPES.iter().copied().find(|kind| kind.code == code)
    }

    /// The type with this name, in any case.
    pub fn of_name(name: &str) -> Option<&'static NumberedType> {
        let is_name = |other: &&str| other.eq_ignore_ascii_case(name);
        NUMBERED_TYPES.iter().copied().find(|kind| is_name(&kind.name) || kind.aliases.iter().any(is_name))
    }

    /// The number that arrays hold for a value.
    #[inline]
    pub fn native(number: u128) -> i128 {
        (number ^ SIGN) as i128
    }

    /// The value for which arrays hold `native`.
    #[inline]
    pub fn number(native: i128) -> u128 {
        native as u128 ^ SIGN
    }

    /// Reads a text as the number that arrays hold.
    pub fn read_native(&self, text: &str) -> Option<i128> {
        (self.read)(text).map(Self::native)
    }

    /// Appends the text of a number that arrays hold.
    pub fn write_native(&self, native: i128, out: &mut String) {
        (self.write)(Self::number(native), out);
    }

    /// Reads the bytes of a BLOB as the number that arrays hold. `None` if their length is wrong.
    pub fn native_of_bytes(&self, bytes: &[u8]) -> Option<i128> {
        let mut all = [0; 16];
        (bytes.len() == self.bytes).then(|| {
            all[16 - self.bytes..].copy_from_slice(bytes);
            Self::native(u128::from_be_bytes(all))
        })
    }

    /// Calls `take` with the bytes of a value as a BLOB.
    pub fn with_bytes<R>(&self, native: i128, take: impl FnOnce(&[u8]) -> R) -> R {
        take(&Self::number(native).to_be_bytes()[16 - self.bytes..])
    }
}

impl SqlType {
    /// The type as which values leave the engine: TEXT instead of numbered types, also inside of lists and structs.
    pub fn outside(&self) -> SqlType {
        match self {
            SqlType::Numbered(_) => SqlType::TEXT,
            SqlType::List(item) => SqlType::List(Box::new(item.outside())),
            SqlType::Struct(fields) => {
                SqlType::Struct(fields.iter().map(|(name, kind)| (name.clone(), kind.outside())).collect())
            }
            other => other.clone(),
        }
    }
}

impl fmt::Debug for NumberedType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl PartialEq for NumberedType {
    fn eq(&self, other: &Self) -> bool {
        self.code == other.code
    }
}

impl Eq for NumberedType {}

impl Hash for NumberedType {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.code.hash(state);
    }
}
