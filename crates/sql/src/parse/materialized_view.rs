//! The clause of `CREATE MATERIALIZED VIEW` that says when the view is refreshed, and `REFRESH MATERIALIZED VIEW`. The
//! parser does not know them, so the clause is taken out of the tokens before it sees them.
//!
//! ```text
//! CREATE MATERIALIZED VIEW name [(columns)] [rule] AS query
//! CREATE MATERIALIZED VIEW name [(columns)] AS query [rule]
//!
//! rule = REFRESH IMMEDIATE | REFRESH EVERY length | REFRESH MANUAL        length = 10m, '10m' or INTERVAL '10 minutes'
//! ```

use std::ops::Range;

use rowmill_base::{Error, ErrorKind, Result};
use rowmill_txn::RefreshRule;
use sqlparser::ast::ObjectName;
use sqlparser::keywords::Keyword;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::{Token, TokenWithSpan, Word};

use super::is_text;

/// A `REFRESH MATERIALIZED VIEW`.
#[derive(Clone, Debug)]
pub(crate) struct RefreshStatement {
    pub(crate) name: ObjectName,
    /// Whether all rows must be computed, or only those of changed groups. `None` if the database may choose.
    pub(crate) is_full: Option<bool>,
}

/// The clause of a `CREATE MATERIALIZED VIEW`, and its tokens.
#[derive(Debug)]
pub(super) struct RefreshClause {
    pub(super) rule: RefreshRule,
    pub(super) tokens: Range<usize>,
}

/// Finds the clause in the tokens of a statement. Returns `None` if it is no `CREATE MATERIALIZED VIEW` or has none.
pub(super) fn find_rule(tokens: &[TokenWithSpan]) -> Result<Option<RefreshClause>> {
    let text: Vec<(usize, &Token)> =
        tokens.iter().enumerate().filter(|(_, token)| is_text(token)).map(|(at, token)| (at, &token.token)).collect();
    let is = |at: usize, wanted: &str| text.get(at).is_some_and(|(_, token)| is_word(token, wanted));
    let materialized = (1..4).find(|at| is(*at, "materialized") && is(at + 1, "view"));
    let Some(view) = materialized.filter(|_| is(0, "create")) else { return Ok(None) };
    let begins = |at: usize| is(at, "refresh") && ["immediate", "every", "manual"].iter().any(|rule| is(at + 1, rule));
    // A view can be called "refresh" too, so the clause cannot begin before the token after the name.
    let found: Vec<usize> = (view + 3..text.len()).filter(|at| begins(*at)).collect();
    let [start] = found.as_slice() else {
        return match found.as_slice() {
            [] => Ok(None),
            _ => Err(Error::new(ErrorKind::Syntax, "CREATE MATERIALIZED VIEW: REFRESH is given twice")),
        };
    };
    let start = *start;
    let (rule, end) = match (is(start + 1, "immediate"), is(start + 1, "manual")) {
        (true, _) => (RefreshRule::Immediate, start + 2),
        (_, true) => (RefreshRule::Manual, start + 2),
        _ => every(&text, start + 2)?,
    };
    if end < text.len() && !is(end, "as") {
        let found = text[end].1;
        let message = format!("CREATE MATERIALIZED VIEW: {found} after the REFRESH clause");
        return Err(Error::new(ErrorKind::Syntax, message).hint("the clause comes before AS, or at the end"));
    }
    let last = text.get(end).map_or(tokens.len(), |(at, _)| *at);
    Ok(Some(RefreshClause { rule, tokens: text[start].0..last }))
}

