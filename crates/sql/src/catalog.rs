//! The context of one statement: its snapshot, its settings, and the notices of its queries.

use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use rowmill_base::{Broker, Cancel, Settings};
use rowmill_exec::scan::ScanMetrics;
use rowmill_exec::workers::Workers;
use rowmill_storage::spill::TempSpace;
use rowmill_txn::{Engine, Snapshot};

use crate::access::{Access, Authority};
use crate::files::FileFolders;
use crate::running_statements::RunningStatements;
use crate::scan_progress::ScanProgress;
use crate::session::Work;
use crate::session_objects::SessionObjects;

/// The snapshot, the settings and the services that one statement works with.
#[derive(Debug)]
pub(crate) struct StatementContext {
    pub(crate) snapshot: Arc<Snapshot>,
    pub(crate) cancel: Cancel,
    pub(crate) settings: Settings,
    /// The database, for facts beside its rows. The reference is weak because a plan that outlives its statement must
    /// not keep the database open.
    pub(crate) engine: Weak<Engine>,
    /// The threads that run the query.
    pub(crate) workers: Arc<Workers>,
    /// The statements that run on all connections of the database.
    pub(crate) running: Arc<RunningStatements>,
    /// Grants the memory of the engine's operators.
    pub(crate) broker: Broker,
    /// The place of temporary files.
    pub(crate) temp: TempSpace,
    /// Notices of planning, shown beside the result.
    pub(crate) notices: Arc<Mutex<Vec<String>>>,
    /// The tables and functions that the connection has added.
    pub(crate) objects: Arc<SessionObjects>,
    /// The scans of the statement, from which its progress is computed.
    pub(crate) scans: Mutex<Vec<Arc<ScanProgress>>>,
    /// The value of `now()` in this statement: microseconds since 1970-01-01 UTC.
    pub(crate) now_us: i64,
    /// Who runs the statement.
    pub(crate) authority: Authority,
}

impl StatementContext {
    /// Creates the context of a query of a statement over `snapshot`.
    pub(crate) fn new(work: &Work<'_>, snapshot: Arc<Snapshot>) -> Arc<Self> {
        let (engine, settings) = (work.engine(), work.settings().clone());
        Arc::new(StatementContext {
            snapshot,
            cancel: work.cancel.clone(),
            broker: engine.broker().for_statement(settings.number("statement_memory_limit")),
            temp: engine.temp().clone(),
            engine: Arc::downgrade(engine),
            settings,
            workers: Arc::clone(&work.session.workers),
            running: Arc::clone(work.session.running_statements()),
            notices: Arc::clone(work.notices()),
            objects: work.objects(),
            scans: Mutex::default(),
            now_us: work.now_us(),
            authority: work.session.authority().clone(),
        })
    }

    /// What the statement may do.
    pub(crate) fn access(&self) -> Access<'_> {
        Access::of(self.snapshot.catalog(), self.authority.actor)
    }

    /// The folders in which the files of the statement must lie.
    pub(crate) fn folders(&self) -> FileFolders {
        if self.access().is_unlimited() { FileFolders::default() } else { self.authority.folders.clone() }
    }

    /// Lets `progress` count with `metrics` and makes it a part of the statement's progress.
    pub(crate) fn follow(&self, progress: &Arc<ScanProgress>, metrics: &Arc<ScanMetrics>) {
        if progress.follow(Arc::clone(metrics)) {
            self.scans.lock().push(Arc::clone(progress));
        }
    }
}
