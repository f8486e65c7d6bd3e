//! The byte form of values, which is the same in keys and in rows.

use arrow::datatypes::i256;
use rowmill_base::{Error, ErrorKind, Physical, Result, SqlType};

use super::ValueRef;
use crate::wide::{WIDE_BYTES, of_ordered_bytes};

/// The number of decimal digits that always fit into 8 bytes.
const DIGITS_OF_8_BYTES: u8 = 18;

/// The digits of a form that takes every number of 16 bytes.
const ANY_DIGITS: u8 = u8::MAX;

/// The byte form of a type. Widths are in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ValueForm {
    Bool,
    Int {
        width: usize,
    },
    UInt {
        width: usize,
    },
    Float32,
    Float64,
    Decimal {
        width: usize,
        digits: u8,
    },
    Interval,
    Uuid,
    /// A number of 256 bits, as its [ordered bytes](crate::ordered_bytes).
    Wide {
        digits: u8,
    },
    Text,
    Blob,
    Nested,
}

impl ValueForm {
    pub(super) fn of(kind: &SqlType) -> ValueForm {
        match Physical::of(kind) {
            Physical::Boolean => ValueForm::Bool,
            Physical::Int8 => ValueForm::Int { width: 1 },
            Physical::Int16 => ValueForm::Int { width: 2 },
            Physical::Int32 => ValueForm::Int { width: 4 },
            Physical::Int64 => ValueForm::Int { width: 8 },
            Physical::UInt8 => ValueForm::UInt { width: 1 },
            Physical::UInt16 => ValueForm::UInt { width: 2 },
            Physical::UInt32 => ValueForm::UInt { width: 4 },
            Physical::UInt64 => ValueForm::UInt { width: 8 },
            Physical::Float32 => ValueForm::Float32,
            Physical::Float64 => ValueForm::Float64,
            Physical::Decimal => match kind {
                SqlType::Decimal { precision, .. } if *precision <= DIGITS_OF_8_BYTES => {
                    ValueForm::Decimal { width: 8, digits: *precision }
                }
                SqlType::Decimal { precision, .. } => ValueForm::Decimal { width: 16, digits: *precision },
                _ => ValueForm::Decimal { width: 16, digits: ANY_DIGITS },
            },
            Physical::Wide => match kind {
                SqlType::Decimal { precision, .. } => ValueForm::Wide { digits: *precision },
                _ => ValueForm::Wide { digits: ANY_DIGITS },
            },
            Physical::Interval => ValueForm::Interval,
            Physical::Uuid => ValueForm::Uuid,
            Physical::Text => ValueForm::Text,
            Physical::Blob => ValueForm::Blob,
            // A document is stored as its text, which costs less than a chunk.
            Physical::Nested if *kind == SqlType::Json => ValueForm::Text,
            Physical::Nested => ValueForm::Nested,
        }
    }

    /// The size of every value in bytes. `None` if it depends on the value.
    #[inline]
    pub(super) fn width(self) -> Option<usize> {
        match self {
            ValueForm::Bool => Some(1),
            ValueForm::Int { width } | ValueForm::UInt { width } | ValueForm::Decimal { width, .. } => Some(width),
            ValueForm::Float32 => Some(4),
            ValueForm::Float64 => Some(8),
            ValueForm::Interval | ValueForm::Uuid => Some(16),
            ValueForm::Wide { .. } => Some(WIDE_BYTES),
            ValueForm::Text | ValueForm::Blob | ValueForm::Nested => None,
        }
    }

    /// Makes the error for a value of the wrong type or outside of the range.
    #[cold]
    pub(super) fn refuse(self, value: ValueRef<'_>) -> Error {
        match (self, value) {
            (ValueForm::Int { width }, ValueRef::Int(_)) | (ValueForm::UInt { width }, ValueRef::UInt(_)) => {
                let what = format!("{value:?} does not fit an integer of {width} bytes");
                Error::new(ErrorKind::NumericOutOfRange, what)
            }
            (ValueForm::Decimal { digits, .. }, ValueRef::Decimal(value)) => {
                Error::new(ErrorKind::NumericOutOfRange, format!("{value} has more than {digits} digits"))
            }
            (ValueForm::Wide { digits }, ValueRef::Bytes(bytes)) if let Ok(bytes) = bytes.try_into() => {
                let value = of_ordered_bytes(bytes);
                Error::new(ErrorKind::NumericOutOfRange, format!("{value} has more than {digits} digits"))
            }
            _ => Error::internal(format!("{value:?} cannot be stored as {self:?}")),
        }
    }

    /// Checks that a value has this form and is in range. Integers and decimals must fit the column.
    #[inline]
    pub(super) fn check(self, value: ValueRef<'_>) -> Result<()> {
        match (self, value) {
            (_, ValueRef::Null)
            | (ValueForm::Int { width: 8 }, ValueRef::Int(_))
            | (ValueForm::Text, ValueRef::Text(_)) => Ok(()),
            _ => self.check_range(value),
        }
    }

    fn check_range(self, value: ValueRef<'_>) -> Result<()> {
        let fits = match (self, value) {
            (_, ValueRef::Null) => true,
            (ValueForm::Int { width }, ValueRef::Int(value)) => {
                let unused = 64 - 8 * width as u32;
                (value << unused) >> unused == value
            }
            (ValueForm::UInt { width }, ValueRef::UInt(value)) => value.leading_zeros() >= 64 - 8 * width as u32,
            (ValueForm::Decimal { digits: ANY_DIGITS, .. }, ValueRef::Decimal(_)) => true,
            (ValueForm::Decimal { digits, .. }, ValueRef::Decimal(value)) => {
                value.unsigned_abs() < 10_u128.pow(u32::from(digits))
            }
            (ValueForm::Uuid, ValueRef::Bytes(value)) => value.len() == 16,
            (ValueForm::Wide { digits }, ValueRef::Bytes(value)) => {
                value.first_chunk().is_some_and(|bytes| value.len() == WIDE_BYTES && has_digits(*bytes, digits))
            }
            (ValueForm::Bool, ValueRef::Bool(_))
            | (ValueForm::Float32 | ValueForm::Float64, ValueRef::Float(_))
            | (ValueForm::Interval, ValueRef::Interval(_))
            | (ValueForm::Text, ValueRef::Text(_))
            | (ValueForm::Blob | ValueForm::Nested, ValueRef::Bytes(_)) => true,
            _ => false,
        };
        if fits { Ok(()) } else { Err(self.refuse(value)) }
    }
}

/// Whether the number of these ordered bytes has at most `digits` digits.
fn has_digits(bytes: [u8; WIDE_BYTES], digits: u8) -> bool {
    let value = of_ordered_bytes(bytes);
    match i256::from_i128(10).checked_pow(u32::from(digits)) {
        Some(bound) => value < bound && value > bound.wrapping_neg(),
        // The bound of numbers with any digits is out of range.
        None => true,
    }
}

/// Replaces every NaN by one NaN and -0.0 by 0.0, like chunks do.
pub(super) fn canonical_float(value: f64) -> f64 {
    if value.is_nan() { f64::NAN } else { value + 0.0 }
}
