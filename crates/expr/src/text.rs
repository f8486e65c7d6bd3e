//! The text form of every type.
//!
//! There is only one reader and one writer. INSERT, COPY, CAST, literals, comparisons with literals and the appender
//! must all use them. The table of text forms is in [`writer`]; [`reader`] lists the further forms that we accept.

pub mod calendar;
pub mod column_builder;
pub mod json;
mod map_text;
mod read_column;
pub mod reader;
pub mod writer;

use arrow::array::{Array, ArrayRef, StringViewArray};
use arrow::datatypes::DataType;
use rowmill_base::{Error, ErrorKind, NumberedType, Result, is_json};
use rowmill_plan::Constant;

use crate::kinds::{is_number, type_name};

pub(crate) use read_column::{Unreadable, read_column};
pub use reader::Problem;
pub use writer::TextColumn;

/// Reads `text` as a value of type `kind`. Errors: `InvalidText`, `InvalidDatetime` or `NumericOutOfRange`.
pub fn parse(text: &str, kind: &DataType) -> Result<Constant> {
    let texts = StringViewArray::from(vec![text]);
    read_column(&texts, kind, Unreadable::Fails).map(Constant::new)
}

/// Returns the text of a value of `values`, as CAST to TEXT, results and files show it, or `None` for NULL and for a
/// type that has no text. [`TextColumn`] is faster for more than one value of an array. Loops should use that.
pub fn format(values: &ArrayRef, row: usize) -> Option<String> {
    if values.is_null(row) {
        return None;
    }
    writer::format_value(values, row).ok().flatten()
}

/// Returns the error for a text that is not a value of a type.
pub fn unreadable(text: &str, kind: &DataType, problem: Problem) -> Error {
    /// The most characters of a text that the error shows.
    const CHARS_MAX: usize = 100;
    let shown = match text.char_indices().nth(CHARS_MAX) {
        Some((end, _)) => format!("'{}…'", &text[..end]),
        None => format!("'{text}'"),
    };
    let name = type_name(kind);
    let is_out_of_range = problem == Problem::OutOfRange;
    if is_out_of_range && is_number(kind) {
        return Error::new(ErrorKind::NumericOutOfRange, format!("number out of range: {shown} does not fit {name}"));
    }
    let error_kind = match kind {
        DataType::Date32 | DataType::Time64(_) | DataType::Timestamp(..) | DataType::Interval(_) => {
            ErrorKind::InvalidDatetime
        }
        _ => ErrorKind::InvalidText,
    };
    if is_json(kind)
        && let Some(why) = json::why_not(text)
    {
        return Error::new(ErrorKind::InvalidText, format!("{shown} is not JSON: {why}"))
            .hint("a text in JSON has double quotes: '\"text\"'");
    }
    let why = if is_out_of_range { ": out of range" } else { "" };
    let error = Error::new(error_kind, format!("{shown} is not a value of type {name}{why}"));
    match NumberedType::of_arrow(kind) {
        Some(kind) => error.hint(kind.hint),
        None => error,
    }
}
