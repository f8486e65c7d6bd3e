//! Stores which rows are NULL, for encodings that have no code for NULL.
//!
//! A section holds either bits (1 = not NULL, least significant bit first, like Arrow) or the ends of runs, whichever
//! is shorter. Runs alternate and start with rows that are not NULL, so the first run may be empty.

use std::ops::Range;

use arrow::array::BooleanBufferBuilder;
use arrow::buffer::{BooleanBuffer, Buffer, NullBuffer};
use rowmill_base::{Error, Result};

use super::head::{NewSection, SectionKind};
use crate::sequence::{self, Ints, SortedCursor};

/// Encodes `nulls` as a section.
pub(crate) fn encode(nulls: &NullBuffer) -> NewSection {
    let bits_bytes = nulls.len().div_ceil(8);
    // Every run takes at least a byte. So for most columns the number of runs alone shows that bits are shorter.
    if let Some(ends) = run_ends(nulls, bits_bytes) {
        let bytes = sequence::encode(&ends);
        if bytes.len() < bits_bytes {
            return NewSection { kind: SectionKind::ValidRuns, count: ends.len(), bytes };
        }
    }
    NewSection { kind: SectionKind::ValidBits, count: nulls.len(), bytes: nulls.inner().sliced().to_vec() }
}

/// The ends of the runs, or `None` if there are more than `runs_max`. `nulls` must have at least one row.
fn run_ends(nulls: &NullBuffer, runs_max: usize) -> Option<Vec<u32>> {
    let mut ends: Vec<u32> = Vec::new();
    for (start, end) in nulls.valid_slices() {
        if ends.len() > runs_max {
            return None;
        }
        // NULLs precede this stretch of valid rows. If they are at the very front, an empty first run keeps the order.
        if start > 0 {
            if ends.is_empty() {
                ends.push(0);
            }
            ends.push(start as u32);
        }
        ends.push(end as u32);
    }
    if ends.is_empty() {
        ends.push(0);
    }
    if nulls.is_null(nulls.len() - 1) {
        ends.push(nulls.len() as u32);
    }
    Some(ends)
}

/// A stored section of NULLs, in either form.
pub(crate) enum Nulls<'a> {
    Bits { bytes: &'a [u8], rows: usize },
    Runs { ends: Ints<'a>, rows: usize },
}

impl<'a> Nulls<'a> {
    /// The bits of `rows` rows. `bytes` starts `at` bytes into the chunk.
    pub(crate) fn bits(bytes: &'a [u8], at: usize, rows: usize) -> Result<Nulls<'a>> {
        match bytes.len() == rows.div_ceil(8) {
            true => Ok(Nulls::Bits { bytes, rows }),
            false => Err(Error::corrupt(format!("byte {at} of the chunk: the NULL bits do not fit {rows} rows"))),
        }
    }

    /// The NULLs of a range, or `None` if it has none.
    pub(crate) fn read(&self, range: Range<usize>) -> Result<Option<NullBuffer>> {
        let valid = match self {
            Nulls::Bits { bytes, rows } => {
                debug_assert!(range.end <= *rows);
                // Only whole bytes can be sliced. The rest of the shift is the bit offset.
                let first = range.start / 8;
                let bytes = Buffer::from(&bytes[first..range.end.div_ceil(8).max(first)]);
                BooleanBuffer::new(bytes, range.start % 8, range.len())
            }
            Nulls::Runs { ends, rows } => read_runs(*ends, *rows, range)?,
        };
        Ok(Some(NullBuffer::new(valid)).filter(|nulls| nulls.null_count() > 0))
    }

    /// The NULLs of single rows, or `None` if none of them is NULL.
    pub(crate) fn take(&self, rows: &[u32]) -> Result<Option<NullBuffer>> {
        let valid = match self {
            Nulls::Bits { bytes, .. } => BooleanBuffer::collect_bool(rows.len(), |index| {
                let row = rows[index] as usize;
                bytes[row / 8] >> (row % 8) & 1 == 1
            }),
            Nulls::Runs { ends, .. } => {
                let mut cursor = SortedCursor::new(*ends);
                let mut valid = BooleanBufferBuilder::new(rows.len());
                for row in rows {
                    valid.append(cursor.at_most(*row)?.0 % 2 == 0);
                }
                valid.finish()
            }
        };
        Ok(Some(NullBuffer::new(valid)).filter(|nulls| nulls.null_count() > 0))
    }
}

fn read_runs(ends: Ints<'_>, rows: usize, range: Range<usize>) -> Result<BooleanBuffer> {
    debug_assert!(range.end <= rows);
    let mut valid = BooleanBufferBuilder::new(range.len());
    // Find the run of the first row. Its number tells whether it is NULL.
    let mut run = SortedCursor::new(ends).at_most(range.start as u32)?.0;
    let mut at = range.start;
    ends.for_each::<u32>(run..ends.len(), |ends| {
        // Damaged ends may not ascend. The clamp keeps the lengths from becoming negative or too long.
        for end in ends {
            let end = (*end as usize).clamp(at, range.end);
            valid.append_n(end - at, run % 2 == 0);
            at = end;
            run += 1;
        }
    })?;
    if at < range.end {
        return Err(Error::corrupt(format!("the runs of NULLs end at row {at} of {rows}")));
    }
    Ok(valid.finish())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn nulls_come_back_as_bits_and_as_runs() {
        let patterns: [fn(usize) -> bool; 6] = [
            |row| row % 3 != 0,
            |row| row > 100,
            |row| row < 3000,
            |row| row / 700 % 2 == 0,
            |row| row / 700 % 2 == 1,
            |row| row != 4999,
        ];
        for pattern in patterns {
            let valid: Vec<bool> = (0..5000).map(pattern).collect();
            let section = encode(&NullBuffer::from(valid.clone()));
            let nulls = match section.kind {
                SectionKind::ValidBits => Nulls::bits(&section.bytes, 0, 5000).unwrap(),
                _ => Nulls::Runs { ends: Ints::open(&section.bytes, 0, section.count).unwrap(), rows: 5000 },
            };
            for range in [0..5000, 0..1, 3..3, 13..3001, 4999..5000, 700..1400] {
                let read = nulls.read(range.clone()).unwrap();
                for row in range.clone() {
                    assert_eq!(read.as_ref().is_none_or(|nulls| nulls.is_valid(row - range.start)), valid[row]);
                }
                assert_eq!(read.is_none(), valid[range].iter().all(|valid| *valid));
            }
            let rows: Vec<u32> = (0..5000).step_by(7).collect();
            let taken = nulls.take(&rows).unwrap();
            assert!(rows.iter().enumerate().all(|(index, row)| {
                taken.as_ref().is_none_or(|nulls| nulls.is_valid(index)) == valid[*row as usize]
            }));
        }
    }
}
