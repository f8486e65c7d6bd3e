//! `x IN (a, b)` whose items depend on the row, as `x = a OR x = b`.
//!
//! DataFusion's operator takes a list for constant when its items give single values for a batch without rows, which
//! `CASE WHEN f THEN 1 END` does too.

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{Expr, LogicalPlan, not};

/// Rewrites every such list.
pub(super) fn spell_out(plan: LogicalPlan) -> Result<LogicalPlan> {
    plan.transform_up_with_subqueries(|node| {
        let names = NamePreserver::new(&node);
        node.map_expressions(|expr| {
            let name = names.save(&expr);
            Ok(expr.transform_up(spelled_out)?.update_data(|expr| name.restore(expr)))
        })
    })
    .data()
}

fn spelled_out(expr: Expr) -> Result<Transformed<Expr>> {
    match expr {
        Expr::InList(InList { expr, list, negated }) if list.iter().any(depends_on_row) && !expr.is_volatile() => {
            let equal = list.into_iter().map(|item| expr.as_ref().clone().eq(item)).reduce(Expr::or);
            let found = equal.expect("a list has items");
            Ok(Transformed::yes(if negated { not(found) } else { found }))
        }
        other => Ok(Transformed::no(other)),
    }
}

/// Whether an item is computed from columns. A column itself is never taken for a constant.
fn depends_on_row(item: &Expr) -> bool {
    !matches!(item, Expr::Column(_)) && item.any_column_refs()
}
