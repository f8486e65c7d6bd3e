//! The context of one statement: its snapshot, its settings, and the notices of its queries.

use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use rowmill_base::{Broker, Cancel, Settings};
use rowmill_exec::scan::ScanMetrics;
use rowmill_storage::TableSource;
use rowmill_txn::{Engine, Snapshot};

use crate::scan_progress::ScanProgress;

/// Appended to the name of a table, names its twin: the same table with the row numbers as one more column. No
/// statement can write this character in a name that it looks up, so only our own `UPDATE` and `DELETE` reach the twin.
pub(crate) const ROW_NUMBER_SUFFIX: &str = "\u{1}rows";

/// Returns the name of the twin of `table` (in lower case) that has the column [`ROW_NUMBER_COLUMN`].
pub(crate) fn row_number_twin(table: &str) -> String {
    format!("{table}{ROW_NUMBER_SUFFIX}")
}

/// The column of row numbers (`BIGINT UNSIGNED`), the last one of a table's twin.
pub(crate) const ROW_NUMBER_COLUMN: &str = "\u{1}row_number";

/// Appended to the name of a table, names the rows that are about to be written to it, so that conditions can read
/// them.
pub(crate) const NEW_ROWS_SUFFIX: &str = "\u{1}new";

/// Returns the name under which the rows of [`StatementContext::new_rows`] for `table` (in lower case) are found.
pub(crate) fn new_rows_twin(table: &str) -> String {
    format!("{table}{NEW_ROWS_SUFFIX}")
}

/// The snapshot, the settings and the services that one statement works with.
#[derive(Debug)]
pub(crate) struct StatementContext {
    pub(crate) snapshot: Arc<Snapshot>,
    pub(crate) cancel: Cancel,
    pub(crate) settings: Settings,
    /// The database, for facts beside its rows. The reference is weak because a plan that outlives its statement must
    /// not keep the database open.
    pub(crate) engine: Weak<Engine>,
    /// Grants the memory of the engine's operators.
    pub(crate) broker: Broker,
    /// Notices of planning, shown beside the result.
    pub(crate) notices: Arc<Mutex<Vec<String>>>,
    /// The scans of the statement, from which its progress is computed.
    pub(crate) scans: Mutex<Vec<Arc<ScanProgress>>>,
    /// The value of `now()` in this statement: microseconds since 1970-01-01 UTC.
    pub(crate) now_us: i64,
    /// Rows that are about to be written, if conditions read them.
    pub(crate) new_rows: Option<Arc<dyn TableSource>>,
}

impl StatementContext {
    pub(crate) fn new(
        snapshot: Arc<Snapshot>,
        cancel: Cancel,
        settings: Settings,
        engine: &Arc<Engine>,
        notices: Arc<Mutex<Vec<String>>>,
        now_us: i64,
    ) -> Arc<Self> {
        let (broker, engine) = (engine.broker().clone(), Arc::downgrade(engine));
        let scans = Mutex::default();
        Arc::new(StatementContext {
            snapshot,
            cancel,
            settings,
            engine,
            broker,
            notices,
            scans,
            now_us,
            new_rows: None,
        })
    }

    /// Returns this context with rows that are about to be written. The caller must hold the only reference to it.
    pub(crate) fn with_new_rows(self: Arc<Self>, rows: Arc<dyn TableSource>) -> Arc<Self> {
        let mut this = Arc::into_inner(self).expect("the caller holds the only reference to the context");
        this.new_rows = Some(rows);
        Arc::new(this)
    }

    /// Lets `progress` count with `metrics` and makes it a part of the statement's progress.
    pub(crate) fn follow(&self, progress: &Arc<ScanProgress>, metrics: &Arc<ScanMetrics>) {
        if progress.follow(Arc::clone(metrics)) {
            self.scans.lock().push(Arc::clone(progress));
        }
    }
}
