//! The keys with their chains of versions, found by key. [`KeyTree`](super::order::KeyTree) keeps their order.

use rapidhash::v3::RapidSecrets;
use rowmill_base::CommitId;
use rowmill_io::OverflowMemory;

use super::arena::{Arena, ArenaOffset};
use super::entry;
use super::key_index::{Indexed, KeyIndex, hash};

/// The most versions of a key that a writer walks over to find those that no snapshot reads. Readers are usually a few
/// commits late, so this keeps the chains of keys that every commit writes about as short. While an old snapshot is
/// held, no writer must walk over all the versions that it keeps.
const LOOK_BACK: usize = 16;

/// The keys with their chains of versions, found by key.
#[derive(Debug)]
pub(super) struct VersionChains {
    /// The records: one entry per key, and versions with their rows.
    pub(super) records: Arena,
    index: KeyIndex,
}

impl VersionChains {
    pub(super) fn new(memory: &OverflowMemory) -> Self {
        VersionChains { records: Arena::new(memory.clone()), index: KeyIndex::new(memory.clone()) }
    }

    pub(super) fn is_unused(&self) -> bool {
        self.records.is_unused()
    }

    pub(super) fn allocated_bytes(&self) -> usize {
        self.records.allocated_bytes() + self.index.allocated_bytes()
    }

    /// Looks up the entry of `key` and its newest version.
    #[inline]
    pub(super) fn find(&self, hash: u64, key: &[u8]) -> Option<Indexed> {
        self.index.find(hash, |entry| entry::key_of(&self.records, entry) == key)
    }

    /// Adds an entry to the hash index, so that it is found by its key.
    pub(super) fn add_hash(&mut self, entry: ArenaOffset, secrets: &RapidSecrets) {
        let (head, key) = entry::record(&self.records, entry);
        self.index.insert(hash(key, secrets), Indexed { entry, newest: head.next });
    }

    /// The row of the first version of a chain that the snapshot `at` sees. `Some(None)` is a deletion.
    #[inline]
    pub(super) fn visible(&self, newest: ArenaOffset, at: CommitId) -> Option<Option<&[u8]>> {
        self.visible_version(newest, at).map(|(_, row)| row)
    }

    /// The commit and the row of the first version of a chain that the snapshot `at` sees. A row of `None` is a
    /// deletion.
    #[inline]
    pub(super) fn visible_version(&self, newest: ArenaOffset, at: CommitId) -> Option<(CommitId, Option<&[u8]>)> {
        let mut place = newest;
        while place != ArenaOffset::NONE {
            let (head, row) = entry::record(&self.records, place);
            if head.commit <= at {
                return Some((head.commit, (!head.is_deleted()).then_some(row)));
            }
            place = head.next;
        }
        None
    }

    /// Makes `row` the newest version of `key`, and drops versions that no snapshot from `oldest` on sees. Returns the
    /// key's entry if it is new.
    pub(super) fn put(
        &mut self,
        key: &[u8],
        row: Option<&[u8]>,
        commit: CommitId,
        oldest: CommitId,
        secrets: &RapidSecrets,
    ) -> Option<ArenaOffset> {
        let hash = hash(key, secrets);
        match self.find(hash, key) {
            Some(Indexed { entry, newest }) => {
                let last = entry::head(&self.records, entry).commit;
                assert!(last < commit, "a commit must change a key only once, and commits must ascend");
                // The new version links to the old chain first, and the entry then links to the new version.
                let version = entry::push_version(&mut self.records, row, commit, newest);
                entry::set_newest(&mut self.records, entry, commit, version);
                self.index.replace(hash, entry, Indexed { entry, newest: version });
                self.forget_older(newest, CommitId(0), oldest, LOOK_BACK);
                None
            }
            None => {
                let version = entry::push_version(&mut self.records, row, commit, ArenaOffset::NONE);
                let entry = entry::push_entry(&mut self.records, key, commit, version);
                self.index.insert(hash, Indexed { entry, newest: version });
                Some(entry)
            }
        }
    }

    /// Cuts a chain within the first `steps` versions from `version` on: after the first version that all snapshots
    /// see, or before the first version that the base has.
    fn forget_older(&mut self, version: ArenaOffset, in_base: CommitId, oldest: CommitId, steps: usize) {
        let mut version = version;
        for _ in 0..steps {
            let head = entry::head(&self.records, version);
            if head.next == ArenaOffset::NONE {
                return;
            }
            // No snapshot looks past this version: all see it or a newer one, or the base has the older ones.
            if head.commit <= oldest || entry::head(&self.records, head.next).commit <= in_base {
                entry::set_next(&mut self.records, version, ArenaOffset::NONE);
                self.free_chain(head.next);
                return;
            }
            version = head.next;
        }
    }

    fn free_chain(&mut self, mut version: ArenaOffset) {
        while version != ArenaOffset::NONE {
            let head = entry::head(&self.records, version);
            self.records.free(version, head.record_bytes());
            version = head.next;
        }
    }

    /// Drops the versions of an entry that the base has or that no snapshot from `oldest` on sees. `hashed_by` has the
    /// secrets if the entry is in the hash index. Returns the entry's place afterwards, or `None` if it is gone.
    pub(super) fn forget_in_entry(
        &mut self,
        entry: ArenaOffset,
        in_base: CommitId,
        oldest: CommitId,
        hashed_by: Option<&RapidSecrets>,
    ) -> Option<ArenaOffset> {
        let (head, key) = entry::record(&self.records, entry);
        // The base has the newest version, so it has the whole key: drop the entry.
        if head.commit <= in_base {
            if let Some(secrets) = hashed_by {
                self.index.remove(hash(key, secrets), entry);
            }
            self.records.free(entry, head.record_bytes());
            self.free_chain(head.next);
            return None;
        }
        self.forget_older(head.next, in_base, oldest, usize::MAX);
        let newest = self.condense_versions(entry);
        let is_sparse = self.records.is_sparse(entry);
        if newest == head.next && !is_sparse {
            return Some(entry);
        }
        // Records may move, and the hash index must learn the new places.
        let moved = if is_sparse { entry::move_record(&mut self.records, entry) } else { entry };
        if let Some(secrets) = hashed_by {
            let hash = hash(entry::key_of(&self.records, moved), secrets);
            self.index.replace(hash, entry, Indexed { entry: moved, newest });
        }
        Some(moved)
    }

    /// Moves versions out of chunks that are mostly unused. Returns the place of the newest version.
    fn condense_versions(&mut self, entry: ArenaOffset) -> ArenaOffset {
        let mut newer = None;
        let mut version = entry::head(&self.records, entry).next;
        while version != ArenaOffset::NONE {
            if self.records.is_sparse(version) {
                version = entry::move_record(&mut self.records, version);
                match newer {
                    None => entry::set_next(&mut self.records, entry, version),
                    Some(newer) => entry::set_next(&mut self.records, newer, version),
                }
            }
            newer = Some(version);
            version = entry::head(&self.records, version).next;
        }
        entry::head(&self.records, entry).next
    }
}
