//! Types whose values are unsigned numbers of up to 256 bits with a text form of their own, such as network addresses.
//!
//! Such a type is one [`NumberedType`] in [`NUMBERED_TYPES`], in a file of its own. Everything else follows from the
//! entry: names, texts, casts, keys, files. Values are ordered as numbers.
//!
//! Arrow has neither unsigned numbers of 128 or 256 bits nor types of our own. We carry the values in arrays of
//! `Decimal128`, or of `Decimal256` if they have more than 16 bytes, with one digit more than Arrow allows a decimal,
//! so that no array from outside is mistaken for ours, and with a negative scale: -1 is the type with the code 1, and
//! so on. The highest bit is flipped, so that the signed order of the array is the order of the values. So every
//! kernel, key and encoding for decimals works on these types. Only code that treats values as quantities must tell the
//! types apart: no DECIMAL has a negative scale. Such arrays must not leave the engine, because no other program can
//! read them: results and files get texts.
//!
//! An ENUM is a numbered type, too, which statements make: see `enumeration.rs`.

mod enumeration;
mod ipv4;
mod ipv6;
mod long256;

use std::fmt;
use std::hash::{Hash, Hasher};

use arrow_buffer::i256;
use arrow_schema::DataType;

pub use enumeration::{EnumLabel, EnumLabels};

use super::{NARROW_DIGITS_MAX, SqlType, WIDE_DIGITS_MAX};

/// Every numbered type.
pub static NUMBERED_TYPES: &[&NumberedType] = &[&ipv6::IPV6, &ipv4::IPV4, &long256::LONG256];

/// An unsigned number of 256 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UnsignedNumber {
    /// The 128 high bits.
    pub high: u128,
    /// The 128 low bits.
    pub low: u128,
}

impl UnsignedNumber {
    /// The bytes, big-endian.
    pub fn to_be_bytes(self) -> [u8; 32] {
        let mut bytes = [0; 32];
        bytes[..16].copy_from_slice(&self.high.to_be_bytes());
        bytes[16..].copy_from_slice(&self.low.to_be_bytes());
        bytes
    }

    /// The number with these bytes, big-endian.
    pub fn from_be_bytes(bytes: [u8; 32]) -> UnsignedNumber {
        let half = |from: usize| {
            let mut half = [0; 16];
            half.copy_from_slice(&bytes[from..from + 16]);
            u128::from_be_bytes(half)
        };
        UnsignedNumber { high: half(0), low: half(16) }
    }
}

impl From<u128> for UnsignedNumber {
    fn from(low: u128) -> UnsignedNumber {
        UnsignedNumber { high: 0, low }
    }
}

/// A type whose values are numbers with a text form of their own.
pub struct NumberedType {
    /// The number of the type in the catalog, from 1 to 127. It must never change or be used again. 0 is an ENUM.
    pub code: u8,
    /// The name in SQL, in upper case; that of an ENUM as spelled.
    pub name: &'static str,
    /// Other names in SQL, in upper case.
    pub aliases: &'static [&'static str],
    /// The length of a value as a BLOB, big-endian, at most 32. No value is `256^bytes` or more.
    pub bytes: usize,
    /// How values are read and written.
    pub texts: NumberedTexts,
    /// A sentence for the user about how values are written.
    pub hint: &'static str,
}

/// How a numbered type reads and writes its values.
#[derive(Clone, Copy)]
pub enum NumberedTexts {
    /// By a rule.
    Rule {
        /// Reads a text. Returns `None` if it is not a value.
        read: fn(&str) -> Option<UnsignedNumber>,
        /// Appends the one text of a value that `read` reads back.
        write: fn(UnsignedNumber, &mut String),
    },
    /// As the labels of an ENUM.
    Labels(&'static EnumLabels),
}

/// The highest bit of a value, which is flipped in arrays.
const SIGN: u128 = 1 << 127;

/// The digits of every [`NumberedType::arrow`] of up to 16 bytes.
const DIGITS: u8 = NARROW_DIGITS_MAX + 1;

/// The digits of every [`NumberedType::arrow`] of more than 16 bytes.
const WIDE_DIGITS: u8 = WIDE_DIGITS_MAX + 1;

impl NumberedType {
    /// Whether values have more than 16 bytes, so that arrays hold 256 bits for each.
    pub fn is_wide(&self) -> bool {
        self.bytes > 16
    }

    /// Reads a text. Returns `None` if it is not a value.
    pub fn read(&self, text: &str) -> Option<UnsignedNumber> {
        match self.texts {
            NumberedTexts::Rule { read, .. } => read(text),
            NumberedTexts::Labels(labels) => labels.read(text),
        }
    }