/// Reads the length of time after EVERY at a place of the text. Returns the rule and the place after it.
fn every(text: &[(usize, &Token)], at: usize) -> Result<(RefreshRule, usize)> {
    let token = |at: usize| text.get(at).map(|(_, token)| *token);
    let is_interval = token(at).is_some_and(|token| is_word(token, "interval"));
    let at = at + usize::from(is_interval);
    let (length, end) = match (token(at), token(at + 1)) {
        (Some(Token::Number(count, _)), Some(Token::Word(Word { value, quote_style: None, .. }))) => {
            (format!("{count}{value}"), at + 2)
        }
        (Some(Token::SingleQuotedString(length)), _) => (length.clone(), at + 1),
        _ => return Err(wrong_length("is not followed by a length of time")),
    };
    let milliseconds = milliseconds(&length).ok_or_else(|| wrong_length(&format!("does not take '{length}'")))?;
    Ok((RefreshRule::Every(milliseconds), end))
}

fn wrong_length(what: &str) -> Error {
    Error::new(ErrorKind::Syntax, format!("REFRESH EVERY {what}"))
        .hint("write a whole number with one of the units ms, s, m, h, d and w, at most 366 days: REFRESH EVERY 10m")
}

/// Reads a length of time such as `10m` or `10 minutes`.
fn milliseconds(text: &str) -> Option<u64> {
    let at = text.find(char::is_alphabetic)?;
    let (digits, unit) = text.split_at(at);
    let count: u64 = digits.trim().parse().ok()?;
    let lower = unit.trim().to_ascii_lowercase();
    let name = match lower.strip_suffix('s').filter(|name| name.len() > 1) {
        _ if unit.len() == 1 => unit,
        Some(name) => name,
        None => &lower,
    };
    let each = match name {
        "T" | "ms" | "millisecond" => 1,
        "s" | "sec" | "second" => 1_000,
        "m" | "min" | "minute" => 60_000,
        "h" | "hour" => 3_600_000,
        "d" | "day" => 86_400_000,
        "w" | "week" => 7 * 86_400_000,
        _ => return None,
    };
    count.checked_mul(each).filter(|milliseconds| (1..=RefreshRule::EVERY_MS_MAX).contains(milliseconds))
}

/// Writes a rule as [`find_rule`] reads it.
pub(crate) fn rule_text(rule: RefreshRule) -> String {
    match rule {
        RefreshRule::Immediate => "REFRESH IMMEDIATE".to_owned(),
        RefreshRule::Manual => "REFRESH MANUAL".to_owned(),
        RefreshRule::Every(milliseconds) => {
            let units = [(86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1_000, "s"), (1, "ms")];
            let (each, unit) = units.into_iter().find(|(each, _)| milliseconds % each == 0).expect("1 divides all");
            format!("REFRESH EVERY {}{unit}", milliseconds / each)
        }
    }
}

/// Whether a token is the unquoted word `wanted`, in upper or lower case.
fn is_word(token: &Token, wanted: &str) -> bool {
    matches!(token, Token::Word(word) if word.quote_style.is_none() && word.value.eq_ignore_ascii_case(wanted))
}

