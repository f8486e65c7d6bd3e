//! A subquery run for all rows around it at once.
//!
//! Given the [`Domain`] of the columns that a plan refers to, the plan is rebuilt so that it gives, for every row of the
//! domain, that row's columns and the rows that the plan gives when its references have that row's values. The domain
//! is joined in at the leaves, beneath which nothing refers outside, and its columns go along on the way up:
//!
//! ```text
//! leaf                 domain x leaf
//! filter, projection   of the rebuilt input, references bound to the domain's columns
//! aggregate, distinct  per row of the domain: its columns are keys too
//! limit                the first rows by number within each row of the domain
//! ```
//!
//! (Neumann and Kemper, "Unnesting Arbitrary Queries", BTW 2015.)

use std::sync::Arc;

use datafusion::common::{Column, DFSchema, JoinType, Result, ScalarValue};
use datafusion::functions_window::expr_fn::row_number;
use datafusion::logical_expr::expr::{AggregateFunction, WindowFunction};
use datafusion::logical_expr::logical_plan::{
    Aggregate, Distinct, FetchType, Filter, Join, Limit, Projection, SkipType, Union, Window,
};
use datafusion::logical_expr::utils::{conjunction, merge_schema};
use datafusion::logical_expr::{Expr, ExprFunctionExt, LogicalPlan, LogicalPlanBuilder, SortExpr, lit};
use rowmill_base::{Error, ErrorKind};

use super::domain::Domain;
use super::references::{bind, references, references_of};
use super::{Unnester, same};
use crate::errors::to_datafusion;

const NUMBER: &str = "__number";
const PRESENT: &str = "__present";

impl Unnester {
    /// The rows of `plan` for every row of `domain`: the domain's columns, then those of `plan` under their names.
    pub(super) fn depend(&mut self, plan: &LogicalPlan, domain: &Domain) -> Result<LogicalPlan> {
        if !refers(plan, domain) {
            return LogicalPlanBuilder::from(domain.plan.clone()).cross_join(plan.clone())?.build();
        }
        match plan {
            LogicalPlan::Projection(projection) => {
                let input = self.depend(&projection.input, domain)?;
                let exprs = bound_named(plan, projection.expr.iter(), domain)?;
                let exprs = domain.exprs().into_iter().chain(exprs).collect();
                self.unnest_here(LogicalPlan::Projection(Projection::try_new(exprs, Arc::new(input))?))
            }
            LogicalPlan::Filter(filter) => {
                let input = self.depend(&filter.input, domain)?;
                let predicate = bind(filter.predicate.clone(), filter.input.schema(), &domain.bindings)?;
                self.unnest_here(LogicalPlan::Filter(Filter::try_new(predicate, Arc::new(input))?))
            }
            LogicalPlan::SubqueryAlias(alias) => {
                let input = self.depend(&alias.input, domain)?;
                requalified(input, domain, alias.input.schema(), &alias.schema, &[])
            }
            LogicalPlan::Subquery(subquery) => self.depend(&subquery.subquery, domain),
            LogicalPlan::Aggregate(aggregate) => self.aggregate(aggregate, domain),
            LogicalPlan::Distinct(Distinct::All(input)) => {
                LogicalPlanBuilder::from(self.depend(input, domain)?).distinct()?.build()
            }
            // Without a limit the order of a subquery says nothing.
            LogicalPlan::Sort(sort) if sort.fetch.is_none() => self.depend(&sort.input, domain),
            LogicalPlan::Limit(limit) => self.limit(limit, domain),
            LogicalPlan::Window(window) => self.window(window, domain),
            LogicalPlan::Union(union) => self.union(union, domain),
            LogicalPlan::Join(join) => self.join(join, domain),
            other => Err(to_datafusion(unsupported(other))),
        }
    }

