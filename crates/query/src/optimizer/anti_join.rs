//! Turns a left join into an anti join if a filter keeps only the rows without a match.
//!
//! ```text
//! a LEFT JOIN b ON a.x = b.x WHERE b.x IS NULL   ->   a ANTI JOIN b ON a.x = b.x
//! ```
//!
//! The tested column must have a value in every matching row, because the filter keeps a matching row with NULL in it.
//! For example, `b.y IS NULL` does not do if `b.y` can be NULL. No operator above may read a column of the right side,
//! because an anti join does not give them.

use rowmill_plan::logical::LogicalJoinKind;
use rowmill_plan::{ColumnId, ExprOp, Logical, ScalarExpr};

use super::context::RewriteContext;
use super::facts::add_required;
use super::nulls::columns_with_values;
use super::walk::{add_named, output, take};
use crate::column_set::ColumnSet;

/// Turns the join below a filter into an anti join, if that gives the same rows. `read` are the columns that are read
/// above the filter.
pub(crate) fn filter_to_anti_join(plan: &mut Logical, read: &ColumnSet, context: &RewriteContext<'_>) {
    let Logical::Filter { input, conditions } = plan else { return };
    let Logical::Join(join) = &mut **input else { return };
    if join.kind != LogicalJoinKind::Left || !join.compared.is_empty() {
        return;
    }
    // A scalar subquery must still fail if it gives more than one row.
    let right = output(&join.right);
    if matches!(*join.right, Logical::SingleRow { .. }) || right.intersects(read) {
        return;
    }
    let is_of_right = |condition: &ScalarExpr| {
        let mut named = ColumnSet::default();
        add_named(condition, &mut named);
        named.intersects(&right)
    };
    let tested = |condition: &ScalarExpr| match &condition.op {
        ExprOp::IsNull { value, negated: false } => value.as_column().map(ColumnId),
        _ => None,
    };
    // Without a match all columns of the right side are NULL, so one such test is as good as all of them.
    let tests: Vec<_> = conditions.iter().filter(|condition| is_of_right(condition)).map(tested).collect();
    if tests.is_empty() || tests.iter().any(Option::is_none) {
        return;
    }
    let mut full = columns_with_values(&mut join.right, context);
    add_required(&join.conditions, &mut full);
    if !tests.into_iter().flatten().any(|id| full.contains(id)) {
        return;
    }
    join.kind = LogicalJoinKind::Anti;
    conditions.retain(|condition| !is_of_right(condition));
    if conditions.is_empty() {
        *plan = take(input);
    }
}
