//! Subqueries that stand for a value: NULL without a row, whatever their column says.
//!
//! DataFusion takes such a value for never NULL when the column is not, and answers `(SELECT id ...) IS NULL` before it
//! looks. Their column passes through a function of which it knows nothing.

use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Result, internal_err};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::logical_plan::Projection;
use datafusion::logical_expr::{
    ColumnarValue, Expr, LogicalPlan, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

/// Makes the columns of such subqueries ones that may be NULL.
pub(super) fn allow_null(plan: LogicalPlan) -> Result<LogicalPlan> {
    plan.transform_up_with_subqueries(|node| {
        let names = NamePreserver::new(&node);
        node.map_expressions(|expr| {
            let name = names.save(&expr);
            Ok(expr.transform_up(nullable)?.update_data(|expr| name.restore(expr)))
        })
    })
    .data()
}

fn nullable(expr: Expr) -> Result<Transformed<Expr>> {
    match expr {
        Expr::ScalarSubquery(mut subquery) if is_never_null(&subquery.subquery) => {
            let Some(column) = subquery.subquery.schema().columns().pop() else {
                return internal_err!("a subquery that stands for a value has a column");
            };
            let function = OrNull { signature: Signature::any(1, Volatility::Immutable) };
            let value = Arc::new(ScalarUDF::from(function)).call(vec![Expr::Column(column.clone())]);
            let value = value.alias_qualified(column.relation, column.name);
            let plan = Projection::try_new(vec![value], subquery.subquery)?;
            subquery.subquery = Arc::new(LogicalPlan::Projection(plan));
            Ok(Transformed::yes(Expr::ScalarSubquery(subquery)))
        }
        other => Ok(Transformed::no(other)),
    }
}

/// Whether the column of `plan` is never NULL although `plan` may have no row.
fn is_never_null(plan: &LogicalPlan) -> bool {
    plan.schema().fields().len() == 1 && !plan.schema().field(0).is_nullable() && !has_a_row(plan)
}

fn has_a_row(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Projection(projection) => has_a_row(&projection.input),
        LogicalPlan::SubqueryAlias(alias) => has_a_row(&alias.input),
        LogicalPlan::Aggregate(aggregate) => aggregate.group_expr.is_empty(),
        LogicalPlan::EmptyRelation(empty) => empty.produce_one_row,
        _ => false,
    }
}

/// Whether the column of `plan` is the same for all rows. As the function's argument it would be computed while the
/// statement is planned, and be never NULL again.
pub(super) fn is_constant(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Projection(projection) => match projection.expr.first().map(|expr| expr.clone().unalias()) {
            Some(Expr::Column(column)) if !has_a_row(plan) => {
                projection.input.schema().fields().len() == 1
                    && projection.input.schema().has_column(&column)
                    && is_constant(&projection.input)
            }
            Some(expr) => !has_a_row(plan) && !expr.any_column_refs() && !expr.is_volatile(),
            None => false,
        },
        LogicalPlan::Filter(filter) => is_constant(&filter.input),
        LogicalPlan::SubqueryAlias(alias) => is_constant(&alias.input),
        LogicalPlan::Sort(sort) => is_constant(&sort.input),
        LogicalPlan::Limit(limit) => is_constant(&limit.input),
        _ => false,
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct OrNull {
    signature: Signature,
}

impl ScalarUDFImpl for OrNull {
    fn name(&self) -> &str {
        "or_null"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        Ok(arguments[0].clone())
    }

    fn invoke_with_args(&self, mut arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        match arguments.args.pop() {
            Some(value) => Ok(value),
            None => internal_err!("or_null has one argument"),
        }
    }
}
