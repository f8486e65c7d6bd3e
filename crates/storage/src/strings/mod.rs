//! The byte strings of one chunk: one column of one block, text or binary.
//!
//! ```text
//!   Arrow array ──ByteStrings──┐
//!                              ├─ Dictionary: distinct values in byte order, rows of each, a code per row
//!                              │        └─ StringList: the stored values (raw, front-coded, FSST, or both)
//!                              │                └─ DecodedList: one buffer and offsets; codes → Arrow views into it
//!                              └─ StringRows: the rows in their own order (raw, FSST), when hardly any value repeats
//! ```
//!
//! [`plan`] chooses one of the two shapes. Code that reads stored bytes must treat them as hostile: it returns an error
//! of kind `Corrupt`, and never allocates more than a genuine chunk of that size may need.

mod contains;
mod cursor;
mod decode;
mod decoded;
mod dictionary;
mod front;
mod fsst;
mod grams;
mod groups;
mod input;
mod layout_choice;
mod lengths;
mod list;
mod list_writer;
mod packed;
mod picked;
mod reader;
mod rows;
#[cfg(test)]
mod samples;
mod sink;
mod sort;
#[cfg(test)]
mod speed;
#[cfg(test)]
mod tests;
mod windows;

pub use decoded::DecodedList;
pub use dictionary::Dictionary;
pub use grams::Grams;
pub(crate) use grams::encode_grams;
pub use groups::TextGroups;
pub use input::ByteStrings;
pub use list::{ListLayout, StringList};
pub(crate) use list_writer::GROUP_VALUES;
pub use list_writer::encode_list;
#[cfg(test)]
use list_writer::encode_list_as;
pub use rows::{StringRows, encode_rows};
pub use windows::StringWindow;

use arrow::datatypes::DataType;

use layout_choice::LayoutChoice;

/// The maximum number of rows of a block, and so of values of a list.
pub const VALUES_MAX: usize = 1 << 19;

/// The maximum number of decoded bytes of a list. Arrow addresses the bytes of a buffer with 31 bits.
pub(crate) const LIST_BYTES_MAX: usize = i32::MAX as usize;

/// The kind of the strings, which decides the Arrow type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StringKind {
    /// UTF-8 in `Utf8View`. Verified when a list is decoded.
    Text,
    /// Any bytes, in `BinaryView`.
    Binary,
}

impl StringKind {
    /// The Arrow type of decoded arrays.
    pub(crate) fn data_type(self) -> DataType {
        match self {
            StringKind::Text => DataType::Utf8View,
            StringKind::Binary => DataType::BinaryView,
        }
    }
}

/// The chosen form of a chunk's strings.
#[derive(Debug)]
pub enum StringPlan<'a> {
    /// A value list ([`encode_list`] of `values`) and codes.
    List(Dictionary<'a>),
    /// The rows in their order ([`encode_rows`]). Used if hardly any value repeats and codes would cost more than the
    /// sorted order saves, or if the values are too large for a list.
    Rows,
}

/// Chooses the form of `strings`. Finds their distinct values if the form is a list.
///
/// A list is right whenever values repeat, and often when they do not: sorted neighbours share prefixes, which saves
/// more than codes cost. We only estimate both sizes if most rows have a value of their own. Rows win if the sizes are
/// close, because reading them needs no jump per row.
pub fn plan(strings: &ByteStrings) -> StringPlan<'_> {
    let dictionary = Dictionary::build(strings);
    let values = dictionary.values.len();
    let rows = strings.len() - strings.nulls().map_or(0, |nulls| nulls.null_count());
    if dictionary.value_bytes() > LIST_BYTES_MAX {
        return StringPlan::Rows;
    }
    if values == 0 || values < rows - rows / NEARLY_UNIQUE {
        return StringPlan::List(dictionary);
    }
    // Nearly every row has a value of its own. Estimate both forms, including the codes that a list needs.
    let code_bits = (usize::BITS - values.leading_zeros()) as usize;
    let as_list = LayoutChoice::of(&dictionary.values, true).bytes + strings.len() * code_bits / 8;
    let as_rows = LayoutChoice::of(&strings.rows(), false).bytes;
    match as_list < as_rows - as_rows / ROWS_PREFERRED {
        true => StringPlan::List(dictionary),
        false => StringPlan::Rows,
    }
}

/// Rows are considered only if fewer than one row in this many repeats a value.
const NEARLY_UNIQUE: usize = 8;

/// A list must be smaller than rows by one part in this many.
const ROWS_PREFERRED: usize = 10;
