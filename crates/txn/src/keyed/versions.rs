//! The ordered multi-version table: the commits to keyed tables and indexes that the ordered base does not have yet.
//!
//! A key has a chain of versions, newest first. Each version is a row or a deletion, with its commit. A snapshot sees
//! the newest version that is not newer than the snapshot. If there is none, it asks the base. An open database has
//! several such tables, and the index of a key selects one
//! ([`VersionsByIndex`](super::versions_by_index::VersionsByIndex)).
//!
//! ```text
//! key -> KeyIndex (256 hash tables) ---+-----------------------+
//!                                      v                       v
//! KeyTree (leaves of 128) -------> entry: commit, key --> version: commit, row --> older version --> ...
//! ```
//!
//! Entries and versions are records in one [`Arena`](super::arena) and refer to each other by place. A key is stored
//! beside its first version. A point read uses the hash tables, whose slots hold both places. Ranges use the order. The
//! writes of a large commit may become part of the table without a copy ([`Run`]). Their keys are then found in the
//! order, until a key beside them changes.
//!
//! One lock protects all of it, and no thread may hold it for long. Readers copy what they ask for, in batches of a
//! range. A commit, and the removal of old versions after a checkpoint, release the lock again and again. No reader
//! notices that: snapshots that see the commit do not exist yet, and no snapshot reads the versions that are removed.
//!
//! The caller must keep these rules:
//! * Only one commit is applied at a time, in the order of commit ids, and before any snapshot of it exists.
//! * `oldest` is not later than any snapshot in use or any future one.
//! * No snapshot reads a state of the base older than `in_base`.
//!
//! `docs/experiments.md`, "Keyed tables", has measurements and the alternatives that were slower.

use parking_lot::{RwLock, RwLockReadGuard};
use rapidhash::v3::RapidSecrets;
use rowmill_base::CommitId;
use rowmill_io::OverflowMemory;
use rowmill_storage::keyed::KeyRange;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::entry;
use super::key_index::hash;
use super::run::CommitRun;
use super::version_table::VersionTable;
use crate::background_pace::rest_if_due;

/// The most changes to apply under one lock. They take about ten microseconds.
const CHANGES_PER_LOCK: usize = 32;
/// The most bytes of rows to apply under one lock. Copying them takes 7 µs at 10 GB/s, about as long as applying
/// [`CHANGES_PER_LOCK`] short rows.
const CHANGE_BYTES_PER_LOCK: usize = 64 << 10;
/// The most entries of a range to validate under one lock.
const CHECKED_PER_LOCK: usize = 1024;

/// What a snapshot sees of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Visibility {
    /// A row.
    Row,
    /// A deletion.
    Deleted,
    /// Nothing. The caller should ask the base.
    Unknown,
}

/// The answer to a point read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Got {
    /// What the snapshot sees.
    pub found: Visibility,
    /// The commit of the key's newest version, which may be too new for the snapshot; `None` if the table has no
    /// version.
    pub latest: Option<CommitId>,
}

/// The ordered multi-version table of one or a few indexes. See the module header for its structure.
#[derive(Debug)]
pub struct Versions {
    table: RwLock<VersionTable>,
    /// Bytes taken from the allocator. We keep a copy here because every commit asks for them.
    bytes: AtomicUsize,
    /// Whether the table never had a key. Most tables have none after a checkpoint, so this saves their readers the
    /// lock. A commit clears it before any snapshot of the commit exists.
    is_unused: AtomicBool,
    /// The secrets of key hashes. Clients must not know them, because they could write keys with equal hashes.
    secrets: RapidSecrets,
    memory: OverflowMemory,
}

impl Default for Versions {
    fn default() -> Self {
        Versions::new()
    }
}

impl Versions {
    /// A table without versions.
    pub fn new() -> Self {
        Versions::within(OverflowMemory::default(), RapidSecrets::random())
    }

    /// A table without versions, in `memory`, that hashes keys with the given secrets.
    pub(super) fn within(memory: OverflowMemory, secrets: RapidSecrets) -> Self {
        let table = VersionTable::after(CommitId(0), &memory);
        let bytes = AtomicUsize::new(table.allocated_bytes());
        Versions { bytes, is_unused: AtomicBool::new(true), table: RwLock::new(table), secrets, memory }
    }

    /// Whether no snapshot sees a version here.
    #[inline]
    pub(super) fn is_unused(&self) -> bool {
        self.is_unused.load(Ordering::Acquire)
    }

