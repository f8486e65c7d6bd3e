//! Changes of many rows of a keyed table at once, by their keys.
//!
//! A constraint has to hold when a statement ends, not after each row: `SET id = id + 1` is no violation. So where keys that are
//! unique may change all rows that a statement changes are taken out before the first one is put back.

use arrow::array::{Array, BinaryArray, RecordBatch};
use rowmill_base::{Result, TableId};

use crate::keyed::{KeyedRow, TableCodec, column_values};
use crate::transaction::Transaction;

impl Transaction {
    /// Puts the rows of `batches`, whose columns are the table's, in the place of those under `keys`, array by array. How many
    /// there were. All or nothing; errors are those of [`Transaction::insert_row`].
    pub fn update_keyed(&mut self, table: TableId, changes: &[(BinaryArray, RecordBatch)]) -> Result<u64> {
        self.start_change()?;
        let codec = self.keyed_codec(table)?;
        let before = self.savepoint();
        let changed = self.update_all(table, &codec, changes);
        if changed.is_err() {
            self.rollback_to(&before);
        }
        changed
    }

    fn update_all(
        &mut self,
        table: TableId,
        codec: &TableCodec,
        changes: &[(BinaryArray, RecordBatch)],
    ) -> Result<u64> {
        let is_unique = codec.def().keyed.iter().flat_map(|keyed| &keyed.indexes).any(|index| index.unique);
        let keys_stay = !is_unique && self.same_keys(codec, changes)?;
        let mut rows = 0;
        if keys_stay {
            for (keys, batch) in changes {
                let columns = column_values(codec.def(), batch)?;
                for row in 0..keys.len() {
                    let Some(old) = self.row_under(keys.value(row))? else { continue };
                    let values: Vec<_> = columns.iter().map(|column| column.get(row)).collect();
                    self.update_row(table, &old, &values)?;
                    rows += 1;
                }
            }
            return Ok(rows);
        }
        let mut gone = Vec::new();
        for (keys, _) in changes {
            for key in keys.iter().flatten() {
                let old = self.row_under(key)?;
                gone.push(old.is_some());
                if let Some(old) = old {
                    self.delete_row(table, &old)?;
                }
            }
        }
        let mut gone = gone.into_iter();
        for (_, batch) in changes {
            let columns = column_values(codec.def(), batch)?;
            for row in 0..batch.num_rows() {
                if gone.next() == Some(true) {
                    let values: Vec<_> = columns.iter().map(|column| column.get(row)).collect();
                    self.insert_row(table, &values)?;
                    rows += 1;
                }
            }
        }
        Ok(rows)
    }

    /// Whether every new row has the key of the old one.
    fn same_keys(&self, codec: &TableCodec, changes: &[(BinaryArray, RecordBatch)]) -> Result<bool> {
        for (keys, batch) in changes {
            let columns = column_values(codec.def(), batch)?;
            for row in 0..keys.len() {
                let values: Vec<_> = columns.iter().map(|column| column.get(row)).collect();
                if codec.encode(&values)?.0 != keys.value(row) {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// Removes the rows under `keys`, all or nothing. How many there were.
    pub fn delete_keyed(&mut self, table: TableId, keys: &[BinaryArray]) -> Result<u64> {
        self.start_change()?;
        let before = self.savepoint();
        let mut rows = 0;
        for key in keys.iter().flat_map(|keys| keys.iter().flatten()) {
            let removed = self.row_under(key).and_then(|old| match old {
                Some(old) => self.delete_row(table, &old).map(|()| 1),
                None => Ok(0),
            });
            rows += removed.inspect_err(|_| self.rollback_to(&before))?;
        }
        Ok(rows)
    }

    fn row_under(&self, key: &[u8]) -> Result<Option<KeyedRow>> {
        let mut row = Vec::new();
        Ok(self.sources().get(key, &mut row)?.then(|| KeyedRow { key: key.to_vec(), row }))
    }
}
