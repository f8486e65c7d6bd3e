//! The parameters of a statement: `?`, `$1`, `?1`, `:name` or `$name`. All of them become numbers before the parser
//! sees them.
//!
//! ```text
//! WHERE a = ? AND b = ?            ->  $1, $2       counted
//! WHERE a = $2 AND b = ?1          ->  $2, $1       numbered
//! WHERE a = :x AND b = $y OR :x    ->  $1, $2, $1   named: a name gets its number where it occurs first
//! ```
//!
//! A colon also separates the bounds of a slice, and the key of a struct from its value. So `:name` is a parameter only
//! where an operand can begin.

use std::sync::Arc;

use rowmill_base::{Error, ErrorKind, Result};
use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, TokenWithSpan};

/// The parameters of one statement. They must all be counted, or all be numbered, or all be named.
#[derive(Default)]
pub(super) struct Parameters {
    marks: usize,
    highest: usize,
    names: Vec<String>,
}

impl Parameters {
    /// Turns a parameter into `$n`.
    pub(super) fn number(&mut self, token: &mut TokenWithSpan) -> Result<()> {
        let Token::Placeholder(text) = &mut token.token else { return Ok(()) };
        if text == "?" {
            self.marks += 1;
            *text = format!("${}", self.marks);
            return Ok(());
        }
        if let Some(name) = text.strip_prefix([':', '$']).filter(|name| is_name(name)) {
            let known = self.names.iter().position(|known| known == name);
            let place = known.unwrap_or_else(|| {
                self.names.push(name.to_owned());
                self.names.len() - 1
            });
            *text = format!("${}", place + 1);
            return Ok(());
        }
        match text.strip_prefix(['$', '?']).map(str::parse) {
            Some(Ok(number @ 1..=65_535)) => {
                self.highest = self.highest.max(number);
                *text = format!("${number}");
                Ok(())
            }
            _ => Err(Error::new(ErrorKind::Syntax, format!("\"{text}\" is not a parameter"))
                .hint("parameters are $1, $2, ..., ?1, ?2, ..., ?, :name or $name")),
        }
    }

    /// Returns the number of parameters.
    pub(super) fn count(&self) -> Result<usize> {
        let forms = [self.marks > 0, self.highest > 0, !self.names.is_empty()];
        if forms.into_iter().filter(|is_used| *is_used).count() > 1 {
            let what = match self.names.first() {
                None => "parameters are written as ? and with numbers in one statement".to_owned(),
                Some(name) => format!("the parameter :{name} and parameters without a name are in one statement"),
            };
            return Err(Error::new(ErrorKind::Syntax, what).hint("write all parameters in one form"));
        }
        Ok(self.marks.max(self.highest).max(self.names.len()))
    }

    /// Returns the names, in the order of their numbers.
    pub(super) fn into_names(self) -> Arc<[String]> {
        self.names.into()
    }
}

fn is_name(text: &str) -> bool {
    text.starts_with(|first: char| first.is_alphabetic() || first == '_')
}

/// Joins a colon and the name that directly follows it to one token, where they are a parameter.
pub(super) fn join_named(tokens: &mut Vec<TokenWithSpan>) {
    // Most statements have no colon.
    if !tokens.iter().any(|token| token.token == Token::Colon) {
        return;
    }
    let mut at = 0;
    while at + 1 < tokens.len() {
        if let Some(name) = named_parameter(tokens, at) {
            tokens[at].token = Token::Placeholder(format!(":{name}"));
            tokens[at].span.end = tokens[at + 1].span.end;
            tokens.remove(at + 1);
        }
        at += 1;
    }
}

/// Returns the name of the parameter whose colon is at `at`, if that is a parameter.
fn named_parameter(tokens: &[TokenWithSpan], at: usize) -> Option<&str> {
    let (colon, name) = (&tokens[at], &tokens[at + 1]);
    let Token::Word(word) = &name.token else { return None };
    let is_joined = colon.token == Token::Colon && colon.span.end == name.span.start && word.quote_style.is_none();
    if !is_joined || !is_name(&word.value) {
        return None;
    }
    let before = tokens[..at].iter().rfind(|token| !matches!(token.token, Token::Whitespace(_)))?;
    let ends_operand = match &before.token {
        // `x[low:high]` and `x[low :high]` are slices; after a keyword such as WHERE an operand begins.
        Token::Word(word) => {
            word.quote_style.is_some() || word.keyword == Keyword::NoKeyword || before.span.end == colon.span.start
        }
        Token::Number(..)
        | Token::Placeholder(_)
        | Token::SingleQuotedString(_)
        | Token::EscapedStringLiteral(_)
        | Token::DollarQuotedString(_)
        | Token::RParen
        | Token::RBracket
        | Token::RBrace
        | Token::LBracket
        | Token::Colon => true,
        _ => false,
    };
    (!ends_operand).then_some(&word.value)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use rowmill_base::{ErrorKind, Settings};

    use crate::parse::parse;

    fn names(sql: &str) -> (usize, Vec<String>) {
        let statement = parse(sql, &Settings::default()).unwrap().remove(0);
        (statement.parameter_count(), statement.parameter_names().to_vec())
    }

    #[test]
    fn a_name_gets_its_number_where_it_occurs_first() {
        let sql = "SELECT :b, $a::TEXT FROM t WHERE x=:b AND y IN (:c,:a) LIMIT :Limit";
        assert_eq!(names(sql), (4, ["b", "a", "c", "Limit"].map(str::to_owned).to_vec()));
        assert_eq!(names("INSERT INTO t VALUES(:x,:y)").1, ["x", "y"]);
    }

    #[test]
    fn a_colon_within_an_operand_is_no_parameter() {
        for sql in ["SELECT x[low:high] FROM t", "SELECT {'a':b} FROM t", "SELECT x::TEXT, x[1:2]", "SELECT ':a'"] {
            assert_eq!(names(sql), (0, Vec::new()), "{sql}");
        }
    }

    #[test]
    fn forms_are_not_mixed() {
        for sql in ["SELECT :a, ?", "SELECT :a, $1", "SELECT ?, ?1"] {
            let error = parse(sql, &Settings::default()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Syntax, "{sql}");
        }
    }
}
