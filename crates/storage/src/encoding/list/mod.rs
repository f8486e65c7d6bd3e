//! A value list and codes. Three encodings, which differ in how they store the codes: one per row, runs, or only the
//! rows that do not have the most common code.
//!
//! ```text
//!   codes     0 0 3 1 0 0 0 0 0 2 2 2 2 0 ...          3 = NULL in a column of three values
//!   packed    every code, bit-packed in vectors
//!   runs      ends 2 3 4 9 13, codes 0 3 1 0 2         for each run the row after its last one, and its code
//!   rows      common 0; single rows 2 3, their codes 3 1; run starts 9, lengths 4, codes 2
//! ```
//!
//! This file has what the three share: reading rows through the list, and searching sequences of codes and rows.

mod codes;
mod distinct;
mod new_list;
mod rows;
mod runs;

use std::ops::Range;

use arrow::array::{ArrayRef, UInt32Array};
use arrow::buffer::{BooleanBuffer, Buffer, NullBuffer};
use arrow::compute::take;
use arrow::datatypes::ArrowNativeType;
use rowmill_base::{Error, Result};

use crate::chunk::{Chunk, CodeSet, DecodedRows, Kind, Physical, with_kind};
use crate::row_mask::RowMask;
use crate::sequence::{Ints, SortedCursor, Span, Word, pack_bits};

pub(super) use codes::ListCodes;
pub(super) use new_list::{NewCodes, NewList};
pub(super) use rows::ListRows;
pub(super) use runs::ListRuns;

/// The price of an encoding with a value list, in hundredths. It is low because predicates, functions and aggregates
/// run per value, and counts answer without rows.
const HUNDREDTHS: usize = 85;
/// Rows expanded at a time. Their codes take 64 KiB, a sixteenth of the second-level cache.
const PIECE_ROWS: usize = 16 << 10;

/// Reads rows as an array, by their codes.
pub(super) fn read(chunk: &Chunk, rows: DecodedRows<'_>) -> Result<ArrayRef> {
    chunk.verify()?;
    match chunk.physical() {
        Physical::Text | Physical::Blob | Physical::Wide => read_strings(chunk, rows),
        physical => with_kind!(physical, K => read_fixed::<K>(chunk, rows), else Err(chunk.unsuited())),
    }
}

fn read_strings(chunk: &Chunk, rows: DecodedRows<'_>) -> Result<ArrayRef> {
    let codes = codes_of(chunk, rows)?;
    if chunk.is_list_decoded() {
        return chunk.string_list()?.views(&codes);
    }
    // The list is not decoded yet: read only the values that these rows use.
    let (values, codes) = chunk.listed(codes)?;
    take(&values, &UInt32Array::from(codes), None).map_err(|error| Error::internal(error.to_string()))
}

fn read_fixed<K: Kind>(chunk: &Chunk, rows: DecodedRows<'_>) -> Result<ArrayRef> {
    let values = chunk.fixed_list()?.natives::<K>();
    let mut natives = Vec::with_capacity(rows.len());
    let mut nulls = None;
    if chunk.null_count() == 0 {
        chunk.encoding().codes(chunk, rows, &mut |codes| append_values(values, codes, &mut natives))?;
    } else {
        // NULLs are found by their code, so the codes are needed as a whole.
        let codes = codes_of(chunk, rows)?;
        append_values(values, &codes, &mut natives);
        nulls = nulls_of_codes(&codes, values.len() - 1);
    }
    K::array(Buffer::from_vec(natives), nulls, &chunk.stored_kind().arrow())
}

/// Appends the value of each code. Damaged codes may be above the list. They get a default value.
///
/// This is a function of its own so that the compiler knows that `out` does not overlap what a closure has captured.
/// Otherwise it loads `values` again for each code.
fn append_values<T: Copy + Default>(values: &[T], codes: &[u32], out: &mut Vec<T>) {
    out.extend(codes.iter().map(|code| values.get(*code as usize).copied().unwrap_or_default()));
}

