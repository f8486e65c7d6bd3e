//! The rows of a window's input, held as they came.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch, UInt64Array};
use arrow::compute::interleave;
use rowmill_base::{Error, ErrorKind, Result};

use super::failed;

/// Where a row is held: its batch, and its position there.
pub(super) type HeldPlace = (usize, usize);

/// The most rows that can be held. Positions of rows have 32 bits, and the last values have special meanings.
const ROWS_MAX: usize = u32::MAX as usize - 16;

/// All rows of the input.
pub(super) struct HeldRows {
    pub(super) batches: Vec<RecordBatch>,
    pub(super) rows: usize,
    /// Bits of a place that say which row of a batch it is.
    row_bits: u32,
    /// Bits of a place.
    pub(super) place_bits: u32,
}

impl HeldRows {
    pub(super) fn new(batches: Vec<RecordBatch>) -> Result<HeldRows> {
        let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
        if rows > ROWS_MAX {
            return Err(Error::new(
                ErrorKind::ResultTooLarge,
                format!("a window has {rows} rows; {ROWS_MAX} are the most that it can have"),
            ));
        }
        let longest = batches.iter().map(RecordBatch::num_rows).max().unwrap_or_default();
        let row_bits = bits_below(longest);
        Ok(HeldRows { rows, row_bits, place_bits: row_bits + bits_below(batches.len()), batches })
    }

    /// The bits of the place of the first row of a batch; those of the others follow.
    pub(super) fn first_place_bits(&self, batch: usize) -> u64 {
        (batch as u64) << self.row_bits
    }

    /// The place that some bits stand for; higher ones are ignored.
    #[inline]
    pub(super) fn place(&self, bits: u64) -> HeldPlace {
        let batch = (bits & ((1 << self.place_bits) - 1)) >> self.row_bits;
        (batch as usize, (bits & ((1 << self.row_bits) - 1)) as usize)
    }

    /// The bits of the places of a batch's rows.
    pub(super) fn places_of(&self, batch: usize) -> ArrayRef {
        let first = self.first_place_bits(batch);
        let rows = self.batches[batch].num_rows() as u64;
        Arc::new(UInt64Array::from_iter_values(first..first + rows))
    }

    /// The values of a column at some places.
    pub(super) fn gather(&self, column: usize, places: &[HeldPlace]) -> Result<ArrayRef> {
        let values: Vec<&dyn Array> = self.batches.iter().map(|batch| &**batch.column(column)).collect();
        interleave(&values, places).map_err(failed)
    }
}

/// Bits of the numbers below `end`.
fn bits_below(end: usize) -> u32 {
    usize::BITS - end.saturating_sub(1).leading_zeros()
}
