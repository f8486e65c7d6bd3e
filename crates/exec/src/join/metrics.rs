//! The counts of a join.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::key_filter::FilterCounts;

/// Counts of the work of a join.
#[derive(Debug, Default)]
pub struct JoinMetrics {
    /// Rows of the build side.
    pub build_rows: AtomicU64,
    /// Rows of the probe side that reached the join.
    pub probe_rows: AtomicU64,
    /// Rows of the result.
    pub output_rows: AtomicU64,
    /// Bytes of the build side with its index and its filters.
    pub build_bytes: AtomicU64,
    /// The work of the filters on the probe side.
    pub filters: Arc<FilterCounts>,
}

pub(super) fn add(counter: &AtomicU64, count: usize) {
    counter.fetch_add(count as u64, Ordering::Relaxed);
}
