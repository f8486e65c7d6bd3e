//! The domain of a subquery: the distinct values that the columns it refers to take in the query around it.
//!
//! It is computed by a second copy of that query. Values that do not occur there do no harm, they only cost; one that
//! is missing would be a wrong answer. So the copy leaves out what may not come out twice the same (LIMIT, windows,
//! volatile conditions), and where it cannot the subquery is refused.

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Column, Result};
use datafusion::logical_expr::logical_plan::{Distinct, Filter, SubqueryAlias};
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};
use rowmill_base::{Error, ErrorKind};

use super::references::{Bindings, holds_subquery};
use crate::errors::to_datafusion;

/// The distinct rows of the columns that a subquery refers to, under names of their own.
pub(super) struct Domain {
    pub(super) plan: LogicalPlan,
    /// Each column outside with the one that holds its values.
    pub(super) bindings: Vec<(Column, Column)>,
}

impl Domain {
    /// The domain of `columns` of `input`, called `name`.
    pub(super) fn new(input: &LogicalPlan, columns: &[Column], name: &str) -> Result<Domain> {
        let inside = |place: usize| Column::new(Some(name), format!("__c{place}"));
        let bindings: Vec<_> = columns.iter().enumerate().map(|(i, column)| (column.clone(), inside(i))).collect();
        let plan =
            LogicalPlanBuilder::from(source(input, columns)?).project(renamed(&bindings))?.distinct()?.build()?;
        Ok(Domain { plan, bindings })
    }

    /// The same values under other names, for a second side of a join.
    pub(super) fn again(&self, name: &str) -> Result<Domain> {
        let inner: Vec<_> = (self.columns().into_iter().enumerate())
            .map(|(place, column)| (column, Column::new(Some(name), format!("__c{place}"))))
            .collect();
        let plan = LogicalPlanBuilder::from(self.plan.clone()).project(renamed(&inner))?.build()?;
        let outside = self.bindings.iter().map(|(outside, _)| outside.clone());
        Ok(Domain { plan, bindings: outside.zip(inner.into_iter().map(|(_, inside)| inside)).collect() })
    }

    pub(super) fn columns(&self) -> Vec<Column> {
        self.bindings.iter().map(|(_, inside)| inside.clone()).collect()
    }

    /// The columns as expressions.
    pub(super) fn exprs(&self) -> Vec<Expr> {
        self.columns().into_iter().map(Expr::Column).collect()
    }
}

fn renamed(bindings: &Bindings) -> Vec<Expr> {
    let alias =
        |(from, to): &(Column, Column)| Expr::Column(from.clone()).alias_qualified(to.relation.clone(), &to.name);
    bindings.iter().map(alias).collect()
}

/// A plan of `columns` alone whose rows hold all values that they take in `plan`.
fn source(plan: &LogicalPlan, columns: &[Column]) -> Result<LogicalPlan> {
    match plan {
        LogicalPlan::Sort(sort) => source(&sort.input, columns),
        LogicalPlan::Limit(limit) => source(&limit.input, columns),
        LogicalPlan::Distinct(Distinct::All(input)) => source(input, columns),
        LogicalPlan::Window(window) if has_all(&window.input, columns) => source(&window.input, columns),
        LogicalPlan::Filter(filter) => {
            if filter.predicate.is_volatile() || holds_subquery(&filter.predicate) {
                return source(&filter.input, columns);
            }
            let needed = with_columns_of(columns, std::iter::once(&filter.predicate));
            let input = source(&filter.input, &needed)?;
            let filtered = LogicalPlan::Filter(Filter::try_new(filter.predicate.clone(), Arc::new(input))?);
            select(filtered, columns)
        }
        LogicalPlan::Projection(projection) => {
            let exprs = expressions_of(&projection.expr, plan, columns);
            let exprs = exprs.filter(|exprs| !exprs.iter().any(|expr| expr.is_volatile() || holds_subquery(expr)));
            let Some(exprs) = exprs else { return Err(to_datafusion(not_repeatable())) };
            let needed = with_columns_of(&[], exprs.iter());
            let input = if needed.is_empty() { whole(&projection.input)? } else { source(&projection.input, &needed)? };
            LogicalPlanBuilder::from(input).project(exprs)?.build()
        }
        // A key of a group is a value of the rows that were grouped.
        LogicalPlan::Aggregate(aggregate) if expressions_of(&aggregate.group_expr, plan, columns).is_some() => {
            let exprs = expressions_of(&aggregate.group_expr, plan, columns).expect("asked in the guard");
            if exprs.iter().any(|expr| !matches!(expr, Expr::Column(_))) {
                return select(whole(plan)?, columns);
            }
            source(&aggregate.input, columns)
        }
        LogicalPlan::SubqueryAlias(alias) => {
            let inner: Vec<Column> = columns
                .iter()
                .map(|column| alias.schema.index_of_column(column).map(|i| alias.input.schema().columns()[i].clone()))
                .collect::<Result<_>>()?;
            let input = Arc::new(source(&alias.input, &inner)?);
            select(LogicalPlan::SubqueryAlias(SubqueryAlias::try_new(input, alias.alias.clone())?), columns)
        }
        other => select(whole(other)?, columns),
    }
}

