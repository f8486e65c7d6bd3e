//! The text of maps: `{a=1, 'b,c'=NULL}`, as DuckDB writes it.
//!
//! A key or value with a character that has a meaning here is in single quotes, in which a backslash escapes the next
//! character. Lists, structs and maps as values have their own text. Readers also take a JSON object.

use super::json::Scanner;
use super::reader::Problem;

/// Appends the text of a key or a value of a simple type.
pub(super) fn write_part(text: &str, out: &mut String) {
    let is_special = |ch: char| matches!(ch, ',' | '=' | '{' | '}' | '[' | ']' | '(' | ')' | '\'' | '"' | '\\');
    let is_plain =
        !text.is_empty() && text.trim() == text && !text.eq_ignore_ascii_case("null") && !text.contains(is_special);
    if is_plain {
        out.push_str(text);
        return;
    }
    out.push('\'');
    for ch in text.chars() {
        if matches!(ch, '\'' | '\\') {
            out.push('\\');
        }
        out.push(ch);
    }
    out.push('\'');
}

/// A key or a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum MapPart<'t> {
    /// `NULL` without quotes.
    Null,
    /// A text without quotes, unchanged.
    Plain(&'t str),
    /// The inside of quotes, without escapes.
    Unquoted(String),
}

impl MapPart<'_> {
    /// The text, `None` for NULL.
    pub(super) fn text(&self) -> Option<&str> {
        match self {
            MapPart::Null => None,
            MapPart::Plain(text) => Some(text),
            MapPart::Unquoted(text) => Some(text),
        }
    }
}

/// Whether a text is a JSON object with at least one member.
pub(super) fn is_json_object(text: &str) -> bool {
    let mut scanner = Scanner::new(text, 0);
    scanner.pass(b'{') && scanner.string("a key").is_ok() && scanner.pass(b':')
}

/// The entries of the text of a map, in order.
pub(super) fn entries(text: &str) -> Result<Vec<(MapPart<'_>, MapPart<'_>)>, Problem> {
    let mut rest = text.trim().strip_prefix('{').ok_or(Problem::Malformed)?.trim_start();
    let mut found = Vec::new();
    if let Some(after) = rest.strip_prefix('}') {
        return if after.is_empty() { Ok(found) } else { Err(Problem::Malformed) };
    }
    loop {
        let (key, after) = part(rest, &['='])?;
        let (value, after) = part(after.strip_prefix('=').ok_or(Problem::Malformed)?, &[',', '}'])?;
        found.push((key, value));
        match after.strip_prefix(',') {
            Some(next) => rest = next,
            None if after == "}" => return Ok(found),
            None => return Err(Problem::Malformed),
        }
    }
}

/// Reads one part up to one of the characters `ends`. Returns the rest, which begins with that character.
fn part<'t>(text: &'t str, ends: &[char]) -> Result<(MapPart<'t>, &'t str), Problem> {
    let text = text.trim_start();
    let first = text.chars().next().ok_or(Problem::Malformed)?;
    if matches!(first, '\'' | '"') {
        let (inside, length) = unquoted(text, first).ok_or(Problem::Malformed)?;
        return Ok((MapPart::Unquoted(inside), text[length..].trim_start()));
    }
    let end = match first {
        '{' | '[' => nested_end(text).ok_or(Problem::Malformed)?,
        _ => text.find(ends).ok_or(Problem::Malformed)?,
    };
    let plain = text[..end].trim_end();
    let made = match plain {
        "" => return Err(Problem::Malformed),
        word if word.eq_ignore_ascii_case("null") => MapPart::Null,
        word => MapPart::Plain(word),
    };
    Ok((made, text[end..].trim_start()))
}

/// Returns the inside of the quoted text at the start, and the length with both quotes.
fn unquoted(text: &str, quote: char) -> Option<(String, usize)> {
    let mut inside = String::new();
    let mut chars = text.char_indices().skip(1);
    while let Some((at, ch)) = chars.next() {
        match ch {
            '\\' => inside.push(chars.next()?.1),
            ch if ch == quote => return Some((inside, at + 1)),
            ch => inside.push(ch),
        }
    }
    None
}

/// Returns the length of the list, struct or map at the start.
fn nested_end(text: &str) -> Option<usize> {
    let mut open = 0_usize;
    let mut quote = None;
    let mut chars = text.char_indices();
    while let Some((at, ch)) = chars.next() {
        match (quote, ch) {
            (Some(_), '\\') => drop(chars.next()),
            (Some(own), ch) if ch == own => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"') => quote = Some(ch),
            (None, '{' | '[') => open += 1,
            (None, '}' | ']') => {
                open -= 1;
                if open == 0 {
                    return Some(at + 1);
                }
            }
            (None, _) => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> Option<Vec<(Option<String>, Option<String>)>> {
        let own = |part: MapPart<'_>| part.text().map(str::to_owned);
        Some(entries(text).ok()?.into_iter().map(|(key, value)| (own(key), own(value))).collect())
    }

    #[test]
    fn written_parts_are_read_back() {
        for text in ["a", "", " a", "a b", "null", "q'q", "a\\b", "x=y", "{", "[1, 2]", "a,b", "ä", "\"x\""] {
            let mut map = String::from("{");
            write_part(text, &mut map);
            map.push('=');
            write_part(text, &mut map);
            map.push('}');
            assert_eq!(shown(&map), Some(vec![(Some(text.to_owned()), Some(text.to_owned()))]), "{map}");
        }
    }

    #[test]
    fn entries_may_have_nested_values_and_null() {
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(shown("{}"), Some(vec![]));
        assert_eq!(
            shown("{a = [1, \"}\"] , b={x={y=1}},c=NULL}"),
            Some(vec![(some("a"), some("[1, \"}\"]")), (some("b"), some("{x={y=1}}")), (some("c"), None)])
        );
        for wrong in ["", "{", "{a}", "{a=1", "{a=1,}", "{a=1}x", "{=1}", "{'a=1}", "[a=1]", "{a=[1}", "{a=1 b=2}x"] {
            assert_eq!(shown(wrong), None, "{wrong}");
        }
        assert!(is_json_object("{ \"a\" : 1}") && !is_json_object("{\"a\"=1}"));
    }
}
