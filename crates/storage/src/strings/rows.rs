//! Strings in row order, for columns in which hardly any value repeats.
//!
//! ```text
//!   parts u32 | for each: rows u32, bytes u64 | the parts: lists in row order, one after another
//! ```
//!
//! The rows have one part, unless they have more bytes than one Arrow buffer may have. Then a part has as many rows as
//! fit into one buffer. A part is stored like a value list, but it is not sorted and never front-coded.

use std::ops::Range;

use arrow::array::{Array, ArrayRef};
use arrow::buffer::NullBuffer;
use rowmill_base::{Error, Result};

use super::cursor::ListCursor;
use super::list_writer::encode_in_row_order;
use super::reader::SectionReader;
use super::sink::Sink;
use super::{ByteStrings, LIST_BYTES_MAX, StringKind, StringList, StringWindow};

/// Encodes the rows of `strings` in their order. A NULL row takes no bytes. Another section says which rows are NULL.
pub fn encode_rows(strings: &ByteStrings) -> Result<Vec<u8>> {
    encode_parts(&strings.rows(), LIST_BYTES_MAX)
}

/// Encodes `rows` in parts of at most `part_bytes_max` bytes.
pub(super) fn encode_parts(rows: &[&[u8]], part_bytes_max: usize) -> Result<Vec<u8>> {
    let mut parts = Vec::new();
    let mut rest = rows;
    while !rest.is_empty() {
        let mut bytes = 0;
        let fitting = rest.iter().take_while(|row| {
            bytes += row.len();
            bytes <= part_bytes_max
        });
        // A part has at least one row, even if that row alone exceeds the limit.
        let (part, behind) = rest.split_at(fitting.count().max(1));
        parts.push((part.len() as u32, encode_in_row_order(part)?));
        rest = behind;
    }
    let mut out = (parts.len() as u32).to_le_bytes().to_vec();
    for (rows, stored) in &parts {
        out.extend_from_slice(&rows.to_le_bytes());
        out.extend_from_slice(&(stored.len() as u64).to_le_bytes());
    }
    parts.iter().for_each(|(_, stored)| out.extend_from_slice(stored));
    Ok(out)
}

/// Stored rows. Opening reads only headers. The bytes may be hostile.
#[derive(Clone, Debug)]
pub struct StringRows<'a> {
    /// The first row and the rows of each part.
    parts: Vec<(usize, StringList<'a>)>,
    rows: usize,
}

impl<'a> StringRows<'a> {
    /// Opens the rows in `bytes`, which must have exactly them. `rows` is their number according to the chunk.
    pub fn open(bytes: &'a [u8], rows: usize) -> Result<StringRows<'a>> {
        let mut section = SectionReader::new(bytes);
        let parts = section.u32()? as usize;
        let mut sizes = SectionReader::new(section.bytes(parts.saturating_mul(12))?);
        let mut opened = Vec::new();
        let mut first = 0;
        for _ in 0..parts {
            // Sizes beyond the section make `bytes` below fail.
            let (rows, bytes) = (sizes.u32()? as usize, sizes.u64()?);
            let bytes = section.bytes(usize::try_from(bytes).unwrap_or(usize::MAX))?;
            opened.push((first, StringList::open(bytes, rows)?));
            first += rows;
        }
        match first == rows && section.rest().is_empty() {
            true => Ok(StringRows { parts: opened, rows }),
            false => Err(Error::corrupt(format!("{first} rows of strings instead of {rows}"))),
        }
    }

    /// The number of rows.
    pub fn len(&self) -> usize {
        self.rows
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// Calls `each` with windows of a range of rows. Panics if the rows are fewer.
    pub fn for_each_window(
        &self,
        rows: Range<usize>,
        mut each: impl FnMut(StringWindow<'_>) -> Result<()>,
    ) -> Result<()> {
        assert!(rows.start <= rows.end && rows.end <= self.rows, "{rows:?} of {} rows", self.rows);
        for (first, part) in &self.parts {
            let within = rows.start.max(*first)..rows.end.min(first + part.len());
            if !within.is_empty() {
                // The window counts from the part. The caller counts from its own first row.
                let before = within.start - rows.start;
                part.for_each_window(within.start - first..within.end - first, |window| each(window.behind(before)))?;
            }
        }
        Ok(())
    }

    /// Reads a range of rows as views. `nulls` must be those of the range. Panics if the rows are fewer.
    pub fn read(&self, rows: Range<usize>, kind: StringKind, nulls: Option<&NullBuffer>) -> Result<ArrayRef> {
        assert!(rows.start <= rows.end && rows.end <= self.rows, "{rows:?} of {} rows", self.rows);
        let mut arrays = Vec::new();
        for (first, part) in &self.parts {
            let within = rows.start.max(*first)..rows.end.min(first + part.len());
            if within.is_empty() {
                continue;
            }
            let mut sink = Sink::new(kind, within.len(), part.likely_bytes(within.len()));
            let nulls = nulls.map(|nulls| nulls.slice(within.start - rows.start, within.len()));
            part.decode_into(within.start - first..within.end - first, nulls.as_ref(), &mut sink)?;
            arrays.push(sink.finish().views());
        }
        joined(arrays, kind)
    }

    /// Reads single rows as views. The rows must ascend, and `nulls` must be those of these rows. Panics if a row does
    /// not exist.
    pub fn take(&self, rows: &[u32], kind: StringKind, nulls: Option<&NullBuffer>) -> Result<ArrayRef> {
        let mut arrays = Vec::new();
        let mut taken = 0;
        for (first, part) in &self.parts {
            let end = first + part.len();
            let rows = &rows[taken..taken + rows[taken..].partition_point(|&row| (row as usize) < end)];
            let mut cursor = ListCursor::new(part);
            let mut sink = Sink::new(kind, rows.len(), 0);
            for &row in rows {
                // A NULL row stores an empty string, which must not be read as a value.
                if nulls.is_some_and(|nulls| nulls.is_null(taken)) {
                    sink.append_null();
                } else {
                    let value = cursor.value(row as usize - first)?;
                    // One Arrow buffer cannot have more bytes, so we start another.
                    if sink.bytes() + value.len() > LIST_BYTES_MAX {
                        arrays.push(std::mem::replace(&mut sink, Sink::new(kind, rows.len(), 0)).finish().views());
                    }
                    sink.append_one(value)?;
                }
                taken += 1;
            }
            arrays.push(sink.finish().views());
        }
        assert!(taken == rows.len(), "row {} of {}", rows[taken], self.rows);
        joined(arrays, kind)
    }
}

/// Joins the arrays. Their buffers are shared and not copied.
fn joined(mut arrays: Vec<ArrayRef>, kind: StringKind) -> Result<ArrayRef> {
    match arrays.len() {
        0 => Ok(arrow::array::new_empty_array(&kind.data_type())),
        1 => Ok(arrays.remove(0)),
        _ => {
            let arrays: Vec<&dyn Array> = arrays.iter().map(|array| &**array).collect();
            arrow::compute::concat(&arrays).map_err(|error| Error::internal(error.to_string()))
        }
    }
}
