//! Inserts, updates and deletes of rows of keyed tables by a transaction, together with their index entries.
//!
//! A transaction collects its writes in its [`WriteSet`], rows and index entries alike, and they become part of its
//! commit. A call that fails leaves the transaction as it was before the call.

use std::sync::Arc;

use arrow::array::RecordBatch;
use rowmill_base::{Error, ErrorKind, Result, TableId};
use rowmill_storage::keyed::{KeyRange, ValueRef};

use crate::commit::conflict;
use crate::keyed::write_set::{WriteSet, Written};
use crate::keyed::{
    HEAD_BYTES, IndexCodec, KeyedReader, KeyedRow, RangeScan, RowReader, TableCodec, WriteBuffers, column_values,
    index_of,
};
use crate::references::differ;
use crate::transaction::Transaction;

/// A point to which the keyed writes of a transaction can be undone. It is enough for a statement that only writes
/// keyed rows. Taking it costs nothing, unlike a [`Savepoint`](crate::Savepoint).
#[derive(Clone, Copy, Debug, Default)]
pub struct KeyedMark {
    written: usize,
    unsettled: usize,
}

impl KeyedMark {
    /// The mark in the write set.
    pub(crate) fn written(self) -> usize {
        self.written
    }
}

/// The result of looking up a key that is about to be inserted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Look {
    /// A row with this key exists.
    There,
    Absent,
    /// No row has this key, and it comes after all keys that the transaction has written to this index. Holds the
    /// position of the index in the write set.
    Behind(usize),
}

/// Memory is reserved in pieces of this many bytes.
const GRANT_BYTES: u64 = 16 << 10;

