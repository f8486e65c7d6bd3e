//! The clauses of `CREATE TABLE` that make a time table. The parser does not know them, so they are taken out of the
//! tokens before it sees them.
//!
//! ```text
//! CREATE TABLE name (columns)  clauses  [AS query]
//! CREATE TABLE name            clauses   AS query
//! CREATE TABLE name AS (query) clauses
//!
//! clauses = TIMESTAMP (column) [PARTITION BY unit | NONE] [TTL number unit] [DEDUP UPSERT KEYS (column, ...)]
//! ```

use std::ops::Range;

use rowmill_storage::{CalendarUnit, TimeToLive};
use sqlparser::ast::Ident;
use sqlparser::dialect::Dialect;
use sqlparser::keywords::Keyword;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::{Token, TokenWithSpan};

use super::{is_text, is_word};

/// The clauses of a time table as they were written, names in lower case.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TimeClauses {
    /// The column of `TIMESTAMP(column)`.
    pub(crate) column: Ident,
    /// The unit of `PARTITION BY`; `None` also without that clause.
    pub(crate) partition: Option<CalendarUnit>,
    pub(crate) time_to_live: Option<TimeToLive>,
    /// The columns of `DEDUP UPSERT KEYS`; empty without that clause.
    pub(crate) dedup_keys: Vec<Ident>,
}

/// Takes the clauses out of the tokens of a statement. Returns `None` if it is no `CREATE TABLE` or has none.
pub(super) fn take_clauses(
    dialect: &dyn Dialect,
    tokens: &mut Vec<TokenWithSpan>,
) -> Result<Option<TimeClauses>, ParserError> {
    match find_clauses(tokens) {
        None => Ok(None),
        Some(range) => {
            let taken: Vec<TokenWithSpan> = tokens.drain(range).collect();
            parse_clauses(&mut Parser::new(dialect).with_tokens_with_locations(taken)).map(Some)
        }
    }
}

/// Finds the tokens of the clauses. They end where the query begins, or with the statement.
fn find_clauses(tokens: &[TokenWithSpan]) -> Option<Range<usize>> {
    let outer = outer_tokens(tokens);
    let word_at = |at: usize| match outer.get(at)?.1 {
        Token::Word(word) if word.quote_style.is_none() => Some(word),
        _ => None,
    };
    if word_at(0)?.keyword != Keyword::CREATE {
        return None;
    }
    // CREATE may be followed by OR, REPLACE and TEMP, so TABLE must be one of the next four words.
    let table = (1..5).find(|at| word_at(*at).is_some_and(|word| word.keyword == Keyword::TABLE))?;
    let (mut start, mut has_query) = (None, false);
    for at in table + 2..outer.len() {
        let Some(word) = word_at(at) else { continue };
        if word.keyword == Keyword::AS && !has_query {
            let opens = outer.get(at + 1).is_some_and(|(_, token)| **token == Token::LParen);
            if start.is_some() || !opens {
                return start.map(|start| start..outer[at].0);
            }
            has_query = true;
        }
        if start.is_none() && begins_clauses(&outer[at..]) && may_precede_clauses(outer[at - 1].1) {
            start = Some(outer[at].0);
        }
    }
    start.map(|start| start..tokens.len())
}

/// The tokens outside of all parentheses, with the outermost parentheses themselves, and their positions.
fn outer_tokens(tokens: &[TokenWithSpan]) -> Vec<(usize, &Token)> {
    let (mut outer, mut depth) = (Vec::new(), 0_usize);
    for (at, token) in tokens.iter().enumerate().filter(|(_, token)| is_text(token)) {
        if token.token == Token::RParen {
            depth = depth.saturating_sub(1);
        }
        if depth == 0 {
            outer.push((at, &token.token));
        }
        if token.token == Token::LParen {
            depth += 1;
        }
    }
    outer
}

/// Whether the tokens begin with a clause of a time table. `PARTITION BY` of an expression is no such clause.
fn begins_clauses(outer: &[(usize, &Token)]) -> bool {
    let is = |at: usize, wanted: &str| matches!(outer.get(at), Some((_, Token::Word(word))) if is_word(word, wanted));
    match outer {
        [_, (_, Token::LParen), ..] => is(0, "timestamp"),
        [_, (_, Token::Number(..)), ..] => is(0, "ttl"),
        [_, _, (_, Token::Word(unit)), ..] if is(0, "partition") && is(1, "by") => {
            is_word(unit, "none") || CalendarUnit::of_word(&unit.value).is_some()
        }
        _ => is(0, "dedup") && is(1, "upsert"),
    }
}

