//! Documents that are taken apart.

use super::parts::{items, members};
use super::plain_string;
use crate::text::json::JsonKind;

/// A value of a document. Scalars and keys remain pieces of the document's text.
#[derive(Clone, Debug)]
pub(crate) enum JsonNode<'a> {
    /// A string, a number, a truth value or `null`.
    Scalar(&'a str),
    /// The items of an array.
    Array(Vec<JsonNode<'a>>),
    /// The keys, with their escapes, and values of an object, in their order.
    Object(Vec<(&'a str, JsonNode<'a>)>),
}

impl<'a> JsonNode<'a> {
    /// Takes a document apart. The depth of a document is limited when its text is checked.
    pub(crate) fn of(value: &'a str) -> JsonNode<'a> {
        match JsonKind::of(value) {
            JsonKind::Array => JsonNode::Array(items(value).map(JsonNode::of).collect()),
            JsonKind::Object => {
                JsonNode::Object(members(value).map(|(key, value)| (key, JsonNode::of(value))).collect())
            }
            _ => JsonNode::Scalar(value),
        }
    }

    /// Whether the value is `null`.
    pub(crate) fn is_null(&self) -> bool {
        matches!(self, JsonNode::Scalar(value) if JsonKind::of(value) == JsonKind::Null)
    }

    /// Appends the text, as PostgreSQL writes JSONB: with a space after each colon and comma.
    pub(crate) fn write(&self, out: &mut String) {
        match self {
            JsonNode::Scalar(value) => out.push_str(value),
            JsonNode::Array(items) => {
                out.push('[');
                for (at, item) in items.iter().enumerate() {
                    out.push_str(if at > 0 { ", " } else { "" });
                    item.write(out);
                }
                out.push(']');
            }
            JsonNode::Object(members) => {
                out.push('{');
                for (at, (key, value)) in members.iter().enumerate() {
                    out.push_str(if at > 0 { ", " } else { "" });
                    write_key(key, out);
                    value.write(out);
                }
                out.push('}');
            }
        }
    }

    /// Appends the text over several lines, with four spaces for each level.
    pub(crate) fn write_lines(&self, level: usize, out: &mut String) {
        let line = |level: usize, out: &mut String| {
            out.push('\n');
            out.extend(std::iter::repeat_n("    ", level));
        };
        match self {
            JsonNode::Array(items) if !items.is_empty() => {
                out.push('[');
                for (at, item) in items.iter().enumerate() {
                    out.push_str(if at > 0 { "," } else { "" });
                    line(level + 1, out);
                    item.write_lines(level + 1, out);
                }
                line(level, out);
                out.push(']');
            }
            JsonNode::Object(members) if !members.is_empty() => {
                out.push('{');
                for (at, (key, value)) in members.iter().enumerate() {
                    out.push_str(if at > 0 { "," } else { "" });
                    line(level + 1, out);
                    write_key(key, out);
                    value.write_lines(level + 1, out);
                }
                line(level, out);
                out.push('}');
            }
            other => other.write(out),
        }
    }

    /// Whether both values are equal: objects regardless of the order of their keys, numbers by their value.
    pub(crate) fn equals(&self, other: &JsonNode<'_>) -> bool {
        match (self, other) {
            (JsonNode::Scalar(a), JsonNode::Scalar(b)) => scalars_are_equal(a, b),
            (JsonNode::Array(a), JsonNode::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.equals(b)),
            (JsonNode::Object(a), JsonNode::Object(b)) => {
                let has = |of: &[(&str, JsonNode<'_>)], key: &str, value: &JsonNode<'_>| {
                    find(of, key).is_some_and(|found| found.equals(value))
                };
                a.iter().all(|(key, value)| has(b, key, value)) && b.iter().all(|(key, value)| has(a, key, value))
            }
            _ => false,
        }
    }

    /// Whether this value contains the other one, as PostgreSQL's `@>`: an object has all its members, an array has all
    /// its items in any order, and an array contains a scalar that is one of its items.
    pub(crate) fn contains(&self, other: &JsonNode<'_>) -> bool {
        match (self, other) {
            (JsonNode::Array(items), JsonNode::Scalar(_)) => items.iter().any(|item| item.equals(other)),
            _ => self.has_parts_of(other),
        }
    }

    fn has_parts_of(&self, other: &JsonNode<'_>) -> bool {
        match (self, other) {
            (JsonNode::Object(own), JsonNode::Object(parts)) => {
                parts.iter().all(|(key, part)| find(own, key).is_some_and(|found| found.has_parts_of(part)))
            }
            (JsonNode::Array(own), JsonNode::Array(parts)) => {
                parts.iter().all(|part| own.iter().any(|item| item.has_parts_of(part)))
            }
            (JsonNode::Scalar(_), JsonNode::Scalar(_)) => self.equals(other),
            _ => false,
        }
    }
}

/// Finds a member by its key, which may have escapes.
fn find<'n, 'a>(members: &'n [(&'a str, JsonNode<'a>)], key: &str) -> Option<&'n JsonNode<'a>> {
    members.iter().find(|(own, _)| keys_are_equal(own, key)).map(|(_, value)| value)
}

/// Whether two keys or insides of strings mean the same text.
pub(crate) fn keys_are_equal(a: &str, b: &str) -> bool {
    let (mut left, mut right) = (String::new(), String::new());
    a == b || plain_string(a, &mut left) == plain_string(b, &mut right)
}

fn scalars_are_equal(a: &str, b: &str) -> bool {
    if a == b {
        return true;
    }
    match (JsonKind::of(a), JsonKind::of(b)) {
        (JsonKind::String, JsonKind::String) => keys_are_equal(&a[1..a.len() - 1], &b[1..b.len() - 1]),
        (JsonKind::Number, JsonKind::Number) => numbers_are_equal(a, b),
        _ => false,
    }
}

/// Compares the digits and the exponent, because a number may have more digits than any type.
fn numbers_are_equal(a: &str, b: &str) -> bool {
    match (number_parts(a), number_parts(b)) {
        (Some(a), Some(b)) => a == b,
        _ => false,
    }
}

/// Returns the sign, the digits without zeros at both ends, and the power of ten of the last digit.
fn number_parts(number: &str) -> Option<(bool, String, i64)> {
    let (is_negative, rest) = number.strip_prefix('-').map_or((false, number), |rest| (true, rest));
    let (mantissa, exponent) = rest.split_once(['e', 'E']).unwrap_or((rest, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{whole}{fraction}");
    let kept = digits.trim_end_matches('0');
    let dropped = digits.len() - kept.len();
    let kept = kept.trim_start_matches('0');
    if kept.is_empty() {
        return Some((false, String::new(), 0));
    }
    let exponent = exponent.trim_start_matches('+').parse::<i64>().ok()?;
    let last = exponent.checked_sub(i64::try_from(fraction.len()).ok()?)?.checked_add(i64::try_from(dropped).ok()?)?;
    Some((is_negative, kept.to_owned(), last))
}

/// Appends a key with its escapes, and a colon.
fn write_key(key: &str, out: &mut String) {
    out.push('"');
    out.push_str(key);
    out.push_str("\": ");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contains(own: &str, other: &str) -> bool {
        JsonNode::of(own).contains(&JsonNode::of(other))
    }

    #[test]
    fn documents_are_equal_by_value() {
        let equal = |a: &str, b: &str| JsonNode::of(a).equals(&JsonNode::of(b));
        assert!(equal(r#"{"a": 1, "b": [1.50, "x"]}"#, r#"{"b":[15e-1,"\u0078"],"a":1.0}"#));
        assert!(
            equal("-0", "0.0") && equal("100", "1E+2") && equal("1e99999999999999999999", "1e99999999999999999999")
        );
        for (a, b) in [("1", "-1"), ("1", "\"1\""), ("[1]", "[1,1]"), ("{}", "[]"), ("{}", r#"{"a":1}"#), ("12", "120")]
        {
            assert!(!equal(a, b), "{a} {b}");
        }
    }

    #[test]
    fn containment_is_that_of_postgresql() {
        assert!(contains(r#"{"a": {"b": 1, "c": 2}}"#, r#"{"a": {"b": 1}}"#));
        assert!(contains("[1, [2, 3]]", "[[3]]") && contains("[1, 2]", "1") && contains("[1, 2]", "[2, 2, 1]"));
        assert!(contains("1", "1.0") && contains("{}", "{}") && contains("[]", "[]"));
        assert!(!contains("[1, [2]]", "2") && !contains("1", "[1]") && !contains("[[1]]", "[1]"));
    }

    #[test]
    fn lines_are_indented() {
        let mut lines = String::new();
        JsonNode::of(r#"{"a":[1,{}],"b":[]}"#).write_lines(0, &mut lines);
        assert_eq!(lines, "{\n    \"a\": [\n        1,\n        {}\n    ],\n    \"b\": []\n}");
    }
}
