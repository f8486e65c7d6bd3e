//! Names before the columns of a select list: `SELECT total: a + b FROM t`.

use sqlparser::tokenizer::Token;

use super::{NewTokens, Replacement, ShortForms, name_of};

/// Words that end a column of a select list.
const ITEM_ENDS: &[&str] = &[
    "from",
    "where",
    "group",
    "having",
    "qualify",
    "window",
    "order",
    "limit",
    "offset",
    "fetch",
    "union",
    "except",
    "intersect",
    "using",
];

impl ShortForms<'_> {
    /// The column whose name is before the colon at a place.
    pub(super) fn prefix_alias(&self, at: usize) -> Option<Replacement> {
        let name = self.previous(at)?;
        name_of(self.token(name)?)?;
        let before = self.previous(name)?;
        let begins_item = match self.token(before)? {
            Token::Comma => self.is_select_list(before),
            _ => self.is_any_word(before, &["select", "distinct", "all"]),
        };
        if !begins_item {
            return None;
        }
        let end = self.end_of(at + 1, ITEM_ENDS);
        let item = self.items(at + 1..end).into_iter().next()?;
        let mut new = NewTokens::at(self.tokens[name].span);
        new.extend(&self.tokens[item.clone()]).words("AS").extend(&self.tokens[name..=name]);
        Some(Replacement { range: name..item.end, tokens: new.tokens })
    }

    /// Whether a comma separates columns after SELECT.
    fn is_select_list(&self, at: usize) -> bool {
        let mut open = 0_usize;
        for before in (0..at).rev() {
            match &self.tokens[before].token {
                Token::RParen | Token::RBracket | Token::RBrace => open += 1,
                Token::LParen | Token::LBracket | Token::LBrace if open == 0 => return false,
                Token::LParen | Token::LBracket | Token::LBrace => open -= 1,
                Token::Word(_) if open == 0 && self.is_word(before, "select") => return true,
                Token::Word(_) if open == 0 && self.is_any_word(before, ITEM_ENDS) => return false,
                _ => {}
            }
        }
        false
    }
}
