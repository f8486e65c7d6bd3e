//! Rows of keyed tables in a transaction and in a snapshot: found by key, and read in order.

use std::sync::Arc;

use rowmill_base::{Error, IndexId, Result, TableId};
use rowmill_storage::keyed::{KeyRange, ValueRef};

use crate::keyed::{CursorPlace, IndexOrder, KeyedCursor, KeyedRow, KeyedView, Reader, RowBatch, TableCodec};
use crate::snapshot::Snapshot;
use crate::transaction::Transaction;

impl Transaction {
    /// Makes keys and rows of the table's values and reads them. `WrongObject` if it is not a keyed table.
    pub fn keyed_codec(&self, table: TableId) -> Result<Arc<TableCodec>> {
        self.changes.catalog.codec(table)
    }

    /// Reads what the transaction sees of keyed tables, its own writes among it.
    pub fn reader(&self) -> Reader<'_> {
        self.unnoted_reader().noting(self.noted_reads().map(|reads| &**reads))
    }

    /// The same, of which nothing is noted: what is found is written, or noted, by the caller.
    pub(crate) fn unnoted_reader(&self) -> Reader<'_> {
        Reader::over(&self.base.keyed, self.keyed.as_deref(), &self.base_reader)
    }

    /// The same, as it is now: to be held while the transaction goes on writing.
    pub fn keyed_view(&self) -> KeyedView {
        KeyedView::new(&self.base.keyed, self.keyed.as_ref(), self.noted_reads())
    }

    /// The row whose primary key has the values `key`, as the transaction sees it.
    pub fn get(&self, table: TableId, key: &[ValueRef<'_>]) -> Result<Option<KeyedRow>> {
        get(&*self.keyed_codec(table)?, &self.reader(), key)
    }

    /// A place at the beginning of `range`, or at its end to be read backward: keys of rows, or whole ones of `index`, behind the
    /// head of the index ([`TableCodec::keys`]). A range beyond those keys is cut; the default one has all.
    pub fn keyed_cursor(
        &self,
        table: TableId,
        index: Option<IndexId>,
        range: KeyRange,
        backward: bool,
    ) -> Result<KeyedCursor> {
        cursor(&*self.keyed_codec(table)?, index, range, backward, IndexOrder::Values)
    }

    /// The same, of rows that may come in any order, and the keys that it reads: all of `range`, and perhaps more, where an index
    /// shortens them.
    pub(crate) fn unordered_cursor(
        &self,
        codec: &TableCodec,
        index: Option<IndexId>,
        range: KeyRange,
    ) -> Result<(KeyedCursor, KeyRange)> {
        let cursor = cursor(codec, index, range.clone(), false, IndexOrder::Kept)?;
        let kept = match &cursor.place {
            CursorPlace::Rows(_) => range,
            CursorPlace::Index(scan) => scan.kept().clone(),
        };
        Ok((cursor, kept))
    }

    /// Fills `rows` with the next rows of the table, `rows_max` at most; with none at the end of the range.
    pub fn next_rows(&self, cursor: &mut KeyedCursor, rows_max: usize, rows: &mut RowBatch) -> Result<()> {
        let codec = self.keyed_codec(cursor.table)?;
        next_rows(&codec, &self.reader(), cursor, rows_max, rows)
    }
}

impl Snapshot {
    /// Makes keys and rows of a table's values and reads them.
    pub fn keyed_codec(&self, table: TableId) -> Result<Arc<TableCodec>> {
        self.catalog.codec(table)
    }

    /// Reads what the snapshot sees of keyed tables.
    pub fn reader(&self) -> Reader<'_> {
        Reader::of(&self.keyed, self.own.as_deref()).noting(self.reads.as_deref())
    }

    /// The same, to be held beyond the snapshot.
    pub fn keyed_view(&self) -> KeyedView {
        KeyedView::new(&self.keyed, self.own.as_ref(), self.reads.as_ref())
    }

    /// As [`Transaction::get`].
    pub fn get(&self, codec: &TableCodec, key: &[ValueRef<'_>]) -> Result<Option<KeyedRow>> {
        get(codec, &self.reader(), key)
    }

    /// As [`Transaction::keyed_cursor`].
    pub fn keyed_cursor(
        &self,
        codec: &TableCodec,
        index: Option<IndexId>,
        range: KeyRange,
        backward: bool,
    ) -> Result<KeyedCursor> {
        cursor(codec, index, range, backward, IndexOrder::Values)
    }

    /// As [`Transaction::next_rows`].
    pub fn next_rows(
        &self,
        codec: &TableCodec,
        cursor: &mut KeyedCursor,
        rows_max: usize,
        rows: &mut RowBatch,
    ) -> Result<()> {
        next_rows(codec, &self.reader(), cursor, rows_max, rows)
    }
}

fn get(codec: &TableCodec, reader: &Reader<'_>, key: &[ValueRef<'_>]) -> Result<Option<KeyedRow>> {
    let mut found = KeyedRow { key: codec.key_of(key)?, row: Vec::new() };
    Ok(reader.get(&found.key, &mut found.row)?.then_some(found))
}

pub(crate) fn cursor(
    codec: &TableCodec,
    index: Option<IndexId>,
    range: KeyRange,
    backward: bool,
    order: IndexOrder,
) -> Result<KeyedCursor> {
    let place = match index {
        None => CursorPlace::Rows(Box::default()),
        Some(_) => CursorPlace::Index(Box::default()),
    };
    let mut cursor = KeyedCursor { table: codec.def().id, place };
    restart(codec, index, &mut cursor, range, backward, order, usize::MAX)?;
    Ok(cursor)
}

/// Has a cursor of the same index go to the beginning of another range. `first` is how many rows will be asked for, as far as is
/// known.
pub(crate) fn restart(
    codec: &TableCodec,
    index: Option<IndexId>,
    cursor: &mut KeyedCursor,
    mut range: KeyRange,
    backward: bool,
    order: IndexOrder,
    first: usize,
) -> Result<()> {
    let all = KeyRange::of_prefix(codec.keys(index)?.0);
    if range.start < all.start {
        range.start = all.start;
    }
    if range.end.is_empty() || range.end > all.end {
        range.end = all.end;
    }
    match (&mut cursor.place, index) {
        (CursorPlace::Rows(scan), _) => scan.start(&range.start, &range.end, backward, first),
        (CursorPlace::Index(scan), Some(index)) => scan.start(codec, index, &range, backward, first, order)?,
        (CursorPlace::Index(_), None) => return Err(Error::internal("a cursor of an index among the rows")),
    }
    Ok(())
}

pub(crate) fn next_rows(
    codec: &TableCodec,
    reader: &Reader<'_>,
    cursor: &mut KeyedCursor,
    rows_max: usize,
    rows: &mut RowBatch,
) -> Result<()> {
    let scan = match &mut cursor.place {
        CursorPlace::Rows(scan) => return rows.fill(scan, reader, rows_max),
        CursorPlace::Index(scan) => scan,
    };
    rows.clear();
    while rows.len() < rows_max
        && let Some((key, row)) = scan.next_row(codec, reader)?
    {
        rows.push(key, row);
    }
    Ok(())
}
