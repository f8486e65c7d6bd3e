//! How far a transaction is isolated from others: what it notes of its reads, and which snapshot its statements see.
//!
//! Whoever writes commits behind all that is committed, so it is as if it had run then, if what it has read is what it would
//! read then. At [`Isolation::Serializable`] that holds of all reads, at the others of those that are validated by request.
//! Who writes nothing has run at its snapshot.

use std::sync::Arc;

use rowmill_base::{ErrorKind, IndexId, Isolation, Result, TableId};
use rowmill_storage::keyed::KeyRange;

use crate::catalog::Catalog;
use crate::commit::{conflict, live_rows_differ, merge_catalogs, moved_deletes};
use crate::keyed::read_set::ReadSet;
use crate::keyed::seat::BaseReader;
use crate::keyed::store::KeyedState;
use crate::keyed::{TableCodec, index_of};
use crate::snapshot::Snapshot;
use crate::transaction::Transaction;

/// What a transaction has read that nobody may have written when it commits.
#[derive(Debug, Default)]
pub(crate) struct Reads {
    level: Isolation,
    /// From the first read on that is to be validated.
    keyed: Option<Arc<ReadSet>>,
    /// Keeps the versions that tell what was written behind the first snapshot over which something was written or noted.
    first_state: Option<Arc<KeyedState>>,
}

impl Transaction {
    /// Sets the level, before the first statement. [`Isolation::Snapshot`] is what a transaction begins with.
    pub fn set_isolation(&mut self, level: Isolation) {
        self.reads.level = level;
        if level == Isolation::Serializable {
            self.read_set();
        }
    }

    /// The level.
    pub fn isolation(&self) -> Isolation {
        self.reads.level
    }

    /// The commit fails if anybody else has written `key` by then, whatever the level: for rows that foreign keys refer to,
    /// and for `SELECT ... FOR UPDATE`. The key is that of a row or of an index entry that the current statement has looked for.
    pub fn validate_read(&mut self, key: &[u8]) {
        let snapshot = self.base.keyed.commit();
        self.read_set().note_key(key, snapshot);
    }

    /// The commit fails if `key`, which a row or an index entry was found under, has nothing by then: written it may be.
    pub(crate) fn validate_presence(&mut self, key: &[u8]) {
        let snapshot = self.base.keyed.commit();
        self.read_set().note_presence(key, snapshot);
    }

    /// The same of the keys from `start` on that are below `end` (empty: that are there), those among them that are not there now.
    pub fn validate_range(&mut self, start: &[u8], end: &[u8]) {
        let snapshot = self.base.keyed.commit();
        let range = KeyRange { start: start.to_vec(), end: end.to_vec() };
        if !range.is_empty() {
            self.read_set().note_range(range, snapshot);
        }
    }

    /// Notes that rows of a columnar table are read. At [`Isolation::Serializable`] the commit fails if its rows were changed
    /// since; at the others this does nothing.
    pub fn note_table_read(&mut self, table: TableId) {
        if let Some(reads) = self.noted_reads() {
            reads.note_table(table);
        }
    }

    fn read_set(&mut self) -> &ReadSet {
        let memory = || self.engine.broker().reservation("what an open transaction has read");
        self.reads.keyed.get_or_insert_with(|| Arc::new(ReadSet::new(memory())))
    }

    /// Where all reads are noted, if they are.
    pub(crate) fn noted_reads(&self) -> Option<&Arc<ReadSet>> {
        self.reads.keyed.as_ref().filter(|_| self.reads.level == Isolation::Serializable)
    }

    /// Whether reads were validated by request: even without a write such a transaction fails.
    pub(crate) fn has_required_reads(&self) -> bool {
        let is_required = self.reads.level != Isolation::Serializable;
        is_required && self.reads.keyed.as_ref().is_some_and(|reads| !reads.is_empty())
    }

    /// Fails if what was read was written since.
    pub(crate) fn validate_reads(&self, current: &Snapshot) -> Result<()> {
        if let Some(reads) = &self.reads.keyed
            && let Some(key) = reads.find_written(current.keyed.store().versions(), current.keyed.commit())
        {
            let said = say(&current.catalog, &key);
            return Err(conflict(format!("{said}, which was read, was written meanwhile")));
        }
        for table in self.reads.keyed.iter().flat_map(|reads| reads.tables()) {
            let (Some(base), Some(now)) = (self.base.tables.get(&table), current.tables.get(&table)) else { continue };
            if base.next_row != now.next_row || live_rows_differ(base, now) {
                return Err(conflict(format!(
                    "rows of table {}, which was read, were changed meanwhile",
                    now.def.name
                )));
            }
        }
        Ok(())
    }

    /// At [`Isolation::ReadCommitted`] has the statements to come see what is committed by now, under the transaction's own
    /// changes; at the other levels nothing happens.
    ///
    /// `SerializationFailure` if a table that the transaction has written to has another definition now, or a columnar row that
    /// it has deleted is gone. What it has written to keyed rows is validated by the commit. Where that is lost by now the statements
    /// go on over the snapshot that they have: in the newest, indexes would have entries of rows that the transaction's own hide.
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
            Err(error) if error.kind() == ErrorKind::SerializationFailure => return Ok(()),
            validated => validated?,
        }
        let mut changes = self.changes.clone();
        for (id, changed) in &mut changes.tables {
            let (Some(base), Some(now)) = (self.base.tables.get(id), newest.tables.get(id)) else { continue };
            if !changed.is_empty() {
                self.same_definition(&now.def, &newest)?;
            }
            if changed.truncated && (base.next_row != now.next_row || live_rows_differ(base, now)) {
                return Err(conflict(format!("rows of table \"{}\" were changed meanwhile", now.def.name)));
            }
            if !changed.deleted.is_empty() {
                let moved = moved_deletes(base, now, &changed.deleted)?;
                Arc::make_mut(changed).deleted = moved;
            }
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

    /// Has the transaction read another snapshot.
    pub(crate) fn stand_on(&mut self, snapshot: Arc<Snapshot>) {
        self.base_reader = BaseReader::new(snapshot.keyed.generation());
        self.base = snapshot;
        self.forget_view();
    }
}

/// A key as an error says it: with its table.
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
        None => "a row of a table that is gone".to_owned(),
    }
}
