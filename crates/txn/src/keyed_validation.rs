//! Whether keyed rows that a transaction has written may be committed: the first committer wins.

use std::sync::Arc;

use rowmill_base::{IndexId, Isolation, Result};
use rowmill_storage::TableDef;
use rowmill_storage::keyed::KeyRange;

use crate::catalog::Catalog;
use crate::commit::conflict;
use crate::keyed::write_set::WriteSet;
use crate::keyed::{TableCodec, index_head};
use crate::snapshot::Snapshot;
use crate::transaction::Transaction;

impl Transaction {
    /// Fails if a commit behind the transaction's snapshot has written what this one writes, or has changed a table whose keys
    /// this one defines anew. That the versions in memory know of all such commits is `keyed/store.rs`' matter.
    pub(crate) fn validate_keyed(&self, current: &Snapshot, catalog: &Catalog) -> Result<()> {
        self.validate_definitions(current, catalog)?;
        self.validate_reads(current)?;
        self.keyed.as_ref().map_or(Ok(()), |written| self.validate_writes(written, current, catalog))
    }

    /// Fails if a commit behind the snapshots over which `written` was written has written the same.
    pub(crate) fn validate_writes(&self, written: &WriteSet, current: &Snapshot, catalog: &Catalog) -> Result<()> {
        let (latest, versions) = (current.keyed.commit(), current.keyed.store().versions());
        let mut range = KeyRange::default();
        for writes in written.indexes().filter(|writes| !writes.is_empty()) {
            let id = writes.index();
            let codec = self.codec_at_commit(written, id, current, catalog)?;
            if latest == writes.oldest() {
                // Nobody else has written meanwhile.
                continue;
            }
            let index = codec.find_index(id);
            for (key, row, snapshot) in writes.entries().filter(|(_, _, snapshot)| *snapshot < latest) {
                let lost = || {
                    let (said, table) = (codec.say(key), &codec.def().name);
                    conflict(format!("{said} of table {table} was written meanwhile"))
                };
                if versions.of_key(key).latest_commit(key).is_some_and(|commit| commit > snapshot) {
                    return Err(lost());
                }
                // An entry that was written and given up again has told all the same that the value was free.
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

    /// The codec of an index that is written to, whose table has to be as the transaction has seen it.
    fn codec_at_commit<'w>(
        &self,
        written: &'w WriteSet,
        index: IndexId,
        current: &Snapshot,
        catalog: &Catalog,
    ) -> Result<&'w Arc<TableCodec>> {
        let gone = || conflict("a table was dropped or emptied meanwhile".to_owned());
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
            _ => Err(conflict(format!("the definition of table \"{}\" was changed meanwhile", def.name))),
        }
    }

    /// A table that is emptied, or of which an index is made, must have the rows that the transaction has seen.
    pub(crate) fn validate_definitions(&self, current: &Snapshot, catalog: &Catalog) -> Result<()> {
        if Arc::ptr_eq(&self.base.catalog, &self.changes.catalog) || current.keyed.commit() == self.base.keyed.commit()
        {
            return Ok(());
        }
        for before in self.base.catalog.all_tables() {
            let after = catalog.table_by_id(before.id).and_then(|def| def.keyed.as_ref());
            let (Some(old), Some(new)) = (&before.keyed, after) else { continue };
            let is_known = |id| old.index_ids().any(|old| old == id);
            let rows = KeyRange::of_prefix(&index_head(old.index));
            if !new.index_ids().all(is_known)
                && current.keyed.store().versions().changed_in(&rows, self.base.keyed.commit()).is_some()
            {
                return Err(conflict(format!("rows of table \"{}\" were changed meanwhile", before.name)));
            }
        }
        Ok(())
    }
}
