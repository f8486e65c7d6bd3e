//! `CREATE MACRO`, `CREATE FUNCTION` in SQL, and `DROP MACRO`.
//!
//! The parts of a macro are kept as texts, because its expression names parameters and not columns.

use std::ops::Range;

use rowmill_base::{Error, ErrorKind, Result};
use rowmill_txn::MacroParameter;
use sqlparser::tokenizer::{Token, TokenWithSpan};

use super::position::TextCursor;
use super::{is_text, syntax_error};

/// A statement about macros.
#[derive(Clone, Debug)]
pub(crate) enum MacroStatement {
    /// `CREATE MACRO name(parameters) AS expression`
    Create(Box<MacroText>),
    /// `DROP MACRO name`
    Drop { names: Vec<String>, if_exists: bool },
}

/// The parts of a `CREATE MACRO`.
#[derive(Clone, Debug, Default)]
pub(crate) struct MacroText {
    pub(crate) name: String,
    pub(crate) or_replace: bool,
    pub(crate) if_not_exists: bool,
    pub(crate) parameters: Vec<MacroParameter>,
    pub(crate) result: Option<String>,
    pub(crate) is_table: bool,
    pub(crate) sql: String,
}

/// Reads the statement if it is one of these. `tokens` are those of one statement, as the user wrote them.
pub(super) fn parse_macro(sql: &str, tokens: &[TokenWithSpan]) -> Result<Option<MacroStatement>> {
    let is_first = |words: &[&str]| {
        matches!(&tokens[0].token, Token::Word(word) if word.quote_style.is_none()
            && words.iter().any(|own| word.value.eq_ignore_ascii_case(own)))
    };
    if !is_first(&["create", "drop"]) {
        return Ok(None);
    }
    let texts: Vec<&TokenWithSpan> = tokens.iter().filter(|token| is_text(token)).collect();
    let mut reader = MacroReader { sql, texts, at: 1, is_function: false, returns_table: false };
    if is_first(&["drop"]) {
        return if reader.takes("macro") || reader.takes("function") { reader.drop().map(Some) } else { Ok(None) };
    }
    let or_replace = reader.takes("or") && reader.takes("replace");
    let temporary = reader.takes("temp") || reader.takes("temporary");
    match () {
        () if reader.takes("macro") => {}
        () if reader.takes("function") => reader.is_function = true,
        () => return Ok(None),
    }
    if temporary {
        return Err(Error::new(ErrorKind::Unsupported, "TEMPORARY macros are not supported")
            .hint("CREATE MACRO keeps the macro in the database; DROP MACRO removes it"));
    }
    reader.create(or_replace).map(|text| Some(MacroStatement::Create(Box::new(text))))
}

struct MacroReader<'t> {
    sql: &'t str,
    /// The tokens without white space.
    texts: Vec<&'t TokenWithSpan>,
    at: usize,
    /// Whether the statement is a `CREATE FUNCTION`, in which a string after AS is a query.
    is_function: bool,
    /// Whether it has `RETURNS TABLE`.
    returns_table: bool,
}

