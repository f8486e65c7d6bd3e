//! Functions that take texts apart by patterns: groups of matches, and the texts between matches.

use std::sync::Arc;

use arrow::array::{ArrayRef, ListBuilder, StringViewBuilder, new_null_array};
use arrow::datatypes::{DataType, Field};
use regex::Regex;
use rowmill_base::{Error, ErrorKind, Result};
use rowmill_plan::function::{ArgumentKind, CallKinds};
use rowmill_plan::{FunctionSpec, Operand};

use super::pattern::{Patterns, regex};
use crate::functions::list::maker::list_of;
use crate::functions::rowwise::{TextArgument, bigints, fallible_booleans, pieces, texts, too_long, valid_rows};
use crate::functions::signatures::{BIGINT, BOOLEAN, TEXT, exactly, optional, ordinary};

/// The functions of this file.
pub(in crate::functions) static REGEX_PARTS: &[FunctionSpec] = &[
    FunctionSpec {
        name: "regexp_extract",
        can_fail: true,
        signature: |arguments| optional(arguments, 2, &[TEXT, TEXT, BIGINT, TEXT], TEXT),
        kernel: extract,
        doc: "The text of the first match, or of a group of it; empty without a match. The last argument gives flags.",
        example: ("regexp_extract('2013-07-31', '(\\d+)-(\\d+)', 2)", "07"),
        ..ordinary("regex")
    },
    FunctionSpec {
        name: "regexp_extract_all",
        can_fail: true,
        signature: |arguments| optional(arguments, 2, &[TEXT, TEXT, BIGINT, TEXT], list_of(TEXT)),
        kernel: extract_all,
        doc: "The texts of all matches, or of a group of them. The last argument gives flags.",
        example: ("regexp_extract_all('a1 b22', '([a-z])(\\d+)', 2)", "[\"1\", \"22\"]"),
        ..ordinary("regex")
    },
    FunctionSpec {
        name: "regexp_full_match",
        can_fail: true,
        signature: |arguments| optional(arguments, 2, &[TEXT, TEXT, TEXT], BOOLEAN),
        kernel: full_match,
        doc: "Whether the pattern matches the whole text. The third argument gives flags.",
        example: ("regexp_full_match('rowmill', 'row.*')", "true"),
        ..ordinary("regex")
    },
    FunctionSpec {
        name: "regexp_split_to_array",
        aliases: &["string_split_regex", "str_split_regex"],
        can_fail: true,
        signature: |arguments| optional(arguments, 2, &[TEXT, TEXT, TEXT], list_of(TEXT)),
        kernel: split,
        doc: "The parts of a text between the matches of a pattern. The third argument gives flags.",
        example: ("regexp_split_to_array('a1b22c', '\\d+')", "[\"a\", \"b\", \"c\"]"),
        ..ordinary("regex")
    },
    FunctionSpec {
        name: "regexp_match_list",
        can_fail: true,
        signature: match_list_kinds,
        kernel: match_list,
        doc: "The groups of the first match as a list of one list, or with the flag g those of all matches. \
              regexp_matches gives a row for each of them.",
        example: ("regexp_match_list('a1 b2', '([a-z])(\\d)', 'g')", "[[\"a\", \"1\"], [\"b\", \"2\"]]"),
        ..ordinary("regex")
    },
    FunctionSpec {
        name: "regexp_escape",
        signature: |arguments| exactly(arguments, &[TEXT], TEXT),
        kernel: escape,
        doc: "A pattern that matches exactly the text.",
        example: ("regexp_escape('1+1')", "1\\+1"),
        ..ordinary("regex")
    },
];

/// The group that a row asks for.
fn group_at(groups: Option<crate::functions::rowwise::NumberArgument<'_, i64>>, row: usize) -> Result<usize> {
    let group = groups.map_or(0, |groups| groups.at(row));
    usize::try_from(group).map_err(|_| {
        let message = format!("the number of a group must not be negative: {group}");
        Error::new(ErrorKind::InvalidParameter, message)
    })
}

fn extract(arguments: &[Operand], kind: &DataType, rows: usize) -> Result<ArrayRef> {
    if valid_rows(arguments).is_none() {
        return Ok(new_null_array(kind, rows));
    }
    let values = TextArgument::new(&arguments[0]);
    let groups = arguments.get(2).map(bigints);
    let patterns = Patterns::new(TextArgument::new(&arguments[1]), arguments.get(3).map(TextArgument::new))?;
    pieces(arguments, rows, |row| {
        let (text, pattern, group) = (values.at(row), patterns.at(row)?, group_at(groups, row)?);
        if group == 0 {
            return Ok(pattern.find(text).map_or("", |found| found.as_str()));
        }
        let found = pattern.captures(text).and_then(|captures| captures.get(group));
        Ok(found.map_or("", |found| found.as_str()))
    })
}

