//! The encodings of chunks. Each one is a file or folder here, an entry of [`ENCODINGS`], and a type that implements
//! [`Encoding`].
//!
//! ```text
//!   writing   column ─ analyse, by each encoding ─ the cheapest (choice.rs) ─ encode ─ facts and sections
//!   reading   chunk ─ read, integers, codes, counts, retain
//! ```
//!
//! The rest of the crate does not know the encodings: it asks the chunk, and the chunk asks its encoding. A chunk calls
//! its encoding once for each request or batch, never for each value. The loops over values are in the encodings, where
//! the type of the values is known.
//!
//! To add an encoding, write its file, add it to the list, and describe its sections in `docs/file-format.md`. The
//! conformance suite of chunks then runs over it. Programs that do not know the encoding must refuse its chunks, so
//! [`Encoding::since`] must name a new version of the format.

mod choice;
mod constant;
mod decimal;
mod documents;
mod exceptions;
mod list;
mod nested;
mod new_column;
mod outliers;
mod row_sequence;
mod scaled;
mod string_rows;

use std::fmt;

use arrow::array::ArrayRef;
use rowmill_base::{Error, Result};

use crate::chunk::{Borders, Chunk, CodeSet, DecodedRows, Facts, Physical, SectionKind, StringTest, for_each_of};
use crate::row_mask::RowMask;

pub(crate) use choice::{Analysis, Cheapest, encode_cheapest};
pub(crate) use documents::{directory, encode_documents, open_part};
pub(crate) use nested::open_inner;
pub(crate) use new_column::{FixedColumn, NewColumn, StringColumn};

/// All encodings, in the order in which they are offered. Of equal prices the first wins. Encodings with a value list
/// come last, because finding the distinct values takes longest.
pub(crate) static ENCODINGS: [EncodingRef; 12] = [
    &constant::Constant,
    &decimal::Decimal,
    &row_sequence::PLAIN,
    &row_sequence::FRAME,
    &row_sequence::DELTA,
    &string_rows::StringsInRowOrder,
    &nested::Nested,
    &documents::Documents,
    &list::ListCodes,
    &list::ListRuns,
    &list::ListRows,
    // It does not compete with a value list, so it comes after all of them.
    &outliers::FrameWithOutliers,
];

/// An entry of [`ENCODINGS`].
pub(crate) type EncodingRef = &'static dyn Encoding;

/// The value list of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ListPlace {
    /// The chunk has none.
    Missing,
    /// The list is one value, the base in the head, or no value if all rows are NULL.
    Head,
    /// The list is a section of the chunk.
    Section,
}

/// How a chunk stores its rows.
///
/// The methods for reading get a chunk of this encoding. Its bytes may be hostile even under a valid checksum: a method
/// must return an error or wrong values for them, but must not panic, nor take more memory than a genuine chunk of as
/// many rows. The caller has checked that all rows exist, and that lists of rows ascend.
pub(crate) trait Encoding: Sync {
    /// The number in the head of a chunk. Part of the file format.
    fn number(&self) -> u8;

    /// The name that reports show.
    fn name(&self) -> &'static str;

    /// The first version of the chunk format that has this encoding. A program that knows only earlier versions must
    /// refuse the chunk, so this version is in its head.
    fn since(&self) -> u16 {
        1
    }

