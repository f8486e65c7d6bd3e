//! What the engine scans: the one border between storage and execution.

use std::fmt::Debug;
use std::ops::Bound;
use std::sync::Arc;

use arrow::array::ArrayRef;
use rowmill_base::{IndexId, Result};

use crate::block::Block;
use crate::keyed::{ByteRows, KeyRange, ValueRef};
use crate::open_run::OpenRun;
use crate::schema::TableDef;
use crate::statistics::TableStatistics;

/// The rows of a table in one snapshot.
pub trait TableSource: Send + Sync + Debug {
    /// The definition that the rows are read by.
    fn table(&self) -> &Arc<TableDef>;

    /// Sealed blocks with their deletes, in the order of their row numbers.
    fn blocks(&self) -> &[Arc<Block>];

    /// Recent rows, read by rows, in the order of their row numbers.
    fn runs(&self) -> &[Arc<OpenRun>];

    /// The rows of a keyed table, which has neither blocks nor runs.
    fn keyed(&self) -> Option<&dyn KeyedSource> {
        None
    }

    /// What ANALYZE has found out about the values of a keyed table.
    fn statistics(&self) -> Option<&TableStatistics> {
        self.keyed()?.statistics()
    }

    /// Rows that are not deleted; of a keyed table about so many.
    fn row_count(&self) -> u64 {
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
    /// How many there are, about.
    fn rows_about(&self) -> u64;

    /// What was found out about their values, if anything was.
    fn statistics(&self) -> Option<&TableStatistics> {
        None
    }

    /// Begins to read the rows within `bounds`, in the order of their keys; by an index, rows whose values are long and begin
    /// alike as they are found.
    fn read(&self, bounds: &KeyBounds<'_>) -> Result<Box<dyn KeyedRows>>;

    /// The keys within `bounds`, as bytes that are in the order of the key: for [`KeyedSource::read_ranges`].
    fn range_of(&self, bounds: &KeyBounds<'_>) -> Result<KeyRange>;

    /// Begins to read the rows of several ranges, one range after the other.
    fn read_ranges(&self, ranges: KeyRanges) -> Result<Box<dyn KeyedRows>>;

    /// Values of rows that were read: the columns at `columns` of the table.
    fn decode(&self, keys: &ByteRows, rows: &ByteRows, columns: &[usize]) -> Result<Vec<ArrayRef>>;
}

/// Rows of a keyed table that are being read.
pub trait KeyedRows: Send {
    /// Has `keys` and `rows` hold the next rows, `rows_max` at most; none at the end.
    fn next(&mut self, rows_max: usize, keys: &mut ByteRows, rows: &mut ByteRows) -> Result<()>;
}

/// Which rows of a keyed table: those whose first parts of a key have some values, and whose next part lies within bounds.
#[derive(Clone, Debug, PartialEq)]
pub struct KeyBounds<'a> {
    /// The index whose key it is; none for the primary key.
    pub index: Option<IndexId>,
    /// What the first parts are equal to.
    pub equal: Vec<ValueRef<'a>>,
    /// What the next part is at least, or greater than.
    pub lower: Bound<ValueRef<'a>>,
    /// What the next part is at most, or less than.
    pub upper: Bound<ValueRef<'a>>,
}

impl KeyBounds<'_> {
    /// All rows, by the primary key.
    pub const ALL: KeyBounds<'static> =
        KeyBounds { index: None, equal: Vec::new(), lower: Bound::Unbounded, upper: Bound::Unbounded };
}

/// Several ranges of one key of a keyed table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRanges {
    /// The index whose key it is; none for the primary key.
    pub index: Option<IndexId>,
    /// The ranges in the order of their keys; none has keys of another one.
    pub ranges: Vec<KeyRange>,
    /// Whether each range is one whole primary key, which is where it starts.
    pub are_points: bool,
    /// The order in which the rows come.
    pub order: KeyOrder,
}

/// The order in which rows are read by a key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KeyOrder {
    /// That of the key, but for rows of an index whose values are long and begin alike: those come as they are found.
    #[default]
    Any,
    /// That of the key.
    Forward,
    /// That of the key from its end, the last range first.
    Backward,
}
