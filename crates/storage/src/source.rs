//! The interface through which the engine scans tables. It is the only border between storage and execution.

use std::fmt::Debug;
use std::ops::Bound;
use std::sync::Arc;

use arrow::array::ArrayRef;
use rowmill_base::{IndexId, Result};

use crate::block::Block;
use crate::column_part::PlannedParts;
use crate::keyed::{ByteRows, KeyRange, ValueRef};
use crate::open_run::OpenRun;
use crate::schema::TableDef;
use crate::statistics::TableStatistics;

/// The rows of a table in one snapshot.
pub trait TableSource: Send + Sync + Debug {
    /// The definition that the rows must be read with.
    fn table(&self) -> &Arc<TableDef>;

    /// The position of the time column among the columns of the table, if it is a time table.
    fn time_column(&self) -> Option<usize> {
        self.table().time_column()
    }

    /// Sealed blocks with their deletes, in the order of their row numbers.
    fn blocks(&self) -> &[Arc<Block>];

    /// Recent rows that no block has yet, in the order of their row numbers.
    fn runs(&self) -> &[Arc<OpenRun>];

    /// The parts of documents that the plan over this source reads, which [`TableSource::table`] has as columns.
    fn planned_parts(&self) -> Option<&Arc<PlannedParts>> {
        None
    }

    /// The rows of a keyed table, which has no blocks and no runs. `None` for a columnar table.
    fn keyed(&self) -> Option<&dyn KeyedSource> {
        None
    }

    /// The statistics that ANALYZE collected for a keyed table.
    fn statistics(&self) -> Option<&TableStatistics> {
        self.keyed()?.statistics()
    }

    /// The number of rows that are not deleted. For a keyed table this is an estimate.
    fn row_count(&self) -> u64 {
        // Counting a keyed table exactly would mean reading it.
        if let Some(keyed) = self.keyed() {
            return keyed.rows_about();
        }
        let blocks: usize = self.blocks().iter().map(|block| block.live_rows()).sum();
        let runs: usize = self.runs().iter().map(|run| run.live_rows()).sum();
        (blocks + runs) as u64
    }
}

/// The rows of a keyed table in one snapshot.
pub trait KeyedSource: Send + Sync + Debug {
    /// The estimated number of rows.
    fn rows_about(&self) -> u64;

    /// The statistics of the values, if ANALYZE has collected any.
    fn statistics(&self) -> Option<&TableStatistics> {
        None
    }

    /// Starts to read the rows within `bounds`, in the order of their keys. By an index, rows with long values that
    /// begin alike may come in any order.
    fn read(&self, bounds: &KeyBounds<'_>) -> Result<Box<dyn KeyedRows>>;

    /// Encodes `bounds` as a range of keys for [`KeyedSource::read_ranges`]. The bytes sort like the keys.
    fn range_of(&self, bounds: &KeyBounds<'_>) -> Result<KeyRange>;

    /// Starts to read the rows of several ranges, one range after another.
    fn read_ranges(&self, ranges: KeyRanges) -> Result<Box<dyn KeyedRows>>;

    /// Splits ranges into about `parts` parts with similar numbers of rows, which several threads can read at the same
    /// time. The parts are in the order of the ranges. A source that cannot tell where to split returns one part.
    fn split(&self, ranges: KeyRanges, parts: usize) -> Result<Vec<KeyRanges>> {
        let _ = parts;
        Ok(vec![ranges])
    }

    /// Decodes rows that were read: the columns at `columns` of the table.
    fn decode(&self, keys: &[&[u8]], rows: &[&[u8]], columns: &[usize]) -> Result<Vec<ArrayRef>>;

    /// The same rows in blocks and runs, if the table has a copy of the columns at `columns` that costs less to read.
    /// Other columns may be missing there. Only a caller that is about to read most rows should ask, because a table
    /// gets a copy when this was called several times.
    fn column_copy(&self, columns: &[usize]) -> Option<Arc<dyn TableSource>> {
        let _ = columns;
        None
    }

    /// Whether [`KeyedSource::column_copy`] would return a copy. May be called by anyone, for example for EXPLAIN.
    fn has_column_copy(&self, columns: &[usize]) -> bool {
        let _ = columns;
        false
    }
}

/// A scan of a keyed table in progress.
pub trait KeyedRows: Send {
    /// Replaces `keys` and `rows` by the next rows, at most `rows_max`. They are empty at the end.
    fn next(&mut self, rows_max: usize, keys: &mut ByteRows, rows: &mut ByteRows) -> Result<()>;

    /// Hands the next rows, at most `rows_max`, to `take`, where they are stored, or as a copy if the source cannot do
    /// that. Returns the number of rows; 0 means that there are no more. `take` must not read the table.
    fn next_in_place(&mut self, rows_max: usize, take: &mut RowRunTaker<'_>) -> Result<usize> {
        let (mut keys, mut rows) = (ByteRows::new(), ByteRows::new());
        self.next(rows_max, &mut keys, &mut rows)?;
        if !keys.is_empty() {
            take(&keys.iter().collect::<Vec<_>>(), &rows.iter().collect::<Vec<_>>())?;
        }
        Ok(keys.len())
    }
}

/// Takes consecutive rows: their keys and their bytes.
pub type RowRunTaker<'t> = dyn FnMut(&[&[u8]], &[&[u8]]) -> Result<()> + 't;

/// Selects rows of a keyed table: the first parts of the key must equal some values, and the next part must be within
/// bounds. For example, `a = 1 AND b > 5` for a key on `(a, b)`.
#[derive(Clone, Debug, PartialEq)]
pub struct KeyBounds<'a> {
    /// The index of the key. `None` for the primary key.
    pub index: Option<IndexId>,
    /// The values of the first parts.
    pub equal: Vec<ValueRef<'a>>,
    /// The lower bound of the next part.
    pub lower: Bound<ValueRef<'a>>,
    /// The upper bound of the next part.
    pub upper: Bound<ValueRef<'a>>,
}

impl KeyBounds<'_> {
    /// All rows, in the order of the primary key.
    pub const ALL: KeyBounds<'static> =
        KeyBounds { index: None, equal: Vec::new(), lower: Bound::Unbounded, upper: Bound::Unbounded };
}

/// Several ranges of one key of a keyed table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRanges {
    /// The index of the key. `None` for the primary key.
    pub index: Option<IndexId>,
    /// The ranges in the order of their keys. They must not overlap.
    pub ranges: Vec<KeyRange>,
    /// Whether each range is exactly one primary key, the one at its start.
    pub are_points: bool,
    /// The order in which the rows are returned.
    pub order: KeyOrder,
}

/// The order in which rows are read by a key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KeyOrder {
    /// In the order of the key, except that rows of an index with long values that begin alike come in any order.
    #[default]
    Any,
    /// In the order of the key.
    Forward,
    /// In the reverse order of the key, beginning with the last range.
    Backward,
}
