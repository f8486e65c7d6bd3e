//! The values of an expression for a batch.

use arrow::array::ArrayRef;
use rowmill_base::Result;
use rowmill_plan::ScalarExpr;

/// An expression over positions, prepared to be evaluated for many batches: constants are decoded, patterns compiled,
/// lists hashed. Threads share it.
#[derive(Debug)]
pub struct Evaluator {}

impl Evaluator {
    /// Prepares `expr`, which holds neither parameters nor subqueries, and whose columns are positions.
    pub fn new(_expr: &ScalarExpr) -> Result<Evaluator> {
        todo!()
    }

    /// The values for `rows` rows of the columns; `columns[i]` is column `i` of the expression.
    pub fn evaluate(&self, _columns: &[ArrayRef], _rows: usize) -> Result<ArrayRef> {
        todo!()
    }
}
