//! Isolation levels: which reads a transaction records, and which snapshot its statements see.
//!
//! A transaction that writes commits after all earlier commits. It is serializable if its reads would give the same
//! results at that point. Under [`Isolation::Serializable`] we validate this for all reads, at the other levels only
//! for reads that a caller asked to validate. A transaction that writes nothing is serializable at its snapshot.

use std::sync::Arc;

use rowmill_base::{ErrorKind, IndexId, Isolation, Result, TableId};
use rowmill_storage::keyed::KeyRange;

use crate::catalog::Catalog;
use crate::commit::{conflict, merge_catalogs, moved_deletes, rows_differ};
use crate::keyed::read_set::ReadSet;
use crate::keyed::seat::BaseReader;
use crate::keyed::store::KeyedState;
use crate::keyed::{TableCodec, index_of};
use crate::snapshot::Snapshot;
use crate::transaction::{Transaction, check_same_keys};
use crate::upsert_keys::UpsertKeys;

/// The reads of a transaction. At commit, no other transaction may have written any of them.
#[derive(Debug, Default)]
pub(crate) struct TransactionReads {
    level: Isolation,
    /// Set from the first read that must be validated.
    keyed: Option<Arc<ReadSet>>,
    /// Keeps the versions that are needed to find writes after the first snapshot over which this transaction wrote or
    /// recorded a read.
    first_state: Option<Arc<KeyedState>>,
}

impl Transaction {
    /// Sets the isolation level. Must be called before the first statement. A transaction begins with
    /// [`Isolation::Snapshot`].
    pub fn set_isolation(&mut self, level: Isolation) {
        self.reads.level = level;
        if level != Isolation::ReadCommitted {
            self.claimant = None;
        }
        if level == Isolation::Serializable {
            self.read_set();
        }
    }

    /// The level.
    pub fn isolation(&self) -> Isolation {
        self.reads.level
    }

    /// Makes the commit fail if another transaction writes `key` before it, at every isolation level. We need this for
    /// rows that foreign keys refer to and for `SELECT ... FOR UPDATE`. The key must be that of a row or index entry
    /// which the current statement has looked up.
    pub fn validate_read(&mut self, key: &[u8]) {
        let snapshot = self.base.keyed.commit();
        // A statement that loses a row runs again. Its first run must not make the commit fail, so its reads are
        // recorded when all of its rows are claimed.
        match self.claimant.is_some() {
            true => self.locked_keys.push((key.to_vec(), snapshot)),
            false => self.read_set().note_key(key, snapshot),
        }
    }

    /// Records the reads of a statement that has claimed its rows.
    pub(crate) fn note_locked_keys(&mut self) {
        for (key, snapshot) in std::mem::take(&mut self.locked_keys) {
            self.read_set().note_key(&key, snapshot);
        }
    }

    /// Makes the commit fail if `key`, under which a row or an index entry was found, is deleted before it. Other
    /// writes of the key are allowed.
    pub(crate) fn validate_presence(&mut self, key: &[u8]) {
        let snapshot = self.base.keyed.commit();
        self.read_set().note_presence(key, snapshot);
    }

    /// Makes the commit fail if another transaction writes a key from `start` up to, but not including, `end`. An empty
    /// `end` means no upper bound. Keys that do not exist yet count too.
    pub fn validate_range(&mut self, start: &[u8], end: &[u8]) {
        let snapshot = self.base.keyed.commit();
        let range = KeyRange { start: start.to_vec(), end: end.to_vec() };
        if !range.is_empty() {
            self.read_set().note_range(range, snapshot);
        }
    }

    /// Records that rows of a columnar table were read. Under [`Isolation::Serializable`] the commit fails if another
    /// transaction has changed them. At the other levels this does nothing.
    pub fn note_table_read(&mut self, table: TableId) {
        if let Some(reads) = self.noted_reads() {
            reads.note_table(table);
        }
    }

    /// Makes the commit fail if another transaction changes rows of a columnar table before it, at every isolation
    /// level.
    pub(crate) fn validate_table(&mut self, table: TableId) {
        self.read_set().note_table(table);
    }

    fn read_set(&mut self) -> &ReadSet {
        let memory = || self.engine.broker().reservation("what an open transaction has read");
        self.reads.keyed.get_or_insert_with(|| Arc::new(ReadSet::new(memory())))
    }

    /// The read set if the level requires recording every read.
    pub(crate) fn noted_reads(&self) -> Option<&Arc<ReadSet>> {
        self.reads.keyed.as_ref().filter(|_| self.reads.level == Isolation::Serializable)
    }

    /// Whether a caller asked to validate reads. Such a transaction can fail even if it wrote nothing.
    pub(crate) fn has_required_reads(&self) -> bool {
        let is_required = self.reads.level != Isolation::Serializable;
        is_required && self.reads.keyed.as_ref().is_some_and(|reads| !reads.is_empty())
    }

