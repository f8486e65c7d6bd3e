//! Distinct rows, and how often each occurs.

use std::sync::Arc;

use arrow::array::UInt64Array;
use rowmill_base::{Result, SpillableMemory};

use super::SetRequest;
use crate::row_keys::{KeyRows, RowKeys};
use crate::row_set::RowSet;
use crate::spill_buckets::BucketWriter;

/// The rows that are turned back into columns at once. It is the default number of rows of a batch (the setting
/// `batch_rows`).
const ROWS_AT_ONCE: usize = 1 << 13;

/// Distinct rows, and how often each may still be matched.
#[derive(Debug)]
pub(super) struct RepeatedRows {
    rows: RowSet,
    left: Vec<u64>,
    held: SpillableMemory,
}

impl RepeatedRows {
    pub(super) fn new(request: &SetRequest) -> RepeatedRows {
        let held = request.broker.spillable();
        RepeatedRows { rows: RowSet::new(held.broker().reservation(request.owner())), left: Vec::new(), held }
    }

    /// Adds the first `rows` rows of `keys`, as often as `repeats` says, or once.
    pub(super) fn add(&mut self, keys: &KeyRows, rows: usize, repeats: Option<&[u64]>) -> Result<()> {
        for row in 0..rows {
            // The number of a distinct row is its index in `left`.
            let (number, is_new) = self.rows.insert(keys.get(row));
            if is_new {
                self.left.push(0);
            }
            self.left[number] += repeats.map_or(1, |repeats| repeats[row]);
        }
        self.rows.account(self.left.capacity() * size_of::<u64>())
    }

    /// Takes one from the count of a row. Returns false if its count is zero.
    pub(super) fn take_one(&mut self, row: &[u8]) -> bool {
        let count = self.rows.find(row).map(|number| &mut self.left[number]).filter(|count| **count > 0);
        count.map(|count| *count -= 1).is_some()
    }

    /// Whether the rows must go to disk.
    pub(super) fn must_spill(&self) -> bool {
        self.held.must_spill()
    }

    /// Writes all rows, each with its count as a further column.
    pub(super) fn write(self, keys: &RowKeys, writer: &mut BucketWriter) -> Result<()> {
        for start in (0..self.rows.len()).step_by(ROWS_AT_ONCE) {
            let rows = start..self.rows.len().min(start + ROWS_AT_ONCE);
            let mut columns = keys.decode(rows.clone().map(|row| self.rows.row(row)))?;
            columns.push(Arc::new(UInt64Array::from_iter_values(self.left[rows.clone()].iter().copied())));
            writer.add(columns, rows.len())?;
        }
        Ok(())
    }
}
