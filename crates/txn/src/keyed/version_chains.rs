//! The keys with their chains of versions, found by key; their order is [`Order`](super::order::Order)'s matter.

use rapidhash::v3::RapidSecrets;
use rowmill_base::CommitId;

use super::arena::{Arena, Place};
use super::entry;
use super::key_index::{Indexed, KeyIndex, hash};

/// How many versions of a key a writer passes to find those that nobody reads. Readers are a few commits behind, so that
/// the chains of keys which every commit writes stay about as short as that, and while an old snapshot is held no writer
/// walks along all that it holds.
const LOOK_BACK: usize = 16;

/// See the module.
#[derive(Debug)]
pub(super) struct VersionChains {
    /// Entries, one per key, and versions with their rows.
    pub(super) records: Arena,
    index: KeyIndex,
}

impl VersionChains {
    pub(super) fn new() -> Self {
        VersionChains { records: Arena::new(), index: KeyIndex::new() }
    }

    pub(super) fn is_unused(&self) -> bool {
        self.records.is_unused()
    }

    pub(super) fn allocated_bytes(&self) -> usize {
        self.records.allocated_bytes() + self.index.allocated_bytes()
    }

    /// The entry of `key` and its newest version.
    #[inline]
    pub(super) fn find(&self, hash: u64, key: &[u8]) -> Option<Indexed> {
        self.index.find(hash, |entry| entry::key_of(&self.records, entry) == key)
    }

    /// Has an entry found by its key.
    pub(super) fn add_hash(&mut self, entry: Place, secrets: &RapidSecrets) {
        let (head, key) = entry::record(&self.records, entry);
        self.index.insert(hash(key, secrets), Indexed { entry, newest: head.next });
    }

    /// The first version of a chain that a snapshot sees: its row, `None` if it is deleted.
    #[inline]
    pub(super) fn visible(&self, newest: Place, at: CommitId) -> Option<Option<&[u8]>> {
        self.visible_version(newest, at).map(|(_, row)| row)
    }

    /// The same, with the version's commit.
    #[inline]
    pub(super) fn visible_version(&self, newest: Place, at: CommitId) -> Option<(CommitId, Option<&[u8]>)> {
        let mut place = newest;
        while place != Place::NONE {
            let (head, row) = entry::record(&self.records, place);
            if head.commit <= at {
                return Some((head.commit, (!head.is_deleted()).then_some(row)));
            }
            place = head.next;
        }
        None
    }

    /// Makes `row` the newest version of `key`, and forgets versions that no snapshot from `oldest` on sees. Gives the key's
    /// entry if it is new.
    pub(super) fn put(
        &mut self,
        key: &[u8],
        row: Option<&[u8]>,
        commit: CommitId,
        oldest: CommitId,
        secrets: &RapidSecrets,
    ) -> Option<Place> {
        let hash = hash(key, secrets);
        match self.find(hash, key) {
            Some(Indexed { entry, newest }) => {
                let last = entry::head(&self.records, entry).commit;
                assert!(last < commit, "a key is changed once a commit, and commits follow each other");
                let version = entry::push_version(&mut self.records, row, commit, newest);
                entry::set_newest(&mut self.records, entry, commit, version);
                self.index.replace(hash, entry, Indexed { entry, newest: version });
                self.forget_older(newest, CommitId(0), oldest, LOOK_BACK);
                None
            }
            None => {
                let version = entry::push_version(&mut self.records, row, commit, Place::NONE);
                let entry = entry::push_entry(&mut self.records, key, commit, version);
                self.index.insert(hash, Indexed { entry, newest: version });
                Some(entry)
            }
        }
    }

    /// Cuts a chain, from `version` on, behind the first version that all snapshots see, or before the first that the base
    /// has, if that is among the first `steps`.
    fn forget_older(&mut self, version: Place, in_base: CommitId, oldest: CommitId, steps: usize) {
        let mut version = version;
        for _ in 0..steps {
            let head = entry::head(&self.records, version);
            if head.next == Place::NONE {
                return;
            }
            if head.commit <= oldest || entry::head(&self.records, head.next).commit <= in_base {
                entry::set_next(&mut self.records, version, Place::NONE);
                self.free_chain(head.next);
                return;
            }
            version = head.next;
        }
    }

    fn free_chain(&mut self, mut version: Place) {
        while version != Place::NONE {
            let head = entry::head(&self.records, version);
            self.records.free(version, head.record_bytes());
            version = head.next;
        }
    }

    /// Forgets versions of an entry that the base has or no snapshot from `oldest` on sees; `hashed_by` if it is found by its
    /// key. Where the entry is afterwards, if anywhere.
    pub(super) fn forget_in_entry(
        &mut self,
        entry: Place,
        in_base: CommitId,
        oldest: CommitId,
        hashed_by: Option<&RapidSecrets>,
    ) -> Option<Place> {
        let (head, key) = entry::record(&self.records, entry);
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
        let moved = if is_sparse { entry::move_record(&mut self.records, entry) } else { entry };
        if let Some(secrets) = hashed_by {
            let hash = hash(entry::key_of(&self.records, moved), secrets);
            self.index.replace(hash, entry, Indexed { entry: moved, newest });
        }
        Some(moved)
    }

    /// Moves versions out of chunks that are mostly unused. Gives the place of the newest.
    fn condense_versions(&mut self, entry: Place) -> Place {
        let mut newer = None;
        let mut version = entry::head(&self.records, entry).next;
        while version != Place::NONE {
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
