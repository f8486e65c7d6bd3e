//! Which subqueries are left to DataFusion's optimizer.
//!
//! Everything that refers to nothing and stands for a value is run once, before the rest. Of the others it answers those
//! rightly that stand as a term of a WHERE and refer outside in conditions of their own WHERE only.

use datafusion::common::tree_node::TreeNode;
use datafusion::common::{Column, DFSchema};
use datafusion::logical_expr::expr::{BinaryExpr, Exists, InSubquery, SetComparison, SetQuantifier};
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{Expr, LogicalPlan, Operator};

use super::super::nullable_values::is_constant;
use super::references::{holds_subquery, references, references_of, subquery_of};

/// Whether `expr` is itself a subquery that has to become a join here, when it reads the columns `own`.
///
/// One that refers to a query further out waits until that one is rebuilt.
pub(super) fn is_open(expr: &Expr, own: &DFSchema) -> bool {
    let Some(subquery) = subquery_of(expr) else { return false };
    let outside = references(&subquery.subquery);
    if outside.iter().any(|column| !own.has_column(column)) {
        return false;
    }
    match expr {
        Expr::ScalarSubquery(_) => !outside.is_empty() || is_constant(&subquery.subquery),
        _ => true,
    }
}

/// The same for a term of a WHERE.
pub(super) fn is_open_condition(term: &Expr, own: &DFSchema) -> bool {
    if is_left_alone(term) {
        return false;
    }
    let is_open = |part: &Expr| match part {
        Expr::ScalarSubquery(subquery) if compares_keys(&subquery.subquery) => false,
        part => is_open(part, own),
    };
    term.exists(|part| Ok(is_open(part))).expect("nothing here fails")
}

/// `x = ANY (S)` and `x <> ALL (S)` as the IN that they mean.
pub(super) fn as_in(term: Expr) -> Expr {
    match term {
        Expr::SetComparison(SetComparison { expr, subquery, op: Operator::Eq, quantifier: SetQuantifier::Any }) => {
            Expr::InSubquery(InSubquery { expr, subquery, negated: false })
        }
        Expr::SetComparison(SetComparison { expr, subquery, op: Operator::NotEq, quantifier: SetQuantifier::All }) => {
            Expr::InSubquery(InSubquery { expr, subquery, negated: true })
        }
        other => other,
    }
}

fn is_left_alone(term: &Expr) -> bool {
    let (term, not) = match term {
        Expr::Not(inner) => (inner.as_ref(), true),
        other => (other, false),
    };
    match term {
        Expr::Exists(Exists { subquery, .. }) => {
            refers_in_conditions(&subquery.subquery) && tells_apart(&subquery.subquery, Vec::new())
        }
        Expr::InSubquery(InSubquery { expr, subquery, negated }) => {
            let is_anti = *negated != not;
            !holds_subquery(expr)
                && refers_in_conditions(&subquery.subquery)
                && tells_apart(&subquery.subquery, subquery.subquery.schema().columns())
                // What is no column is compared behind the join, where a NULL on the other side is not seen.
                && (!is_anti || matches!(**expr, Expr::Column(_)) && references(&subquery.subquery).is_empty())
        }
        _ => false,
    }
}

/// Whether all references of `plan` stand in conditions with nothing but columns selected above them.
fn refers_in_conditions(plan: &LogicalPlan) -> bool {
    if references(plan).is_empty() {
        return true;
    }
    match plan {
        LogicalPlan::Projection(projection) => {
            !projection.expr.iter().any(|expr| refers(expr, projection.input.schema()) || holds_subquery(expr))
                && refers_in_conditions(&projection.input)
        }
        LogicalPlan::Filter(filter) => {
            !split_conjunction(&filter.predicate).iter().any(|term| mixes(term, filter.input.schema()))
                && refers_in_conditions(&filter.input)
        }
        _ => false,
    }
}

/// Whether the columns that are compared outside of `plan`, `known` and those in its open conditions, have different
/// names: above the subquery their tables are not told apart.
fn tells_apart(plan: &LogicalPlan, mut known: Vec<Column>) -> bool {
    let mut plan = plan;
    loop {
        plan = match plan {
            // A column that is given keeps its name.
            LogicalPlan::Projection(projection) => {
                for expr in &projection.expr {
                    if let Expr::Column(column) = expr
                        && let Some(given) = known.iter_mut().find(|given| given.name == column.name)
                    {
                        given.clone_from(column);
                    }
                }
                &projection.input
            }
            LogicalPlan::Filter(filter) => {
                let own = filter.input.schema();
                for term in split_conjunction(&filter.predicate).into_iter().filter(|term| refers(term, own)) {
                    for column in term.column_refs() {
                        if known.iter().any(|other| other.name == column.name && other != column) {
                            return false;
                        }
                        known.push(column.clone());
                    }
                }
                &filter.input
            }
            _ => return true,
        };
    }
}

fn refers(expr: &Expr, own: &DFSchema) -> bool {
    !references_of(expr, own).is_empty()
}

/// Whether `expr` refers outside and holds a subquery too.
fn mixes(expr: &Expr, own: &DFSchema) -> bool {
    holds_subquery(expr) && refers(expr, own)
}

/// Whether `plan` is one aggregate of rows whose columns equal columns outside.
fn compares_keys(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Projection(projection) => {
            !projection.expr.iter().any(|expr| refers(expr, projection.input.schema()))
                && compares_keys(&projection.input)
        }
        LogicalPlan::Aggregate(aggregate) => {
            aggregate.group_expr.is_empty()
                && !aggregate.aggr_expr.iter().any(|expr| refers(expr, aggregate.input.schema()))
                && aggregate.aggr_expr.iter().all(is_null_without_rows)
                && tells_apart(&aggregate.input, Vec::new())
                && match aggregate.input.as_ref() {
                    LogicalPlan::Filter(filter) => {
                        references(&filter.input).is_empty()
                            && split_conjunction(&filter.predicate)
                                .iter()
                                .all(|term| compares_key(term) || !refers(term, filter.input.schema()))
                    }
                    _ => false,
                }
        }
        _ => false,
    }
}

fn is_null_without_rows(expr: &Expr) -> bool {
    match expr {
        Expr::Alias(alias) => is_null_without_rows(&alias.expr),
        Expr::AggregateFunction(call) => ["min", "max", "sum", "avg"].contains(&call.func.name()),
        _ => false,
    }
}

fn compares_key(term: &Expr) -> bool {
    let Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) = term else { return false };
    matches!(
        (left.as_ref(), right.as_ref()),
        (Expr::Column(_), Expr::OuterReferenceColumn(..)) | (Expr::OuterReferenceColumn(..), Expr::Column(_))
    )
}
