//! Rewrites of the logical plan. Each rule is one file.
//!
//! The order matters: a plan loses its subqueries, then its correlation, and only then do conditions and columns move.
//!
//! | step | file |
//! |---|---|
//! | subplans that are computed once wait in a table | `context.rs` |
//! | expressions become simpler | `simplify.rs` |
//! | subqueries in expressions become joins | `subquery.rs` |
//! | correlated conditions leave the right sides of joins | `pull_up.rs` |
//! | what correlation is left is removed with domains | `domain.rs` |
//! | columns that repeat others go away | `alias.rs` |
//! | conditions move down | `pushdown.rs` |
//! | comparisons forget NULL where there is none | `nulls.rs` |
//! | operators that do nothing go away | `redundant.rs`, `unique.rs` |
//! | equal subplans are computed once | `common.rs` |
//! | columns that no operator reads are not made | `prune.rs` |
//! | joins that keys make needless go away | `key_joins.rs` |
//! | sorts without an effect go away, limits move down | `order.rs` |
//! | windows learn which rows are read | `top_rows.rs` |

mod alias;
mod column_set;
mod common;
mod context;
mod domain;
pub(crate) mod facts;
mod key_joins;
mod nulls;
mod order;
mod prune;
mod pull_up;
pub(crate) mod pushdown;
mod redundant;
mod simplify;
mod subquery;
mod top_rows;
mod unique;
pub(crate) mod walk;

#[cfg(test)]
mod tests;

use rowmill_base::Result;

use crate::binder::BoundQuery;
use column_set::ColumnSet;
use context::{RewriteContext, SharedPlans};

/// The same query, faster: without subqueries in expressions, without correlation, with conditions and columns pushed
/// to where rows come from, and joins in a good order.
pub fn optimize(query: &mut BoundQuery) -> Result<()> {
    optimize_until(query, &|| Ok(()))
}

/// The same query, faster, as [`optimize`] makes it. `check` is called between two rewrites of a plan; its error ends
/// the work.
pub fn optimize_until(query: &mut BoundQuery, check: &dyn Fn() -> Result<()>) -> Result<()> {
    let plan = &mut query.query;
    let root = &mut plan.root;
    let mut context =
        RewriteContext { columns: &mut plan.columns, tables: &query.tables, shared: SharedPlans::default(), check };
    context.detach_shared(root);
    context.inline_shared(root);
    context.each_plan(root, &mut |plan, _| simplify::simplify_plan(plan))?;
    context.each_plan(root, &mut |plan, context| subquery::remove_subqueries(plan, context))?;
    context.each_plan(root, &mut |plan, context| pull_up::pull_up(plan, context))?;
    context.each_plan(root, &mut |plan, context| domain::remove_dependent_joins(plan, context))?;
    context.inline_shared(root);
    alias::remove_all_aliases(root, &mut plan.output, &mut context)?;
    context.each_plan(root, &mut |plan, context| pushdown::push_conditions(plan, context))?;
    context.each_plan(root, &mut |plan, context| nulls::simplify_comparisons(plan, context))?;
    context.each_plan(root, &mut |plan, context| redundant::remove_redundant(plan, context))?;
    common::share_equal_plans(root, &mut context)?;
    let read: ColumnSet = plan.output.iter().map(|(id, _)| *id).collect();
    prune::prune_columns(root, &read, &mut context);
    loop {
        let mut is_smaller = false;
        context.each_plan(root, &mut |plan, context| {
            is_smaller |= key_joins::remove_key_joins(plan, context)?;
            Ok(())
        })?;
        if !is_smaller {
            break;
        }
        // The conditions that are left of joins move to scans, and the columns that only joins read go away. So the
        // parents of parents may be next.
        context.each_plan(root, &mut |plan, context| pushdown::push_conditions(plan, context))?;
        prune::prune_columns(root, &read, &mut context);
    }
    context.each_plan(root, &mut |plan, context| {
        context.copy_shared_scans(plan);
        Ok(())
    })?;
    context.inline_shared(root);
    order::remove_sorts(root, true);
    // The readers of a shared plan may read its order.
    context.each_plan(root, &mut |plan, _| order::push_limits(plan))?;
    context.each_plan(root, &mut |plan, _| {
        top_rows::note_top_rows(plan);
        Ok(())
    })?;
    context.attach_shared(root);
    Ok(())
}
