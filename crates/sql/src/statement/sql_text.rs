//! Syntax trees of queries and expressions that statements build from text.

use rowmill_base::{Error, Result, Settings};
use sqlparser::ast::{Expr, Query, SelectItem, SetExpr, Statement as Sql};
use sqlparser::keywords::ALL_KEYWORDS;

use crate::parse::{self, StatementBody};

/// Quotes `name`, so that the parser reads exactly this name whatever it contains.
pub(crate) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// Parses a query whose text is our own or was checked when it was stored.
pub(crate) fn query(sql: &str, settings: &Settings) -> Result<Query> {
    let mut statements = parse::parse(sql, settings)?;
    match (statements.pop(), statements.is_empty()) {
        (Some(statement), true) => match statement.body() {
            StatementBody::Sql(body) => match &**body {
                Sql::Query(query) => Ok((**query).clone()),
                _ => Err(not_a_query(sql)),
            },
            _ => Err(not_a_query(sql)),
        },
        _ => Err(not_a_query(sql)),
    }
}

/// Parses a statement whose text is our own.
pub(crate) fn statement(sql: &str, settings: &Settings) -> Result<Sql> {
    let mut statements = parse::parse(sql, settings)?;
    match (statements.pop(), statements.is_empty()) {
        (Some(statement), true) => match statement.body() {
            StatementBody::Sql(body) => Ok((**body).clone()),
            _ => Err(Error::internal(format!("a statement of the parser was expected, not: {sql}"))),
        },
        _ => Err(Error::internal(format!("one statement was expected, not: {sql}"))),
    }
}

/// Parses an expression whose text is our own or was checked when it was stored.
pub(crate) fn expr(text: &str, settings: &Settings) -> Result<Expr> {
    let mut query = query(&format!("SELECT {text}"), settings)?;
    if let SetExpr::Select(select) = &mut *query.body
        && let [SelectItem::UnnamedExpr(_)] = select.projection.as_slice()
        && let Some(SelectItem::UnnamedExpr(expr)) = select.projection.pop()
    {
        return Ok(expr);
    }
    Err(Error::internal(format!("one expression was expected, not: {text}")))
}

fn not_a_query(sql: &str) -> Error {
    Error::internal(format!("one query was expected, not: {sql}"))
}

/// Returns `name` as a user would write it, with quotes only where they are necessary.
pub(crate) fn name_text(name: &str) -> String {
    let mut chars = name.chars();
    let first = chars.next().is_some_and(|first| first.is_ascii_alphabetic() || first == '_');
    let plain = first && chars.all(|ch| ch.is_ascii_alphanumeric() || ch == '_');
    let keyword = ALL_KEYWORDS.binary_search(&name.to_uppercase().as_str()).is_ok();
    if plain && !keyword { name.to_string() } else { quoted(name) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_quoted_only_where_necessary() {
        assert_eq!(name_text("UserID"), "UserID");
        assert_eq!(name_text("select"), "\"select\"");
        assert_eq!(name_text("a b"), "\"a b\"");
        assert_eq!(name_text("1st"), "\"1st\"");
        assert_eq!(name_text("say \"x\""), "\"say \"\"x\"\"\"");
    }
}
