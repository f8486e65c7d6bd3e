//! Aggregates: their arguments, and the SELECT that computes them.
//!
//! An aggregate belongs to the innermost query whose columns its arguments name. If they name no columns, it belongs to
//! the query in which it is written. For example, in `SELECT (SELECT sum(o.x)) FROM o` the outer query computes the
//! sum.

use std::collections::HashSet;

use arrow::array::{Array, AsArray};
use arrow::datatypes::{DataType, Float64Type};
use rowmill_base::{Error, ErrorKind, Result};
use rowmill_exec::aggregate;
use rowmill_expr::fold;
use rowmill_plan::logical::{AggregateCall, LogicalSortKey};
use rowmill_plan::{
    AggregateFunction, AggregateNulls, AggregateOrdering, AggregateParameter, Constant, ExprOp, ScalarExpr, SizeBounds,
};
use sqlparser::ast::{
    DuplicateTreatment, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentClause, NullTreatment,
};

use super::Binder;
use super::call::{argument_list, order_clause};
use super::place::{start_of, type_names, unsupported};
use super::scope::{AliasUse, Clause, ScopeRelation, SelectLevel};
use super::total_of_parts::TotalOfParts;
use super::walk::{call_exprs, free_columns, is_volatile_expr};

impl Binder<'_> {
    /// Binds a call of an aggregate without OVER. A new column represents its value.
    pub(super) fn aggregate_call(&mut self, name: &str, call: &Function) -> Result<ScalarExpr> {
        // Aggregates are computed before the select list, so its names must not be used here.
        let before = self.level().alias_use;
        if before == AliasUse::First {
            self.level().alias_use = AliasUse::Fallback;
        }
        let aggregate = self.aggregate(name, call);
        self.level().alias_use = before;
        let aggregate = aggregate?;
        match TotalOfParts::of(&aggregate)? {
            None => self.aggregate_column(name, aggregate),
            Some(total) => {
                let calls = total.calls().iter().cloned();
                let results = calls.map(|call| self.aggregate_column(call.function.name, call));
                total.result(results.collect::<Result<_>>()?)
            }
        }
    }

    /// The column of an aggregate. Equal aggregates share one.
    fn aggregate_column(&mut self, name: &str, aggregate: AggregateCall) -> Result<ScalarExpr> {
        let mut named = HashSet::new();
        let mut is_volatile = false;
        call_exprs(&aggregate, &mut |expr| {
            named.extend(free_columns(expr));
            is_volatile |= is_volatile_expr(expr);
        });
        let owner = self.owner(&named);
        let level = &mut self.levels[owner];
        check_clause(level)?;
        if level.aggregates.iter().any(|(id, _)| named.contains(&id.0)) {
            return Err(nested("aggregate functions cannot be nested"));
        }
        if level.windows.iter().any(|window| named.contains(&window.id.0)) {
            return Err(nested("a window function cannot be nested in an aggregate function"));
        }
        let kind = aggregate.kind.clone();
        let known = level.aggregates.iter().find(|(_, other)| *other == aggregate && !is_volatile).map(|(id, _)| *id);
        let id = match known {
            Some(id) => id,
            None => {
                let id = self.add_column(name, kind.clone());
                let declared = aggregate.arguments.first().and_then(|of| self.declared_of_aggregate(name, of));
                self.columns.declare(id, declared);
                self.levels[owner].aggregates.push((id, aggregate));
                id
            }
        };
        Ok(ScalarExpr::id(id, kind))
    }

    /// The level that must compute an aggregate over these columns.
    fn owner(&self, named: &HashSet<usize>) -> usize {
        let innermost = self.levels.len() - 1;
        let makes = |level: &SelectLevel| named.iter().any(|id| level.reads(*id) || level.computes(*id));
        (0..=innermost).rev().find(|place| makes(&self.levels[*place])).unwrap_or(innermost)
    }

    /// The call of an aggregate with its arguments bound.
    pub(super) fn aggregate(&mut self, name: &str, call: &Function) -> Result<AggregateCall> {
        if let Some(greatest) = takes_extreme(name) {
            return self.value_at_extreme(name, greatest, call);
        }
        let function = aggregate::find(name).expect("the name is one of an aggregate");
        let mut distinct = false;
        let mut skips_nulls = function.nulls == AggregateNulls::TakenOnDemand;
        let mut arguments: Vec<&Expr> = Vec::new();
        if let Some(list) = argument_list(call) {
            distinct = list.duplicate_treatment == Some(DuplicateTreatment::Distinct);
            for arg in &list.args {
                match arg {
                    FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => arguments.push(expr),
                    FunctionArg::Unnamed(FunctionArgExpr::Wildcard)
                        if function.is_count() && list.args.len() == 1 && !distinct => {}
                    other => {
                        let message = format!("{name} does not take {other}");
                        return Err(Error::new(ErrorKind::UndefinedFunction, message));
                    }
                }
            }
            for clause in &list.clauses {
                match clause {
                    FunctionArgumentClause::OrderBy(_) => {}
                    FunctionArgumentClause::IgnoreOrRespectNulls(treatment) => {
                        skips_nulls = *treatment == NullTreatment::IgnoreNulls;
                    }
                    other => return Err(unsupported(format!("{other} in {name}"))),
                }
            }
        }
        if let Some(treatment) = &call.null_treatment {
            skips_nulls = *treatment == NullTreatment::IgnoreNulls;
        }
        if function.is_count() && arguments.len() > 1 {
            let what =
                if distinct { "COUNT DISTINCT with multiple arguments" } else { "COUNT with multiple arguments" };
            return Err(unsupported(what).hint("count(DISTINCT struct(a, b)) counts rows of values"));
        }
        let mut order = match order_clause(call) {
            Some(order) => self.inner_order(order)?,
            None => Vec::new(),
        };
        let mut values = Vec::with_capacity(arguments.len());
        for argument in &arguments {
            values.push(self.expr(argument)?);
        }
        if order.is_empty()
            && matches!(name, "first" | "last")
            && let Some(time) = self.implied_time(&values)
        {
            order.push(LogicalSortKey { expr: time, descending: false, nulls_first: true });
        }
        let within = self.inner_order(&call.within_group)?;
        if !within.is_empty() {
            within_group(name, function, within, &mut values, &mut order)?;
        }
        let mut parameter = self.aggregate_parameter(name, function, &mut values)?;
        let kinds: Vec<DataType> = values.iter().map(|value| value.kind.clone()).collect();
        let Some((casts, kind)) = function.kinds(&kinds) else {
            let message = format!("there is no {name}({})", type_names(&kinds));
            return Err(Error::new(ErrorKind::UndefinedFunction, message)
                .hint("check the order and the types of the arguments; CAST(... AS type) makes another type of one"));
        };
        let uncast = values.clone();
        let mut cast = Vec::with_capacity(values.len());
        for (value, kind) in values.into_iter().zip(&casts) {
            let value = self.typed_parameter(value, kind);
            cast.push(self.coerce(value, kind)?);
        }
        match function.ordering {
            AggregateOrdering::OfRows | AggregateOrdering::OfValues => {}
            AggregateOrdering::TurnsShare => turn_share(&mut parameter, &mut order),
            AggregateOrdering::Irrelevant => order.clear(),
        }
        if distinct && order.iter().any(|key| !uncast.contains(&key.expr)) {
            let message = format!("in {name} with DISTINCT, ORDER BY must name the aggregated value");
            return Err(Error::new(ErrorKind::Grouping, message));
        }
        if distinct {
            // The keys must equal the values as the aggregate sees them, so we use the cast values.
            for key in &mut order {
                if let Some(place) = uncast.iter().position(|value| *value == key.expr) {
                    key.expr = cast[place].clone();
                }
            }
        }
        let filter = match &call.filter {
            Some(filter) => Some(self.condition(filter).map_err(|error| self.at(error, start_of(filter)))?),
            None => None,
        };
        Ok(AggregateCall { function, arguments: cast, parameter, distinct, order, skips_nulls, filter, kind })
    }

    /// The time in whose order `first` and `last` take values: the one of SAMPLE BY, or the time column of the table
    /// that the values are of.
    fn implied_time(&mut self, values: &[ScalarExpr]) -> Option<ScalarExpr> {
        if let Some(time) = &self.level().sampled_time {
            return Some(time.clone());
        }
        let named: HashSet<usize> = values.iter().flat_map(free_columns).collect();
        let names = self.levels.last().into_iter().flat_map(|level| &level.names);
        let is_of = |relation: &&ScopeRelation| relation.columns.iter().any(|column| named.contains(&column.id.0));
        let relation = names.flat_map(|names| &names.relations).find(is_of)?;
        let time = relation.columns.iter().map(|column| column.id).find(|id| self.time_columns.contains(id))?;
        Some(self.columns.expr(time))
    }

    /// Binds `arg_max(value, by)` and `arg_min(value, by)`: the value of the row with the greatest or least `by`,
    /// among the rows that have both. `arg_max_null` also takes rows without a value, `arg_max_nulls_last` all rows.
    fn value_at_extreme(&mut self, name: &str, greatest: bool, call: &Function) -> Result<AggregateCall> {
        let arguments = super::call::arguments_of(call)?;
        let list = argument_list(call);
        if list.is_some_and(|list| list.duplicate_treatment.is_some() || !list.clauses.is_empty()) {
            return Err(unsupported(format!("DISTINCT and ORDER BY in {name}")));
        }
        let [value, by] = arguments.as_slice() else {
            let message = format!("{name} takes two arguments: the value, and the expression that orders the rows");
            return Err(Error::new(ErrorKind::UndefinedFunction, message));
        };
        let (value, by) = (self.expr(value)?, self.expr(by)?);
        let has_value = |expr: &ScalarExpr| {
            let op = ExprOp::IsNull { value: Box::new(expr.clone()), negated: true };
            ScalarExpr::new(DataType::Boolean, op)
        };
        let mut conditions = match name {
            // All rows count, and those without the expression that orders them come last.
            "arg_max_nulls_last" | "arg_min_nulls_last" => Vec::new(),
            // The value may be NULL.
            "arg_max_null" | "arg_min_null" => vec![has_value(&by)],
            _ => vec![has_value(&value), has_value(&by)],
        };
        if let Some(filter) = &call.filter {
            conditions.push(self.condition(filter).map_err(|error| self.at(error, start_of(filter)))?);
        }
        let kind = value.kind.clone();
        Ok(AggregateCall {
            function: aggregate::find("first_value").expect("the aggregate exists"),
            arguments: vec![value],
            parameter: None,
            distinct: false,
            order: vec![LogicalSortKey { expr: by, descending: greatest, nulls_first: false }],
            skips_nulls: false,
            filter: (!conditions.is_empty()).then(|| ScalarExpr::and(conditions)),
            kind,
        })
    }

    /// Removes the constant that an aggregate needs from its arguments.
    fn aggregate_parameter(
        &mut self,
        name: &str,
        function: AggregateFunction,
        values: &mut Vec<ScalarExpr>,
    ) -> Result<Option<Constant>> {
        let Some(kind) = function.parameter.kind() else { return Ok(None) };
        if function.parameter == AggregateParameter::Share && values.len() == function.arguments + 2 {
            // This argument is the size of a sketch. We compute quantiles exactly and ignore it.
            values.pop();
        }
        if let AggregateParameter::Size(bounds) = function.parameter
            && values.len() == function.arguments
        {
            return Ok(Some(Constant::from(bounds.default)));
        }
        if function.parameter == AggregateParameter::Separator && values.len() == function.arguments {
            return Ok(Some(Constant::from(",")));
        }
        if values.len() != function.arguments + 1 {
            let kinds: Vec<DataType> = values.iter().map(|value| value.kind.clone()).collect();
            let message = format!("there is no {name}({})", type_names(&kinds));
            return Err(Error::new(ErrorKind::UndefinedFunction, message));
        }
        let value = values.pop().expect("the parameter follows the arguments");
        let mut value = self.coerce(value, &kind)?;
        if value.as_constant().is_none() {
            fold::fold(&mut value);
        }
        let Some(constant) = value.as_constant().cloned() else {
            return Err(Error::new(
                ErrorKind::InvalidParameter,
                format!("the last argument of {name} must be a constant"),
            ));
        };
        match function.parameter {
            AggregateParameter::Share => {
                let share = constant.array().as_primitive::<Float64Type>();
                if share.is_null(0) || !(0.0..=1.0).contains(&share.value(0)) {
                    let message = format!("the share of {name} must be from 0 to 1");
                    return Err(Error::new(ErrorKind::InvalidParameter, message));
                }
            }
            AggregateParameter::Nth if matches!(constant.as_bigint(), None | Some(0)) => {
                let message = format!("the place in {name} must be a whole number other than 0");
                return Err(Error::new(ErrorKind::InvalidParameter, message));
            }
            AggregateParameter::Size(SizeBounds { name: size, least, most, .. })
                if !constant.as_bigint().is_some_and(|size| (least..=most).contains(&size)) =>
            {
                let message = format!("{size} of {name} must be from {least} to {most}");
                return Err(Error::new(ErrorKind::InvalidParameter, message));
            }
            _ => {}
        }
        Ok(Some(constant))
    }
}

