//! `FETCH FIRST (n) ROWS ONLY`. The library reads a number or a parameter without parentheses there, so we take them
//! away. `FETCH FIRST (expression) ROWS ONLY` becomes `LIMIT (expression)`.

use sqlparser::tokenizer::Token;

use super::{NewTokens, Replacement, ShortForms};

impl ShortForms<'_> {
    /// The clause whose word FETCH is at a place, if its count is in parentheses.
    pub(super) fn fetch_count(&self, at: usize) -> Option<Replacement> {
        let first = self.next(at + 1);
        let open = self.next(first + 1);
        if !self.is_any_word(first, &["first", "next"]) || self.token(open) != Some(&Token::LParen) {
            return None;
        }
        let close = self.end_of(open + 1, &[]);
        let value = self.next(open + 1);
        let mut new = NewTokens::at(self.tokens[at].span);
        if self.next(value + 1) == close && matches!(self.token(value), Some(Token::Number(..) | Token::Placeholder(_)))
        {
            new.extend(&self.tokens[value..=value]);
            return Some(Replacement { range: open..close + 1, tokens: new.tokens });
        }
        let mut only = self.next(close + 1);
        if self.is_any_word(only, &["row", "rows"]) {
            only = self.next(only + 1);
        }
        // LIMIT cannot say WITH TIES.
        if !self.is_word(only, "only") {
            return None;
        }
        new.words("LIMIT").extend(&self.tokens[open..=close]);
        Some(Replacement { range: at..only + 1, tokens: new.tokens })
    }
}
