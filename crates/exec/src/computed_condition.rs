//! Conditions of a scan that are expressions over columns of the table.

use arrow::array::{ArrayRef, BooleanArray};
use rowmill_base::Result;
use rowmill_expr::display::sql_text;
use rowmill_plan::{ComputedCondition, ScalarExpr};

use crate::expression::ExpressionFunction;
use crate::filter::truth_of;
use crate::function::VectorFunction;
use crate::group::evaluate_in_pieces;

/// An expression as a condition of a scan.
#[derive(Debug)]
pub struct ExpressionCondition {
    expr: ScalarExpr,
    function: ExpressionFunction,
    share: f64,
}

impl ExpressionCondition {
    /// Makes a condition of `expr`, whose columns are positions in the table's definition. It must read a column, it
    /// must not fail, and it must be immutable. `share` is the estimated share of rows for which it is true.
    pub fn new(expr: ScalarExpr, share: f64) -> Result<ExpressionCondition> {
        let function = ExpressionFunction::new(&expr)?;
        debug_assert!(function.never_fails() && !function.columns().is_empty(), "a scan may evaluate it for any value");
        Ok(ExpressionCondition { expr, function, share })
    }
}

impl ComputedCondition for ExpressionCondition {
    fn columns(&self) -> &[usize] {
        self.function.columns()
    }

    fn evaluate(&self, values: &[ArrayRef], rows: usize) -> Result<BooleanArray> {
        truth_of(&evaluate_in_pieces(&self.function, values, rows)?, rows).cloned()
    }

    fn share(&self) -> f64 {
        self.share
    }

    fn text(&self, name: &dyn Fn(usize) -> String) -> String {
        sql_text(&self.expr, name)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::Int64Array;
    use arrow::datatypes::DataType;
    use rowmill_plan::{CompareOp, ExprOp};

    use super::*;

    #[test]
    fn a_condition_over_two_columns_is_evaluated_part_by_part() {
        let column = |number| ScalarExpr::column(number, DataType::Int64);
        let less = ExprOp::Compare(CompareOp::Less, Box::new([column(7), column(3)]));
        let condition =
            ExpressionCondition::new(ScalarExpr::new(DataType::Boolean, less), 0.5).expect("a comparison of integers");
        assert_eq!(condition.columns(), [3, 7]);
        assert_eq!(condition.text(&|column| format!("c{column}")), "c7 < c3");
        let rows = 40_003;
        let left = Int64Array::from_iter((0..rows as i64).map(|row| (row % 5 != 0).then_some(row)));
        let right = Int64Array::from_iter_values((0..rows as i64).map(|row| row + row % 3 - 1));
        let expected: BooleanArray = (left.iter().zip(&right)).map(|(left, right)| Some(right? < left?)).collect();
        let values: Vec<ArrayRef> = vec![Arc::new(left), Arc::new(right)];
        assert_eq!(condition.evaluate(&values, rows).expect("integers are compared"), expected);
    }
}
