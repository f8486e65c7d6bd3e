//! The rows of a window's input, held in the batches in which they came.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch, UInt64Array};
use arrow::compute::interleave;
use rowmill_base::{Error, ErrorKind, Result};

use super::failed;

/// The place where a row is held: the number of its batch, and its position in the batch.
pub(super) type HeldPlace = (usize, usize);

/// The most rows that can be held. Positions have 32 bits, and the last values of these have special meanings.
const ROWS_MAX: usize = u32::MAX as usize - 16;

/// All rows of the input.
pub(super) struct HeldRows {
    pub(super) batches: Vec<RecordBatch>,
    pub(super) rows: usize,
    /// The number of bits of a place that say which row of its batch it is.
    row_bits: u32,
    /// The number of bits of a place.
    pub(super) place_bits: u32,
}

impl HeldRows {
    pub(super) fn new(batches: Vec<RecordBatch>) -> Result<HeldRows> {
        let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
        if rows > ROWS_MAX {
            return Err(Error::new(
                ErrorKind::ResultTooLarge,
                format!("a window has {rows} rows, but it can have at most {ROWS_MAX}"),
            ));
        }
        let longest = batches.iter().map(RecordBatch::num_rows).max().unwrap_or_default();
        // A place takes only the bits that this input needs, so that entries stay short.
        let row_bits = bits_below(longest);
        Ok(HeldRows { rows, row_bits, place_bits: row_bits + bits_below(batches.len()), batches })
    }

    /// The bits of the place of a batch's first row. The places of its other rows follow.
    pub(super) fn first_place_bits(&self, batch: usize) -> u64 {
        (batch as u64) << self.row_bits
    }

    /// The place in the lowest bits. Higher bits are ignored.
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

    /// Gathers the values of a column at some places.
    pub(super) fn gather(&self, column: usize, places: &[HeldPlace]) -> Result<ArrayRef> {
        let values: Vec<&dyn Array> = self.batches.iter().map(|batch| &**batch.column(column)).collect();
        interleave(&values, places).map_err(failed)
    }
}

/// The number of bits of the numbers below `end`.
fn bits_below(end: usize) -> u32 {
    usize::BITS - end.saturating_sub(1).leading_zeros()
}
