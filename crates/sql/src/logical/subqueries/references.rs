//! References of a subquery to the query around it: found, and bound to columns that hold their values.
//!
//! Such a reference says no more than a name. It means the innermost query around it that has a column of that name, so
//! whoever walks into a subquery leaves out the names that the node which holds it has itself.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, Result};
use datafusion::logical_expr::expr::{Exists, InSubquery, SetComparison};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::logical_plan::Subquery;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Expr, LogicalPlan};

/// The subquery that `expr` itself is or compares with.
/// The query in `expr` itself, not in its parts.
pub(crate) fn subquery_of(expr: &Expr) -> Option<&Subquery> {
    match expr {
        Expr::ScalarSubquery(subquery)
        | Expr::Exists(Exists { subquery, .. })
        | Expr::InSubquery(InSubquery { subquery, .. })
        | Expr::SetComparison(SetComparison { subquery, .. }) => Some(subquery),
        _ => None,
    }
}

fn subquery_of_mut(expr: &mut Expr) -> Option<&mut Subquery> {
    match expr {
        Expr::ScalarSubquery(subquery)
        | Expr::Exists(Exists { subquery, .. })
        | Expr::InSubquery(InSubquery { subquery, .. })
        | Expr::SetComparison(SetComparison { subquery, .. }) => Some(subquery),
        _ => None,
    }
}

pub(super) fn holds_subquery(expr: &Expr) -> bool {
    expr.exists(|part| Ok(subquery_of(part).is_some())).expect("nothing here fails")
}

/// The columns outside of `plan` that it refers to, each once.
pub(super) fn references(plan: &LogicalPlan) -> Vec<Column> {
    let mut found = Vec::new();
    plan.apply(|node| {
        let own = merge_schema(&node.inputs());
        node.apply_expressions(|expr| {
            add_references(expr, &own, &mut found);
            Ok(TreeNodeRecursion::Continue)
        })
    })
    .expect("nothing here fails");
    found
}

/// The columns outside of the query of `expr` that it refers to, where `own` are the columns that it can read.
pub(super) fn references_of(expr: &Expr, own: &DFSchema) -> Vec<Column> {
    let mut found = Vec::new();
    add_references(expr, own, &mut found);
    found
}

fn add_references(expr: &Expr, own: &DFSchema, found: &mut Vec<Column>) {
    let mut add = |column: Column| {
        if !found.contains(&column) {
            found.push(column);
        }
    };
    expr.apply(|part| {
        if let Expr::OuterReferenceColumn(_, column) = part {
            add(column.clone());
        } else if let Some(subquery) = subquery_of(part) {
            references(&subquery.subquery).into_iter().filter(|column| !own.has_column(column)).for_each(&mut add);
        }
        Ok(TreeNodeRecursion::Continue)
    })
    .expect("nothing here fails");
}

/// Columns outside of a query, and the columns inside that hold their values.
pub(super) type Bindings = [(Column, Column)];

/// `expr`, which reads the columns `own`, with its references bound. Inside of its own subqueries the references stay
/// such, to the columns that they are bound to.
pub(super) fn bind(expr: Expr, own: &DFSchema, bindings: &Bindings) -> Result<Expr> {
    expr.transform_up(|mut part| {
        if let Expr::OuterReferenceColumn(_, column) = &part {
            return Ok(match bound(column, bindings) {
                Some(inside) => Transformed::yes(Expr::Column(inside.clone())),
                None => Transformed::no(part),
            });
        }
        if let Some(subquery) = subquery_of_mut(&mut part) {
            let visible: Vec<_> = bindings.iter().filter(|(outside, _)| !own.has_column(outside)).cloned().collect();
            let plan = redirect(subquery.subquery.as_ref().clone(), &visible)?;
            *subquery = Subquery {
                outer_ref_columns: plan.all_out_ref_exprs(),
                subquery: Arc::new(plan),
                spans: subquery.spans.clone(),
            };
            return Ok(Transformed::yes(part));
        }
        Ok(Transformed::no(part))
    })
    .data()
}

fn bound<'b>(column: &Column, bindings: &'b Bindings) -> Option<&'b Column> {
    bindings.iter().find(|(outside, _)| outside == column).map(|(_, inside)| inside)
}

/// `plan` with references to the columns that others are bound to.
fn redirect(plan: LogicalPlan, bindings: &Bindings) -> Result<LogicalPlan> {
    plan.transform_up(|node| {
        let own = merge_schema(&node.inputs());
        let names = NamePreserver::new(&node);
        node.map_expressions(|expr| {
            let name = names.save(&expr);
            let redirected = expr.transform_up(|mut part| {
                if let Expr::OuterReferenceColumn(field, column) = &part {
                    return Ok(match bound(column, bindings) {
                        Some(inside) => Transformed::yes(Expr::OuterReferenceColumn(Arc::clone(field), inside.clone())),
                        None => Transformed::no(part),
                    });
                }
                if let Some(subquery) = subquery_of_mut(&mut part) {
                    let visible: Vec<_> =
                        bindings.iter().filter(|(outside, _)| !own.has_column(outside)).cloned().collect();
                    let plan = redirect(subquery.subquery.as_ref().clone(), &visible)?;
                    subquery.outer_ref_columns = plan.all_out_ref_exprs();
                    subquery.subquery = Arc::new(plan);
                    return Ok(Transformed::yes(part));
                }
                Ok(Transformed::no(part))
            })?;
            Ok(redirected.update_data(|expr| name.restore(expr)))
        })
    })
    .data()
}
