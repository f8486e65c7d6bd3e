//! `PIVOT`: the values of columns become columns.
//!
//! ```text
//! cities PIVOT (sum(n) FOR (year) IN (ANY))  ->  SELECT country, sum(n) FILTER (WHERE year = '2000') AS "2000", ...
//!                                                FROM cities GROUP BY country
//! ```
//!
//! `crate sql` turns the statement `PIVOT t ON c USING sum(x) GROUP BY g` into this form: each aggregate is the
//! argument of `"pivot value"`, and the columns that stay are the arguments of `"pivot groups"`. A column without a
//! list of values is read now, because its values name the columns of the result.

use std::collections::HashSet;

use rowmill_base::{Error, ErrorKind, Result};
use rowmill_exec::aggregate;
use sqlparser::ast::{
    BinaryOperator, Distinct, Expr, ExprWithAlias, GroupByExpr, Ident, OrderBy, OrderByExpr, OrderByKind,
    PivotValueSource, SelectItem, TableFactor, Value,
};

use super::Binder;
use super::built_query::{all_of, arguments, as_call, binary, column, named, query, select, text};
use super::from::FromPart;
use super::literal::text_of;
use super::place::{start_of, unsupported};
use crate::syntax_walk::{each_expr, each_expr_mut};

/// The most columns that one PIVOT makes.
const PIVOT_COLUMNS_MAX: usize = 10_000;

/// A value that becomes a column, or several columns if there are several aggregates.
#[derive(Clone)]
struct PivotValue {
    /// True for the rows of the value.
    condition: Expr,
    name: String,
}

/// An aggregate of a PIVOT.
struct PivotAggregate {
    expr: Expr,
    name: Option<String>,
}

