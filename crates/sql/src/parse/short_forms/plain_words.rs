//! Words of PostgreSQL and DuckDB that stand for a longer form, or that change nothing here.

use sqlparser::tokenizer::Token;

use super::{NewTokens, Replacement, ShortForms};

impl ShortForms<'_> {
    /// `TABLE t`: all rows of a table, as a query.
    pub(super) fn table(&self, at: usize) -> Option<Replacement> {
        let is_operand = self.previous(at).is_some_and(|before| {
            self.is_any_word(before, &["union", "intersect", "except", "all", "as"])
                || self.token(before) == Some(&Token::LParen)
        });
        let name = self.next(at + 1);
        let is_name =
            matches!(self.token(name), Some(Token::Word(_))) && !self.is_any_word(name, &["select", "function"]);
        // `AS TABLE query` begins the query of a macro, and `(TABLE t` may be the argument of a function.
        ((self.previous(at).is_none() || is_operand) && is_name).then(|| {
            let mut new = NewTokens::at(self.tokens[at].span);
            new.words("SELECT * FROM");
            Replacement { range: at..at + 1, tokens: new.tokens }
        })
    }

    /// `unnest(list, recursive := true)`: the parser knows no named arguments of the keyword, but those of a function.
    pub(super) fn deep_unnest(&self, at: usize) -> Option<Replacement> {
        let open = self.next(at + 1);
        if self.token(open) != Some(&Token::LParen) {
            return None;
        }
        let arguments = self.items(open + 1..self.end_of(open + 1, &[]));
        let is_named = arguments.iter().any(|argument| {
            let name = self.next(argument.start);
            let sign = self.token(self.next(name + 1));
            self.is_any_word(name, &["recursive", "max_depth"])
                && matches!(sign, Some(Token::Assignment | Token::RArrow))
        });
        is_named.then(|| {
            let mut new = NewTokens::at(self.tokens[at].span);
            new.quoted("unnest");
            Replacement { range: at..at + 1, tokens: new.tokens }
        })
    }

    /// `FOR NO KEY UPDATE` and `FOR KEY SHARE` at the end of a query. All locks of rows are of one kind.
    pub(super) fn key_lock(&self, at: usize) -> Option<Replacement> {
        let before = self.previous(at)?;
        let start = match self.is_word(before, "no") {
            true => before,
            false => at,
        };
        let lock = if start == at { "share" } else { "update" };
        let is_lock = self.is_word(self.previous(start)?, "for") && self.is_word(self.next(at + 1), lock);
        is_lock.then_some(Replacement { range: start..at + 1, tokens: Vec::new() })
    }

    /// `SET VARIABLE x` and `RESET VARIABLE x`: the parser reads the two words as one name with a point.
    pub(super) fn variable(&self, at: usize) -> Option<Replacement> {
        let first = self.previous(at)?;
        let is_first = self.is_any_word(first, &["set", "reset"]) && self.previous(first).is_none();
        let is_name = matches!(self.token(self.next(at + 1)), Some(Token::Word(_)));
        // SET variable TO 1 sets a setting of this name, which does not exist.
        (is_first && is_name && !self.is_word(self.next(at + 1), "to")).then(|| {
            let mut new = NewTokens::at(self.tokens[at].span);
            new.push(self.tokens[at].token.clone()).push(Token::Period);
            Replacement { range: at..at + 1, tokens: new.tokens }
        })
    }

    /// `WITH DATA` and `WITH NO DATA` at the end of a `CREATE TABLE ... AS`.
    pub(super) fn with_data(&self, at: usize) -> Option<Replacement> {
        let is_last = self.next(at + 1) == self.tokens.len();
        let is_creation = self.is_word(0, "create") && !self.is_word(self.next(1), "materialized");
        let before = self.previous(at)?;
        let (with, is_empty) = match self.is_word(before, "no") {
            true => (self.previous(before)?, true),
            false => (before, false),
        };
        if !is_last || !is_creation || !self.is_word(with, "with") {
            return None;
        }
        let body = self.next(self.end_of(0, &["as"]) + 1);
        if body >= with {
            return None;
        }
        let query = &self.tokens[body..with];
        let mut new = NewTokens::at(self.tokens[body].span);
        match is_empty {
            true => {
                new.words("SELECT * FROM").push(Token::LParen).extend(query).push(Token::RParen).words("AS");
                new.quoted("rows").words("LIMIT").push(Token::Number("0".into(), false));
            }
            false => drop(new.extend(query)),
        }
        Some(Replacement { range: body..at + 1, tokens: new.tokens })
    }

    /// `trim(LEADING FROM text)`, without the characters, which are blanks.
    pub(super) fn trim_side(&self, at: usize) -> Option<Replacement> {
        let open = self.previous(at).filter(|open| self.token(*open) == Some(&Token::LParen))?;
        let is_trim = self.previous(open).is_some_and(|name| self.is_word(name, "trim"));
        let from = self.next(at + 1);
        (is_trim && self.is_word(from, "from")).then(|| {
            let mut new = NewTokens::at(self.tokens[from].span);
            new.push(Token::SingleQuotedString(" ".into())).words("FROM");
            Replacement { range: from..from + 1, tokens: new.tokens }
        })
    }

    /// `FROM ONLY t`: no table inherits from another.
    pub(super) fn only(&self, at: usize) -> Option<Replacement> {
        let is_place = self.previous(at).is_some_and(|before| self.is_any_word(before, &["from", "join", "update"]));
        let name = self.next(at + 1);
        let is_table = matches!(self.token(name), Some(Token::Word(_)))
            && !self
                .is_any_word(name, &["set", "as", "where", "join", "on", "order", "group", "limit", "left", "inner"]);
        (is_place && is_table).then(|| Replacement { range: at..name, tokens: Vec::new() })
    }

    /// `CREATE UNLOGGED TABLE`: a table that is logged keeps more than is asked.
    pub(super) fn unlogged(&self, at: usize) -> Option<Replacement> {
        let next = self.next(at + 1);
        let is_creation = self.previous(at).is_some_and(|before| self.is_word(before, "create"));
        (is_creation && self.is_word(next, "table")).then(|| Replacement { range: at..next, tokens: Vec::new() })
    }

    /// `a IN [1, 2]`: the items of a list. In a comprehension, IN comes after the name of an item.
    pub(super) fn in_list(&self, at: usize) -> Option<Replacement> {
        let open = self.next(at + 1);
        if self.token(open) != Some(&Token::LBracket) {
            return None;
        }
        let before = self.previous(at)?;
        let mut name = before;
        // `FOR x, i IN list` has two names.
        while let Some(other) = self.previous(name) {
            match self.token(other) {
                Some(Token::Word(_)) if self.is_word(other, "for") => return None,
                Some(Token::Comma) => name = self.previous(other)?,
                _ => break,
            }
        }
        let close = self.end_of(open + 1, &[]);
        if self.token(close) != Some(&Token::RBracket) {
            return None;
        }
        let negated = self.is_word(before, "not");
        let start = if negated { before } else { at };
        let mut new = NewTokens::at(self.tokens[at].span);
        new.push(if negated { Token::Neq } else { Token::Eq });
        new.words(if negated { "ALL" } else { "ANY" }).push(Token::LParen);
        new.extend(&self.tokens[open..=close]).push(Token::RParen);
        Some(Replacement { range: start..close + 1, tokens: new.tokens })
    }
}
