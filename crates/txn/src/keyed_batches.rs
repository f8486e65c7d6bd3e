//! Changes of many rows of a keyed table at once, by their keys.
//!
//! A constraint must hold when a statement ends, not after each row. For example, `SET id = id + 1` must not fail
//! because the next row still has the new id. So if a unique key may change, we first remove all rows that the
//! statement changes, and then put them back with their new values.

use std::sync::Arc;

use arrow::array::{BinaryArray, RecordBatch};
use rowmill_base::{Result, TableId};
use rowmill_storage::keyed::{ByteRows, ColumnValues, ValueRef};

use crate::keyed::{TableCodec, column_values};
use crate::transaction::Transaction;

/// Keys of rows, with the new row of each key. A call reads them from the start.
pub type RowsByKey<'a> = dyn Fn() -> Box<dyn Iterator<Item = Result<(BinaryArray, RecordBatch)>> + 'a> + 'a;

impl Transaction {
    /// Replaces rows by rows of batches, whose columns must be those of the table. `changes` is called several times,
    /// and returns the same keys and rows each time. Changes all rows or none, and returns how many existed. Errors are
    /// those of [`Transaction::insert_row`] and of `changes`.
    pub fn update_keyed(&mut self, table: TableId, changes: &RowsByKey<'_>) -> Result<u64> {
        self.start_change()?;
        let codec = self.keyed_codec(table)?;
        let before = self.savepoint();
        let changed = self.update_all(&codec, changes);
        if changed.is_err() {
            self.rollback_to(&before);
        }
        changed
    }

    fn update_all(&mut self, codec: &Arc<TableCodec>, changes: &RowsByKey<'_>) -> Result<u64> {
        let is_unique = codec.def().keyed.iter().flat_map(|keyed| &keyed.indexes).any(|index| index.unique);
        let is_in_place = !is_unique && same_keys(codec, changes)?;
        // Only foreign keys ask for the old rows in the second pass.
        let is_parent = !codec.referred().is_empty();
        // Another change of the same statement may have removed a row. We skip such rows.
        let (mut found, mut taken_out) = (Vec::new(), ByteRows::new());
        let (mut rows, mut row) = (0, Vec::new());
        for change in changes() {
            let (keys, batch) = change?;
            let columns = column_values(codec.def(), &batch)?;
            for (place, key) in keys.iter().flatten().enumerate() {
                let is_found = self.reader().get(key, &mut row)?;
                found.push(is_found);
                rows += u64::from(is_found);
                if is_found && is_in_place {
                    self.update_values(codec, key, &row, &values_of(&columns, place))?;
                } else if is_found {
                    self.take_out(codec, key, &row)?;
                    taken_out.push(if is_parent { &row } else { &[] });
                }
            }
        }
        if is_in_place {
            return Ok(rows);
        }
        // The second pass visits the rows in the same order as the first, so the two iterators stay in step.
        let (mut found, mut taken_out) = (found.into_iter(), taken_out.iter());
        for change in changes() {
            let (keys, batch) = change?;
            let columns = column_values(codec.def(), &batch)?;
            for (place, key) in keys.iter().flatten().enumerate() {
                if found.next() == Some(true)
                    && let Some(row) = taken_out.next()
                {
                    self.put_back(codec, (key, row), &values_of(&columns, place))?;
                }
            }
        }
        Ok(rows)
    }

    /// Deletes the rows under `keys`, all or none. Returns how many existed.
    pub fn delete_keyed(&mut self, table: TableId, keys: &[BinaryArray]) -> Result<u64> {
        self.start_change()?;
        let before = self.savepoint();
        let codec = self.keyed_codec(table)?;
        let (mut rows, mut row) = (0, Vec::new());
        for key in keys.iter().flat_map(|keys| keys.iter().flatten()) {
            let removed = self.reader().get(key, &mut row).and_then(|is_there| match is_there {
                true => self.delete_values(&codec, key, &row).map(|()| 1),
                false => Ok(0),
            });
            rows += removed.inspect_err(|_| self.rollback_to(&before))?;
        }
        Ok(rows)
    }
}

fn values_of(columns: &[ColumnValues], row: usize) -> Vec<ValueRef<'_>> {
    columns.iter().map(|column| column.get(row)).collect()
}

/// Whether every new row has the same primary key as its old row.
fn same_keys(codec: &TableCodec, changes: &RowsByKey<'_>) -> Result<bool> {
    let (mut key, mut row) = (Vec::new(), Vec::new());
    for change in changes() {
        let (keys, batch) = change?;
        let columns = column_values(codec.def(), &batch)?;
        for (place, old) in keys.iter().flatten().enumerate() {
            codec.encode_row(&values_of(&columns, place), &mut key, &mut row)?;
            if key != old {
                return Ok(false);
            }
        }
    }
    Ok(true)
}
