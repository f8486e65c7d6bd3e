//! Snapshots: one committed state of the whole database, immutable, shared by every statement that reads it.
//!
//! A commit makes the next snapshot out of the last one and what changed; tables that did not change are shared. A
//! reader holds its snapshot and waits for nobody.

use std::any::Any;
use std::collections::HashMap;
use std::sync::Arc;

use rowmill_base::{CommitId, RowNumber, TableId};
use rowmill_storage::{Block, OpenRun, TableDef, TableSource};

use crate::catalog::Catalog;

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
}

impl TableSnapshot {
    pub(crate) fn empty(def: Arc<TableDef>) -> Self {
        TableSnapshot { def, blocks: Arc::default(), runs: Arc::default(), next_row: RowNumber(0) }
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
}

/// One committed state, or such a state under the uncommitted changes of one transaction.
#[derive(Clone, Debug)]
pub struct Snapshot {
    pub(crate) commit: CommitId,
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) tables: Arc<HashMap<TableId, Arc<TableSnapshot>>>,
    /// In a process that only reads: the reader that keeps the writer from reusing what this snapshot names.
    pub(crate) pin: Option<Arc<dyn Pin>>,
}

/// Something that is held for what its existence prevents.
pub(crate) trait Pin: Any + Send + Sync + std::fmt::Debug {}
impl<T: Any + Send + Sync + std::fmt::Debug> Pin for T {}

impl Snapshot {
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
        self.tables.get(&id).map(Arc::clone)
    }
}
