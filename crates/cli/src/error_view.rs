//! Errors as the shell shows them, with the place in the statement underlined.
//!
//! ```text
//! ERROR 42703: there is no column "nme" (line 1, column 8)
//!   SELECT nme FROM t
//!          ^^^
//! HINT: did you mean "name"?
//! ```

use rowmill::text::lexemes;
use rowmill::{Error, TextPosition};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use crate::style::Tone;
use crate::terminal::{complain, screen_size};

/// The width of the excerpt if the output is no terminal.
const COLUMNS: usize = 100;

/// The indentation of the excerpt.
const INDENT: &str = "  ";

const CUT: &str = "…";

/// Prints an error. `excerpt` shows its place.
pub(crate) fn show(error: &Error, excerpt: Option<&str>) {
    let name = Tone::Error.paint_error(&format!("ERROR {}:", error.sqlstate()));
    let mut text = format!("{name} {}", error.message());
    if let Some(excerpt) = excerpt {
        text.push('\n');
        text.push_str(excerpt);
    }
    if let Some(hint) = error.hint_text() {
        text.push_str(&format!("\n{} {hint}", Tone::Hint.paint_error("HINT:")));
    }
    complain(&text);
}

/// Returns the line of `sql` at `place` and a line that underlines the word there. `None` if `sql` has no such place.
pub(crate) fn excerpt(sql: &str, place: TextPosition) -> Option<String> {
    let columns = screen_size().map_or(COLUMNS, |screen| screen.columns);
    excerpt_in(sql, place, columns.saturating_sub(INDENT.len()).max(20))
}

fn excerpt_in(sql: &str, place: TextPosition, columns: usize) -> Option<String> {
    let line_number = usize::try_from(place.line).ok()?.checked_sub(1)?;
    let skipped = usize::try_from(place.column).ok()?.checked_sub(1)?;
    let line = sql.split('\n').nth(line_number)?.trim_end();
    let at = line.char_indices().map(|(at, _)| at).chain([line.len()]).nth(skipped)?;
    // A word at the place is underlined as a whole. At the end of the line there is nothing but a blank.
    let word = lexemes(&line[at..]).next().map_or(1, |lexeme| lexeme.text.width()).max(1);
    let visible = line.replace('\t', " ");
    let (before, after) = visible.split_at(at);
    let (shown_before, is_cut) = last_columns(before, columns / 2);
    let mut shown = if is_cut { CUT.to_owned() } else { String::new() };
    shown.push_str(shown_before);
    let indent = shown.width();
    let rest = first_columns(after, columns.saturating_sub(indent + CUT.width()));
    shown.push_str(rest);
    if rest.len() < after.len() {
        shown.push_str(CUT);
    }
    let word = word.min(rest.width().max(1));
    let mark = Tone::Error.paint_error(&"^".repeat(word));
    Some(format!("{INDENT}{shown}\n{INDENT}{}{mark}", " ".repeat(indent)))
}

/// Returns the end of `text` that is at most `columns` wide, and whether something is left out.
fn last_columns(text: &str, columns: usize) -> (&str, bool) {
    if text.width() <= columns {
        return (text, false);
    }
    let mut used = 0;
    let fits = |(_, character): &(usize, char)| {
        used += character.width().unwrap_or(0);
        used < columns
    };
    let start = text.char_indices().rev().take_while(fits).last().map_or(text.len(), |(at, _)| at);
    (&text[start..], true)
}

/// Returns the beginning of `text` that is at most `columns` wide.
fn first_columns(text: &str, columns: usize) -> &str {
    let mut used = 0;
    let too_wide = |(_, character): &(usize, char)| {
        used += character.width().unwrap_or(0);
        used > columns
    };
    let end = text.char_indices().find(too_wide).map_or(text.len(), |(at, _)| at);
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(sql: &str, line: u64, column: u64, columns: usize) -> Option<String> {
        excerpt_in(sql, TextPosition { line, column }, columns)
    }

    #[test]
    fn the_word_at_the_place_is_underlined() {
        let sql = "SELECT a,\n\tnme FROM \"größe\"";
        assert_eq!(at(sql, 2, 2, 80).as_deref(), Some("   nme FROM \"größe\"\n   ^^^"));
        assert_eq!(at(sql, 2, 11, 80).as_deref(), Some("   nme FROM \"größe\"\n            ^^^^^^^"));
        assert_eq!(at("SELECT '漢字' x", 1, 13, 80).as_deref(), Some("  SELECT '漢字' x\n                ^"));
        // The end of the text has a place too.
        assert_eq!(at("SELECT", 1, 7, 80).as_deref(), Some("  SELECT\n        ^"));
        assert_eq!(at("SELECT", 1, 9, 80), None);
        assert_eq!(at("SELECT", 2, 1, 80), None);
        assert_eq!(at("SELECT", 0, 0, 80), None);
    }

    #[test]
    fn a_long_line_is_cut_around_the_place() {
        let sql = format!("SELECT {}wrong{}", "a, ".repeat(40), ", b".repeat(40));
        let shown = at(&sql, 1, 128, 40).expect("the place exists");
        let (line, mark) = shown.split_once('\n').expect("two lines");
        assert!(line.width() <= 42 && line.starts_with("  …") && line.ends_with('…'), "{shown}");
        assert_eq!(line.find("wrong").map(|at| line[..at].width()), mark.find('^'), "{shown}");
    }
}
