//! What the engine scans: the one border between storage and execution.

use std::fmt::Debug;
use std::sync::Arc;

use crate::block::Block;
use crate::open_run::OpenRun;
use crate::schema::TableDef;

/// The rows of a table in one snapshot.
pub trait TableSource: Send + Sync + Debug {
    /// The definition that the rows are read by.
    fn table(&self) -> &Arc<TableDef>;

    /// Sealed blocks with their deletes, in the order of their row numbers.
    fn blocks(&self) -> &[Arc<Block>];

    /// Recent rows, read by rows, in the order of their row numbers.
    fn runs(&self) -> &[Arc<OpenRun>];

    /// Rows that are not deleted.
    fn row_count(&self) -> u64 {
        let blocks: usize = self.blocks().iter().map(|block| block.live_rows()).sum();
        let runs: usize = self.runs().iter().map(|run| run.live_rows()).sum();
        (blocks + runs) as u64
    }
}
