//! Plans that later runs of a statement can reuse.

use std::collections::HashSet;
use std::sync::Arc;

use rowmill_base::TableId;
use rowmill_plan::{ExprOp, Logical};
use rowmill_storage::{Block, OpenRun, TableDef, TableSource};

use crate::binder::BoundQuery;
use crate::binder::walk::is_volatile;
use crate::optimizer::walk::{each_operator, exprs};
use crate::table_parts::{like_planned, with_parts};

impl BoundQuery {
    /// Whether the plan is valid for every snapshot with the same table definitions. It must then contain nothing that
    /// belongs to the statement for which it was planned.
    pub fn is_reusable(&self) -> bool {
        // The tables of other databases belong to the snapshots of this statement.
        let is_own = !self.tables.iter().any(|table| table.table().id.is_attached());
        is_own && !self.reads_clock && self.sources.is_empty() && !has_dynamic(&self.query.root, &mut HashSet::new())
    }

    /// Whether the result depends on more than the rows of tables: on files, functions of the database, the time or
    /// chance.
    pub fn reads_more_than_tables(&self) -> bool {
        !self.is_reusable() || is_volatile(&self.query.root)
    }

    /// The same plan over other snapshots of its tables, which `table` finds by id. Returns `None` if a table no longer
    /// exists, or if a plan for these snapshots would read other parts of documents.
    #[must_use]
    pub fn over(&self, table: &dyn Fn(TableId) -> Option<Arc<dyn TableSource>>) -> Option<BoundQuery> {
        let tables = self.tables.iter().map(|known| like_planned(&**known, table(known.table().id)?));
        let tables = tables.collect::<Option<_>>()?;
        Some(BoundQuery { tables, ..self.clone() })
    }

    /// The same plan without the rows of its tables, for a cache. It must be put [over](BoundQuery::over) a snapshot
    /// before it runs.
    #[must_use]
    pub fn unread(&self) -> BoundQuery {
        BoundQuery { tables: self.tables.iter().map(|table| unread(&**table)).collect(), ..self.clone() }
    }
}

/// A table without its rows, for plans that wait for a snapshot.
///
/// A cached plan must not keep a snapshot: as long as one lives, no checkpoint can free the versions that came after
/// it, and the connection may be idle for days.
#[derive(Debug)]
pub struct UnreadTable(pub Arc<TableDef>);

/// The table without its rows.
pub(crate) fn unread(table: &dyn TableSource) -> Arc<dyn TableSource> {
    let unread = Arc::new(UnreadTable(Arc::clone(table.table())));
    match table.planned_parts() {
        Some(parts) => with_parts(unread, Arc::clone(parts)),
        None => unread,
    }
}

impl TableSource for UnreadTable {
    fn table(&self) -> &Arc<TableDef> {
        &self.0
    }

    fn blocks(&self) -> &[Arc<Block>] {
        &[]
    }

    fn runs(&self) -> &[Arc<OpenRun>] {
        &[]
    }
}

/// Whether the plan calls a function that belongs to its statement. A shared plan is visited only once, however many
/// readers it has; `walked` has the numbers of the shared plans that were visited.
fn has_dynamic(plan: &Logical, walked: &mut HashSet<usize>) -> bool {
    let mut found = false;
    each_operator(plan, &mut |plan| {
        found |= exprs(plan).into_iter().any(|expr| expr.any(&|part| matches!(part.op, ExprOp::Dynamic(..))));
        if let Logical::Shared { number, input, .. } = plan
            && walked.insert(*number)
        {
            found |= has_dynamic(input, walked);
        }
    });
    found
}
