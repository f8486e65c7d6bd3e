//! Byte strings of one chunk: one column of one block, text or binary.
//!
//! ```text
//!   Arrow array ──ByteStrings──┐
//!                              ├─ Dictionary: distinct values in byte order, rows of each, a code per row
//!                              │        └─ StringList: the values as stored bytes (raw, front-coded, FSST, both)
//!                              │                └─ DecodedList: one buffer and offsets; codes → Arrow views into it
//!                              └─ StringRows: the rows in their own order (raw, FSST), when hardly any value repeats
//! ```
//!
//! [`plan`] decides between the two shapes. Everything that reads stored bytes treats them as hostile: it returns an
//! error of kind `Corrupt`, and allocates no more than a stored chunk of that size can honestly need.

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
pub use grams::{Grams, encode_grams};
pub use groups::Groups;
pub use input::ByteStrings;
pub use lengths::LengthUnit;
pub use list::{ListLayout, StringList};
pub use list_writer::{GROUP_VALUES, encode_list, encode_list_as};
pub use rows::{StringRows, encode_rows};
pub use windows::StringWindow;

use arrow::datatypes::DataType;

use layout_choice::Choice;

/// Rows of a block at most, and so values of a list at most.
pub const VALUES_MAX: usize = 1 << 19;

/// Decoded bytes of one list at most: Arrow addresses the bytes of a buffer with 31 bits.
pub const LIST_BYTES_MAX: usize = i32::MAX as usize;

/// What the bytes are, and so which Arrow array carries them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StringKind {
    /// UTF-8, verified when a list is decoded: `Utf8View`.
    Text,
    /// Any bytes: `BinaryView`.
    Binary,
}

impl StringKind {
    /// The Arrow type of the arrays that come out.
    pub fn data_type(self) -> DataType {
        match self {
            StringKind::Text => DataType::Utf8View,
            StringKind::Binary => DataType::BinaryView,
        }
    }
}

/// How a chunk stores its strings.
#[derive(Debug)]
pub enum StringPlan<'a> {
    /// A value list ([`encode_list`] of `values`) and codes.
    List(Dictionary<'a>),
    /// The rows as they come ([`encode_rows`]): hardly any value repeats and codes would cost more than order saves,
    /// or the values are more than a list may hold.
    Rows,
}

/// Decides how `strings` are stored, and finds their distinct values if that is as a list.
///
/// A list is right whenever values repeat, and often when they do not: in byte order neighbours share prefixes, which
/// saves more than codes cost. Only where most rows stand alone are both sizes estimated, and rows win ties: they are
/// read without a jump per row.
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
    let code_bits = (usize::BITS - values.leading_zeros()) as usize;
    let as_list = Choice::of(&dictionary.values, true).bytes + strings.len() * code_bits / 8;
    let as_rows = Choice::of(&strings.rows(), false).bytes;
    match as_list < as_rows - as_rows / ROWS_PREFERRED {
        true => StringPlan::List(dictionary),
        false => StringPlan::Rows,
    }
}

/// Fewer than one row in so many repeats a value: rows are considered.
const NEARLY_UNIQUE: usize = 8;

/// A list has to be smaller than rows by one part in so many.
const ROWS_PREFERRED: usize = 10;
