//! The versions of all keys, for one thread at a time. [`Versions`](super::Versions) adds the lock.

use std::ops::ControlFlow;

use rapidhash::v3::RapidSecrets;
use rowmill_base::CommitId;
use rowmill_io::OverflowMemory;
use rowmill_storage::keyed::KeyRange;

use super::arena::ArenaOffset;
use super::entry;
use super::key_index::Indexed;
use super::order::{ENTRIES_AT_ONCE, KeyTree};
use super::run::CommitRun;
use super::version_chains::VersionChains;

/// The versions of all keys: chains found by hash, and the order of the keys.
#[derive(Debug)]
pub(super) struct VersionTable {
    pub(super) chains: VersionChains,
    order: KeyTree,
    /// The last commit that changed anything.
    pub(super) newest: CommitId,
}

impl VersionTable {
    /// A table without versions, for commits after `newest`, in `memory`.
    pub(super) fn after(newest: CommitId, memory: &OverflowMemory) -> Self {
        VersionTable { chains: VersionChains::new(memory), order: KeyTree::new(memory.clone()), newest }
    }

    /// Whether the table never had a key.
    pub(super) fn is_unused(&self) -> bool {
        self.chains.is_unused()
    }

    pub(super) fn allocated_bytes(&self) -> usize {
        self.chains.allocated_bytes() + self.order.allocated_bytes()
    }

    /// Looks up the entry of `key` and its newest version.
    #[inline]
    pub(super) fn find(&self, hash: u64, key: &[u8]) -> Option<Indexed> {
        self.chains.find(hash, key).or_else(|| {
            let entry = self.order.find_unhashed(key, &self.chains.records)?;
            Some(Indexed { entry, newest: entry::head(&self.chains.records, entry).next })
        })
    }

    #[cfg(test)]
    pub(super) fn has_unhashed(&self) -> bool {
        self.order.has_unhashed()
    }

    /// The end of the records, where those of the next run will begin.
    pub(super) fn end(&self) -> u32 {
        self.chains.records.end()
    }

    /// Whether the table has places for copies of records that end at `end`.
    pub(super) fn has_room_for(&self, end: u32) -> bool {
        self.chains.records.has_room_to_copy(end)
    }

    /// Whether the table has room for a run whose records end at `end`, and no key in the run's range.
    pub(super) fn takes(&self, range: &KeyRange, end: u32) -> bool {
        self.chains.records.has_room_for(end) && !self.order.has_any(range, &self.chains.records)
    }

    /// Adds a run that was settled at [`VersionTable::end`]. The table must have no key between the run's keys.
    pub(super) fn append(&mut self, run: CommitRun, commit: CommitId) {
        let CommitRun { records, order, .. } = run;
        // The records come first, because the order reads keys from them.
        self.chains.records.append(records, commit);
        self.order.append(order, &self.chains.records);
    }

    /// Makes `row` the newest version of `key`. Drops versions that no snapshot from `oldest` on sees.
    pub(super) fn put(
        &mut self,
        key: &[u8],
        row: Option<&[u8]>,
        commit: CommitId,
        oldest: CommitId,
        secrets: &RapidSecrets,
    ) {
        let chains = &mut self.chains;
        // A write near entries of a run hashes their whole leaf first: a leaf is either hashed completely or not at
        // all.
        self.order.leaf_to_hash(key).iter().for_each(|entry| chains.add_hash(*entry, secrets));
        if let Some(entry) = self.chains.put(key, row, commit, oldest, secrets) {
            self.order.insert(key, entry, &self.chains.records);
        }
    }

    /// Drops versions of one leaf that the base has or that no snapshot sees. The leaf is the one after `bound`.
    /// Returns its bound.
    pub(super) fn forget_leaf(
        &mut self,
        bound: Option<&[u8]>,
        in_base: CommitId,
        oldest: CommitId,
        secrets: &RapidSecrets,
    ) -> Option<Box<[u8]>> {
        let chains = &mut self.chains;
        let bound = self.order.retain_leaf(bound, |entry, is_hashed| {
            chains.forget_in_entry(entry, in_base, oldest, is_hashed.then_some(secrets))
        })?;
        self.order.merge_leaf(&bound, &self.chains.records);
        Some(bound)
    }

    /// Passes the entries from the key `start` up to `end` (exclusive) to `each`, forward or backward. An empty `end`
    /// means no upper bound.
    pub(super) fn walk(
        &self,
        start: &[u8],
        end: &[u8],
        backward: bool,
        mut each: impl FnMut(ArenaOffset) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let chains = &self.chains;
        if backward {
            self.order.descend(start, end, &chains.records, |entries| {
                entries.rchunks(ENTRIES_AT_ONCE).try_for_each(|entries| {
                    entry::touch(&chains.records, entries);
                    entries.iter().rev().try_for_each(|entry| each(*entry))
                })
            })
        } else {
            self.order.ascend(start, end, &chains.records, |entries| {
                entries.chunks(ENTRIES_AT_ONCE).try_for_each(|entries| {
                    entry::touch(&chains.records, entries);
                    entries.iter().try_for_each(|entry| each(*entry))
                })
            })
        }
    }
}
