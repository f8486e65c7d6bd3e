//! The numbers of rows of keyed tables.
//!
//! The trees of the base do not count. We count rows when a query asks for the number. From then on every commit tells
//! how many rows it added, so we know the number at each commit that a snapshot can have:
//!
//! ```text
//! rows at commit c  =  base  +  rows added by commits up to c since the process began
//! ```
//!
//! `base` is known from the first count on. A process that follows the log of another one learns only that rows were
//! written, so there a count is valid only up to the next commit.
//!
//! Plans need less: an approximate number. If the exact one is not known, we count again after a while.
//!
//! A table is identified by its primary index, which changes with TRUNCATE.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rowmill_base::{CommitId, IndexId};

/// The time for which an estimate is used.
const BELIEVED: Duration = Duration::from_secs(60);

/// The number of commits per table from which on we drop those that no snapshot has.
const COMMITS_MIN: usize = 64;

/// The numbers of rows of keyed tables, and estimates of them.
#[derive(Debug, Default)]
pub(crate) struct RowCounts {
    estimates: Mutex<HashMap<IndexId, (Instant, u64)>>,
    tables: Mutex<HashMap<IndexId, TableCount>>,
}

/// The known facts about the number of rows of one table.
#[derive(Debug, Default)]
struct TableCount {
    /// Nothing is known about commits before this one.
    since: CommitId,
    /// The number of rows before all of `added`.
    base: Option<i64>,
    /// Commits in order, each with the total of rows added up to it.
    added: Vec<(CommitId, i64)>,
}

impl TableCount {
    /// The rows that were added up to a commit; `None` if that is no longer known.
    fn added_up_to(&self, at: CommitId) -> Option<i64> {
        let after = self.added.partition_point(|(commit, _)| *commit <= at);
        match after.checked_sub(1) {
            Some(last) => Some(self.added[last].1),
            None => (at >= self.since).then_some(0),
        }
    }

    fn add(&mut self, commit: CommitId, rows: i64, oldest: CommitId) {
        let before = self.added.last().map_or(0, |(_, added)| *added);
        self.added.push((commit, before + rows));
        if self.added.len() >= COMMITS_MIN {
            // Keep the newest commit that the oldest snapshot may have, because its total is still needed.
            let kept = self.added.partition_point(|(commit, _)| *commit <= oldest).saturating_sub(1);
            if let Some((first, _)) = self.added.get(kept).filter(|_| kept > 0) {
                self.since = *first;
                self.added.drain(..kept);
            }
        }
    }
}

impl RowCounts {
    /// An estimate of the rows of a table: the result of `count`, or a recent result of it.
    pub(super) fn about(&self, index: IndexId, count: impl FnOnce() -> u64) -> u64 {
        if let Some((at, rows)) = self.estimates.lock().get(&index)
            // A table that was empty is probably being filled, so count it again.
            && *rows > 0
            && at.elapsed() < BELIEVED
        {
            return *rows;
        }
        let rows = count();
        self.estimates.lock().insert(index, (Instant::now(), rows));
        rows
    }

    /// The number of rows of a table at a commit, if it is known.
    pub(super) fn rows(&self, index: IndexId, at: CommitId) -> Option<u64> {
        let tables = self.tables.lock();
        let table = tables.get(&index)?;
        u64::try_from(table.base?.checked_add(table.added_up_to(at)?)?).ok()
    }

    /// Records that a table has `rows` rows at a commit.
    pub(super) fn note(&self, index: IndexId, at: CommitId, rows: u64) {
        let mut tables = self.tables.lock();
        let table = tables.entry(index).or_default();
        // Subtract the recorded commits, because `base` is the number before all of them.
        if let (Some(added), Ok(rows)) = (table.added_up_to(at), i64::try_from(rows)) {
            table.base = Some(rows - added);
        }
    }

    /// Records the number of rows that a commit added to a table; `None` if it is not known. `oldest` is the commit of
    /// the oldest snapshot.
    pub(super) fn add(&self, index: IndexId, commit: CommitId, rows: Option<i64>, oldest: CommitId) {
        if rows == Some(0) {
            return;
        }
        let mut tables = self.tables.lock();
        match rows {
            Some(rows) => tables.entry(index).or_default().add(commit, rows, oldest),
            None => {
                // An unknown change invalidates all that was known.
                tables.insert(index, TableCount { since: commit, base: None, added: Vec::new() });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: IndexId = IndexId(7);

    #[test]
    fn a_count_gives_the_rows_at_every_commit() {
        let counts = RowCounts::default();
        assert_eq!(counts.rows(TABLE, CommitId(1)), None);
        counts.add(TABLE, CommitId(2), Some(5), CommitId(1));
        counts.add(TABLE, CommitId(4), Some(-2), CommitId(1));
        // Count in a snapshot between the two commits. That gives the numbers at both other commits.
        counts.note(TABLE, CommitId(3), 105);
        let rows = [1, 2, 3, 4, 9].map(|at| counts.rows(TABLE, CommitId(at)));
        assert_eq!(rows, [100, 105, 105, 103, 103].map(Some));
    }

    #[test]
    fn commits_that_no_snapshot_has_are_dropped() {
        let counts = RowCounts::default();
        counts.note(TABLE, CommitId(0), 10);
        for commit in 1..=1_000 {
            counts.add(TABLE, CommitId(commit), Some(1), CommitId(commit - 1));
            assert_eq!(counts.rows(TABLE, CommitId(commit)), Some(10 + commit));
            assert_eq!(counts.rows(TABLE, CommitId(commit - 1)), Some(9 + commit));
        }
        assert!(counts.tables.lock()[&TABLE].added.len() <= COMMITS_MIN);
        assert_eq!(counts.rows(TABLE, CommitId(1)), None);
    }

    #[test]
    fn a_commit_with_unknown_rows_invalidates_the_count() {
        let counts = RowCounts::default();
        counts.note(TABLE, CommitId(1), 10);
        counts.add(TABLE, CommitId(2), None, CommitId(1));
        assert_eq!([1, 2, 3].map(|at| counts.rows(TABLE, CommitId(at))), [None; 3]);
        counts.note(TABLE, CommitId(1), 10);
        assert_eq!(counts.rows(TABLE, CommitId(2)), None);
        counts.note(TABLE, CommitId(2), 12);
        assert_eq!(counts.rows(TABLE, CommitId(3)), Some(12));
    }
}
