//! `SUMMARIZE`: one row for each column of a table or query, computed in one pass over its rows.
//!
//! ```text
//! SUMMARIZE t  ->  SELECT unnest(['a', 'b']) AS column_name, unnest([min(a)::TEXT, min(b)::TEXT]) AS min, ... FROM t
//! ```

use arrow::datatypes::{DataType, IntervalUnit};
use rowmill_base::{Error, ErrorKind, Result};
use rowmill_expr::kinds::is_number;
use sqlparser::ast::{
    Array, BinaryOperator, CastKind, DataType as AstType, ExactNumberInfo, Expr, Query, TableAlias, Value,
};

use super::Binder;
use super::built_query::{binary, call, column, derived, named, query, select, text};
use super::from::FromPart;
use super::place::type_name;

/// The name of the call that the parser makes of SUMMARIZE.
pub(super) const SUMMARIZE: &str = "summarize";

/// A column of the summarized rows.
struct SummarizedColumn {
    /// The name as spelled.
    shown: String,
    kind: DataType,
    /// The name in the query that computes the summary.
    value: Expr,
}

impl Binder<'_> {
    /// Binds the rows of `SUMMARIZE query`.
    pub(super) fn summarize(&mut self, arguments: &[&Expr], alias: Option<&TableAlias>) -> Result<FromPart> {
        let [argument] = arguments else { return Err(not_a_query()) };
        let mut argument = *argument;
        while let Expr::Nested(inner) = argument {
            argument = inner;
        }
        let Expr::Subquery(rows) = argument else { return Err(not_a_query()) };
        let columns = self.summarized_columns(rows)?;
        let names = (1..=columns.len()).map(|place| format!("c{place}")).collect();
        let summary = self.summary(&columns);
        let rows = derived((**rows).clone(), "summarized", names);
        self.derived(false, &query(select(summary, rows)), alias)
    }

    fn summarized_columns(&mut self, rows: &Query) -> Result<Vec<SummarizedColumn>> {
        let part = self.derived(false, rows, None)?;
        let columns = part.names.visible.iter().enumerate().map(|(place, one)| SummarizedColumn {
            shown: one.spelled.to_string(),
            kind: self.kind(one.id).clone(),
            value: column(&format!("c{}", place + 1)),
        });
        Ok(columns.collect())
    }

    /// The select list of the summary.
    fn summary(&self, columns: &[SummarizedColumn]) -> Vec<sqlparser::ast::SelectItem> {
        let of = |name: &'static str, one: &SummarizedColumn| as_text(call(name, vec![one.value.clone()]));
        let only = |takes: bool, value: Expr| if takes { value } else { null_text() };
        let share = |share: &str, one: &SummarizedColumn| {
            let rank = Expr::value(Value::Number(share.into(), false));
            only(is_ranked(&one.kind), as_text(call("quantile_disc", vec![one.value.clone(), rank])))
        };
        let mut items = Vec::new();
        let mut add = |name: &str, value: &dyn Fn(&SummarizedColumn) -> Expr| {
            let values = columns.iter().map(value).collect();
            items.push(named(call("unnest", vec![list(values)]), name));
        };
        add("column_name", &|one| text(one.shown.as_str()));
        add("column_type", &|one| text(type_name(&one.kind)));
        add("min", &|one| only(is_ordered(&one.kind), of("min", one)));
        add("max", &|one| only(is_ordered(&one.kind), of("max", one)));
        add("approx_unique", &|one| {
            let counted = if is_ordered(&one.kind) { "approx_count_distinct" } else { "count" };
            cast(call(counted, vec![one.value.clone()]), AstType::BigInt(None))
        });
        add("avg", &|one| only(is_number(&one.kind), as_text(call("avg", vec![cast(one.value.clone(), double())]))));
        add("std", &|one| only(is_number(&one.kind), of("stddev_samp", one)));
        add("q25", &|one| share("0.25", one));
        add("q50", &|one| share("0.5", one));
        add("q75", &|one| share("0.75", one));
        add("count", &|_| count(None));
        add("null_percentage", &null_percentage);
        items
    }
}

/// `100 - 100 * count(c) / count(*)`, NULL without rows.
fn null_percentage(one: &SummarizedColumn) -> Expr {
    let hundred = || Expr::value(Value::Number("100.0".into(), false));
    let rows = call("nullif", vec![count(None), Expr::value(Value::Number("0".into(), false))]);
    let missing = binary(count(None), BinaryOperator::Minus, count(Some(one.value.clone())));
    let missing = binary(hundred(), BinaryOperator::Multiply, Expr::Nested(Box::new(missing)));
    let percent = binary(cast(missing, double()), BinaryOperator::Divide, rows);
    cast(percent, AstType::Decimal(ExactNumberInfo::PrecisionAndScale(9, 2)))
}

/// `count(*)` or `count(value)`
fn count(value: Option<Expr>) -> Expr {
    call("count", vec![value.unwrap_or_else(|| Expr::value(Value::Number("1".into(), false)))])
}

fn list(elem: Vec<Expr>) -> Expr {
    Expr::Array(Array { elem, named: false })
}

fn cast(expr: Expr, data_type: AstType) -> Expr {
    Expr::Cast { kind: CastKind::Cast, expr: Box::new(expr), data_type, array: false, format: None }
}

fn as_text(expr: Expr) -> Expr {
    cast(expr, AstType::Text)
}

fn null_text() -> Expr {
    as_text(Expr::value(Value::Null))
}

fn double() -> AstType {
    AstType::Double(ExactNumberInfo::None)
}

/// Whether values of a type have a smallest one.
fn is_ordered(kind: &DataType) -> bool {
    !kind.is_nested() && *kind != DataType::Null && *kind != DataType::Interval(IntervalUnit::MonthDayNano)
}

/// Whether quantiles of values of a type are shown.
fn is_ranked(kind: &DataType) -> bool {
    is_number(kind) || kind.is_temporal() && is_ordered(kind)
}

fn not_a_query() -> Error {
    Error::new(ErrorKind::Syntax, "SUMMARIZE takes a table or a query")
        .hint("write SUMMARIZE t, or SUMMARIZE SELECT ... FROM t")
}
