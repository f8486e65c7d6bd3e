//! Constant folding, and what the optimizer may rely on.

use rowmill_plan::ScalarExpr;

/// Replaces every immutable part of `expr` that reads no column, parameter or subquery by its value. A part whose
/// evaluation fails stays as it is: it may never be evaluated.
pub fn fold(_expr: &mut ScalarExpr) {
    todo!()
}

/// Whether the evaluation can fail for some values of the columns.
pub fn can_fail(_expr: &ScalarExpr) -> bool {
    todo!()
}

/// Whether the value can be NULL. `column` says it of a column.
pub fn is_nullable(_expr: &ScalarExpr, _column: &dyn Fn(usize) -> bool) -> bool {
    todo!()
}

/// Whether the expression is NULL or false, not true, if all columns for which `column` holds are NULL: a filter with it
/// turns an outer join into an inner one.
pub fn rejects_nulls(_expr: &ScalarExpr, _column: &dyn Fn(usize) -> bool) -> bool {
    todo!()
}
