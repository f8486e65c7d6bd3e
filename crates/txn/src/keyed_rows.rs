//! Reads of keyed tables by transactions and snapshots: by key and in order.

use std::sync::Arc;

use rowmill_base::{Error, IndexId, Result, TableId};
use rowmill_storage::keyed::{KeyRange, ValueRef};

use crate::keyed::{CursorPlace, IndexOrder, KeyedCursor, KeyedReader, KeyedRow, KeyedView, RowBatch, TableCodec};
use crate::snapshot::Snapshot;
use crate::transaction::Transaction;

impl Transaction {
    /// The codec of the table, which encodes and decodes its keys and rows. Returns `WrongObject` if the table is not
    /// keyed.
    pub fn keyed_codec(&self, table: TableId) -> Result<Arc<TableCodec>> {
        self.changes.catalog.codec(table)
    }

    /// A reader of keyed tables that sees the transaction's own writes. Under SERIALIZABLE it records its reads.
    pub fn reader(&self) -> KeyedReader<'_> {
        self.unnoted_reader().noting(self.noted_reads().map(|reads| &**reads))
    }

    /// A reader that records nothing. The caller must record the reads itself, or write the keys that it finds.
    pub(crate) fn unnoted_reader(&self) -> KeyedReader<'_> {
        KeyedReader::over(&self.base.keyed, self.keyed.as_deref(), &self.base_reader)
    }

    /// The keyed tables as the transaction sees them now. The view can be held while the transaction goes on writing.
    pub fn keyed_view(&self) -> KeyedView {
        KeyedView::new(&self.base.keyed, self.keyed.as_ref(), self.noted_reads())
    }

    /// Returns the row whose primary key has the values `key`, as the transaction sees it.
    pub fn get(&self, table: TableId, key: &[ValueRef<'_>]) -> Result<Option<KeyedRow>> {
        get(&*self.keyed_codec(table)?, &self.reader(), key)
    }

    /// A cursor at the start of `range`, or at its end if it reads backward. The range is one of row keys, or of whole
    /// keys of `index`, and includes the head of the index ([`TableCodec::keys`]). It is cut to those keys, so the
    /// default range has all of them.
    pub fn keyed_cursor(
        &self,
        table: TableId,
        index: Option<IndexId>,
        range: KeyRange,
        backward: bool,
    ) -> Result<KeyedCursor> {
        cursor(&*self.keyed_codec(table)?, index, range, backward, IndexOrder::Values)
    }

    /// A cursor that may return rows in any order, together with the range of keys that it reads. That range covers
    /// `range` and is larger if the index shortens its keys.
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

    /// Fills `rows` with at most `rows_max` next rows of the table. At the end of the range, `rows` is empty.
    pub fn next_rows(&self, cursor: &mut KeyedCursor, rows_max: usize, rows: &mut RowBatch) -> Result<()> {
        let codec = self.keyed_codec(cursor.table)?;
        next_rows(&codec, &self.reader(), cursor, rows_max, rows)
    }
}

impl Snapshot {
    /// The codec of the table, which encodes and decodes its keys and rows. Returns `WrongObject` if the table is not
    /// keyed.
    pub fn keyed_codec(&self, table: TableId) -> Result<Arc<TableCodec>> {
        self.catalog.codec(table)
    }

    /// A reader of keyed tables in this snapshot.
    pub fn reader(&self) -> KeyedReader<'_> {
        KeyedReader::of(&self.keyed, self.own.as_deref()).noting(self.reads.as_deref())
    }

    /// The keyed tables in this snapshot, for callers that keep them longer than the snapshot.
    pub fn keyed_view(&self) -> KeyedView {
        KeyedView::new(&self.keyed, self.own.as_ref(), self.reads.as_ref())
    }

    /// Returns the row whose primary key has the values `key`, as the snapshot sees it.
    pub fn get(&self, codec: &TableCodec, key: &[ValueRef<'_>]) -> Result<Option<KeyedRow>> {
        get(codec, &self.reader(), key)
    }

    /// A cursor at the start of `range`, or at its end if it reads backward. See [`Transaction::keyed_cursor`] for the
    /// range.
    pub fn keyed_cursor(
        &self,
        codec: &TableCodec,
        index: Option<IndexId>,
        range: KeyRange,
        backward: bool,
    ) -> Result<KeyedCursor> {
        cursor(codec, index, range, backward, IndexOrder::Values)
    }

    /// Fills `rows` with at most `rows_max` next rows of the table. At the end of the range, `rows` is empty.
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

fn get(codec: &TableCodec, reader: &KeyedReader<'_>, key: &[ValueRef<'_>]) -> Result<Option<KeyedRow>> {
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

/// Moves a cursor to the start of another range of the same index. `first` is the number of rows that the caller
/// expects to read, if it knows.
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
        (CursorPlace::Index(_), None) => return Err(Error::internal("a cursor of an index cannot read rows")),
    }
    Ok(())
}

pub(crate) fn next_rows(
    codec: &TableCodec,
    reader: &KeyedReader<'_>,
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
