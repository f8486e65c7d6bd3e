//! The background job that refreshes materialized views: `REFRESH IMMEDIATE` after commits, `REFRESH EVERY` at
//! intervals.
//!
//! One thread refreshes one view at a time. Commits that come while it works are gathered into the next refresh. A view
//! is refreshed at most half of the time: after a refresh that took long, the next one waits as long. So the lag of a
//! view stays within a few times of what a refresh takes, and the rest of the machine is free for other work.
//!
//! Views are refreshed after the views that they read. A refresh that fails is tried again, after longer and longer
//! pauses; until it succeeds, the view keeps its rows and shows the error.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rowmill_base::{Cancel, ErrorKind, Result, TableId};
use rowmill_exec::workers::Workers;
use rowmill_txn::{Catalog, Engine, MaterializedView, RefreshJob, RefreshRule, Snapshot, SourceLag};

use crate::open_transaction::now_us;
use crate::parse::{self, Statement};
use crate::session::{CancelHandle, Session};
use crate::statement::refresh::{Extent, refresh_view};

/// The pause after the first failed refresh. Each further failure doubles it.
const RETRY: Duration = Duration::from_millis(500);

/// The longest pause between failed refreshes.
const RETRY_MAX: Duration = Duration::from_secs(60);

/// Refreshes the materialized views of a database until it is dropped, which ends a running refresh.
#[derive(Debug)]
pub struct Refresher {
    running: CancelHandle,
    job: RefreshJob,
}

impl Refresher {
    /// Starts the job for the views of `engine`. Their queries run on `workers`.
    pub fn start(engine: &Arc<Engine>, workers: &Arc<Workers>) -> Result<Refresher> {
        let session = Session::new(Arc::clone(engine), Arc::clone(workers))?;
        let running = session.cancel_handle();
        // The text appears where errors name the statement that ran.
        let statement = parse::parse("REFRESH MATERIALIZED VIEW due", &session.settings())?.remove(0);
        let views = Mutex::new(DueViews { session, statement, past: HashMap::new() });
        let job = engine.refresh_in_background(move |stop| views.lock().refresh(stop))?;
        Ok(Refresher { running, job })
    }
}

impl Drop for Refresher {
    fn drop(&mut self) {
        // In this order: a refresh that begins after the cancellation sees that it must stop.
        self.job.stop();
        self.running.cancel();
    }
}

struct DueViews {
    session: Session,
    statement: Statement,
    past: HashMap<TableId, PastRefreshes>,
}

/// What the job has done with one view.
#[derive(Clone, Copy, Debug)]
struct PastRefreshes {
    /// When the last refresh ended, or when the view was last found to be up to date.
    ended: Instant,
    /// How long the last refresh took.
    took: Duration,
    /// Refreshes that have failed since the last one that did not.
    failures: u32,
}

impl DueViews {
    /// Refreshes the views that are due. Returns the time after which the next one may be.
    fn refresh(&mut self, stop: &Cancel) -> Option<Duration> {
        let Ok(snapshot) = self.session.engine().snapshot() else { return Some(RETRY) };
        let order = in_order(snapshot.catalog());
        self.past.retain(|view, _| order.contains(view));
        self.session.engine().refreshes().forget_dropped(snapshot.catalog());
        drop(snapshot);
        let mut next: Option<Duration> = None;
        for view in order {
            if stop.is_cancelled() {
                return None;
            }
            // A view may have become due by the refresh of one that it reads.
            let Ok(snapshot) = self.session.engine().snapshot() else { return Some(RETRY) };
            let Some(known) = snapshot.catalog().materialized(view).cloned() else { continue };
            let wait = self.wait(&known, &snapshot);
            drop(snapshot);
            let wait = match wait {
                Some(Duration::ZERO) => self.refresh_one(&known, stop),
                wait => wait,
            };
            next = [next, wait].into_iter().flatten().min();
        }
        next
    }

