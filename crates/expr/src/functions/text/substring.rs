//! Functions that take parts of texts by position.

use arrow::array::ArrayRef;
use arrow::datatypes::DataType;
use rowmill_base::{Error, ErrorKind, Result};
use rowmill_plan::Operand;

use crate::functions::rowwise::{TextArgument, bigints, pieces, texts};

pub(super) fn substring(arguments: &[Operand], _kind: &DataType, rows: usize) -> Result<ArrayRef> {
    let (texts, starts) = (TextArgument::new(&arguments[0]), bigints(&arguments[1]));
    let lengths = arguments.get(2).map(bigints);
    pieces(arguments, rows, |row| part_of_text(texts.at(row), starts.at(row), lengths.map(|lengths| lengths.at(row))))
}

/// Returns the part of a text that begins at the character `start`, counted from 1, with at most `length` characters.
/// A start before the text has no characters there, but they count towards the length. Returns an error for a negative
/// length.
pub fn part_of_text(text: &str, start: i64, length: Option<i64>) -> Result<&str> {
    match length {
        None => Ok(between(text, start, i64::MAX)),
        Some(length) if length < 0 => Err(negative("substring", length)),
        Some(length) => Ok(between(text, start, start.saturating_add(length))),
    }
}

pub(super) fn left(arguments: &[Operand], _kind: &DataType, rows: usize) -> Result<ArrayRef> {
    let (texts, counts) = (TextArgument::new(&arguments[0]), bigints(&arguments[1]));
    pieces(arguments, rows, |row| {
        let (text, count) = (texts.at(row), counts.at(row));
        Ok(match usize::try_from(count) {
            Ok(count) => &text[..byte_of_char(text, count)],
            Err(_) => &text[..byte_of_char_from_end(text, size(count))],
        })
    })
}

pub(super) fn right(arguments: &[Operand], _kind: &DataType, rows: usize) -> Result<ArrayRef> {
    let (texts, counts) = (TextArgument::new(&arguments[0]), bigints(&arguments[1]));
    pieces(arguments, rows, |row| {
        let (text, count) = (texts.at(row), counts.at(row));
        Ok(match usize::try_from(count) {
            Ok(count) => &text[byte_of_char_from_end(text, count)..],
            Err(_) => &text[byte_of_char(text, size(count))..],
        })
    })
}

/// Computes `overlay(text PLACING new FROM start FOR length)`: the text before `start`, then `new`, then the text that
/// follows `length` characters from `start` on.
pub(super) fn overlay(arguments: &[Operand], _kind: &DataType, rows: usize) -> Result<ArrayRef> {
    let (sources, news) = (TextArgument::new(&arguments[0]), TextArgument::new(&arguments[1]));
    let (starts, lengths) = (bigints(&arguments[2]), arguments.get(3).map(bigints));
    texts("overlay", arguments, rows, |row, made| {
        let (source, new, start) = (sources.at(row), news.at(row), starts.at(row));
        if start < 1 {
            let message = format!("overlay begins at position {start}, but the first position is 1");
            return Err(Error::new(ErrorKind::InvalidParameter, message));
        }
        let length = lengths.map_or_else(|| new.chars().count() as i64, |lengths| lengths.at(row));
        made.push(between(source, 1, start))?;
        made.push(new)?;
        made.push(between(source, start.saturating_add(length), i64::MAX))
    })
}

/// Returns the characters from position `start` to before `end`. Positions before 1 have none.
fn between(text: &str, start: i64, end: i64) -> &str {
    // Positions before 1 count towards the end, but they have no character.
    let first = start.max(1);
    let Ok(count) = usize::try_from(end.saturating_sub(first)) else { return "" };
    let text = &text[byte_of_char(text, first as usize - 1)..];
    &text[..byte_of_char(text, count)]
}

/// Returns the byte offset of the character with the number `count`, counted from 0, or the length of a shorter text.
#[inline]
pub(super) fn byte_of_char(text: &str, count: usize) -> usize {
    // While all bytes are ASCII, each byte is a character.
    if text.as_bytes()[..count.min(text.len())].is_ascii() {
        return count.min(text.len());
    }
    text.char_indices().nth(count).map_or(text.len(), |(at, _)| at)
}

/// Returns the byte offset at which the last `count` characters begin.
#[inline]
fn byte_of_char_from_end(text: &str, count: usize) -> usize {
    let at = text.len().saturating_sub(count);
    if text.as_bytes()[at..].is_ascii() {
        return at;
    }
    match count.checked_sub(1) {
        Some(before) => text.char_indices().rev().nth(before).map_or(0, |(at, _)| at),
        None => text.len(),
    }
}

/// Returns the absolute value of a negative number.
fn size(count: i64) -> usize {
    usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX)
}

fn negative(function: &str, length: i64) -> Error {
    Error::new(ErrorKind::InvalidParameter, format!("the length of a {function} must not be negative: {length}"))
}
