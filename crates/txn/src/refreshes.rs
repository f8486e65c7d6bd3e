//! The refreshes of materialized views in this process: which of them run, what the last ones read, and why they
//! failed.
//!
//! Only one refresh of a view runs at a time. We keep the rows of the base table as the last refresh has read them. So
//! the next one can still read rows that were deleted since, even if their blocks are gone. After a restart nothing is
//! kept, and the refresh point alone decides what the next refresh must read.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use rowmill_base::{Broker, Cancel, CommitId, Error, Result, TableId};

use crate::catalog::Catalog;
use crate::renumbering::{MOVED_ROW_BYTES, RowNumbering};
use crate::snapshot::TableSnapshot;

/// How often a refresh that waits for another one looks whether it was cancelled. A cancelled statement should end
/// within a tenth of a second.
const POLL: Duration = Duration::from_millis(20);

/// The translations of row numbers that the state of a base table needs may take one part in this many of the memory
/// limit.
const TRANSLATIONS_SHARE: u64 = 32;

/// The refreshes of the materialized views of a database.
#[derive(Debug, Default)]
pub struct Refreshes(Mutex<HashMap<TableId, ViewRefreshes>>);

/// The refreshes of one view.
#[derive(Debug, Default)]
struct ViewRefreshes {
    turns: Arc<Turns>,
    /// The base table as the refresh with this refresh point has read it.
    base: Option<(CommitId, Arc<TableSnapshot>)>,
    failure: Option<Error>,
}

/// Lets one refresh run at a time.
#[derive(Debug, Default)]
struct Turns {
    is_taken: Mutex<bool>,
    freed: Condvar,
}

/// The right to refresh one view, until it is dropped.
#[derive(Debug)]
pub struct RefreshTurn(Arc<Turns>);

impl Drop for RefreshTurn {
    fn drop(&mut self) {
        *self.0.is_taken.lock() = false;
        self.0.freed.notify_one();
    }
}

impl Refreshes {
    /// Waits until no refresh of the view runs, and begins one. Returns an error if `cancel` ends the wait.
    pub fn begin(&self, view: TableId, cancel: &Cancel) -> Result<RefreshTurn> {
        let turns = Arc::clone(&self.0.lock().entry(view).or_default().turns);
        let mut is_taken = turns.is_taken.lock();
        while *is_taken {
            cancel.check()?;
            turns.freed.wait_for(&mut is_taken, POLL);
        }
        *is_taken = true;
        drop(is_taken);
        Ok(RefreshTurn(turns))
    }

    /// Whether a refresh of the view runs.
    pub fn is_running(&self, view: TableId) -> bool {
        self.0.lock().get(&view).is_some_and(|view| *view.turns.is_taken.lock())
    }

    /// Notes that a refresh has committed. `base` is the only base table as the refresh has read it at `commit`.
    pub fn succeeded(&self, view: TableId, commit: CommitId, base: Option<Arc<TableSnapshot>>) {
        let mut views = self.0.lock();
        let of = views.entry(view).or_default();
        of.failure = None;
        of.base = base.map(|base| (commit, base));
    }

    /// Notes that a refresh has failed. Everything else stays as the refresh before has left it.
    pub fn failed(&self, view: TableId, error: Error) {
        self.0.lock().entry(view).or_default().failure = Some(error);
    }

    /// The error of the last refresh, if it failed.
    pub fn failure(&self, view: TableId) -> Option<Error> {
        self.0.lock().get(&view)?.failure.clone()
    }

    /// The base table as the refresh that read `commit` has seen it, if it is still known.
    pub fn base(&self, view: TableId, commit: CommitId) -> Option<Arc<TableSnapshot>> {
        let views = self.0.lock();
        let (read, base) = views.get(&view)?.base.as_ref()?;
        (*read == commit).then(|| Arc::clone(base))
    }

    /// Forgets views that `catalog` does not have. A view that is refreshed may be newer than the catalog, so it stays.
    pub fn forget_dropped(&self, catalog: &Catalog) {
        let is_kept =
            |view: TableId, of: &ViewRefreshes| catalog.materialized(view).is_some() || *of.turns.is_taken.lock();
        self.0.lock().retain(|view, of| is_kept(*view, of));
    }

    /// Lets the kept states of `table` give up the translations of their row numbers to those of `latest` if they take
    /// much memory, because the view is seldom refreshed. The next refresh then reads all rows of the blocks that were
    /// written since.
    pub(crate) fn limit_translations(&self, table: TableId, latest: &RowNumbering, memory: &Broker) {
        let rows_max = memory.limit_bytes() / TRANSLATIONS_SHARE / MOVED_ROW_BYTES;
        for view in self.0.lock().values_mut() {
            let Some((_, base)) = &mut view.base else { continue };
            if base.def.id == table && latest.moved_since(&base.numbering) > rows_max {
                *base = Arc::new(TableSnapshot { numbering: RowNumbering::default(), ..(**base).clone() });
            }
        }
    }

    /// Forgets the rows of base tables, so that they hold no space. The next refreshes read more.
    pub(crate) fn forget_bases(&self) {
        self.0.lock().values_mut().for_each(|view| view.base = None);
    }
}
