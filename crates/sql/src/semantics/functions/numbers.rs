//! Floats with one NaN and one zero, and the two ways to narrow them.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Float32Array};
use arrow::datatypes::{DataType, Float32Type, Float64Type};
use datafusion::logical_expr::Expr;
use rowmill_base::{Error, Result};

use super::Function;
use crate::semantics::arithmetic::{canonical as canonical_floats, out_of_range};

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
