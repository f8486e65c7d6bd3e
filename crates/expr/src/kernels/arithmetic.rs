//! `+ - * / %` and the sign of numbers. No result may wrap or lose digits, and there is only one NaN and one zero.

mod decimals;
mod floats;
mod integers;

use arrow::array::{ArrayRef, new_null_array};
use arrow::datatypes::DataType;
use rowmill_base::{Error, Result};
use rowmill_plan::Operand;
use rowmill_plan::program::ArithmeticOp;

use crate::kinds::{is_decimal, type_name};

/// Computes `left op right` as `kind`. The operands must have the types that [`rowmill_plan::ExprOp::Arithmetic`]
/// takes.
pub fn arithmetic(op: ArithmeticOp, left: &Operand, right: &Operand, kind: &DataType, rows: usize) -> Result<ArrayRef> {
    let (first, second) = (left.values.data_type(), right.values.data_type());
    if *first == DataType::Null || *second == DataType::Null {
        return Ok(new_null_array(kind, rows));
    }
    match first {
        DataType::Float32 | DataType::Float64 if first == second => floats::apply(op, left, right, rows),
        _ if is_decimal(first) || is_decimal(second) => decimals::apply(op, left, right, kind, rows),
        _ if first.is_integer() && first == second => integers::apply(op, left, right, rows),
        _ => Err(Error::internal(format!("{} {op} {} was not typed", type_name(first), type_name(second)))),
    }
}

/// Computes `-value` of a signed integer, a DECIMAL or a float. Fails for the least integer, which has no opposite.
pub fn negate(value: &ArrayRef) -> Result<ArrayRef> {
    match value.data_type() {
        DataType::Float32 | DataType::Float64 => floats::negate(value),
        kind if is_decimal(kind) => decimals::negate(value),
        kind if kind.is_signed_integer() => integers::negate(value),
        kind => Err(Error::internal(format!("-{} was not typed", type_name(kind)))),
    }
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod wide_tests;
