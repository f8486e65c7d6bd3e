//! How many rows of each keyed table were written since its statistics were made.
//!
//! Commits add to the counts, and tell when one of them has reached its limit. The limit is a tenth of the rows
//! (`auto_analyze.rs`), so a commit need not know the number of rows.
//!
//! A table is identified by its primary index, which changes with TRUNCATE. Other indexes are counted too, until
//! someone says that they do not matter.

use std::collections::HashMap;

use parking_lot::Mutex;
use rowmill_base::IndexId;

/// The first limit of an index whose writes were not counted before.
pub(crate) const ROWS_MIN: u64 = 1_000;

/// The numbers of rows that were written, by index.
#[derive(Debug, Default)]
pub(crate) struct ChangedCounts(Mutex<HashMap<IndexId, ChangedCount>>);

/// The rows that were written to an index, and the count at which the index should be analysed.
#[derive(Clone, Copy, Debug)]
struct ChangedCount {
    count: u64,
    limit: u64,
    /// The rows that were ever written.
    total: u64,
}

impl ChangedCounts {
    /// Adds the rows that a commit wrote. Returns whether a count has reached its limit.
    pub(super) fn add(&self, written: impl Iterator<Item = (IndexId, u64)>) -> bool {
        let mut counts = self.0.lock();
        let mut is_reached = false;
        for (index, rows) in written {
            let changed = counts.entry(index).or_insert(ChangedCount { count: 0, limit: ROWS_MIN, total: 0 });
            changed.count += rows;
            changed.total += rows;
            is_reached |= changed.count >= changed.limit;
        }
        is_reached
    }

    /// The rows that were written to an index.
    pub(crate) fn count(&self, index: IndexId) -> u64 {
        self.0.lock().get(&index).map_or(0, |changed| changed.count)
    }

    /// The rows that were written to an index since the database was opened.
    pub(crate) fn total(&self, index: IndexId) -> u64 {
        self.0.lock().get(&index).map_or(0, |changed| changed.total)
    }

    /// Subtracts rows that no longer count.
    pub(crate) fn subtract(&self, index: IndexId, rows: u64) {
        if let Some(changed) = self.0.lock().get_mut(&index) {
            changed.count = changed.count.saturating_sub(rows);
        }
    }

    /// Sets the limits of the indexes in `limits`. No other index matters.
    pub(crate) fn set_limits(&self, limits: &HashMap<IndexId, u64>) {
        for (index, changed) in self.0.lock().iter_mut() {
            changed.limit = limits.get(index).copied().unwrap_or(u64::MAX);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_tells_when_it_reaches_its_limit() {
        let (counts, table, index) = (ChangedCounts::default(), IndexId(3), IndexId(4));
        assert!(!counts.add([(table, ROWS_MIN - 1), (index, 1)].into_iter()));
        assert!(counts.add([(table, 1)].into_iter()));
        counts.set_limits(&HashMap::from([(table, 5_000)]));
        assert!(!counts.add([(table, 3_999), (index, 100_000)].into_iter()));
        assert!(counts.add([(table, 1)].into_iter()));
        counts.subtract(table, counts.count(table) - 2);
        assert_eq!((counts.count(table), counts.total(table)), (2, 5_000));
        assert!(!counts.add([(table, 1)].into_iter()));
    }
}
