//! What is known of the number of rows of a plan, and of columns without equal values.

use rowmill_plan::Logical;
use rowmill_plan::logical::LogicalJoinKind;

/// Whether a plan gives exactly one row, whatever the tables hold.
pub(crate) fn gives_one_row(plan: &Logical) -> bool {
    match plan {
        Logical::Values { rows, .. } => rows.len() == 1,
        Logical::Group(group) => group.keys.is_empty() && group.sets.is_none(),
        Logical::Map { input, .. } | Logical::Sort { input, .. } | Logical::SingleRow { input, .. } => {
            gives_one_row(input)
        }
        Logical::Window(window) => gives_one_row(&window.input),
        Logical::Join(join) => match join.kind {
            LogicalJoinKind::Inner => {
                join.conditions.is_empty() && gives_one_row(&join.left) && gives_one_row(&join.right)
            }
            LogicalJoinKind::Left => gives_one_row(&join.left) && gives_at_most_one_row(&join.right),
            LogicalJoinKind::Mark(_) | LogicalJoinKind::Single => gives_one_row(&join.left),
            _ => false,
        },
        _ => false,
    }
}

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