/// Whether clauses can follow `token`: the name of the table, or the end of its columns or query. A table that is
/// itself called like a clause comes after another token.
fn may_precede_clauses(token: &Token) -> bool {
    match token {
        Token::Word(word) => !matches!(word.keyword, Keyword::TABLE | Keyword::EXISTS | Keyword::AS),
        other => *other == Token::RParen,
    }
}

fn parse_clauses(parser: &mut Parser<'_>) -> Result<TimeClauses, ParserError> {
    if !parser.parse_keyword(Keyword::TIMESTAMP) {
        return parser.expected_ref("TIMESTAMP (column) before the other clauses", parser.peek_token_ref());
    }
    parser.expect_token(&Token::LParen)?;
    let column = parser.parse_identifier()?;
    parser.expect_token(&Token::RParen)?;
    let (mut partition, mut time_to_live, mut dedup_keys) = (None, None, None);
    loop {
        if partition.is_none() && parser.parse_keywords(&[Keyword::PARTITION, Keyword::BY]) {
            partition = Some(parse_partition(parser)?);
        } else if time_to_live.is_none() && parse_word(parser, "ttl") {
            time_to_live = Some(parse_time_to_live(parser)?);
        } else if dedup_keys.is_none() && parse_word(parser, "dedup") {
            dedup_keys = Some(parse_dedup_keys(parser)?);
        } else {
            break;
        }
    }
    match parser.peek_token_ref().token {
        Token::EOF => Ok(TimeClauses {
            column,
            partition: partition.flatten(),
            time_to_live,
            dedup_keys: dedup_keys.unwrap_or_default(),
        }),
        _ => parser.expected_ref("PARTITION BY, TTL or DEDUP UPSERT KEYS, each once", parser.peek_token_ref()),
    }
}

/// Reads the unit after `PARTITION BY`. `None` stands for `NONE`.
fn parse_partition(parser: &mut Parser<'_>) -> Result<Option<CalendarUnit>, ParserError> {
    if parse_word(parser, "none") {
        return Ok(None);
    }
    let token = parser.next_token();
    let unit = match &token.token {
        Token::Word(word) => CalendarUnit::of_word(&word.value),
        _ => None,
    };
    match unit {
        Some(unit) => Ok(Some(unit)),
        None => parser.expected("HOUR, DAY, WEEK, MONTH, YEAR or NONE", token),
    }
}

/// Reads the number and the unit after `TTL`.
pub(super) fn parse_time_to_live(parser: &mut Parser<'_>) -> Result<TimeToLive, ParserError> {
    let token = parser.next_token();
    let count = match &token.token {
        Token::Number(text, _) => text.parse().ok().filter(|count| (1..=TimeToLive::COUNT_MAX).contains(count)),
        _ => None,
    };
    let Some(count) = count else {
        return parser.expected(&format!("a number from 1 to {}", TimeToLive::COUNT_MAX), token);
    };
    let token = parser.next_token();
    let unit = match &token.token {
        Token::Word(word) => CalendarUnit::of_word(word.value.strip_suffix('s').unwrap_or(&word.value)),
        _ => None,
    };
    match unit {
        Some(unit) => Ok(TimeToLive { count, unit }),
        None => parser.expected("HOURS, DAYS, WEEKS, MONTHS or YEARS", token),
    }
}

/// Reads `UPSERT KEYS (column, ...)`, which comes after `DEDUP`.
pub(super) fn parse_dedup_keys(parser: &mut Parser<'_>) -> Result<Vec<Ident>, ParserError> {
    if !parse_word(parser, "upsert") || !parse_word(parser, "keys") {
        return parser.expected_ref("UPSERT KEYS (column, ...)", parser.peek_token_ref());
    }
    parser.expect_token(&Token::LParen)?;
    let keys = parser.parse_comma_separated(Parser::parse_identifier)?;
    parser.expect_token(&Token::RParen)?;
    Ok(keys)
}