    /// Returns how long a view must wait for its next refresh. `None` if only a commit can make it due.
    fn wait(&mut self, view: &MaterializedView, snapshot: &Snapshot) -> Option<Duration> {
        let past = self.past.get(&view.table).copied();
        let pause = past.map_or(Duration::ZERO, |past| match past.failures {
            0 => past.took,
            failures => RETRY.saturating_mul(1 << (failures - 1).min(10)).min(RETRY_MAX),
        });
        let rest = past.map_or(Duration::ZERO, |past| pause.saturating_sub(past.ended.elapsed()));
        let has_failed = self.session.engine().refreshes().failure(view.table).is_some();
        let point = view.refreshed.as_ref();
        let is_behind = has_failed || point.is_none_or(|point| point.lag(snapshot) != SourceLag::Rows(0));
        match view.refresh {
            RefreshRule::Manual => None,
            RefreshRule::Immediate => is_behind.then_some(rest),
            RefreshRule::Every(milliseconds) => {
                let interval = Duration::from_millis(milliseconds);
                let due = match (past, point) {
                    (Some(past), _) if past.failures == 0 => interval.saturating_sub(past.ended.elapsed()),
                    (Some(_), _) | (None, None) => rest,
                    (None, Some(point)) => {
                        // A clock that was set back must not delay the refresh for longer than the interval.
                        let since = u64::try_from(now_us().saturating_sub(point.at_us)).unwrap_or(u64::MAX);
                        interval.saturating_sub(Duration::from_micros(since))
                    }
                };
                let reads_more = point.is_some_and(|point| point.reads_more);
                if due == Duration::ZERO && !is_behind && !reads_more {
                    self.past.insert(view.table, PastRefreshes::up_to_date());
                    return Some(interval);
                }
                Some(due.max(rest))
            }
        }
    }

    /// Refreshes one view. Returns the time after which it may be due again.
    fn refresh_one(&mut self, view: &MaterializedView, stop: &Cancel) -> Option<Duration> {
        let began = Instant::now();
        let table = view.table;
        let done = self.session.work_on(&self.statement, &[], |work| {
            // The session has made a new flag by now, which the end of the job may have missed.
            if stop.is_cancelled() {
                work.cancel.cancel();
            }
            refresh_view(work, table, Extent::Least)
        });
        let _ = self.session.take_notices();
        let failures = match done {
            Ok(()) => 0,
            Err(_) if stop.is_cancelled() => return None,
            // Another transaction was faster. That is no reason to wait longer.
            Err(error) if error.kind() == ErrorKind::SerializationFailure => 1,
            Err(_) => self.past.get(&table).map_or(0, |past| past.failures).saturating_add(1),
        };
        let past = PastRefreshes { ended: Instant::now(), took: began.elapsed(), failures };
        self.past.insert(table, past);
        match (failures, view.refresh) {
            (0, RefreshRule::Every(milliseconds)) => Some(Duration::from_millis(milliseconds)),
            (0, _) => Some(past.took),
            _ => Some(RETRY),
        }
    }
}

impl PastRefreshes {
    fn up_to_date() -> PastRefreshes {
        PastRefreshes { ended: Instant::now(), took: Duration::ZERO, failures: 0 }
    }
}

/// Returns the views that the job refreshes, each after those that it reads. A view that reads itself through others
/// cannot be created, but stored definitions that say so must not end the job.
fn in_order(catalog: &Catalog) -> Vec<TableId> {
    let mut left: Vec<&MaterializedView> = catalog.materialized_views().map(|view| &**view).collect();
    let mut order = Vec::with_capacity(left.len());
    while !left.is_empty() {
        let waits = |view: &MaterializedView| {
            let sources = view.refreshed.iter().flat_map(|point| &point.sources);
            let mut others = left.iter().filter(|other| other.table != view.table).map(|other| other.table);
            let sources: Vec<TableId> = sources.map(|source| source.table).collect();
            others.any(|other| sources.contains(&other))
        };
        let at = left.iter().position(|view| !waits(view)).unwrap_or(0);
        order.push(left.remove(at));
    }
    order.into_iter().filter(|view| view.refresh != RefreshRule::Manual).map(|view| view.table).collect()
}
