//! Casts between numbers.
//!
//! A float becomes the nearest integer, with ties to even. A decimal is rounded half away from zero. A float becomes
//! the decimal nearest to its shortest text, so that 0.1 stays 0.1.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, PrimitiveArray};
use arrow::buffer::BooleanBuffer;
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{
    ArrowPrimitiveType, DataType, Decimal128Type, Decimal256Type, Float32Type, Float64Type, Int8Type, Int16Type,
    Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type, i256,
};
use rowmill_base::{Error, Result};

use super::{convert_values, shown};
use crate::kinds::{arrow_failed, is_float, out_of_range};
use crate::text::reader::{Integer, parse_decimal, parse_f32, parse_f64};
use crate::text::writer::decimal_text;
use crate::unscaled::Unscaled;

/// Casts numbers to another type of numbers.
pub(super) fn cast_number(array: &ArrayRef, kind: &DataType, or_null: bool) -> Result<ArrayRef> {
    let from = array.data_type();
    match kind {
        _ if from == kind => Ok(Arc::clone(array)),
        DataType::Decimal128(digits, scale) => to_decimal::<i128>(array, kind, *digits, *scale, or_null),
        DataType::Decimal256(digits, scale) => to_decimal::<i256>(array, kind, *digits, *scale, or_null),
        _ if let DataType::Decimal128(_, scale) = from => decimal_to::<i128>(array, *scale, kind, or_null),
        _ if let DataType::Decimal256(_, scale) = from => decimal_to::<i256>(array, *scale, kind, or_null),
        DataType::Float32 if *from == DataType::Float64 => narrow_float(array, or_null),
        _ if is_float(from) && kind.is_integer() => float_to_integer(array, kind, or_null),
        _ => by_arrow(array, array, kind, or_null),
    }
}

/// Casts with Arrow, which makes NULL of a value that does not fit. `original` has the values that an error shows.
fn by_arrow(array: &ArrayRef, original: &ArrayRef, kind: &DataType, or_null: bool) -> Result<ArrayRef> {
    // With `safe`, Arrow gives NULL for a value that does not fit, so we can find the row for the error.
    let options = CastOptions { safe: true, ..CastOptions::default() };
    let cast = cast_with_options(array, kind, &options).map_err(arrow_failed)?;
    if or_null || cast.null_count() == array.null_count() {
        return Ok(cast);
    }
    match (0..array.len()).find(|row| cast.is_null(*row) && array.is_valid(*row)) {
        Some(row) => Err(out_of_range(shown(original, row), kind)),
        None => Ok(cast),
    }
}

fn float_to_integer(array: &ArrayRef, kind: &DataType, or_null: bool) -> Result<ArrayRef> {
    let rounded: ArrayRef = match array.data_type() {
        DataType::Float32 => {
            Arc::new(array.as_primitive::<Float32Type>().unary::<_, Float32Type>(f32::round_ties_even))
        }
        _ => Arc::new(array.as_primitive::<Float64Type>().unary::<_, Float64Type>(f64::round_ties_even)),
    };
    by_arrow(&rounded, array, kind, or_null)
}

fn narrow_float(array: &ArrayRef, or_null: bool) -> Result<ArrayRef> {
    let floats = array.as_primitive::<Float64Type>();
    let narrow = |value: f64| {
        let narrow = value as f32;
        // A finite DOUBLE that becomes infinite does not fit.
        (narrow.is_finite() || !value.is_finite()).then_some(narrow + 0.0)
    };
    let failure = |row| out_of_range(shown(array, row), &DataType::Float32);
    let values: PrimitiveArray<Float32Type> =
        convert_values(floats.values(), floats.nulls(), or_null, narrow, failure)?;
    Ok(Arc::new(values))
}

