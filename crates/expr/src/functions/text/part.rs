//! Functions that take parts of texts between separators.

use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, Int32Type};
use memchr::memmem::{Finder, FinderRev};
use rowmill_base::{Error, ErrorKind, Result};
use rowmill_plan::Operand;

use crate::functions::rowwise::{TextArgument, bigints, numbers, pieces};

pub(super) fn split_part(arguments: &[Operand], _kind: &DataType, rows: usize) -> Result<ArrayRef> {
    let (texts, separators) = (TextArgument::new(&arguments[0]), TextArgument::new(&arguments[1]));
    let wanted = bigints(&arguments[2]);
    let constant = separators.constant().map(Separator::new);
    pieces(arguments, rows, |row| {
        let (text, wanted) = (texts.at(row), wanted.at(row));
        match &constant {
            Some(separator) => separator.part(text, wanted),
            None => Separator::new(separators.at(row)).part(text, wanted),
        }
    })
}

pub(super) fn substr_index(arguments: &[Operand], _kind: &DataType, rows: usize) -> Result<ArrayRef> {
    let (texts, separators) = (TextArgument::new(&arguments[0]), TextArgument::new(&arguments[1]));
    let counts = bigints(&arguments[2]);
    let constant = separators.constant().map(Separator::new);
    pieces(arguments, rows, |row| {
        let (text, count) = (texts.at(row), counts.at(row));
        Ok(match &constant {
            Some(separator) => separator.before(text, count),
            None => Separator::new(separators.at(row)).before(text, count),
        })
    })
}

pub(super) fn find_in_set(arguments: &[Operand], kind: &DataType, rows: usize) -> Result<ArrayRef> {
    let (texts, sets) = (TextArgument::new(&arguments[0]), TextArgument::new(&arguments[1]));
    numbers::<Int32Type>(arguments, kind, rows, |row| {
        let (text, set) = (texts.at(row), sets.at(row));
        let position = if set.is_empty() { None } else { set.split(',').position(|item| item == text) };
        Ok(position.map_or(0, |position| position as i32 + 1))
    })
}

/// A separator, prepared for searches from both ends.
struct Separator<'a> {
    forward: Finder<'a>,
    backward: FinderRev<'a>,
    bytes: usize,
}

impl<'a> Separator<'a> {
    fn new(separator: &'a str) -> Separator<'a> {
        Separator { forward: Finder::new(separator), backward: FinderRev::new(separator), bytes: separator.len() }
    }

    /// Returns the begin of the n-th separator, counted from 1.
    fn nth(&self, text: &str, number: u64) -> Option<usize> {
        let before = usize::try_from(number.checked_sub(1)?).ok()?;
        self.forward.find_iter(text.as_bytes()).nth(before)
    }

    /// Returns the begin of the n-th separator from the end, counted from 1.
    fn nth_from_end(&self, text: &str, number: u64) -> Option<usize> {
        let before = usize::try_from(number.checked_sub(1)?).ok()?;
        self.backward.rfind_iter(text.as_bytes()).nth(before)
    }

    /// Returns the part of `text` with the number `wanted`, counted from 1, or from -1 at the end.
    fn part<'t>(&self, text: &'t str, wanted: i64) -> Result<&'t str> {
        let number = wanted.unsigned_abs();
        if number == 0 {
            let error = Error::new(ErrorKind::InvalidParameter, "split_part has no part with the number 0");
            return Err(error.hint("the first part has the number 1, the last one -1"));
        }
        // An empty separator occurs nowhere: the whole text is the only part.
        if self.bytes == 0 {
            return Ok(if number == 1 { text } else { "" });
        }
        if wanted > 0 {
            let start = if number == 1 { Some(0) } else { self.nth(text, number - 1).map(|at| at + self.bytes) };
            let Some(start) = start else { return Ok("") };
            let rest = &text[start..];
            return Ok(self.nth(rest, 1).map_or(rest, |end| &rest[..end]));
        }
        let end = if number == 1 { Some(text.len()) } else { self.nth_from_end(text, number - 1) };
        let Some(end) = end else { return Ok("") };
        let front = &text[..end];
        Ok(self.nth_from_end(front, 1).map_or(front, |at| &front[at + self.bytes..]))
    }

    /// Returns the text before separator `count`. If `count` is negative, returns the text after that separator,
    /// counted from the end.
    fn before<'t>(&self, text: &'t str, count: i64) -> &'t str {
        if count == 0 || self.bytes == 0 {
            return "";
        }
        match count > 0 {
            true => self.nth(text, count.unsigned_abs()).map_or(text, |at| &text[..at]),
            false => self.nth_from_end(text, count.unsigned_abs()).map_or(text, |at| &text[at + self.bytes..]),
        }
    }
}
