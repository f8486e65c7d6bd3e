//! The ordered multi-version table: what commits have written to keyed tables and indexes since the ordered base was.
//!
//! A key has a chain of versions, newest first, each a row or a deletion with its commit. A snapshot sees the newest one
//! that is not newer than itself; of a key without one it asks the base. An open database has many of them, told apart by the
//! index of a key ([`VersionsByIndex`](super::versions_by_index::VersionsByIndex)).
//!
//! ```text
//! key -> KeyIndex (256 hash tables) ---+-----------------------+
//!                                      v                       v
//! Order (leaves of 128) ---------> entry: commit, key --> version: commit, row --> older version --> ...
//! ```
//!
//! Entries and versions are records in one [`Arena`](super::arena), where a key lies beside its first version, and point to
//! each other by place. A point read goes through the hash tables, whose slots have the places of both; the order is for
//! ranges. What a large commit has written may be taken as it is ([`Run`]): its keys are found in the order then, until one
//! beside them is changed. All of it is under one lock that nobody holds for long: readers copy what they ask for, a batch of
//! a range at a time; a commit and the forgetting behind a checkpoint let go of it again and again, which nobody notices since
//! the snapshots that see the commit do not exist yet, and what is forgotten nobody reads.
//!
//! Rules, which the caller keeps: one commit is applied at a time, in the order of their ids, each before a snapshot of it
//! is handed out; `oldest` is no later than any snapshot in use or yet to be handed out; nobody reads an older state of the
//! base than `in_base`.
//!
//! Figures, and what lost, are in `docs/performance.md`, "Keyed tables".

use parking_lot::{RwLock, RwLockReadGuard};
use rapidhash::v3::RapidSecrets;
use rowmill_base::CommitId;
use rowmill_storage::keyed::KeyRange;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::entry;
use super::key_index::hash;
use super::run::Run;
use super::version_table::VersionTable;

/// Changes that are applied under one lock: ten microseconds or so.
const CHANGES_PER_LOCK: usize = 32;
/// Or so many bytes of rows.
const CHANGE_BYTES_PER_LOCK: usize = 64 << 10;
/// Entries of a range that are validated under one lock.
const CHECKED_PER_LOCK: usize = 1024;

/// What a snapshot sees of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// A row.
    Row,
    /// That it has been deleted.
    Deleted,
    /// Nothing: the base knows.
    Unknown,
}

/// The answer to a point read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Got {
    /// What the snapshot sees.
    pub found: Found,
    /// The commit of the key's newest version, which the snapshot may not see; `None` if there is no version here.
    pub latest: Option<CommitId>,
}

/// See the module.
#[derive(Debug)]
pub struct Versions {
    table: RwLock<VersionTable>,
    /// Bytes that it has taken from the allocator: every commit asks.
    bytes: AtomicUsize,
    /// Of the hashes of keys, which who writes keys must not know.
    secrets: RapidSecrets,
}

impl Default for Versions {
    fn default() -> Self {
        Versions::new()
    }
}

impl Versions {
    /// Without any version.
    pub fn new() -> Self {
        Versions::with_secrets(RapidSecrets::random())
    }

    /// The same, where keys have the hashes that they have elsewhere.
    pub(super) fn with_secrets(secrets: RapidSecrets) -> Self {
        let table = VersionTable::after(CommitId(0));
        Versions { bytes: AtomicUsize::new(table.allocated_bytes()), table: RwLock::new(table), secrets }
    }

