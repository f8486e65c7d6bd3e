//! Snapshots: immutable committed states of the whole database, shared by all statements that read them.
//!
//! A commit makes the next snapshot from the last one and its changes. Tables that did not change are shared between
//! the two. A reader only holds its snapshot and never waits for another thread.

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
use crate::renumbering::RowNumbering;

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
    /// How many numbers below it were given to rows that moved, and not to new ones.
    pub(crate) moved_rows: u64,
    /// Translates row numbers of this state to those of later ones.
    pub(crate) numbering: RowNumbering,
    /// Held as in [`Snapshot::pin`], because a scan may outlive the snapshot that it began with.
    pub(crate) _pin: Option<Arc<Pin>>,
    /// The rows of a keyed table. Set only when the table is handed to a reader.
    pub(crate) keyed: Option<KeyedTable>,
}

impl TableSnapshot {
    /// The number of deleted rows that its blocks still hold.
    pub fn deleted_rows(&self) -> u64 {
        self.blocks.iter().map(|block| (block.rows() - block.live_rows()) as u64).sum()
    }

    pub(crate) fn empty(def: Arc<TableDef>) -> Self {
        TableSnapshot {
            def,
            blocks: Arc::default(),
            runs: Arc::default(),
            next_row: RowNumber(0),
            moved_rows: 0,
            numbering: RowNumbering::default(),
            _pin: None,
            keyed: None,
        }
    }
}

impl TableSnapshot {
    /// How many rows were ever added. Unlike the next row number it does not count rows that moved.
    pub(crate) fn rows_added(&self) -> u64 {
        self.next_row.0 - self.moved_rows
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

/// One committed state, or such a state with the uncommitted changes of one transaction applied.
#[derive(Clone, Debug)]
pub struct Snapshot {
    pub(crate) commit: CommitId,
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) tables: Arc<Tables>,
    /// The end of the commit's record in the log.
    pub(crate) log_end: Position,
    /// Rows of keyed tables.
    pub(crate) keyed: Arc<KeyedState>,
    /// The writes of the transaction to keyed tables, in a view.
    pub(crate) own: Option<Arc<WriteSet>>,
    /// Records what the transaction reads of keyed tables, if its isolation level needs that.
    pub(crate) reads: Option<Arc<ReadSet>>,
    /// Keeps the state readable in a process that only reads. The writing process needs no pin, because its snapshots
    /// hold the blocks that they name.
    pub(crate) pin: Option<Arc<Pin>>,
}

/// A read of the base. While it lives, no process may reuse, punch, cut or remove space that its state names.
#[derive(Debug)]
pub(crate) struct Pin {
    /// Keyed rows are read through it too.
    _generation: Arc<Generation>,
}

impl Pin {
    pub(crate) fn new(generation: Arc<Generation>) -> Self {
        Pin { _generation: generation }
    }
}

impl Snapshot {
    /// Returns the same state, which `pin` keeps readable.
    pub(crate) fn pinned(&self, pin: Pin, keyed: Arc<KeyedState>) -> Self {
        Snapshot { pin: Some(Arc::new(pin)), keyed, ..self.clone() }
    }

    /// Returns the same state with the keyed rows of `keyed`.
    pub(crate) fn with_keyed(&self, keyed: Arc<KeyedState>) -> Self {
        Snapshot { keyed, ..self.clone() }
    }

    /// Returns the same state with keyed rows that are never read. Only copies of log records are applied to them.
    pub(crate) fn detached(&self, memory: &Broker) -> Self {
        let commit = self.keyed.commit();
        self.with_keyed(KeyedStore::new(Generation::unread(commit), memory, None).unread_state(commit))
    }

    /// Whether a definition of this state names the folder or file.
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

    /// The definitions, for callers that keep them longer than the snapshot.
    pub(crate) fn catalog_arc(&self) -> Arc<Catalog> {
        Arc::clone(&self.catalog)
    }

    /// The rows of a table. Under SERIALIZABLE, records that a columnar table is read, so that commit can detect
    /// conflicts.
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
