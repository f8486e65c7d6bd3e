//! Facts about the number of rows of a plan, and about unique columns.

use rowmill_plan::logical::{LogicalJoin, LogicalJoinKind};
use rowmill_plan::{ColumnId, ExprOp, Logical, ScalarExpr};

use super::context::RewriteContext;
use super::facts::equality;
use super::walk::{named, output};
use crate::column_set::ColumnSet;

/// Whether a plan never gives more than one row.
pub(crate) fn gives_at_most_one_row(plan: &Logical) -> bool {
    match plan {
        Logical::Values { rows, .. } => rows.len() <= 1,
        Logical::Group(group) => group.keys.is_empty() && group.sets.is_none(),
        Logical::Filter { input, .. }
        | Logical::Map { input, .. }
        | Logical::Sort { input, .. }
        | Logical::Distinct { input, .. } => gives_at_most_one_row(input),
        Logical::Window(window) => gives_at_most_one_row(&window.input),
        Logical::Limit { input, rows, .. } => {
            let most = rows.as_ref().and_then(|rows| rows.as_constant()).and_then(|rows| rows.as_bigint());
            most.is_some_and(|most| most <= 1) || gives_at_most_one_row(input)
        }
        Logical::SingleRow { by, input } => by.is_empty() || gives_at_most_one_row(input),
        Logical::Join(join) => match join.kind {
            LogicalJoinKind::Inner | LogicalJoinKind::Left => {
                gives_at_most_one_row(&join.left) && gives_at_most_one_row(&join.right)
            }
            LogicalJoinKind::Full => false,
            _ => gives_at_most_one_row(&join.left),
        },
        _ => false,
    }
}

/// Whether no two rows of a plan are equal in all of `columns`. With `nulls`, NULL equals NULL; otherwise rows with a
/// NULL in one of the columns are ignored.
pub(crate) fn is_unique(plan: &Logical, columns: &ColumnSet, nulls: bool, context: &RewriteContext<'_>) -> bool {
    if gives_at_most_one_row(plan) {
        return true;
    }
    match plan {
        Logical::Scan(scan) => {
            let Some(table) = context.tables.get(scan.table) else { return false };
            let table = table.table();
            let Some(keyed) = &table.keyed else { return false };
            let fixed = fixed_columns(&scan.conditions);
            let is_given = |column: rowmill_base::ColumnId| {
                let is_it = |at: usize| table.columns.get(at).is_some_and(|known| known.id == column);
                let mut read = scan.columns.iter().filter(|(_, at)| is_it(*at));
                read.any(|(id, _)| columns.contains(*id) || fixed.contains(*id))
            };
            let is_full = |column: rowmill_base::ColumnId| {
                table.columns.iter().any(|known| known.id == column && !known.nullable)
            };
            let is_key = |parts: &[rowmill_storage::KeyColumn], may_be_null: bool| {
                !parts.is_empty()
                    && parts
                        .iter()
                        .all(|part| is_given(part.column) && (!may_be_null || !nulls || is_full(part.column)))
            };
            is_key(&keyed.key, false) || keyed.indexes.iter().any(|index| index.unique && is_key(&index.parts, true))
        }
        Logical::Filter { input, conditions } => {
            let mut all = columns.clone();
            all.add_all(&fixed_columns(conditions));
            is_unique(input, &all, nulls, context)
        }
        Logical::Map { input, .. } | Logical::Sort { input, .. } | Logical::Limit { input, .. } => {
            is_unique(input, columns, nulls, context)
        }
        Logical::Window(window) => is_unique(&window.input, columns, nulls, context),
        Logical::SingleRow { input, by } => {
            by.iter().all(|id| columns.contains(*id)) || is_unique(input, columns, nulls, context)
        }
        Logical::Distinct { input, columns: own, .. } => {
            own.iter().all(|id| columns.contains(*id)) || is_unique(input, columns, nulls, context)
        }
        Logical::Group(group) => group.sets.is_none() && group.keys.iter().all(|(id, _)| columns.contains(*id)),
        Logical::SetOperation(operation) => !operation.all && operation.columns.iter().all(|id| columns.contains(*id)),
        Logical::Join(join) => match join.kind {
            LogicalJoinKind::Semi | LogicalJoinKind::Anti | LogicalJoinKind::Mark(_) | LogicalJoinKind::Single => {
                is_unique(&join.left, columns, nulls, context)
            }
            LogicalJoinKind::Inner | LogicalJoinKind::Left => {
                (is_unique(&join.left, columns, nulls, context) && matches_at_most_once(join, false, context))
                    || (join.kind == LogicalJoinKind::Inner
                        && is_unique(&join.right, columns, nulls, context)
                        && matches_at_most_once(join, true, context))
            }
            LogicalJoinKind::Full => false,
        },
        _ => false,
    }
}

/// Whether each row of one side of a join matches at most one row of the other. With `flipped`, the other is the left
/// side.
pub(crate) fn matches_at_most_once(join: &LogicalJoin, flipped: bool, context: &RewriteContext<'_>) -> bool {
    let (here, other) = if flipped { (&join.right, &join.left) } else { (&join.left, &join.right) };
    if gives_at_most_one_row(other) {
        return true;
    }
    let (here, own) = (output(here), output(other));
    let (mut keys, mut nulls) = (ColumnSet::default(), false);
    for condition in &join.conditions {
        let Some((a, b, is_null_safe)) = equality(condition) else { continue };
        for (inner, outer) in [(a, b), (b, a)] {
            if let Some(id) = inner.as_column().map(ColumnId)
                && own.contains(id)
                && named(outer).is_subset(&here)
            {
                keys.insert(id);
                nulls |= is_null_safe;
            }
        }
    }
    !keys.is_empty() && is_unique(other, &keys, nulls, context)
}

/// Columns that have the same value in all rows that meet the conditions.
fn fixed_columns(conditions: &[ScalarExpr]) -> ColumnSet {
    let mut fixed = ColumnSet::default();
    for condition in conditions {
        if let Some((column, value, _)) = equality(condition)
            && matches!(value.op, ExprOp::Literal(_) | ExprOp::Parameter(_))
            && let Some(column) = column.as_column()
        {
            fixed.insert(ColumnId(column));
        }
    }
    fixed
}
