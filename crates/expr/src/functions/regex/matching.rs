//! Functions that tell whether patterns match, and which text their groups match.

use std::cell::RefCell;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, BooleanArray, ListBuilder, StringViewBuilder, new_null_array};
use arrow::buffer::BooleanBuffer;
use arrow::datatypes::{DataType, Field};
use rowmill_base::{Error, ErrorKind, Result};
use rowmill_plan::Operand;

use super::pattern::{PatternCache, Patterns, library_flags, prepared};
use crate::functions::rowwise::{TextArgument, too_long, valid_rows};
use crate::functions::signatures::TEXT;
use crate::regexp::Matcher;

thread_local! {
    static MATCHERS: PatternCache<Matcher> = const { RefCell::new(Vec::new()) };
}

pub(super) fn regexp_like(arguments: &[Operand], kind: &DataType, rows: usize) -> Result<ArrayRef> {
    let Some(valid) = valid_rows(arguments) else { return Ok(new_null_array(kind, rows)) };
    let (texts, patterns) = (TextArgument::new(&arguments[0]), TextArgument::new(&arguments[1]));
    let flags = arguments.get(2).map(TextArgument::new);
    if !arguments[0].is_constant
        && let Some(pattern) = patterns.constant()
        && let Some(flags) = flags.map_or(Some(""), |flags| flags.constant())
    {
        let matcher = prepared(&MATCHERS, &[pattern, flags], || Matcher::new(pattern, Some(&library_flags(flags))))?;
        return Ok(Arc::new(matcher.is_match(arguments[0].values.as_string_view())));
    }
    let patterns = Patterns::new(patterns, flags)?;
    let mut found = vec![false; rows];
    for (row, found) in found.iter_mut().enumerate() {
        if valid.as_ref().is_none_or(|valid| valid.is_valid(row)) {
            *found = patterns.at(row)?.is_match(texts.at(row));
        }
    }
    Ok(Arc::new(BooleanArray::new(BooleanBuffer::from(found), valid)))
}

pub(super) fn regexp_match(arguments: &[Operand], kind: &DataType, rows: usize) -> Result<ArrayRef> {
    let Some(valid) = valid_rows(arguments) else { return Ok(new_null_array(kind, rows)) };
    let (texts, patterns) = (TextArgument::new(&arguments[0]), TextArgument::new(&arguments[1]));
    let flags = arguments.get(2).map(TextArgument::new);
    if let Some(flags) = flags
        && (0..rows).filter_map(|row| flags.get(row)).any(|flags| flags.contains('g'))
    {
        let error =
            Error::new(ErrorKind::InvalidParameter, "regexp_match returns the first match, the flag g asks for all");
        return Err(error.hint("leave out the flag g"));
    }
    let patterns = Patterns::new(patterns, flags)?;
    let mut made =
        ListBuilder::with_capacity(StringViewBuilder::new(), rows).with_field(Field::new("item", TEXT, true));
    for row in 0..rows {
        if valid.as_ref().is_some_and(|valid| valid.is_null(row)) {
            made.append_null();
            continue;
        }
        let regex = patterns.at(row)?;
        let Some(captures) = regex.captures(texts.at(row)) else {
            made.append_null();
            continue;
        };
        // The match itself is returned only if the pattern has no group.
        for group in captures.iter().skip(usize::from(captures.len() > 1)) {
            match group {
                Some(group) => made.values().try_append_value(group.as_str()).map_err(too_long)?,
                None => made.values().append_null(),
            }
        }
        made.append(true);
    }
    Ok(Arc::new(made.finish()))
}
