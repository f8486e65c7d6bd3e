//! Rows of a range of a table, in batches.

use rowmill_base::{Result, TableId};
use rowmill_storage::keyed::ByteRows;

use super::index_scan::IndexScan;
use super::range_scan::RangeScan;
use super::reader::Reader;

/// A row of a keyed table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyedRow {
    /// Its key, behind the head of its table's keys.
    pub key: Vec<u8>,
    /// The columns outside of the key.
    pub row: Vec<u8>,
}

/// Keys with their rows. Made to be filled again and again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RowBatch {
    keys: ByteRows,
    rows: ByteRows,
}

impl RowBatch {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// The keys, behind the head of their index's keys.
    pub fn keys(&self) -> &ByteRows {
        &self.keys
    }

    /// The columns outside of the keys.
    pub fn rows(&self) -> &ByteRows {
        &self.rows
    }

    /// Exchanges what it holds for other keys and rows.
    pub(crate) fn swap(&mut self, keys: &mut ByteRows, rows: &mut ByteRows) {
        std::mem::swap(&mut self.keys, keys);
        std::mem::swap(&mut self.rows, rows);
    }

    pub(crate) fn clear(&mut self) {
        self.keys.clear();
        self.rows.clear();
    }

    pub(crate) fn push(&mut self, key: &[u8], row: &[u8]) {
        self.keys.push(key);
        self.rows.push(row);
    }

    /// Takes the next keys of `scan`, `keys_max` at most; fewer only at the end of the range.
    pub(crate) fn fill(&mut self, scan: &mut RangeScan, reader: &Reader<'_>, keys_max: usize) -> Result<()> {
        self.clear();
        while self.len() < keys_max
            && let Some((key, row)) = scan.next(reader)?
        {
            self.push(key, row);
        }
        Ok(())
    }
}

/// A place in a range of a table's rows, in the order of the primary key or of an index. It holds nothing: who has made it
/// reads on with it, and sees what was written meanwhile to keys that are yet to come.
#[derive(Debug)]
pub struct KeyedCursor {
    pub(crate) table: TableId,
    pub(crate) place: CursorPlace,
}

/// Where it is.
#[derive(Debug)]
pub(crate) enum CursorPlace {
    /// Among the rows.
    Rows(Box<RangeScan>),
    /// Among the entries of an index.
    Index(Box<IndexScan>),
}