/// Makes a list of texts for each row without NULLs.
fn lists(
    arguments: &[Operand],
    kind: &DataType,
    rows: usize,
    mut add: impl FnMut(usize, &mut dyn FnMut(&str) -> Result<()>) -> Result<()>,
) -> Result<ArrayRef> {
    let Some(valid) = valid_rows(arguments) else { return Ok(new_null_array(kind, rows)) };
    let mut made =
        ListBuilder::with_capacity(StringViewBuilder::new(), rows).with_field(Field::new("item", TEXT, true));
    for row in 0..rows {
        if valid.as_ref().is_some_and(|valid| valid.is_null(row)) {
            made.append_null();
            continue;
        }
        add(row, &mut |text| made.values().try_append_value(text).map_err(too_long))?;
        made.append(true);
    }
    Ok(Arc::new(made.finish()))
}

fn extract_all(arguments: &[Operand], kind: &DataType, rows: usize) -> Result<ArrayRef> {
    if valid_rows(arguments).is_none() {
        return Ok(new_null_array(kind, rows));
    }
    let values = TextArgument::new(&arguments[0]);
    let groups = arguments.get(2).map(bigints);
    let patterns = Patterns::new(TextArgument::new(&arguments[1]), arguments.get(3).map(TextArgument::new))?;
    lists(arguments, kind, rows, |row, add| {
        let (text, pattern, group) = (values.at(row), patterns.at(row)?, group_at(groups, row)?);
        if group == 0 {
            return pattern.find_iter(text).try_for_each(|found| add(found.as_str()));
        }
        let found = pattern.captures_iter(text);
        found.into_iter().try_for_each(|captures| add(captures.get(group).map_or("", |found| found.as_str())))
    })
}

fn full_match(arguments: &[Operand], kind: &DataType, rows: usize) -> Result<ArrayRef> {
    if valid_rows(arguments).is_none() {
        return Ok(new_null_array(kind, rows));
    }
    let values = TextArgument::new(&arguments[0]);
    let patterns = Patterns::new(TextArgument::new(&arguments[1]), arguments.get(2).map(TextArgument::new))?
        .enclosed("^(?:", ")$")?;
    fallible_booleans(arguments, kind, rows, |row| {
        let (text, pattern) = (values.at(row), patterns.at(row)?);
        // With the flag m the anchors match at lines, so the match must be compared with the text.
        Ok(pattern.find(text).is_some_and(|found| found.len() == text.len()))
    })
}

fn split(arguments: &[Operand], kind: &DataType, rows: usize) -> Result<ArrayRef> {
    if valid_rows(arguments).is_none() {
        return Ok(new_null_array(kind, rows));
    }
    let values = TextArgument::new(&arguments[0]);
    let patterns = Patterns::new(TextArgument::new(&arguments[1]), arguments.get(2).map(TextArgument::new))?;
    lists(arguments, kind, rows, |row, add| split_at(&*patterns.at(row)?, values.at(row), add))
}

/// Adds the texts between matches. A match without characters divides between two characters, never at an end of the
/// text or right after another match.
fn split_at(regex: &Regex, text: &str, add: &mut dyn FnMut(&str) -> Result<()>) -> Result<()> {
    let mut start = 0;
    for found in regex.find_iter(text) {
        let is_empty_at_edge = found.is_empty() && (found.start() == start || found.start() == text.len());
        if is_empty_at_edge {
            continue;
        }
        add(&text[start..found.start()])?;
        start = found.end();
    }
    add(&text[start..])
}

fn match_list_kinds(arguments: &[ArgumentKind<'_>]) -> Option<CallKinds> {
    optional(arguments, 2, &[TEXT, TEXT, TEXT], list_of(list_of(TEXT)))
}

fn match_list(arguments: &[Operand], kind: &DataType, rows: usize) -> Result<ArrayRef> {
    let Some(valid) = valid_rows(arguments) else { return Ok(new_null_array(kind, rows)) };
    let values = TextArgument::new(&arguments[0]);
    let flags = arguments.get(2).map(TextArgument::new);
    let patterns = TextArgument::new(&arguments[1]);
    let inner = ListBuilder::new(StringViewBuilder::new()).with_field(Field::new("item", TEXT, true));
    let mut made = ListBuilder::with_capacity(inner, rows).with_field(Field::new("item", list_of(TEXT), true));
    for row in 0..rows {
        if valid.as_ref().is_some_and(|valid| valid.is_null(row)) {
            made.append_null();
            continue;
        }
        let flags = flags.map_or("", |flags| flags.at(row));
        let is_global = flags.contains('g');
        // The library has no flag for all matches.
        let regex = regex(patterns.at(row), &flags.replace('g', ""))?;
        for captures in regex.captures_iter(values.at(row)).take(if is_global { usize::MAX } else { 1 }) {
            // The match itself is returned only if the pattern has no group.
            for group in captures.iter().skip(usize::from(captures.len() > 1)) {
                match group {
                    Some(group) => made.values().values().try_append_value(group.as_str()).map_err(too_long)?,
                    None => made.values().values().append_null(),
                }
            }
            made.values().append(true);
        }
        made.append(true);
    }
    Ok(Arc::new(made.finish()))
}

fn escape(arguments: &[Operand], _kind: &DataType, rows: usize) -> Result<ArrayRef> {
    let values = TextArgument::new(&arguments[0]);
    texts("regexp_escape", arguments, rows, |row, made| {
        values.at(row).chars().try_for_each(|char| {
            if char.is_ascii() && !char.is_ascii_alphanumeric() && char != '_' {
                made.push("\\")?;
            }
            made.push_char(char)
        })
    })
}
