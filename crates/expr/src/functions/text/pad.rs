//! Functions that repeat texts and fill them up to a length.

use arrow::array::ArrayRef;
use arrow::datatypes::DataType;
use rowmill_base::Result;
use rowmill_plan::Operand;

use super::substring::byte_of_char;
use crate::functions::rowwise::{RowText, TextArgument, bigints, texts};

pub(super) fn repeat(arguments: &[Operand], _kind: &DataType, rows: usize) -> Result<ArrayRef> {
    let (sources, counts) = (TextArgument::new(&arguments[0]), bigints(&arguments[1]));
    texts("repeat", arguments, rows, |row, made| fill(made, sources.at(row), counts.at(row).max(0) as u64, 0))
}

pub(super) fn lpad(arguments: &[Operand], _kind: &DataType, rows: usize) -> Result<ArrayRef> {
    padded("lpad", arguments, rows, |source, padding, made| {
        fill(made, padding.text, padding.times, padding.rest_bytes)?;
        made.push(source)
    })
}

pub(super) fn rpad(arguments: &[Operand], _kind: &DataType, rows: usize) -> Result<ArrayRef> {
    padded("rpad", arguments, rows, |source, padding, made| {
        made.push(source)?;
        fill(made, padding.text, padding.times, padding.rest_bytes)
    })
}

/// The padding of a text: another text a number of times, followed by its first bytes.
struct Padding<'a> {
    text: &'a str,
    times: u64,
    rest_bytes: usize,
}

fn padded(
    function: &'static str,
    arguments: &[Operand],
    rows: usize,
    write: impl Fn(&str, Padding<'_>, &mut RowText) -> Result<()>,
) -> Result<ArrayRef> {
    let (sources, lengths) = (TextArgument::new(&arguments[0]), bigints(&arguments[1]));
    let fills = arguments.get(2).map(TextArgument::new);
    texts(function, arguments, rows, |row, made| {
        let (source, length) = (sources.at(row), lengths.at(row).max(0) as u64);
        let text = fills.map_or(" ", |fills| fills.at(row));
        let missing = length.saturating_sub(source.chars().count() as u64);
        // Nothing can be added, so the text is at most cut.
        if missing == 0 || text.is_empty() {
            return made.push(&source[..byte_of_char(source, usize::try_from(length).unwrap_or(usize::MAX))]);
        }
        let chars = text.chars().count() as u64;
        let rest_bytes = byte_of_char(text, (missing % chars) as usize);
        write(source, Padding { text, times: missing / chars, rest_bytes }, made)
    })
}

/// Writes `text` `times` times, followed by its first `rest_bytes` bytes.
fn fill(made: &mut RowText, text: &str, times: u64, rest_bytes: usize) -> Result<()> {
    // We check the whole size at once, so that a call that is refused writes nothing first.
    made.reserve(u128::from(times) * text.len() as u128 + rest_bytes as u128)?;
    let made = made.text();
    if !text.is_empty() {
        (0..times).for_each(|_| made.push_str(text));
    }
    made.push_str(&text[..rest_bytes]);
    Ok(())
}