    fn aggregate(&mut self, aggregate: &Aggregate, domain: &Domain) -> Result<LogicalPlan> {
        if aggregate.group_expr.iter().any(|expr| matches!(expr, Expr::GroupingSet(_))) {
            let error = Error::new(ErrorKind::Unsupported, "grouping sets are not supported in a correlated subquery");
            return Err(to_datafusion(error));
        }
        let input = self.depend(&aggregate.input, domain)?;
        let own = aggregate.input.schema();
        let bound = |expr: &Expr| bind(expr.clone(), own, &domain.bindings);
        let groups = aggregate.group_expr.iter().map(bound).collect::<Result<Vec<_>>>()?;
        let aggregates = aggregate.aggr_expr.iter().map(bound).collect::<Result<Vec<_>>>()?;
        let (input, aggregates) = if groups.is_empty() {
            // Rows of the domain for which there is nothing have a group too, in which no row counts.
            let aggregates = aggregates.into_iter().map(where_present).collect();
            (with_absent(input, domain, own)?, aggregates)
        } else {
            (input, aggregates)
        };
        let keys = domain.exprs().into_iter().chain(groups).collect();
        let plan = self.unnest_here(LogicalPlan::Aggregate(Aggregate::try_new(Arc::new(input), keys, aggregates)?))?;
        by_position(plan, domain, &aggregate.schema)
    }

    fn window(&mut self, window: &Window, domain: &Domain) -> Result<LogicalPlan> {
        let input = self.depend(&window.input, domain)?;
        let own = window.input.schema();
        let exprs = window
            .window_expr
            .iter()
            .map(|expr| per_row_of(bind(expr.clone(), own, &domain.bindings)?, domain))
            .collect::<Result<Vec<_>>>()?;
        let names: Vec<String> = exprs.iter().map(|expr| expr.schema_name().to_string()).collect();
        let plan = self.unnest_here(LogicalPlan::Window(Window::try_new(exprs, Arc::new(input))?))?;
        let (old, computed): (Vec<_>, Vec<_>) = {
            let columns = window.schema.columns();
            let (old, computed) = columns.split_at(own.fields().len());
            (old.to_vec(), computed.to_vec())
        };
        let computed = computed.into_iter().zip(names).map(|(column, name)| {
            Expr::Column(Column::new_unqualified(name)).alias_qualified(column.relation, column.name)
        });
        let exprs = domain.exprs().into_iter().chain(old.into_iter().map(Expr::Column)).chain(computed).collect();
        Ok(LogicalPlan::Projection(Projection::try_new(exprs, Arc::new(plan))?))
    }

    fn limit(&mut self, limit: &Limit, domain: &Domain) -> Result<LogicalPlan> {
        let (SkipType::Literal(skip), FetchType::Literal(fetch)) = (limit.get_skip_type()?, limit.get_fetch_type()?)
        else {
            let error = Error::new(ErrorKind::Unsupported, "LIMIT of a correlated subquery must be a number");
            return Err(to_datafusion(error));
        };
        let numbered = self.numbered(&limit.input, domain)?;
        let number = || Expr::Column(Column::new_unqualified(NUMBER));
        let mut wanted = number().gt(lit(skip as u64));
        if let Some(fetch) = fetch {
            wanted = wanted.and(number().lt_eq(lit(skip.saturating_add(fetch) as u64)));
        }
        let filtered = LogicalPlan::Filter(Filter::try_new(wanted, Arc::new(numbered))?);
        requalified(filtered, domain, limit.input.schema(), limit.input.schema(), &[])
    }

    /// The rows of `plan` for every row of the domain, and behind them their number in the plan's order.
    fn numbered(&mut self, plan: &LogicalPlan, domain: &Domain) -> Result<LogicalPlan> {
        match plan {
            LogicalPlan::Projection(projection) => {
                let input = self.numbered(&projection.input, domain)?;
                let exprs = bound_named(plan, projection.expr.iter(), domain)?;
                let number = Expr::Column(Column::new_unqualified(NUMBER));
                let exprs = domain.exprs().into_iter().chain(exprs).chain([number]).collect();
                self.unnest_here(LogicalPlan::Projection(Projection::try_new(exprs, Arc::new(input))?))
            }
            LogicalPlan::SubqueryAlias(alias) => {
                let input = self.numbered(&alias.input, domain)?;
                requalified(input, domain, alias.input.schema(), &alias.schema, &[NUMBER])
            }
            LogicalPlan::Sort(sort) if sort.fetch.is_none() => {
                let input = self.depend(&sort.input, domain)?;
                let own = sort.input.schema();
                let keys = sort.expr.iter().map(|key| {
                    let expr = bind(key.expr.clone(), own, &domain.bindings)?;
                    Ok(SortExpr::new(expr, key.asc, key.nulls_first))
                });
                with_number(input, domain, keys.collect::<Result<Vec<_>>>()?)
            }
            other => with_number(self.depend(other, domain)?, domain, Vec::new()),
        }
    }

