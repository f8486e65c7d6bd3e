//! The values of an expression for a batch.
//!
//! An expression is prepared once: constants are decoded, patterns compiled, lists of constants hashed. Each operator then
//! makes a whole column of its operands' columns; a constant stays one value as far up as it can.
//!
//! Where SQL evaluates an operand only for some rows (AND, OR, CASE, COALESCE), the input is narrowed to these rows
//! if the operand can fail, or if it costs more than the narrowing. Otherwise it is evaluated for all rows, and its values
//! are used where they are wanted.

mod branches;
mod constant_set;
mod each_item;
mod junction;
mod narrowed;
mod prepared;

use arrow::array::{Array, ArrayRef, AsArray, UInt32Array, new_empty_array, new_null_array};
use arrow::buffer::BooleanBuffer;
use arrow::datatypes::DataType;
use rowmill_base::{Error, Result};
use rowmill_plan::{Operand, ScalarExpr};

use crate::kinds::{arrow_failed, type_name};
use narrowed::InputRows;
use prepared::PreparedExpr;

/// An expression over positions, prepared to be evaluated for many batches: constants are decoded, patterns compiled,
/// lists hashed. Threads share it.
#[derive(Debug)]
pub struct Evaluator {
    root: PreparedExpr,
}

impl Evaluator {
    /// Prepares `expr`, which holds neither parameters nor subqueries, and whose columns are positions.
    pub fn new(expr: &ScalarExpr) -> Result<Evaluator> {
        Ok(Evaluator { root: PreparedExpr::new(expr)? })
    }

    /// The type of the values.
    pub fn kind(&self) -> &DataType {
        &self.root.kind
    }

    /// The positions of the columns that are read, ascending.
    pub fn columns(&self) -> &[usize] {
        &self.root.columns
    }

    /// The values for `rows` rows of the columns; `columns[i]` is column `i` of the expression.
    pub fn evaluate(&self, columns: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
        if rows == 0 {
            // No row, no error: not even constants are looked at.
            return Ok(new_empty_array(&self.root.kind));
        }
        spread(self.evaluate_operand(columns, rows)?, rows)
    }

    /// As [`Evaluator::evaluate`], but one value if it holds for all rows. `rows` must not be 0.
    pub fn evaluate_operand(&self, columns: &[ArrayRef], rows: usize) -> Result<Operand> {
        let operand = self.root.evaluate(InputRows { columns, rows })?;
        if operand.values.data_type() != &self.root.kind {
            let (found, wanted) = (type_name(operand.values.data_type()), type_name(&self.root.kind));
            return Err(Error::internal(format!("an expression of type {wanted} gave {found}")));
        }
        Ok(operand)
    }

    /// The rows for which a condition is true, neither false nor NULL.
    pub fn selected(&self, columns: &[ArrayRef], rows: usize) -> Result<BooleanBuffer> {
        if rows == 0 {
            return Ok(BooleanBuffer::new_unset(0));
        }
        truth(&self.evaluate_operand(columns, rows)?, rows)
    }
}

/// The rows for which a condition is true.
fn truth(operand: &Operand, rows: usize) -> Result<BooleanBuffer> {
    if *operand.values.data_type() == DataType::Null {
        return Ok(BooleanBuffer::new_unset(rows));
    }
    let values = operand
        .values
        .as_boolean_opt()
        .ok_or_else(|| Error::internal(format!("a condition of type {}", type_name(operand.values.data_type()))))?;
    if operand.is_constant {
        let is_true = values.is_valid(0) && values.value(0);
        return Ok(if is_true { BooleanBuffer::new_set(rows) } else { BooleanBuffer::new_unset(rows) });
    }
    Ok(match values.nulls() {
        Some(nulls) => values.values() & nulls.inner(),
        None => values.values().clone(),
    })
}

/// A value for each of `rows` rows.
fn spread(operand: Operand, rows: usize) -> Result<ArrayRef> {
    if !operand.is_constant {
        return Ok(operand.values);
    }
    if operand.values.is_null(0) {
        return Ok(new_null_array(operand.values.data_type(), rows));
    }
    arrow::compute::take(&operand.values, &UInt32Array::from_value(0, rows), None).map_err(arrow_failed)
}

#[cfg(test)]
mod tests;
