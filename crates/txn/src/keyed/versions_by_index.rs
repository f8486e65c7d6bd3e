//! Recent versions of all tables: each index has, with few others, a lock of its own.
//!
//! A commit holds a lock while it adds what it has written, and whoever reads other tables meanwhile does not wait for it:
//! with one lock for all, clients on two processors went to sleep five times a transaction (`docs/performance.md`, "Keyed
//! tables").

use std::array;

use rapidhash::v3::RapidSecrets;
use rowmill_base::CommitId;
use rowmill_storage::keyed::KeyRange;

use super::HEAD_BYTES;
use super::versions::Versions;

/// More than the indexes that a transaction writes to. Those whose numbers are so far apart share one.
const LOCKS: usize = 64;

/// See the module. Rules are those of [`Versions`].
#[derive(Debug)]
pub(crate) struct VersionsByIndex {
    by_number: [Versions; LOCKS],
    /// The same for all, so that a key has one hash.
    secrets: RapidSecrets,
}

/// Whether all keys of a range are of the index that its start is of.
fn is_of_one_index(range: &KeyRange) -> bool {
    let Some([kind, number @ ..]) = range.start.first_chunk::<HEAD_BYTES>() else { return false };
    let Some(next) = u32::from_be_bytes(*number).checked_add(1) else { return false };
    let [a, b, c, d] = next.to_be_bytes();
    !range.end.is_empty() && range.end[..] <= [*kind, a, b, c, d][..]
}

impl VersionsByIndex {
    /// Without any version.
    pub(super) fn new() -> VersionsByIndex {
        let secrets = RapidSecrets::random();
        VersionsByIndex { by_number: array::from_fn(|_| Versions::with_secrets(secrets)), secrets }
    }

    /// Those of the hashes of keys.
    pub(super) fn secrets(&self) -> RapidSecrets {
        self.secrets
    }

    /// Those of the index that `key` is of.
    #[inline]
    pub(crate) fn of_key(&self, key: &[u8]) -> &Versions {
        &self.by_number[key.get(HEAD_BYTES - 1).map_or(0, |number| usize::from(*number) % LOCKS)]
    }

    /// Those of the one index that all keys of `range` are of.
    pub(crate) fn of_range(&self, range: &KeyRange) -> &Versions {
        assert!(is_of_one_index(range), "a range is read within an index");
        self.of_key(&range.start)
    }

    /// A key of `range`, which may be of many indexes, that was changed after the commit `after`, if there is one.
    pub(crate) fn changed_in(&self, range: &KeyRange, after: CommitId) -> Option<Vec<u8>> {
        match is_of_one_index(range) {
            true => self.of_key(&range.start).changed_in(range, after),
            false => self.by_number.iter().find_map(|versions| versions.changed_in(range, after)),
        }
    }

    /// Adds the versions of a commit, whose keys are in order.
    pub(super) fn apply<'c>(
        &self,
        commit: CommitId,
        changes: impl IntoIterator<Item = (&'c [u8], Option<&'c [u8]>)>,
        oldest: CommitId,
    ) {
        let mut changes = changes.into_iter().peekable();
        while let Some((first, _)) = changes.peek() {
            let first = *first;
            let is_of_same = |(key, _): &(&[u8], _)| key.get(..HEAD_BYTES) == first.get(..HEAD_BYTES);
            let of_index = std::iter::from_fn(|| changes.next_if(is_of_same));
            self.of_key(first).apply(commit, of_index, oldest);
        }
    }

    /// As [`Versions::forget`].
    pub(super) fn forget(&self, in_base: CommitId, oldest: CommitId) {
        self.by_number.iter().for_each(|versions| versions.forget(in_base, oldest));
    }

    /// Bytes of memory that they have taken from the allocator.
    pub(super) fn allocated_bytes(&self) -> usize {
        self.by_number.iter().map(Versions::allocated_bytes).sum()
    }
}

#[cfg(test)]
mod tests {
    use rowmill_base::IndexId;

    use super::*;
    use crate::keyed::index_head;

    fn key(index: u32, rest: &[u8]) -> Vec<u8> {
        [&index_head(IndexId(index)), rest].concat()
    }

    #[test]
    fn a_commit_goes_to_all_its_indexes_and_ranges_are_told_apart() {
        let versions = VersionsByIndex::new();
        // Two that share a lock, and two whose number ends a byte.
        let keys = [3, 3 + LOCKS as u32, 255, 256].map(|index| key(index, b"key"));
        versions.apply(CommitId(7), keys.iter().map(|key| (&key[..], Some(&key[..]))), CommitId(7));
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