    /// Appends the one text of a value that [`NumberedType::read`] reads back.
    pub fn write(&self, number: UnsignedNumber, out: &mut String) {
        match self.texts {
            NumberedTexts::Rule { write, .. } => write(number, out),
            NumberedTexts::Labels(labels) => labels.write(number, out),
        }
    }

    /// The labels of an ENUM; `None` for other types.
    #[inline]
    pub fn labels(&self) -> Option<&'static EnumLabels> {
        match self.texts {
            NumberedTexts::Rule { .. } => None,
            NumberedTexts::Labels(labels) => Some(labels),
        }
    }

    /// The Arrow type that carries values of this type in memory.
    pub fn arrow(&self) -> DataType {
        match self.texts {
            NumberedTexts::Labels(labels) => labels.arrow(),
            _ if self.is_wide() => DataType::Decimal256(WIDE_DIGITS, -(self.code as i8)),
            _ => DataType::Decimal128(DIGITS, -(self.code as i8)),
        }
    }

    /// The type whose values an Arrow type carries.
    #[inline]
    pub fn of_arrow(kind: &DataType) -> Option<&'static NumberedType> {
        match kind {
            DataType::Decimal128(DIGITS, scale @ ..0) | DataType::Decimal256(WIDE_DIGITS, scale @ ..0) => {
                NumberedType::of_code(scale.unsigned_abs()).filter(|found| found.arrow() == *kind)
            }
            DataType::Decimal128(digits, scale @ ..0) => EnumLabels::type_of_arrow(*digits, *scale),
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

    /// The number that arrays of up to 16 bytes hold for a value.
    #[inline]
    pub fn native(number: u128) -> i128 {
        (number ^ SIGN) as i128
    }

    /// The value for which arrays of up to 16 bytes hold `native`.
    #[inline]
    pub fn number(native: i128) -> u128 {
        native as u128 ^ SIGN
    }

    /// The number that arrays of more than 16 bytes hold for a value.
    #[inline]
    pub fn wide_native(number: UnsignedNumber) -> i256 {
        i256::from_parts(number.low, (number.high ^ SIGN) as i128)
    }

    /// The value for which arrays of more than 16 bytes hold `native`.
    #[inline]
    pub fn wide_number(native: i256) -> UnsignedNumber {
        let (low, high) = native.to_parts();
        UnsignedNumber { high: high as u128 ^ SIGN, low }
    }

    /// The type whose values an Arrow type carries, if they can be cast to BLOB and back. An ENUM has no such form.
    pub fn of_arrow_with_bytes(kind: &DataType) -> Option<&'static NumberedType> {
        NumberedType::of_arrow(kind).filter(|kind| kind.labels().is_none())
    }

    /// Reads the bytes of a BLOB as a value. `None` if their length is wrong.
    pub fn of_bytes(&self, bytes: &[u8]) -> Option<UnsignedNumber> {
        let mut all = [0; 32];
        (bytes.len() == self.bytes).then(|| {
            all[32 - self.bytes..].copy_from_slice(bytes);
            UnsignedNumber::from_be_bytes(all)
        })
    }

    /// Calls `take` with the bytes of a value as a BLOB.
    pub fn with_bytes<R>(&self, number: UnsignedNumber, take: impl FnOnce(&[u8]) -> R) -> R {
        take(&number.to_be_bytes()[32 - self.bytes..])
    }
}

/// A number as arrays of numbered types hold it.
pub trait NumberedNative: Copy {
    /// The number that arrays hold for a value. A value must not have more bits than the array.
    fn of_number(number: UnsignedNumber) -> Self;

    /// The value for which arrays hold this number.
    fn to_number(self) -> UnsignedNumber;
}

impl NumberedNative for i128 {
    #[inline]
    fn of_number(number: UnsignedNumber) -> i128 {
        NumberedType::native(number.low)
    }

    #[inline]
    fn to_number(self) -> UnsignedNumber {
        NumberedType::number(self).into()
    }
}

impl NumberedNative for i256 {
    #[inline]
    fn of_number(number: UnsignedNumber) -> i256 {
        NumberedType::wide_native(number)
    }

    #[inline]
    fn to_number(self) -> UnsignedNumber {
        NumberedType::wide_number(self)
    }
}

impl SqlType {
    /// The type as which values leave the engine: TEXT instead of JSON and numbered types, also inside of lists and
    /// structs.
    pub fn outside(&self) -> SqlType {
        match self {
            SqlType::Numbered(_) | SqlType::Json => SqlType::TEXT,
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
        self.code == other.code && self.labels().map(EnumLabels::number) == other.labels().map(EnumLabels::number)
    }
}

impl Eq for NumberedType {}

impl Hash for NumberedType {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.code.hash(state);
        self.labels().map(EnumLabels::number).hash(state);
    }
}