/// Casts numbers to BOOLEAN. Zero is false, every other number is true.
pub(super) fn to_boolean(array: &ArrayRef) -> Result<ArrayRef> {
    macro_rules! nonzero {
        ($kind:ty, $zero:expr) => {{
            let values = array.as_primitive::<$kind>().values();
            BooleanBuffer::collect_bool(values.len(), |row| values[row] != $zero)
        }};
    }
    let bits = match array.data_type() {
        DataType::Int8 => nonzero!(Int8Type, 0),
        DataType::Int16 => nonzero!(Int16Type, 0),
        DataType::Int32 => nonzero!(Int32Type, 0),
        DataType::Int64 => nonzero!(Int64Type, 0),
        DataType::UInt8 => nonzero!(UInt8Type, 0),
        DataType::UInt16 => nonzero!(UInt16Type, 0),
        DataType::UInt32 => nonzero!(UInt32Type, 0),
        DataType::UInt64 => nonzero!(UInt64Type, 0),
        DataType::Float32 => nonzero!(Float32Type, 0.0),
        DataType::Float64 => nonzero!(Float64Type, 0.0),
        DataType::Decimal128(..) => nonzero!(Decimal128Type, 0),
        DataType::Decimal256(..) => nonzero!(Decimal256Type, i256::ZERO),
        other => return Err(Error::internal(format!("{other} as BOOLEAN"))),
    };
    Ok(Arc::new(BooleanArray::new(bits, array.nulls().cloned())))
}

/// Returns `value * 10^-from` as a multiple of `10^-to`, rounded half away from zero, or `None` if it is not less than
/// `bound`.
#[inline]
pub(crate) fn rescale<N: Unscaled>(value: N, from: i8, to: i8, bound: N) -> Option<N> {
    let shift = i32::from(to) - i32::from(from);
    let value = match shift {
        0 => value,
        1.. => value.multiply(N::checked_power_of_ten(shift.unsigned_abs())?)?,
        _ => value.divide_rounding(N::power_of_ten(shift.unsigned_abs())),
    };
    value.is_within(bound).then_some(value)
}

fn to_decimal<N: Unscaled + Integer>(
    array: &ArrayRef,
    kind: &DataType,
    digits: u8,
    scale: i8,
    or_null: bool,
) -> Result<ArrayRef> {
    let bound = N::power_of_ten(digits.into());
    let failure = |row| out_of_range(shown(array, row), kind);
    macro_rules! integers {
        ($kind:ty) => {{
            let values = array.as_primitive::<$kind>();
            let convert = |value| rescale(N::of(i128::from(value)), 0, scale, bound);
            convert_values::<_, N::Decimal>(values.values(), values.nulls(), or_null, convert, failure)
        }};
    }
    let values: PrimitiveArray<N::Decimal> = match array.data_type() {
        DataType::Int8 => integers!(Int8Type),
        DataType::Int16 => integers!(Int16Type),
        DataType::Int32 => integers!(Int32Type),
        DataType::Int64 => integers!(Int64Type),
        DataType::UInt8 => integers!(UInt8Type),
        DataType::UInt16 => integers!(UInt16Type),
        DataType::UInt32 => integers!(UInt32Type),
        DataType::UInt64 => integers!(UInt64Type),
        DataType::Decimal128(_, from) => {
            let values = array.as_primitive::<Decimal128Type>();
            let convert = |value| rescale(N::of(value), *from, scale, bound);
            convert_values(values.values(), values.nulls(), or_null, convert, failure)
        }
        DataType::Decimal256(_, from) => {
            let values = array.as_primitive::<Decimal256Type>();
            // The value is rounded in 256 bits, because the rounded one may fit where the value itself does not.
            let convert = |value: i256| N::of_wide(rescale(value, *from, scale, bound.widen())?);
            convert_values(values.values(), values.nulls(), or_null, convert, failure)
        }
        DataType::Float32 => {
            let values = array.as_primitive::<Float32Type>();
            let convert = |value: f32| {
                let mut text = ryu::Buffer::new();
                parse_decimal(text.format(value), digits, scale.unsigned_abs()).ok()
            };
            convert_values(values.values(), values.nulls(), or_null, convert, failure)
        }
        DataType::Float64 => {
            let values = array.as_primitive::<Float64Type>();
            let convert = |value: f64| {
                let mut text = ryu::Buffer::new();
                parse_decimal(text.format(value), digits, scale.unsigned_abs()).ok()
            };
            convert_values(values.values(), values.nulls(), or_null, convert, failure)
        }
        other => return Err(Error::internal(format!("{other} as DECIMAL"))),
    }?;
    Ok(Arc::new(values.with_precision_and_scale(digits, scale).map_err(arrow_failed)?))
}

