//! What identifies the rows that a query finds: row numbers of a columnar table, keys of a keyed one.

use std::collections::HashSet;

use arrow::array::{ArrayRef, AsArray, BinaryArray, BooleanArray, RecordBatch};
use arrow::compute::{cast, filter_record_batch};
use arrow::datatypes::{DataType, UInt64Type};
use rowmill_base::{Error, Result};

/// Returns the numbers of rows of a columnar table.
pub(in crate::statement) fn numbers(values: &ArrayRef) -> &[u64] {
    values.as_primitive::<UInt64Type>().values()
}

/// Converts keys to the form that the transaction takes.
pub(in crate::statement) fn as_keys(values: &ArrayRef) -> Result<BinaryArray> {
    let keys = cast(values, &DataType::Binary).map_err(|error| Error::internal(format!("keys of rows: {error}")))?;
    Ok(keys.as_binary::<i32>().clone())
}

/// The rows that were found so far.
pub(super) enum FoundRows {
    Numbers(HashSet<u64>),
    Keys(HashSet<Box<[u8]>>),
}

impl FoundRows {
    pub(super) fn new(keyed: bool) -> FoundRows {
        if keyed { FoundRows::Keys(HashSet::new()) } else { FoundRows::Numbers(HashSet::new()) }
    }

    /// Tells for each of `rows` whether it is found for the first time. A row that is NULL is no row of the table.
    fn are_new(&mut self, rows: &ArrayRef) -> Result<BooleanArray> {
        Ok(match self {
            FoundRows::Numbers(found) => {
                let numbers = rows.as_primitive::<UInt64Type>().iter();
                numbers.map(|number| Some(number.is_none_or(|number| found.insert(number)))).collect()
            }
            FoundRows::Keys(found) => {
                let keys = as_keys(rows)?;
                keys.iter().map(|key| Some(key.is_none_or(|key| found.insert(key.into())))).collect()
            }
        })
    }

    /// Whether all of `rows` are found for the first time.
    pub(super) fn all_new(&mut self, rows: &ArrayRef) -> Result<bool> {
        Ok(self.are_new(rows)?.false_count() == 0)
    }

    /// Returns the rows of a batch that are found for the first time.
    pub(super) fn only_new(&mut self, batch: &RecordBatch) -> Result<RecordBatch> {
        filter(batch, &self.are_new(batch.column(0))?)
    }
}

/// Returns the rows of a batch for which `is_kept` is true.
pub(in crate::statement) fn filter(batch: &RecordBatch, is_kept: &BooleanArray) -> Result<RecordBatch> {
    filter_record_batch(batch, is_kept).map_err(|error| Error::internal(error.to_string()))
}
