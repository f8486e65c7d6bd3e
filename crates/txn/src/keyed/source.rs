//! A keyed table as the engine scans it.

use std::sync::Arc;

use arrow::array::ArrayRef;
use rowmill_base::Result;
use rowmill_storage::keyed::{ByteRows, KeyRange};
use rowmill_storage::{KeyBounds, KeyedRows, KeyedSource};

use super::cursor::{KeyedCursor, RowBatch};
use super::index_scan::IndexOrder;
use super::reader::KeyedView;
use super::table_codec::TableCodec;
use crate::keyed_rows::{cursor, next_rows};

/// Rows that are counted where a plan depends on how many there are: they take some milliseconds, once in a while.
const ROWS_COUNTED_MAX: u64 = 100_000;
/// How many times as many there are, as far as plans go, if there are more.
const BEYOND: u64 = 10;
/// Rows that are read at a time.
const ROWS_AT_ONCE: usize = 1024;

/// The rows of one keyed table.
#[derive(Clone, Debug)]
pub(crate) struct KeyedTable {
    view: KeyedView,
    codec: Result<Arc<TableCodec>>,
}

impl KeyedTable {
    /// Without a codec its rows cannot be read, which is said when they are.
    pub(crate) fn new(view: KeyedView, codec: Result<Arc<TableCodec>>) -> KeyedTable {
        KeyedTable { view, codec }
    }

    /// How many rows there are, if they are not more than so many: a guess otherwise, or where they cannot be read.
    fn count(&self, rows_max: u64) -> u64 {
        let Ok(mut rows) = self.read(&KeyBounds::ALL) else { return 0 };
        let (mut keys, mut values, mut count) = (ByteRows::new(), ByteRows::new(), 0);
        while count < rows_max {
            match rows.next(ROWS_AT_ONCE, &mut keys, &mut values) {
                Ok(()) if !keys.is_empty() => count += keys.len() as u64,
                _ => return count,
            }
        }
        rows_max * BEYOND
    }

    fn codec(&self) -> Result<&TableCodec> {
        self.codec.as_deref().map_err(Clone::clone)
    }
}

impl KeyedSource for KeyedTable {
    fn rows_about(&self) -> u64 {
        let count = || self.count(ROWS_COUNTED_MAX);
        self.codec().map_or(0, |codec| self.view.state().store().row_counts().get(codec.row_index(), count))
    }

    fn read(&self, bounds: &KeyBounds<'_>) -> Result<Box<dyn KeyedRows>> {
        let codec = self.codec()?;
        let (head, keys) = codec.keys(bounds.index)?;
        let mut range = KeyRange::default();
        keys.range(head, &bounds.equal, bounds.lower, bounds.upper, &mut range)?;
        let cursor = cursor(codec, bounds.index, range, false, IndexOrder::Kept)?;
        Ok(Box::new(Reading { table: self.clone(), cursor, batch: RowBatch::default() }))
    }

    fn decode(&self, keys: &ByteRows, rows: &ByteRows, columns: &[usize]) -> Result<Vec<ArrayRef>> {
        self.codec()?.decode(keys, rows, columns)
    }
}

/// Rows of a table up to some place.
struct Reading {
    table: KeyedTable,
    cursor: KeyedCursor,
    batch: RowBatch,
}

impl KeyedRows for Reading {
    fn next(&mut self, rows_max: usize, keys: &mut ByteRows, rows: &mut ByteRows) -> Result<()> {
        self.batch.swap(keys, rows);
        let read =
            next_rows(self.table.codec()?, &self.table.view.reader(), &mut self.cursor, rows_max, &mut self.batch);
        self.batch.swap(keys, rows);
        read
    }
}
