//! Functions that count matches and return their positions.

use arrow::array::{ArrayRef, StringViewBuilder, new_null_array};
use arrow::datatypes::{DataType, Int64Type};
use regex::Regex;
use rowmill_base::{Error, ErrorKind, Result};
use rowmill_plan::Operand;
use std::sync::Arc;

use super::pattern::Patterns;
use crate::functions::rowwise::{NumberArgument, TextArgument, bigints, numbers, too_long, valid_rows};

pub(super) fn regexp_count(arguments: &[Operand], kind: &DataType, rows: usize) -> Result<ArrayRef> {
    if valid_rows(arguments).is_none() {
        return Ok(new_null_array(kind, rows));
    }
    let texts = TextArgument::new(&arguments[0]);
    let starts = arguments.get(2).map(bigints);
    let patterns = Patterns::new(TextArgument::new(&arguments[1]), arguments.get(3).map(TextArgument::new))?;
    numbers::<Int64Type>(arguments, kind, rows, |row| {
        let Some(text) = from("regexp_count", texts.at(row), starts, row)? else { return Ok(0) };
        Ok(patterns.at(row)?.find_iter(text).count() as i64)
    })
}

pub(super) fn regexp_instr(arguments: &[Operand], kind: &DataType, rows: usize) -> Result<ArrayRef> {
    if valid_rows(arguments).is_none() {
        return Ok(new_null_array(kind, rows));
    }
    let search = NthMatch::new("regexp_instr", arguments)?;
    numbers::<Int64Type>(arguments, kind, rows, |row| {
        let Some((start, _)) = search.of(row)? else { return Ok(0) };
        Ok(search.texts.at(row)[..start].chars().count() as i64 + 1)
    })
}

pub(super) fn regexp_substr(arguments: &[Operand], kind: &DataType, rows: usize) -> Result<ArrayRef> {
    let Some(valid) = valid_rows(arguments) else { return Ok(new_null_array(kind, rows)) };
    let search = NthMatch::new("regexp_substr", arguments)?;
    let mut made = StringViewBuilder::with_capacity(rows);
    for row in 0..rows {
        let is_valid = valid.as_ref().is_none_or(|valid| valid.is_valid(row));
        match if is_valid { search.of(row)? } else { None } {
            Some((start, end)) => made.try_append_value(&search.texts.at(row)[start..end]).map_err(too_long)?,
            None => made.append_null(),
        }
    }
    Ok(Arc::new(made.finish()))
}

/// The arguments that `regexp_instr` and `regexp_substr` share: text, pattern, start, number of the match, flags, and
/// group.
struct NthMatch<'a> {
    function: &'static str,
    texts: TextArgument<'a>,
    patterns: Patterns<'a>,
    starts: Option<NumberArgument<'a, i64>>,
    counts: Option<NumberArgument<'a, i64>>,
    groups: Option<NumberArgument<'a, i64>>,
}

impl<'a> NthMatch<'a> {
    fn new(function: &'static str, arguments: &'a [Operand]) -> Result<NthMatch<'a>> {
        let flags = arguments.get(4).map(TextArgument::new);
        Ok(NthMatch {
            function,
            texts: TextArgument::new(&arguments[0]),
            patterns: Patterns::new(TextArgument::new(&arguments[1]), flags)?,
            starts: arguments.get(2).map(bigints),
            counts: arguments.get(3).map(bigints),
            groups: arguments.get(5).map(bigints),
        })
    }

    /// Returns the byte range of the group in a row's match.
    fn of(&self, row: usize) -> Result<Option<(usize, usize)>> {
        let whole = self.texts.at(row);
        let text = from(self.function, whole, self.starts, row)?;
        let count = positive(self.function, "number of the match", self.counts, row)?;
        let group = self.groups.map_or(0, |groups| groups.at(row));
        let Ok(group) = usize::try_from(group) else {
            let message = format!("{}: the number of a group must not be negative: {group}", self.function);
            return Err(Error::new(ErrorKind::InvalidParameter, message));
        };
        let Some(text) = text else { return Ok(None) };
        // The match was found in a suffix, so its offsets must be shifted.
        let before = whole.len() - text.len();
        let found = nth(&*self.patterns.at(row)?, text, count - 1, group);
        Ok(found.map(|(start, end)| (before + start, before + end)))
    }
}

/// Returns the byte range of a group in the match that follows `skipped` other matches.
fn nth(regex: &Regex, text: &str, skipped: usize, group: usize) -> Option<(usize, usize)> {
    if group == 0 {
        return regex.find_iter(text).nth(skipped).map(|found| (found.start(), found.end()));
    }
    let captures = regex.captures_iter(text).nth(skipped)?;
    captures.get(group).map(|found| (found.start(), found.end()))
}

/// Returns the text from a row's position on, if the text has that position. It is searched as a text of its own, so
/// `^` matches at its beginning.
fn from<'t>(
    function: &str,
    text: &'t str,
    starts: Option<NumberArgument<'_, i64>>,
    row: usize,
) -> Result<Option<&'t str>> {
    let start = positive(function, "position to begin at", starts, row)?;
    // The end of the text is a valid position too.
    let mut places = text.char_indices().map(|(at, _)| at).chain([text.len()]);
    Ok(places.nth(start - 1).map(|at| &text[at..]))
}

/// Returns a row's number, which must be positive. It is 1 if the argument is not given.
fn positive(function: &str, what: &str, numbers: Option<NumberArgument<'_, i64>>, row: usize) -> Result<usize> {
    let number = numbers.map_or(1, |numbers| numbers.at(row));
    match usize::try_from(number) {
        Ok(number) if number > 0 => Ok(number),
        _ => {
            let message = format!("{function}: the {what} must be positive: {number}");
            Err(Error::new(ErrorKind::InvalidParameter, message))
        }
    }
}
