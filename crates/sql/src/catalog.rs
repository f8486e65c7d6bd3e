//! What one statement works with: a snapshot, settings, and what its queries report.

use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use rowmill_base::{Broker, Cancel, Settings};
use rowmill_exec::scan::ScanMetrics;
use rowmill_storage::TableSource;
use rowmill_txn::{Engine, Snapshot};

use crate::scan_progress::ScanProgress;

/// Behind the name of a table: the same table with the numbers of its rows as one more column. No statement can write
/// this character in a name that it looks up, so the twin is only reached by our own `UPDATE` and `DELETE`.
pub(crate) const ROW_NUMBER_SUFFIX: &str = "\u{1}rows";

/// The name under which `table`, in lower case, has the column [`ROW_NUMBER_COLUMN`].
pub(crate) fn row_number_twin(table: &str) -> String {
    format!("{table}{ROW_NUMBER_SUFFIX}")
}

/// The column of row numbers (`BIGINT UNSIGNED`), last in the twin of a table.
pub(crate) const ROW_NUMBER_COLUMN: &str = "\u{1}row_number";

/// Behind the name of a table: rows that are about to be written to it, for conditions on them.
pub(crate) const NEW_ROWS_SUFFIX: &str = "\u{1}new";

/// The name under which `table`, in lower case, has the rows of [`StatementContext::new_rows`].
pub(crate) fn new_rows_twin(table: &str) -> String {
    format!("{table}{NEW_ROWS_SUFFIX}")
}

/// What one statement works with.
#[derive(Debug)]
pub(crate) struct StatementContext {
    pub(crate) snapshot: Arc<Snapshot>,
    pub(crate) cancel: Cancel,
    pub(crate) settings: Settings,
    /// The database, for what is told of it beside its rows. A plan that outlives its statement must not keep it open.
    pub(crate) engine: Weak<Engine>,
    /// Grants the memory of the engine's operators.
    pub(crate) broker: Broker,
    /// What planning has to say beside the result.
    pub(crate) notices: Arc<Mutex<Vec<String>>>,
    /// The scans of the statement, for its progress.
    pub(crate) scans: Mutex<Vec<Arc<ScanProgress>>>,
    /// What `now()` gives: microseconds since 1970-01-01 UTC.
    pub(crate) now_us: i64,
    /// Rows that are about to be written.
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

    /// The same with rows that are about to be written.
    pub(crate) fn with_new_rows(self: Arc<Self>, rows: Arc<dyn TableSource>) -> Arc<Self> {
        let mut this = Arc::into_inner(self).expect("nobody has seen it yet");
        this.new_rows = Some(rows);
        Arc::new(this)
    }

    /// Has `progress` count by `metrics`, and the statement's progress by `progress`.
    pub(crate) fn follow(&self, progress: &Arc<ScanProgress>, metrics: &Arc<ScanMetrics>) {
        if progress.follow(Arc::clone(metrics)) {
            self.scans.lock().push(Arc::clone(progress));
        }
    }
}
