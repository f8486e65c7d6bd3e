//! Colours of the line that is being typed, and the bracket that belongs to the one at the cursor.

use std::collections::HashSet;
use std::sync::LazyLock;

use rowmill::STATEMENTS;
use rowmill::text::{Lexeme, LexemeKind, lexemes};

use crate::completion::KEYWORDS;
use crate::style::Tone;

/// The words that are shown as keywords, in upper case.
static KEYWORD_SET: LazyLock<HashSet<&'static str>> = LazyLock::new(|| {
    let of_statements = STATEMENTS.iter().flat_map(|info| info.name.split(' '));
    of_statements.chain(KEYWORDS.iter().copied()).collect()
});

/// Whether `word` is a keyword.
pub(crate) fn is_keyword(word: &str) -> bool {
    KEYWORD_SET.contains(word.to_uppercase().as_str())
}

/// Returns the line with colours. `before` are the earlier lines of the statement, and `cursor` is a byte of `line`.
pub(crate) fn highlighted(before: &str, line: &str, cursor: usize) -> String {
    let text = format!("{before}{line}");
    let all: Vec<Lexeme<'_>> = lexemes(&text).collect();
    let matching = matching_bracket(&all, before.len() + cursor);
    let mut out = String::new();
    let mut at = 0;
    for (place, lexeme) in all.iter().enumerate() {
        let start = at;
        at += lexeme.text.len();
        // Only the part in the line is shown.
        let Some(visible) = text.get(start.max(before.len())..at).filter(|_| at > before.len()) else { continue };
        let tone = if matching == Some(start) { Tone::Match } else { tone_of(&all, place) };
        out.push_str(&tone.paint(visible));
    }
    out
}

fn tone_of(all: &[Lexeme<'_>], place: usize) -> Tone {
    let lexeme = &all[place];
    match lexeme.kind {
        LexemeKind::Comment => Tone::Comment,
        LexemeKind::Number | LexemeKind::Text | LexemeKind::SpecialText => Tone::Value,
        LexemeKind::Word if is_keyword(lexeme.text) => Tone::Keyword,
        LexemeKind::Word if all.get(place + 1).is_some_and(|next| next.text == "(") => Tone::Function,
        _ => Tone::Plain,
    }
}

/// Returns where the bracket begins that belongs to the one under the cursor or before it.
fn matching_bracket(all: &[Lexeme<'_>], cursor: usize) -> Option<usize> {
    let mut open: Vec<usize> = Vec::new();
    let mut pairs = Vec::new();
    let mut at = 0;
    for lexeme in all {
        match lexeme.text {
            "(" | "[" => open.push(at),
            ")" | "]" => pairs.extend(open.pop().map(|start| (start, at))),
            _ => {}
        }
        at += lexeme.text.len();
    }
    let other = |here: usize| {
        pairs.iter().find_map(|(start, end)| match here {
            _ if here == *start => Some(*end),
            _ if here == *end => Some(*start),
            _ => None,
        })
    };
    other(cursor).or_else(|| other(cursor.checked_sub(1)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn brackets_in_quotes_have_no_partner() {
        let sql = "f('(', (a))";
        let all: Vec<Lexeme<'_>> = lexemes(sql).collect();
        assert_eq!(matching_bracket(&all, 1), Some(10));
        assert_eq!(matching_bracket(&all, 11), Some(1));
        assert_eq!(matching_bracket(&all, 7), Some(9));
        assert_eq!(matching_bracket(&all, 3), None);
    }

    #[test]
    fn only_the_line_is_returned_and_nothing_of_it_is_lost() {
        for (before, line) in [("SELECT 'a\n", "b' FROM ("), ("", "größe → 'x"), ("/* ", ""), ("SELECT (\n", ")")] {
            for cursor in 0..=line.len() {
                let shown = console::strip_ansi_codes(&highlighted(before, line, cursor)).into_owned();
                assert_eq!(shown, line);
            }
        }
    }
}
