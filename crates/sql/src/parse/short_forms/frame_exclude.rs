//! `EXCLUDE CURRENT ROW`, `GROUP`, `TIES` and `NO OTHERS` after the frame of a window.
//!
//! The library reads no such clause. The first key of PARTITION BY takes its place: `"frame exclude"('ties')`.

use sqlparser::tokenizer::Token;

use super::{NewTokens, Replacement, ShortForms};

impl ShortForms<'_> {
    /// The clause whose word EXCLUDE is at a place.
    pub(super) fn frame_exclude(&self, at: usize) -> Option<Replacement> {
        let first = self.next(at + 1);
        let second = self.next(first + 1);
        let (what, end) = match () {
            () if self.is_word(first, "current") && self.is_word(second, "row") => ("current row", second + 1),
            () if self.is_word(first, "no") && self.is_word(second, "others") => ("no others", second + 1),
            () if self.is_word(first, "group") => ("group", first + 1),
            () if self.is_word(first, "ties") => ("ties", first + 1),
            () => return None,
        };
        // A frame is the last part of a window, and the window is in parentheses.
        if self.token(self.next(end)) != Some(&Token::RParen) {
            return None;
        }
        let start = self.open_parenthesis(at)? + 1;
        let frame = self.end_of(start, &["rows", "range", "groups"]);
        if frame >= at {
            return None;
        }
        let has_name = !self.is_any_word(self.next(start), &["partition", "order", "rows", "range", "groups"]);
        let base = if has_name { self.next(start) + 1 } else { start };
        let mut new = NewTokens::at(self.tokens[at].span);
        new.extend(&self.tokens[start..base]).words("PARTITION BY").quoted("frame exclude").push(Token::LParen);
        new.push(Token::SingleQuotedString(what.to_owned())).push(Token::RParen);
        let mut rest = base;
        if self.is_word(self.next(base), "partition") {
            new.push(Token::Comma);
            // PARTITION BY is two words.
            rest = self.next(self.next(base) + 1) + 1;
        }
        new.push(Token::Whitespace(sqlparser::tokenizer::Whitespace::Space)).extend(&self.tokens[rest..at]);
        Some(Replacement { range: start..end, tokens: new.tokens })
    }

    /// The parenthesis around a place.
    fn open_parenthesis(&self, at: usize) -> Option<usize> {
        let mut open = 0_usize;
        for before in (0..at).rev() {
            match self.tokens[before].token {
                Token::RParen => open += 1,
                Token::LParen if open == 0 => return Some(before),
                Token::LParen => open -= 1,
                _ => {}
            }
        }
        None
    }
}
