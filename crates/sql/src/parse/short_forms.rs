//! Short forms of DuckDB that the parser's library does not know. We replace their tokens by plain SQL, or by calls
//! that the binder (`rowmill_query`) reads:
//!
//! ```text
//! PIVOT t ON c USING sum(x) GROUP BY g  ->  SELECT * FROM t PIVOT ("pivot value"(sum(x)), "pivot groups"(g)
//!                                                                  FOR (c) IN (ANY))
//! UNPIVOT t ON a, b INTO NAME n VALUE v ->  SELECT * FROM t UNPIVOT (v FOR n IN (a, b))
//! SUMMARIZE t                           ->  SELECT * FROM "summarize"((SELECT * FROM t))
//! [x + 1 FOR x IN l IF x > 0]           ->  list_transform(list_filter(l, x -> x > 0), x -> x + 1)
//! LIMIT 10%                             ->  LIMIT "limit percent"(10)
//! FETCH FIRST (n + 1) ROWS ONLY         ->  LIMIT (n + 1)
//! sum(a) FILTER (a > 1)                 ->  sum(a) FILTER (WHERE a > 1)
//! IN (FROM t WHERE a)                   ->  IN (SELECT * FROM t WHERE a)
//! 2 ** 10                               ->  2 ^ 10
//! PRAGMA table_info('t')                ->  SELECT * FROM pragma_table_info('t')
//! SELECT a: 1                           ->  SELECT 1 AS a
//! MAP(TEXT, INTEGER[])                  ->  MAP<TEXT, INTEGER[]>
//! FROM t WHERE a USING SAMPLE 10%       ->  FROM t TABLESAMPLE (10 PERCENT) WHERE a
//! OVER (ORDER BY a ROWS 1 PRECEDING     ->  OVER (PARTITION BY "frame exclude"('ties') ORDER BY a
//!       EXCLUDE TIES)                             ROWS 1 PRECEDING)
//! TABLE t                               ->  SELECT * FROM t
//! CREATE TABLE t AS q WITH NO DATA      ->  CREATE TABLE t AS SELECT * FROM (q) LIMIT 0
//! trim(LEADING FROM a)                  ->  trim(LEADING ' ' FROM a)
//! a IN [1, 2], a NOT IN [1, 2]          ->  a = ANY ([1, 2]), a <> ALL ([1, 2])
//! CREATE UNLOGGED TABLE, FROM ONLY t    ->  CREATE TABLE, FROM t
//! FROM unnest(l, recursive := true)      ->  FROM "unnest"(l, recursive := true)
//! FOR NO KEY UPDATE, FOR KEY SHARE       ->  FOR UPDATE, FOR SHARE
//! SET VARIABLE x = 1, RESET VARIABLE x  ->  SET VARIABLE.x = 1, RESET VARIABLE.x
//! CREATE TABLE t (a INT, b AS (a + 1))  ->  CREATE TABLE t (a INT, b "type of expression" AS (a + 1))
//! ```
//!
//! Forms are replaced from the last one to the first, so that a form inside of another is plain SQL when the other one
//! is replaced. The places of the user's tokens stay, so that errors show them.

mod comprehension;
mod fetch_count;
mod frame_exclude;
mod generated_type;
mod map_type;
mod pivot;
mod plain_words;
mod prefix_alias;
mod sample;
mod statement_start;

use rowmill_base::{Error, ErrorKind, Result};
use sqlparser::tokenizer::{Span, Token, TokenWithSpan, Word};

use super::{is_text, syntax_error};

/// The most short forms of a statement. Each is found by reading the statement.
const SHORT_FORMS_MAX: usize = 500;

/// Replaces all short forms of a statement.
pub(super) fn replace_short_forms(sql: &str, tokens: &mut Vec<TokenWithSpan>) -> Result<()> {
    for replaced in 0.. {
        let forms = ShortForms { sql, tokens };
        let Some(replacement) = forms.last()? else { return Ok(()) };
        if replaced == SHORT_FORMS_MAX {
            let message = format!("the statement has more than {SHORT_FORMS_MAX} short forms such as PIVOT");
            return Err(Error::new(ErrorKind::StatementTooComplex, message));
        }
        tokens.splice(replacement.range, replacement.tokens);
    }
    Ok(())
}

/// The tokens that replace others.
struct Replacement {
    range: std::ops::Range<usize>,
    tokens: Vec<TokenWithSpan>,
}

/// The tokens of a statement, searched for short forms.
struct ShortForms<'t> {
    sql: &'t str,
    tokens: &'t [TokenWithSpan],
}

