//! The time clauses that the parser's library does not know: SAMPLE BY, LATEST ON, joins along an order, and intervals.
//!
//! We replace the tokens of such a clause by tokens that the library reads, at a place of the syntax tree where SQL has
//! nothing else. The binder (`rowmill_query`) reads them there:
//!
//! ```text
//! SAMPLE BY 1h FILL(PREV)            ->  CLUSTER BY "sample by"('1h', ..., "fill"(PREV), ...)
//! LATEST ON ts PARTITION BY a, b     ->  DISTRIBUTE BY "latest on"(ts, a, b)
//! ASOF JOIN q ON (s) TOLERANCE 5s    ->  JOIN q ON "ordered join"('asof', ..., "on"((s)), '5s', ...)
//! ts IN '2026-11'                    ->  ts IN ("time interval"('2026-11'))
//! ```
//!
//! `CLUSTER BY` and `DISTRIBUTE BY` themselves are refused. Clauses are replaced from the last one to the first, so
//! that the tables and conditions of a clause are plain SQL when we look for their ends.

use rowmill_base::{Error, ErrorKind, Result};
use sqlparser::keywords::Keyword;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::{Location, Span, Token, TokenWithSpan, Word};

use super::{is_text, parser_error, syntax_error};
use crate::dialect::RowmillDialect;

/// The most time clauses of a statement. Each is found by reading the rest of the statement.
const TIME_CLAUSES_MAX: usize = 500;

/// The words before JOIN that choose a join along an order.
const ORDERED_JOINS: [&str; 5] = ["asof", "lt", "splice", "window", "horizon"];

/// Words before JOIN that mean something in other databases, and how to write it here.
const FOREIGN_JOINS: [(&str, &str); 4] = [
    ("positional", "number the rows of both sides with row_number() and join by the numbers"),
    ("paste", "number the rows of both sides with row_number() and join by the numbers"),
    ("any", "SELECT DISTINCT ON (...) of the right side gives at most one row for each key"),
    ("global", "write JOIN alone"),
];

/// Replaces all time clauses of a statement. `depth_max` limits the recursion of the parser.
pub(super) fn replace_time_clauses(sql: &str, tokens: &mut Vec<TokenWithSpan>, depth_max: usize) -> Result<()> {
    let mut clauses = Clauses { sql, tokens, depth_max, replaced: 0 };
    for at in (0..clauses.tokens.len()).rev() {
        clauses.replace(at)?;
    }
    Ok(())
}

struct Clauses<'a> {
    sql: &'a str,
    tokens: &'a mut Vec<TokenWithSpan>,
    depth_max: usize,
    replaced: usize,
}

/// A reader of the tokens from one place on.
struct ClauseReader<'c> {
    clauses: &'c Clauses<'c>,
    at: usize,
}