/// Reads `REFRESH MATERIALIZED VIEW name [FULL | INCREMENTAL]`.
pub(super) fn parse_refresh(parser: &mut Parser<'_>) -> Result<RefreshStatement, ParserError> {
    parser.next_token();
    parser.expect_keyword_is(Keyword::MATERIALIZED)?;
    parser.expect_keyword_is(Keyword::VIEW)?;
    let name = parser.parse_object_name(false)?;
    let is_full = match &parser.peek_token_ref().token {
        token if is_word(token, "full") => Some(true),
        token if is_word(token, "incremental") => Some(false),
        _ => None,
    };
    if is_full.is_some() {
        parser.next_token();
    }
    Ok(RefreshStatement { name, is_full })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use rowmill_base::Settings;

    use super::*;
    use crate::parse::{StatementBody, parse};

    /// Parses one statement. Returns the text of its tree, its rule and the text of its query.
    fn parsed(sql: &str) -> (String, Option<RefreshRule>, String) {
        let statement = parse(sql, &Settings::default()).unwrap().remove(0);
        let StatementBody::Sql(tree) = statement.body() else { panic!("a statement of the parser") };
        (tree.to_string(), statement.refresh_rule(), statement.query_text().unwrap().to_owned())
    }

    fn error(sql: &str) -> String {
        parse(sql, &Settings::default()).unwrap_err().to_string()
    }

    #[test]
    fn the_rule_is_read_on_both_sides_of_the_query() {
        let tree = "CREATE MATERIALIZED VIEW v AS SELECT 1";
        let query = "SELECT 1".to_owned();
        let every = |milliseconds| Some(RefreshRule::Every(milliseconds));
        for (rule, wanted) in [
            ("REFRESH IMMEDIATE", Some(RefreshRule::Immediate)),
            ("refresh manual", Some(RefreshRule::Manual)),
            ("REFRESH EVERY 10m", every(600_000)),
            ("REFRESH EVERY 10 minutes", every(600_000)),
            ("REFRESH EVERY '1 hour'", every(3_600_000)),
            ("REFRESH EVERY INTERVAL '90s'", every(90_000)),
            ("REFRESH EVERY 250ms", every(250)),
            ("REFRESH EVERY 2d", every(2 * 86_400_000)),
        ] {
            let before = parsed(&format!("CREATE MATERIALIZED VIEW V {rule} AS SELECT 1"));
            assert_eq!(before, (tree.to_owned(), wanted, query.clone()), "{rule}");
            let after = parsed(&format!("CREATE MATERIALIZED VIEW V AS SELECT 1 {rule}"));
            assert_eq!(after, (tree.to_owned(), wanted, query.clone()), "{rule}");
            if let Some(rule) = wanted {
                assert_eq!(parsed(&format!("{tree} {}", rule_text(rule))).1, wanted);
            }
        }
    }

    #[test]
    fn names_like_the_clause_are_names() {
        let (_, rule, query) = parsed("CREATE MATERIALIZED VIEW refresh AS SELECT refresh, manual FROM every refresh");
        assert_eq!((rule, query.as_str()), (None, "SELECT refresh, manual FROM every refresh"));
        let statement = parse("CREATE VIEW v AS SELECT a refresh FROM t", &Settings::default()).unwrap().remove(0);
        assert_eq!(statement.refresh_rule(), None);
    }

    #[test]
    fn a_wrong_clause_is_an_error_that_says_what_is_missing() {
        let view = "CREATE MATERIALIZED VIEW v";
        for (sql, missing) in [
            ("REFRESH EVERY AS SELECT 1", "a length of time"),
            ("REFRESH EVERY 10x AS SELECT 1", "10x"),
            ("REFRESH EVERY 0m AS SELECT 1", "0m"),
            ("REFRESH EVERY 367d AS SELECT 1", "367d"),
            ("REFRESH EVERY 10M AS SELECT 1", "10M"),
            ("REFRESH MANUAL AS SELECT 1 REFRESH MANUAL", "twice"),
            ("AS SELECT 1 REFRESH MANUAL LIMIT 1", "LIMIT"),
        ] {
            let error = error(&format!("{view} {sql}"));
            assert!(error.contains(missing), "{sql}: {error}");
        }
    }

    #[test]
    fn refresh_names_a_view_and_how_much_is_computed() {
        for (words, wanted) in [("", None), (" FULL", Some(true)), (" incremental", Some(false))] {
            let sql = format!("REFRESH MATERIALIZED VIEW S.V{words}");
            let statement = parse(&sql, &Settings::default()).unwrap().remove(0);
            let StatementBody::Refresh(refresh) = statement.body() else { panic!("a refresh") };
            assert_eq!((refresh.name.to_string().as_str(), refresh.is_full), ("s.v", wanted));
        }
        assert!(error("REFRESH MATERIALIZED VIEW v QUICKLY").contains("end of statement"));
        assert!(error("REFRESH VIEW v").contains("MATERIALIZED"));
    }
}
