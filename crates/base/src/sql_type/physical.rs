//! How values are represented: the few forms on which storage, keys, rows and kernels depend.
//!
//! Code that only moves, compares, groups or stores values should ask for the form, not for the type. Then a new type
//! over an existing form needs no change there.

use super::{NARROW_DIGITS_MAX, SqlType};

macro_rules! physicals {
    ($($(#[$doc:meta])* $name:ident = $number:literal,)*) => {
        /// The form of a type's values. Its number is part of the file format (`docs/file-format.md`, "Types and
        /// keys").
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub enum Physical { $($(#[$doc])* $name = $number,)* }

        impl Physical {
            /// The form with this number in files.
            pub fn from_number(number: u8) -> Option<Physical> {
                match number { $($number => Some(Physical::$name),)* _ => None }
            }
        }
    };
}

physicals! {
    /// One bit in memory, one byte as a key.
    Boolean = 1,
    /// 8 bits, signed.
    Int8 = 2,
    /// 16 bits, signed.
    Int16 = 3,
    /// 32 bits, signed; dates.
    Int32 = 4,
    /// 64 bits, signed; times and timestamps.
    Int64 = 5,
    /// 8 bits.
    UInt8 = 6,
    /// 16 bits.
    UInt16 = 7,
    /// 32 bits.
    UInt32 = 8,
    /// 64 bits.
    UInt64 = 9,
    /// IEEE 754 single.
    Float32 = 10,
    /// IEEE 754 double.
    Float64 = 11,
    /// 128 bits, signed; also the numbered types of up to 16 bytes.
    Decimal = 12,
    /// 16 bytes, compared from the first to the last.
    Uuid = 13,
    /// Months, days, nanoseconds.
    Interval = 14,
    /// UTF-8.
    Text = 15,
    /// Bytes.
    Blob = 16,
    /// Lists, structs and JSON.
    Nested = 17,
    /// 256 bits, signed; also the numbered types of more than 16 bytes.
    Wide = 18,
}

impl Physical {
    /// The form of values of `kind`.
    #[inline]
    pub fn of(kind: &SqlType) -> Physical {
        match kind {
            SqlType::Boolean => Physical::Boolean,
            SqlType::Int8 => Physical::Int8,
            SqlType::Int16 => Physical::Int16,
            SqlType::Int32 | SqlType::Date => Physical::Int32,
            SqlType::Int64 | SqlType::Time | SqlType::Timestamp { .. } => Physical::Int64,
            SqlType::UInt8 => Physical::UInt8,
            SqlType::UInt16 => Physical::UInt16,
            SqlType::UInt32 => Physical::UInt32,
            SqlType::UInt64 => Physical::UInt64,
            SqlType::Float32 => Physical::Float32,
            SqlType::Float64 => Physical::Float64,
            SqlType::Decimal { precision: ..=NARROW_DIGITS_MAX, .. } => Physical::Decimal,
            SqlType::Decimal { .. } => Physical::Wide,
            SqlType::Numbered(kind) if kind.is_wide() => Physical::Wide,
            SqlType::Numbered(_) => Physical::Decimal,
            SqlType::Uuid => Physical::Uuid,
            SqlType::Interval => Physical::Interval,
            SqlType::Text { .. } => Physical::Text,
            SqlType::Blob => Physical::Blob,
            SqlType::Json | SqlType::List(_) | SqlType::Struct(_) => Physical::Nested,
        }
    }
}
