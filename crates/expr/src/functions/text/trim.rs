//! Functions that remove characters from the ends of texts.

use arrow::array::ArrayRef;
use arrow::datatypes::DataType;
use rowmill_base::Result;
use rowmill_plan::Operand;

use crate::functions::rowwise::{TextArgument, pieces};

pub(super) fn btrim(arguments: &[Operand], _kind: &DataType, rows: usize) -> Result<ArrayRef> {
    trimmed(arguments, rows, true, true)
}

pub(super) fn ltrim(arguments: &[Operand], _kind: &DataType, rows: usize) -> Result<ArrayRef> {
    trimmed(arguments, rows, true, false)
}

pub(super) fn rtrim(arguments: &[Operand], _kind: &DataType, rows: usize) -> Result<ArrayRef> {
    trimmed(arguments, rows, false, true)
}

fn trimmed(arguments: &[Operand], rows: usize, at_start: bool, at_end: bool) -> Result<ArrayRef> {
    let texts = TextArgument::new(&arguments[0]);
    let sets = arguments.get(1).map(TextArgument::new);
    pieces(arguments, rows, |row| {
        let set = sets.map_or(" ", |sets| sets.at(row));
        let mut text = texts.at(row);
        if let &[byte] = set.as_bytes() {
            // A single ASCII character, most often the space, needs no decoding.
            let bytes = text.as_bytes();
            let start = if at_start { bytes.iter().take_while(|&&found| found == byte).count() } else { 0 };
            text = &text[start..];
            let bytes = text.as_bytes();
            let cut = if at_end { bytes.iter().rev().take_while(|&&found| found == byte).count() } else { 0 };
            return Ok(&text[..text.len() - cut]);
        }
        if at_start {
            text = text.trim_start_matches(|char| set.contains(char));
        }
        if at_end {
            text = text.trim_end_matches(|char| set.contains(char));
        }
        Ok(text)
    })
}
