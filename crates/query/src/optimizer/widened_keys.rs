//! Groups by integers instead of wider copies of them.
//!
//! ```text
//! GROUP BY CAST(customer AS BIGINT)  ->  GROUP BY customer; CAST(customer AS BIGINT) of each group
//! ```
//!
//! A correlated subquery that compares its INTEGER with a BIGINT of the outer query has such a grouping. The groups of
//! the column are the same, and the column can be read by keys, filters and value lists.

use rowmill_base::Result;
use rowmill_expr::typing::cast;
use rowmill_plan::Logical;

use super::context::RewriteContext;
use super::facts::widened_integer;
use super::walk::{inputs_mut, take};

/// Rewrites the keys of all groupings of a plan.
pub(crate) fn group_by_narrow_keys(plan: &mut Logical, context: &mut RewriteContext<'_>) -> Result<()> {
    for input in inputs_mut(plan) {
        group_by_narrow_keys(input, context)?;
    }
    let Logical::Group(group) = plan else { return Ok(()) };
    let mut widened = Vec::new();
    for (id, key) in &mut group.keys {
        let Some(narrow) = widened_integer(key).cloned() else { continue };
        let name = context.columns.get(*id).name.clone();
        let of_groups = context.columns.add(name, narrow.kind.clone());
        widened.push((*id, cast(context.expr(of_groups), &key.kind, false)?));
        (*id, *key) = (of_groups, narrow);
    }
    if !widened.is_empty() {
        *plan = Logical::map(take(plan), widened);
    }
    Ok(())
}
