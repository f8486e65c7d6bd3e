//! Parts of a plan that the engine runs itself.
//!
//! The optimised logical plan is searched for them from the top ([`lower`]). Each becomes a leaf: to DataFusion it is the
//! scan of a table whose rows are the result ([`group_table`]). What the engine does not run stays with DataFusion's
//! operators, above such leaves or instead of them.

mod function;
mod group_table;
mod lowering;
mod relation;
mod top;

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::execution::SessionState;
use datafusion::logical_expr::LogicalPlan;

pub(crate) use group_table::GroupExec;

/// `plan` with leaves of the engine's own in place of what it runs.
pub(crate) fn lower(plan: LogicalPlan, state: &SessionState) -> Result<LogicalPlan> {
    plan.transform_down(|node| {
        if let Some(sort) = top::with_bound(&node)? {
            return Ok(Transformed::yes(sort));
        }
        match lowering::group(&node, state)? {
            Some(leaf) => Ok(Transformed::yes(leaf)),
            None => Ok(Transformed::no(node)),
        }
    })
    .data()
}
