//! `INTERSECT ALL` and `EXCEPT ALL`: a row counts as often as it occurs.
//!
//! DataFusion plans both as a semi or anti join over all columns, in which one row on the right is the partner of every
//! equal row on the left. With equal rows numbered on both sides, and the number as one more key, the n-th of them has
//! the n-th as its partner:
//!
//! ```text
//! left   1 1 1      numbered   1,1  1,2  1,3      INTERSECT ALL   1 1
//! right  1 1                   1,1  1,2           EXCEPT ALL      1
//! ```

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::common::{Column, JoinType, NullEquality, Result};
use datafusion::functions_window::expr_fn::row_number;
use datafusion::logical_expr::logical_plan::{Distinct, Join};
use datafusion::logical_expr::{Expr, ExprFunctionExt, LogicalPlan, LogicalPlanBuilder};

const NUMBER: &str = "\u{1}number";

/// Numbers the rows of both sides of an `INTERSECT ALL` or `EXCEPT ALL`.
pub(super) fn number_rows(plan: LogicalPlan) -> Result<LogicalPlan> {
    plan.transform_up_with_subqueries(|node| match node {
        LogicalPlan::Join(join) if is_set_operation(&join) && !is_distinct(&join.left) => {
            numbered(join).map(Transformed::yes)
        }
        other => Ok(Transformed::no(other)),
    })
    .data()
}

/// Only INTERSECT and EXCEPT are planned as such a join in which NULL equals NULL.
fn is_set_operation(join: &Join) -> bool {
    matches!(join.join_type, JoinType::LeftSemi | JoinType::LeftAnti)
        && join.null_equality == NullEquality::NullEqualsNull
        && !join.on.is_empty()
}

/// Without ALL the left side is made distinct. Where it is, both forms give the same.
fn is_distinct(left: &LogicalPlan) -> bool {
    match left {
        LogicalPlan::Distinct(Distinct::All(_)) => true,
        LogicalPlan::SubqueryAlias(alias) => is_distinct(&alias.input),
        LogicalPlan::Projection(projection) if projection.expr.iter().all(is_cast_of_column) => {
            is_distinct(&projection.input)
        }
        _ => false,
    }
}

/// A column whose type was settled keeps distinct rows distinct or, where it does not, equal to what the join compares.
fn is_cast_of_column(expr: &Expr) -> bool {
    match expr {
        Expr::Alias(alias) => is_cast_of_column(&alias.expr),
        Expr::Cast(cast) => is_cast_of_column(&cast.expr),
        Expr::Column(_) => true,
        _ => false,
    }
}

fn numbered(mut join: Join) -> Result<LogicalPlan> {
    let columns = join.left.schema().columns();
    let (left_keys, right_keys): (Vec<Expr>, Vec<Expr>) = join.on.iter().cloned().unzip();
    let (left, left_number) = with_number(&join.left, left_keys)?;
    let (right, right_number) = with_number(&join.right, right_keys)?;
    join.on.push((left_number, right_number));
    let joined = Join::try_new(
        Arc::new(left),
        Arc::new(right),
        join.on,
        join.filter,
        join.join_type,
        join.join_constraint,
        join.null_equality,
        join.null_aware,
    )?;
    LogicalPlanBuilder::from(LogicalPlan::Join(joined)).project(columns.into_iter().map(Expr::Column))?.build()
}

/// `plan` with the number of each row among its equals, and that number.
fn with_number(plan: &Arc<LogicalPlan>, keys: Vec<Expr>) -> Result<(LogicalPlan, Expr)> {
    let number = row_number().partition_by(keys).build()?;
    let name = number.schema_name().to_string();
    let columns = plan.schema().columns();
    let number_column = Expr::Column(Column::new_unqualified(name)).alias(NUMBER);
    let plan = LogicalPlanBuilder::from(Arc::clone(plan))
        .window([number])?
        .project(columns.into_iter().map(Expr::Column).chain([number_column]))?
        .build()?;
    Ok((plan, Expr::Column(Column::new_unqualified(NUMBER))))
}
