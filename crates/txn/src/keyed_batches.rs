//! Changes of many rows of a keyed table at once, by their keys.
//!
//! A constraint has to hold when a statement ends, not after each row: `SET id = id + 1` is no violation. So where keys that are
//! unique may change all rows that a statement changes are taken out before the first one is put back.

use std::sync::Arc;

use arrow::array::{BinaryArray, RecordBatch};
use rowmill_base::{Result, TableId};
use rowmill_storage::keyed::{ByteRows, ColumnValues, ValueRef};

use crate::keyed::{TableCodec, column_values};
use crate::transaction::Transaction;

impl Transaction {
    /// Puts the rows of `batches`, whose columns are the table's, in the place of those under `keys`, array by array. How many
    /// there were. All or nothing; errors are those of [`Transaction::insert_row`].
    pub fn update_keyed(&mut self, table: TableId, changes: &[(BinaryArray, RecordBatch)]) -> Result<u64> {
        self.start_change()?;
        let codec = self.keyed_codec(table)?;
        let before = self.savepoint();
        let changed = self.update_all(&codec, changes);
        if changed.is_err() {
            self.rollback_to(&before);
        }
        changed
    }

    fn update_all(&mut self, codec: &Arc<TableCodec>, changes: &[(BinaryArray, RecordBatch)]) -> Result<u64> {
        let columns = changes.iter().map(|(_, batch)| column_values(codec.def(), batch)).collect::<Result<Vec<_>>>()?;
        let is_unique = codec.def().keyed.iter().flat_map(|keyed| &keyed.indexes).any(|index| index.unique);
        let is_in_place = !is_unique && same_keys(codec, changes, &columns)?;
        // Rows that are gone meanwhile, by another change of the same statement, are left out.
        let (mut found, mut taken_out) = (Vec::new(), ByteRows::new());
        let (mut rows, mut row) = (0, Vec::new());
        for ((keys, _), columns) in changes.iter().zip(&columns) {
            for (place, key) in keys.iter().flatten().enumerate() {
                let is_found = self.reader().get(key, &mut row)?;
                found.push(is_found);
                rows += u64::from(is_found);
                if is_found && is_in_place {
                    self.update_values(codec, key, &row, &values_of(columns, place))?;
                } else if is_found {
                    self.take_out(codec, key, &row)?;
                    taken_out.push(&row);
                }
            }
        }
        if is_in_place {
            return Ok(rows);
        }
        let (mut found, mut taken_out) = (found.into_iter(), taken_out.iter());
        for ((keys, _), columns) in changes.iter().zip(&columns) {
            for (place, key) in keys.iter().flatten().enumerate() {
                if found.next() == Some(true)
                    && let Some(row) = taken_out.next()
                {
                    self.put_back(codec, (key, row), &values_of(columns, place))?;
                }
            }
        }
        Ok(rows)
    }

    /// Removes the rows under `keys`, all or nothing. How many there were.
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

/// Whether every new row has the key of the old one.
fn same_keys(
    codec: &TableCodec,
    changes: &[(BinaryArray, RecordBatch)],
    columns: &[Vec<ColumnValues>],
) -> Result<bool> {
    let (mut key, mut row) = (Vec::new(), Vec::new());
    for ((keys, _), columns) in changes.iter().zip(columns) {
        for (place, old) in keys.iter().flatten().enumerate() {
            codec.encode_row(&values_of(columns, place), &mut key, &mut row)?;
            if key != old {
                return Ok(false);
            }
        }
    }
    Ok(true)
}