impl Transaction {
    /// Inserts a row. `values` must have all columns in the order of the table that `codec` belongs to.
    ///
    /// Returns `UniqueViolation` if the transaction sees a row with its primary key, or with its values in a unique
    /// index. Returns `KeyTooLong` if a key is longer than the base allows. Returns `NotNullViolation`, `StringTooLong`
    /// or `NumericOutOfRange` for invalid values. Returns `SerializationFailure` if the codec belongs to another
    /// definition than the transaction sees.
    pub fn insert_values(&mut self, codec: &Arc<TableCodec>, values: &[ValueRef<'_>]) -> Result<()> {
        self.start_keyed_change(codec)?;
        self.whole(|transaction, buffers| transaction.put_new(codec, values, buffers))
    }

    /// Replaces a row that the transaction sees by a row with other values, whose primary key may differ. Only indexes
    /// with changed columns are written. Errors are those of [`Transaction::insert_values`].
    pub fn update_values(
        &mut self,
        codec: &Arc<TableCodec>,
        old_key: &[u8],
        old_row: &[u8],
        values: &[ValueRef<'_>],
    ) -> Result<()> {
        self.start_keyed_change(codec)?;
        self.whole(|transaction, buffers| {
            codec.encode_row(values, &mut buffers.key, &mut buffers.row)?;
            if buffers.key == old_key {
                transaction.put_changed(codec, old_row, |_| true, buffers)?;
                return transaction.note_changed(codec, old_row, values, buffers);
            }
            // With another primary key, this is a delete and an insert. Every index entry holds the key, so all of them
            // change.
            transaction.remove(codec, old_key, old_row, buffers)?;
            transaction.put_new(codec, values, buffers)?;
            transaction.note_parent(codec, (old_key, old_row), Some((&buffers.key, &buffers.row)));
            Ok(())
        })
    }

    /// Replaces a row that the transaction sees by a row with other values in `columns`. `values` has all columns of
    /// the table. If the columns [stay in place](TableCodec::stays_in_place), only those of `columns` are read. Errors
    /// are those of [`Transaction::insert_values`].
    pub fn update_columns(
        &mut self,
        codec: &Arc<TableCodec>,
        key: &[u8],
        old_row: &[u8],
        columns: &[usize],
        values: &[ValueRef<'_>],
    ) -> Result<()> {
        if !codec.stays_in_place(columns) {
            return self.update_values(codec, key, old_row, values);
        }
        self.start_keyed_change(codec)?;
        self.whole(|transaction, buffers| {
            codec.encode_changes(old_row, columns, values, &mut buffers.row)?;
            buffers.key.clear();
            buffers.key.extend_from_slice(key);
            let is_assigned = |index: &IndexCodec| index.columns.iter().any(|column| columns.contains(column));
            transaction.put_changed(codec, old_row, is_assigned, buffers)
        })
    }

    /// Deletes a row that the transaction sees.
    pub fn delete_values(&mut self, codec: &Arc<TableCodec>, key: &[u8], row: &[u8]) -> Result<()> {
        self.start_keyed_change(codec)?;
        self.whole(|transaction, buffers| {
            transaction.remove(codec, key, row, buffers)?;
            transaction.note_parent(codec, (key, row), None);
            Ok(())
        })
    }

    /// Removes a row that the transaction sees and that will be put back with other values by
    /// [`Transaction::put_back`]. A statement that changes keys of several rows takes out all of them first, because a
    /// row may take the key of another one.
    pub fn take_out(&mut self, codec: &Arc<TableCodec>, key: &[u8], row: &[u8]) -> Result<()> {
        self.start_keyed_change(codec)?;
        self.whole(|transaction, buffers| transaction.remove(codec, key, row, buffers))
    }

    /// Puts back the row `old` that was removed by [`Transaction::take_out`], with other values. Errors are those of
    /// [`Transaction::insert_values`].
    pub fn put_back(&mut self, codec: &Arc<TableCodec>, old: (&[u8], &[u8]), values: &[ValueRef<'_>]) -> Result<()> {
        self.start_keyed_change(codec)?;
        self.whole(|transaction, buffers| {
            transaction.put_new(codec, values, buffers)?;
            transaction.note_parent(codec, old, Some((&buffers.key, &buffers.row)));
            Ok(())
        })
    }

    /// Inserts a row. `values` must have all columns of the table. Errors are those of [`Transaction::insert_values`].
    pub fn insert_row(&mut self, table: TableId, values: &[ValueRef<'_>]) -> Result<()> {
        let codec = self.keyed_codec(table)?;
        self.insert_values(&codec, values)
    }

    /// Inserts the rows of a batch, whose columns must be those of the table.
    pub(crate) fn insert_keyed(&mut self, table: TableId, batch: &RecordBatch) -> Result<()> {
        let codec = self.keyed_codec(table)?;
        let columns = column_values(codec.def(), batch)?;
        self.start_keyed_change(&codec)?;
        self.whole(|transaction, buffers| {
            let mut values = Vec::with_capacity(columns.len());
            (0..batch.num_rows()).try_for_each(|row| {
                values.clear();
                values.extend(columns.iter().map(|column| column.get(row)));
                transaction.put_new(&codec, &values, buffers)
            })
        })
    }

    /// Replaces the row `old`, which the transaction sees. Errors are those of [`Transaction::insert_values`].
    pub fn update_row(&mut self, table: TableId, old: &KeyedRow, values: &[ValueRef<'_>]) -> Result<()> {
        let codec = self.keyed_codec(table)?;
        self.update_values(&codec, &old.key, &old.row, values)
    }

    /// Deletes the row `old`, which the transaction sees.
    pub(crate) fn delete_row(&mut self, table: TableId, old: &KeyedRow) -> Result<()> {
        let codec = self.keyed_codec(table)?;
        self.delete_values(&codec, &old.key, &old.row)
    }

    /// Deletes the row whose primary key has the values `key`. Returns whether there was one.
    pub fn delete_by_key(&mut self, table: TableId, key: &[ValueRef<'_>]) -> Result<bool> {
        let old = self.get(table, key)?;
        old.map_or(Ok(false), |old| self.delete_row(table, &old).map(|()| true))
    }

    /// Adds the entry of a row that the transaction sees to an index that is being created.
    pub(crate) fn put_entry_of_row(
        &mut self,
        codec: &Arc<TableCodec>,
        index: &IndexCodec,
        key: &[u8],
        row: &[u8],
    ) -> Result<()> {
        self.start_keyed_change(codec)?;
        self.whole(|transaction, buffers| {
            let WriteBuffers { entry, value, .. } = &mut *buffers;
            let read = codec.row(key, row)?;
            codec.entry_of_row(index, &read, key, entry, value)?;
            let columns = |columns: &mut Vec<u8>| index.columns_of_row(&read, columns, &mut Vec::new());
            transaction.put_entry(codec, index, columns, buffers)
        })
    }

    /// Forgets all writes to keys that begin with `prefix`.
    pub(crate) fn clear_keyed(&mut self, prefix: &[u8]) {
        if self.keyed.is_some() {
            self.write_set().clear(prefix);
        }
    }

    /// Starts a change through `codec`. Returns an error if the transaction sees another definition than the codec was
    /// made for.
    fn start_keyed_change(&mut self, codec: &Arc<TableCodec>) -> Result<()> {
        self.start_change()?;
        let catalog = &self.changes.catalog;
        let version = catalog.version();
        if self.keyed.as_ref().is_some_and(|written| written.is_noted(codec, version)) {
            return Ok(());
        }
        if !catalog.table_by_id(codec.def().id).is_some_and(|seen| Arc::ptr_eq(seen, codec.def())) {
            return Err(conflict(format!(
                "the definition of table \"{}\" was changed by another transaction",
                codec.def().name
            )));
        }
        self.write_set().note_codec(codec, version);
        Ok(())
    }

    /// The write set, for writing. If a view shares it, the transaction gets a copy of its own.
    #[inline]
    fn write_set(&mut self) -> &mut WriteSet {
        if self.keyed.is_none() {
            let (keyed, buffers) = self.base.keyed.store().take_write_set();
            (self.keyed, self.write_buffers) = (Some(keyed), Some(buffers));
        }
        Arc::make_mut(self.keyed.as_mut().expect("it exists from the first write on"))
    }

    /// Writes an index entry.
    fn put(&mut self, key: &[u8], row: Written<'_>) {
        self.put_row(key, row, 0);
    }

    /// Writes a row and adds `rows` to the row count of its table.
    fn put_row(&mut self, key: &[u8], row: Written<'_>, rows: i8) {
        let snapshot = self.base.keyed.commit();
        self.write_set().put(key, row, snapshot, rows);
    }

    /// Runs `change` completely or undoes it, and reserves the memory that it needs.
    fn whole(&mut self, change: impl FnOnce(&mut Self, &mut WriteBuffers) -> Result<()>) -> Result<()> {
        let KeyedMark { written, unsettled } = self.keyed_mark();
        let mut buffers = self.write_buffers.take().unwrap_or_default();
        let changed = change(self, &mut buffers).and_then(|()| self.grow_keyed_memory());
        self.write_buffers = Some(buffers);
        if changed.is_err() {
            self.undo_writes(written);
            self.unsettled.truncate(unsettled);
        }
        changed
    }

    /// The current point in the keyed writes, for [`Transaction::undo_keyed_to`].
    #[inline]
    pub fn keyed_mark(&self) -> KeyedMark {
        KeyedMark { written: self.keyed.as_ref().map_or(0, |written| written.mark()), unsettled: self.unsettled.len() }
    }

    /// Undoes the keyed writes since a mark.
    pub fn undo_keyed_to(&mut self, mark: KeyedMark) {
        self.unsettled.truncate(mark.unsettled);
        if self.keyed.as_ref().is_some_and(|written| written.mark() > mark.written) {
            self.undo_writes(mark.written);
            self.keyed_memory.recount(self.keyed_bytes());
        }
        self.forget_view();
    }

    /// Undoes the writes to the write set since `mark`.
    ///
    /// A successful write has told the client that no other row had the key or the unique values. For writes that
    /// remain, the commit validates this. For writes that we undo, we must record it as a read.
    fn undo_writes(&mut self, mark: usize) {
        if let (Some(reads), Some(written)) = (self.noted_reads(), &self.keyed) {
            let (snapshot, mut range) = (self.base.keyed.commit(), KeyRange::default());
            written.keys_since(mark, |key| {
                reads.note_key(key, snapshot);
                let id = index_of(key).ok();
                let codec = id.and_then(|id| Some((id, written.codec_of(id)?)));
                if let Some((id, codec)) = codec
                    && let Some(index) = codec.find_index(id)
                    && codec.unique_range(index, key, &mut range).is_ok_and(|is_unique| is_unique)
                {
                    reads.note_range(range.clone(), snapshot);
                }
            });
        }
        self.write_set().undo_to(mark);
    }

    fn grow_keyed_memory(&mut self) -> Result<()> {
        if let Some(memory) = self.keyed.as_ref().map(|written| written.memory())
            && let Some(failure) = memory.take_failure()
        {
            // No file can have the rows, so they stay in memory as long as it grants them.
            memory.set_heap_bytes_max(u64::MAX);
            self.keyed_failure = Some(failure);
        }
        // Reserves memory for what was written since the last reservation.
        let bytes = self.keyed_bytes() + self.unsettled.bytes();
        match bytes.saturating_sub(self.keyed_memory.bytes()) {
            0 => Ok(()),
            more => {
                // A large write set will make a long record, so we let the log prepare its segments.
                self.engine.journal().expect(self.keyed.as_ref().map_or(0, |written| written.content_bytes()));
                let granted = self.keyed_memory.grow(more.next_multiple_of(GRANT_BYTES));
                granted.or_else(|refused| self.overflow_keyed(refused))
            }
        }
    }

    /// Lets the rows go to a file from here on, except for what fits the pieces of memory that they have already.
    /// Returns `refused`, or a better reason, if they cannot.
    fn overflow_keyed(&mut self, refused: Error) -> Result<()> {
        if let Some(failure) = &self.keyed_failure {
            return Err(failure.clone().context("the rows of the transaction do not fit memory"));
        }
        let store = self.base.keyed.store();
        if store.is_out_of_files() {
            store.retry_files();
            return Err(refused);
        }
        let (rows, checks) = (self.keyed_bytes(), self.unsettled.bytes());
        let memory = self.keyed.as_ref().map(|written| written.memory()).filter(|memory| memory.knows_files());
        // Checks of foreign keys cannot go to a file.
        let Some(memory) = memory.filter(|_| checks <= rows) else { return Err(refused) };
        memory.set_heap_bytes_max(0);
        self.keyed_memory.recount(rows + checks);
        Ok(())
    }

    fn keyed_bytes(&self) -> u64 {
        self.keyed.as_ref().map_or(0, |written| written.bytes())
    }

    fn put_new(&mut self, codec: &TableCodec, values: &[ValueRef<'_>], buffers: &mut WriteBuffers) -> Result<()> {
        codec.encode_row(values, &mut buffers.key, &mut buffers.row)?;
        let look = self.look_up(buffers)?;
        if look == Look::There {
            if let Some(reads) = self.noted_reads() {
                reads.note_key(&buffers.key, self.base.keyed.commit());
            }
            let (table, said) = (&codec.def().name, codec.say(&buffers.key));
            let what = format!("table {table} has a row with the primary key {said} already");
            let name = codec.def().primary_key_name().unwrap_or_default();
            return Err(Error::new(ErrorKind::UniqueViolation, what).breaks(table, name));
        }
        // The row goes first. If one of its entries is refused, the undo above records that this key was free.
        match look {
            Look::Behind(index) => {
                let snapshot = self.base.keyed.commit();
                self.write_set().push(index, &buffers.key, Some(&buffers.row), snapshot);
            }
            _ => self.put_row(&buffers.key, Some(&buffers.row), 1),
        }
        for index in codec.indexes() {
            codec.encode_entry(index, |column| values[column], &buffers.key, &mut buffers.entry)?;
            self.put_entry(codec, index, |columns| index.encode_columns(|column| values[column], columns), buffers)?;
        }
        self.check_parents(codec, None, values, buffers)
    }

    /// Looks up the key in `buffers` among the rows that the transaction sees.
    fn look_up(&mut self, buffers: &mut WriteBuffers) -> Result<Look> {
        let WriteBuffers { key, found, .. } = buffers;
        let snapshot = self.base.keyed.commit();
        if let Some(index) = self.keyed.as_ref().and_then(|written| written.find_in_gap(key, snapshot)) {
            return Ok(Look::Behind(index));
        }
        if self.write_set().gap(key).is_some_and(|(_, gap)| gap.miss()) {
            // Keys were inserted in order here. We look once for the next existing key, so that inserts up to it need
            // no look-up.
            let mut scan = RangeScan::default();
            let end = KeyRange::of_prefix(&key[..HEAD_BYTES]).end;
            scan.start(key, &end, false, 1);
            let next = scan.next(&KeyedReader::over(&self.base.keyed, None, &self.base_reader))?;
            let next = next.map_or(&end[..], |(next, _)| next);
            if let Some((index, gap)) = self.write_set().gap(key) {
                gap.set(snapshot, key, next);
                return Ok(if next == key { Look::There } else { Look::Behind(index) });
            }
        }
        let is_there = self.unnoted_reader().get(key, found)?;
        Ok(if is_there { Look::There } else { Look::Absent })
    }

    /// Replaces the row with the key in `buffers` by the row in `buffers`. The key stays the same. Indexes for which
    /// `may_change` is false have no column with another value.
    fn put_changed(
        &mut self,
        codec: &TableCodec,
        old_row: &[u8],
        may_change: impl Fn(&IndexCodec) -> bool,
        buffers: &mut WriteBuffers,
    ) -> Result<()> {
        for index in codec.indexes().iter().filter(|index| may_change(index)) {
            // Taken out, because the buffers are written while the row is read.
            let (key, row) = (std::mem::take(&mut buffers.key), std::mem::take(&mut buffers.row));
            self.move_entry(codec, index, [&codec.row(&key, old_row)?, &codec.row(&key, &row)?], &key, buffers)?;
            (buffers.key, buffers.row) = (key, row);
        }
        self.put_row(&buffers.key, Some(&buffers.row), 0);
        Ok(())
    }

    /// Replaces the index entry of a row by that of its new version, if the two differ.
    fn move_entry(
        &mut self,
        codec: &TableCodec,
        index: &IndexCodec,
        [before, after]: [&RowReader<'_>; 2],
        key: &[u8],
        buffers: &mut WriteBuffers,
    ) -> Result<()> {
        let WriteBuffers { entry, old_entry, value, new_value, .. } = &mut *buffers;
        let mut is_same = true;
        for column in &index.columns {
            is_same &= before.get(*column, value)? == after.get(*column, new_value)?;
        }
        if is_same {
            return Ok(());
        }
        codec.entry_of_row(index, before, key, old_entry, value)?;
        codec.entry_of_row(index, after, key, entry, value)?;
        let moves = entry != old_entry;
        // Other values with the same hash have the same short entry. We write it anyway, so that transactions that rely
        // on the values notice the change.
        if moves || index.is_short(entry) {
            if moves {
                self.put(old_entry, None);
            }
            let columns = |columns: &mut Vec<u8>| index.columns_of_row(after, columns, &mut Vec::new());
            self.put_entry(codec, index, columns, buffers)?;
        }
        Ok(())
    }

    /// Checks the foreign keys of a row that was changed, and notes the change for rows that refer to it. The new row
    /// is in `buffers`.
    fn note_changed(
        &mut self,
        codec: &TableCodec,
        old_row: &[u8],
        values: &[ValueRef<'_>],
        buffers: &mut WriteBuffers,
    ) -> Result<()> {
        if codec.has_foreign_keys() {
            let key = buffers.key.clone();
            self.check_parents(codec, Some(&codec.row(&key, old_row)?), values, buffers)?;
        }
        if !codec.referred().is_empty()
            && differ(codec, codec.referred(), &codec.row(&buffers.key, old_row)?, values, &mut buffers.value)?
        {
            self.note_parent(codec, (&buffers.key, old_row), Some((&buffers.key, &buffers.row)));
        }
        Ok(())
    }

    /// Writes the index entry in `buffers`. If it is shortened, `columns` makes the whole columns to compare.
    fn put_entry(
        &mut self,
        codec: &TableCodec,
        index: &IndexCodec,
        columns: impl FnOnce(&mut Vec<u8>) -> Result<()>,
        buffers: &mut WriteBuffers,
    ) -> Result<()> {
        if codec.unique_range(index, &buffers.entry, &mut buffers.range)?
            && self.is_taken(codec, index, columns, buffers)?
        {
            if let Some(reads) = self.noted_reads() {
                reads.note_range(buffers.range.clone(), self.base.keyed.commit());
            }
            let (table, name, said) = (&codec.def().name, &index.def.name, codec.say(&buffers.entry));
            let what = format!("table {table} has a row with {said} in the unique index {name} already");
            return Err(Error::new(ErrorKind::UniqueViolation, what).breaks(table, name));
        }
        self.put(&buffers.entry, Some(&[]));
        Ok(())
    }

    /// Whether another row has the same values in a unique index. They can only be in the range in `buffers`.
    fn is_taken(
        &self,
        codec: &TableCodec,
        index: &IndexCodec,
        columns: impl FnOnce(&mut Vec<u8>) -> Result<()>,
        buffers: &mut WriteBuffers,
    ) -> Result<bool> {
        let WriteBuffers { entry, range, scan, columns: own, found_by_entry: found, .. } = buffers;
        let reader = self.unnoted_reader();
        scan.start(&range.start, &range.end, false, 1);
        if !index.is_short(entry) {
            return Ok(scan.next(&reader)?.is_some());
        }
        columns(own)?;
        while let Some((other, _)) = scan.next(&reader)? {
            // The entry of this very row from before the update.
            if other == entry {
                continue;
            }
            found.get(codec, index.def.id, other, &reader)?;
            found.make_columns(codec, index)?;
            // Different values can have the same hash, so we must compare the columns themselves.
            if found.columns == *own {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn remove(&mut self, codec: &TableCodec, key: &[u8], row: &[u8], buffers: &mut WriteBuffers) -> Result<()> {
        let WriteBuffers { entry, value, .. } = buffers;
        let before = codec.row(key, row)?;
        for index in codec.indexes() {
            codec.entry_of_row(index, &before, key, entry, value)?;
            self.put(entry, None);
        }
        self.put_row(key, None, -1);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