/// Appends the low 64 bits of rows of integers or decimals.
pub(super) fn integers(chunk: &Chunk, rows: DecodedRows<'_>, out: &mut Vec<i64>) -> Result<()> {
    with_kind!(chunk.physical(), K => integers_of::<K>(chunk, rows, out), else Err(chunk.unsuited()))
}

fn integers_of<K: Kind>(chunk: &Chunk, rows: DecodedRows<'_>, out: &mut Vec<i64>) -> Result<()> {
    let (words, steps) = match K::Key::BYTES > u64::BYTES {
        true => chunk.low_words().map(|list| (Some(&*list.words), list.steps))?,
        false => (None, chunk.fixed_list()?.steps::<K>()),
    };
    if let Some(steps) = steps {
        return chunk.encoding().codes(chunk, rows, &mut |codes| steps.append(codes, out));
    }
    if let Some(words) = words {
        return chunk.encoding().codes(chunk, rows, &mut |codes| append_values(words, codes, out));
    }
    let values = chunk.fixed_list()?.natives::<K>();
    chunk.encoding().codes(chunk, rows, &mut |codes| {
        let value = |code: &u32| values.get(*code as usize).copied().unwrap_or_default();
        out.extend(codes.iter().map(|code| value(code).as_usize() as i64));
    })
}

fn codes_of(chunk: &Chunk, rows: DecodedRows<'_>) -> Result<Vec<u32>> {
    let mut out = Vec::with_capacity(rows.len());
    chunk.encoding().codes(chunk, rows, &mut |codes| out.extend_from_slice(codes))?;
    Ok(out)
}

/// Marks the rows as NULL whose code is `null`. Returns `None` if no row is.
fn nulls_of_codes(codes: &[u32], null: usize) -> Option<NullBuffer> {
    let valid = pack_bits(codes, |code| code as usize != null);
    let nulls = NullBuffer::new(BooleanBuffer::new(valid.into(), 0, codes.len()));
    (nulls.null_count() > 0).then_some(nulls)
}

/// Calls `each` with the codes that `expand` writes, a piece of `range` at a time. The buffer has room for `more` codes
/// after the piece.
fn expand_pieces(
    range: &Range<usize>,
    more: usize,
    mut expand: impl FnMut(&Range<usize>, &mut [u32]) -> Result<()>,
    each: &mut dyn FnMut(&[u32]),
) -> Result<()> {
    let mut buffer = vec![0; PIECE_ROWS.min(range.len()) + more];
    for start in range.clone().step_by(PIECE_ROWS) {
        let piece = start..range.end.min(start + PIECE_ROWS);
        expand(&piece, &mut buffer[..piece.len() + more])?;
        each(&buffer[..piece.len()]);
    }
    Ok(())
}

/// Leaves the positions in `mask` whose code is in `set`.
fn retain_packed(codes: Ints<'_>, set: &CodeSet, mask: &mut RowMask) -> Result<()> {
    match set.table() {
        Some(truth) => codes.retain_where(|code: u32| truth.get(code as usize).copied().unwrap_or(false), mask),
        None => codes.retain(&set.ranges().collect::<Vec<Span<u32>>>(), mask),
    }
}

/// Calls `each` with the values at the positions in `mask`, in order.
fn gather_of(values: Ints<'_>, mask: &RowMask, mut each: impl FnMut(u32)) -> Result<()> {
    match mask.is_full() {
        true => values.for_each(mask.rows(), |values| values.iter().for_each(|value| each(*value))),
        false => values.gather(&mask.positions(), |values| values.iter().for_each(|value| each(*value))),
    }
}

/// The positions of those entries of an ascending sequence of rows that are in `range`.
fn places(sequence: Ints<'_>, range: &Range<usize>) -> Result<Range<usize>> {
    let mut cursor = SortedCursor::new(sequence);
    // The entries in the range are those at most its last row, without those at most the row before it.
    let before = match range.start.checked_sub(1) {
        None => 0,
        Some(row) => cursor.at_most(row as u32)?.0,
    };
    let behind = match range.end.checked_sub(1) {
        None => 0,
        Some(row) => cursor.at_most(row as u32)?.0,
    };
    Ok(before..behind.max(before))
}
