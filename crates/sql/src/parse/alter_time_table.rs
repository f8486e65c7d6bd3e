//! `ALTER TABLE` of time tables: operations that the parser does not know.
//!
//! ```text
//! ALTER TABLE [IF EXISTS] name SET TTL number unit
//! ALTER TABLE [IF EXISTS] name DROP TTL
//! ALTER TABLE [IF EXISTS] name DROP PARTITION LIST 'partition', ...
//! ALTER TABLE [IF EXISTS] name DROP PARTITION WHERE condition
//! ALTER TABLE [IF EXISTS] name DEDUP DISABLE
//! ALTER TABLE [IF EXISTS] name DEDUP ENABLE UPSERT KEYS (column, ...)
//! ```

use rowmill_storage::TimeToLive;
use sqlparser::ast::{Expr, Ident, ObjectName};
use sqlparser::keywords::Keyword;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::Token;

use super::is_word;
use super::time_table::{parse_dedup_keys, parse_time_to_live, parse_word};

/// A parsed operation on a time table.
#[derive(Clone, Debug)]
pub(crate) struct AlterTimeTable {
    pub(crate) name: ObjectName,
    pub(crate) if_exists: bool,
    pub(crate) operation: TimeTableOperation,
}

/// A change of a time table's clauses, or of its rows by their times.
#[derive(Clone, Debug)]
pub(crate) enum TimeTableOperation {
    SetTimeToLive(TimeToLive),
    /// `DROP TTL`, which without a time column drops the column of this name.
    DropTimeToLive(Ident),
    /// The texts after `DROP PARTITION LIST`.
    DropPartitions(Vec<String>),
    /// The condition after `DROP PARTITION WHERE`.
    DropPartitionsWhere(Box<Expr>),
    DisableDedup,
    /// The columns of `DEDUP ENABLE UPSERT KEYS`.
    EnableDedup(Vec<Ident>),
}

/// Reads the statement if it is one of those above.
pub(super) fn parse_alter(parser: &mut Parser<'_>) -> Result<Option<AlterTimeTable>, ParserError> {
    if !begins_operation(parser) {
        return Ok(None);
    }
    parser.expect_keywords(&[Keyword::ALTER, Keyword::TABLE])?;
    let if_exists = parser.parse_keywords(&[Keyword::IF, Keyword::EXISTS]);
    let name = parser.parse_object_name(false)?;
    let operation = parse_operation(parser)?;
    Ok(Some(AlterTimeTable { name, if_exists, operation }))
}

/// Whether the statement is an `ALTER TABLE` whose operation begins with the words of one of ours.
fn begins_operation(parser: &Parser<'_>) -> bool {
    let token = |at: usize| &parser.peek_nth_token_ref(at).token;
    let is = |at: usize, wanted: &str| matches!(token(at), Token::Word(word) if is_word(word, wanted));
    if !(is(0, "alter") && is(1, "table")) {
        return false;
    }
    let mut at = if is(2, "if") && is(3, "exists") { 5 } else { 3 };
    while *token(at) == Token::Period {
        at += 2;
    }
    let is_partition = is(at + 1, "partition") && (is(at + 2, "list") || is(at + 2, "where"));
    let is_dedup = is(at, "dedup") && (is(at + 1, "disable") || is(at + 1, "enable"));
    is_dedup || (is(at, "set") && is(at + 1, "ttl")) || (is(at, "drop") && (is(at + 1, "ttl") || is_partition))
}

fn parse_operation(parser: &mut Parser<'_>) -> Result<TimeTableOperation, ParserError> {
    if parse_word(parser, "set") {
        parser.next_token();
        return Ok(TimeTableOperation::SetTimeToLive(parse_time_to_live(parser)?));
    }
    if parse_word(parser, "dedup") {
        return match parse_word(parser, "disable") {
            true => Ok(TimeTableOperation::DisableDedup),
            false => {
                parser.next_token();
                Ok(TimeTableOperation::EnableDedup(parse_dedup_keys(parser)?))
            }
        };
    }
    parser.expect_keyword_is(Keyword::DROP)?;
    let what = parser.parse_identifier()?;
    if what.value == "ttl" {
        return Ok(TimeTableOperation::DropTimeToLive(what));
    }
    match parser.parse_keyword(Keyword::WHERE) {
        true => Ok(TimeTableOperation::DropPartitionsWhere(Box::new(parser.parse_expr()?))),
        false => {
            parser.next_token();
            Ok(TimeTableOperation::DropPartitions(parser.parse_comma_separated(Parser::parse_literal_string)?))
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use rowmill_base::Settings;

    use crate::parse::{StatementBody, parse};

    /// Parses one statement. Returns the change, or `None` if the parser itself reads it.
    fn altered(sql: &str) -> Option<String> {
        let statement = parse(sql, &Settings::default()).unwrap().remove(0);
        match statement.body() {
            StatementBody::AlterTimeTable(alter) => {
                Some(format!("{} {} {:?}", alter.name, alter.if_exists, alter.operation))
            }
            _ => None,
        }
    }

    #[test]
    fn operations_on_time_tables_are_read() {
        let life = altered("ALTER TABLE s.T SET TTL 30 DAYS").unwrap();
        assert_eq!(life, "s.t false SetTimeToLive(TimeToLive { count: 30, unit: Day })");
        assert!(altered("alter table if exists t drop ttl").unwrap().starts_with("t true DropTimeToLive"));
        let list = altered("ALTER TABLE t DROP PARTITION LIST '2026-11-20', '2026-11'").unwrap();
        assert_eq!(list, "t false DropPartitions([\"2026-11-20\", \"2026-11\"])");
        assert!(altered("ALTER TABLE t DROP PARTITION WHERE ts < now()").unwrap().contains("DropPartitionsWhere"));
        assert_eq!(altered("ALTER TABLE t DEDUP DISABLE").unwrap(), "t false DisableDedup");
        assert!(altered("ALTER TABLE t DEDUP ENABLE UPSERT KEYS(ts, a)").unwrap().contains("EnableDedup"));
        assert_eq!(altered("ALTER TABLE t DROP COLUMN ttl"), None);
        assert_eq!(altered("ALTER TABLE ttl DROP a"), None);
        for wrong in [
            "SET TTL",
            "SET TTL 1",
            "DROP PARTITION LIST",
            "DROP PARTITION LIST 1",
            "DROP TTL 3",
            "DEDUP ENABLE KEYS(ts)",
        ] {
            assert!(parse(&format!("ALTER TABLE t {wrong}"), &Settings::default()).is_err(), "{wrong}");
        }
    }
}