    /// Fails if another transaction wrote something that this one read.
    pub(crate) fn validate_reads(&self, current: &Snapshot) -> Result<()> {
        if let Some(reads) = &self.reads.keyed
            && let Some(key) = reads.find_written(current.keyed.store().versions(), current.keyed.commit())
        {
            let said = say(&current.catalog, &key);
            return Err(conflict(format!("{said}, which was read, was written by another transaction")));
        }
        for table in self.reads.keyed.iter().flat_map(|reads| reads.tables()) {
            let (Some(base), Some(now)) = (self.base.tables.get(&table), current.tables.get(&table)) else { continue };
            if rows_differ(base, now) {
                return Err(conflict(format!(
                    "rows of table {}, which was read, were changed by another transaction",
                    now.def.name
                )));
            }
        }
        Ok(())
    }

    /// Under [`Isolation::ReadCommitted`], lets the following statements see everything committed so far, with the
    /// transaction's own changes applied. At the other levels this does nothing.
    ///
    /// Returns `SerializationFailure` if a table that the transaction has written to has another definition now, or if
    /// a columnar row that it has deleted is gone. Writes to keyed rows are validated at commit. If they have already
    /// lost a conflict, the transaction keeps its snapshot. In the newest snapshot, indexes would have entries for rows
    /// that the transaction's own writes hide.
    pub fn refresh(&mut self) -> Result<()> {
        if self.reads.level != Isolation::ReadCommitted {
            return Ok(());
        }
        let newest = self.engine.snapshot()?;
        if Arc::ptr_eq(&newest, &self.base) {
            return Ok(());
        }
        let catalog = merge_catalogs(&self.base.catalog, &self.changes.catalog, &newest.catalog)?;
        self.validate_definitions(&newest, &catalog)?;
        let written = self.keyed.as_ref();
        written.map_or(Ok(()), |written| {
            written.codecs().try_for_each(|codec| self.same_definition(codec.def(), &newest).map(drop))
        })?;
        match written.map_or(Ok(()), |written| self.validate_writes(written, &newest, &catalog)) {
            // The commit will report this conflict.
            Err(error) if error.kind() == ErrorKind::SerializationFailure => return Ok(()),
            validated => validated?,
        }
        // Rows that replace others do so in the state that their statement has seen, so not after the next statement.
        let tables: Vec<_> = self.changes.tables.keys().filter_map(|id| catalog.table_by_id(*id).cloned()).collect();
        for def in tables.iter().filter(|def| UpsertKeys::columns(def).is_some()) {
            self.flush_pending(def)?;
        }
        let mut changes = self.changes.clone();
        for (id, changed) in &mut changes.tables {
            let (Some(base), Some(now)) = (self.base.tables.get(id), newest.tables.get(id)) else { continue };
            if !changed.is_empty() {
                self.same_definition(&now.def, &newest)?;
            }
            if changed.truncated && rows_differ(base, now) {
                return Err(conflict(format!(
                    "rows of table \"{}\" were changed by another transaction",
                    now.def.name
                )));
            }
            if !changed.deleted.is_empty() {
                // Committed rows may be in other blocks by now, so the deletes must name their new positions.
                let moved = moved_deletes(base, now, &changed.deleted)?;
                Arc::make_mut(changed).deleted = moved;
            }
            check_same_keys(&now.def, base, now, changed, &changed.deleted)?;
        }
        changes.catalog = catalog;
        self.changes = changes;
        let has_writes = self.keyed.is_some() || self.reads.keyed.is_some();
        if has_writes && self.reads.first_state.is_none() {
            self.reads.first_state = Some(Arc::clone(&self.base.keyed));
        }
        self.stand_on(newest);
        Ok(())
    }

    /// Makes the transaction read another snapshot.
    pub(crate) fn stand_on(&mut self, snapshot: Arc<Snapshot>) {
        self.base_reader = BaseReader::new(snapshot.keyed.generation());
        self.base = snapshot;
        self.forget_view();
    }
}

/// A key with its table, as an error message shows it.
fn say(catalog: &Catalog, key: &[u8]) -> String {
    let owner = |id: IndexId| {
        let mut tables = catalog.all_tables();
        tables.find(|def| def.keyed.as_ref().is_some_and(|keyed| keyed.index_ids().any(|own| own == id)))
    };
    match index_of(key).ok().and_then(owner) {
        Some(def) => match TableCodec::new(def) {
            Ok(codec) => format!("{} of table {}", codec.say(key), def.name),
            Err(_) => format!("a row of table {}", def.name),
        },
        None => "a row of a dropped table".to_owned(),
    }
}
