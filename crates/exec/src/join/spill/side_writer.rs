//! Writes the rows of one side of a join into buckets on disk, and makes filters of their keys.

use arrow::array::ArrayRef;
use rowmill_base::Result;

use crate::key_filter::StreamedKeys;
use crate::spill_buckets::{BucketRows, BucketWriter};

/// Writes rows of one side.
#[derive(Debug)]
pub(in super::super) struct SideWriter {
    writer: BucketWriter,
    /// Filters for the other side, with the columns of their keys: among the columns that are written, and on the other
    /// side.
    filters: Vec<(usize, usize, StreamedKeys)>,
}

/// The rows of one side that were written to disk.
#[derive(Debug)]
pub(in super::super) struct SpilledSide {
    pub(super) rows: BucketRows,
    /// Filters for the other side, with its columns.
    filters: Vec<(usize, StreamedKeys)>,
}

impl SpilledSide {
    /// Joins what all workers wrote.
    pub(in super::super) fn merge(parts: Vec<SpilledSide>) -> SpilledSide {
        let (mut rows, mut filters) = (Vec::with_capacity(parts.len()), Vec::new());
        for part in parts {
            rows.push(part.rows);
            match filters.is_empty() {
                true => filters = part.filters,
                false => filters.iter_mut().zip(part.filters).for_each(|((_, all), (_, part))| all.merge(part)),
            }
        }
        SpilledSide { rows: BucketRows::merge(rows), filters }
    }

    /// Takes the filters for the other side, with its columns.
    pub(super) fn take_filters(&mut self) -> Vec<(usize, StreamedKeys)> {
        std::mem::take(&mut self.filters)
    }
}

impl SideWriter {
    pub(super) fn new(writer: BucketWriter) -> SideWriter {
        SideWriter { writer, filters: Vec::new() }
    }

    /// Drops rows from now on if `other` has no rows in their bucket.
    pub(super) fn drop_rows_of_other_buckets(&mut self, other: &SpilledSide) {
        self.writer.drop_rows_of_other_buckets(&other.rows);
    }

    /// Makes a filter of the keys in column `key` of the written columns from now on, for column `other` of the other
    /// side.
    pub(super) fn filter_by(&mut self, key: usize, other: usize, keys: StreamedKeys) {
        self.filters.push((key, other, keys));
    }

    /// Adds `rows` rows. `columns` are those that the writer was made for.
    pub(in super::super) fn add(&mut self, columns: Vec<ArrayRef>, rows: usize) -> Result<()> {
        for (key, _, filter) in &mut self.filters {
            filter.add(&columns[*key])?;
        }
        self.writer.add(columns, rows)
    }

    /// Writes the last rows. From then on, all rows can be read.
    pub(in super::super) fn finish(self) -> Result<SpilledSide> {
        let filters = self.filters.into_iter().map(|(_, other, filter)| (other, filter)).collect();
        Ok(SpilledSide { rows: self.writer.finish()?, filters })
    }
}
