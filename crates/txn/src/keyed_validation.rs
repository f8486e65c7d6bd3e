//! Validates the keyed writes of a transaction at commit: the first committer wins.

use std::sync::Arc;

use rowmill_base::{Error, IndexId, Isolation, Result};
use rowmill_storage::keyed::KeyRange;
use rowmill_storage::{CheckDef, ColumnDef, TableDef};

use crate::catalog::Catalog;
use crate::commit::{conflict, rows_differ};
use crate::keyed::write_set::WriteSet;
use crate::keyed::{TableCodec, index_head};
use crate::snapshot::Snapshot;
use crate::transaction::Transaction;

impl Transaction {
    /// Fails if a commit after the transaction's snapshot wrote the same keys, or changed a table for which this
    /// transaction has defined new indexes. `keyed/store.rs` keeps the versions in memory that this needs.
    pub(crate) fn validate_keyed(&self, current: &Snapshot, catalog: &Catalog) -> Result<()> {
        self.validate_definitions(current, catalog)?;
        self.validate_reads(current)?;
        self.keyed.as_ref().map_or(Ok(()), |written| self.validate_writes(written, current, catalog))
    }

    /// Fails if a commit after the snapshots over which `written` was written has written the same keys or the same
    /// unique values.
    pub(crate) fn validate_writes(&self, written: &WriteSet, current: &Snapshot, catalog: &Catalog) -> Result<()> {
        let (latest, versions) = (current.keyed.commit(), current.keyed.store().versions());
        let mut range = KeyRange::default();
        for writes in written.indexes().filter(|writes| !writes.is_empty()) {
            let id = writes.index();
            let codec = self.codec_at_commit(written, id, current, catalog)?;
            if latest == writes.oldest() {
                // No other transaction has written keyed rows since.
                continue;
            }
            let index = codec.find_index(id);
            for (key, row, snapshot) in writes.entries().filter(|(_, _, snapshot)| *snapshot < latest) {
                let lost = || {
                    let (said, table) = (codec.say(key), &codec.def().name);
                    conflict(format!("{said} of table {table} was written by another transaction"))
                };
                if versions.of_key(key).latest_commit(key).is_some_and(|commit| commit > snapshot) {
                    return Err(lost());
                }
                // An entry that was written and then undone has told the client that the value was free. Under
                // SERIALIZABLE that must still be true.
                if (row.is_some() || self.isolation() == Isolation::Serializable)
                    && let Some(index) = index
                    && codec.unique_range(index, key, &mut range)?
                    && versions.changed_in(&range, snapshot).is_some()
                {
                    return Err(lost());
                }
            }
        }
        Ok(())
    }

    /// The codec of an index in the write set. Fails if its table no longer has the definition that the transaction
    /// saw.
    fn codec_at_commit<'w>(
        &self,
        written: &'w WriteSet,
        index: IndexId,
        current: &Snapshot,
        catalog: &Catalog,
    ) -> Result<&'w Arc<TableCodec>> {
        let gone = || conflict("another transaction dropped or emptied a table that this one changed".to_owned());
        let codec = written.codec_of(index).ok_or_else(gone)?;
        let def = catalog.table_by_id(codec.def().id).ok_or_else(gone)?;
        if !def.keyed.as_ref().is_some_and(|keyed| keyed.index_ids().any(|id| id == index)) {
            return Err(gone());
        }
        self.same_definition(def, current).map(|()| codec)
    }

    /// Fails if a table has another definition in `current` than in the transaction's snapshot.
    pub(crate) fn same_definition(&self, def: &TableDef, current: &Snapshot) -> Result<()> {
        match (current.tables.get(&def.id), self.base.tables.get(&def.id)) {
            (Some(now), Some(base)) if Arc::ptr_eq(&base.def, &now.def) => Ok(()),
            (None, _) => Ok(()),
            _ => Err(conflict(format!("the definition of table \"{}\" was changed by another transaction", def.name))),
        }
    }

    /// Fails if the transaction emptied a table, created an index of it or forbade values in it, and another
    /// transaction has changed its rows since.
    pub(crate) fn validate_definitions(&self, current: &Snapshot, catalog: &Catalog) -> Result<()> {
        self.validate_new_rules(current)?;
        if Arc::ptr_eq(&self.base.catalog, &self.changes.catalog) || current.keyed.commit() == self.base.keyed.commit()
        {
            return Ok(());
        }
        for before in self.base.catalog.all_tables() {
            let after = catalog.table_by_id(before.id).and_then(|def| def.keyed.as_ref());
            let (Some(old), Some(new)) = (&before.keyed, after) else { continue };
            let is_known = |id| old.index_ids().any(|old| old == id);
            if !new.index_ids().all(is_known) && self.rows_have_changed(before, current) {
                return Err(rows_changed(before));
            }
        }
        Ok(())
    }

    /// Fails if the transaction forbade values in a table, and another transaction has changed its rows since: these
    /// rows were not checked.
    fn validate_new_rules(&self, current: &Snapshot) -> Result<()> {
        if Arc::ptr_eq(&self.base.catalog, &self.changes.catalog) {
            return Ok(());
        }
        for before in self.base.catalog.all_tables() {
            let Some(after) = self.changes.catalog.table_by_id(before.id) else { continue };
            if !Arc::ptr_eq(before, after) && forbids_more(before, after) && self.rows_have_changed(before, current) {
                return Err(rows_changed(before));
            }
        }
        Ok(())
    }

    /// Whether a commit after the transaction's snapshot has changed rows of a table.
    fn rows_have_changed(&self, table: &TableDef, current: &Snapshot) -> bool {
        match &table.keyed {
            Some(keyed) => {
                let rows = KeyRange::of_prefix(&index_head(keyed.index));
                current.keyed.store().versions().changed_in(&rows, self.base.keyed.commit()).is_some()
            }
            None => match (self.base.tables.get(&table.id), current.tables.get(&table.id)) {
                (Some(base), Some(current)) => rows_differ(base, current),
                _ => false,
            },
        }
    }
}

/// Whether the second definition of a table forbids values that the first one allows.
fn forbids_more(before: &TableDef, after: &TableDef) -> bool {
    let is_new_check = |check: &CheckDef| !before.rules.checks.contains(check);
    let forbids_null = |column: &ColumnDef| {
        !column.nullable && before.column_by_id(column.id).is_some_and(|place| before.columns[place].nullable)
    };
    after.columns.iter().any(forbids_null) || after.rules.checks.iter().any(is_new_check)
}

fn rows_changed(table: &TableDef) -> Error {
    conflict(format!("rows of table \"{}\" were changed by another transaction", table.name))
}