impl MacroReader<'_> {
    fn token(&self, at: usize) -> Option<&Token> {
        self.texts.get(at).map(|token| &token.token)
    }

    fn is_word(&self, at: usize, wanted: &str) -> bool {
        matches!(self.token(at), Some(Token::Word(word))
            if word.quote_style.is_none() && word.value.eq_ignore_ascii_case(wanted))
    }

    fn takes(&mut self, wanted: &str) -> bool {
        let is_next = self.is_word(self.at, wanted);
        self.at += usize::from(is_next);
        is_next
    }

    fn takes_token(&mut self, wanted: &Token) -> bool {
        let is_next = self.token(self.at) == Some(wanted);
        self.at += usize::from(is_next);
        is_next
    }

    fn error(&self, message: &str) -> Error {
        let end = self.texts.last().map(|token| token.span.end);
        syntax_error(self.sql, message, self.texts.get(self.at).map(|token| token.span.start).or(end))
    }

    /// Reads a name. The name may be in the default schema.
    fn name(&mut self) -> Result<String> {
        if self.is_word(self.at, "main") && self.token(self.at + 1) == Some(&Token::Period) {
            self.at += 2;
        }
        match self.token(self.at) {
            Some(Token::Word(word)) => {
                let name = word.value.clone();
                self.at += 1;
                Ok(name)
            }
            _ => Err(self.error("expected the name of a macro or of a parameter")),
        }
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

    /// Goes to the first token outside of parentheses for which `ends` is true, and returns the text before it.
    fn until(&mut self, ends: impl Fn(&Self, usize) -> bool) -> String {
        let (start, mut open) = (self.at, 0_usize);
        while let Some(token) = self.token(self.at) {
            if open == 0 && ends(self, self.at) {
                break;
            }
            match token {
                Token::LParen | Token::LBracket | Token::LBrace => open += 1,
                Token::RParen | Token::RBracket | Token::RBrace => open = open.saturating_sub(1),
                _ => {}
            }
            self.at += 1;
        }
        self.text(start..self.at)
    }

    fn create(&mut self, or_replace: bool) -> Result<MacroText> {
        let if_not_exists = self.takes("if") && self.takes("not") && self.takes("exists");
        let name = self.name()?;
        let mut text = MacroText { name, or_replace, if_not_exists, ..MacroText::default() };
        if !self.takes_token(&Token::LParen) {
            return Err(self.error("expected ( and the parameters"));
        }
        while !self.takes_token(&Token::RParen) {
            text.parameters.push(self.parameter()?);
            if !self.takes_token(&Token::Comma) && self.token(self.at) != Some(&Token::RParen) {
                return Err(self.error("expected , or ) after a parameter"));
            }
        }
        self.properties(&mut text)?;
        if text.sql.is_empty() {
            return Err(self.error("expected AS or RETURN and an expression"));
        }
        // With RETURNS a parameter has a type, so that a single word is the type of one without a name: `f(int)`.
        let has_types = text.result.is_some() || self.returns_table;
        if has_types && text.parameters.iter().all(|parameter| parameter.kind.is_none()) {
            for (number, parameter) in (1..).zip(&mut text.parameters) {
                parameter.kind = Some(std::mem::replace(&mut parameter.name, format!("_{number}")));
            }
        }
        Ok(text)
    }

    /// Reads `name [type] [:= default]`.
    fn parameter(&mut self) -> Result<MacroParameter> {
        let name = self.name()?;
        let begins_default = |reader: &Self, at: usize| {
            matches!(reader.token(at), Some(Token::Assignment | Token::Eq | Token::RArrow))
                || reader.is_word(at, "default")
        };
        let ends = |reader: &Self, at: usize| matches!(reader.token(at), Some(Token::Comma | Token::RParen));
        let kind = self.until(|reader, at| begins_default(reader, at) || ends(reader, at));
        let mut default = None;
        if begins_default(self, self.at) {
            self.at += 1;
            default = Some(self.until(ends)).filter(|text| !text.is_empty());
            if default.is_none() {
                return Err(self.error("expected the default of the parameter"));
            }
        }
        Ok(MacroParameter { name, kind: Some(kind).filter(|kind| !kind.is_empty()), default })
    }

    /// Reads RETURNS, LANGUAGE and the expression, in any order.
    fn properties(&mut self, text: &mut MacroText) -> Result<()> {
        while self.at < self.texts.len() {
            if self.takes("returns") {
                text.is_table = self.takes("table");
                self.returns_table = text.is_table;
                if text.is_table && self.token(self.at) == Some(&Token::LParen) {
                    // The query gives the columns, so their list adds nothing but must be whole.
                    self.at += 1;
                    self.until(|reader, at| reader.token(at) == Some(&Token::RParen));
                    self.at += 1;
                } else if !text.is_table {
                    let ends = ["language", "as", "return", "immutable", "stable", "volatile", "strict"];
                    text.result = Some(self.until(|reader, at| ends.iter().any(|word| reader.is_word(at, word))));
                }
            } else if self.takes("language") {
                if !self.takes("sql") {
                    return Err(self.error("functions are written in SQL only"));
                }
            } else if self.takes("return") {
                text.sql = self.until(|_, _| false);
            } else if self.takes("as") {
                self.body(text)?;
            } else if !(self.takes("immutable") || self.takes("stable") || self.takes("volatile")) {
                return Err(self.error("expected AS, RETURN, RETURNS or LANGUAGE SQL"));
            }
        }
        Ok(())
    }

    /// Reads the text after AS: an expression, TABLE and a query, or a string with a query.
    fn body(&mut self, text: &mut MacroText) -> Result<()> {
        let quoted = match self.token(self.at) {
            Some(Token::SingleQuotedString(body)) => Some(body.clone()),
            Some(Token::DollarQuotedString(body)) => Some(body.value.clone()),
            _ => None,
        };
        let is_alone = self.at + 1 == self.texts.len() || self.is_word(self.at + 1, "language");
        match quoted {
            Some(body) if is_alone && starts_query(&body) => {
                self.at += 1;
                let body = body.trim().trim_end_matches(';').to_owned();
                text.sql = if text.is_table { body } else { format!("({body})") };
            }
            Some(_) if is_alone && self.is_function => {
                return Err(self.error("expected a query as the text of a function in SQL"));
            }
            _ => {
                text.is_table |= self.takes("table");
                text.sql = self.until(|_, _| false);
            }
        }
        Ok(())
    }

    fn drop(&mut self) -> Result<MacroStatement> {
        self.takes("table");
        let if_exists = self.takes("if") && self.takes("exists");
        let mut names = Vec::new();
        loop {
            names.push(self.name()?);
            // PostgreSQL names the types of the parameters, but a macro has one form only.
            if self.takes_token(&Token::LParen) {
                self.until(|reader, at| reader.token(at) == Some(&Token::RParen));
                self.at += 1;
            }
            if !self.takes_token(&Token::Comma) {
                break;
            }
        }
        match self.at < self.texts.len() {
            true => Err(self.error("expected the end of the statement")),
            false => Ok(MacroStatement::Drop { names, if_exists }),
        }
    }
}

fn starts_query(body: &str) -> bool {
    let first: String = body.trim_start().chars().take_while(char::is_ascii_alphabetic).collect();
    ["select", "with", "from", "values"].iter().any(|word| first.eq_ignore_ascii_case(word))
}
