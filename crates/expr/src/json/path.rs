//! Paths into documents.
//!
//! | text | path |
//! | --- | --- |
//! | `$.a.b[0]` | JSON path: keys after dots, positions in brackets, from 0; `$` alone is the document |
//! | `$."a b"`, `$['a b']` | a key in quotes |
//! | `$[#-1]`, `$[-1]` | a position from the end |
//! | `$.*`, `$[*]`, `$..a` | all members, all items, the member `a` at any depth: several values |
//! | `/a/0` | JSON pointer (RFC 6901), where `~1` is a slash and `~0` a tilde |
//! | every other text | one key |

use rowmill_base::{Error, ErrorKind, Result};

/// One step of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PathStep {
    /// The member of an object with this key.
    Key(String),
    /// The item of an array at this position from 0, or from the end if it is negative.
    Index(i64),
    /// The item at this position, or the member with the number as its key, as in a pointer.
    KeyOrIndex(String),
    /// All members of an object.
    Members,
    /// All items of an array.
    Items,
    /// All members with this key, at any depth.
    Deep(String),
}

/// A path into a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JsonPath {
    /// The steps, from the document inwards.
    pub steps: Vec<PathStep>,
}

impl JsonPath {
    /// Reads a path.
    pub fn read(text: &str) -> Result<JsonPath> {
        let steps = match text.as_bytes().first() {
            Some(b'$') => PathReader { text, at: 1 }.steps()?,
            Some(b'/') => text[1..].split('/').map(pointer_step).collect(),
            _ => vec![PathStep::Key(text.to_owned())],
        };
        Ok(JsonPath { steps })
    }

    /// The path of one position.
    pub(crate) fn of_index(index: i64) -> JsonPath {
        JsonPath { steps: vec![PathStep::Index(index)] }
    }

    /// The path of keys and positions, as PostgreSQL's operators `#>` and `#>>` take it.
    pub(crate) fn of_words<'a>(words: impl IntoIterator<Item = &'a str>) -> JsonPath {
        JsonPath { steps: words.into_iter().map(|word| PathStep::KeyOrIndex(word.to_owned())).collect() }
    }

    /// Whether the path may select several values.
    pub(crate) fn selects_several(&self) -> bool {
        self.steps.iter().any(|step| matches!(step, PathStep::Members | PathStep::Items | PathStep::Deep(_)))
    }
}

fn pointer_step(word: &str) -> PathStep {
    PathStep::KeyOrIndex(word.replace("~1", "/").replace("~0", "~"))
}

struct PathReader<'a> {
    text: &'a str,
    at: usize,
}

impl PathReader<'_> {
    fn steps(&mut self) -> Result<Vec<PathStep>> {
        let mut steps = Vec::new();
        while let Some(byte) = self.text.as_bytes().get(self.at) {
            self.at += 1;
            steps.push(match byte {
                b'.' if self.pass(".") => PathStep::Deep(self.key()?),
                b'.' if self.pass("*") => PathStep::Members,
                b'.' => PathStep::Key(self.key()?),
                b'[' => self.bracket()?,
                _ => return Err(self.refused(self.at - 1, ". or [")),
            });
        }
        Ok(steps)
    }

    fn pass(&mut self, word: &str) -> bool {
        let found = self.text[self.at..].starts_with(word);
        self.at += if found { word.len() } else { 0 };
        found
    }

    fn key(&mut self) -> Result<String> {
        if self.pass("\"") {
            return self.quoted('"');
        }
        let rest = &self.text[self.at..];
        let end = rest.find(['.', '[']).unwrap_or(rest.len());
        if end == 0 {
            return Err(self.refused(self.at, "a key"));
        }
        self.at += end;
        Ok(rest[..end].to_owned())
    }

    fn quoted(&mut self, quote: char) -> Result<String> {
        let rest = &self.text[self.at..];
        let end = rest.find(quote).ok_or_else(|| self.refused(self.text.len(), "the quote that ends the key"))?;
        self.at += end + 1;
        Ok(rest[..end].to_owned())
    }

    /// Reads the inside of brackets.
    fn bracket(&mut self) -> Result<PathStep> {
        let start = self.at;
        let step = if self.pass("*") {
            PathStep::Items
        } else if self.pass("\"") {
            PathStep::Key(self.quoted('"')?)
        } else if self.pass("'") {
            PathStep::Key(self.quoted('\'')?)
        } else {
            let from_end = self.pass("#");
            let rest = &self.text[self.at..];
            let end = rest.find(']').unwrap_or(rest.len());
            let number: i64 = rest[..end].parse().map_err(|_| self.refused(start, "a position such as 0 or #-1"))?;
            if from_end && number >= 0 {
                return Err(self.refused(start, "a position such as 0 or #-1"));
            }
            self.at += end;
            PathStep::Index(number)
        };
        if self.pass("]") { Ok(step) } else { Err(self.refused(self.at, "]")) }
    }

    fn refused(&self, at: usize, expected: &str) -> Error {
        let message = format!("'{}' is not a path into JSON: byte {at} should be {expected}", self.text);
        Error::new(ErrorKind::InvalidParameter, message)
            .hint("a path is '$.key[0]', '/key/0' or a key; '$.\"a key\"' quotes it")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_of_a_path_is_read() {
        use PathStep::{Deep, Index, Items, Key, KeyOrIndex, Members};
        let key = |key: &str| Key(key.to_owned());
        let word = |key: &str| KeyOrIndex(key.to_owned());
        let cases = [
            ("$", vec![]),
            ("$.a.b[0]", vec![key("a"), key("b"), Index(0)]),
            ("$.\"a.b\"[#-1]", vec![key("a.b"), Index(-1)]),
            ("$['a b'][-2]", vec![key("a b"), Index(-2)]),
            ("$.*[*]", vec![Members, Items]),
            ("$..a", vec![Deep("a".to_owned())]),
            ("/a/0", vec![word("a"), word("0")]),
            ("/a~1b/~0", vec![word("a/b"), word("~")]),
            ("a.b", vec![key("a.b")]),
            ("", vec![key("")]),
        ];
        for (text, steps) in cases {
            assert_eq!(JsonPath::read(text).unwrap().steps, steps, "{text}");
        }
    }

    #[test]
    fn other_texts_are_refused_at_their_byte() {
        for (text, at) in [("$a", 1), ("$.", 2), ("$[", 2), ("$[x]", 2), ("$[#1]", 2), ("$.\"a", 4), ("$[0", 3)] {
            let message = JsonPath::read(text).unwrap_err().message().to_owned();
            assert!(message.contains(&format!("byte {at} ")), "{text}: {message}");
        }
    }
}
