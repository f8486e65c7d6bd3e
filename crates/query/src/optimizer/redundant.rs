//! Removes operators without an effect: DISTINCT of unique rows, outer joins whose right side is not read, the check of
//! scalar subqueries that cannot have two rows, redundant group keys, and operators over empty inputs.

use rowmill_base::Result;
use rowmill_plan::logical::{LogicalGroup, LogicalJoinKind, SetOperationKind};
use rowmill_plan::{ColumnId, Logical, ScalarExpr};

use super::context::RewriteContext;
use super::unique::{is_unique, matches_at_most_once};
use super::walk::{inputs_mut, output, take};

/// Removes the operators of a plan without an effect. Does not consider which columns are read.
pub(crate) fn remove_redundant(plan: &mut Logical, context: &RewriteContext<'_>) -> Result<()> {
    for input in inputs_mut(plan) {
        remove_redundant(input, context)?;
    }
    // Inputs come first, so an empty result propagates all the way up.
    propagate_no_rows(plan, context);
    match plan {
        Logical::Distinct { input, columns, .. }
            if is_unique(input, &columns.iter().copied().collect(), true, context) =>
        {
            *plan = take(input);
        }
        Logical::SingleRow { input, by } if is_unique(input, &by.iter().copied().collect(), true, context) => {
            *plan = take(input);
        }
        Logical::Join(join) if join.kind == LogicalJoinKind::Single && matches_at_most_once(join, false, context) => {
            // A second match is impossible, so the check for it is not needed.
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

fn is_empty(plan: &Logical) -> bool {
    matches!(plan, Logical::Values { rows, .. } if rows.is_empty())
}

/// Replaces an operator over empty inputs by its result for empty inputs.
fn propagate_no_rows(plan: &mut Logical, context: &RewriteContext<'_>) {
    let nulls = |right: &Logical| {
        let null = |id: ColumnId| (id, ScalarExpr::null(context.columns.get(id).kind.clone()));
        output(right).iter().map(null).collect::<Vec<_>>()
    };
    let gives_none = match plan {
        Logical::Filter { input, .. }
        | Logical::Map { input, .. }
        | Logical::Sort { input, .. }
        | Logical::Limit { input, .. }
        | Logical::Distinct { input, .. }
        | Logical::Unnest { input, .. }
        | Logical::SingleRow { input, .. } => is_empty(input),
        Logical::Window(window) => is_empty(&window.input),
        Logical::Group(group) => !group.keys.is_empty() && group.sets.is_none() && is_empty(&group.input),
        Logical::Join(join) => {
            let (left, right) = (is_empty(&join.left), is_empty(&join.right));
            match join.kind {
                LogicalJoinKind::Inner | LogicalJoinKind::Semi => left || right,
                LogicalJoinKind::Full => left && right,
                LogicalJoinKind::Anti if right && !left => {
                    *plan = take(&mut join.left);
                    return;
                }
                LogicalJoinKind::Left | LogicalJoinKind::Single if right && !left => {
                    *plan = Logical::map(take(&mut join.left), nulls(&join.right));
                    return;
                }
                LogicalJoinKind::Mark(mark) if right && !left => {
                    *plan = Logical::map(take(&mut join.left), vec![(mark, ScalarExpr::literal(false))]);
                    return;
                }
                _ => left,
            }
        }
        Logical::SetOperation(operation) => match operation.kind {
            SetOperationKind::Union => {
                if operation.inputs.len() > 2 || operation.all {
                    let count = operation.inputs.iter().filter(|(input, _)| !is_empty(input)).count();
                    if count >= 2 {
                        operation.inputs.retain(|(input, _)| !is_empty(input));
                    } else if let (Some(at), true) =
                        (operation.inputs.iter().position(|(input, _)| !is_empty(input)), operation.all)
                    {
                        let (input, own) = operation.inputs.swap_remove(at);
                        let own = own.into_iter().map(|id| context.columns.expr(id));
                        *plan = Logical::map(input, operation.columns.iter().copied().zip(own).collect());
                        return;
                    }
                }
                operation.inputs.iter().all(|(input, _)| is_empty(input))
            }
            SetOperationKind::Intersect => operation.inputs.iter().any(|(input, _)| is_empty(input)),
            SetOperationKind::Except => is_empty(&operation.inputs[0].0),
        },
        _ => false,
    };
    if gives_none {
        *plan = Logical::no_rows(output(plan).iter().collect());
    }
}

/// Removes the keys that are constants or equal to other keys. Returns the expressions that replace their columns above
/// the group.
fn repeated_keys(group: &mut LogicalGroup) -> Vec<(ColumnId, ScalarExpr)> {
    let mut taken = Vec::new();
    if group.sets.is_some() {
        return taken;
    }
    let mut kept: Vec<(ColumnId, ScalarExpr)> = Vec::new();
    let keys = std::mem::take(&mut group.keys);
    let count = keys.len();
    for (at, (id, key)) in keys.into_iter().enumerate() {
        let equal = kept.iter().find(|(_, other)| *other == key && super::facts::is_movable(&key));
        if let Some((other, _)) = equal {
            taken.push((id, ScalarExpr::id(*other, key.kind)));
        } else if key.as_constant().is_some() && (!kept.is_empty() || at + 1 < count) {
            // Without any key, an empty input would have one group, so one key must stay.
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