impl Binder<'_> {
    /// Binds `table PIVOT (...)`.
    pub(super) fn pivot(&mut self, factor: &TableFactor) -> Result<FromPart> {
        let TableFactor::Pivot { table, aggregate_functions, value_column, value_source, alias, .. } = factor else {
            return Err(Error::internal("a PIVOT is bound"));
        };
        let mut aggregates = Vec::new();
        let mut groups = None;
        for ExprWithAlias { expr, alias } in aggregate_functions {
            if let Some(call) = as_call(expr, "pivot groups") {
                groups = Some(arguments(call).unwrap_or_default().into_iter().cloned().collect::<Vec<_>>());
                continue;
            }
            let inner = as_call(expr, "pivot value").and_then(arguments);
            let expr =
                inner.and_then(|list| list.first().map(|inner| (*inner).clone())).unwrap_or_else(|| expr.clone());
            let name = alias.as_ref().map(|alias| self.spelled(alias));
            aggregates.push(PivotAggregate { expr, name });
        }
        let values = self.pivot_values(table, value_column, value_source)?;
        if values.len() * aggregates.len() > PIVOT_COLUMNS_MAX {
            let message = format!("PIVOT would make more than {PIVOT_COLUMNS_MAX} columns");
            return Err(Error::new(ErrorKind::StatementTooComplex, message).hint("list the values: ON column IN (...)"));
        }
        let groups = match groups {
            Some(groups) => groups,
            None => self.remaining_columns(table, value_column, &aggregates)?,
        };
        let mut items: Vec<SelectItem> = groups.iter().cloned().map(SelectItem::UnnamedExpr).collect();
        let is_single = aggregates.len() == 1;
        for value in &values {
            for aggregate in &aggregates {
                let name = match &aggregate.name {
                    Some(name) => format!("{}_{name}", value.name),
                    None if is_single => value.name.clone(),
                    None => format!("{}_{}", value.name, aggregate.expr),
                };
                items.push(named(self.filtered(&aggregate.expr, &value.condition)?, &name));
            }
        }
        if items.is_empty() {
            let message = "PIVOT finds no value and no other column, so its result would have no columns";
            return Err(Error::new(ErrorKind::InvalidParameter, message).hint("list the values: ON column IN (...)"));
        }
        let mut pivoted = select(items, (**table).clone());
        pivoted.group_by = GroupByExpr::Expressions(groups, Vec::new());
        self.derived(false, &query(pivoted), alias.as_ref())
    }

    /// The values of the columns after FOR, or their combinations if there are several columns.
    fn pivot_values(
        &mut self,
        table: &TableFactor,
        columns: &[Expr],
        source: &PivotValueSource,
    ) -> Result<Vec<PivotValue>> {
        match (columns, source) {
            ([one], PivotValueSource::List(items)) => self.listed_values(one, items),
            (several, PivotValueSource::List(items)) => self.listed_rows(several, items),
            (_, PivotValueSource::Subquery(_)) => {
                Err(unsupported("a subquery in IN of PIVOT").hint("without IN, PIVOT takes all values of the column"))
            }
            (several, PivotValueSource::Any(_)) => {
                let mut all: Option<Vec<PivotValue>> = None;
                for one in several {
                    let values = self.values_of_column(table, one)?;
                    all = Some(match all {
                        None => values,
                        Some(before) => combined(&before, &values)?,
                    });
                }
                Ok(all.unwrap_or_default())
            }
        }
    }

    /// The values of one column: those of its list, or all that its table has.
    fn values_of_column(&mut self, table: &TableFactor, key: &Expr) -> Result<Vec<PivotValue>> {
        let mut inner = key;
        while let Expr::Nested(nested) = inner {
            inner = nested;
        }
        if let Expr::InList { expr, list, negated: false } = inner {
            let items = list.iter().map(|item| match as_call(item, "pivot named").and_then(arguments).as_deref() {
                Some([value, Expr::Value(name)]) => {
                    let alias = text_of(&name.value).map(Ident::new);
                    ExprWithAlias { expr: (*value).clone(), alias }
                }
                _ => ExprWithAlias { expr: item.clone(), alias: None },
            });
            return self.listed_values(expr, &items.collect::<Vec<_>>());
        }
        let mut distinct = select(vec![SelectItem::UnnamedExpr(key.clone())], table.clone());
        distinct.distinct = Some(Distinct::Distinct);
        distinct.selection = Some(Expr::IsNotNull(Box::new(key.clone())));
        let mut values = query(distinct);
        let first = OrderByExpr::from(Ident::new("1"));
        let first = OrderByExpr { expr: Expr::value(Value::Number("1".into(), false)), ..first };
        values.order_by = Some(OrderBy { kind: OrderByKind::Expressions(vec![first]), interpolate: None });
        values.with = self.visible_withs()?;
        // The columns depend on rows, so the plan must not be used for another snapshot.
        self.reads_clock = true;
        let catalog = self.catalog;
        let texts = catalog.texts_now(&values).map_err(|error| self.at(error, start_of(key)))?;
        let value =
            |name: String| PivotValue { condition: binary(key.clone(), BinaryOperator::Eq, text(&*name)), name };
        Ok(texts.into_iter().map(value).collect())
    }

    fn listed_values(&self, key: &Expr, items: &[ExprWithAlias]) -> Result<Vec<PivotValue>> {
        let values = items.iter().map(|item| {
            let name = item.alias.as_ref().map_or_else(|| name_of_value(&item.expr), |alias| self.spelled(alias));
            PivotValue { condition: is_value(key, &item.expr), name }
        });
        Ok(values.collect())
    }

    /// `FOR (a, b) IN ((1, 'x') AS name, ...)`
    fn listed_rows(&self, keys: &[Expr], items: &[ExprWithAlias]) -> Result<Vec<PivotValue>> {
        let mut values = Vec::with_capacity(items.len());
        for item in items {
            let Expr::Tuple(parts) = &item.expr else {
                let message = format!("IN of PIVOT takes rows of {} values here, not {}", keys.len(), item.expr);
                return Err(self.at(Error::new(ErrorKind::Syntax, message), start_of(&item.expr)));
            };
            if parts.len() != keys.len() {
                let message = format!("a row of IN has {} values, but PIVOT names {} columns", parts.len(), keys.len());
                return Err(self.at(Error::new(ErrorKind::CardinalityViolation, message), start_of(&item.expr)));
            }
            let names: Vec<String> = parts.iter().map(name_of_value).collect();
            let conditions = keys.iter().zip(parts).map(|(key, part)| is_value(key, part));
            let condition = conditions.reduce(|left, right| binary(left, BinaryOperator::And, right));
            let name = item.alias.as_ref().map_or_else(|| names.join("_"), |alias| self.spelled(alias));
            values.extend(condition.map(|condition| PivotValue { condition, name }));
        }
        Ok(values)
    }

    /// The columns of `table` that neither the pivoted columns nor the aggregates name.
    fn remaining_columns(
        &mut self,
        table: &TableFactor,
        keys: &[Expr],
        aggregates: &[PivotAggregate],
    ) -> Result<Vec<Expr>> {
        let mut used: HashSet<String> = HashSet::new();
        for expr in keys.iter().chain(aggregates.iter().map(|aggregate| &aggregate.expr)) {
            each_expr(expr, |part| match part {
                Expr::Identifier(ident) => drop(used.insert(ident.value.clone())),
                Expr::CompoundIdentifier(parts) => used.extend(parts.last().map(|ident| ident.value.clone())),
                _ => {}
            });
        }
        let part = self.derived(false, &all_of(table.clone()), None)?;
        let remaining = part.names.visible.iter().filter(|column| !used.contains(&*column.name));
        Ok(remaining.map(|one| column(&one.name)).collect())
    }

    /// An aggregate over the rows for which `condition` is true.
    fn filtered(&self, expr: &Expr, condition: &Expr) -> Result<Expr> {
        let mut expr = expr.clone();
        if add_filters(&mut expr, condition) {
            return Ok(expr);
        }
        let message = format!("USING of PIVOT takes aggregates, and {expr} has none");
        Err(self.at(Error::new(ErrorKind::Grouping, message).hint("for example sum(x) or count(*)"), start_of(&expr)))
    }
}

