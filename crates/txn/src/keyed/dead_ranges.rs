//! Ranges of keys that are all deleted, so that a scan need not skip the deleted keys one by one.
//!
//! For example, in a table that is used as a queue, the first keys are always those that were deleted last. In memory
//! each of them has a version that marks the deletion of a key that the base may still have, until the next checkpoint.
//! A scan that skipped many such keys records the range:
//!
//! ```text
//! deleted  deleted  deleted  ...  deleted | first key that is there
//! [------------------ dead since commit 17 )
//! ```
//!
//! A snapshot of commit 17 or later starts after the range. A commit that writes a row into the range removes the
//! range: after it added its versions, and before any snapshot of it exists. The thread that records a range locks the
//! ranges and then checks that no commit wrote to the range after its snapshot. A commit that this check does not see
//! has yet to remove ranges, and will then find this one.

use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::RwLock;
use rowmill_base::CommitId;
use rowmill_storage::keyed::KeyRange;

use super::versions::Versions;

/// The most ranges that we keep. One more removes all others.
const RANGES_MAX: usize = 1024;

/// The fewest deleted keys for which recording a range pays off.
pub(super) const DEAD_KEYS_MIN: usize = 32;

/// The dead ranges of a database.
#[derive(Debug, Default)]
pub(crate) struct DeadRanges {
    /// The ranges in order. They must not overlap.
    ranges: RwLock<Vec<DeadRange>>,
    /// Whether any range was ever recorded. Most databases have none, so this saves them the lock.
    is_used: AtomicBool,
}

#[derive(Debug)]
struct DeadRange {
    range: KeyRange,
    since: CommitId,
}

impl DeadRanges {
    /// If `key` is in a range that is dead for a snapshot of `commit`, sets `end` to the first key after it and returns
    /// `true`.
    pub(super) fn end_of(&self, key: &[u8], commit: CommitId, end: &mut Vec<u8>) -> bool {
        if !self.is_used.load(Ordering::Acquire) {
            return false;
        }
        let ranges = self.ranges.read();
        let Some(found) = find(&ranges, key).map(|at| &ranges[at]) else { return false };
        if found.since > commit {
            return false;
        }
        end.clear();
        end.extend_from_slice(&found.range.end);
        true
    }

    /// Records that a snapshot of `commit` has no key of `range`. The caller looked at the keys from `looked_from` on,
    /// and skipped those before it as a dead range.
    pub(super) fn note(&self, range: KeyRange, looked_from: &[u8], commit: CommitId, versions: &Versions) {
        let mut ranges = self.ranges.write();
        // Must be set before the look at the versions: a commit that the look does not see will then find the flag set.
        self.is_used.store(true, Ordering::Release);
        // If the caller skipped a dead range, that range must still exist: a commit may have removed it in the
        // meantime.
        let is_known = looked_from <= &range.start[..]
            || find(&ranges, &range.start).is_some_and(|at| ranges[at].range.end == looked_from);
        let looked = KeyRange { start: looked_from.to_vec(), end: range.end.clone() };
        if !is_known || range.end.is_empty() || range.is_empty() || versions.changed_in(&looked, commit).is_some() {
            return;
        }
        // Merge the range with all that it overlaps. The result is dead only since the latest of them.
        let mut since = commit;
        let mut start = range.start;
        ranges.retain(|other| {
            let is_apart = other.range.end <= start || other.range.start >= range.end;
            if !is_apart && other.range.start < start {
                start = other.range.start.clone();
            }
            if !is_apart {
                since = since.max(other.since);
            }
            is_apart
        });
        if ranges.len() >= RANGES_MAX {
            ranges.clear();
        }
        let at = ranges.partition_point(|other| other.range.start < start);
        ranges.insert(at, DeadRange { range: KeyRange { start, end: range.end }, since });
    }

    /// Removes the ranges of keys to which a commit wrote rows.
    pub(super) fn revive<'a>(&self, keys: impl Iterator<Item = &'a [u8]>) {
        if !self.is_used.load(Ordering::Acquire) {
            return;
        }
        // Usually no written key is in a dead range, so look with a shared lock first.
        let ranges = self.ranges.upgradable_read();
        let revived: Vec<usize> = keys.filter_map(|key| find(&ranges, key)).collect();
        if revived.is_empty() {
            return;
        }
        let mut ranges = parking_lot::RwLockUpgradableReadGuard::upgrade(ranges);
        let mut at = 0;
        ranges.retain(|_| {
            at += 1;
            !revived.contains(&(at - 1))
        });
    }

    /// Removes the ranges that overlap `written`, the key range of a large commit.
    pub(super) fn revive_within(&self, written: &KeyRange) {
        if self.is_used.load(Ordering::Acquire) {
            self.ranges.write().retain(|dead| dead.range.end <= written.start || dead.range.start >= written.end);
        }
    }
}

/// The position of the range that contains `key`.
fn find(ranges: &[DeadRange], key: &[u8]) -> Option<usize> {
    let at = ranges.partition_point(|range| &range.range.start[..] <= key).checked_sub(1)?;
    ranges[at].range.contains(key).then_some(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(start: &str, end: &str) -> KeyRange {
        KeyRange { start: start.into(), end: end.into() }
    }

    fn end(dead: &DeadRanges, key: &str, commit: u64) -> Option<String> {
        let mut end = Vec::new();
        dead.end_of(key.as_bytes(), CommitId(commit), &mut end).then(|| String::from_utf8(end).expect("a text"))
    }

    #[test]
    fn ranges_hold_for_later_snapshots_until_a_row_is_written_to_them() {
        let (dead, versions) = (DeadRanges::default(), Versions::new());
        dead.note(range("b", "m"), b"b", CommitId(5), &versions);
        assert_eq!(end(&dead, "c", 5).as_deref(), Some("m"));
        assert_eq!((end(&dead, "c", 4), end(&dead, "m", 5), end(&dead, "a", 5)), (None, None, None));
        dead.note(range("b", "q"), b"m", CommitId(9), &versions);
        assert_eq!((end(&dead, "b", 9).as_deref(), end(&dead, "b", 8)), (Some("q"), None));
        dead.revive([&b"q"[..], b"a"].into_iter());
        assert_eq!(end(&dead, "p", 9).as_deref(), Some("q"));
        dead.revive([&b"p"[..]].into_iter());
        assert_eq!(end(&dead, "c", 9), None);
        dead.note(range("b", "m"), b"b", CommitId(9), &versions);
        dead.revive_within(&range("m", "z"));
        assert_eq!(end(&dead, "c", 9).as_deref(), Some("m"));
        dead.revive_within(&range("l", "z"));
        assert_eq!(end(&dead, "c", 9), None);
    }

    #[test]
    fn a_range_with_a_write_or_after_a_removed_range_is_not_recorded() {
        let (dead, versions) = (DeadRanges::default(), Versions::new());
        // The range before it was removed in the meantime.
        dead.note(range("b", "q"), b"m", CommitId(9), &versions);
        assert_eq!(end(&dead, "n", 9), None);
        versions.apply(CommitId(10), [(&b"c"[..], Some(&b"row"[..]))], CommitId(10));
        dead.note(range("b", "q"), b"b", CommitId(9), &versions);
        assert_eq!(end(&dead, "n", 10), None);
    }
}
