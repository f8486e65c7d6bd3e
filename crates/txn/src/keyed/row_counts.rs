//! How many rows keyed tables have.
//!
//! The trees of the base do not count. Rows are counted when a query asks for it; from then on every commit says how many it
//! has added, so that the number at each commit that a snapshot can have is known:
//!
//! ```text
//! rows at commit c  =  base  +  what the commits up to c have added since the process began
//! ```
//!
//! `base` is known from the first count on. What follows the log of another process knows no more than that rows were written:
//! there a count holds up to the next commit.
//!
//! Plans need less: a number that is about right, which is counted again after a while where the exact one is not known.
//!
//! Tables are called by the index of their rows, which is another one after TRUNCATE.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rowmill_base::{CommitId, IndexId};

/// How long an estimate is believed.
const BELIEVED: Duration = Duration::from_secs(60);

/// Commits that are kept of a table before those are forgotten that no snapshot has.
const COMMITS_MIN: usize = 64;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct RowCounts {
    estimates: Mutex<HashMap<IndexId, (Instant, u64)>>,
    tables: Mutex<HashMap<IndexId, TableCount>>,
}

/// The rows of one table, as far as they are known.
#[derive(Debug, Default)]
struct TableCount {
    /// Nothing is known of commits before this one.
    since: CommitId,
    /// The rows before all of `added`.
    base: Option<i64>,
    /// Commits in order, and the rows that were added up to each of them.
    added: Vec<(CommitId, i64)>,
}

impl TableCount {
    /// The rows that were added up to a commit; `None` if that is not known any more.
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
            // The newest of those that the oldest snapshot may have stays.
            let kept = self.added.partition_point(|(commit, _)| *commit <= oldest).saturating_sub(1);
            if let Some((first, _)) = self.added.get(kept).filter(|_| kept > 0) {
                self.since = *first;
                self.added.drain(..kept);
            }
        }
    }
}

impl RowCounts {
    /// The rows of a table as `count` has them, or had them a while ago.
    pub(super) fn about(&self, index: IndexId, count: impl FnOnce() -> u64) -> u64 {
        if let Some((at, rows)) = self.estimates.lock().get(&index)
            // A table that was empty is one that is being filled.
            && *rows > 0
            && at.elapsed() < BELIEVED
        {
            return *rows;
        }
        let rows = count();
        self.estimates.lock().insert(index, (Instant::now(), rows));
        rows
    }

    /// The rows of a table at a commit, if they are known.
    pub(super) fn rows(&self, index: IndexId, at: CommitId) -> Option<u64> {
        let tables = self.tables.lock();
        let table = tables.get(&index)?;
        u64::try_from(table.base?.checked_add(table.added_up_to(at)?)?).ok()
    }

    /// Notes that a table has `rows` rows at a commit.
    pub(super) fn note(&self, index: IndexId, at: CommitId, rows: u64) {
        let mut tables = self.tables.lock();
        let table = tables.entry(index).or_default();
        if let (Some(added), Ok(rows)) = (table.added_up_to(at), i64::try_from(rows)) {
            table.base = Some(rows - added);
        }
    }

    /// Notes what a commit has added to a table; `None` if that is not known. The oldest snapshot is of the commit `oldest`.
    pub(super) fn add(&self, index: IndexId, commit: CommitId, rows: Option<i64>, oldest: CommitId) {
        if rows == Some(0) {
            return;
        }
        let mut tables = self.tables.lock();
        match rows {
            Some(rows) => tables.entry(index).or_default().add(commit, rows, oldest),
            None => {
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
    fn a_count_holds_for_every_commit_that_a_snapshot_can_have() {
        let counts = RowCounts::default();
        assert_eq!(counts.rows(TABLE, CommitId(1)), None);
        counts.add(TABLE, CommitId(2), Some(5), CommitId(1));
        counts.add(TABLE, CommitId(4), Some(-2), CommitId(1));
        // A snapshot between the two is counted, and says what both others have.
        counts.note(TABLE, CommitId(3), 105);
        let rows = [1, 2, 3, 4, 9].map(|at| counts.rows(TABLE, CommitId(at)));
        assert_eq!(rows, [100, 105, 105, 103, 103].map(Some));
    }

    #[test]
    fn commits_that_no_snapshot_has_are_forgotten() {
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
    fn a_commit_of_unknown_rows_ends_what_is_known() {
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
