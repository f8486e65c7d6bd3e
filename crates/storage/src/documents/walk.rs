//! Visits the values of one document that a path of keys can reach.
//!
//! The text is valid JSON, because casts check it. We do not rely on that: bytes that are no JSON end the walk.

use std::borrow::Cow;
use std::ops::Range;

use memchr::memchr2;

use super::path_tree::{PathTree, ROOT};
use super::scalar::unescaped;

/// What a value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ValueClass {
    Null,
    Boolean,
    Number,
    String,
    /// An object or an array.
    Nested,
}

/// A value and its place in the text. The range of an object that the walk goes into is empty.
#[derive(Clone, Debug)]
pub(super) struct FoundValue {
    pub(super) node: u32,
    pub(super) class: ValueClass,
    pub(super) range: Range<usize>,
}

/// An object that the walk is in.
struct OpenObject {
    node: u32,
    /// The member before.
    before: Option<u32>,
}

/// Calls `each` with the document, with the members of its objects, and with theirs, in the order of the text. Leaves
/// out members whose key came before in the object or found no place in the tree, and the insides of arrays. Returns
/// `false` if the text is no JSON, so that there may be other members.
pub(super) fn walk(text: &str, tree: &mut PathTree, each: &mut impl FnMut(FoundValue)) -> bool {
    tree.begin();
    walk_text(text, tree, each).is_some()
}

fn walk_text(text: &str, tree: &mut PathTree, each: &mut impl FnMut(FoundValue)) -> Option<()> {
    let bytes = text.as_bytes();
    let mut open: Vec<OpenObject> = Vec::with_capacity(8);
    let mut at = enter(bytes, space_end(bytes, 0), ROOT, tree, &mut open, each)?;
    while let Some(object) = open.last_mut() {
        at = space_end(bytes, at);
        match bytes.get(at)? {
            b'"' => {
                let end = string_end(bytes, at)?;
                let key = key_of(text.get(at + 1..end - 1)?)?;
                at = space_end(bytes, end);
                if bytes.get(at) != Some(&b':') {
                    return None;
                }
                at = space_end(bytes, at + 1);
                match tree.member(object.node, object.before, &key) {
                    Some(node) => {
                        object.before = Some(node);
                        at = enter(bytes, at, node, tree, &mut open, each)?;
                    }
                    None => at = value_end(bytes, at)?.1,
                }
            }
            b',' => at += 1,
            b'}' => {
                at += 1;
                open.pop();
            }
            _ => return None,
        }
    }
    // Nothing but white space may follow the document.
    (space_end(bytes, at) == bytes.len()).then_some(())
}

/// Visits the value at byte `at`. Returns the byte after it, or the first byte inside of an object.
fn enter(
    bytes: &[u8],
    at: usize,
    node: u32,
    tree: &PathTree,
    open: &mut Vec<OpenObject>,
    each: &mut impl FnMut(FoundValue),
) -> Option<usize> {
    if bytes.get(at) == Some(&b'{') && tree.is_open(node) {
        each(FoundValue { node, class: ValueClass::Nested, range: at..at });
        open.push(OpenObject { node, before: None });
        return Some(at + 1);
    }
    let (class, end) = value_end(bytes, at)?;
    each(FoundValue { node, class, range: at..end });
    Some(end)
}

/// The meaning of a key that is written as `inside`.
fn key_of(inside: &str) -> Option<Cow<'_, str>> {
    match inside.contains('\\') {
        false => Some(Cow::Borrowed(inside)),
        true => unescaped(inside).map(Cow::Owned),
    }
}

fn space_end(bytes: &[u8], mut at: usize) -> usize {
    while matches!(bytes.get(at), Some(b' ' | b'\t' | b'\n' | b'\r')) {
        at += 1;
    }
    at
}

/// The byte after the string that begins at `at`.
fn string_end(bytes: &[u8], at: usize) -> Option<usize> {
    let mut at = at + 1;
    loop {
        at += memchr2(b'"', b'\\', bytes.get(at..)?)?;
        if bytes[at] == b'"' {
            return Some(at + 1);
        }
        // The byte after a backslash ends nothing.
        at += 2;
    }
}

/// The class of the value that begins at `at`, and the byte after it.
fn value_end(bytes: &[u8], at: usize) -> Option<(ValueClass, usize)> {
    let class = match bytes.get(at)? {
        b'"' => return Some((ValueClass::String, string_end(bytes, at)?)),
        b'{' | b'[' => return Some((ValueClass::Nested, nested_end(bytes, at)?)),
        b't' | b'f' => ValueClass::Boolean,
        b'n' => ValueClass::Null,
        b'-' | b'0'..=b'9' => ValueClass::Number,
        _ => return None,
    };
    let is_end = |byte: &u8| matches!(byte, b',' | b'}' | b']' | b' ' | b'\t' | b'\n' | b'\r');
    Some((class, at + bytes[at..].iter().position(is_end).unwrap_or(bytes.len() - at)))
}

/// The byte after the object or array that begins at `at`.
fn nested_end(bytes: &[u8], mut at: usize) -> Option<usize> {
    let mut depth = 0_usize;
    loop {
        match bytes.get(at)? {
            b'"' => {
                at = string_end(bytes, at)?;
                continue;
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' => {
                depth -= 1;
                if depth == 0 {
                    return Some(at + 1);
                }
            }
            _ => {}
        }
        at += 1;
    }
}
