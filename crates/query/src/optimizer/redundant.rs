//! Operators that do nothing go away: DISTINCT of unique rows, outer joins whose right side nobody reads, the check of scalar
//! subqueries that cannot have two rows, keys of groups that say nothing new.

use rowmill_base::Result;
use rowmill_plan::Logical;
use rowmill_plan::logical::{LogicalGroup, LogicalJoinKind};

use super::context::RewriteContext;
use super::unique::{is_unique, matches_at_most_once};
use super::walk::{inputs_mut, take};

/// Removes the operators of a plan that do nothing. Which columns are read is not looked at.
pub(crate) fn remove_redundant(plan: &mut Logical, context: &RewriteContext<'_>) -> Result<()> {
    for input in inputs_mut(plan) {
        remove_redundant(input, context)?;
    }
    match plan {
        Logical::Distinct { input, columns, .. } => {
            if is_unique(input, &columns.iter().copied().collect(), true, context) {
                *plan = take(input);
            }
        }
        Logical::Join(join) if join.kind == LogicalJoinKind::Single && matches_at_most_once(join, false, context) => {
            join.kind = LogicalJoinKind::Left;
        }
        Logical::Group(group) => {
            let repeated = repeated_keys(group);
            if !repeated.is_empty() {
                let group = take(plan);
                *plan = Logical::map(group, repeated);
            }
        }
        _ => {}
    }
    Ok(())
}

/// Takes out the keys that are constants or equal to other keys; what gives their columns above the group.
fn repeated_keys(group: &mut LogicalGroup) -> Vec<(rowmill_plan::ColumnId, rowmill_plan::ScalarExpr)> {
    let mut taken = Vec::new();
    if group.sets.is_some() {
        return taken;
    }
    let mut kept: Vec<(rowmill_plan::ColumnId, rowmill_plan::ScalarExpr)> = Vec::new();
    let keys = std::mem::take(&mut group.keys);
    let count = keys.len();
    for (at, (id, key)) in keys.into_iter().enumerate() {
        let equal = kept.iter().find(|(_, other)| *other == key && super::facts::is_movable(&key));
        if let Some((other, _)) = equal {
            taken.push((id, rowmill_plan::ScalarExpr::id(*other, key.kind)));
        } else if key.as_constant().is_some() && (!kept.is_empty() || at + 1 < count) {
            // Without any key there would be a group of no rows.
            taken.push((id, key));
        } else {
            kept.push((id, key));
        }
    }
    if kept.is_empty()
        && let Some(at) = taken.iter().position(|(_, key)| key.as_constant().is_some())
    {
        kept.push(taken.remove(at));
    }
    group.keys = kept;
    taken
}