    pub(super) fn read(&self) -> RwLockReadGuard<'_, VersionTable> {
        self.table.read()
    }

    /// The hash of a key here.
    #[inline]
    pub(super) fn hash(&self, key: &[u8]) -> u64 {
        hash(key, &self.secrets)
    }

    /// What the snapshot of commit `at` sees of `key`. Sets `row` to the row if there is one.
    pub fn get(&self, key: &[u8], at: CommitId, row: &mut Vec<u8>) -> Got {
        self.get_hashed(self.hash(key), key, at, row)
    }

    /// The same, of a key whose hash is known.
    pub(super) fn get_hashed(&self, hash: u64, key: &[u8], at: CommitId, row: &mut Vec<u8>) -> Got {
        row.clear();
        let table = self.table.read();
        let Some(indexed) = table.find(hash, key) else { return Got { found: Found::Unknown, latest: None } };
        let found = match table.chains.visible(indexed.newest, at) {
            Some(Some(visible)) => {
                row.extend_from_slice(visible);
                Found::Row
            }
            Some(None) => Found::Deleted,
            None => Found::Unknown,
        };
        Got { found, latest: Some(entry::head(&table.chains.records, indexed.entry).commit) }
    }

    /// The commit of the newest version of `key`.
    pub fn latest_commit(&self, key: &[u8]) -> Option<CommitId> {
        let hash = hash(key, &self.secrets);
        let table = self.table.read();
        table.find(hash, key).map(|indexed| entry::head(&table.chains.records, indexed.entry).commit)
    }

    /// Whether a commit behind `after` has deleted `key`, and none has written it since.
    pub fn is_deleted_after(&self, key: &[u8], after: CommitId) -> bool {
        let hash = hash(key, &self.secrets);
        let table = self.table.read();
        let newest = table.find(hash, key).map(|indexed| indexed.newest);
        let newest = newest.and_then(|newest| table.chains.visible_version(newest, CommitId(u64::MAX)));
        newest.is_some_and(|(commit, row)| row.is_none() && commit > after)
    }

    /// A key of `range` that was changed after the commit `after`, if there is one.
    pub fn changed_in(&self, range: &KeyRange, after: CommitId) -> Option<Vec<u8>> {
        let mut rest: Option<KeyRange> = None;
        loop {
            let range = rest.as_ref().unwrap_or(range);
            let table = self.table.read();
            if table.newest <= after {
                return None;
            }
            let (mut checked, mut changed, mut last) = (0, None, None);
            let walked = table.walk(&range.start, &range.end, false, |place| {
                let (head, key) = entry::record(&table.chains.records, place);
                checked += 1;
                last = Some(key);
                if head.commit > after {
                    changed = Some(key.to_vec());
                }
                match changed.is_some() || checked == CHECKED_PER_LOCK {
                    true => ControlFlow::Break(()),
                    false => ControlFlow::Continue(()),
                }
            });
            match (walked, changed, last) {
                (ControlFlow::Break(()), None, Some(last)) => {
                    rest = Some(KeyRange { start: [last, &[0]].concat(), end: range.end.clone() });
                }
                (_, changed, _) => return changed,
            }
        }
    }

    /// Adds the versions of a commit: keys, each once, with their new rows, or `None` for a deletion. In the order of the
    /// keys it is fastest. Versions that no snapshot from `oldest` on sees are forgotten where it comes by.
    pub fn apply<'c>(
        &self,
        commit: CommitId,
        changes: impl IntoIterator<Item = (&'c [u8], Option<&'c [u8]>)>,
        oldest: CommitId,
    ) {
        let mut changes = changes.into_iter().peekable();
        while changes.peek().is_some() {
            let mut table = self.table.write();
            assert!(table.newest <= commit, "commits are applied in order");
            table.newest = commit;
            let mut bytes = 0;
            for (key, row) in changes.by_ref().take(CHANGES_PER_LOCK) {
                table.put(key, row, commit, oldest, &self.secrets);
                bytes += row.map_or(0, <[u8]>::len);
                if bytes > CHANGE_BYTES_PER_LOCK {
                    break;
                }
            }
            self.count(&table);
        }
    }

    /// Whether what a commit has written can become part of the table as it is: no key is in the range of its keys, and there are
    /// places for its records, which end at `end`.
    pub(super) fn takes(&self, range: &KeyRange, end: u32) -> bool {
        self.table.read().takes(range, end)
    }

    /// Adds the versions of a commit, which are taken as they are. Whoever applies has asked [`Versions::takes`].
    pub(super) fn append(&self, commit: CommitId, mut run: Run) {
        loop {
            // Nobody waits for a run to be settled. Meanwhile all that there was may be forgotten.
            let end = self.table.read().end();
            run.settle(end);
            let mut table = self.table.write();
            if table.end() == end {
                assert!(table.newest <= commit, "commits are applied in order");
                table.newest = commit;
                table.append(run, commit);
                self.count(&table);
                return;
            }
        }
    }

    fn count(&self, table: &VersionTable) {
        self.bytes.store(table.allocated_bytes(), Ordering::Relaxed);
    }

    /// Forgets versions up to the commit `in_base`, all of which the base has, and versions that no snapshot from `oldest`
    /// on sees; gives the memory back.
    pub fn forget(&self, in_base: CommitId, oldest: CommitId) {
        let mut table = self.table.write();
        if table.is_unused() {
            return;
        }
        if table.newest <= in_base {
            let empty = VersionTable::after(table.newest);
            let forgotten = std::mem::replace(&mut *table, empty);
            self.count(&table);
            drop(table);
            // Nobody waits for the memory to be freed.
            drop(forgotten);
            return;
        }
        drop(table);
        let mut bound: Option<Box<[u8]>> = None;
        loop {
            let mut table = self.table.write();
            bound = table.forget_leaf(bound.as_deref(), in_base, oldest, &self.secrets);
            self.count(&table);
            if bound.is_none() {
                return;
            }
        }
    }

    /// Bytes of memory that it has taken from the allocator.
    pub fn allocated_bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests;
