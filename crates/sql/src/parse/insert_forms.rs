//! Forms of `INSERT` that the parser does not know.
//!
//! | form | read as |
//! | --- | --- |
//! | `REPLACE INTO t ...` | `INSERT OR REPLACE INTO t ...` |
//! | `INSERT INTO t BY NAME query` | `INSERT INTO t query`, with a mark on the statement |
//! | `INSERT INTO t BY POSITION query` | `INSERT INTO t query` |

use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, TokenWithSpan, Word};

use super::is_text;

/// Rewrites the tokens of a statement, whose names are in lower case. Returns whether it was an `INSERT ... BY NAME`.
pub(super) fn rewrite(tokens: &mut Vec<TokenWithSpan>) -> bool {
    let Some(first) = first_word(tokens) else { return false };
    if is_bare(&tokens[first], "replace") && following(tokens, first).is_some_and(|next| is_bare(&tokens[next], "into"))
    {
        // The words keep the place of REPLACE, so that errors point to it.
        let span = tokens[first].span;
        let word = |keyword| TokenWithSpan::new(Token::make_keyword(keyword), span);
        let space = || TokenWithSpan::new(Token::Whitespace(sqlparser::tokenizer::Whitespace::Space), span);
        tokens.splice(first..=first, [word("INSERT"), space(), word("OR"), space(), word("REPLACE")]);
    } else if !is_bare(&tokens[first], "insert") {
        return false;
    }
    take_by_clause(tokens, first)
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
