//! Recent versions of all tables. Each index has its own lock, or shares one with few others.
//!
//! A commit holds a lock while it adds its writes, and readers of other tables should not wait for it. With one lock
//! for all tables, eight clients on two processors had seven context switches per transaction (`docs/experiments.md`,
//! "Keyed tables").

use std::array;

use rapidhash::v3::RapidSecrets;
use rowmill_base::{CommitId, IndexId};
use rowmill_io::OverflowMemory;
use rowmill_storage::keyed::KeyRange;

use super::index_writes::IndexWrites;
use super::versions::Versions;
use super::{HEAD_BYTES, index_head};

/// The number of locks. It exceeds the number of indexes that a transaction writes to. Indexes whose ids are equal
/// modulo this number share a lock.
const LOCKS: usize = 64;

/// The recent versions of all tables. The rules of [`Versions`] apply.
#[derive(Debug)]
pub(crate) struct VersionsByIndex {
    by_number: [Versions; LOCKS],
    /// The secrets of key hashes. All tables share them, so that a key has only one hash.
    secrets: RapidSecrets,
}

/// Whether all keys of a range belong to the index of its start.
#[inline]
fn is_of_one_index(range: &KeyRange) -> bool {
    // Usually the end has the same head.
    match (range.start.first_chunk::<HEAD_BYTES>(), range.end.first_chunk::<HEAD_BYTES>()) {
        (Some(start), Some(end)) if start == end => true,
        _ => ends_at_next_index(range),
    }
}

/// Whether a range starts with the head of an index and ends at the next index or before it.
fn ends_at_next_index(range: &KeyRange) -> bool {
    let Some([kind, number @ ..]) = range.start.first_chunk::<HEAD_BYTES>() else { return false };
    let Some(next) = u32::from_be_bytes(*number).checked_add(1) else { return false };
    let [a, b, c, d] = next.to_be_bytes();
    !range.end.is_empty() && range.end[..] <= [*kind, a, b, c, d][..]
}

impl VersionsByIndex {
    /// Tables without versions, in `memory`.
    pub(super) fn new(memory: &OverflowMemory) -> VersionsByIndex {
        let secrets = RapidSecrets::random();
        VersionsByIndex { by_number: array::from_fn(|_| Versions::within(memory.clone(), secrets)), secrets }
    }

    /// The secrets of key hashes.
    pub(super) fn secrets(&self) -> RapidSecrets {
        self.secrets
    }

    /// The versions of the index of `key`.
    #[inline]
    pub(crate) fn of_key(&self, key: &[u8]) -> &Versions {
        // The last byte of the head is the lowest byte of the index's id.
        &self.by_number[key.get(HEAD_BYTES - 1).map_or(0, |number| usize::from(*number) % LOCKS)]
    }

    /// The versions of the index to which all keys of `range` must belong.
    pub(crate) fn of_range(&self, range: &KeyRange) -> &Versions {
        assert!(is_of_one_index(range), "a range must be within one index");
        self.of_key(&range.start)
    }

    /// Returns a key of `range` that a commit after `after` changed, if there is one. The range may span several
    /// indexes.
    pub(crate) fn changed_in(&self, range: &KeyRange, after: CommitId) -> Option<Vec<u8>> {
        match is_of_one_index(range) {
            true => self.of_key(&range.start).changed_in(range, after),
            false => self.by_number.iter().find_map(|versions| versions.changed_in(range, after)),
        }
    }

    /// The versions of an index.
    fn of_index(&self, index: IndexId) -> &Versions {
        self.of_key(&index_head(index))
    }

    /// Whether there are enough places for the writes of a commit to one index.
    pub(super) fn has_room_for(&self, changes: &IndexWrites) -> bool {
        self.of_index(changes.index()).read().has_room_for(changes.end())
    }

    /// Adds the versions of a commit to one index.
    pub(super) fn apply(&self, commit: CommitId, changes: &IndexWrites, oldest: CommitId) {
        self.of_index(changes.index()).apply(commit, changes.iter(), oldest);
    }

    /// Adds the versions of a commit to one index, and moves large ones without a copy. Returns the range of moved
    /// keys.
    pub(super) fn take(&self, commit: CommitId, changes: &mut IndexWrites, oldest: CommitId) -> Option<KeyRange> {
        let versions = self.of_index(changes.index());
        // A large set of ascending writes to a free range becomes part of the table as it is. Anything else is copied.
        if changes.is_run()
            && let Some(range) = changes.range()
            && versions.takes(&range, changes.end())
        {
            versions.append(commit, changes.take_run());
            return Some(range);
        }
        self.apply(commit, changes, oldest);
        None
    }

    /// Drops versions that the base has, up to `in_base`, or that no snapshot from `oldest` on sees. See
    /// [`Versions::forget`].
    pub(super) fn forget(&self, in_base: CommitId, oldest: CommitId) {
        self.by_number.iter().for_each(|versions| versions.forget(in_base, oldest));
    }

    /// Bytes of memory taken from the allocator, also those in files.
    pub(super) fn allocated_bytes(&self) -> usize {
        self.by_number.iter().map(Versions::allocated_bytes).sum()
    }
}

#[cfg(test)]
mod tests {
    use rowmill_base::IndexId;

    use super::*;
    use crate::keyed::{index_head, index_of};

    fn key(index: u32, rest: &[u8]) -> Vec<u8> {
        [&index_head(IndexId(index)), rest].concat()
    }

    #[test]
    fn a_commit_is_applied_to_all_its_indexes_and_ranges_are_told_apart() {
        let memory = OverflowMemory::default();
        let versions = VersionsByIndex::new(&memory);
        // Two indexes that share a lock, and two at the boundary of an id's last byte.
        let keys = [3, 3 + LOCKS as u32, 255, 256].map(|index| key(index, b"key"));
        for key in &keys {
            let mut writes = IndexWrites::new(index_of(key).expect("a key"), &memory);
            writes.put(key, Some(key), CommitId(6), &versions.secrets());
            assert!(versions.take(CommitId(7), &mut writes, CommitId(7)).is_none());
        }
        let mut row = Vec::new();
        for key in &keys {
            versions.of_key(key).get(key, CommitId(7), &mut row);
            assert_eq!(row, *key);
            let whole = KeyRange::of_prefix(&key[..HEAD_BYTES]);
            assert!(is_of_one_index(&whole));
            assert_eq!(versions.of_range(&whole).changed_in(&whole, CommitId(6)).as_ref(), Some(key));
            assert_eq!(versions.changed_in(&whole, CommitId(7)), None);
        }
        for end in [key(5, b""), key(255, b"z"), Vec::new()] {
            let wide = KeyRange { start: key(3, b"l"), end };
            assert!(!is_of_one_index(&wide));
            let is_expected = keys[1..].iter().any(|key| wide.contains(key));
            assert_eq!(versions.changed_in(&wide, CommitId(6)).is_some(), is_expected);
        }
        let used = versions.allocated_bytes();
        versions.forget(CommitId(7), CommitId(7));
        assert!(versions.allocated_bytes() < used);
    }
}
