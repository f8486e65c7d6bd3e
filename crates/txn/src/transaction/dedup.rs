//! Rows of a transaction that replace others with the same keys (`upsert_keys.rs`).
//!
//! New rows replace others when they leave the pending batches, so before anyone can see them: first those before them
//! among the pending rows, then the transaction's own earlier rows, then committed rows of its snapshot. Replacing is
//! deleting the other row in the same transaction. So a commit that replaces a row which another transaction has
//! replaced or deleted since fails, as for every delete.
//!
//! Two transactions can also insert rows with the same keys where no row was before. The first committer wins: the
//! commit compares the rows that others have added since the snapshot with its own.

use std::sync::Arc;

use arrow::array::{ArrayRef, UInt32Array};
use arrow::compute::take_record_batch;
use roaring::RoaringBitmap;
use rowmill_base::{Error, Result};
use rowmill_storage::{BlockSource, TableDef, value_bytes};

use super::Transaction;
use super::columnar_rows::{TableChanges, concat_batches};
use super::picked_rows::PickedRows;
use crate::commit::conflict;
use crate::deletes::{DeletesByHolder, Holder};
use crate::snapshot::TableSnapshot;
use crate::upsert_keys::{UpsertKeys, share_keys};

impl Transaction {
    /// Lets the pending rows of a table replace others with their keys.
    pub(super) fn replace_by_pending(&mut self, def: &Arc<TableDef>) -> Result<()> {
        let Some(columns) = UpsertKeys::columns(def) else { return Ok(()) };
        let Some(changes) = self.changes.tables.get_mut(&def.id).filter(|changes| changes.pending_rows > 0) else {
            return Ok(());
        };
        let changes = Arc::make_mut(changes);
        let mut batch = concat_batches(def, &changes.pending, changes.pending_rows)?;
        let values: Vec<ArrayRef> = columns.iter().map(|column| Arc::clone(batch.column(*column))).collect();
        let Some(keys) = UpsertKeys::new(def, &columns, &values)? else { return Ok(()) };
        if let Some(rows) = keys.last_of_each() {
            batch = take_record_batch(&batch, &UInt32Array::from(rows))
                .map_err(|error| Error::internal(error.to_string()))?;
        }
        changes.inserted -= (changes.pending_rows - batch.num_rows()) as u64;
        changes.pending_rows = batch.num_rows();
        changes.pending_bytes = batch.columns().iter().map(value_bytes).sum();
        changes.pending = vec![batch];
        self.replace_by(def, &keys)?;
        self.recount();
        Ok(())
    }

    /// Lets the rows of a source replace others with their keys. Returns the rows that stay.
    pub(super) fn replace_by_source<'s>(
        &mut self,
        def: &Arc<TableDef>,
        source: &'s dyn BlockSource,
    ) -> Result<Option<PickedRows<'s>>> {
        let Some(columns) = UpsertKeys::columns(def) else { return Ok(None) };
        let values = columns.iter().map(|column| source.column(*column)).collect::<Result<Vec<_>>>()?;
        let Some(keys) = UpsertKeys::new(def, &columns, &values)? else { return Ok(None) };
        let rows = keys.last_of_each().map(UInt32Array::from);
        self.replace_by(def, &keys)?;
        Ok(Some(PickedRows { source, known: columns.into_iter().zip(values).collect(), rows }))
    }

    /// Deletes the rows that have one of `keys`: the transaction's own and those of its snapshot.
    fn replace_by(&mut self, def: &TableDef, keys: &UpsertKeys) -> Result<()> {
        let changes = Arc::make_mut(self.changes.tables.entry(def.id).or_default());
        let own = Holder::all(&changes.blocks, &changes.runs);
        let gone = |deleted: &DeletesByHolder, holder: &Holder| deleted.get(&holder.first_row()).cloned();
        let own_gone: Vec<_> = own.iter().map(|holder| gone(&changes.own_deleted, holder)).collect();
        for (holder, positions) in keys.find(def, own.iter().zip(own_gone.iter().map(Option::as_ref)))? {
            *changes.own_deleted.entry(holder.first_row()).or_default() |= positions;
        }
        let Some(base) = self.base.tables.get(&def.id).filter(|_| !changes.truncated) else { return Ok(()) };
        let committed = Holder::all(&base.blocks, &base.runs);
        let base_gone: Vec<_> = committed.iter().map(|holder| gone(&changes.deleted, holder)).collect();
        for (holder, positions) in keys.find(def, committed.iter().zip(base_gone.iter().map(Option::as_ref)))? {
            *changes.deleted.entry(holder.first_row()).or_default() |= positions;
        }
        Ok(())
    }
}

/// Returns a conflict if a row that others have added between the states `base` and `current` has the key of one of the
/// new rows in `changes`. `deleted` are the rows of `current` that the transaction deletes.
pub(crate) fn check_same_keys(
    def: &TableDef,
    base: &TableSnapshot,
    current: &TableSnapshot,
    changes: &TableChanges,
    deleted: &DeletesByHolder,
) -> Result<()> {
    let Some(columns) = UpsertKeys::columns(def).filter(|_| !changes.truncated) else { return Ok(()) };
    let own = Holder::all(&changes.blocks, &changes.runs);
    if own.is_empty() || (Arc::ptr_eq(&base.blocks, &current.blocks) && Arc::ptr_eq(&base.runs, &current.runs)) {
        return Ok(());
    }
    let known = Holder::all(&base.blocks, &base.runs);
    let is_new = |holder: &Holder| {
        let same = known.binary_search_by_key(&holder.first_row(), Holder::first_row);
        !same.is_ok_and(|at| known[at].same_rows(holder))
    };
    fn with_gone(holders: Vec<Holder>, gone: &DeletesByHolder) -> Vec<(Holder, Option<&RoaringBitmap>)> {
        let gone = |holder: Holder| {
            let gone = gone.get(&holder.first_row());
            (holder, gone)
        };
        holders.into_iter().map(gone).collect()
    }
    let mut others = Holder::all(&current.blocks, &current.runs);
    others.retain(is_new);
    match share_keys(def, &columns, &with_gone(own, &changes.own_deleted), &with_gone(others, deleted))? {
        false => Ok(()),
        true => Err(conflict(format!("another transaction added a row with the same keys to table \"{}\"", def.name))),
    }
}
