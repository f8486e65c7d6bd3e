//! A keyed table as the engine scans it.

use std::sync::Arc;

use arrow::array::ArrayRef;
use rowmill_base::Result;
use rowmill_storage::keyed::{ByteRows, KeyRange};
use rowmill_storage::{KeyBounds, KeyedRows, KeyedSource, TableDef};

use super::cursor::{KeyedCursor, RowBatch, Sources};
use super::store::KeyedState;
use super::table_codec::TableCodec;
use super::write_set::WriteSet;
use crate::keyed_rows::{cursor, next_rows};

/// What a snapshot has of all keyed tables, with what a transaction has written over it.
#[derive(Clone, Debug)]
pub(crate) struct KeyedView {
    pub(crate) state: Arc<KeyedState>,
    pub(crate) own: Option<Arc<WriteSet>>,
}

impl KeyedView {
    fn sources(&self) -> Sources<'_> {
        Sources { state: &self.state, own: self.own.as_deref() }
    }
}

/// The rows of one keyed table.
#[derive(Clone, Debug)]
pub(crate) struct KeyedTable {
    view: KeyedView,
    codec: Arc<TableCodec>,
}

impl KeyedTable {
    pub(crate) fn new(view: KeyedView, def: &Arc<TableDef>) -> KeyedTable {
        let codec = TableCodec::new(def).expect("the codec of a definition was made when that was");
        KeyedTable { view, codec: Arc::new(codec) }
    }
}

impl KeyedSource for KeyedTable {
    fn rows_about(&self) -> u64 {
        1000
    }

    fn read(&self, bounds: &KeyBounds<'_>) -> Result<Box<dyn KeyedRows>> {
        let (head, keys) = self.codec.keys(bounds.index)?;
        let mut range = KeyRange::default();
        keys.range(head, &bounds.equal, bounds.lower, bounds.upper, &mut range)?;
        let cursor = cursor(&self.codec, &self.view.state, bounds.index, range, false)?;
        Ok(Box::new(Reading { table: self.clone(), cursor, batch: RowBatch::default() }))
    }

    fn decode(&self, keys: &ByteRows, rows: &ByteRows, columns: &[usize]) -> Result<Vec<ArrayRef>> {
        self.codec.decode(keys, rows, columns)
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
        next_rows(&self.table.codec, self.table.view.sources(), &mut self.cursor, rows_max, &mut self.batch)?;
        self.batch.swap(keys, rows);
        Ok(())
    }
}
