//! Statements that change how a sequence counts, which the parser's library does not know.
//!
//! ```text
//! ALTER SEQUENCE [IF EXISTS] name option ...
//! ALTER SEQUENCE [IF EXISTS] name RENAME TO name
//! ALTER TABLE [IF EXISTS] [ONLY] name ALTER [COLUMN] column {RESTART [[WITH] n] | SET option} ...
//!
//! option:  AS type | INCREMENT [BY] n | MINVALUE n | NO MINVALUE | MAXVALUE n | NO MAXVALUE | START [WITH] n
//!          RESTART [[WITH] n] | CACHE n | CYCLE | NO CYCLE | OWNED BY {table.column | NONE}
//! ```

use sqlparser::ast::{DataType, Ident, ObjectName};
use sqlparser::keywords::Keyword;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::Token;

use super::is_word;
use super::time_table::parse_word;

/// A parsed change of a sequence.
#[derive(Clone, Debug)]
pub(crate) struct AlterSequence {
    pub(crate) of: AlteredSequence,
    pub(crate) if_exists: bool,
    pub(crate) change: SequenceChange,
}

/// The sequence that changes.
#[derive(Clone, Debug)]
pub(crate) enum AlteredSequence {
    Named(ObjectName),
    /// The one that a column has its values from.
    OfColumn {
        table: ObjectName,
        column: Ident,
    },
}

/// What changes.
#[derive(Clone, Debug)]
pub(crate) enum SequenceChange {
    Rename(Ident),
    Options(Box<SequenceChanges>),
}

/// The options of a sequence that a statement names.
#[derive(Clone, Debug, Default)]
pub(crate) struct SequenceChanges {
    pub(crate) kind: Option<DataType>,
    pub(crate) increment: Option<i64>,
    /// `Some(None)` for `NO MINVALUE`.
    pub(crate) min: Option<Option<i64>>,
    /// `Some(None)` for `NO MAXVALUE`.
    pub(crate) max: Option<Option<i64>>,
    pub(crate) start: Option<i64>,
    /// `Some(None)` for the number that the sequence starts with.
    pub(crate) restart: Option<Option<i64>>,
    /// We check the number but ignore it, because the engine decides how many numbers it reserves.
    pub(crate) cache: Option<i64>,
    pub(crate) cycle: Option<bool>,
    /// `Some(None)` for `OWNED BY NONE`.
    pub(crate) owner: Option<Option<ObjectName>>,
}

/// Reads the statement if it is one of those above.
pub(super) fn parse_alter_sequence(parser: &mut Parser<'_>) -> Result<Option<AlterSequence>, ParserError> {
    let token = |at: usize| &parser.peek_nth_token_ref(at).token;
    let is = |at: usize, wanted: &str| matches!(token(at), Token::Word(word) if is_word(word, wanted));
    if !is(0, "alter") {
        return Ok(None);
    }
    if is(1, "sequence") {
        parser.next_token();
        parser.next_token();
        let if_exists = parser.parse_keywords(&[Keyword::IF, Keyword::EXISTS]);
        let of = AlteredSequence::Named(parser.parse_object_name(false)?);
        let change = match parser.parse_keywords(&[Keyword::RENAME, Keyword::TO]) {
            true => SequenceChange::Rename(parser.parse_identifier()?),
            false => SequenceChange::Options(Box::new(parse_options(parser, false)?)),
        };
        return Ok(Some(AlterSequence { of, if_exists, change }));
    }
    if !is(1, "table") {
        return Ok(None);
    }
    let mut at = if is(2, "if") && is(3, "exists") { 4 } else { 2 };
    at += usize::from(is(at, "only"));
    at += 1;
    while *token(at) == Token::Period {
        at += 2;
    }
    if !is(at, "alter") {
        return Ok(None);
    }
    at += if is(at + 1, "column") { 3 } else { 2 };
    let sets = ["increment", "minvalue", "maxvalue", "start", "restart", "cache", "cycle", "no"];
    let is_set = is(at, "set") && sets.iter().any(|option| is(at + 1, option));
    if !is(at, "restart") && !is_set {
        return Ok(None);
    }
    parser.expect_keywords(&[Keyword::ALTER, Keyword::TABLE])?;
    let if_exists = parser.parse_keywords(&[Keyword::IF, Keyword::EXISTS]);
    let _ = parser.parse_keyword(Keyword::ONLY);
    let table = parser.parse_object_name(false)?;
    parser.expect_keyword_is(Keyword::ALTER)?;
    let _ = parser.parse_keyword(Keyword::COLUMN);
    let of = AlteredSequence::OfColumn { table, column: parser.parse_identifier()? };
    let change = SequenceChange::Options(Box::new(parse_options(parser, true)?));
    Ok(Some(AlterSequence { of, if_exists, change }))
}

/// Reads options until the end of the statement. Those of a column have SET before them.
fn parse_options(parser: &mut Parser<'_>, of_column: bool) -> Result<SequenceChanges, ParserError> {
    let mut changes = SequenceChanges::default();
    loop {
        let is_set = of_column && parse_word(parser, "set");
        let is_restart = matches!(&parser.peek_token_ref().token, Token::Word(word) if is_word(word, "restart"));
        if of_column && !is_set && !is_restart {
            return parser.expected_ref("RESTART or SET and an option of a sequence", parser.peek_token_ref());
        }
        let place = parser.get_current_index();
        let is_new = parse_option(parser, &mut changes)?;
        if !is_new {
            let again = parser.token_at(place + 1).clone();
            return parser.expected("each option once", again);
        }
        if matches!(parser.peek_token_ref().token, Token::EOF | Token::Comma) {
            return Ok(changes);
        }
    }
}

