//! Forms of `INSERT` that the parser does not know.
//!
//! | form | read as |
//! | --- | --- |
//! | `REPLACE INTO t ...` | `INSERT OR REPLACE INTO t ...` |
//! | `INSERT INTO t BY NAME query` | `INSERT INTO t query`, with a mark on the statement |
//! | `INSERT INTO t BY POSITION query` | `INSERT INTO t query` |
//! | `INSERT INTO t (a) OVERRIDING SYSTEM VALUE ...` | `INSERT INTO t (a) ...`, with another mark |

use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, TokenWithSpan, Word};

use super::is_text;

/// The marks of an `INSERT`, whose words are taken out.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct InsertMarks {
    /// `BY NAME`
    pub(super) by_name: bool,
    /// `OVERRIDING SYSTEM VALUE`
    pub(super) overrides: bool,
}

/// Rewrites the tokens of a statement, whose names are in lower case.
pub(super) fn rewrite(tokens: &mut Vec<TokenWithSpan>) -> InsertMarks {
    let none = InsertMarks::default();
    let Some(first) = first_word(tokens) else { return none };
    if is_bare(&tokens[first], "replace") && following(tokens, first).is_some_and(|next| is_bare(&tokens[next], "into"))
    {
        // The words keep the place of REPLACE, so that errors point to it.
        let span = tokens[first].span;
        let word = |keyword| TokenWithSpan::new(Token::make_keyword(keyword), span);
        let space = || TokenWithSpan::new(Token::Whitespace(sqlparser::tokenizer::Whitespace::Space), span);
        tokens.splice(first..=first, [word("INSERT"), space(), word("OR"), space(), word("REPLACE")]);
    } else if !is_bare(&tokens[first], "insert") {
        return none;
    }
    let overrides = take_overriding(tokens, first);
    InsertMarks { by_name: take_by_clause(tokens, first), overrides }
}

/// Takes `OVERRIDING SYSTEM VALUE` out, which comes after the columns. Returns whether it was there.
fn take_overriding(tokens: &mut Vec<TokenWithSpan>, first: usize) -> bool {
    let begins_rows = |token: &TokenWithSpan| match &token.token {
        Token::Word(word) => matches!(word.keyword, Keyword::SELECT | Keyword::VALUES | Keyword::WITH),
        _ => false,
    };
    let end = tokens[first..].iter().position(begins_rows).map_or(tokens.len(), |end| first + end);
    let Some(at) = (first..end).find(|at| is_bare(&tokens[*at], "overriding")) else { return false };
    let Some(system) = following(tokens, at).filter(|at| is_bare(&tokens[*at], "system")) else { return false };
    let Some(value) = following(tokens, system).filter(|at| is_bare(&tokens[*at], "value")) else { return false };
    tokens.drain(at..=value);
    true
}

/// Takes `BY NAME` or `BY POSITION` out. Returns whether it was `BY NAME`.
fn take_by_clause(tokens: &mut Vec<TokenWithSpan>, first: usize) -> bool {
    let ends = |token: &TokenWithSpan| match &token.token {
        Token::LParen => true,
        Token::Word(word) => matches!(word.keyword, Keyword::SELECT | Keyword::VALUES | Keyword::FROM | Keyword::WITH),
        _ => false,
    };
    // The clause comes before the query.
    let end = tokens[first..].iter().position(ends).map_or(tokens.len(), |end| first + end);
    let by = (first..end).find(|at| is_bare(&tokens[*at], "by"));
    let Some((by, kind)) = by.and_then(|by| Some((by, following(tokens, by)?))) else { return false };
    let by_name = is_bare(&tokens[kind], "name");
    if by_name || is_bare(&tokens[kind], "position") {
        tokens.drain(by..=kind);
    }
    by_name
}

/// Returns the place of the word that begins the statement, after an `EXPLAIN`.
fn first_word(tokens: &[TokenWithSpan]) -> Option<usize> {
    let mut first = tokens.iter().position(is_text)?;
    while is_bare(&tokens[first], "explain") || is_bare(&tokens[first], "analyze") {
        first = following(tokens, first)?;
    }
    Some(first)
}

/// Returns the place of the next token that is not white space.
fn following(tokens: &[TokenWithSpan], at: usize) -> Option<usize> {
    tokens[at + 1..].iter().position(is_text).map(|found| at + 1 + found)
}

fn is_bare(token: &TokenWithSpan, wanted: &str) -> bool {
    matches!(&token.token, Token::Word(Word { value, quote_style: None, .. }) if value == wanted)
}
