//! Removes sorts whose order has no effect, and pushes limits down to where they save work.

use rowmill_base::Result;
use rowmill_plan::logical::{LogicalJoinKind, LogicalSortKey, LogicalWindowFunction, SetOperationKind};
use rowmill_plan::{Logical, ScalarExpr};

use super::Executor;
use super::facts::{is_movable, reads_order};
use super::walk::{inputs_mut, named, output, take};
use crate::column_set::ColumnSet;

/// Removes the sorts of a plan that have no effect. `is_read` says whether the order of the plan's rows matters.
pub(crate) fn remove_sorts(plan: &mut Logical, is_read: bool) {
    if let Logical::Sort { input, .. } = plan
        && !is_read
    {
        *plan = take(input);
        return remove_sorts(plan, false);
    }
    let of_input = match plan {
        Logical::Sort { .. } | Logical::Join(_) => false,
        Logical::Limit { .. } => true,
        Logical::Group(group) => group.aggregates.iter().any(|(_, call)| reads_order(call)),
        Logical::Distinct { on, .. } => *on,
        Logical::Window(window) => {
            // Rows that are equal in the window's order are numbered in the order in which they come.
            let is_stable = |function: &LogicalWindowFunction| match function {
                LogicalWindowFunction::Aggregate(call) => !reads_order(call),
                _ => false,
            };
            is_read || (window.order.is_empty() && !window.calls.iter().all(|(_, call)| is_stable(&call.function)))
        }
        Logical::SetOperation(operation) => is_read && operation.kind == SetOperationKind::Union && operation.all,
        Logical::Recursive { .. } => false,
        _ => is_read,
    };
    inputs_mut(plan).into_iter().for_each(|input| remove_sorts(input, of_input));
}

/// The most first rows of an order for which the left side of a join is sorted by itself. It bounds the rows that such
/// a sort keeps if the side has hardly more rows.
const FIRST_ROWS_MAX: i64 = 10_000;

/// Pushes the limits of a plan down below maps. Copies of them go into unions and into the left side of outer joins,
/// together with their order.
pub(crate) fn push_limits(plan: &mut Logical, executor: Executor) -> Result<()> {
    if let Logical::Limit { input, skip, rows } = plan {
        if let Logical::Map { input: below, exprs } = &mut **input
            && exprs.iter().all(|(_, expr)| is_movable(expr))
        {
            // Only the rows that pass the limit need the new columns.
            let exprs = std::mem::take(exprs);
            let below = take(below);
            let limit = Logical::Limit { input: Box::new(below), skip: skip.take(), rows: rows.take() };
            *plan = Logical::map(limit, exprs);
            return push_limits(plan, executor);
        }
        if let Some(most) = most_rows(skip.as_ref(), rows.as_ref()) {
            limit_inputs(input, most);
            // A program reads the left side of a join in order, and stops after the last row that is wanted.
            if let (Logical::Sort { input, keys }, Executor::Engine, ..=FIRST_ROWS_MAX) = (&mut **input, executor, most)
            {
                limit_first(input, keys, most);
            }
        }
    }
    for input in inputs_mut(plan) {
        push_limits(input, executor)?;
    }
    Ok(())
}

/// Limits the left side of an outer join to its first `most` rows in the order of `keys`, if only the first `most` rows
/// of the join in this order are read. Each row of the left side gives at least one row of the join. For example, a
/// subquery in the SELECT list is then computed for the rows of a page only. Returns whether a side was limited.
fn limit_first(plan: &mut Logical, keys: &[LogicalSortKey], most: i64) -> bool {
    let is_of = |columns: &ColumnSet| keys.iter().all(|key| named(&key.expr).is_subset(columns));
    match plan {
        Logical::Map { input, exprs } if exprs.iter().all(|(_, expr)| is_movable(expr)) && is_of(&output(input)) => {
            limit_first(input, keys, most)
        }
        Logical::Join(join)
            if matches!(join.kind, LogicalJoinKind::Left | LogicalJoinKind::Single | LogicalJoinKind::Mark(_))
                && is_of(&output(&join.left))
                && keys.iter().all(|key| is_movable(&key.expr)) =>
        {
            if !limit_first(&mut join.left, keys, most) {
                let input = Box::new(take(&mut join.left));
                *join.left = Logical::Sort { input, keys: keys.to_vec() };
                limit(&mut join.left, most);
            }
            true
        }
        _ => false,
    }
}

/// The largest number of rows that a limit reads, if its numbers are constants.
fn most_rows(skip: Option<&ScalarExpr>, rows: Option<&ScalarExpr>) -> Option<i64> {
    let number = |expr: &ScalarExpr| expr.as_constant().and_then(|value| value.as_bigint());
    let skip = match skip {
        Some(skip) => number(skip)?,
        None => 0,
    };
    number(rows?)?.checked_add(skip).filter(|most| *most >= 0)
}

/// Limits the inputs of an operator if only its first `most` rows are read.
fn limit_inputs(plan: &mut Logical, most: i64) {
    match plan {
        Logical::SetOperation(operation) if operation.kind == SetOperationKind::Union && operation.all => {
            operation.inputs.iter_mut().for_each(|(input, _)| limit(input, most));
        }
        Logical::Join(join)
            if matches!(join.kind, LogicalJoinKind::Left | LogicalJoinKind::Single | LogicalJoinKind::Mark(_)) =>
        {
            limit(&mut join.left, most);
        }
        Logical::Map { input, .. } => limit_inputs(input, most),
        _ => {}
    }
}

fn limit(plan: &mut Logical, most: i64) {
    if let Logical::Limit { skip, rows, .. } = plan
        && most_rows(skip.as_ref(), rows.as_ref()).is_some_and(|own| own <= most)
    {
        return;
    }
    let input = Box::new(take(plan));
    *plan = Logical::Limit { input, skip: None, rows: Some(ScalarExpr::literal(most)) };
}
