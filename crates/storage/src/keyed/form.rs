//! The byte form of values, which is the same in keys and in rows.

use rowmill_base::{Error, ErrorKind, Result, SqlType};

use super::ValueRef;

/// The number of decimal digits that always fit into 8 bytes.
const DIGITS_OF_8_BYTES: u8 = 18;

/// The byte form of a type. Widths are in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Bool,
    Int { width: usize },
    UInt { width: usize },
    Float32,
    Float64,
    Decimal { width: usize, digits: u8 },
    Interval,
    Uuid,
    Text,
    Blob,
    Nested,
}

impl Form {
    pub(super) fn of(kind: &SqlType) -> Form {
        match kind {
            SqlType::Boolean => Form::Bool,
            SqlType::Int8 => Form::Int { width: 1 },
            SqlType::Int16 => Form::Int { width: 2 },
            SqlType::Int32 | SqlType::Date => Form::Int { width: 4 },
            SqlType::Int64 | SqlType::Time | SqlType::Timestamp { .. } => Form::Int { width: 8 },
            SqlType::UInt8 => Form::UInt { width: 1 },
            SqlType::UInt16 => Form::UInt { width: 2 },
            SqlType::UInt32 => Form::UInt { width: 4 },
            SqlType::UInt64 => Form::UInt { width: 8 },
            SqlType::Float32 => Form::Float32,
            SqlType::Float64 => Form::Float64,
            SqlType::Decimal { precision, .. } => {
                let width = if *precision <= DIGITS_OF_8_BYTES { 8 } else { 16 };
                Form::Decimal { width, digits: *precision }
            }
            SqlType::Interval => Form::Interval,
            SqlType::Uuid => Form::Uuid,
            SqlType::Text { .. } => Form::Text,
            SqlType::Blob => Form::Blob,
            SqlType::List(_) | SqlType::Struct(_) => Form::Nested,
        }
    }

    /// The size of every value in bytes. `None` if it depends on the value.
    #[inline]
    pub(super) fn width(self) -> Option<usize> {
        match self {
            Form::Bool => Some(1),
            Form::Int { width } | Form::UInt { width } | Form::Decimal { width, .. } => Some(width),
            Form::Float32 => Some(4),
            Form::Float64 => Some(8),
            Form::Interval | Form::Uuid => Some(16),
            Form::Text | Form::Blob | Form::Nested => None,
        }
    }

    /// Makes the error for a value of the wrong type or outside of the range.
    #[cold]
    pub(super) fn refuse(self, value: ValueRef<'_>) -> Error {
        match (self, value) {
            (Form::Int { width }, ValueRef::Int(_)) | (Form::UInt { width }, ValueRef::UInt(_)) => {
                let what = format!("{value:?} does not fit an integer of {width} bytes");
                Error::new(ErrorKind::NumericOutOfRange, what)
            }
            (Form::Decimal { digits, .. }, ValueRef::Decimal(value)) => {
                Error::new(ErrorKind::NumericOutOfRange, format!("{value} has more than {digits} digits"))
            }
            _ => Error::internal(format!("{value:?} cannot be stored as {self:?}")),
        }
    }

    /// Checks that a value has this form and is in range. Integers and decimals must fit the column.
    #[inline]
    pub(super) fn check(self, value: ValueRef<'_>) -> Result<()> {
        match (self, value) {
            (_, ValueRef::Null) | (Form::Int { width: 8 }, ValueRef::Int(_)) | (Form::Text, ValueRef::Text(_)) => {
                Ok(())
            }
            _ => self.check_range(value),
        }
    }

    fn check_range(self, value: ValueRef<'_>) -> Result<()> {
        let fits = match (self, value) {
            (_, ValueRef::Null) => true,
            (Form::Int { width }, ValueRef::Int(value)) => {
                let unused = 64 - 8 * width as u32;
                (value << unused) >> unused == value
            }
            (Form::UInt { width }, ValueRef::UInt(value)) => value.leading_zeros() >= 64 - 8 * width as u32,
            (Form::Decimal { digits, .. }, ValueRef::Decimal(value)) => {
                value.unsigned_abs() < 10_u128.pow(u32::from(digits))
            }
            (Form::Uuid, ValueRef::Bytes(value)) => value.len() == 16,
            (Form::Bool, ValueRef::Bool(_))
            | (Form::Float32 | Form::Float64, ValueRef::Float(_))
            | (Form::Interval, ValueRef::Interval(_))
            | (Form::Text, ValueRef::Text(_))
            | (Form::Blob | Form::Nested, ValueRef::Bytes(_)) => true,
            _ => false,
        };
        if fits { Ok(()) } else { Err(self.refuse(value)) }
    }
}

/// Replaces every NaN by one NaN and -0.0 by 0.0, like chunks do.
pub(super) fn canonical_float(value: f64) -> f64 {
    if value.is_nan() { f64::NAN } else { value + 0.0 }
}
