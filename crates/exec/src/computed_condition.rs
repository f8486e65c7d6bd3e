//! Conditions of a scan that are expressions over columns of the table.

use arrow::array::{ArrayRef, BooleanArray};
use rowmill_base::{Error, Result};
use rowmill_expr::display::sql_text;
use rowmill_expr::fold::{can_fail_within, is_never_true_within};
use rowmill_plan::{ComputedCondition, ConditionInput, ScalarExpr};

use crate::expression::ExpressionFunction;
use crate::filter::truth_of;
use crate::function::VectorFunction;
use crate::group::{evaluate_in_pieces, take};

/// An expression as a condition of a scan.
#[derive(Debug)]
pub struct ExpressionCondition {
    expr: ScalarExpr,
    function: ExpressionFunction,
    share: f64,
}

impl ExpressionCondition {
    /// Makes a condition of `expr`, whose columns are positions in the table's definition. It must read a column, and
    /// it must be immutable. `share` is the estimated share of rows for which it is true.
    pub fn new(expr: ScalarExpr, share: f64) -> Result<ExpressionCondition> {
        let function = ExpressionFunction::new(&expr)?;
        debug_assert!(!function.columns().is_empty(), "a condition without columns is not one of a scan");
        Ok(ExpressionCondition { expr, function, share })
    }

    /// Computes a function of one column, whose values `values` returns. Computes it once for each listed value.
    fn computed(
        function: &dyn VectorFunction,
        column: usize,
        input: &mut dyn ConditionInput,
        rows: usize,
    ) -> Result<ArrayRef> {
        match input.listed(column, function.is_costly())? {
            Some((values, codes)) => {
                let listed = values.len();
                take(&evaluate_in_pieces(function, &[values], listed)?, &codes)
            }
            None => evaluate_in_pieces(function, &[input.values(column)?], rows),
        }
    }

    fn truth(&self, input: &mut dyn ConditionInput, rows: usize) -> Result<ArrayRef> {
        let columns = self.function.columns();
        if let [column] = columns {
            return ExpressionCondition::computed(&self.function, *column, input, rows);
        }
        let Some(cut) = self.function.column_parts() else {
            let values = columns.iter().map(|column| input.values(*column)).collect::<Result<Vec<_>>>()?;
            return evaluate_in_pieces(&self.function, &values, rows);
        };
        let operands = cut.whole.columns().iter().map(|place| match place.checked_sub(columns.len()) {
            None => input.values(columns[*place]),
            Some(part) => {
                let part = &*cut.parts[part];
                let [place] = part.columns() else { return Err(Error::internal("a part reads one column")) };
                ExpressionCondition::computed(part, columns[*place], input, rows)
            }
        });
        let operands = operands.collect::<Result<Vec<_>>>()?;
        evaluate_in_pieces(&*cut.whole, &operands, rows)
    }
}

impl ComputedCondition for ExpressionCondition {
    fn columns(&self) -> &[usize] {
        self.function.columns()
    }

    fn can_fail(&self, of_column: &dyn Fn(usize) -> Option<(i128, i128)>) -> bool {
        !self.function.never_fails() && can_fail_within(&self.expr, of_column)
    }

    fn is_never_true(&self, of_column: &dyn Fn(usize) -> Option<(i128, i128)>) -> bool {
        is_never_true_within(&self.expr, of_column)
    }

    fn evaluate(&self, input: &mut dyn ConditionInput, rows: usize) -> Result<BooleanArray> {
        truth_of(&self.truth(input, rows)?, rows).cloned()
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
    use rowmill_plan::program::ArithmeticOp;
    use rowmill_plan::{CompareOp, ExprOp};

    use super::*;

    /// Rows of two columns, 3 and 7. Column 3 is listed.
    struct TwoColumns {
        list: Vec<i64>,
        codes: Vec<u32>,
        column: Int64Array,
    }

    impl ConditionInput for TwoColumns {
        fn values(&mut self, column: usize) -> Result<ArrayRef> {
            Ok(match column {
                3 => Arc::new(Int64Array::from_iter_values(self.codes.iter().map(|code| self.list[*code as usize]))),
                _ => Arc::new(self.column.clone()),
            })
        }

        fn listed(&mut self, column: usize, _: bool) -> Result<Option<(ArrayRef, Vec<u32>)>> {
            let list = || (Arc::new(Int64Array::from(self.list.clone())) as ArrayRef, self.codes.clone());
            Ok((column == 3).then(list))
        }
    }

    fn column(number: usize) -> ScalarExpr {
        ScalarExpr::column(number, DataType::Int64)
    }

    fn times(left: ScalarExpr, right: ScalarExpr) -> ScalarExpr {
        ScalarExpr::new(DataType::Int64, ExprOp::Arithmetic(ArithmeticOp::Times, Box::new([left, right])))
    }

    fn condition(left: ScalarExpr, right: ScalarExpr) -> ExpressionCondition {
        let less = ExprOp::Compare(CompareOp::Less, Box::new([left, right]));
        ExpressionCondition::new(ScalarExpr::new(DataType::Boolean, less), 0.5).expect("a comparison of integers")
    }

    #[test]
    fn a_condition_over_two_columns_is_evaluated_part_by_part() {
        let condition = condition(column(7), times(column(3), ScalarExpr::literal(2_i64)));
        assert_eq!(condition.columns(), [3, 7]);
        assert_eq!(condition.text(&|column| format!("c{column}")), "c7 < c3 * 2");
        let rows = 40_003;
        let column = Int64Array::from_iter((0..rows as i64).map(|row| (row % 5 != 0).then_some(row % 11)));
        let codes: Vec<u32> = (0..rows as u32).map(|row| row % 3).collect();
        let list = vec![1, 3, 5];
        let value = |code: u32| list[code as usize];
        let expected: BooleanArray =
            column.iter().zip(&codes).map(|(other, code)| Some(other? < value(*code) * 2)).collect();
        let mut input = TwoColumns { list: list.clone(), codes, column };
        assert_eq!(condition.evaluate(&mut input, rows).expect("integers are compared"), expected);
    }

    #[test]
    fn known_values_tell_that_a_condition_is_never_true() {
        let less = condition(column(7), column(3));
        let of_ranges = |of_3: (i128, i128), of_7: (i128, i128)| {
            less.is_never_true(&|column| Some(if column == 3 { of_3 } else { of_7 }))
        };
        assert!(of_ranges((0, 5), (5, 9)) && of_ranges((0, 5), (7, 9)));
        assert!(!of_ranges((0, 6), (5, 9)) && !of_ranges((0, 5), (-9, 9)));
        assert!(!less.is_never_true(&|column| (column == 3).then_some((0, 5))));
    }

    #[test]
    fn known_values_tell_that_a_condition_cannot_fail() {
        let product = condition(column(7), times(column(3), column(7)));
        assert!(product.can_fail(&|_| None));
        assert!(product.can_fail(&|_| Some((0, 1 << 40))));
        assert!(!product.can_fail(&|_| Some((-1000, 1 << 20))));
        assert!(!condition(column(3), column(7)).can_fail(&|_| None));
    }
}