/// Reads one option. Returns whether it was not given before.
fn parse_option(parser: &mut Parser<'_>, changes: &mut SequenceChanges) -> Result<bool, ParserError> {
    let is_new = |found: bool| Ok(!found);
    if parser.parse_keyword(Keyword::AS) {
        return is_new(changes.kind.replace(parser.parse_data_type()?).is_some());
    }
    if parse_word(parser, "increment") {
        let _ = parser.parse_keyword(Keyword::BY);
        return is_new(changes.increment.replace(number(parser)?).is_some());
    }
    if parse_word(parser, "minvalue") {
        return is_new(changes.min.replace(Some(number(parser)?)).is_some());
    }
    if parse_word(parser, "maxvalue") {
        return is_new(changes.max.replace(Some(number(parser)?)).is_some());
    }
    if parse_word(parser, "start") {
        let _ = parser.parse_keyword(Keyword::WITH);
        return is_new(changes.start.replace(number(parser)?).is_some());
    }
    if parse_word(parser, "restart") {
        let has_number = parser.parse_keyword(Keyword::WITH)
            || matches!(parser.peek_token_ref().token, Token::Number(..) | Token::Minus | Token::Plus);
        let start = has_number.then(|| number(parser)).transpose()?;
        return is_new(changes.restart.replace(start).is_some());
    }
    if parse_word(parser, "cache") {
        return is_new(changes.cache.replace(number(parser)?).is_some());
    }
    if parse_word(parser, "cycle") {
        return is_new(changes.cycle.replace(true).is_some());
    }
    if parse_word(parser, "owned") {
        parser.expect_keyword_is(Keyword::BY)?;
        let owner = match parse_word(parser, "none") {
            true => None,
            false => Some(parser.parse_object_name(false)?),
        };
        return is_new(changes.owner.replace(owner).is_some());
    }
    if parse_word(parser, "no") {
        if parse_word(parser, "minvalue") {
            return is_new(changes.min.replace(None).is_some());
        }
        if parse_word(parser, "maxvalue") {
            return is_new(changes.max.replace(None).is_some());
        }
        if parse_word(parser, "cycle") {
            return is_new(changes.cycle.replace(false).is_some());
        }
        return parser.expected_ref("MINVALUE, MAXVALUE or CYCLE", parser.peek_token_ref());
    }
    parser.expected_ref("an option of a sequence", parser.peek_token_ref())
}

/// Reads a whole number of 64 bits.
fn number(parser: &mut Parser<'_>) -> Result<i64, ParserError> {
    let sign = match parser.peek_token_ref().token {
        Token::Minus => "-",
        Token::Plus => "+",
        _ => "",
    };
    if !sign.is_empty() {
        parser.next_token();
    }
    let token = parser.peek_token_ref().clone();
    let Token::Number(digits, _) = &token.token else { return parser.expected("a whole number", token) };
    let Ok(number) = format!("{sign}{digits}").parse() else {
        return parser.expected("a whole number of 64 bits", token);
    };
    parser.next_token();
    Ok(number)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use rowmill_base::Settings;

    use super::*;
    use crate::parse::{StatementBody, parse};

    fn altered(sql: &str) -> Option<AlterSequence> {
        match parse(sql, &Settings::default()).unwrap().remove(0).body() {
            StatementBody::AlterSequence(alter) => Some((**alter).clone()),
            _ => None,
        }
    }

    fn options(sql: &str) -> SequenceChanges {
        match altered(sql).unwrap().change {
            SequenceChange::Options(options) => *options,
            SequenceChange::Rename(name) => panic!("RENAME TO {name}"),
        }
    }

    #[test]
    fn options_are_read_in_any_order() {
        let changes =
            options("ALTER SEQUENCE s.q NO CYCLE RESTART INCREMENT BY -2 MAXVALUE 9 NO MINVALUE OWNED BY s.t.a");
        assert_eq!((changes.cycle, changes.restart, changes.increment), (Some(false), Some(None), Some(-2)));
        assert_eq!((changes.max, changes.min), (Some(Some(9)), Some(None)));
        assert_eq!(changes.owner.unwrap().unwrap().to_string(), "s.t.a");
        assert_eq!(options("ALTER SEQUENCE IF EXISTS q RESTART 5").restart, Some(Some(5)));
        assert_eq!(options("alter sequence q restart with +5 owned by none").restart, Some(Some(5)));
        let of_column = "ALTER TABLE ONLY t ALTER COLUMN id RESTART WITH 7 SET INCREMENT BY 3 SET NO MAXVALUE";
        assert_eq!(options(of_column).increment, Some(3));
        assert!(matches!(altered(of_column).unwrap().of, AlteredSequence::OfColumn { .. }));
    }

    #[test]
    fn other_statements_are_left_and_wrong_ones_refused() {
        assert!(altered("ALTER TABLE t ALTER COLUMN restart SET NOT NULL").is_none());
        assert!(altered("ALTER TABLE t ALTER COLUMN a SET DEFAULT 1").is_none());
        assert!(altered("ALTER SEQUENCE q OWNER TO ann").is_none());
        for wrong in [
            "q",
            "q RESTART 1 RESTART 2",
            "q INCREMENT",
            "q RESTART 1.5",
            "q NO OWNER",
            "q RESTART 99999999999999999999",
            "q OWNED t.a",
        ] {
            assert!(parse(&format!("ALTER SEQUENCE {wrong}"), &Settings::default()).is_err(), "{wrong}");
        }
    }
}
