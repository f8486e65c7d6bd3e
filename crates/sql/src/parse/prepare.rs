//! Prepares a parsed statement for the binder: brings literals into their final form, and refuses clauses that no
//! later stage reads, so that none is silently ignored.

use std::ops::ControlFlow;

use rowmill_base::{Error, ErrorKind, Result, WIDE_DIGITS_MAX};
use rowmill_query::syntax_walk::{SyntaxTree, try_walk_mut};
use sqlparser::ast::{
    CastKind, DataType, ExactNumberInfo, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentList,
    FunctionArguments, Ident, JoinOperator, LimitClause, ObjectName, OrderBy, Query, Select, TableFactor, Value,
    VisitorMut,
};

use super::{RowLock, pg_forms, precedence};

/// Brings a statement or query into the form that the planner expects, or refuses it. `changes_rows` says that
/// subqueries may lock rows. Returns the parameters whose type is only known to PostgreSQL.
pub(super) fn prepare(tree: &mut impl SyntaxTree, changes_rows: bool) -> Result<DeclaredParameters> {
    let mut preparer = Preparer { declared: DeclaredParameters::new(), changes_rows };
    try_walk_mut(tree, &mut preparer)?;
    Ok(preparer.declared)
}

/// The parameters that a statement casts to a type of PostgreSQL's catalog, such as `$1::oid[]`: their numbers from 0,
/// and the names of the types. The engine takes them as numbers and texts, but drivers send other bytes.
pub(crate) type DeclaredParameters = Vec<(usize, &'static str)>;

struct Preparer {
    declared: DeclaredParameters,
    changes_rows: bool,
}

impl VisitorMut for Preparer {
    type Break = Error;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Error> {
        settle(limit_by_fetch(query).and_then(|()| clauses_of_query(query, self.changes_rows)))
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<Error> {
        settle(clauses_of_select(select).and_then(|()| clauses_of_joins(select)))
    }

    fn pre_visit_table_factor(&mut self, table: &mut TableFactor) -> ControlFlow<Error> {
        pg_forms::rewrite_table(table);
        settle(clauses_of_table(table))
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Error> {
        // Operands are visited before their operator, as `repair` needs it.
        precedence::repair(expr);
        pg_forms::rewrite(expr, &mut self.declared);
        if let Expr::AtTimeZone { timestamp, time_zone } = expr {
            let arguments = [&**time_zone, &**timestamp].map(|argument| argument.clone());
            *expr = call("timezone", arguments);
            return ControlFlow::Continue(());
        }
        let Expr::Value(value) = expr else { return ControlFlow::Continue(()) };
        let Value::Number(digits, _) = &value.value else { return ControlFlow::Continue(()) };
        match number(digits) {
            Ok(None) => ControlFlow::Continue(()),
            Ok(Some(double)) => {
                *expr = double;
                ControlFlow::Continue(())
            }
            Err(error) => ControlFlow::Break(error),
        }
    }
}

fn settle(result: Result<()>) -> ControlFlow<Error> {
    match result {
        Ok(()) => ControlFlow::Continue(()),
        Err(error) => ControlFlow::Break(error),
    }
}

/// Returns the expression of a call of one of our functions.
pub(crate) fn call<const N: usize>(name: &str, arguments: [Expr; N]) -> Expr {
    let args = arguments.map(|argument| FunctionArg::Unnamed(FunctionArgExpr::Expr(argument))).to_vec();
    Expr::Function(Function {
        name: ObjectName::from(vec![Ident::new(name)]),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(FunctionArgumentList { duplicate_treatment: None, args, clauses: vec![] }),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: vec![],
    })
}

/// Reads a number. With an exponent it is a DOUBLE; any other is an integer or a decimal of at most 76 digits.
fn number(digits: &str) -> Result<Option<Expr>> {
    if digits.contains(['e', 'E']) {
        let text = digits.replace('_', "");
        if !text.parse::<f64>().is_ok_and(f64::is_finite) {
            return Err(Error::new(
                ErrorKind::NumericOutOfRange,
                format!("number out of range: {digits} does not fit DOUBLE"),
            ));
        }
        // The parser has no node for a DOUBLE literal, so a cast of the text takes its place.
        return Ok(Some(Expr::Cast {
            kind: CastKind::Cast,
            expr: Box::new(Expr::value(Value::SingleQuotedString(text))),
            data_type: DataType::Double(ExactNumberInfo::None),
            array: false,
            format: None,
        }));
    }
    let significant = digits.trim_start_matches('0').bytes().filter(u8::is_ascii_digit).count();
    let fraction = digits.split_once('.').map_or(0, |(_, fraction)| fraction.len());
    if significant.max(fraction) > usize::from(WIDE_DIGITS_MAX) {
        return Err(Error::new(
            ErrorKind::NumericOutOfRange,
            format!("number out of range: {digits} has more than {WIDE_DIGITS_MAX} digits"),
        )
        .hint("with an exponent (1.5e80) it is a DOUBLE"));
    }
    Ok(None)
}

/// Turns `FETCH FIRST n ROWS ONLY` into `LIMIT n`.
fn limit_by_fetch(query: &mut Query) -> Result<()> {
    let Some(fetch) = &query.fetch else { return Ok(()) };
    if fetch.percent {
        return Err(unsupported("FETCH PERCENT"));
    }
    if fetch.with_ties {
        // LIMIT cannot express WITH TIES, so FETCH stays and the binder reads it.
        return Ok(());
    }
    let rows = fetch.quantity.clone().unwrap_or_else(|| Expr::value(Value::Number("1".into(), false)));
    match &mut query.limit_clause {
        None => {
            query.limit_clause = Some(LimitClause::LimitOffset { limit: Some(rows), offset: None, limit_by: vec![] });
        }
        Some(LimitClause::LimitOffset { limit: limit @ None, .. }) => *limit = Some(rows),
        Some(_) => return Err(Error::new(ErrorKind::Syntax, "a query takes FETCH or LIMIT, not both")),
    }
    // The limit replaces FETCH, which no later stage reads.
    query.fetch = None;
    Ok(())
}

fn clauses_of_query(query: &Query, changes_rows: bool) -> Result<()> {
    let is_locking = !query.locks.is_empty();
    refuse(is_locking && !(changes_rows && RowLock::of(query).is_some()), "FOR UPDATE and FOR SHARE")?;
    refuse(query.for_clause.is_some(), "FOR XML, FOR JSON and FOR BROWSE")?;
    refuse(query.settings.is_some(), "SETTINGS")?;
    refuse(query.format_clause.is_some(), "FORMAT")?;
    if let Some(LimitClause::LimitOffset { limit_by, .. }) = &query.limit_clause {
        refuse(!limit_by.is_empty(), "LIMIT ... BY")?;
    }
    if let Some(OrderBy { interpolate: Some(_), .. }) = &query.order_by {
        return Err(unsupported("INTERPOLATE"));
    }
    Ok(())
}

fn clauses_of_select(select: &Select) -> Result<()> {
    refuse(!select.optimizer_hints.is_empty(), "an optimizer hint")?;
    refuse(select.select_modifiers.is_some(), "a modifier of SELECT")?;
    refuse(select.prewhere.is_some(), "PREWHERE")?;
    refuse(!select.connect_by.is_empty(), "CONNECT BY")?;
    refuse(select.value_table_mode.is_some(), "SELECT AS STRUCT or AS VALUE")?;
    if select.into.is_some() {
        return Err(unsupported("SELECT INTO").hint("CREATE TABLE name AS SELECT ... does the same"));
    }
    Ok(())
}

fn clauses_of_joins(select: &Select) -> Result<()> {
    let mut joins = select.from.iter().flat_map(|from| &from.joins).map(|join| &join.join_operator);
    refuse(joins.any(|operator| matches!(operator, JoinOperator::AsOf { .. })), "ASOF JOIN")
}

fn clauses_of_table(table: &TableFactor) -> Result<()> {
    match table {
        TableFactor::Table { with_hints, version, partitions, json_path, index_hints, .. } => {
            refuse(!with_hints.is_empty() || !index_hints.is_empty(), "a hint on a table")?;
            refuse(version.is_some(), "a version of a table")?;
            refuse(!partitions.is_empty(), "PARTITION of a table")?;
            refuse(json_path.is_some(), "a path in a table")
        }
        TableFactor::UNNEST { with_offset, .. } => refuse(*with_offset, "WITH OFFSET"),
        TableFactor::Pivot { default_on_null, .. } => refuse(default_on_null.is_some(), "DEFAULT ON NULL of PIVOT"),
        _ => Ok(()),
    }
}

fn refuse(is_there: bool, what: &str) -> Result<()> {
    if is_there { Err(unsupported(what)) } else { Ok(()) }
}

fn unsupported(what: &str) -> Error {
    Error::new(ErrorKind::Unsupported, format!("{what} is not supported"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use sqlparser::dialect::{GenericDialect, PostgreSqlDialect};
    use sqlparser::parser::Parser;

    use super::*;

    fn prepared(sql: &str) -> Result<String> {
        let parsed = Parser::parse_sql(&PostgreSqlDialect {}, sql);
        let mut statements = parsed.or_else(|_| Parser::parse_sql(&GenericDialect {}, sql)).unwrap();
        prepare(&mut statements[0], false)?;
        Ok(statements[0].to_string())
    }

    #[test]
    fn numbers_with_an_exponent_become_doubles_and_fetch_becomes_limit() {
        assert_eq!(prepared("SELECT 1e3, 1.5, 7").unwrap(), "SELECT CAST('1e3' AS DOUBLE), 1.5, 7");
        assert_eq!(
            prepared("SELECT 1 FROM t OFFSET 2 FETCH FIRST 3 ROWS ONLY").unwrap(),
            "SELECT 1 FROM t LIMIT 3 OFFSET 2"
        );
        assert_eq!(prepared("SELECT 1e400").unwrap_err().kind(), ErrorKind::NumericOutOfRange);
        let long = format!("SELECT {}", "9".repeat(77));
        assert_eq!(prepared(&long).unwrap_err().kind(), ErrorKind::NumericOutOfRange);
    }

    #[test]
    fn clauses_that_no_stage_executes_are_refused() {
        for sql in [
            "SELECT * FROM t FOR UPDATE",
            "SELECT * INTO u FROM t",
            "SELECT * FROM (SELECT 1 FROM t FOR SHARE) s",
            "SELECT * FROM t FETCH FIRST 3 PERCENT ROWS ONLY",
            "SELECT 1 FROM t PREWHERE a = 1",
        ] {
            assert_eq!(prepared(sql).unwrap_err().kind(), ErrorKind::Unsupported, "{sql}");
        }
    }
}
