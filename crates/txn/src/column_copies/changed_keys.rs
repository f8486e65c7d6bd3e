//! The keys of a table that have changed since its copy was made, except those that only versions in memory have.

use std::collections::BTreeMap;

use parking_lot::Mutex;
use rowmill_base::{CommitId, IndexId};
use rowmill_storage::keyed::KeyRange;

use crate::keyed::store::KeyedStore;
use crate::keyed::{VersionBatch, VersionCursor, index_head};

/// Keys that are read from the versions under one lock, which takes about ten microseconds.
const KEYS_AT_ONCE: usize = 64;

/// A set of keys that has a limit.
#[derive(Debug)]
pub(super) struct ChangedKeys(Mutex<Noted>);

#[derive(Debug)]
struct Noted {
    /// Each with the last commit up to which it was noted as changed.
    keys: BTreeMap<Box<[u8]>, CommitId>,
    /// Earlier changes are part of the copy.
    since: CommitId,
    keys_max: u64,
}

impl ChangedKeys {
    /// No keys yet. More than `keys_max` are too many.
    pub(super) fn new(keys_max: u64) -> ChangedKeys {
        ChangedKeys(Mutex::new(Noted { keys: BTreeMap::new(), since: CommitId(0), keys_max }))
    }

    /// Sets the commit of the copy. Its own rows and earlier ones need not be noted.
    pub(super) fn set_since(&self, commit: CommitId) {
        self.0.lock().since = commit;
    }

    /// Whether more keys have changed than the copy is of use for. Then the set need not have all of them.
    pub(super) fn are_too_many(&self) -> bool {
        let noted = self.0.lock();
        noted.keys.len() as u64 > noted.keys_max
    }

    /// Notes the keys of `index` that commits after `after`, up to `to`, have changed.
    pub(super) fn note(&self, store: &KeyedStore, index: IndexId, (after, to): (CommitId, CommitId)) {
        let after = after.max(self.0.lock().since);
        read_changes(store, index, (after, to), &mut |key| {
            let mut noted = self.0.lock();
            noted.keys.insert(key.into(), to);
            noted.keys.len() as u64 <= noted.keys_max
        });
    }

    /// The most keys that may change before the copy is no longer of use.
    pub(super) fn keys_max(&self) -> u64 {
        self.0.lock().keys_max
    }

    /// The keys of `index` that commits after `after`, up to `to`, have changed, in order; also some that have changed
    /// later. No commit before that of the copy may be asked for. `None` if they are too many.
    pub(super) fn between(
        &self,
        store: &KeyedStore,
        index: IndexId,
        (after, to): (CommitId, CommitId),
    ) -> Option<Vec<Box<[u8]>>> {
        let keys_max = self.keys_max();
        let (mut keys, mut recent) = (Vec::new(), 0);
        // First the versions: before a version is dropped, its key is noted.
        let is_complete = read_changes(store, index, (after, to), &mut |key| {
            keys.push(key.into());
            recent += 1;
            recent <= keys_max
        });
        let noted = self.0.lock();
        if !is_complete || noted.keys.len() as u64 > keys_max {
            return None;
        }
        keys.extend(noted.keys.iter().filter(|(_, noted)| **noted > after).map(|(key, _)| key.clone()));
        drop(noted);
        // Two ascending runs, which the sort merges.
        keys.sort();
        keys.dedup();
        (keys.len() as u64 <= keys_max).then_some(keys)
    }
}

/// Hands the keys of an index that commits after the first one, up to the second one, have changed to `take`, until it
/// returns `false`. Returns whether it took all.
fn read_changes(
    store: &KeyedStore,
    index: IndexId,
    (after, to): (CommitId, CommitId),
    take: &mut dyn FnMut(&[u8]) -> bool,
) -> bool {
    let head = index_head(index);
    let mut cursor = VersionCursor::changes(KeyRange::of_prefix(&head), after, to);
    let mut batch = VersionBatch::default();
    loop {
        cursor.next_batch(store.versions().of_key(&head), KEYS_AT_ONCE, &mut batch);
        if batch.is_empty() {
            return true;
        }
        if !(0..batch.len()).all(|at| take(batch.get(at).0)) {
            return false;
        }
    }
}
