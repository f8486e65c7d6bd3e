//! Ranges of keys of which none is there any more, so that a scan need not pass what was deleted one by one.
//!
//! Of a table that is used as a queue the first keys are always those that were deleted last: in memory each has a version that
//! says so, over a key that the base may have still, until a checkpoint. A scan that has passed many notes the range:
//!
//! ```text
//! deleted  deleted  deleted  ...  deleted | first key that is there
//! [------------------ dead since commit 17 )
//! ```
//!
//! A snapshot of commit 17 or later begins behind it. A commit that writes a row into the range takes it out, behind its versions
//! and before anybody has a snapshot of it. Whoever notes a range looks, with the ranges locked, that nothing was written to it
//! behind its snapshot: a commit of which that sees nothing has yet to take ranges out.

use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::RwLock;
use rowmill_base::CommitId;
use rowmill_storage::keyed::KeyRange;

use super::versions::Versions;

/// Ranges that are kept at most; with one more all others are forgotten.
const RANGES_MAX: usize = 1024;

/// Deleted keys that are worth to be noted.
pub(super) const DEAD_KEYS_MIN: usize = 32;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct DeadRanges {
    /// In order; none has a key of another.
    ranges: RwLock<Vec<DeadRange>>,
    /// Whether there are any: most databases have none.
    is_used: AtomicBool,
}

#[derive(Debug)]
struct DeadRange {
    range: KeyRange,
    since: CommitId,
}

impl DeadRanges {
    /// The first key behind the dead range that `key` is in, for a snapshot of `commit`; written to `end`.
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

    /// Notes that a snapshot of `commit` has no key of `range`, which was looked at from `looked_from` on: what is before that
    /// was known to be dead.
    pub(super) fn note(&self, range: KeyRange, looked_from: &[u8], commit: CommitId, versions: &Versions) {
        let mut ranges = self.ranges.write();
        // Before the look at the versions: of a commit that it does not see the keys are revived behind it.
        self.is_used.store(true, Ordering::Release);
        let is_known = looked_from <= &range.start[..]
            || find(&ranges, &range.start).is_some_and(|at| ranges[at].range.end == looked_from);
        let looked = KeyRange { start: looked_from.to_vec(), end: range.end.clone() };
        if !is_known || range.end.is_empty() || range.is_empty() || versions.changed_in(&looked, commit).is_some() {
            return;
        }
        // It grows over those that it has keys of.
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

    /// Takes out the ranges of keys that were written.
    pub(super) fn revive<'a>(&self, keys: impl Iterator<Item = &'a [u8]>) {
        if !self.is_used.load(Ordering::Acquire) {
            return;
        }
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

    /// Takes out the ranges that have keys of `written`, of which many were written.
    pub(super) fn revive_within(&self, written: &KeyRange) {
        if self.is_used.load(Ordering::Acquire) {
            self.ranges.write().retain(|dead| dead.range.end <= written.start || dead.range.start >= written.end);
        }
    }
}

/// The place of the range that has `key`.
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
    fn ranges_are_for_later_snapshots_until_something_is_written_to_them() {
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
    fn what_was_written_or_is_not_known_any_more_is_not_noted() {
        let (dead, versions) = (DeadRanges::default(), Versions::new());
        // What was before was taken out meanwhile.
        dead.note(range("b", "q"), b"m", CommitId(9), &versions);
        assert_eq!(end(&dead, "n", 9), None);
        versions.apply(CommitId(10), [(&b"c"[..], Some(&b"row"[..]))], CommitId(10));
        dead.note(range("b", "q"), b"b", CommitId(9), &versions);
        assert_eq!(end(&dead, "n", 10), None);
    }
}
