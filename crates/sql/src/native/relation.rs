//! What a part of a plan makes of the columns of one stored table.

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::logical_plan::TableScan;
use datafusion::logical_expr::{Expr, LogicalPlan};

/// The rows that a part of a plan gives, as expressions over a scan of a stored table.
pub(super) struct Relation<'a> {
    pub(super) scan: &'a TableScan,
    /// What the columns of the part are; `None` while they are those of the scan.
    pub(super) exprs: Option<Vec<Expr>>,
}

/// The scan below `plan` and what `plan` makes of its columns.
pub(super) fn relation(plan: &LogicalPlan) -> Result<Option<Relation<'_>>> {
    match plan {
        LogicalPlan::TableScan(scan) if scan.fetch.is_none() => Ok(Some(Relation { scan, exprs: None })),
        LogicalPlan::SubqueryAlias(alias) => {
            let Some(below) = relation(&alias.input)? else { return Ok(None) };
            let own = alias.input.schema().columns().into_iter().map(Expr::Column);
            let exprs = below.exprs.unwrap_or_else(|| own.collect());
            Ok(Some(Relation { scan: below.scan, exprs: Some(exprs) }))
        }
        LogicalPlan::Projection(projection) => {
            let Some(below) = relation(&projection.input)? else { return Ok(None) };
            let exprs = projection.expr.iter().map(|expr| {
                let expr = expr.clone().unalias();
                match &below.exprs {
                    Some(inner) => replace_columns(expr, projection.input.schema(), inner),
                    None => Ok(expr),
                }
            });
            Ok(Some(Relation { scan: below.scan, exprs: Some(exprs.collect::<Result<_>>()?) }))
        }
        _ => Ok(None),
    }
}

/// `expr` with the columns of `schema` replaced by `exprs`, of which there is one for each.
pub(super) fn replace_columns(expr: Expr, schema: &DFSchema, exprs: &[Expr]) -> Result<Expr> {
    expr.transform_up(|expr| match &expr {
        Expr::Column(column) => Ok(Transformed::yes(exprs[schema.index_of_column(column)?].clone())),
        _ => Ok(Transformed::no(expr)),
    })
    .data()
}
