//! `PREPARE name [(types)] AS statement`, `EXECUTE name [(values)]` and `DEALLOCATE [PREPARE] name | ALL`.
//!
//! The prepared statement is kept as a text, because its parameters are not those of PREPARE.

use std::ops::Range;

use rowmill_base::Result;
use sqlparser::ast::DataType;
use sqlparser::parser::Parser;
use sqlparser::tokenizer::{Token, TokenWithSpan};

use super::position::TextCursor;
use super::{is_text, parser_error, syntax_error};
use crate::dialect::RowmillDialect;
use crate::names::lower;

/// A statement about prepared statements.
#[derive(Clone, Debug)]
pub(crate) enum NamedStatement {
    /// `PREPARE name (types) AS text`. The text is at the place that it has in the user's text.
    Prepare { name: String, types: Vec<DataType>, text: String },
    /// `EXECUTE name (values)`, with a query of the values.
    Execute { name: String, values: Option<String> },
    /// `DEALLOCATE name`; no name means all.
    Deallocate { name: Option<String> },
}

/// Reads the statement if it is one of these. `tokens` are those of one statement, as the user wrote them.
pub(super) fn parse_named(sql: &str, tokens: &[TokenWithSpan]) -> Result<Option<NamedStatement>> {
    let is_own = matches!(&tokens[0].token, Token::Word(word) if word.quote_style.is_none()
        && ["prepare", "execute", "deallocate"].iter().any(|own| word.value.eq_ignore_ascii_case(own)));
    if !is_own {
        return Ok(None);
    }
    let texts: Vec<&TokenWithSpan> = tokens.iter().filter(|token| is_text(token)).collect();
    let reader = NamedReader { sql, texts };
    match reader.word(0).as_deref() {
        Some("prepare") => reader.prepare().map(Some),
        Some("execute") => reader.execute().map(Some),
        _ => reader.deallocate().map(Some),
    }
}

struct NamedReader<'t> {
    sql: &'t str,
    /// The tokens without white space.
    texts: Vec<&'t TokenWithSpan>,
}

impl NamedReader<'_> {
    /// The word at a place in lower case, quoted or not.
    fn word(&self, at: usize) -> Option<String> {
        match &self.texts.get(at)?.token {
            Token::Word(word) => Some(lower(&word.value)),
            _ => None,
        }
    }

    fn name(&self, at: usize) -> Result<String> {
        self.word(at).ok_or_else(|| self.error(at, "expected the name of a prepared statement"))
    }

    fn error(&self, at: usize, message: &str) -> rowmill_base::Error {
        let end = self.texts.last().map(|token| token.span.end);
        syntax_error(self.sql, message, self.texts.get(at).map(|token| token.span.start).or(end))
    }

    /// The text of the tokens of a range.
    fn text(&self, range: Range<usize>) -> String {
        match (self.texts.get(range.start), self.texts.get(range.end.wrapping_sub(1))) {
            (Some(first), Some(last)) if !range.is_empty() => {
                let mut cursor = TextCursor::new(self.sql);
                let start = cursor.offset(first.span.start);
                self.sql[start..cursor.offset(last.span.end)].to_owned()
            }
            _ => String::new(),
        }
    }

    /// Returns the blank text before the token at a place, so that errors of a text after it show the user's places.
    fn padding(&self, at: usize) -> (String, usize) {
        let start = self.texts[at].span.start;
        ("\n".repeat(start.line.saturating_sub(1) as usize), start.column.saturating_sub(1) as usize)
    }

    fn prepare(&self) -> Result<NamedStatement> {
        let name = self.name(1)?;
        let mut types = Vec::new();
        let mut at = 2;
        if self.texts.get(at).is_some_and(|token| token.token == Token::LParen) {
            let end = (at..self.texts.len()).find(|at| self.word(*at).as_deref() == Some("as"));
            let end = end.ok_or_else(|| self.error(self.texts.len(), "expected AS and a statement"))?;
            types = self.types(at..end)?;
            at = end;
        }
        if self.word(at).as_deref() != Some("as") {
            return Err(self.error(at, "expected AS and a statement"));
        }
        let text = self.text(at + 1..self.texts.len());
        if text.is_empty() {
            return Err(self.error(at + 1, "expected a statement after AS"));
        }
        let (lines, columns) = self.padding(at + 1);
        let text = format!("{lines}{:columns$}{text}", "");
        Ok(NamedStatement::Prepare { name, types, text })
    }

    fn types(&self, range: Range<usize>) -> Result<Vec<DataType>> {
        let tokens: Vec<TokenWithSpan> = self.texts[range].iter().map(|token| (*token).clone()).collect();
        let end = tokens[tokens.len() - 1].span.end;
        let dialect = RowmillDialect::new(true, tokens.len());
        let mut parser = Parser::new(&dialect).with_tokens_with_locations(tokens);
        let parsed = parser
            .expect_token(&Token::LParen)
            .and_then(|_| parser.parse_comma_separated(Parser::parse_data_type))
            .and_then(|types| {
                parser.expect_token(&Token::RParen)?;
                parser.expect_token(&Token::EOF)?;
                Ok(types)
            });
        parsed.map_err(|error| parser_error(self.sql, error, end))
    }

    fn execute(&self) -> Result<NamedStatement> {
        let name = self.name(1)?;
        let last = self.texts.len() - 1;
        let values = match self.texts.get(2).map(|token| &token.token) {
            None => None,
            Some(Token::LParen) if last == 3 && self.texts[last].token == Token::RParen => None,
            Some(Token::LParen) if last > 3 && self.texts[last].token == Token::RParen => Some(self.select(3..last)),
            Some(_) => return Err(self.error(2, "expected the values in parentheses")),
        };
        Ok(NamedStatement::Execute { name, values })
    }

    /// The query of a select list.
    fn select(&self, range: Range<usize>) -> String {
        const SELECT: &str = "SELECT ";
        let (lines, columns) = self.padding(range.start);
        let list = self.text(range);
        match columns.checked_sub(SELECT.len()) {
            Some(columns) => format!("{lines}{:columns$}{SELECT}{list}", ""),
            // The list begins a line, so the word before it goes to the line above.
            None => format!("{}{SELECT}\n{:columns$}{list}", lines.get(1..).unwrap_or_default(), ""),
        }
    }

    fn deallocate(&self) -> Result<NamedStatement> {
        let at = if self.word(1).as_deref() == Some("prepare") && self.texts.len() > 2 { 2 } else { 1 };
        let name = self.name(at)?;
        if self.texts.len() > at + 1 {
            return Err(self.error(at + 1, "expected the end of the statement"));
        }
        let is_all = name == "all" && matches!(&self.texts[at].token, Token::Word(word) if word.quote_style.is_none());
        Ok(NamedStatement::Deallocate { name: (!is_all).then_some(name) })
    }
}
