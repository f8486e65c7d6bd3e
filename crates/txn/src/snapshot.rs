//! Snapshots: one committed state of the whole database, immutable, shared by every statement that reads it.
//!
//! A commit makes the next snapshot out of the last one and what changed; tables that did not change are shared. A
//! reader holds its snapshot and waits for nobody.

use std::collections::HashMap;
use std::sync::Arc;

use rowmill_base::{Broker, CommitId, RowNumber, TableId};
use rowmill_storage::{Block, KeyedSource, OpenRun, TableDef, TableSource};

use crate::catalog::Catalog;
use crate::column_files::Unnamed;
use crate::keyed::KeyedTable;
use crate::keyed::generation::Generation;
use crate::keyed::read_set::ReadSet;
use crate::keyed::store::{KeyedState, KeyedStore};
use crate::keyed::write_set::WriteSet;
use crate::log::Position;

/// The tables of a snapshot.
pub(crate) type Tables = HashMap<TableId, Arc<TableSnapshot>>;

/// The rows and the definition of one table in one snapshot.
#[derive(Clone, Debug)]
pub struct TableSnapshot {
    pub(crate) def: Arc<TableDef>,
    /// In the order of their row numbers.
    pub(crate) blocks: Arc<[Arc<Block>]>,
    /// In the order of their row numbers.
    pub(crate) runs: Arc<[Arc<OpenRun>]>,
    /// The number of the next row to be committed.
    pub(crate) next_row: RowNumber,
    /// As for [`Snapshot`], since a scan outlives the snapshot that it began with.
    pub(crate) _pin: Option<Arc<Pin>>,
    /// Where it is handed to a reader, of a keyed table its rows.
    pub(crate) keyed: Option<KeyedTable>,
}

impl TableSnapshot {
    pub(crate) fn empty(def: Arc<TableDef>) -> Self {
        TableSnapshot {
            def,
            blocks: Arc::default(),
            runs: Arc::default(),
            next_row: RowNumber(0),
            _pin: None,
            keyed: None,
        }
    }
}

impl TableSource for TableSnapshot {
    fn table(&self) -> &Arc<TableDef> {
        &self.def
    }

    fn blocks(&self) -> &[Arc<Block>] {
        &self.blocks
    }

    fn runs(&self) -> &[Arc<OpenRun>] {
        &self.runs
    }

    fn keyed(&self) -> Option<&dyn KeyedSource> {
        self.keyed.as_ref().map(|keyed| keyed as &dyn KeyedSource)
    }
}

/// One committed state, or such a state under the uncommitted changes of one transaction.
#[derive(Clone, Debug)]
pub struct Snapshot {
    pub(crate) commit: CommitId,
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) tables: Arc<Tables>,
    /// Behind the log's record of its commit.
    pub(crate) log_end: Position,
    /// Rows of keyed tables.
    pub(crate) keyed: Arc<KeyedState>,
    /// What a transaction has written to keyed tables.
    pub(crate) own: Option<Arc<WriteSet>>,
    /// Where a transaction notes what is read of keyed tables.
    pub(crate) reads: Option<Arc<ReadSet>>,
    /// In a process that only reads. The writing process needs none: its snapshots hold the blocks that they name.
    pub(crate) pin: Option<Arc<Pin>>,
}

/// A read of the base that is held for what it prevents: while it lives no process reuses, punches, cuts or removes what
/// its state names.
#[derive(Debug)]
pub(crate) struct Pin {
    /// Rows of keyed tables are read by it too.
    _generation: Arc<Generation>,
}

impl Pin {
    pub(crate) fn new(generation: Arc<Generation>) -> Self {
        Pin { _generation: generation }
    }
}

impl Snapshot {
    /// The same state, kept readable by `pin`.
    pub(crate) fn pinned(&self, pin: Pin, keyed: Arc<KeyedState>) -> Self {
        Snapshot { pin: Some(Arc::new(pin)), keyed, ..self.clone() }
    }

    /// The same state with rows of keyed tables as `keyed` has them.
    pub(crate) fn with_keyed(&self, keyed: Arc<KeyedState>) -> Self {
        Snapshot { keyed, ..self.clone() }
    }

    /// The same state with keyed rows that nobody reads and to which nothing but copies of records are applied.
    pub(crate) fn detached(&self, memory: &Broker) -> Self {
        let commit = self.keyed.commit();
        self.with_keyed(KeyedStore::new(Generation::unread(commit), memory).unread_state(commit))
    }

    /// Whether a definition names the folder or file.
    pub(crate) fn names(&self, what: Unnamed) -> bool {
        match what {
            Unnamed::Folder(table) => self.catalog.table_by_id(table).is_some(),
            Unnamed::File(table, column) => {
                self.catalog.table_by_id(table).is_some_and(|table| table.column_by_id(column).is_some())
            }
        }
    }

    /// The last commit that the snapshot sees.
    pub fn commit(&self) -> CommitId {
        self.commit
    }

    /// The definitions.
    pub fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// The definitions, to be held beyond the snapshot.
    pub fn catalog_arc(&self) -> Arc<Catalog> {
        Arc::clone(&self.catalog)
    }

    /// The rows of a table.
    pub fn table(&self, id: TableId) -> Option<Arc<TableSnapshot>> {
        let table = self.tables.get(&id)?;
        if let Some(reads) = self.reads.as_ref().filter(|_| table.def.keyed.is_none()) {
            reads.note_table(id);
        }
        if table.def.keyed.is_none() && self.pin.is_none() {
            return Some(Arc::clone(table));
        }
        let is_keyed = table.def.keyed.is_some();
        let statistics = || self.catalog.statistics(id).cloned();
        let keyed = is_keyed.then(|| KeyedTable::new(self.keyed_view(), self.keyed_codec(id), statistics()));
        Some(Arc::new(TableSnapshot { _pin: self.pin.clone(), keyed, ..(**table).clone() }))
    }
}