    pub(super) fn read(&self) -> RwLockReadGuard<'_, VersionTable> {
        self.table.read()
    }

    /// The hash of a key in this table.
    #[inline]
    pub(super) fn hash(&self, key: &[u8]) -> u64 {
        hash(key, &self.secrets)
    }

    /// Looks up what the snapshot of commit `at` sees of `key`. Copies the row to `row`, or leaves `row` empty.
    pub fn get(&self, key: &[u8], at: CommitId, row: &mut Vec<u8>) -> Got {
        self.get_hashed(self.hash(key), key, at, row)
    }

    /// Looks up a key whose hash the caller already computed. See [`Versions::get`].
    pub(super) fn get_hashed(&self, hash: u64, key: &[u8], at: CommitId, row: &mut Vec<u8>) -> Got {
        row.clear();
        let unknown = Got { found: Visibility::Unknown, latest: None };
        if self.is_unused() {
            return unknown;
        }
        let table = self.table.read();
        let Some(indexed) = table.find(hash, key) else { return unknown };
        let found = match table.chains.visible(indexed.newest, at) {
            Some(Some(visible)) => {
                row.extend_from_slice(visible);
                Visibility::Row
            }
            Some(None) => Visibility::Deleted,
            None => Visibility::Unknown,
        };
        Got { found, latest: Some(entry::head(&table.chains.records, indexed.entry).commit) }
    }

    /// The commit of the newest version of `key`.
    pub fn latest_commit(&self, key: &[u8]) -> Option<CommitId> {
        let hash = hash(key, &self.secrets);
        let table = self.table.read();
        table.find(hash, key).map(|indexed| entry::head(&table.chains.records, indexed.entry).commit)
    }

    /// Whether the newest version of `key` is a deletion by a commit after `after`.
    pub(crate) fn is_deleted_after(&self, key: &[u8], after: CommitId) -> bool {
        let hash = hash(key, &self.secrets);
        let table = self.table.read();
        let newest = table.find(hash, key).map(|indexed| indexed.newest);
        let newest = newest.and_then(|newest| table.chains.visible_version(newest, CommitId(u64::MAX)));
        newest.is_some_and(|(commit, row)| row.is_none() && commit > after)
    }

    /// Returns a key of `range` that a commit after `after` changed, if there is one.
    pub(crate) fn changed_in(&self, range: &KeyRange, after: CommitId) -> Option<Vec<u8>> {
        let mut rest: Option<KeyRange> = None;
        // Each round looks at a part of the range under the lock, then releases it so that commits can go on.
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
                    // Nothing was found so far. Continue after the last key that was looked at.
                    rest = Some(KeyRange { start: [last, &[0]].concat(), end: range.end.clone() });
                }
                (_, changed, _) => return changed,
            }
        }
    }

    /// Adds the versions of a commit. `changes` has each changed key once, with its new row, or `None` for a deletion.
    /// It is fastest in the order of the keys. On the way this drops old versions that no snapshot from `oldest` on
    /// sees.
    pub fn apply<'c>(
        &self,
        commit: CommitId,
        changes: impl IntoIterator<Item = (&'c [u8], Option<&'c [u8]>)>,
        oldest: CommitId,
    ) {
        let mut changes = changes.into_iter().peekable();
        while changes.peek().is_some() {
            let mut table = self.table.write();
            assert!(table.newest <= commit, "commits must be applied in order");
            table.newest = commit;
            let mut bytes = 0;
            // Release the lock after some changes, so that readers wait only briefly.
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

    /// Whether the writes of a commit can become part of the table without a copy. That requires that the table has no
    /// key in their `range`, and that it has enough free places for their records, which end at `end`.
    pub(super) fn takes(&self, range: &KeyRange, end: u32) -> bool {
        self.table.read().takes(range, end)
    }

    /// Adds the versions of a commit without copying them. The caller must have asked [`Versions::takes`].
    pub(super) fn append(&self, commit: CommitId, mut run: CommitRun) {
        loop {
            // Settle the run without the lock, so that no thread waits for it. In the meantime `forget` may have
            // emptied the table, so check the end again under the lock.
            let end = self.table.read().end();
            run.settle(end);
            let mut table = self.table.write();
            if table.end() == end {
                assert!(table.newest <= commit, "commits must be applied in order");
                table.newest = commit;
                table.append(run, commit);
                self.count(&table);
                return;
            }
        }
    }

    fn count(&self, table: &VersionTable) {
        self.bytes.store(table.allocated_bytes(), Ordering::Relaxed);
        self.is_unused.store(table.is_unused(), Ordering::Release);
    }

    /// Removes versions up to the commit `in_base`, which the base has, and versions that no snapshot from `oldest` on
    /// sees. Gives their memory back.
    pub fn forget(&self, in_base: CommitId, oldest: CommitId) {
        let mut table = self.table.write();
        if table.is_unused() {
            return;
        }
        // The base has everything: replace the whole table at once.
        if table.newest <= in_base {
            let empty = VersionTable::after(table.newest, &self.memory);
            let forgotten = std::mem::replace(&mut *table, empty);
            self.count(&table);
            drop(table);
            // Free the memory after releasing the lock, so that no thread waits for it.
            drop(forgotten);
            return;
        }
        drop(table);
        // Otherwise clean up leaf by leaf, and release the lock after each.
        let mut bound: Option<Box<[u8]>> = None;
        loop {
            rest_if_due();
            let mut table = self.table.write();
            bound = table.forget_leaf(bound.as_deref(), in_base, oldest, &self.secrets);
            self.count(&table);
            if bound.is_none() {
                return;
            }
        }
    }

    /// Bytes of memory taken from the allocator, also those in a file.
    pub fn allocated_bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests;
