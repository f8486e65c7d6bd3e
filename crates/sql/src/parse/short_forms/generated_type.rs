//! `c AS (a + b)` and `c GENERATED ALWAYS AS (a + b)` in a CREATE TABLE: a generated column that has the type of its
//! expression. The parser's library needs a type, so we write a name that no type has.

use sqlparser::tokenizer::{Token, Whitespace};

use super::{NewTokens, Replacement, ShortForms};
use crate::parse::UNTYPED;

impl ShortForms<'_> {
    /// The word AS or GENERATED directly after the name of a column.
    pub(super) fn generated_type(&self, at: usize) -> Option<Replacement> {
        let name = self.previous(at)?;
        let before = self.previous(name)?;
        let is_first = matches!(self.token(name), Some(Token::Word(_)))
            && matches!(self.token(before), Some(Token::LParen | Token::Comma));
        let always = self.next(at + 1);
        let open = match self.is_word(at, "as") {
            true => always,
            false => {
                let word = self.next(always + 1);
                (self.is_word(always, "always") && self.is_word(word, "as")).then(|| self.next(word + 1))?
            }
        };
        let is_meant = is_first && self.token(open) == Some(&Token::LParen) && self.is_in_columns(at);
        is_meant.then(|| {
            let mut new = NewTokens::at(self.tokens[at].span);
            new.quoted(UNTYPED).push(Token::Whitespace(Whitespace::Space)).extend(&self.tokens[at..=at]);
            Replacement { range: at..at + 1, tokens: new.tokens }
        })
    }

    /// Whether a place is in the list of columns of a CREATE TABLE, and not in parentheses inside of it.
    fn is_in_columns(&self, at: usize) -> bool {
        let Some(open) = (0..at).find(|at| self.token(*at) == Some(&Token::LParen)) else { return false };
        // The first parenthesis after AS is that of a query.
        let is_list = self.previous(open).is_some_and(|before| !self.is_word(before, "as"));
        let is_table = self.is_word(self.next(0), "create") && (0..open).any(|at| self.is_word(at, "table"));
        let mut depth = 0_usize;
        for place in open..at {
            match self.token(place) {
                Some(Token::LParen) => depth += 1,
                Some(Token::RParen) if depth == 1 => return false,
                Some(Token::RParen) => depth -= 1,
                _ => {}
            }
        }
        is_list && is_table && depth == 1
    }
}
