//! Functions of REAL and DOUBLE.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Float32Array, Float64Array, PrimitiveArray, new_null_array};
use arrow::datatypes::{ArrowPrimitiveType, DataType, Float32Type, Float64Type, Int32Type};
use rowmill_base::{Error, ErrorKind, Result};
use rowmill_plan::Operand;

use super::not_a_number;
use crate::functions::rowwise::{NumberArgument, bigints, booleans, numbers, valid_rows};
use crate::kinds::out_of_range;

/// Returns the float with one NaN and one zero, because comparisons look at bits.
#[inline]
pub(super) fn canonical(value: f64) -> f64 {
    if value.is_nan() { f64::NAN } else { value + 0.0 }
}

/// Applies `function` to each number. A REAL is computed as a DOUBLE and rounded once.
pub(super) fn apply(
    arguments: &[Operand],
    kind: &DataType,
    rows: usize,
    function: impl Fn(f64) -> f64,
) -> Result<ArrayRef> {
    let values = &arguments[0].values;
    let made: ArrayRef = match kind {
        DataType::Float64 => {
            Arc::new(values.as_primitive::<Float64Type>().unary::<_, Float64Type>(|value| canonical(function(value))))
        }
        DataType::Float32 => {
            let of_real = |value: f32| canonical(function(f64::from(value))) as f32;
            Arc::new(values.as_primitive::<Float32Type>().unary::<_, Float32Type>(of_real))
        }
        other => return Err(not_a_number(other)),
    };
    Ok(if arguments[0].is_constant { repeated(&made, rows) } else { made })
}

/// Applies `function` to each pair of numbers.
pub(super) fn apply_pair(
    arguments: &[Operand],
    kind: &DataType,
    rows: usize,
    function: impl Fn(f64, f64) -> f64,
) -> Result<ArrayRef> {
    let Some(valid) = valid_rows(arguments) else { return Ok(new_null_array(kind, rows)) };
    Ok(match kind {
        DataType::Float64 => {
            let [left, right] = [0, 1].map(|index| NumberArgument::new::<Float64Type>(&arguments[index]));
            let values: Vec<f64> = (0..rows).map(|row| canonical(function(left.at(row), right.at(row)))).collect();
            Arc::new(Float64Array::new(values.into(), valid))
        }
        DataType::Float32 => {
            let [left, right] = [0, 1].map(|index| NumberArgument::new::<Float32Type>(&arguments[index]));
            let of_reals = |row| canonical(function(f64::from(left.at(row)), f64::from(right.at(row)))) as f32;
            let values: Vec<f32> = (0..rows).map(of_reals).collect();
            Arc::new(Float32Array::new(values.into(), valid))
        }
        other => return Err(not_a_number(other)),
    })
}

pub(super) fn power(arguments: &[Operand], kind: &DataType, rows: usize) -> Result<ArrayRef> {
    apply_pair(arguments, kind, rows, |base, exponent| match exponent {
        // Squares are the most frequent powers, and one product is as exact.
        2.0 => base * base,
        _ => base.powf(exponent),
    })
}

pub(super) fn log(arguments: &[Operand], kind: &DataType, rows: usize) -> Result<ArrayRef> {
    if arguments.len() == 1 {
        return apply(arguments, kind, rows, f64::log10);
    }
    apply_pair(arguments, kind, rows, |base, number| match base {
        // These are exact for powers of the base; the quotient of two logarithms is not.
        2.0 => number.log2(),
        10.0 => number.log10(),
        _ => number.ln() / base.ln(),
    })
}

pub(super) fn pi(_arguments: &[Operand], _kind: &DataType, rows: usize) -> Result<ArrayRef> {
    Ok(Arc::new(Float64Array::from_value(std::f64::consts::PI, rows)))
}

pub(super) fn isnan(arguments: &[Operand], _kind: &DataType, rows: usize) -> Result<ArrayRef> {
    match arguments[0].values.data_type() {
        DataType::Float64 => {
            let numbers = NumberArgument::new::<Float64Type>(&arguments[0]);
            booleans(arguments, rows, |row| numbers.at(row).is_nan())
        }
        DataType::Float32 => {
            let numbers = NumberArgument::new::<Float32Type>(&arguments[0]);
            booleans(arguments, rows, |row| numbers.at(row).is_nan())
        }
        _ => booleans(arguments, rows, |_| false),
    }
}

pub(super) fn width_bucket(arguments: &[Operand], kind: &DataType, rows: usize) -> Result<ArrayRef> {
    let [values, lows, highs] = [0, 1, 2].map(|index| NumberArgument::new::<Float64Type>(&arguments[index]));
    let counts = bigints(&arguments[3]);
    let refused = |why: &str| Error::new(ErrorKind::InvalidParameter, format!("width_bucket: {why}"));
    numbers::<Int32Type>(arguments, kind, rows, |row| {
        let (value, low, high, count) = (values.at(row), lows.at(row), highs.at(row), counts.at(row));
        if count <= 0 {
            return Err(refused(&format!("the number of buckets must be positive: {count}")));
        }
        // The bucket above the last one has the number `count + 1`, which must fit too.
        if count >= i64::from(i32::MAX) {
            return Err(out_of_range(count, kind));
        }
        if !low.is_finite() || !high.is_finite() || low == high {
            return Err(refused(&format!("the bounds must be finite and differ: {low} and {high}")));
        }
        if value.is_nan() {
            return Err(refused("the value is NaN"));
        }
        // If the first bound is the larger one, the buckets are numbered from it downwards.
        let share = (value - low) / (high - low);
        Ok(match share {
            share if share < 0.0 => 0,
            share if share >= 1.0 => count as i32 + 1,
            share => (share * count as f64) as i32 + 1,
        })
    })
}

/// Returns a column of `rows` rows that repeats the only value of `values`.
pub(super) fn repeated(values: &ArrayRef, rows: usize) -> ArrayRef {
    fn of<T: ArrowPrimitiveType>(values: &ArrayRef, rows: usize) -> ArrayRef {
        let value = values.as_primitive::<T>().value(0);
        Arc::new(PrimitiveArray::<T>::from_value(value, rows).with_data_type(values.data_type().clone()))
    }
    match values.data_type() {
        kind if values.is_null(0) => new_null_array(kind, rows),
        DataType::Float32 => of::<Float32Type>(values, rows),
        DataType::Float64 => of::<Float64Type>(values, rows),
        DataType::Decimal128(..) => of::<arrow::datatypes::Decimal128Type>(values, rows),
        DataType::Decimal256(..) => of::<arrow::datatypes::Decimal256Type>(values, rows),
        kind => super::for_integer!(kind, of(values, rows), new_null_array(kind, rows)),
    }
}
