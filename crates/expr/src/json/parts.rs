//! Parts of documents. A part is a piece of the text, so nothing is copied.
//!
//! The texts must be valid JSON. An invalid text gives fewer parts, but never a panic.

use super::path::PathStep;
use super::plain_string;
use crate::text::json::{JsonKind, closing_quote};

/// Returns the value that a path selects, the first one if there are several.
pub fn part<'a>(document: &'a str, steps: &[PathStep]) -> Option<&'a str> {
    let mut value = document;
    for (at, step) in steps.iter().enumerate() {
        value = match step {
            PathStep::Key(key) => member(value, key)?,
            PathStep::Index(index) => item(value, *index)?,
            PathStep::KeyOrIndex(word) => match JsonKind::of(value) {
                JsonKind::Object => member(value, word)?,
                _ => item(value, word.parse().ok()?)?,
            },
            PathStep::Members | PathStep::Items | PathStep::Deep(_) => {
                let mut first = None;
                parts(value, &steps[at..], &mut |part| {
                    first.get_or_insert(part);
                });
                return first;
            }
        };
    }
    Some(value)
}

/// Calls `take` with each value that a path selects.
pub fn parts<'a>(value: &'a str, steps: &[PathStep], take: &mut dyn FnMut(&'a str)) {
    let Some((step, rest)) = steps.split_first() else { return take(value) };
    match step {
        PathStep::Members => members(value).for_each(|(_, value)| parts(value, rest, take)),
        PathStep::Items => items(value).for_each(|value| parts(value, rest, take)),
        PathStep::Deep(key) => deep(value, key, &mut |value| parts(value, rest, take)),
        _ => {
            if let Some(value) = part(value, &steps[..1]) {
                parts(value, rest, take);
            }
        }
    }
}

/// Calls `take` with each member called `key`, at any depth, the outer ones first.
fn deep<'a>(value: &'a str, key: &str, take: &mut dyn FnMut(&'a str)) {
    if let Some(found) = member(value, key) {
        take(found);
    }
    members(value).for_each(|(_, value)| deep(value, key, take));
    items(value).for_each(|value| deep(value, key, take));
}

/// Returns the member of an object with this key, the first one if there are several.
pub(crate) fn member<'a>(object: &'a str, key: &str) -> Option<&'a str> {
    let mut scratch = String::new();
    members(object).find(|(inside, _)| plain_string(inside, &mut scratch) == key).map(|(_, value)| value)
}

/// Returns the item of an array at a position from 0, or from the end if it is negative.
pub fn item(array: &str, index: i64) -> Option<&str> {
    let at = match index {
        0.. => index,
        _ => i64::try_from(items(array).count()).ok()?.checked_add(index)?,
    };
    items(array).nth(usize::try_from(at).ok()?)
}

/// The keys of an object, with their escapes, and their values. Other values have none.
pub fn members(object: &str) -> impl Iterator<Item = (&str, &str)> {
    let mut cursor = PartCursor { text: object, at: 0 };
    let mut is_open = cursor.pass(b'{') && cursor.peek() == Some(b'"');
    std::iter::from_fn(move || {
        if !is_open {
            return None;
        }
        is_open = false;
        let key = cursor.string()?;
        let value = if cursor.pass(b':') { cursor.value()? } else { return None };
        is_open = cursor.pass(b',');
        Some((&key[1..key.len() - 1], value))
    })
}

/// The items of an array. Other values have none.
pub fn items(array: &str) -> impl Iterator<Item = &str> {
    let mut cursor = PartCursor { text: array, at: 0 };
    let mut is_open = cursor.pass(b'[') && cursor.peek() != Some(b']');
    std::iter::from_fn(move || {
        if !is_open {
            return None;
        }
        let item = cursor.value();
        is_open = item.is_some() && cursor.pass(b',');
        item
    })
}

/// A walk over a document. It only looks for the ends of values, because the document was checked when it was made.
struct PartCursor<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> PartCursor<'a> {
    /// The next byte that is not white space. Does not skip it.
    #[inline]
    fn peek(&mut self) -> Option<u8> {
        while let Some(byte) = self.text.as_bytes().get(self.at) {
            if !matches!(byte, b' ' | b'\t' | b'\n' | b'\r') {
                return Some(*byte);
            }
            self.at += 1;
        }
        None
    }

    /// Skips the next byte if it is `byte`, and returns whether it was.
    #[inline]
    fn pass(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    /// The string that comes next, with its quotes.
    #[inline]
    fn string(&mut self) -> Option<&'a str> {
        if !self.pass(b'"') {
            return None;
        }
        let start = self.at - 1;
        self.at = closing_quote(self.text.as_bytes(), self.at, b'"', b'\\')? + 1;
        self.text.get(start..self.at)
    }

    /// The value that comes next.
    #[inline]
    fn value(&mut self) -> Option<&'a str> {
        let first = self.peek()?;
        let start = self.at;
        match first {
            b'"' => return self.string(),
            b'{' | b'[' => self.container()?,
            _ => {
                let rest = &self.text.as_bytes()[start..];
                let ends = |byte: &u8| matches!(byte, b',' | b']' | b'}' | b' ' | b'\t' | b'\n' | b'\r');
                self.at += rest.iter().position(ends).unwrap_or(rest.len());
            }
        }
        self.text.get(start..self.at).filter(|value| !value.is_empty())
    }

    /// Skips an object or an array.
    fn container(&mut self) -> Option<()> {
        let bytes = self.text.as_bytes();
        let mut depth = 0_usize;
        loop {
            match bytes.get(self.at)? {
                b'"' => self.at = closing_quote(bytes, self.at + 1, b'"', b'\\')?,
                b'{' | b'[' => depth += 1,
                b'}' | b']' => depth -= 1,
                _ => {}
            }
            self.at += 1;
            if depth == 0 {
                return Some(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::path::JsonPath;
    use super::*;

    fn all(document: &'static str, path: &str) -> Vec<&'static str> {
        let mut found = Vec::new();
        parts(document, &JsonPath::read(path).unwrap().steps, &mut |part| found.push(part));
        found
    }

    #[test]
    fn paths_select_parts() {
        let document = r#"{"a": [1, {"b": "x"}, null], "k\u0061": {"b": 2}, "a": 3}"#;
        for (path, expected) in [
            ("$", Some(document)),
            ("a", Some(r#"[1, {"b": "x"}, null]"#)),
            ("$.a[0]", Some("1")),
            ("$.a[-1]", Some("null")),
            ("$.a[3]", None),
            ("$.a[-4]", None),
            ("/a/1/b", Some(r#""x""#)),
            ("/ka/b", Some("2")),
            ("$.a.b", None),
            ("$..b", Some(r#""x""#)),
        ] {
            assert_eq!(part(document, &JsonPath::read(path).unwrap().steps), expected, "{path}");
        }
        assert_eq!(all(document, "$.a[*]"), ["1", r#"{"b": "x"}"#, "null"]);
        assert_eq!(all(document, "$..b"), [r#""x""#, "2"]);
        assert_eq!(all(document, "$.*.b"), ["2"]);
        assert!(all("[]", "$[*]").is_empty() && all("{}", "$.*").is_empty() && all("1", "$[0]").is_empty());
    }

    #[test]
    fn damaged_texts_have_fewer_parts() {
        for text in ["", "{", "[", "[1,", "{\"a\"", "{\"a\":", "nul", "[1 2]", "\"", "{]"] {
            let _ = (part(text, &JsonPath::read("$.a[0]").unwrap().steps), items(text).count(), members(text).count());
        }
    }
}
