//! `VACUUM`, in the two forms of PostgreSQL. The parser knows only another product's form.
//!
//! ```text
//! VACUUM [FULL] [ANALYZE]          [table [(column, ...)], ...]
//! VACUUM (option [true|false], ...) [table [(column, ...)], ...]
//! ```

use sqlparser::ast::{Ident, ObjectName};
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::{Token, Word};

use super::is_word;

/// A parsed `VACUUM`.
#[derive(Clone, Debug)]
pub(crate) struct VacuumStatement {
    /// The options that are on, in lower case. The code that runs the statement checks them.
    pub(crate) options: Vec<String>,
    /// The tables. Without one, the statement is about the whole database.
    pub(crate) tables: Vec<VacuumTable>,
}

/// A table of a `VACUUM`, and the columns that ANALYZE reads.
#[derive(Clone, Debug)]
pub(crate) struct VacuumTable {
    pub(crate) name: ObjectName,
    pub(crate) columns: Vec<Ident>,
}

/// The options that PostgreSQL takes without parentheses. A table with such a name must be quoted.
const BARE_OPTIONS: [&str; 5] = ["full", "freeze", "verbose", "analyze", "analyse"];

/// Reads the statement after the word VACUUM.
pub(super) fn parse_vacuum(parser: &mut Parser<'_>) -> Result<VacuumStatement, ParserError> {
    let mut options = Vec::new();
    if parser.consume_token(&Token::LParen) {
        options = parser.parse_comma_separated(parse_option)?.into_iter().flatten().collect();
        parser.expect_token(&Token::RParen)?;
    } else {
        while let Some(option) = bare_option(&parser.peek_token_ref().token) {
            parser.next_token();
            options.push(option);
        }
    }
    let has_table = matches!(parser.peek_token_ref().token, Token::Word(_));
    let tables = if has_table { parser.parse_comma_separated(parse_table)? } else { Vec::new() };
    Ok(VacuumStatement { options, tables })
}

fn bare_option(token: &Token) -> Option<String> {
    let Token::Word(word) = token else { return None };
    BARE_OPTIONS.iter().find(|option| is_word(word, option)).map(|option| (*option).to_owned())
}

/// Reads `option` or `option true`. Returns `None` for an option that is off.
fn parse_option(parser: &mut Parser<'_>) -> Result<Option<String>, ParserError> {
    let name = parser.parse_identifier()?.value;
    let value = match &parser.peek_token_ref().token {
        Token::Word(word) => truth(word),
        _ => return Ok(Some(name)),
    };
    let Some(is_on) = value else {
        return parser.expected_ref("true or false", parser.peek_token_ref());
    };
    parser.next_token();
    Ok(is_on.then_some(name))
}

fn truth(word: &Word) -> Option<bool> {
    match word.value.as_str() {
        "true" | "on" => Some(true),
        "false" | "off" => Some(false),
        _ => None,
    }
}

fn parse_table(parser: &mut Parser<'_>) -> Result<VacuumTable, ParserError> {
    let name = parser.parse_object_name(false)?;
    let mut columns = Vec::new();
    if parser.consume_token(&Token::LParen) {
        columns = parser.parse_comma_separated(|parser| parser.parse_identifier())?;
        parser.expect_token(&Token::RParen)?;
    }
    Ok(VacuumTable { name, columns })
}
