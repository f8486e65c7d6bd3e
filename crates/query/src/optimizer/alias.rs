//! Removes columns that only repeat another column. Expressions then name that other column.

use std::collections::HashMap;

use rowmill_base::Result;
use rowmill_plan::{ColumnId, Logical, ScalarExpr};

use super::context::RewriteContext;
use super::walk::{inputs_mut, substitute_operator, take};
use crate::column_set::ColumnSet;

/// The expressions that replace removed columns.
pub(crate) type ColumnAliases = HashMap<ColumnId, ScalarExpr>;

/// Removes expressions that are just a column from the maps of a plan. The plan must not be correlated. `aliases`
/// collects everything that was removed, in this plan and before.
pub(crate) fn remove_aliases(plan: &mut Logical, aliases: &mut ColumnAliases) -> Result<()> {
    for input in inputs_mut(plan) {
        remove_aliases(input, aliases)?;
    }
    substitute_operator(plan, aliases);
    match plan {
        Logical::Map { input, exprs } => {
            exprs.retain(|(id, expr)| match expr.as_column() {
                Some(_) => {
                    aliases.insert(*id, expr.clone());
                    false
                }
                None => true,
            });
            if exprs.is_empty() {
                *plan = take(input);
            }
        }
        Logical::Distinct { columns, .. } => {
            let mut seen = ColumnSet::default();
            columns.retain(|id| seen.insert(*id));
        }
        _ => {}
    }
    Ok(())
}

/// Applies aliases to the result columns of a query.
pub(crate) fn rename_output(output: &mut [(ColumnId, String)], aliases: &ColumnAliases) {
    for (id, _) in output {
        if let Some(column) = aliases.get(id).and_then(ScalarExpr::as_column) {
            *id = ColumnId(column);
        }
    }
}

/// Renames the columns of the shared subplans in their readers.
pub(crate) fn rename_shared(plan: &mut Logical, aliases: &ColumnAliases) {
    if let Logical::Shared { input_columns, .. } = plan {
        for id in input_columns {
            if let Some(column) = aliases.get(id).and_then(ScalarExpr::as_column) {
                *id = ColumnId(column);
            }
        }
    }
    inputs_mut(plan).into_iter().for_each(|input| rename_shared(input, aliases));
}

/// Removes aliases from a query: its plan and its shared subplans.
pub(crate) fn remove_all_aliases(
    root: &mut Logical,
    output: &mut [(ColumnId, String)],
    context: &mut RewriteContext<'_>,
) -> Result<()> {
    let mut aliases = ColumnAliases::new();
    context.each_plan(root, &mut |plan, _| remove_aliases(plan, &mut aliases))?;
    if !aliases.is_empty() {
        rename_output(output, &aliases);
        context.each_plan(root, &mut |plan, _| {
            rename_shared(plan, &aliases);
            Ok(())
        })?;
    }
    Ok(())
}
