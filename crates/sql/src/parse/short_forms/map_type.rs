//! `MAP(TEXT, INTEGER)`: the parser knows the type as `MAP<TEXT, INTEGER>`.
//!
//! `map(keys, values)` is a function, too. Its arguments are lists, and no list is written like a type with parameters:
//! a word before brackets without an index, several words, or one of few names before parentheses. Two single words are
//! types if both are names of types, or where only a type can be: after `::` and after the name of a column.

use std::ops::Range;

use rowmill_base::SqlType;
use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::Token;

use super::{NewTokens, Replacement, ShortForms};

/// The types whose parameters are in parentheses.
const WITH_PARENTHESES: [&str; 10] =
    ["decimal", "numeric", "varchar", "char", "timestamp", "timestamptz", "struct", "enum", "map", "float"];

impl ShortForms<'_> {
    /// `MAP(key, value)` as a type, if a part of it has parameters.
    pub(super) fn map_type(&self, at: usize) -> Option<Replacement> {
        let open = self.next(at + 1);
        if self.token(open) != Some(&Token::LParen) {
            return None;
        }
        let (parts, close) = self.parts(open)?;
        let [key, value] = parts.as_slice() else { return None };
        let words = [self.words(key), self.words(value)];
        let is_name = |words: &[usize]| words.len() == 1;
        let is_type = |words: &[usize]| is_name(words) || self.has_parameters(words);
        let is_meant = match words.iter().all(|words| is_name(words)) {
            true => self.is_place_of_type(at) || words.iter().all(|words| self.is_type_name(words[0])),
            false => words.iter().all(|words| is_type(words)),
        };
        is_meant.then(|| {
            let mut new = NewTokens::at(self.tokens[at].span);
            new.extend(&self.tokens[at..=at]).push(Token::Lt);
            new.extend(&self.tokens[key.clone()]).push(Token::Comma);
            new.extend(&self.tokens[value.clone()]).push(Token::Gt);
            Replacement { range: at..close + 1, tokens: new.tokens }
        })
    }

    /// Whether only a type can be at a place.
    fn is_place_of_type(&self, at: usize) -> bool {
        match self.previous(at).map(|before| &self.tokens[before].token) {
            Some(Token::DoubleColon) => true,
            Some(Token::Word(word)) => word.quote_style.is_some() || word.keyword == Keyword::NoKeyword,
            _ => false,
        }
    }

    /// Whether a word is the name of a type.
    fn is_type_name(&self, at: usize) -> bool {
        let Token::Word(word) = &self.tokens[at].token else { return false };
        SqlType::of_name(&word.value).is_some()
            || WITH_PARENTHESES.iter().any(|name| word.value.eq_ignore_ascii_case(name))
    }

    /// Returns the parts of parentheses between commas, and the place of the closing one.
    fn parts(&self, open: usize) -> Option<(Vec<Range<usize>>, usize)> {
        let (mut depth, mut start, mut parts) = (0_usize, open + 1, Vec::new());
        for at in open..self.tokens.len() {
            match &self.tokens[at].token {
                Token::LParen | Token::LBracket | Token::LBrace | Token::Lt => depth += 1,
                Token::RParen if depth == 1 => {
                    parts.push(start..at);
                    return Some((parts, at));
                }
                Token::RParen | Token::RBracket | Token::RBrace | Token::Gt => depth = depth.checked_sub(1)?,
                Token::Comma if depth == 1 => {
                    parts.push(start..at);
                    start = at + 1;
                }
                _ => {}
            }
        }
        None
    }

    /// Returns the places of the tokens that are not white space, if the first one is a word.
    fn words(&self, range: &Range<usize>) -> Vec<usize> {
        let places: Vec<usize> = range.clone().filter(|at| super::is_text(&self.tokens[*at])).collect();
        let is_word = places.first().is_some_and(|first| matches!(self.tokens[*first].token, Token::Word(_)));
        if is_word { places } else { Vec::new() }
    }

    /// Whether tokens are a type with parameters, with brackets, or of several words.
    fn has_parameters(&self, places: &[usize]) -> bool {
        let [first, second, ..] = places else { return false };
        match &self.tokens[*second].token {
            Token::LParen | Token::Lt => {
                matches!(&self.tokens[*first].token, Token::Word(word)
                    if WITH_PARENTHESES.iter().any(|name| word.value.eq_ignore_ascii_case(name)))
            }
            Token::LBracket => places.get(2).is_some_and(|at| self.tokens[*at].token == Token::RBracket),
            Token::Word(_) => places.iter().all(|at| matches!(self.tokens[*at].token, Token::Word(_))),
            _ => false,
        }
    }
}