    fn union(&mut self, union: &Union, domain: &Domain) -> Result<LogicalPlan> {
        let inputs = union
            .inputs
            .iter()
            .map(|input| positional(self.depend(input, domain)?, domain, input.schema()).map(Arc::new))
            .collect::<Result<Vec<_>>>()?;
        by_position(LogicalPlan::Union(Union::try_new_with_loose_types(inputs)?), domain, &union.schema)
    }

    fn join(&mut self, join: &Join, domain: &Domain) -> Result<LogicalPlan> {
        let from_right = match join.join_type {
            JoinType::Inner => !refers(&join.left, domain) && refers(&join.right, domain),
            JoinType::Left | JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark if !join.null_aware => false,
            JoinType::Right | JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark => true,
            _ => {
                let error = Error::new(ErrorKind::Unsupported, "FULL JOIN is not supported in a correlated subquery");
                return Err(to_datafusion(error));
            }
        };
        let (kept, other) = if from_right { (&join.right, &join.left) } else { (&join.left, &join.right) };
        let kept = self.depend(kept, domain)?;
        let mut equal = Vec::new();
        let other = if refers(other, domain) {
            let second = domain.again(&self.next_name())?;
            let fields = domain.plan.schema().fields();
            for ((first, second), field) in domain.exprs().into_iter().zip(second.exprs()).zip(fields) {
                equal.push(same(first, second, field.data_type())?);
            }
            self.depend(other, &second)?
        } else {
            other.as_ref().clone()
        };
        let (left, right) = if from_right { (other, kept) } else { (kept, other) };
        let own = merge_schema(&[&join.left, &join.right]);
        let bound = |expr: &Expr| bind(expr.clone(), &own, &domain.bindings);
        let on = join.on.iter().map(|(left, right)| Ok((bound(left)?, bound(right)?))).collect::<Result<Vec<_>>>()?;
        let filter = join.filter.as_ref().map(bound).transpose()?;
        let joined = Join::try_new(
            Arc::new(left),
            Arc::new(right),
            on,
            conjunction(filter.into_iter().chain(equal)),
            join.join_type,
            join.join_constraint,
            join.null_equality,
            false,
        )?;
        let joined = self.unnest_here(LogicalPlan::Join(joined))?;
        requalified(joined, domain, &join.schema, &join.schema, &[])
    }
}

/// Whether `plan` refers to a column of the domain.
fn refers(plan: &LogicalPlan, domain: &Domain) -> bool {
    references(plan).iter().any(|column| domain.bindings.iter().any(|(outside, _)| outside == column))
}

/// `exprs` of `plan`, bound, under the names that they had.
fn bound_named<'e>(plan: &LogicalPlan, exprs: impl Iterator<Item = &'e Expr>, domain: &Domain) -> Result<Vec<Expr>> {
    let own = merge_schema(&plan.inputs());
    exprs
        .zip(plan.schema().columns())
        .map(|(expr, column)| {
            if references_of(expr, &own).is_empty() {
                return Ok(expr.clone());
            }
            Ok(bind(expr.clone(), &own, &domain.bindings)?.unalias().alias_qualified(column.relation, column.name))
        })
        .collect()
}

/// The domain's columns and those of `old` in `plan` as they are called in `new`, and the columns `more`.
fn requalified(
    plan: LogicalPlan,
    domain: &Domain,
    old: &DFSchema,
    new: &DFSchema,
    more: &[&str],
) -> Result<LogicalPlan> {
    let columns = old.columns().into_iter().zip(new.columns()).map(|(from, to)| {
        if from == to { Expr::Column(from) } else { Expr::Column(from).alias_qualified(to.relation, to.name) }
    });
    let more = more.iter().map(|name| Expr::Column(Column::new_unqualified(*name)));
    let exprs = domain.exprs().into_iter().chain(columns).chain(more).collect();
    Ok(LogicalPlan::Projection(Projection::try_new(exprs, Arc::new(plan))?))
}

/// `plan`, whose columns are the domain's and then those of `new`, under those names.
fn by_position(plan: LogicalPlan, domain: &Domain, new: &DFSchema) -> Result<LogicalPlan> {
    let wanted = domain.columns().into_iter().chain(new.columns());
    let exprs = plan.schema().columns().into_iter().zip(wanted).map(|(from, to)| {
        if from == to { Expr::Column(from) } else { Expr::Column(from).alias_qualified(to.relation, to.name) }
    });
    let exprs = exprs.collect();
    Ok(LogicalPlan::Projection(Projection::try_new(exprs, Arc::new(plan))?))
}