impl Clauses<'_> {
    /// Replaces the clause that begins at a token, if one does.
    fn replace(&mut self, at: usize) -> Result<()> {
        let Some(word) = self.word(at) else { return Ok(()) };
        let second = self.next(at + 1);
        match word {
            "sample" if self.is_word(second, "by") => self.counted(at)?.sample_by(at, second + 1),
            "latest" if self.is_word(second, "on") && self.is_latest_on(second + 1) => {
                self.counted(at)?.latest_on(at, second + 1)
            }
            "join" => match self.join_words(at) {
                Some(words) => self.counted(at)?.join(words, at + 1),
                None => Ok(()),
            },
            "in" if self.is_text_literal(second) && !self.is_in_position(at) => {
                self.counted(at)?.time_interval(second);
                Ok(())
            }
            "cluster" | "distribute" if self.is_word(second, "by") && !self.is_replaced(second + 1) => {
                let clause = format!("{} BY is not supported", word.to_uppercase());
                Err(Error::new(ErrorKind::Unsupported, clause))
            }
            _ => Ok(()),
        }
    }

    fn counted(&mut self, at: usize) -> Result<&mut Self> {
        self.replaced += 1;
        if self.replaced > TIME_CLAUSES_MAX {
            let message = format!("the statement has more than {TIME_CLAUSES_MAX} time clauses");
            let place = self.tokens[at].span.start;
            return Err(Error::new(ErrorKind::StatementTooComplex, message)
                .hint(format!("the first of them is at line {}, column {}", place.line, place.column)));
        }
        Ok(self)
    }

    /// Returns the unquoted word at a place in lower case, if it is one that begins or modifies a clause.
    fn word(&self, at: usize) -> Option<&'static str> {
        const WORDS: [&str; 37] = [
            "sample",
            "latest",
            "join",
            "cluster",
            "distribute",
            "asof",
            "lt",
            "splice",
            "window",
            "horizon",
            "positional",
            "paste",
            "any",
            "global",
            "inner",
            "left",
            "right",
            "full",
            "outer",
            "nearest",
            "by",
            "on",
            "partition",
            "from",
            "to",
            "fill",
            "align",
            "match_condition",
            "using",
            "tolerance",
            "range",
            "list",
            "include",
            "exclude",
            "as",
            "group",
            "in",
        ];
        match &self.tokens.get(at)?.token {
            Token::Word(word) if word.quote_style.is_none() => {
                WORDS.into_iter().find(|known| known.eq_ignore_ascii_case(&word.value))
            }
            _ => None,
        }
    }

    fn is_word(&self, at: usize, wanted: &str) -> bool {
        is_word(self.tokens.get(at).map(|token| &token.token), wanted)
    }

    /// Returns the index of the first token from `at` on that is not white space.
    fn next(&self, at: usize) -> usize {
        (at..self.tokens.len()).find(|at| is_text(&self.tokens[*at])).unwrap_or(self.tokens.len())
    }

    /// Returns the index of the last token before `at` that is not white space.
    fn previous(&self, at: usize) -> Option<usize> {
        (0..at).rev().find(|at| is_text(&self.tokens[*at]))
    }

    fn is_text_literal(&self, at: usize) -> bool {
        matches!(self.tokens.get(at), Some(TokenWithSpan { token: Token::SingleQuotedString(_), .. }))
    }

    /// Whether the parenthesis around a place is that of `position(... IN ...)`.
    fn is_in_position(&self, at: usize) -> bool {
        let mut open = 0_usize;
        for before in (0..at).rev() {
            match self.tokens[before].token {
                Token::RParen => open += 1,
                Token::LParen if open > 0 => open -= 1,
                Token::LParen => return self.previous(before).is_some_and(|word| self.is_word(word, "position")),
                _ => {}
            }
        }
        false
    }

    /// Whether the tokens from `at` on are what we put in place of a clause.
    fn is_replaced(&self, at: usize) -> bool {
        let Some(TokenWithSpan { token: Token::Word(word), .. }) = self.tokens.get(self.next(at)) else { return false };
        word.quote_style.is_some() && matches!(&*word.value, "sample by" | "latest on")
    }

    /// Whether `name PARTITION` follows LATEST ON. Otherwise LATEST is the alias of a joined table.
    fn is_latest_on(&self, at: usize) -> bool {
        let mut reader = self.reader(at);
        reader.expression().is_ok() && reader.takes("partition")
    }

    /// Returns the place of the first word of `ASOF LEFT JOIN` and other joins along an order, and these words without
    /// JOIN. `at` is the place of JOIN.
    fn join_words(&self, at: usize) -> Option<(usize, Vec<&'static str>)> {
        let mut words = Vec::new();
        let mut at = self.previous(at)?;
        while let Some(word) =
            self.word(at).filter(|word| matches!(*word, "inner" | "left" | "right" | "full" | "outer" | "nearest"))
        {
            words.insert(0, word);
            at = self.previous(at)?;
        }
        let kind = self.word(at)?;
        if !ORDERED_JOINS.contains(&kind) && FOREIGN_JOINS.iter().all(|(word, _)| *word != kind) {
            return None;
        }
        // After these tokens, the word is the name or the alias of a table.
        let before = &self.tokens[self.previous(at)?].token;
        let is_name = matches!(before, Token::Comma | Token::Period | Token::LParen)
            || ["from", "join", "as", "lateral", "using", "into", "update"]
                .iter()
                .any(|word| is_word(Some(before), word));
        if is_name {
            return None;
        }
        words.insert(0, kind);
        Some((at, words))
    }

    fn reader(&self, at: usize) -> ClauseReader<'_> {
        ClauseReader { clauses: self, at }
    }

    /// Replaces the tokens of `range` by `new`.
    fn put(&mut self, range: std::ops::Range<usize>, new: Vec<TokenWithSpan>) {
        self.tokens.splice(range, new);
    }

    fn sample_by(&mut self, start: usize, at: usize) -> Result<()> {
        let mut reader = self.reader(at);
        let mut new = Marker::new("CLUSTER", "sample by", self.tokens[start].span);
        new.argument(reader.duration("SAMPLE BY")?);
        new.optional(if reader.takes("on") { Some(reader.expression()?) } else { None });
        new.optional(if reader.takes("from") { Some(reader.expression()?) } else { None });
        new.optional(if reader.takes("to") { Some(reader.expression()?) } else { None });
        let (mut fill, mut align) = (None, None);
        loop {
            if fill.is_none() && reader.takes("fill") {
                fill = Some(reader.parenthesized("FILL")?);
            } else if align.is_none() && reader.takes("align") {
                align = Some(reader.alignment()?);
            } else {
                break;
            }
        }
        new.call("fill", fill);
        let (first_observation, zone, offset) = align.unwrap_or_default();
        new.text(if first_observation { "first observation" } else { "calendar" });
        new.optional(zone);
        new.optional(offset);
        let end = reader.at;
        if self.is_word(self.next(end), "where") {
            return Err(self.misplaced(end, "SAMPLE BY comes after WHERE"));
        }
        self.put_after_groups(start, end, new.finish())
    }

    /// Puts the text of `IN '2026-11'` into parentheses.
    fn time_interval(&mut self, at: usize) {
        let text = self.tokens[at].clone();
        let span = text.span;
        let mut list = vec![token(Token::LParen, span), quoted_word("time interval", span), token(Token::LParen, span)];
        list.extend([text, token(Token::RParen, span), token(Token::RParen, span)]);
        self.put(at..at + 1, list);
    }

    fn latest_on(&mut self, start: usize, at: usize) -> Result<()> {
        let mut reader = self.reader(at);
        let mut new = Marker::new("DISTRIBUTE", "latest on", self.tokens[start].span);
        new.argument(reader.expression()?);
        reader.expect("partition")?;
        reader.expect("by")?;
        loop {
            new.argument(reader.expression()?);
            if !reader.takes_token(&Token::Comma) {
                break;
            }
        }
        let end = reader.at;
        if self.is_word(self.next(end), "where") {
            let error = self.misplaced(end, "LATEST ON comes after WHERE");
            return Err(error.hint("to filter the latest rows, put the query with LATEST ON into FROM"));
        }
        self.put_after_groups(start, end, new.finish())
    }

    fn misplaced(&self, end: usize, message: &str) -> Error {
        syntax_error(self.sql, message, self.tokens.get(self.next(end)).map(|token| token.span.start))
    }

    /// Replaces the tokens of a clause. The library reads what replaces them only after GROUP BY, and CLUSTER BY only
    /// before DISTRIBUTE BY, so we move it there.
    fn put_after_groups(&mut self, start: usize, end: usize, new: Vec<TokenWithSpan>) -> Result<()> {
        let mut reader = self.reader(end);
        if reader.peeks("group") {
            reader.parse(|parser| parser.parse_optional_group_by().map(drop))?;
        }
        let is_latest = new.iter().any(|token| matches!(&token.token, Token::Word(word) if word.value == "latest on"));
        if is_latest && reader.takes("cluster") {
            reader.expect("by")?;
            reader.expression()?;
        }
        let target = reader.at;
        self.put(target..target, new);
        self.put(start..end, Vec::new());
        Ok(())
    }

    fn join(&mut self, (start, words): (usize, Vec<&'static str>), at: usize) -> Result<()> {
        let kind = words[0];
        if let Some((word, hint)) = FOREIGN_JOINS.iter().find(|(word, _)| *word == kind) {
            let message = format!("{} JOIN is not supported", word.to_uppercase());
            return Err(Error::new(ErrorKind::Unsupported, message).hint(*hint));
        }
        let sides = self.sides(&words)?;
        let span = self.tokens[start].span;
        let mut reader = self.reader(at);
        reader.parse(|parser| parser.parse_table_factor().map(drop))?;
        let relation: Vec<TokenWithSpan> = self.tokens[at..reader.at].to_vec();
        let mut new = Marker::new("", "ordered join", span);
        new.text(if words.contains(&"nearest") { "nearest" } else { kind });
        new.text(sides);
        let matched =
            if reader.takes("match_condition") { Some(reader.parenthesized("MATCH_CONDITION")?) } else { None };
        new.optional(matched);
        if reader.takes("on") {
            new.call("on", Some(reader.expression()?));
        } else if reader.takes("using") {
            new.call("using", Some(reader.parenthesized("USING")?));
        } else {
            new.optional(None);
        }
        new.optional(if reader.takes("tolerance") { Some(reader.duration("TOLERANCE")?) } else { None });
        match kind {
            "window" => reader.window_range(&mut new)?,
            "horizon" => reader.horizon(&mut new)?,
            _ => {}
        }
        let end = reader.at;
        let mut tokens = vec![plain_word("JOIN", span), space(span)];
        tokens.extend(relation);
        tokens.extend([space(span), plain_word("ON", span), space(span)]);
        tokens.extend(new.finish());
        self.put(start..end, tokens);
        Ok(())
    }

    /// Returns which rows a join along an order gives: `inner`, `left`, or an empty text if it is not said.
    fn sides(&self, words: &[&'static str]) -> Result<&'static str> {
        let modifiers: Vec<&str> = words[1..].iter().copied().filter(|word| *word != "nearest").collect();
        let is_nearest = words.contains(&"nearest");
        match (words[0], modifiers.as_slice()) {
            ("asof", []) => Ok(""),
            ("lt" | "splice" | "window" | "horizon", []) if !is_nearest => Ok(""),
            ("asof" | "lt", ["inner"]) => Ok("inner"),
            ("asof" | "lt", ["left"] | ["left", "outer"]) => Ok("left"),
            (kind, _) => {
                let message = format!("{} JOIN is not supported", words.join(" ").to_uppercase());
                let hint = match kind {
                    "asof" | "lt" => {
                        "ASOF and LT take INNER or LEFT; to keep all rows of the right side, exchange the sides"
                    }
                    _ => "SPLICE, WINDOW and HORIZON stand directly before JOIN",
                };
                Err(Error::new(ErrorKind::Unsupported, message).hint(hint))
            }
        }
    }
}

/// What ALIGN says: whether buckets begin at the first observation, the time zone, and the offset.
type Alignment = (bool, Option<Vec<TokenWithSpan>>, Option<Vec<TokenWithSpan>>);

impl ClauseReader<'_> {
    fn peek(&self) -> Option<&TokenWithSpan> {
        self.clauses.tokens.get(self.clauses.next(self.at))
    }

    fn peeks(&self, wanted: &str) -> bool {
        is_word(self.peek().map(|token| &token.token), wanted)
    }

    /// Takes a word if it comes next.
    fn takes(&mut self, wanted: &str) -> bool {
        let is_next = self.peeks(wanted);
        if is_next {
            self.at = self.clauses.next(self.at) + 1;
        }
        is_next
    }

    fn takes_token(&mut self, wanted: &Token) -> bool {
        let is_next = self.peek().is_some_and(|token| token.token == *wanted);
        if is_next {
            self.at = self.clauses.next(self.at) + 1;
        }
        is_next
    }

    fn expect(&mut self, wanted: &str) -> Result<()> {
        match self.takes(wanted) {
            true => Ok(()),
            false => Err(self.error(&format!("expected {}", wanted.to_uppercase()))),
        }
    }

    fn error(&self, message: &str) -> Error {
        syntax_error(self.clauses.sql, message, self.peek().map(|token| token.span.start))
    }

    /// Lets the parser's library read from here, and goes to the place where it ended.
    fn parse(&mut self, read: impl FnOnce(&mut Parser<'_>) -> Result<(), ParserError>) -> Result<()> {
        let tokens = self.clauses.tokens[self.at..].to_vec();
        let dialect = RowmillDialect::new(false, tokens.len());
        let mut parser =
            Parser::new(&dialect).with_recursion_limit(self.clauses.depth_max).with_tokens_with_locations(tokens);
        let end = self.clauses.tokens.last().map_or_else(Location::empty, |token| token.span.end);
        read(&mut parser).map_err(|error| parser_error(self.clauses.sql, error, end))?;
        self.at = (self.at + parser.index()).min(self.clauses.tokens.len());
        Ok(())
    }

    /// Takes one expression and returns its tokens.
    fn expression(&mut self) -> Result<Vec<TokenWithSpan>> {
        let start = self.at;
        self.parse(|parser| parser.parse_expr().map(drop))?;
        Ok(self.clauses.tokens[start..self.at].to_vec())
    }

    /// Takes the tokens in parentheses, without the parentheses.
    fn parenthesized(&mut self, clause: &str) -> Result<Vec<TokenWithSpan>> {
        let start = self.clauses.next(self.at);
        if self.peek().is_none_or(|token| token.token != Token::LParen) {
            return Err(self.error(&format!("expected ( after {clause}")));
        }
        let mut open = 0_usize;
        for at in start..self.clauses.tokens.len() {
            match self.clauses.tokens[at].token {
                Token::LParen => open += 1,
                Token::RParen if open == 1 => {
                    self.at = at + 1;
                    return Ok(self.clauses.tokens[start + 1..at].to_vec());
                }
                Token::RParen => open -= 1,
                _ => {}
            }
        }
        Err(self.error(&format!("expected ) after the parenthesis of {clause}")))
    }

    /// Takes a length of time: a number with a unit, such as `15m`, which becomes a text, or an expression.
    fn duration(&mut self, clause: &str) -> Result<Vec<TokenWithSpan>> {
        let start = self.at;
        let is_negative = self.takes_token(&Token::Minus);
        let number = match self.peek() {
            Some(TokenWithSpan { token: Token::Number(digits, _), span }) => Some((digits.clone(), *span)),
            _ => None,
        };
        if let Some((digits, span)) = number {
            let unit_at = self.clauses.next(self.clauses.next(self.at) + 1);
            if let Some(TokenWithSpan { token: Token::Word(word), .. }) = self.clauses.tokens.get(unit_at)
                && word.quote_style.is_none()
            {
                if !is_unit(&word.value) {
                    self.at = unit_at;
                    let units = "the units are n, U, T, s, m, h, d, w, M and y: nano-, micro- and milliseconds, \
                                 seconds, minutes, hours, days, weeks, months and years";
                    return Err(self.error(&format!("{clause} takes a number with a unit")).hint(units));
                }
                let sign = if is_negative { "-" } else { "" };
                self.at = unit_at + 1;
                let text = Token::SingleQuotedString(format!("{sign}{digits}{}", word.value));
                return Ok(vec![TokenWithSpan { token: text, span }]);
            }
        }
        self.at = start;
        self.expression()
    }

    /// Takes what follows ALIGN.
    fn alignment(&mut self) -> Result<Alignment> {
        self.expect("to")?;
        if self.takes("first") {
            self.expect("observation")?;
            return Ok((true, None, None));
        }
        self.expect("calendar")?;
        let mut zone = None;
        if self.takes("time") {
            self.expect("zone")?;
            zone = Some(self.expression()?);
        }
        let mut offset = None;
        if self.takes("with") {
            self.expect("offset")?;
            offset = Some(self.expression()?);
        }
        Ok((false, zone, offset))
    }

    /// Takes `RANGE BETWEEN bound AND bound [INCLUDE | EXCLUDE PREVAILING]`.
    fn window_range(&mut self, new: &mut Marker) -> Result<()> {
        self.expect("range")?;
        self.expect("between")?;
        self.bound(new)?;
        self.expect("and")?;
        self.bound(new)?;
        let is_excluded = self.takes("exclude");
        if is_excluded || self.takes("include") {
            self.expect("prevailing")?;
        }
        new.text(if is_excluded { "exclude" } else { "include" });
        Ok(())
    }

    /// Takes `number unit PRECEDING`, `expression PRECEDING`, `CURRENT ROW` and the like: a call of "bound" with the
    /// direction, the distance, and the unit of the distance.
    fn bound(&mut self, new: &mut Marker) -> Result<()> {
        if self.takes("current") {
            self.expect("row")?;
            new.bound("current", None, None);
            return Ok(());
        }
        let is_unbounded = self.takes("unbounded");
        let distance = if is_unbounded { None } else { Some(self.expression()?) };
        let unit = match self.peek().map(|token| &token.token) {
            Some(Token::Word(word)) if !is_unbounded && is_unit(&word.value) => Some(word.value.clone()),
            _ => None,
        };
        if unit.is_some() {
            self.at = self.clauses.next(self.at) + 1;
        }
        let direction = match (self.takes("preceding"), is_unbounded) {
            (true, false) => "preceding",
            (true, true) => "unbounded preceding",
            (false, _) if !self.takes("following") => return Err(self.error("expected PRECEDING or FOLLOWING")),
            (false, false) => "following",
            (false, true) => "unbounded following",
        };
        new.bound(direction, distance, unit);
        Ok(())
    }

    /// Takes `RANGE FROM a TO b STEP c AS name` or `LIST (a, ...) AS name`. They may be left out before another HORIZON
    /// JOIN, which was replaced already.
    fn horizon(&mut self, new: &mut Marker) -> Result<()> {
        if self.precedes_horizon() {
            return Ok(());
        }
        if self.takes("range") {
            self.expect("from")?;
            let from = self.duration("RANGE FROM")?;
            self.expect("to")?;
            let to = self.duration("TO")?;
            self.expect("step")?;
            let step = self.duration("STEP")?;
            new.call("range", Some(comma_separated(vec![from, to, step])));
        } else if self.takes("list") {
            if !self.takes_token(&Token::LParen) {
                return Err(self.error("expected ( after LIST"));
            }
            let mut offsets = vec![self.duration("LIST")?];
            while self.takes_token(&Token::Comma) {
                offsets.push(self.duration("LIST")?);
            }
            if !self.takes_token(&Token::RParen) {
                return Err(self.error("expected ) after the list"));
            }
            new.call("list", Some(comma_separated(offsets)));
        } else {
            return Err(self.error("HORIZON JOIN needs RANGE FROM ... TO ... STEP ... or LIST (...)"));
        }
        self.expect("as")?;
        let alias = match self.peek().map(|token| &token.token) {
            Some(Token::Word(word)) => word.value.to_lowercase(),
            _ => return Err(self.error("expected a name after AS")),
        };
        self.at = self.clauses.next(self.at) + 1;
        new.text(&alias);
        Ok(())
    }
}

impl ClauseReader<'_> {
    /// Whether the next tokens are what we put in place of a HORIZON JOIN.
    fn precedes_horizon(&self) -> bool {
        let mut next = self.clauses.reader(self.at);
        let is_join = next.takes("join") && next.parse(|parser| parser.parse_table_factor().map(drop)).is_ok();
        if !is_join || !next.takes("on") {
            return false;
        }
        let mut tokens = self.clauses.tokens[next.at..].iter().filter(|token| is_text(token)).map(|token| &token.token);
        let is_marker = |word: &Word| word.quote_style.is_some() && word.value == "ordered join";
        matches!(tokens.next(), Some(Token::Word(word)) if is_marker(word))
            && tokens.next() == Some(&Token::LParen)
            && matches!(tokens.next(), Some(Token::SingleQuotedString(kind)) if kind == "horizon")
    }
}

/// The call that replaces a clause, while it is made.
struct Marker {
    tokens: Vec<TokenWithSpan>,
    span: Span,
    is_first: bool,
}

impl Marker {
    /// Begins a call of `name`, after `clause` BY if there is a clause.
    fn new(clause: &str, name: &str, span: Span) -> Marker {
        let mut tokens = Vec::new();
        if !clause.is_empty() {
            tokens.extend([space(span), plain_word(clause, span), space(span), plain_word("BY", span), space(span)]);
        }
        tokens.extend([quoted_word(name, span), token(Token::LParen, span)]);
        Marker { tokens, span, is_first: true }
    }

    fn argument(&mut self, tokens: Vec<TokenWithSpan>) {
        if !std::mem::take(&mut self.is_first) {
            self.tokens.extend([token(Token::Comma, self.span), space(self.span)]);
        }
        self.tokens.extend(tokens);
    }

    /// Adds an argument, or NULL.
    fn optional(&mut self, tokens: Option<Vec<TokenWithSpan>>) {
        let span = self.span;
        self.argument(tokens.unwrap_or_else(|| vec![plain_word("NULL", span)]));
    }

    fn text(&mut self, text: &str) {
        let text = token(Token::SingleQuotedString(text.to_owned()), self.span);
        self.argument(vec![text]);
    }

    /// Adds a call of `name` with these arguments, or NULL.
    fn call(&mut self, name: &str, arguments: Option<Vec<TokenWithSpan>>) {
        let span = self.span;
        self.optional(arguments.map(|arguments| {
            let mut call = vec![quoted_word(name, span), token(Token::LParen, span)];
            call.extend(arguments);
            call.push(token(Token::RParen, span));
            call
        }));
    }

    fn bound(&mut self, direction: &str, distance: Option<Vec<TokenWithSpan>>, unit: Option<String>) {
        let span = self.span;
        let text = |text: &str| vec![token(Token::SingleQuotedString(text.to_owned()), span)];
        let null = || vec![plain_word("NULL", span)];
        let unit = unit.map_or_else(null, |unit| text(&unit));
        let parts = vec![text(direction), distance.unwrap_or_else(null), unit];
        self.call("bound", Some(comma_separated(parts)));
    }

    fn finish(mut self) -> Vec<TokenWithSpan> {
        self.tokens.extend([token(Token::RParen, self.span), space(self.span)]);
        self.tokens
    }
}

/// Joins lists of tokens with commas.
fn comma_separated(lists: Vec<Vec<TokenWithSpan>>) -> Vec<TokenWithSpan> {
    let mut all: Vec<TokenWithSpan> = Vec::new();
    for list in lists {
        let span = list.first().map_or_else(Span::empty, |token| token.span);
        if !all.is_empty() {
            all.push(token(Token::Comma, span));
        }
        all.extend(list);
    }
    all
}

fn token(token: Token, span: Span) -> TokenWithSpan {
    TokenWithSpan { token, span }
}

fn space(span: Span) -> TokenWithSpan {
    token(Token::Whitespace(sqlparser::tokenizer::Whitespace::Space), span)
}

fn plain_word(word: &str, span: Span) -> TokenWithSpan {
    token(Token::make_word(word, None), span)
}

fn quoted_word(word: &str, span: Span) -> TokenWithSpan {
    let word = Word { value: word.to_owned(), quote_style: Some('"'), keyword: Keyword::NoKeyword };
    token(Token::Word(word), span)
}

fn is_word(token: Option<&Token>, wanted: &str) -> bool {
    matches!(token, Some(Token::Word(word)) if word.quote_style.is_none() && word.value.eq_ignore_ascii_case(wanted))
}

/// Whether a word is the unit of a length of time. Single letters distinguish cases: `m` is a minute, `M` a month.
fn is_unit(word: &str) -> bool {
    const NAMES: [&str; 10] =
        ["nanosecond", "microsecond", "millisecond", "second", "minute", "hour", "day", "week", "month", "year"];
    let lower = word.to_ascii_lowercase();
    matches!(word, "n" | "u" | "U" | "T" | "s" | "m" | "h" | "d" | "w" | "M" | "y" | "ms" | "us" | "ns")
        || NAMES.contains(&lower.strip_suffix('s').unwrap_or(&lower))
}
