//! What is computed below a node of a plan, put into what stands above it.

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::Expr;

/// `expr`, which is over the columns of `schema`, with `exprs` in their places, one for each.
pub(crate) fn substitute(expr: Expr, schema: &DFSchema, exprs: &[Expr]) -> Result<Expr> {
    expr.transform_up(|expr| match &expr {
        Expr::Column(column) => Ok(Transformed::yes(exprs[schema.index_of_column(column)?].clone())),
        _ => Ok(Transformed::no(expr)),
    })
    .data()
    .map(Expr::unalias)
}
