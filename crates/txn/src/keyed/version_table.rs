//! The versions of all keys, for one thread at a time: [`Versions`](super::Versions) without its lock.

use std::ops::ControlFlow;

use rapidhash::v3::RapidSecrets;
use rowmill_base::CommitId;
use rowmill_storage::keyed::KeyRange;

use super::arena::Place;
use super::entry;
use super::key_index::Indexed;
use super::order::{ENTRIES_AT_ONCE, Order};
use super::run::Run;
use super::version_chains::VersionChains;

/// See the module.
#[derive(Debug)]
pub(super) struct VersionTable {
    pub(super) chains: VersionChains,
    order: Order,
    /// The last commit that changed anything.
    pub(super) newest: CommitId,
}

impl VersionTable {
    /// Without versions, for those behind a commit.
    pub(super) fn after(newest: CommitId) -> Self {
        VersionTable { chains: VersionChains::new(), order: Order::new(), newest }
    }

    /// Whether it never had a key.
    pub(super) fn is_unused(&self) -> bool {
        self.chains.is_unused()
    }

    pub(super) fn allocated_bytes(&self) -> usize {
        self.chains.allocated_bytes() + self.order.allocated_bytes()
    }

    /// The entry of `key` and its newest version.
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

    /// Where the records of a run will lie.
    pub(super) fn end(&self) -> u32 {
        self.chains.records.end()
    }

    /// Whether there is room for a run whose records end at `end`, and no key in its range.
    pub(super) fn takes(&self, range: &KeyRange, end: u32) -> bool {
        self.chains.records.has_room_for(end) && !self.order.has_any(range, &self.chains.records)
    }

    /// Adds a run that is settled behind [`VersionTable::end`]; no key is between its keys.
    pub(super) fn append(&mut self, run: Run, commit: CommitId) {
        let Run { records, order, .. } = run;
        self.chains.records.append(records, commit);
        self.order.append(order, &self.chains.records);
    }

    /// Makes `row` the newest version of `key`.
    pub(super) fn put(
        &mut self,
        key: &[u8],
        row: Option<&[u8]>,
        commit: CommitId,
        oldest: CommitId,
        secrets: &RapidSecrets,
    ) {
        let chains = &mut self.chains;
        self.order.leaf_to_hash(key).iter().for_each(|entry| chains.add_hash(*entry, secrets));
        if let Some(entry) = self.chains.put(key, row, commit, oldest, secrets) {
            self.order.insert(key, entry, &self.chains.records);
        }
    }

    /// Forgets what is in the base or what no snapshot sees, of one leaf: the one behind `bound`. Gives that leaf's bound.
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

    /// Gives `each` the entries from the key `start` on that are below `end`, in order or from the end. An empty `end` is none.
    pub(super) fn walk(
        &self,
        start: &[u8],
        end: &[u8],
        backward: bool,
        mut each: impl FnMut(Place) -> ControlFlow<()>,
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
