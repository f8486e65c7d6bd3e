//! Properties of types for typing, kernels and texts, and errors that show types by their SQL names.

use arrow::array::AsArray;
use arrow::datatypes::{
    DataType, Decimal128Type, Decimal256Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type,
    UInt32Type, UInt64Type, i256,
};
use rowmill_base::{Error, ErrorKind, SqlType};
use rowmill_plan::Constant;

/// The largest number of digits of a decimal of 128 bits.
pub const DIGITS_MAX: u8 = rowmill_base::NARROW_DIGITS_MAX;

/// The largest number of digits of a decimal.
pub const WIDE_DIGITS_MAX: u8 = rowmill_base::WIDE_DIGITS_MAX;

/// Returns the SQL name of a type, or Arrow's name if SQL has none.
pub fn type_name(kind: &DataType) -> String {
    match kind {
        DataType::Null => "NULL".to_owned(),
        _ => SqlType::from_arrow(kind).map_or_else(|| kind.to_string(), |kind| kind.to_string()),
    }
}

/// Whether a type is REAL or DOUBLE.
pub fn is_float(kind: &DataType) -> bool {
    matches!(kind, DataType::Float32 | DataType::Float64)
}

/// Whether a type is a DECIMAL. A negative scale belongs to a [numbered type](rowmill_base::NumberedType).
pub fn is_decimal(kind: &DataType) -> bool {
    matches!(kind, DataType::Decimal128(_, 0..) | DataType::Decimal256(_, 0..))
}

/// Whether a type is a DECIMAL of more than 38 digits.
pub fn is_wide_decimal(kind: &DataType) -> bool {
    matches!(kind, DataType::Decimal256(_, 0..))
}

/// Returns the most digits of a decimal result of operands of these types: 38, or 76 if one of them has more than 38.
pub(crate) fn digits_max_of(kinds: [&DataType; 2]) -> u8 {
    if kinds.into_iter().any(is_wide_decimal) { WIDE_DIGITS_MAX } else { DIGITS_MAX }
}

/// Whether a type is an integer, a DECIMAL, REAL or DOUBLE.
pub fn is_number(kind: &DataType) -> bool {
    kind.is_integer() || is_float(kind) || is_decimal(kind)
}

/// Returns the digits that hold every value of an integer type.
pub(crate) fn digits_of_integer(kind: &DataType) -> Option<u8> {
    Some(match kind {
        DataType::Int8 | DataType::UInt8 => 3,
        DataType::Int16 | DataType::UInt16 => 5,
        DataType::Int32 | DataType::UInt32 => 10,
        DataType::Int64 => 19,
        DataType::UInt64 => 20,
        _ => return None,
    })
}

/// Returns the digits of a number, at least one.
pub(crate) fn digits_of(value: i128) -> u8 {
    value.unsigned_abs().checked_ilog10().map_or(1, |digits| digits as u8 + 1)
}

/// Returns the least and the greatest value of an integer type.
pub(crate) fn integer_bounds(kind: &DataType) -> Option<(i128, i128)> {
    Some(match kind {
        DataType::Int8 => (i8::MIN.into(), i8::MAX.into()),
        DataType::Int16 => (i16::MIN.into(), i16::MAX.into()),
        DataType::Int32 => (i32::MIN.into(), i32::MAX.into()),
        DataType::Int64 => (i64::MIN.into(), i64::MAX.into()),
        DataType::UInt8 => (0, u8::MAX.into()),
        DataType::UInt16 => (0, u16::MAX.into()),
        DataType::UInt32 => (0, u32::MAX.into()),
        DataType::UInt64 => (0, u64::MAX.into()),
        _ => return None,
    })
}

/// Returns the digits and scale of an exact number: of a DECIMAL, or of the decimals that hold an integer type.
pub(crate) fn digits_and_scale(kind: &DataType) -> Option<(u8, i8)> {
    match kind {
        DataType::Decimal128(digits, scale @ 0..) | DataType::Decimal256(digits, scale @ 0..) => {
            Some((*digits, *scale))
        }
        other => digits_of_integer(other).map(|digits| (digits, 0)),
    }
}

/// Returns `10^exponent`. The exponent must be at most 38.
pub(crate) fn power_of_ten(exponent: u32) -> i128 {
    10_i128.pow(exponent)
}

/// Returns the value of a constant integer or decimal as an integer of 256 bits and its scale, or `None` for NULL and
/// other types.
pub(crate) fn exact_wide_value(constant: &Constant) -> Option<(i256, i8)> {
    match constant.kind() {
        DataType::Decimal256(_, scale @ 0..) if !constant.is_null() => {
            Some((constant.array().as_primitive::<Decimal256Type>().value(0), *scale))
        }
        _ => exact_value(constant).map(|(value, scale)| (i256::from_i128(value), scale)),
    }
}

/// Returns the value of a constant integer or decimal of at most 38 digits as an integer and its scale, or `None` for
/// NULL and other types.
pub(crate) fn exact_value(constant: &Constant) -> Option<(i128, i8)> {
    if constant.is_null() {
        return None;
    }
    let array = constant.array();
    macro_rules! first {
        ($kind:ty) => {
            (i128::from(array.as_primitive::<$kind>().value(0)), 0)
        };
    }
    Some(match array.data_type() {
        DataType::Int8 => first!(Int8Type),
        DataType::Int16 => first!(Int16Type),
        DataType::Int32 => first!(Int32Type),
        DataType::Int64 => first!(Int64Type),
        DataType::UInt8 => first!(UInt8Type),
        DataType::UInt16 => first!(UInt16Type),
        DataType::UInt32 => first!(UInt32Type),
        DataType::UInt64 => first!(UInt64Type),
        DataType::Decimal128(_, scale @ 0..) => (array.as_primitive::<Decimal128Type>().value(0), *scale),
        _ => return None,
    })
}

/// Returns the error for a result that its type cannot hold.
pub fn out_of_range(what: impl std::fmt::Display, kind: &DataType) -> Error {
    Error::new(ErrorKind::NumericOutOfRange, format!("number out of range: {what} does not fit {}", type_name(kind)))
}

/// Returns the error for a division by zero.
pub(crate) fn division_by_zero() -> Error {
    Error::new(ErrorKind::DivisionByZero, "division by zero")
}

/// Returns the error for an Arrow function that fails. Only a bug of ours can cause it.
pub(crate) fn arrow_failed(error: arrow::error::ArrowError) -> Error {
    Error::internal(error.to_string())
}
