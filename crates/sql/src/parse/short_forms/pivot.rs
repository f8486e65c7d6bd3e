//! `PIVOT` and `UNPIVOT` as statements, and the parts of `FROM t PIVOT (...)` that the library does not read.

use std::ops::Range;

use rowmill_base::Result;
use sqlparser::tokenizer::Token;

use super::{NewTokens, Replacement, ShortForms, name_of};

/// Words that end the clauses of a PIVOT statement.
const ENDS: &[&str] = &["order", "limit", "offset", "union", "except", "intersect"];

/// The parts of a PIVOT.
#[derive(Default)]
struct PivotParts {
    /// The columns whose values become columns, each perhaps with IN and a list.
    on: Vec<Range<usize>>,
    /// The aggregates.
    using: Vec<Range<usize>>,
    /// The columns that stay.
    groups: Vec<Range<usize>>,
}

impl ShortForms<'_> {
    /// The PIVOT at a place: a statement, or a clause of FROM.
    pub(super) fn pivot(&self, at: usize) -> Result<Option<Replacement>> {
        if self.is_clause_of_from(at) {
            return self.pivot_clause(self.next(at + 1));
        }
        if !self.begins_query(at) {
            return Ok(None);
        }
        let start = self.next(at + 1);
        let clauses = |words: &[&str], from| self.end_of(from, &[words, ENDS].concat());
        let source = start..clauses(&["on", "using", "group"], start);
        let mut parts = PivotParts::default();
        let mut end = source.end;
        for (word, following) in [("on", &["using", "group"][..]), ("using", &["group"][..]), ("group", &[][..])] {
            if !self.is_word(end, word) {
                continue;
            }
            let first = if word == "group" { self.next(end + 1) + 1 } else { end + 1 };
            let last = clauses(following, first);
            let items = self.items(first..last);
            if let Some(empty) = items.iter().find(|item| self.is_empty(item)) {
                return Err(self.error(empty.end, "expected an expression"));
            }
            match word {
                "on" => parts.on = items,
                "using" => parts.using = items,
                _ => parts.groups = items,
            }
            end = last;
        }
        // `AS pivot FROM t` is a name.
        if parts.on.is_empty() && parts.using.is_empty() {
            return Ok(None);
        }
        let mut new = NewTokens::at(self.tokens[at].span);
        if parts.on.is_empty() {
            self.put_groups(&mut new, &source, &parts);
        } else {
            new.words("SELECT * FROM").extend(&self.tokens[source]).words("PIVOT");
            self.put_parts(&mut new, &parts);
        }
        Ok(Some(Replacement { range: at..end, tokens: new.tokens }))
    }

    /// Whether a word comes after a table in FROM.
    fn is_clause_of_from(&self, at: usize) -> bool {
        let follows_table = self.previous(at).is_some_and(|before| match self.token(before) {
            Some(Token::Word(word)) => word.quote_style.is_some() || !self.is_any_word(before, &["as", "explain"]),
            Some(Token::RParen | Token::SingleQuotedString(_)) => true,
            _ => false,
        });
        follows_table && self.token(self.next(at + 1)) == Some(&Token::LParen)
    }

    /// The contents of `PIVOT (aggregates FOR c IN (...) ... GROUP BY g)`. The library reads one column without GROUP
    /// BY.
    fn pivot_clause(&self, open: usize) -> Result<Option<Replacement>> {
        let close = self.end_of(open + 1, &[]);
        let columns = self.end_of(open + 1, &["for"]);
        if !self.is_word(columns, "for") {
            return Ok(None);
        }
        let groups = self.end_of(columns + 1, &["group"]);
        let mut on = Vec::new();
        let mut start = self.next(columns + 1);
        while start < groups {
            let list = self.next(self.end_of(start, &["in"]) + 1);
            if self.token(list) != Some(&Token::LParen) {
                return Ok(None);
            }
            let end = self.end_of(list + 1, &[]);
            on.push(start..(end + 1).min(groups));
            start = self.next(end + 1);
        }
        if on.len() < 2 && groups == close {
            return Ok(None);
        }
        let mut parts = PivotParts { on, using: self.items(open + 1..columns), groups: Vec::new() };
        if groups < close {
            parts.groups = self.items(self.next(groups + 1) + 1..close);
        }
        let mut new = NewTokens::at(self.tokens[open].span);
        self.put_parts(&mut new, &parts);
        Ok(Some(Replacement { range: open..close + 1, tokens: new.tokens }))
    }

    /// Adds `("pivot value"(...), ..., "pivot groups"(...) FOR (c, (d IN (...))) IN (ANY))`.
    fn put_parts(&self, new: &mut NewTokens, parts: &PivotParts) {
        new.push(Token::LParen);
        if parts.using.is_empty() {
            new.words("count").push(Token::LParen).push(Token::Mul).push(Token::RParen);
        }
        for (place, item) in parts.using.iter().enumerate() {
            if place > 0 {
                new.push(Token::Comma);
            }
            let alias = self.alias_of(item);
            new.quoted("pivot value").push(Token::LParen);
            new.extend(&self.tokens[item.start..alias.start]).push(Token::RParen);
            new.extend(&self.tokens[alias]);
        }
        if !parts.groups.is_empty() {
            new.push(Token::Comma).quoted("pivot groups").push(Token::LParen);
            let (first, last) = (parts.groups[0].start, parts.groups[parts.groups.len() - 1].end);
            new.extend(&self.tokens[first..last]).push(Token::RParen);
        }
        new.words("FOR").push(Token::LParen);
        for (place, item) in parts.on.iter().enumerate() {
            if place > 0 {
                new.push(Token::Comma);
            }
            self.put_pivoted(new, item);
        }
        new.push(Token::RParen).words("IN").push(Token::LParen).words("ANY").push(Token::RParen).push(Token::RParen);
    }

    /// Adds a column whose values become columns. A value with a name is `"pivot named"(value, 'name')`.
    fn put_pivoted(&self, new: &mut NewTokens, item: &Range<usize>) {
        let list = self.next(self.end_of(item.start, &["in"]).min(item.end) + 1);
        if list >= item.end || self.token(list) != Some(&Token::LParen) {
            new.extend(&self.tokens[item.clone()]);
            return;
        }
        new.push(Token::LParen).extend(&self.tokens[item.start..=list]);
        for (place, value) in self.items(list + 1..self.end_of(list + 1, &[])).into_iter().enumerate() {
            if place > 0 {
                new.push(Token::Comma);
            }
            let alias = self.end_of(value.start, &["as"]);
            let name = self.token(self.next(alias + 1)).and_then(name_of).filter(|_| alias < value.end);
            match name {
                Some(name) => {
                    let name = Token::SingleQuotedString(name.value.clone());
                    new.quoted("pivot named").push(Token::LParen).extend(&self.tokens[value.start..alias]);
                    new.push(Token::Comma).push(name).push(Token::RParen);
                }
                None => drop(new.extend(&self.tokens[value])),
            }
        }
        new.push(Token::RParen).push(Token::RParen);
    }

    /// A PIVOT without ON: the aggregates of the groups.
    fn put_groups(&self, new: &mut NewTokens, source: &Range<usize>, parts: &PivotParts) {
        new.words("SELECT");
        for item in parts.groups.iter().chain(&parts.using).enumerate() {
            if item.0 > 0 {
                new.push(Token::Comma);
            }
            new.extend(&self.tokens[item.1.clone()]);
        }
        new.words("FROM").extend(&self.tokens[source.clone()]);
        if let (Some(first), Some(last)) = (parts.groups.first(), parts.groups.last()) {
            new.words("GROUP BY").extend(&self.tokens[first.start..last.end]);
        }
    }

    /// The tokens `AS name` or `name` at the end of an aggregate; empty if it has no name.
    fn alias_of(&self, item: &Range<usize>) -> Range<usize> {
        let alias = self.end_of(item.start, &["as"]).min(item.end);
        if alias < item.end {
            return alias..item.end;
        }
        let last = self.previous(item.end).filter(|last| *last > item.start);
        match last {
            // `sum(x) total`: a name after a call.
            Some(last)
                if matches!(self.token(last), Some(Token::Word(_)))
                    && self.previous(last).is_some_and(|before| self.token(before) == Some(&Token::RParen)) =>
            {
                last..item.end
            }
            _ => item.end..item.end,
        }
    }

    /// The UNPIVOT statement at a place.
    pub(super) fn unpivot(&self, at: usize) -> Result<Option<Replacement>> {
        if self.is_clause_of_from(at) || !self.begins_query(at) {
            return Ok(None);
        }
        let start = self.next(at + 1);
        let on = self.end_of(start, &["on"]);
        if !self.is_word(on, "on") {
            return Ok(None);
        }
        let columns = on + 1..self.end_of(on + 1, &[&["into"], ENDS].concat());
        let span = self.tokens[at].span;
        let (mut name, mut values) = (NewTokens::at(span), NewTokens::at(span));
        name.words("name");
        values.words("value");
        let mut end = columns.end;
        if self.is_word(end, "into") {
            let first = self.next(end + 1);
            if !self.is_word(first, "name") {
                return Err(self.error(first, "expected NAME after INTO"));
            }
            let value = self.end_of(first + 1, &["value", "values"]);
            if !self.is_any_word(value, &["value", "values"]) {
                return Err(self.error(value, "expected VALUE and the name of a column"));
            }
            end = self.end_of(value + 1, ENDS);
            (name, values) = (NewTokens::at(span), NewTokens::at(span));
            name.extend(&self.tokens[first + 1..value]);
            let is_list = self.items(value + 1..end).len() > 1;
            if is_list {
                values.push(Token::LParen);
            }
            values.extend(&self.tokens[value + 1..end]);
            if is_list {
                values.push(Token::RParen);
            }
        }
        let mut new = NewTokens::at(span);
        new.words("SELECT * FROM").extend(&self.tokens[start..on]).words("UNPIVOT").push(Token::LParen);
        new.extend(&values.tokens).words("FOR").extend(&name.tokens).words("IN").push(Token::LParen);
        for (place, item) in self.items(columns).into_iter().enumerate() {
            if place > 0 {
                new.push(Token::Comma);
            }
            self.put_unpivoted(&mut new, &item);
        }
        new.push(Token::RParen).push(Token::RParen);
        Ok(Some(Replacement { range: at..end, tokens: new.tokens }))
    }

    /// Adds a column of UNPIVOT. A star means `COLUMNS(*)`.
    fn put_unpivoted(&self, new: &mut NewTokens, item: &Range<usize>) {
        let is_star = self.token(self.next(item.start)) == Some(&Token::Mul);
        if is_star {
            new.words("columns").push(Token::LParen);
        }
        new.extend(&self.tokens[item.clone()]);
        if is_star {
            new.push(Token::RParen);
        }
    }
}