    /// Measures `column` in this encoding. `None` if the encoding does not suit it, or cannot be cheaper than what was
    /// offered before.
    fn analyse(&self, column: &NewColumn<'_>, offered: &Cheapest) -> Result<Option<Analysis>>;

    /// Where chunks of this encoding have their value list. With a value list, rows have codes.
    fn list_place(&self, _physical: Physical) -> ListPlace {
        ListPlace::Missing
    }

    /// Whether a condition on codes reads a code for each row, and not for each run or listed row.
    fn has_code_per_row(&self) -> bool {
        false
    }

    /// Whether the numbers of rows, NULLs and distinct values in a head are possible for this encoding. Those of every
    /// encoding are already checked.
    fn fits(&self, facts: &Facts) -> bool {
        facts.distinct.is_some() || self.list_place(facts.physical) == ListPlace::Missing
    }

    /// Reads rows as an array of the column's Arrow type. An encoding without a value list must do it itself.
    fn read(&self, chunk: &Chunk, rows: DecodedRows<'_>) -> Result<ArrayRef> {
        list::read(chunk, rows)
    }

    /// Appends the low 64 bits of rows of integers or decimals. A NULL row appends an arbitrary integer.
    fn integers(&self, chunk: &Chunk, rows: DecodedRows<'_>, out: &mut Vec<i64>) -> Result<()> {
        match self.list_place(chunk.physical()) {
            ListPlace::Section => list::integers(chunk, rows, out),
            _ => Err(chunk.unsuited()),
        }
    }

    /// Calls `each` with the codes of rows, in order and a piece at a time. The codes may be above the list.
    fn codes(&self, _chunk: &Chunk, _rows: DecodedRows<'_>, _each: &mut dyn FnMut(&[u32])) -> Result<()> {
        Err(self.no_codes())
    }

    /// Leaves the rows in `mask` whose code is in `set`.
    fn retain_codes(&self, _chunk: &Chunk, _set: &CodeSet, _mask: &mut RowMask) -> Result<()> {
        Err(self.no_codes())
    }

    /// Calls `each` with the number of rows of each of `codes`, in order and a piece at a time. NULL's code is not
    /// among them.
    fn counts(&self, chunk: &Chunk, codes: DecodedRows<'_>, each: &mut dyn FnMut(&[u32])) -> Result<()> {
        let counts = chunk.ints(SectionKind::Counts)?;
        chunk.check_list(counts.len())?;
        for_each_of(counts, codes, each)
    }

    /// Leaves the rows in `mask` whose key is in `keys`. For encodings without a value list. A NULL row has an
    /// arbitrary key, so the caller must handle NULLs.
    fn retain_keys(&self, chunk: &Chunk, _keys: &Borders<u128>, _mask: &mut RowMask) -> Result<()> {
        Err(chunk.unsuited())
    }

    /// Checks what reading all rows cannot show.
    fn check(&self, _chunk: &Chunk) -> Result<()> {
        Ok(())
    }

    /// Leaves the rows in `mask` whose string passes `test`, or with `negated` the rows whose string does not. For
    /// encodings without a value list. A NULL row has an arbitrary string, so the caller must handle NULLs.
    fn retain_strings(
        &self,
        chunk: &Chunk,
        _negated: bool,
        _test: &mut StringTest<'_>,
        _mask: &mut RowMask,
    ) -> Result<()> {
        Err(chunk.unsuited())
    }

    /// A column that is stored in this encoding, for the conformance suite, if none of the suite's columns is.
    #[cfg(test)]
    fn example(&self) -> Option<(rowmill_base::SqlType, ArrayRef)> {
        None
    }

    /// The error for a chunk without codes.
    fn no_codes(&self) -> Error {
        Error::internal(format!("a chunk stored as {} has no codes", self.name()))
    }
}

impl fmt::Debug for dyn Encoding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl PartialEq for dyn Encoding {
    fn eq(&self, other: &dyn Encoding) -> bool {
        self.number() == other.number()
    }
}

/// The encoding that reports name so.
#[cfg(test)]
pub(crate) fn encoding_named(name: &str) -> EncodingRef {
    ENCODINGS.into_iter().find(|encoding| encoding.name() == name).expect("an encoding of that name")
}

/// The first version of the chunk format that has all encodings.
pub(crate) fn newest_since() -> u16 {
    ENCODINGS.iter().map(|encoding| encoding.since()).max().unwrap_or_default()
}

/// The encoding with a number.
pub(crate) fn encoding_of(number: u8) -> Option<EncodingRef> {
    ENCODINGS.into_iter().find(|encoding| encoding.number() == number)
}