impl ShortForms<'_> {
    /// Finds the last short form of the statement.
    fn last(&self) -> Result<Option<Replacement>> {
        for at in (0..self.tokens.len()).rev() {
            let found = match &self.tokens[at].token {
                Token::Word(word) if word.quote_style.is_none() => self.form_of_word(at, &word.value)?,
                Token::Colon => self.prefix_alias(at),
                Token::Mul => self.power(at),
                Token::LParen => self.leading_from(at),
                _ => None,
            };
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    fn form_of_word(&self, at: usize, word: &str) -> Result<Option<Replacement>> {
        // The length is compared first, because almost all words are none of these.
        match word.len() {
            2 if word.eq_ignore_ascii_case("in") => Ok(self.in_list(at)),
            2 if word.eq_ignore_ascii_case("as") => Ok(self.generated_type(at)),
            3 if word.eq_ignore_ascii_case("map") => Ok(self.map_type(at)),
            3 if word.eq_ignore_ascii_case("for") => self.comprehension(at),
            3 if word.eq_ignore_ascii_case("key") => Ok(self.key_lock(at)),
            4 if word.eq_ignore_ascii_case("both") => Ok(self.trim_side(at)),
            4 if word.eq_ignore_ascii_case("data") => Ok(self.with_data(at)),
            4 if word.eq_ignore_ascii_case("only") => Ok(self.only(at)),
            5 if word.eq_ignore_ascii_case("table") => Ok(self.table(at)),
            5 if word.eq_ignore_ascii_case("pivot") => self.pivot(at),
            5 if word.eq_ignore_ascii_case("fetch") => Ok(self.fetch_count(at)),
            5 if word.eq_ignore_ascii_case("limit") => Ok(self.limit_percent(at)),
            5 if word.eq_ignore_ascii_case("using") => self.using_sample(at),
            6 if word.eq_ignore_ascii_case("filter") => Ok(self.filter_condition(at)),
            6 if word.eq_ignore_ascii_case("pragma") => Ok(self.pragma(at)),
            6 if word.eq_ignore_ascii_case("unnest") => Ok(self.deep_unnest(at)),
            7 if word.eq_ignore_ascii_case("exclude") => Ok(self.frame_exclude(at)),
            7 if word.eq_ignore_ascii_case("leading") => Ok(self.trim_side(at)),
            8 if word.eq_ignore_ascii_case("trailing") => Ok(self.trim_side(at)),
            8 if word.eq_ignore_ascii_case("unlogged") => Ok(self.unlogged(at)),
            8 if word.eq_ignore_ascii_case("variable") => Ok(self.variable(at)),
            7 if word.eq_ignore_ascii_case("unpivot") => self.unpivot(at),
            9 if word.eq_ignore_ascii_case("summarize") => Ok(self.summarize(at)),
            9 if word.eq_ignore_ascii_case("generated") => Ok(self.generated_type(at)),
            11 if word.eq_ignore_ascii_case("tablesample") => Ok(self.table_sample(at)),
            11 if word.eq_ignore_ascii_case("pivot_wider") => self.pivot(at),
            _ => Ok(None),
        }
    }

    /// `FILTER (condition)` after an aggregate, without WHERE. `filter(list, x -> ...)` is a call.
    fn filter_condition(&self, at: usize) -> Option<Replacement> {
        let open = self.next(at + 1);
        let is_clause = self.previous(at).is_some_and(|before| self.token(before) == Some(&Token::RParen));
        let has_where = self.is_word(self.next(open + 1), "where");
        (is_clause && self.token(open) == Some(&Token::LParen) && !has_where).then(|| {
            let mut new = NewTokens::at(self.tokens[open].span);
            new.push(Token::LParen).words("WHERE");
            Replacement { range: open..open + 1, tokens: new.tokens }
        })
    }

    /// `**`, a power. The stars must touch, because `count(*) * 2` has another meaning.
    fn power(&self, at: usize) -> Option<Replacement> {
        let before = at.checked_sub(1)?;
        let touches =
            self.token(before) == Some(&Token::Mul) && self.tokens[before].span.end == self.tokens[at].span.start;
        touches.then(|| {
            let mut new = NewTokens::at(self.tokens[before].span);
            new.push(Token::Caret);
            Replacement { range: before..at + 1, tokens: new.tokens }
        })
    }

    /// `(FROM t ...)` without SELECT, a query in parentheses. After the name of a function, FROM begins an argument.
    fn leading_from(&self, at: usize) -> Option<Replacement> {
        let from = self.next(at + 1);
        if !self.is_word(from, "from") {
            return None;
        }
        let is_argument = |before: usize| self.is_any_word(before, &["trim", "substring", "overlay"]);
        if self.previous(at).is_some_and(is_argument) {
            return None;
        }
        let end = self.end_of(from + 1, &["select", "union", "intersect", "except"]);
        (self.token(end) == Some(&Token::RParen)).then(|| {
            let mut new = NewTokens::at(self.tokens[from].span);
            new.words("SELECT *").extend(&self.tokens[from..=from]);
            Replacement { range: from..from + 1, tokens: new.tokens }
        })
    }

    /// `LIMIT 10%`, also with a point.
    fn limit_percent(&self, at: usize) -> Option<Replacement> {
        let number = self.next(at + 1);
        let percent = self.next(number + 1);
        let follows = self.next(percent + 1);
        let is_percent = matches!(self.token(number), Some(Token::Number(..)))
            && self.token(percent) == Some(&Token::Mod)
            && (self.token(follows).is_none_or(|token| *token == Token::RParen) || self.is_word(follows, "offset"));
        is_percent.then(|| {
            let mut new = NewTokens::at(self.tokens[number].span);
            new.quoted("limit percent").push(Token::LParen);
            new.extend(&self.tokens[number..=number]).push(Token::RParen);
            Replacement { range: number..percent + 1, tokens: new.tokens }
        })
    }

    fn token(&self, at: usize) -> Option<&Token> {
        self.tokens.get(at).map(|token| &token.token)
    }

    /// Returns the index of the first token from `at` on that is not white space.
    fn next(&self, at: usize) -> usize {
        (at..self.tokens.len()).find(|at| is_text(&self.tokens[*at])).unwrap_or(self.tokens.len())
    }

    /// Returns the index of the last token before `at` that is not white space.
    fn previous(&self, at: usize) -> Option<usize> {
        (0..at).rev().find(|at| is_text(&self.tokens[*at]))
    }

    fn is_word(&self, at: usize, wanted: &str) -> bool {
        matches!(self.token(at), Some(Token::Word(word))
            if word.quote_style.is_none() && word.value.eq_ignore_ascii_case(wanted))
    }

    fn is_any_word(&self, at: usize, wanted: &[&str]) -> bool {
        wanted.iter().any(|word| self.is_word(at, word))
    }

    /// Returns the index of the first token from `at` on that is outside of parentheses and is one of `words`, or
    /// the end: a closing parenthesis, or the end of the statement.
    fn end_of(&self, at: usize, words: &[&str]) -> usize {
        let mut open = 0_usize;
        for place in at..self.tokens.len() {
            match &self.tokens[place].token {
                Token::LParen | Token::LBracket | Token::LBrace => open += 1,
                Token::RParen | Token::RBracket | Token::RBrace if open == 0 => return place,
                Token::RParen | Token::RBracket | Token::RBrace => open -= 1,
                Token::Word(_) if open == 0 && self.is_any_word(place, words) => return place,
                _ => {}
            }
        }
        self.tokens.len()
    }

    /// Splits the tokens of a range at the commas outside of parentheses.
    fn items(&self, range: std::ops::Range<usize>) -> Vec<std::ops::Range<usize>> {
        let mut items = Vec::new();
        let (mut open, mut start) = (0_usize, range.start);
        for place in range.clone() {
            match &self.tokens[place].token {
                Token::LParen | Token::LBracket | Token::LBrace => open += 1,
                Token::RParen | Token::RBracket | Token::RBrace => open = open.saturating_sub(1),
                Token::Comma if open == 0 => {
                    items.push(start..place);
                    start = place + 1;
                }
                _ => {}
            }
        }
        items.push(start..range.end);
        items
    }

    fn is_empty(&self, range: &std::ops::Range<usize>) -> bool {
        self.next(range.start) >= range.end
    }

    fn error(&self, at: usize, message: &str) -> Error {
        syntax_error(self.sql, message, self.tokens.get(at).map(|token| token.span.start))
    }
}

/// New tokens. Those that the user has not written are placed at the form that they replace.
struct NewTokens {
    span: Span,
    tokens: Vec<TokenWithSpan>,
}

impl NewTokens {
    fn at(span: Span) -> NewTokens {
        NewTokens { span, tokens: Vec::new() }
    }

    fn push(&mut self, token: Token) -> &mut Self {
        self.tokens.push(TokenWithSpan { token, span: self.span });
        self
    }

    /// Adds words and stars that are separated by blanks.
    fn words(&mut self, words: &str) -> &mut Self {
        for word in words.split(' ') {
            self.push(if word == "*" { Token::Mul } else { Token::make_word(word, None) });
            self.push(Token::Whitespace(sqlparser::tokenizer::Whitespace::Space));
        }
        self
    }

    /// Adds a quoted word, the name of a call that the binder reads.
    fn quoted(&mut self, name: &str) -> &mut Self {
        self.push(Token::make_word(name, Some('"')))
    }

    /// Adds tokens of the user, with a blank after them.
    fn extend(&mut self, tokens: &[TokenWithSpan]) -> &mut Self {
        self.tokens.extend_from_slice(tokens);
        self.push(Token::Whitespace(sqlparser::tokenizer::Whitespace::Space))
    }
}

/// Returns the unquoted or quoted name that a token is.
fn name_of(token: &Token) -> Option<&Word> {
    match token {
        Token::Word(word) => Some(word),
        _ => None,
    }
}
