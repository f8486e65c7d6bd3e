//! List comprehensions: `[x + 1 FOR x IN list IF x > 0]`.

use rowmill_base::Result;
use sqlparser::tokenizer::{Token, TokenWithSpan};

use super::{NewTokens, Replacement, ShortForms, name_of};

impl ShortForms<'_> {
    /// The comprehension whose word FOR is at a place.
    pub(super) fn comprehension(&self, at: usize) -> Result<Option<Replacement>> {
        let Some(start) = self.open_bracket(at) else { return Ok(None) };
        let mut names = Vec::new();
        let mut place = self.next(at + 1);
        loop {
            let Some(name) = self.tokens.get(place).filter(|token| name_of(&token.token).is_some()) else {
                return Err(self.error(place, "expected the name of an item after FOR"));
            };
            names.push(name);
            place = self.next(place + 1);
            match self.token(place) {
                Some(Token::Comma) => place = self.next(place + 1),
                _ => break,
            }
        }
        if !self.is_word(place, "in") {
            return Err(self.error(place, "expected IN after the name of an item"));
        }
        let list = place + 1;
        let condition = self.end_of(list, &["if"]);
        let end = self.end_of(condition + usize::from(self.is_word(condition, "if")), &[]);
        if self.token(end) != Some(&Token::RBracket) {
            return Err(self.error(end, "expected ] after a list comprehension"));
        }
        if names.len() > 2 {
            return Err(self.error(at, "a list comprehension names the item and at most its position"));
        }
        let mut new = NewTokens::at(self.tokens[start].span);
        new.words("list_transform").push(Token::LParen);
        if condition < end {
            if names.len() == 2 {
                // The filter would number the items that it keeps, and not those of the list.
                return Err(self.error(condition, "a list comprehension with IF names the item only"));
            }
            new.words("list_filter").push(Token::LParen);
            new.extend(&self.tokens[list..condition]).push(Token::Comma);
            parameters(&mut new, &names);
            new.extend(&self.tokens[condition + 1..end]).push(Token::RParen);
        } else {
            new.extend(&self.tokens[list..end]);
        }
        new.push(Token::Comma);
        parameters(&mut new, &names);
        new.extend(&self.tokens[start + 1..at]).push(Token::RParen);
        Ok(Some(Replacement { range: start..end + 1, tokens: new.tokens }))
    }

    /// The bracket around a place, if no parenthesis is between them.
    fn open_bracket(&self, at: usize) -> Option<usize> {
        let mut open = 0_usize;
        for before in (0..at).rev() {
            match self.tokens[before].token {
                Token::RParen | Token::RBracket | Token::RBrace => open += 1,
                Token::LBracket if open == 0 => return Some(before),
                Token::LParen | Token::LBrace if open == 0 => return None,
                Token::LParen | Token::LBracket | Token::LBrace => open -= 1,
                _ => {}
            }
        }
        None
    }
}

/// Adds `x ->` or `(x, i) ->`.
fn parameters(new: &mut NewTokens, names: &[&TokenWithSpan]) {
    match names {
        [name] => {
            new.extend(std::slice::from_ref(*name));
        }
        names => {
            new.push(Token::LParen);
            for (place, name) in names.iter().enumerate() {
                if place > 0 {
                    new.push(Token::Comma);
                }
                new.extend(std::slice::from_ref(*name));
            }
            new.push(Token::RParen);
        }
    }
    new.push(Token::Arrow);
}
