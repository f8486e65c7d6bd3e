//! A table of another database, as a query of this one reads it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use rowmill_base::TableId;
use rowmill_storage::{Block, KeyedDef, KeyedSource, OpenRun, TableDef, TableSource};

/// The number of the next table of another database that a statement reads.
static NEXT: AtomicU32 = AtomicU32::new(0);

/// The largest number, which leaves the highest bit free.
const NUMBER_MASK: u32 = (1 << 31) - 1;

/// A table of another database in that database's snapshot.
///
/// Two databases use the same numbers for their tables, so the table gets a number that no catalog knows. Everything
/// that looks up tables by number (plans that are used again, programs, rights) then finds nothing for it, and never a
/// table of the wrong database.
#[derive(Debug)]
pub(crate) struct AttachedTable {
    table: Arc<dyn TableSource>,
    def: Arc<TableDef>,
}

impl AttachedTable {
    pub(crate) fn new(table: Arc<dyn TableSource>) -> AttachedTable {
        let mut def = TableDef::clone(table.table());
        def.id = TableId::attached(NEXT.fetch_add(1, Ordering::Relaxed) & NUMBER_MASK);
        // They name other tables by number. Queries use them only to estimate.
        def.keyed = def.keyed.map(|keyed| {
            Arc::new(KeyedDef { foreign_keys: Vec::new(), referrers: Vec::new(), ..KeyedDef::clone(&keyed) })
        });
        AttachedTable { table, def: Arc::new(def) }
    }
}

impl TableSource for AttachedTable {
    fn table(&self) -> &Arc<TableDef> {
        &self.def
    }

    fn blocks(&self) -> &[Arc<Block>] {
        self.table.blocks()
    }

    fn runs(&self) -> &[Arc<OpenRun>] {
        self.table.runs()
    }

    fn keyed(&self) -> Option<&dyn KeyedSource> {
        self.table.keyed()
    }
}