fn has_all(plan: &LogicalPlan, columns: &[Column]) -> bool {
    columns.iter().all(|column| plan.schema().has_column(column))
}

fn select(plan: LogicalPlan, columns: &[Column]) -> Result<LogicalPlan> {
    LogicalPlanBuilder::from(plan).project(columns.iter().cloned().map(Expr::Column))?.build()
}

/// The expressions among `exprs`, the first columns of `plan`, that `columns` stand for.
fn expressions_of(exprs: &[Expr], plan: &LogicalPlan, columns: &[Column]) -> Option<Vec<Expr>> {
    let place = |column: &Column| plan.schema().index_of_column(column).ok();
    columns.iter().map(|column| exprs.get(place(column)?).cloned()).collect()
}

fn with_columns_of<'e>(columns: &[Column], exprs: impl Iterator<Item = &'e Expr>) -> Vec<Column> {
    let mut all = columns.to_vec();
    let mut known: HashSet<Column> = columns.iter().cloned().collect();
    for column in exprs.flat_map(|expr| expr.column_refs()) {
        if known.insert(column.clone()) {
            all.push(column.clone());
        }
    }
    all
}

/// `plan`, if it gives the same rows whenever it runs.
fn whole(plan: &LogicalPlan) -> Result<LogicalPlan> {
    let mut is_repeatable = true;
    plan.apply_with_subqueries(|node| {
        is_repeatable &= match node {
            LogicalPlan::Limit(_) | LogicalPlan::Window(_) | LogicalPlan::Distinct(Distinct::On(_)) => false,
            LogicalPlan::Sort(sort) => sort.fetch.is_none(),
            LogicalPlan::Aggregate(aggregate) => aggregate.aggr_expr.iter().all(is_exact),
            LogicalPlan::Extension(_) => false,
            _ => true,
        };
        node.apply_expressions(|expr| {
            is_repeatable &= !expr.is_volatile();
            Ok(TreeNodeRecursion::Continue)
        })
    })?;
    if is_repeatable { Ok(plan.clone()) } else { Err(to_datafusion(not_repeatable())) }
}

/// Whether an aggregate does not depend on the order of its rows. Floating-point sums do.
fn is_exact(expr: &Expr) -> bool {
    match expr {
        Expr::Alias(alias) => is_exact(&alias.expr),
        Expr::AggregateFunction(call) => ["count", "min", "max"].contains(&call.func.name()),
        _ => false,
    }
}

fn not_repeatable() -> Error {
    Error::new(
        ErrorKind::Unsupported,
        "a subquery cannot refer to a column of a query that may give other rows when it is asked twice",
    )
    .hint("keep the rows with CREATE TABLE name AS SELECT ..., and ask that table")
}
