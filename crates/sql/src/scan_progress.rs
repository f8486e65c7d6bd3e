//! The progress of a statement's scans.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use parking_lot::Mutex;
use rowmill_exec::scan::ScanMetrics;

/// The rows that a scan will read in total and has read, for the progress of its statement.
#[derive(Debug)]
pub(crate) struct ScanProgress {
    rows_total: u64,
    running: Mutex<Option<Arc<ScanMetrics>>>,
}

impl ScanProgress {
    /// Creates the progress of a scan over a table of `rows_total` rows that has not begun.
    pub(crate) fn new(rows_total: u64) -> Self {
        ScanProgress { rows_total, running: Mutex::default() }
    }

    /// Counts with `metrics` from now on. Returns whether it counts for the first time.
    pub(crate) fn follow(&self, metrics: Arc<ScanMetrics>) -> bool {
        self.running.lock().replace(metrics).is_none()
    }

    /// Returns the number of rows of the table.
    pub(crate) fn rows_total(&self) -> u64 {
        self.rows_total
    }

    /// Returns the number of rows that were read so far, at most the rows of the table.
    pub(crate) fn rows_done(&self) -> u64 {
        let rows = self.running.lock().as_ref().map_or(0, |metrics| metrics.rows_read.load(Ordering::Relaxed));
        // A scan that runs again counts its rows again, so we cap them.
        rows.min(self.rows_total)
    }
}
