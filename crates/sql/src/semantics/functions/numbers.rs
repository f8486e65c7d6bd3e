//! Floats with one NaN and one zero, the two ways to narrow them, and quotients of whole numbers.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Decimal128Array, Float32Array};
use arrow::datatypes::{DataType, Decimal128Type, Float32Type, Float64Type};
use datafusion::logical_expr::Expr;
use rowmill_base::{Error, Result};
use rowmill_storage::canonical_floats;

use super::Function;
use crate::semantics::arithmetic::{division_by_zero, out_of_range};

/// `expr` with one NaN and one zero.
pub(in crate::semantics) fn canonical(expr: Expr) -> Expr {
    Function::new("canonical", same_float, |columns, _| Ok(canonical_floats(&columns[0]))).call(vec![expr])
}

/// `expr` rounded to a whole number, ties to even.
pub(in crate::semantics) fn round_even(expr: Expr) -> Expr {
    Function::new("round_even", same_float, run_round_even).call(vec![expr])
}

/// `expr`, a DOUBLE, as REAL; one that only REAL's infinity is near is out of range.
pub(in crate::semantics) fn real(expr: Expr) -> Expr {
    Function::new("real", |_| Some(DataType::Float32), run_real).call(vec![expr])
}

/// `left / right` of two DECIMALs without a fraction, truncated toward zero.
pub(in crate::semantics) fn integer_quotient(left: Expr, right: Expr) -> Expr {
    let kind: fn(&[DataType]) -> Option<DataType> = |types| types.first().cloned();
    Function::new("integer_quotient", kind, run_integer_quotient).call(vec![left, right])
}

fn run_integer_quotient(columns: &[ArrayRef], _rows: usize) -> Result<ArrayRef> {
    let (left, right) = (columns[0].as_primitive::<Decimal128Type>(), columns[1].as_primitive::<Decimal128Type>());
    let quotients = left.iter().zip(right.iter()).map(|(left, right)| match left.zip(right) {
        Some((_, 0)) => Err(division_by_zero()),
        pair => Ok(pair.map(|(left, right)| left / right)),
    });
    let quotients: Decimal128Array = quotients.collect::<Result<_>>()?;
    Ok(Arc::new(quotients.with_data_type(left.data_type().clone())))
}

fn same_float(types: &[DataType]) -> Option<DataType> {
    types.first().filter(|kind| kind.is_floating()).cloned()
}

fn run_round_even(columns: &[ArrayRef], _rows: usize) -> Result<ArrayRef> {
    Ok(match columns[0].data_type() {
        DataType::Float32 => {
            Arc::new(columns[0].as_primitive::<Float32Type>().unary::<_, Float32Type>(f32::round_ties_even))
        }
        DataType::Float64 => {
            Arc::new(columns[0].as_primitive::<Float64Type>().unary::<_, Float64Type>(f64::round_ties_even))
        }
        other => return Err(Error::internal(format!("rounding {other}"))),
    })
}

fn run_real(columns: &[ArrayRef], _rows: usize) -> Result<ArrayRef> {
    let doubles = columns[0].as_primitive::<Float64Type>();
    let reals: Float32Array = doubles.unary(|value| value as f32);
    let lost = doubles.iter().flatten().find(|value| value.is_finite() && (*value as f32).is_infinite());
    match lost {
        Some(value) => Err(out_of_range(format!("{value:e}"), &DataType::Float32)),
        None => Ok(Arc::new(reals)),
    }
}
