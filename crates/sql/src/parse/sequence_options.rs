//! The options of a sequence in any order, as PostgreSQL takes them. The parser's library knows one order only, so we
//! sort the clauses:
//!
//! ```text
//! START WITH 1 INCREMENT BY 1 NO MINVALUE  ->  INCREMENT BY 1 NO MINVALUE START WITH 1
//! ```

use std::ops::Range;

use rowmill_base::Result;
use sqlparser::tokenizer::{Token, TokenWithSpan, Whitespace};

use super::{is_text, syntax_error};

/// The words that begin a clause, in the order in which the library reads the clauses.
const FIRST_WORDS: [&str; 8] = ["as", "increment", "minvalue", "maxvalue", "start", "cache", "cycle", "owned"];

/// An option: its place in the order, and its tokens.
struct OptionTokens {
    rank: usize,
    range: Range<usize>,
}

/// Sorts the options of a CREATE SEQUENCE, and those of the identity columns of a table.
pub(super) fn sort_sequence_options(sql: &str, tokens: &mut Vec<TokenWithSpan>) -> Result<()> {
    if let Some(start) = after_name_of_sequence(tokens) {
        return sort(sql, tokens, start..tokens.len());
    }
    // An identity column may be in a CREATE TABLE or an ALTER TABLE.
    for at in (0..tokens.len()).rev().filter(|at| is_word(tokens, *at, "identity")).collect::<Vec<_>>() {
        let open = (at + 1..tokens.len()).find(|at| is_text(&tokens[*at]));
        let Some(open) = open.filter(|open| tokens[*open].token == Token::LParen) else { continue };
        let Some(close) = (open..tokens.len()).find(|at| tokens[*at].token == Token::RParen) else { continue };
        sort(sql, tokens, open + 1..close)?;
    }
    Ok(())
}

/// The place after the name in a CREATE SEQUENCE.
fn after_name_of_sequence(tokens: &[TokenWithSpan]) -> Option<usize> {
    let mut places = (0..tokens.len()).filter(|at| is_text(&tokens[*at]));
    places.next().filter(|at| is_word(tokens, *at, "create"))?;
    // CREATE may be followed by TEMPORARY.
    places.by_ref().take(2).find(|at| is_word(tokens, *at, "sequence"))?;
    let mut name = places.next()?;
    if is_word(tokens, name, "if") {
        name = places.nth(2)?;
    }
    let mut end = name + 1;
    while let Some(at) = places.next() {
        match tokens[at].token {
            Token::Period => end = places.next()? + 1,
            _ => break,
        }
    }
    Some(end)
}

fn is_word(tokens: &[TokenWithSpan], at: usize, wanted: &str) -> bool {
    matches!(&tokens[at].token, Token::Word(word)
        if word.quote_style.is_none() && word.value.eq_ignore_ascii_case(wanted))
}

/// Sorts the options in a range of tokens. What comes before the first option stays.
fn sort(sql: &str, tokens: &mut Vec<TokenWithSpan>, range: Range<usize>) -> Result<()> {
    let mut options: Vec<OptionTokens> = Vec::new();
    let mut before: Option<usize> = None;
    for at in range.clone().filter(|at| is_text(&tokens[*at])) {
        // A word after a point or BY is a name, for example in OWNED BY counts.start.
        let is_name =
            before.is_some_and(|before| tokens[before].token == Token::Period || is_word(tokens, before, "by"));
        let belongs_to_no = before.is_some_and(|before| is_word(tokens, before, "no"));
        if !is_name
            && !belongs_to_no
            && let Some(rank) = rank(tokens, at, range.end)
        {
            if let Some(last) = options.last_mut() {
                last.range.end = at;
            }
            if options.iter().any(|option| option.rank == rank) {
                let message = format!("{} is given twice", FIRST_WORDS[rank].to_uppercase());
                return Err(syntax_error(sql, &message, Some(tokens[at].span.start)));
            }
            options.push(OptionTokens { rank, range: at..range.end });
        }
        before = Some(at);
    }
    if options.is_sorted_by_key(|option| option.rank) {
        return Ok(());
    }
    let start = options[0].range.start;
    options.sort_by_key(|option| option.rank);
    let mut sorted = Vec::with_capacity(range.end - start);
    for option in &options {
        sorted.extend_from_slice(&tokens[option.range.clone()]);
        // A number and a word that now follows it must not touch.
        let span = tokens[option.range.end - 1].span;
        sorted.push(TokenWithSpan { token: Token::Whitespace(Whitespace::Space), span });
    }
    tokens.splice(start..range.end, sorted);
    Ok(())
}

/// The place in the order of the option that begins at a token, if one begins there.
fn rank(tokens: &[TokenWithSpan], at: usize, end: usize) -> Option<usize> {
    let of_word = |at: usize| FIRST_WORDS.iter().position(|word| is_word(tokens, at, word));
    if is_word(tokens, at, "no") {
        let next = (at + 1..end).find(|at| is_text(&tokens[*at]))?;
        return of_word(next).filter(|rank| matches!(FIRST_WORDS[*rank], "minvalue" | "maxvalue" | "cycle"));
    }
    of_word(at)
}
