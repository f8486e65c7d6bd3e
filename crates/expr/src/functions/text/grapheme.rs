//! Functions that count graphemes: what a reader sees as one character, for example a letter with its accents.

use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, Int32Type};
use rowmill_base::Result;
use rowmill_plan::{FunctionSpec, Operand};
use unicode_segmentation::UnicodeSegmentation;

use crate::functions::rowwise::{TextArgument, bigints, numbers, pieces};
use crate::functions::signatures::{BIGINT, INTEGER, TEXT, exactly, optional, ordinary};

/// The functions of this file.
pub(in crate::functions) static GRAPHEMES: &[FunctionSpec] = &[
    FunctionSpec {
        name: "length_grapheme",
        signature: |arguments| exactly(arguments, &[TEXT], INTEGER),
        kernel: length,
        doc: "The number of graphemes of a text. A letter and the accents on it are one grapheme.",
        example: ("length_grapheme('мир')", "3"),
        ..ordinary("text")
    },
    FunctionSpec {
        name: "left_grapheme",
        signature: |arguments| exactly(arguments, &[TEXT, BIGINT], TEXT),
        kernel: left,
        doc: "The first graphemes of a text; with a negative number -n, all but the last n.",
        example: ("left_grapheme('rowmill', 3)", "row"),
        ..ordinary("text")
    },
    FunctionSpec {
        name: "right_grapheme",
        signature: |arguments| exactly(arguments, &[TEXT, BIGINT], TEXT),
        kernel: right,
        doc: "The last graphemes of a text; with a negative number -n, all but the first n.",
        example: ("right_grapheme('rowmill', 4)", "mill"),
        ..ordinary("text")
    },
    FunctionSpec {
        name: "substring_grapheme",
        signature: |arguments| optional(arguments, 2, &[TEXT, BIGINT, BIGINT], TEXT),
        kernel: substring,
        doc: "The part of a text from a position on, of at most a length, in graphemes. A negative position counts \
          from the end.",
        example: ("substring_grapheme('rowmill', 4, 2)", "mi"),
        ..ordinary("text")
    },
];

pub(super) fn length(arguments: &[Operand], kind: &DataType, rows: usize) -> Result<ArrayRef> {
    let texts = TextArgument::new(&arguments[0]);
    numbers::<Int32Type>(arguments, kind, rows, |row| Ok(texts.at(row).graphemes(true).count() as i32))
}

pub(super) fn left(arguments: &[Operand], _kind: &DataType, rows: usize) -> Result<ArrayRef> {
    let (texts, counts) = (TextArgument::new(&arguments[0]), bigints(&arguments[1]));
    pieces(arguments, rows, |row| {
        let (text, count) = (texts.at(row), counts.at(row));
        let length = text.graphemes(true).count();
        Ok(between(text, 0, taken(count, length)))
    })
}

pub(super) fn right(arguments: &[Operand], _kind: &DataType, rows: usize) -> Result<ArrayRef> {
    let (texts, counts) = (TextArgument::new(&arguments[0]), bigints(&arguments[1]));
    pieces(arguments, rows, |row| {
        let (text, count) = (texts.at(row), counts.at(row));
        let length = text.graphemes(true).count();
        Ok(between(text, length - taken(count, length), length))
    })
}

/// The part of a text from a position on. A negative position counts from the end, and the part before a position of 0
/// or less is not there.
pub(super) fn substring(arguments: &[Operand], _kind: &DataType, rows: usize) -> Result<ArrayRef> {
    let (texts, starts) = (TextArgument::new(&arguments[0]), bigints(&arguments[1]));
    let lengths = arguments.get(2).map(bigints);
    pieces(arguments, rows, |row| {
        let text = texts.at(row);
        let count = text.graphemes(true).count() as i64;
        let start = starts.at(row);
        let first = if start < 0 { count.saturating_add(start) } else { start.saturating_sub(1) };
        let last = lengths.map_or(count, |lengths| first.saturating_add(lengths.at(row).max(0)));
        Ok(between(text, first.clamp(0, count) as usize, last.clamp(0, count) as usize))
    })
}

/// The number of graphemes to take of `length`. A negative count -n means all but n.
fn taken(count: i64, length: usize) -> usize {
    let count = if count < 0 { count.saturating_add(length as i64).max(0) } else { count };
    usize::try_from(count).unwrap_or(usize::MAX).min(length)
}

/// The graphemes from the place `from` to before the place `to`.
fn between(text: &str, from: usize, to: usize) -> &str {
    let mut places = text.grapheme_indices(true).map(|(at, _)| at).chain(std::iter::once(text.len()));
    let Some(start) = places.by_ref().nth(from) else { return "" };
    if to <= from {
        return "";
    }
    let end = places.nth(to - from - 1).unwrap_or(text.len());
    &text[start..end]
}
