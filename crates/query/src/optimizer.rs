//! Rewrites of the logical plan. Each rule is one file.
//!
//! The order matters: a plan must first lose its subqueries, then its correlation, and only then may conditions and
//! columns move.
//!
//! | step | file |
//! |---|---|
//! | shared subplans are kept in a table | `context.rs` |
//! | expressions are simplified, comparisons are of columns | `simplify.rs`, `narrow.rs`, `thresholds.rs` |
//! | subqueries in expressions become joins | `subquery.rs` |
//! | correlated conditions are pulled out of the right sides of joins | `pull_up.rs` |
//! | the remaining correlation is removed with domains | `domain.rs` |
//! | columns that repeat others are removed | `alias.rs` |
//! | paths of documents become columns of their scans | `document_parts.rs` |
//! | CASE in aggregates becomes their filter | `case_aggregates.rs` |
//! | groupings by wider copies of integers group by the integers | `widened_keys.rs` |
//! | conditions are pushed down | `pushdown.rs` |
//! | comparisons of columns without NULLs are simplified | `nulls.rs` |
//! | operators without an effect are removed | `redundant.rs`, `unique.rs` |
//! | equal subplans are computed once | `common.rs` |
//! | columns that no operator reads are removed | `prune.rs` |
//! | left joins whose rows without a match alone are wanted become anti joins | `anti_join.rs` |
//! | joins that keys make redundant are removed | `key_joins.rs` |
//! | sorts without an effect are removed, limits are pushed down | `order.rs` |
//! | windows learn which rows are read | `top_rows.rs` |

mod alias;
mod anti_join;
mod case_aggregates;
mod common;
mod context;
mod document_parts;
mod domain;
pub(crate) mod facts;
mod key_joins;
mod narrow;
mod nulls;
mod order;
mod prune;
mod pull_up;
pub(crate) mod pushdown;
mod redundant;
mod simplify;
mod subquery;
mod thresholds;
mod top_rows;
pub(crate) mod unique;
pub(crate) mod walk;
mod widened_keys;

#[cfg(test)]
mod tests;

use rowmill_base::Result;

use crate::binder::BoundQuery;
use crate::column_set::ColumnSet;
use context::{RewriteContext, SharedPlans};

/// The executors of plans.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Executor {
    /// The engine reads the inputs of an operator once, and computes equal subplans once.
    Engine,
    /// A program evaluates the right side of a join for each row of the left side, so correlation may stay.
    Program,
}

/// Optimizes a query for the engine: removes subqueries in expressions and correlation, pushes conditions and columns
/// down to the scans, and puts joins in a good order.
pub fn optimize(query: &mut BoundQuery) -> Result<()> {
    optimize_until(query, Executor::Engine, &|| Ok(()))
}

/// Optimizes a query for an executor. Calls `check` between two rewrites of a plan; an error of `check` stops the work.
pub fn optimize_until(query: &mut BoundQuery, executor: Executor, check: &dyn Fn() -> Result<()>) -> Result<()> {
    let plan = &mut query.query;
    let root = &mut plan.root;
    let mut context = RewriteContext {
        columns: &mut plan.columns,
        tables: query.tables.clone(),
        shared: SharedPlans::default(),
        executor,
        check,
    };
    // Shared subplans are rewritten in a table of their own, each once.
    context.detach_shared(root);
    context.inline_shared(root);
    // Simplify first, because later rules match on simple forms. Then remove subqueries and correlation.
    context.each_plan(root, &mut |plan, _| simplify::simplify_plan(plan))?;
    context.each_plan(root, &mut |plan, context| subquery::remove_subqueries(plan, context))?;
    context.each_plan(root, &mut |plan, context| pull_up::pull_up(plan, context))?;
    context.each_plan(root, &mut |plan, context| domain::remove_dependent_joins(plan, context))?;
    context.inline_shared(root);
    // From here on no plan is correlated, so columns can be renamed and conditions moved freely.
    alias::remove_all_aliases(root, &mut plan.output, &mut context)?;
    // Parts of documents are columns from here on, so that conditions on them move like those on other columns.
    document_parts::read_parts(root, &mut context)?;
    context.each_plan(root, &mut |plan, context| case_aggregates::filter_case_aggregates(plan, context))?;
    if executor == Executor::Engine {
        context.each_plan(root, &mut |plan, context| widened_keys::group_by_narrow_keys(plan, context))?;
    }
    context.each_plan(root, &mut |plan, context| pushdown::push_conditions(plan, context))?;
    context.each_plan(root, &mut |plan, context| nulls::simplify_comparisons(plan, context))?;
    context.each_plan(root, &mut |plan, context| redundant::remove_redundant(plan, context))?;
    // Programs have no shared subplans.
    if executor == Executor::Engine {
        common::share_equal_plans(root, &mut context)?;
    }
    // Sharing must come before pruning, because twins should still have the same columns.
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
        // The remaining conditions of removed joins move to scans, and columns that only those joins read are pruned.
        // After that the parents of the parents may be redundant as well.
        context.each_plan(root, &mut |plan, context| pushdown::push_conditions(plan, context))?;
        prune::prune_columns(root, &read, &mut context);
    }
    context.each_plan(root, &mut |plan, context| {
        context.copy_shared_scans(plan);
        Ok(())
    })?;
    context.inline_shared(root);
    order::remove_sorts(root, true);
    // A reader of a shared plan may depend on its order.
    context.each_plan(root, &mut |plan, _| order::push_limits(plan, executor))?;
    context.each_plan(root, &mut |plan, _| {
        // The filters on ranks have reached their place above the windows.
        top_rows::note_top_rows(plan);
        Ok(())
    })?;
    context.attach_shared(root);
    query.tables = context.tables;
    Ok(())
}
