//! The words that begin a statement of DuckDB in place of SELECT: where they can occur, `SUMMARIZE` and `PRAGMA`.

use sqlparser::tokenizer::Token;

use super::{NewTokens, Replacement, ShortForms};

/// Words that cannot begin the table of a statement, so the word before them is a name.
const NO_TABLES: &[&str] = &[
    "from",
    "join",
    "on",
    "using",
    "where",
    "group",
    "having",
    "order",
    "limit",
    "union",
    "except",
    "intersect",
    "left",
    "right",
    "inner",
    "cross",
    "full",
    "and",
    "or",
    "as",
    "is",
    "in",
    "not",
    "into",
    "values",
    "set",
    "add",
    "drop",
];

impl ShortForms<'_> {
    /// Whether the word at a place begins a statement or a query in parentheses, and is not a name.
    pub(super) fn begins_query(&self, at: usize) -> bool {
        let is_start = match self.previous(at) {
            None => true,
            Some(before) => {
                matches!(self.token(before), Some(Token::LParen | Token::RParen))
                    || self.is_any_word(before, &["as", "explain", "describe", "analyze"])
            }
        };
        let after = self.next(at + 1);
        let is_table = match self.token(after) {
            Some(Token::Word(_)) => !self.is_any_word(after, NO_TABLES),
            Some(Token::LParen | Token::SingleQuotedString(_)) => true,
            _ => false,
        };
        is_start && is_table
    }

    /// `PRAGMA table_info('t')`: the rows of the function `pragma_table_info`.
    pub(super) fn pragma(&self, at: usize) -> Option<Replacement> {
        let name = self.next(at + 1);
        let word = super::name_of(self.token(name)?)?;
        let is_first = self.previous(at).is_none();
        let open = self.next(name + 1);
        let end = if self.token(open) == Some(&Token::LParen) { self.end_of(open + 1, &[]) + 1 } else { open };
        if !is_first || end < self.tokens.len() {
            return None;
        }
        let mut new = NewTokens::at(self.tokens[at].span);
        new.words("SELECT * FROM").push(Token::make_word(&format!("pragma_{}", word.value), None));
        if end > open {
            new.extend(&self.tokens[open..end]);
        } else {
            new.push(Token::LParen).push(Token::RParen);
        }
        Some(Replacement { range: at..end, tokens: new.tokens })
    }

    /// `SUMMARIZE t` and `SUMMARIZE query`
    pub(super) fn summarize(&self, at: usize) -> Option<Replacement> {
        let start = self.next(at + 1);
        // `AS summarize FROM t` is a name, but a statement may begin with SUMMARIZE FROM.
        let is_first = self.previous(at).is_none() && self.is_any_word(start, &["from", "values"]);
        if !is_first && !self.begins_query(at)
            || self.previous(at).is_some_and(|before| self.token(before) == Some(&Token::RParen))
        {
            return None;
        }
        let end = self.end_of(start, &[]);
        let is_query = self.is_any_word(start, &["select", "with", "from", "values"]);
        let mut new = NewTokens::at(self.tokens[at].span);
        new.words("SELECT * FROM").quoted("summarize").push(Token::LParen).push(Token::LParen);
        new.words("SELECT * FROM");
        if is_query {
            new.push(Token::LParen);
        }
        new.extend(&self.tokens[start..end]);
        if is_query {
            new.push(Token::RParen);
        }
        new.push(Token::RParen).push(Token::RParen);
        Some(Replacement { range: at..end, tokens: new.tokens })
    }
}
