//! `TABLESAMPLE 10%`, `TABLESAMPLE RESERVOIR (5 ROWS)` and `USING SAMPLE`, in the words that the library reads.

use std::ops::Range;

use rowmill_base::Result;
use sqlparser::tokenizer::Token;

use super::{NewTokens, Replacement, ShortForms};

/// Words that end the tables of FROM.
const FROM_ENDS: &[&str] = &["where", "group", "having", "window", "qualify", "using", "order", "limit"];

/// The parts of a sample clause.
struct SampleClause {
    /// `bernoulli`, `system` or `reservoir`, as a token.
    method: Option<usize>,
    number: usize,
    unit: Option<&'static str>,
    /// `(seed)` after REPEATABLE.
    seed: Option<Range<usize>>,
    end: usize,
}

impl ShortForms<'_> {
    /// The TABLESAMPLE at a place, if the library cannot read it.
    pub(super) fn table_sample(&self, at: usize) -> Option<Replacement> {
        let clause = self.sample_clause(at + 1)?;
        let has_sign = (clause.number..clause.end).any(|place| self.token(place) == Some(&Token::Mod));
        let has_method = clause.method.is_some_and(|method| self.is_word(method, "reservoir"));
        (has_sign || has_method).then(|| {
            let mut new = NewTokens::at(self.tokens[at].span);
            self.put_sample(&mut new, &clause);
            Replacement { range: at..clause.end, tokens: new.tokens }
        })
    }

    /// The USING SAMPLE whose first word is at a place. The sample moves to the table of FROM.
    pub(super) fn using_sample(&self, at: usize) -> Result<Option<Replacement>> {
        let sample = self.next(at + 1);
        if !self.is_word(sample, "sample") {
            return Ok(None);
        }
        let Some(clause) = self.sample_clause(sample + 1) else {
            return Err(self.error(self.next(sample + 1), "expected a number, for example USING SAMPLE 10%"));
        };
        let Some(from) = self.preceding_from(at) else {
            return Err(self.error(at, "USING SAMPLE needs a table in FROM"));
        };
        let tables_end = self.end_of(from + 1, FROM_ENDS);
        let is_joined = self.end_of(from + 1, &["join"]) < tables_end || self.items(from + 1..tables_end).len() > 1;
        if is_joined {
            return Err(self.error(at, "USING SAMPLE takes one table; write TABLESAMPLE after a table of a join"));
        }
        let mut new = NewTokens::at(self.tokens[at].span);
        new.extend(&self.tokens[from..tables_end]);
        self.put_sample(&mut new, &clause);
        new.extend(&self.tokens[tables_end..at]);
        Ok(Some(Replacement { range: from..clause.end, tokens: new.tokens }))
    }

    /// The FROM of the SELECT that goes on at a place.
    fn preceding_from(&self, at: usize) -> Option<usize> {
        let mut open = 0_usize;
        for before in (0..at).rev() {
            match &self.tokens[before].token {
                Token::RParen | Token::RBracket | Token::RBrace => open += 1,
                Token::LParen | Token::LBracket | Token::LBrace if open == 0 => return None,
                Token::LParen | Token::LBracket | Token::LBrace => open -= 1,
                Token::Word(_) if open == 0 && self.is_word(before, "from") => return Some(before),
                _ => {}
            }
        }
        None
    }

    /// Reads `[method] (number unit)` or `number unit [(method [, seed])]`, and `REPEATABLE (seed)` after it.
    fn sample_clause(&self, at: usize) -> Option<SampleClause> {
        let is_method = |place| self.is_any_word(place, &["bernoulli", "system", "reservoir"]);
        let mut place = self.next(at);
        let mut method = is_method(place).then_some(place);
        if method.is_some() {
            place = self.next(place + 1);
        }
        let in_parentheses = self.token(place) == Some(&Token::LParen);
        let number = if in_parentheses { self.next(place + 1) } else { place };
        if !matches!(self.token(number), Some(Token::Number(..))) {
            return None;
        }
        let mut end = self.next(number + 1);
        let unit = match self.token(end) {
            Some(Token::Mod) => Some("PERCENT"),
            _ if self.is_word(end, "percent") => Some("PERCENT"),
            _ if self.is_word(end, "rows") => Some("ROWS"),
            _ => None,
        };
        end = if unit.is_some() { end + 1 } else { number + 1 };
        if in_parentheses {
            let close = self.next(end);
            if self.token(close) != Some(&Token::RParen) {
                return None;
            }
            end = close + 1;
        }
        let mut seed = None;
        let open = self.next(end);
        if self.token(open) == Some(&Token::LParen) && is_method(self.next(open + 1)) {
            let close = self.end_of(open + 1, &[]);
            method = Some(self.next(open + 1));
            seed = self.items(open + 1..close).into_iter().nth(1);
            end = close + 1;
        }
        let repeatable = self.next(end);
        if self.is_word(repeatable, "repeatable") && self.token(self.next(repeatable + 1)) == Some(&Token::LParen) {
            let open = self.next(repeatable + 1);
            let close = self.end_of(open + 1, &[]);
            seed = Some(open + 1..close);
            end = close + 1;
        }
        Some(SampleClause { method, number, unit, seed, end: end.min(self.tokens.len()) })
    }

    fn put_sample(&self, new: &mut NewTokens, clause: &SampleClause) {
        new.words("TABLESAMPLE");
        // A number of rows is always chosen by a reservoir, and the library does not know the word.
        if let Some(method) = clause.method.filter(|method| !self.is_word(*method, "reservoir")) {
            new.extend(&self.tokens[method..=method]);
        }
        new.push(Token::LParen).extend(&self.tokens[clause.number..=clause.number]);
        new.words(clause.unit.unwrap_or("ROWS")).push(Token::RParen);
        if let Some(seed) = &clause.seed {
            new.words("REPEATABLE").push(Token::LParen).extend(&self.tokens[seed.clone()]).push(Token::RParen);
        }
    }
}