/// Whether the function gives the value of the row with the greatest, or else the least, value of another expression.
pub(super) fn takes_extreme(name: &str) -> Option<bool> {
    match name {
        "arg_max" | "argmax" | "max_by" | "arg_max_null" | "arg_max_nulls_last" => Some(true),
        "arg_min" | "argmin" | "min_by" | "arg_min_null" | "arg_min_nulls_last" => Some(false),
        _ => None,
    }
}

/// Binds `WITHIN GROUP (ORDER BY ...)`: the values of a quantile or of `mode`, or the order of `string_agg`.
fn within_group(
    name: &str,
    function: AggregateFunction,
    within: Vec<LogicalSortKey>,
    values: &mut Vec<ScalarExpr>,
    order: &mut Vec<LogicalSortKey>,
) -> Result<()> {
    if !function.within_group {
        let takers: Vec<&str> = aggregate::all().filter(|other| other.within_group).map(|other| other.name).collect();
        return Err(
            unsupported(format!("WITHIN GROUP with {name}")).hint(format!("it belongs to {}", takers.join(", ")))
        );
    }
    if !order.is_empty() {
        return Err(Error::new(ErrorKind::Syntax, format!("{name} has an ORDER BY and a WITHIN GROUP")));
    }
    // A text in the order of other values keeps its argument; the others take the value from this clause.
    if function.ordering != AggregateOrdering::OfRows {
        let [key] = within.as_slice() else {
            let message = format!("WITHIN GROUP of {name} takes one expression");
            return Err(Error::new(ErrorKind::CardinalityViolation, message));
        };
        values.insert(0, key.expr.clone());
    }
    *order = within;
    Ok(())
}

/// Converts a continuous quantile with DESC: the share s from the greatest value is 1 - s from the least.
fn turn_share(parameter: &mut Option<Constant>, order: &mut Vec<LogicalSortKey>) {
    if order.first().is_some_and(|key| key.descending)
        && let Some(constant) = parameter
    {
        let share = constant.array().as_primitive::<Float64Type>().value(0);
        let turned = arrow::array::Float64Array::from(vec![1.0 - share]);
        *constant = Constant::new(std::sync::Arc::new(turned));
    }
    order.clear();
}

fn check_clause(level: &SelectLevel) -> Result<()> {
    match level.clause {
        Clause::Select | Clause::Having | Clause::Qualify | Clause::OrderBy | Clause::GroupBy => Ok(()),
        clause => {
            let message = format!("aggregate functions are not allowed in {}", clause.name());
            let error = Error::new(ErrorKind::Grouping, message);
            Err(match clause {
                Clause::Where => error.hint("write conditions on groups in HAVING"),
                Clause::From => error.hint("compute it in a subquery"),
                _ => error,
            })
        }
    }
}

fn nested(message: &str) -> Error {
    Error::new(ErrorKind::Grouping, message).hint("compute the inner one in a subquery")
}
