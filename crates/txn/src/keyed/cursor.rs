//! Reads the rows of a range of a table in batches.

use rowmill_base::{Result, TableId};
use rowmill_storage::keyed::ByteRows;

use super::index_scan::IndexScan;
use super::range_scan::RangeScan;
use super::reader::KeyedReader;

/// The most rows that are copied in one look-up. A checkpoint waits for the look-up.
const ROWS_AT_ONCE: usize = 4096;

/// A row of a keyed table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyedRow {
    /// The key, including the head of its table.
    pub key: Vec<u8>,
    /// The columns outside of the key.
    pub row: Vec<u8>,
}

/// Keys with their rows. A batch should be filled again and again, because it keeps its memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RowBatch {
    keys: ByteRows,
    rows: ByteRows,
}

impl RowBatch {
    /// The number of rows.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Whether the batch has no rows.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// The keys, including the head of their index.
    pub fn keys(&self) -> &ByteRows {
        &self.keys
    }

    /// The columns outside of the keys.
    pub fn rows(&self) -> &ByteRows {
        &self.rows
    }

    /// Exchanges the content of the batch with other keys and rows.
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

    /// Replaces the content by the next keys of `scan`, at most `keys_max`. Fewer mean that the range is at its end.
    pub(crate) fn fill(&mut self, scan: &mut RangeScan, reader: &KeyedReader<'_>, keys_max: usize) -> Result<()> {
        self.clear();
        while self.len() < keys_max {
            // Rows of a run need no copy in between.
            let rows_max = (keys_max - self.len()).min(ROWS_AT_ONCE);
            let passed = scan.take_run(reader, rows_max, &mut |keys, rows| {
                keys.iter().zip(rows).for_each(|(key, row)| self.push(key, row));
                Ok(())
            })?;
            match passed {
                Some(0) => break,
                Some(_) => continue,
                None => {}
            }
            let Some((key, row)) = scan.next(reader)? else { break };
            self.push(key, row);
        }
        Ok(())
    }
}

/// A position in a range of a table's rows, in the order of the primary key or of an index. It holds no lock and no
/// read between calls: its owner continues with it, and sees what the transaction wrote in the meantime to keys that
/// are still to come.
#[derive(Debug)]
pub struct KeyedCursor {
    pub(crate) table: TableId,
    pub(crate) place: CursorPlace,
}

/// The position of a [`KeyedCursor`].
#[derive(Debug)]
pub(crate) enum CursorPlace {
    /// In the rows.
    Rows(Box<RangeScan>),
    /// In the entries of an index.
    Index(Box<IndexScan>),
}