/// All combinations of the values of two columns.
fn combined(left: &[PivotValue], right: &[PivotValue]) -> Result<Vec<PivotValue>> {
    if left.len().saturating_mul(right.len()) > PIVOT_COLUMNS_MAX {
        let message = format!("PIVOT would make more than {PIVOT_COLUMNS_MAX} columns");
        return Err(Error::new(ErrorKind::StatementTooComplex, message).hint("list the values: ON column IN (...)"));
    }
    let both = |one: &PivotValue, other: &PivotValue| PivotValue {
        condition: binary(one.condition.clone(), BinaryOperator::And, other.condition.clone()),
        name: format!("{}_{}", one.name, other.name),
    };
    Ok(left.iter().flat_map(|one| right.iter().map(move |other| both(one, other))).collect())
}

fn is_value(key: &Expr, value: &Expr) -> Expr {
    match value {
        Expr::Value(literal) if literal.value == Value::Null => Expr::IsNull(Box::new(key.clone())),
        value => binary(key.clone(), BinaryOperator::Eq, value.clone()),
    }
}

fn name_of_value(value: &Expr) -> String {
    match value {
        Expr::Value(literal) => text_of(&literal.value).map_or_else(|| value.to_string(), str::to_owned),
        value => value.to_string(),
    }
}

/// Adds a condition to the FILTER of every aggregate. Returns whether there is one.
fn add_filters(expr: &mut Expr, condition: &Expr) -> bool {
    let mut found = false;
    each_expr_mut(expr, |part| {
        let Expr::Function(call) = part else { return };
        let name = call.name.0.last().and_then(|part| part.as_ident());
        if call.over.is_none() && name.is_some_and(|name| aggregate::find(&name.value).is_some()) {
            found = true;
            let condition = match call.filter.take() {
                Some(filter) => {
                    binary(Expr::Nested(filter), BinaryOperator::And, Expr::Nested(condition.clone().into()))
                }
                None => condition.clone(),
            };
            call.filter = Some(Box::new(condition));
        }
    });
    found
}
