//! The versions of all keys, for one thread at a time: [`Versions`](super::Versions) without its lock.

use std::ops::ControlFlow;

use rapidhash::v3::RapidSecrets;
use rowmill_base::CommitId;
use rowmill_storage::keyed::KeyRange;

use super::arena::Place;
use super::order::Order;
use super::version_chains::VersionChains;

/// Entries of a range that are loaded side by side.
const ENTRIES_AT_ONCE: usize = 16;

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

    /// Whether nothing is in it.
    pub(super) fn is_empty(&self) -> bool {
        self.chains.is_empty()
    }

    pub(super) fn allocated_bytes(&self) -> usize {
        self.chains.allocated_bytes() + self.order.allocated_bytes()
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
        if let Some(entry) = self.chains.put(key, row, commit, oldest, secrets) {
            self.order.insert(key, entry, &self.chains.keys);
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
        let bound = self.order.retain_leaf(bound, |entry| chains.forget_in_entry(entry, in_base, oldest, secrets))?;
        self.order.merge_leaf(&bound, &self.chains.keys);
        Some(bound)
    }

    /// Gives `each` the entries of `range`, in order or from its end.
    pub(super) fn walk(
        &self,
        range: &KeyRange,
        backward: bool,
        mut each: impl FnMut(Place) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let chains = &self.chains;
        if backward {
            self.order.descend(range, &chains.keys, |entries| {
                entries.rchunks(ENTRIES_AT_ONCE).try_for_each(|entries| {
                    chains.touch(entries);
                    entries.iter().rev().try_for_each(|entry| each(*entry))
                })
            })
        } else {
            self.order.ascend(range, &chains.keys, |entries| {
                entries.chunks(ENTRIES_AT_ONCE).try_for_each(|entries| {
                    chains.touch(entries);
                    entries.iter().try_for_each(|entry| each(*entry))
                })
            })
        }
    }
}
