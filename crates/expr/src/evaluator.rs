//! The evaluator: computes the values of an expression for a batch.
//!
//! An expression is prepared once: constants are decoded, patterns compiled, lists of constants hashed. Then each
//! operator makes one column from the columns of its operands. A constant stays a single value as long as possible.
//!
//! SQL evaluates some operands only for some rows (AND, OR, CASE, COALESCE). If such an operand can fail, we must
//! narrow the input to these rows. We should also narrow it if the operand costs more than the narrowing. Otherwise we
//! evaluate it for all rows and use its values only where they are needed.

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

/// An expression over column positions, prepared for many batches: constants are decoded, patterns compiled, lists
/// hashed. Threads can share it.
#[derive(Debug)]
pub struct Evaluator {
    root: PreparedExpr,
}

impl Evaluator {
    /// Prepares `expr`. It must contain neither parameters nor subqueries, and its columns must be positions. A caller
    /// should prepare an expression once and evaluate it for all batches.
    pub fn new(expr: &ScalarExpr) -> Result<Evaluator> {
        Ok(Evaluator { root: PreparedExpr::new(expr)? })
    }

    /// Returns the type of the values.
    pub fn kind(&self) -> &DataType {
        &self.root.kind
    }

    /// Returns the positions of the columns that the expression reads, ascending.
    pub fn columns(&self) -> &[usize] {
        &self.root.columns
    }

    /// Evaluates the expression for `rows` rows. `columns[i]` is column `i` of the expression.
    pub fn evaluate(&self, columns: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
        if rows == 0 {
            // Without rows, nothing may fail, so we do not even evaluate constants.
            return Ok(new_empty_array(&self.root.kind));
        }
        spread(self.evaluate_operand(columns, rows)?, rows)
    }

    /// Evaluates the expression for `rows` rows, which must not be 0. Returns a single value if it holds for all rows.
    pub(crate) fn evaluate_operand(&self, columns: &[ArrayRef], rows: usize) -> Result<Operand> {
        let operand = self.root.evaluate(InputRows { columns, rows })?;
        // A kernel with a wrong result type would corrupt later operators, so we check it here once per batch.
        if operand.values.data_type() != &self.root.kind {
            let (found, wanted) = (type_name(operand.values.data_type()), type_name(&self.root.kind));
            return Err(Error::internal(format!("an expression of type {wanted} gave {found}")));
        }
        Ok(operand)
    }

    /// Returns the rows for which a condition is true, neither false nor NULL.
    pub fn selected(&self, columns: &[ArrayRef], rows: usize) -> Result<BooleanBuffer> {
        if rows == 0 {
            return Ok(BooleanBuffer::new_unset(0));
        }
        truth(&self.evaluate_operand(columns, rows)?, rows)
    }
}

/// Returns the rows for which a condition is true.
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
        // A bit under a NULL is arbitrary.
        Some(nulls) => values.values() & nulls.inner(),
        None => values.values().clone(),
    })
}

/// Repeats a constant for each of `rows` rows.
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
