//! Arguments of aggregates that differ in a cast only.
//!
//! The planner calls a cast by what is cast, so `max(a)` and `max(CAST(a AS TEXT))` are one name to it, and it refuses to
//! compute both. An argument with a cast gets a name that says it.

use datafusion::common::Result;
use datafusion::common::tree_node::TreeNode;
use datafusion::logical_expr::Expr;
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawAggregateExpr, RawWindowExpr};

/// Names the arguments as they are bound.
#[derive(Debug)]
pub(crate) struct CastNames;

impl ExprPlanner for CastNames {
    fn plan_aggregate(&self, mut call: RawAggregateExpr) -> Result<PlannerResult<RawAggregateExpr>> {
        call.args = call.args.into_iter().map(named).collect();
        Ok(PlannerResult::Original(call))
    }

    fn plan_window(&self, mut call: RawWindowExpr) -> Result<PlannerResult<RawWindowExpr>> {
        call.args = call.args.into_iter().map(named).collect();
        Ok(PlannerResult::Original(call))
    }
}

fn named(argument: Expr) -> Expr {
    let has_cast = argument.exists(|part| Ok(matches!(part, Expr::Cast(_) | Expr::TryCast(_))));
    if has_cast.expect("nothing here fails") {
        let name = argument.to_string();
        return argument.alias(name);
    }
    argument
}
