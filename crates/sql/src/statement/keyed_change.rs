//! `UPDATE` and `DELETE` of keyed tables: changes the rows that a query finds, by their keys. The query is
//! [`ChangedTable::query`](super::row_query::ChangedTable::query).
//!
//! A keyed table shows a transaction its own writes at once. So we must find all rows before we change the first one.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, BinaryArray, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use rowmill_base::{Error, Result};
use rowmill_program::meets_several;
use rowmill_storage::TableDef;
use rowmill_txn::Transaction;

use super::row_sink::RowSink;
use crate::outcome::RowStream;
use crate::session::Work;

/// Replaces the rows that were found by those that `sink` makes of them. Returns how many rows were found, and the new
/// rows.
pub(super) fn update(
    work: &Work<'_>,
    transaction: &mut Transaction,
    sink: &RowSink,
    table: &Arc<TableDef>,
    found: RowStream,
) -> Result<(u64, Vec<RecordBatch>)> {
    let mut seen = HashSet::new();
    let mut changes = Vec::new();
    for batch in found.collect::<Result<Vec<_>>>()? {
        work.cancel.check()?;
        let (keys, values) = (keys(&batch)?, &batch.columns()[1..]);
        // A row that is found twice would get a value that depends on the order of the join.
        if !keys.iter().flatten().all(|key| seen.insert(key.to_vec())) {
            return Err(meets_several(table));
        }
        changes.push((keys.clone(), sink.assigned(work, transaction, values, batch.num_rows())?));
    }
    let rows = transaction.update_keyed(table.id, &changes)?;
    Ok((rows, changes.into_iter().map(|(_, new)| new).collect()))
}

/// Removes the rows that were found.
pub(super) fn delete(transaction: &mut Transaction, table: &TableDef, found: &[RecordBatch]) -> Result<u64> {
    let keys = found.iter().map(keys).collect::<Result<Vec<BinaryArray>>>()?;
    transaction.delete_keyed(table.id, &keys)
}

/// Returns the keys of the rows of a batch.
pub(super) fn keys(batch: &RecordBatch) -> Result<BinaryArray> {
    as_keys(batch.column(0))
}

/// Converts keys to the form that the transaction takes.
pub(super) fn as_keys(values: &ArrayRef) -> Result<BinaryArray> {
    let keys = cast(values, &DataType::Binary).map_err(|error| Error::internal(format!("keys of rows: {error}")))?;
    Ok(keys.as_binary::<i32>().clone())
}
