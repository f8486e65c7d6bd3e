//! How far the scans of a statement are.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use parking_lot::Mutex;
use rowmill_exec::scan::ScanMetrics;

/// Rows a scan has to read and has read, for the progress of its statement.
#[derive(Debug)]
pub(crate) struct ScanProgress {
    rows_total: u64,
    running: Mutex<Option<Arc<ScanMetrics>>>,
}

impl ScanProgress {
    /// The progress of a scan that reads a table of `rows_total` rows and has not begun.
    pub(crate) fn new(rows_total: u64) -> Self {
        ScanProgress { rows_total, running: Mutex::default() }
    }

    /// Counts by `metrics` from now on. Returns whether there were none before.
    pub(crate) fn follow(&self, metrics: Arc<ScanMetrics>) -> bool {
        self.running.lock().replace(metrics).is_none()
    }

    /// The rows of the table.
    pub(crate) fn rows_total(&self) -> u64 {
        self.rows_total
    }

    /// The rows that were read so far.
    pub(crate) fn rows_done(&self) -> u64 {
        let rows = self.running.lock().as_ref().map_or(0, |metrics| metrics.rows_read.load(Ordering::Relaxed));
        rows.min(self.rows_total)
    }
}
