//! `COPY`, in PostgreSQL's form but with our own options. We read it here because the parser knows only a fixed
//! list of options. Here, every option is a word with an optional value. The code that uses the options checks names
//! and values, so it can suggest the nearest name.
//!
//! ```text
//! COPY table [(column, ...)] FROM 'file or glob' [[WITH] (option [=] [value], ...)]
//! COPY table [(column, ...)] TO   'file'         [[WITH] (option [=] [value], ...)]
//! COPY (query)               TO   'file'         [[WITH] (option [=] [value], ...)]
//! ```

use sqlparser::ast::{Ident, ObjectName, Query};
use sqlparser::keywords::Keyword;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::Token;

/// A parsed `COPY`.
#[derive(Clone, Debug)]
pub(crate) struct CopyStatement {
    pub(crate) source: CopySource,
    /// Whether it is `COPY ... FROM` rather than `COPY ... TO`.
    pub(crate) from: bool,
    /// The path or pattern after `FROM` or `TO`.
    pub(crate) path: String,
    pub(crate) options: Vec<CopyOption>,
}

/// The source of the rows, or for `COPY ... FROM` their target.
#[derive(Clone, Debug)]
pub(crate) enum CopySource {
    Table { name: ObjectName, columns: Vec<Ident> },
    Query(Box<Query>),
}

/// One option, with its name in lower case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CopyOption {
    pub(crate) name: String,
    pub(crate) value: CopyValue,
}

/// The value of an option as text. The code that uses the option converts it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CopyValue {
    /// The name without a value, as in `(header)`.
    Absent,
    /// A word, a string or a number.
    Text(String),
    /// `(a, b)`
    List(Vec<String>),
}

pub(super) fn parse_copy(parser: &mut Parser<'_>) -> Result<CopyStatement, ParserError> {
    parser.expect_keyword(Keyword::COPY)?;
    let source = parse_source(parser)?;
    let from = parser.expect_one_of_keywords(&[Keyword::FROM, Keyword::TO])? == Keyword::FROM;
    if from && matches!(source, CopySource::Query(_)) {
        let message = "COPY (query) goes TO a file; a table is filled by COPY table FROM 'file'";
        return Err(ParserError::ParserError(message.into()));
    }
    let path = parser.parse_literal_string()?;
    Ok(CopyStatement { source, from, path, options: parse_option_list(parser)? })
}

/// Reads options, with or without parentheses around them.
pub(super) fn parse_option_list(parser: &mut Parser<'_>) -> Result<Vec<CopyOption>, ParserError> {
    let _ = parser.parse_keyword(Keyword::WITH);
    let mut options = Vec::new();
    if parser.consume_token(&Token::LParen) {
        options = parser.parse_comma_separated(parse_option)?;
        parser.expect_token(&Token::RParen)?;
    } else {
        while matches!(parser.peek_token_ref().token, Token::Word(_)) {
            options.push(parse_bare_option(parser)?);
        }
    }
    Ok(options)
}

fn parse_source(parser: &mut Parser<'_>) -> Result<CopySource, ParserError> {
    if parser.consume_token(&Token::LParen) {
        let query = parser.parse_query()?;
        parser.expect_token(&Token::RParen)?;
        return Ok(CopySource::Query(query));
    }
    let name = parser.parse_object_name(false)?;
    let columns = if parser.consume_token(&Token::LParen) {
        let columns = parser.parse_comma_separated(Parser::parse_identifier)?;
        parser.expect_token(&Token::RParen)?;
        columns
    } else {
        Vec::new()
    };
    Ok(CopySource::Table { name, columns })
}

fn parse_option(parser: &mut Parser<'_>) -> Result<CopyOption, ParserError> {
    let name = parser.parse_identifier()?.value;
    // We also accept `name = value`, the form of other engines.
    let _ = parser.consume_token(&Token::Eq);
    let value = match &parser.peek_token_ref().token {
        Token::Comma | Token::RParen => CopyValue::Absent,
        Token::LParen => {
            parser.next_token();
            let items = parser.parse_comma_separated(parse_text)?;
            parser.expect_token(&Token::RParen)?;
            CopyValue::List(items)
        }
        _ => CopyValue::Text(parse_text(parser)?),
    };
    Ok(CopyOption { name, value })
}