/// The domain's columns and those of `old` in `plan`, called by their places.
fn positional(plan: LogicalPlan, domain: &Domain, old: &DFSchema) -> Result<LogicalPlan> {
    let columns = domain.columns().into_iter().chain(old.columns());
    let exprs = columns.enumerate().map(|(place, column)| Expr::Column(column).alias(format!("__column_{place}")));
    LogicalPlanBuilder::from(plan).project(exprs)?.build()
}

/// `plan` with the number of each row among those of its row of the domain, in the order of `keys`.
fn with_number(plan: LogicalPlan, domain: &Domain, keys: Vec<SortExpr>) -> Result<LogicalPlan> {
    let number = row_number().partition_by(domain.exprs());
    // Without an order any rows are the first.
    let number = if keys.is_empty() { number.build()? } else { number.order_by(keys).build()? };
    let name = number.schema_name().to_string();
    let columns = plan.schema().columns().into_iter().map(Expr::Column);
    let number_column = Expr::Column(Column::new_unqualified(name)).alias(NUMBER);
    let exprs: Vec<Expr> = columns.chain([number_column]).collect();
    LogicalPlanBuilder::from(plan).window([number])?.project(exprs)?.build()
}

/// The window function `expr` within each row of the domain.
fn per_row_of(expr: Expr, domain: &Domain) -> Result<Expr> {
    Ok(match expr {
        Expr::WindowFunction(mut call) => {
            let WindowFunction { params, .. } = call.as_mut();
            params.partition_by.extend(domain.exprs());
            Expr::WindowFunction(call)
        }
        Expr::Alias(alias) => per_row_of(*alias.expr, domain)?.alias_qualified(alias.relation, alias.name),
        other => other,
    })
}

/// The rows of `input`, and one row per row of the domain in which `PRESENT` is false and everything else NULL.
fn with_absent(input: LogicalPlan, domain: &Domain, own: &DFSchema) -> Result<LogicalPlan> {
    let columns = own.columns();
    let present = columns.iter().cloned().map(Expr::Column).chain([lit(true).alias(PRESENT)]);
    let present = LogicalPlanBuilder::from(input).project(domain.exprs().into_iter().chain(present))?.build()?;
    let mut absent = domain.exprs();
    for (column, field) in columns.into_iter().zip(own.fields()) {
        let null = Expr::Literal(ScalarValue::try_new_null(field.data_type())?, None);
        absent.push(null.alias_qualified(column.relation, column.name));
    }
    absent.push(lit(false).alias(PRESENT));
    let absent = LogicalPlanBuilder::from(domain.plan.clone()).project(absent)?.build()?;
    let schema = Arc::clone(present.schema());
    let none = Domain { plan: domain.plan.clone(), bindings: Vec::new() };
    let inputs = [present, absent].map(|input| {
        let own = Arc::clone(input.schema());
        positional(input, &none, &own).map(Arc::new)
    });
    let inputs = inputs.into_iter().collect::<Result<Vec<_>>>()?;
    by_position(LogicalPlan::Union(Union::try_new_with_loose_types(inputs)?), &none, &schema)
}

/// The aggregate `expr` of the rows that are present.
fn where_present(expr: Expr) -> Expr {
    match expr {
        Expr::AggregateFunction(AggregateFunction { func, mut params }) => {
            let present = Expr::Column(Column::new_unqualified(PRESENT));
            let filter = params.filter.take().map_or(present.clone(), |filter| present.and(*filter));
            params.filter = Some(Box::new(filter));
            Expr::AggregateFunction(AggregateFunction { func, params })
        }
        Expr::Alias(alias) => where_present(*alias.expr).alias_qualified(alias.relation, alias.name),
        other => other,
    }
}

fn unsupported(plan: &LogicalPlan) -> Error {
    let what = match plan {
        LogicalPlan::Values(_) => "VALUES",
        LogicalPlan::Unnest(_) => "unnest",
        LogicalPlan::RecursiveQuery(_) => "WITH RECURSIVE",
        LogicalPlan::Distinct(_) => "DISTINCT ON",
        _ => "this",
    };
    Error::new(
        ErrorKind::Unsupported,
        format!("{what} is not supported in a subquery where it refers to a column of the query around it"),
    )
    .hint("join the tables, and group by the columns that the subquery refers to")
}
