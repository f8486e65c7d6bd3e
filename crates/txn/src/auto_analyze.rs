//! ANALYZE by itself: a background job makes statistics of keyed tables that have changed.
//!
//! A table is due when a tenth of its rows were written since its statistics were made. Without statistics, it is due
//! when as many rows were written as it has. Commits count the rows that they write (`keyed/changed_counts.rs`) and
//! ring the job. All tables that are due are analyzed in one transaction, because each change of the catalog makes
//! sessions compile their programs again. It conflicts with no other transaction, unless one drops a table.
//!
//! ANALYZE reads the whole table. It works at the pace of the background, so that transactions soon find a free
//! processor. After it, the job rests for many times as long as it worked, and a table that grows fast is not read
//! again and again.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rowmill_base::{Cancel, Durability, IndexId, Result, TableId};

use crate::background_pace::at_background_pace;
use crate::catalog::Catalog;
use crate::engine::{Core, Engine};
use crate::job::Job;
use crate::keyed::changed_counts::ROWS_MIN;

/// A table is due when one part in this many of its rows was written.
const CHANGED_SHARE: u64 = 10;

/// Delay between a commit and the job, so that statistics are made after a load and not in its midst.
const SETTLE: Duration = Duration::from_secs(3);

/// The job takes at most one part in this many of the time.
const TIME_SHARE: u32 = 50;

/// The job that analyzes tables. It runs until this is dropped, which waits for its end.
#[derive(Debug)]
pub struct AnalyzeJob(Arc<Core>);

impl Drop for AnalyzeJob {
    fn drop(&mut self) {
        self.0.analyzer().stop();
    }
}

impl Engine {
    /// Starts the job that analyzes tables that have changed. It holds the engine until the result is dropped. The
    /// setting `auto_analyze` turns it off.
    pub fn analyze_in_background(self: &Arc<Self>) -> Result<AnalyzeJob> {
        let engine = Arc::clone(self);
        let rest_until = Mutex::new(Instant::now());
        self.analyzer().start_timed(Job::Analyze, SETTLE, move |stop| {
            let mut rest_until = rest_until.lock();
            let rest = rest_until.saturating_duration_since(Instant::now());
            if !rest.is_zero() {
                return Some(rest);
            }
            let begun = Instant::now();
            let stopped = stop.clone();
            // A table that cannot be analyzed now is due again after the next commit that writes to it.
            let (_, rested) = at_background_pace(move || stopped.is_cancelled(), || analyze_due(&engine, stop));
            *rest_until = Instant::now() + begun.elapsed().saturating_sub(rested) * (TIME_SHARE - 1);
            None
        })?;
        Ok(AnalyzeJob(self.core_arc()))
    }
}

/// A keyed table, and the number of rows that must have been written before it is due.
#[derive(Clone, Copy, Debug)]
struct TableLimit {
    table: TableId,
    index: IndexId,
    limit: u64,
}

/// Analyzes the tables that are due, and tells commits when the next ones will be.
fn analyze_due(engine: &Arc<Engine>, stop: &Cancel) -> Result<()> {
    if !engine.settings().flag("auto_analyze") {
        return Ok(());
    }
    let snapshot = engine.snapshot()?;
    let store = Arc::clone(snapshot.keyed.store());
    let counts = store.changed_counts();
    let due = limits(snapshot.catalog()).filter(|of| counts.count(of.index) >= of.limit).collect::<Vec<_>>();
    drop(snapshot);
    if !due.is_empty() {
        // Before the transaction takes its snapshot: later commits are in no statistics, so they count for the next
        // ones.
        let written: Vec<(IndexId, u64)> = due.iter().map(|of| (of.index, counts.count(of.index))).collect();
        let mut transaction = engine.begin()?;
        transaction.cancel = stop.clone();
        due.iter().try_for_each(|of| transaction.analyze(of.table, &[]))?;
        transaction.set_durability(Durability::Relaxed)?;
        transaction.commit()?;
        written.into_iter().for_each(|(index, count)| counts.subtract(index, count));
    }
    let snapshot = engine.snapshot()?;
    counts.set_limits(&limits(snapshot.catalog()).map(|of| (of.index, of.limit)).collect());
    Ok(())
}

/// The limits of all keyed tables that users made.
fn limits(catalog: &Catalog) -> impl Iterator<Item = TableLimit> + '_ {
    catalog.all_tables().filter(|table| !table.is_sequence()).filter_map(|table| {
        let index = table.keyed.as_ref()?.index;
        let known = catalog.statistics(table.id).filter(|known| known.index == index);
        let limit = known.map_or(0, |known| known.rows / CHANGED_SHARE).max(ROWS_MIN);
        Some(TableLimit { table: table.id, index, limit })
    })
}