/// Reads an option of a list without parentheses. Nothing marks the end of its value, so we read a word as a value only
/// if it cannot be the name of the next option: the words of switches, a word after `=` or AS, and the word after
/// FORMAT.
fn parse_bare_option(parser: &mut Parser<'_>) -> Result<CopyOption, ParserError> {
    let name = parser.parse_identifier()?.value.to_lowercase();
    let marked = parser.consume_token(&Token::Eq) || parser.parse_keyword(Keyword::AS);
    let is_value = match &parser.peek_token_ref().token {
        Token::EOF => false,
        Token::Word(word) => {
            let switch = matches!(word.keyword, Keyword::TRUE | Keyword::FALSE | Keyword::ON | Keyword::OFF);
            switch || marked || name == "format"
        }
        _ => true,
    };
    let value = if is_value { CopyValue::Text(parse_text(parser)?) } else { CopyValue::Absent };
    Ok(CopyOption { name, value })
}

fn parse_text(parser: &mut Parser<'_>) -> Result<String, ParserError> {
    let token = parser.next_token();
    match token.token {
        Token::Word(word) => Ok(word.value),
        Token::Number(text, _) => Ok(text),
        Token::SingleQuotedString(text)
        | Token::EscapedStringLiteral(text)
        | Token::UnicodeStringLiteral(text)
        | Token::NationalStringLiteral(text) => Ok(text),
        Token::DollarQuotedString(text) => Ok(text.value),
        Token::Mul => Ok("*".into()),
        // The tokenizer splits a sign from its number.
        Token::Minus => Ok(format!("-{}", parse_text(parser)?)),
        _ => parser.expected("a value", token),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use rowmill_base::Settings;

    use super::*;
    use crate::parse::{StatementBody, parse};

    fn copy(sql: &str) -> CopyStatement {
        let statement = parse(sql, &Settings::default()).unwrap().remove(0);
        let StatementBody::Copy(copy) = statement.body() else { panic!("a COPY") };
        CopyStatement::clone(copy)
    }

    #[test]
    fn copy_is_read_in_every_form() {
        let from =
            copy("COPY S.T (A, b) FROM 'Data/*.csv' WITH (FORMAT csv, header, delimiter E'\\t', on_error 'skip')");
        assert!(from.from);
        assert_eq!(from.path, "Data/*.csv");
        assert_eq!(from.options.len(), 4);
        assert_eq!(from.options[1], CopyOption { name: "header".into(), value: CopyValue::Absent });
        assert_eq!(from.options[2], CopyOption { name: "delimiter".into(), value: CopyValue::Text("\t".into()) });
        let to = copy("copy (SELECT 1) TO 'x.parquet' (row_group_rows 1000, columns (a, b))");
        assert!(!to.from && matches!(to.source, CopySource::Query(_)));
        assert_eq!(to.options[1].value, CopyValue::List(vec!["a".into(), "b".into()]));
        assert!(parse("COPY (SELECT 1) FROM 'x'", &Settings::default()).is_err());
    }

    #[test]
    fn options_are_read_without_parentheses() {
        let names = |sql: &str| -> Vec<String> {
            let text =
                |value: CopyValue| if let CopyValue::Text(text) = value { format!("={text}") } else { "".into() };
            copy(sql).options.into_iter().map(|option| option.name + &text(option.value)).collect()
        };
        assert_eq!(names("COPY t FROM 'x' CSV HEADER DELIMITER AS ';'"), ["csv", "header", "delimiter=;"]);
        assert_eq!(names("COPY t FROM 'x' WITH FORMAT csv HEADER false"), ["format=csv", "header=false"]);
        assert!(parse("COPY t FROM 'x' 'y'", &Settings::default()).is_err());
    }
}