fn decimal_to<N: Unscaled>(array: &ArrayRef, scale: i8, kind: &DataType, or_null: bool) -> Result<ArrayRef> {
    let values = array.as_primitive::<N::Decimal>();
    let failure = |row| out_of_range(shown(array, row), kind);
    fn integers<N: Unscaled, T: ArrowPrimitiveType>(
        values: &PrimitiveArray<N::Decimal>,
        scale: i8,
        or_null: bool,
        failure: impl Fn(usize) -> Error,
    ) -> Result<ArrayRef>
    where
        T::Native: TryFrom<i128>,
    {
        // A value with all digits that the integer can have is less than the bound.
        let bound = N::power_of_ten(N::DIGITS_MAX.into());
        let whole = |value: N| T::Native::try_from(rescale(value, scale, 0, bound)?.narrow()?).ok();
        let array: PrimitiveArray<T> = convert_values(values.values(), values.nulls(), or_null, whole, failure)?;
        Ok(Arc::new(array))
    }
    match kind {
        DataType::Int8 => integers::<N, Int8Type>(values, scale, or_null, failure),
        DataType::Int16 => integers::<N, Int16Type>(values, scale, or_null, failure),
        DataType::Int32 => integers::<N, Int32Type>(values, scale, or_null, failure),
        DataType::Int64 => integers::<N, Int64Type>(values, scale, or_null, failure),
        DataType::UInt8 => integers::<N, UInt8Type>(values, scale, or_null, failure),
        DataType::UInt16 => integers::<N, UInt16Type>(values, scale, or_null, failure),
        DataType::UInt32 => integers::<N, UInt32Type>(values, scale, or_null, failure),
        DataType::UInt64 => integers::<N, UInt64Type>(values, scale, or_null, failure),
        DataType::Float64 => {
            let power = 10_f64.powi(scale.into());
            let values: PrimitiveArray<Float64Type> = values.unary(|value| decimal_to_f64(value, scale, power));
            Ok(Arc::new(values))
        }
        DataType::Float32 => {
            let convert = |value| decimal_to_f32(value, scale);
            let values: PrimitiveArray<Float32Type> =
                convert_values(values.values(), values.nulls(), or_null, convert, failure)?;
            Ok(Arc::new(values))
        }
        other => Err(Error::internal(format!("DECIMAL as {other}"))),
    }
}

/// Returns the double nearest to `value * 10^-scale`. `power` is the double nearest to `10^scale`.
#[inline]
fn decimal_to_f64<N: Unscaled>(value: N, scale: i8, power: f64) -> f64 {
    // Both operands are exact doubles, so the division rounds only once. Powers of ten are exact up to 10^22. A number
    // of 64 bits becomes a double in one instruction, one of 128 bits takes a call.
    if let Some(value) = value.narrow().and_then(|value| i64::try_from(value).ok())
        && value.unsigned_abs() <= 1 << f64::MANTISSA_DIGITS
        && (0..=22).contains(&scale)
    {
        return value as f64 / power;
    }
    parse_f64(&decimal_text(value.widen(), scale)).unwrap_or(value.to_double() / power)
}

/// Returns the REAL nearest to `value * 10^-scale`, or `None` if that is infinite.
fn decimal_to_f32<N: Unscaled>(value: N, scale: i8) -> Option<f32> {
    if let Some(value) = value.narrow()
        && value.unsigned_abs() <= 1 << f32::MANTISSA_DIGITS
        && (0..=10).contains(&scale)
    {
        return Some(value as f32 / 10_f32.powi(scale.into()));
    }
    parse_f32(&decimal_text(value.widen(), scale)).ok()
}