/// Takes the next token if it is the unquoted word `wanted`.
pub(super) fn parse_word(parser: &mut Parser<'_>, wanted: &str) -> bool {
    let is_next = matches!(&parser.peek_token_ref().token, Token::Word(word) if is_word(word, wanted));
    if is_next {
        parser.next_token();
    }
    is_next
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use rowmill_base::Settings;

    use crate::parse::{StatementBody, parse};

    /// Parses one statement. Returns the text of its tree, and its clauses as text.
    fn parsed(sql: &str) -> (String, Option<String>) {
        let statement = parse(sql, &Settings::default()).unwrap().remove(0);
        let StatementBody::Sql(tree) = statement.body() else { panic!("a statement of the parser") };
        let clauses = statement.time_clauses().map(|clauses| {
            let keys: Vec<String> = clauses.dedup_keys.iter().map(ToString::to_string).collect();
            let life = clauses.time_to_live.map(|life| life.to_string());
            let partition = clauses.partition.map(|unit| unit.word());
            format!("{} {partition:?} {life:?} {keys:?}", clauses.column)
        });
        (tree.to_string(), clauses)
    }

    fn error(sql: &str) -> String {
        parse(sql, &Settings::default()).unwrap_err().to_string()
    }

    #[test]
    fn clauses_are_read_after_columns_and_around_a_query() {
        let none = Some("ts None None []".to_owned());
        assert_eq!(parsed("CREATE TABLE t (ts DATE) TIMESTAMP(ts)"), ("CREATE TABLE t (ts DATE)".into(), none.clone()));
        let (tree, clauses) = parsed(
            "create or replace table s.T (Ts DATE) timestamp(TS) dedup upsert keys(ts, a) TTL 1 DAY PARTITION BY none",
        );
        assert_eq!(tree, "CREATE OR REPLACE TABLE s.t (ts DATE)");
        assert_eq!(clauses.unwrap(), "ts None Some(\"1 DAY\") [\"ts\", \"a\"]");
        let query = "CREATE TABLE t AS SELECT timestamp(a) FROM u";
        assert_eq!(parsed("CREATE TABLE t TIMESTAMP(ts) AS SELECT timestamp(a) FROM u"), (query.into(), none.clone()));
        assert_eq!(parsed(query), (query.into(), None));
        let query = "CREATE TABLE t AS (SELECT 1 AS ts)";
        assert_eq!(parsed(&format!("{query} TIMESTAMP(ts)")), (query.into(), none));
        let (_, clauses) = parsed("CREATE TABLE t (ts DATE) TIMESTAMP(ts) PARTITION BY WEEK TTL 12 MONTHS");
        assert_eq!(clauses.unwrap(), "ts Some(\"WEEK\") Some(\"12 MONTHS\") []");
    }

    #[test]
    fn names_like_clauses_are_names() {
        let same = [
            "CREATE TABLE timestamp (ttl INT, dedup INT)",
            "CREATE TABLE IF NOT EXISTS timestamp (a INT)",
            "CREATE TABLE s.timestamp (a INT)",
            "SELECT timestamp(ts) FROM t",
        ];
        for sql in same {
            assert_eq!(parsed(sql), (sql.into(), None));
        }
    }

    #[test]
    fn a_wrong_clause_is_a_syntax_error_that_names_what_is_missing() {
        let errors = [
            ("TTL 3 DAYS", "TIMESTAMP (column)"),
            ("PARTITION BY DAY", "TIMESTAMP (column)"),
            ("DEDUP UPSERT KEYS(ts)", "TIMESTAMP (column)"),
            ("TIMESTAMP(ts) TTL 0 DAYS", "a number from 1"),
            ("TIMESTAMP(ts) TTL 3 MINUTES", "HOURS, DAYS"),
            ("TIMESTAMP(ts) PARTITION BY MINUTE", "HOUR, DAY"),
            ("TIMESTAMP(ts) DEDUP KEYS(ts)", "UPSERT KEYS"),
            ("TIMESTAMP(ts) WAL", "each once"),
            ("TIMESTAMP(ts) TTL 3 DAYS TTL 3 DAYS", "each once"),
        ];
        for (clauses, missing) in errors {
            let error = error(&format!("CREATE TABLE t (ts DATE) {clauses}"));
            assert!(error.contains(missing), "{clauses}: {error}");
        }
    }
}
