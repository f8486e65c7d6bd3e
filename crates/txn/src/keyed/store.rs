//! The versions in memory with who needs them: what a process has of keyed tables beyond the base.
//!
//! A snapshot of commit S over the base's state of commit G (G is at most S) finds a key's newest version that is not newer
//! than S in memory, or else in the base's state. For that to be right while it lives, two things have to stay:
//!
//! * the versions of commits above G that it sees. So of keys whose newest version is not newer than the oldest G of all
//!   snapshots, versions are forgotten, and of others those behind the first that the oldest snapshot sees;
//! * the state of G ([`Generation`]).
//!
//! The validation of a commit asks the versions alone whether a key was written since its snapshot. A key that was has its
//! newest version above S, hence above G, hence above the oldest G: it is not forgotten. So no answer means that nobody
//! wrote the key.
//!
//! Snapshots that differ in columnar tables alone share one [`KeyedState`]: nothing was written to keyed tables between them.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use parking_lot::{Mutex, RwLock, RwLockReadGuard, RwLockWriteGuard};
use rowmill_base::{Broker, CommitId, Reservation};

use super::dead_ranges::DeadRanges;
use super::generation::Generation;
use super::row_counts::RowCounts;
use super::versions_by_index::VersionsByIndex;
use super::write_buffers::WriteBuffers;
use super::write_set::WriteSet;

/// See the module.
#[derive(Debug)]
pub(crate) struct KeyedStore {
    versions: VersionsByIndex,
    dead: DeadRanges,
    row_counts: RowCounts,
    /// What the base has.
    current: RwLock<Arc<Generation>>,
    in_use: Mutex<InUse>,
    memory: Mutex<Reservation>,
    /// Empty ones, for transactions to come.
    write_sets: Mutex<Vec<(Arc<WriteSet>, Box<WriteBuffers>)>>,
}

/// Write sets that are kept.
const WRITE_SETS_MAX: usize = 16;

#[derive(Debug, Default)]
struct InUse {
    /// Snapshots by their commits.
    commits: BTreeMap<CommitId, usize>,
    generations: Vec<Weak<Generation>>,
}

impl KeyedStore {
    /// Without versions, over the base's state `current`.
    pub(crate) fn new(current: Generation, memory: &Broker) -> Arc<KeyedStore> {
        let store = KeyedStore {
            versions: VersionsByIndex::new(),
            dead: DeadRanges::default(),
            row_counts: RowCounts::default(),
            current: RwLock::new(Arc::new(Generation::unread(current.commit()))),
            in_use: Mutex::default(),
            memory: Mutex::new(memory.reservation("recent rows of keyed tables")),
            write_sets: Mutex::default(),
        };
        *store.current.write() = store.keep(current);
        Arc::new(store)
    }

    pub(crate) fn versions(&self) -> &VersionsByIndex {
        &self.versions
    }

    pub(super) fn row_counts(&self) -> &RowCounts {
        &self.row_counts
    }

    pub(super) fn dead(&self) -> &DeadRanges {
        &self.dead
    }

    /// Has the versions above a state of the base kept as long as it.
    pub(crate) fn keep(&self, generation: Generation) -> Arc<Generation> {
        let generation = Arc::new(generation);
        self.in_use.lock().generations.push(Arc::downgrade(&generation));
        generation
    }

    /// What the base has, held: it does not become another one meanwhile.
    pub(crate) fn current(&self) -> RwLockReadGuard<'_, Arc<Generation>> {
        self.current.read()
    }

    /// What the base has now.
    pub(crate) fn current_arc(&self) -> Arc<Generation> {
        Arc::clone(&self.current.read())
    }

    /// The same as [`KeyedStore::current`], to be replaced.
    pub(crate) fn current_mut(&self) -> RwLockWriteGuard<'_, Arc<Generation>> {
        self.current.write()
    }

    /// What a snapshot of `commit` sees over a state of the base that is not newer.
    pub(crate) fn state(self: &Arc<Self>, commit: CommitId, generation: &Arc<Generation>) -> Arc<KeyedState> {
        assert!(generation.commit() <= commit, "a snapshot over a newer state of the base");
        *self.in_use.lock().commits.entry(commit).or_default() += 1;
        Arc::new(KeyedState { store: Arc::clone(self), commit, generation: Arc::clone(generation), is_counted: true })
    }

    /// The same, to be compared with other states and not to be read: it keeps nothing.
    pub(crate) fn unread_state(self: &Arc<Self>, commit: CommitId) -> Arc<KeyedState> {
        let generation = Arc::new(Generation::unread(commit));
        Arc::new(KeyedState { store: Arc::clone(self), commit, generation, is_counted: false })
    }

    /// Adds what a commit has written, before a snapshot of it is handed out. What nobody else has may be taken out of
    /// `changes`.
    pub(crate) fn apply(&self, commit: CommitId, changes: &mut Arc<WriteSet>) {
        let oldest = self.in_use.lock().commits.keys().next().copied().unwrap_or(commit);
        for (index, rows) in changes.added() {
            self.row_counts.add(index, commit, rows, oldest);
        }
        let mut taken = Vec::new();
        match Arc::get_mut(changes) {
            Some(own) => {
                own.take_indexes(|writes| taken.extend(self.versions.take(commit, writes, oldest)));
            }
            None => changes.indexes().for_each(|writes| self.versions.apply(commit, writes, oldest)),
        }
        self.dead.revive(changes.iter().filter_map(|(key, row)| row.map(|_| key)));
        taken.iter().for_each(|range| self.dead.revive_within(range));
        self.recount();
    }

    /// An empty write set that nobody else has, to be given back.
    pub(crate) fn take_write_set(&self) -> (Arc<WriteSet>, Box<WriteBuffers>) {
        let kept = self.write_sets.lock().pop();
        kept.unwrap_or_else(|| (Arc::new(self.new_write_set()), Box::default()))
    }

    /// The same, of which none is kept.
    pub(crate) fn new_write_set(&self) -> WriteSet {
        WriteSet::new(self.versions.secrets())
    }

    /// Keeps the memory of a write set that nobody reads any more.
    pub(crate) fn give_write_set_back(&self, mut set: Arc<WriteSet>, buffers: Box<WriteBuffers>) {
        let Some(own) = Arc::get_mut(&mut set) else { return };
        own.reset();
        let mut kept = self.write_sets.lock();
        if kept.len() < WRITE_SETS_MAX {
            kept.push((set, buffers));
        }
    }

    /// Forgets what no snapshot needs.
    pub(crate) fn forget(&self) {
        let (in_base, oldest) = {
            let mut in_use = self.in_use.lock();
            in_use.generations.retain(|generation| generation.strong_count() > 0);
            let in_base = in_use.generations.iter().filter_map(Weak::upgrade).map(|it| it.commit()).min();
            (in_base, in_use.commits.keys().next().copied())
        };
        if let Some(in_base) = in_base {
            self.versions.forget(in_base, oldest.unwrap_or(in_base));
            self.recount();
        }
    }

    /// The oldest state of the base over which somebody reads: of later commits the versions are kept.
    pub(crate) fn oldest_in_use(&self) -> Option<CommitId> {
        self.in_use.lock().generations.iter().filter_map(Weak::upgrade).map(|generation| generation.commit()).min()
    }

    /// Lets go of the base, which a snapshot that somebody keeps beyond the database would hold open.
    pub(crate) fn close(&self) {
        let generations: Vec<_> = self.in_use.lock().generations.iter().filter_map(Weak::upgrade).collect();
        generations.iter().for_each(|generation| generation.close());
    }

    /// Bytes of memory that the versions take.
    pub(crate) fn bytes(&self) -> u64 {
        self.memory.lock().bytes()
    }

    fn recount(&self) {
        let mut memory = self.memory.lock();
        memory.recount(self.versions.allocated_bytes() as u64);
    }
}

/// What a snapshot sees of keyed tables.
#[derive(Debug)]
pub(crate) struct KeyedState {
    store: Arc<KeyedStore>,
    /// The last commit that wrote to keyed tables, or a later one.
    commit: CommitId,
    generation: Arc<Generation>,
    is_counted: bool,
}

impl KeyedState {
    pub(crate) fn store(&self) -> &Arc<KeyedStore> {
        &self.store
    }

    pub(crate) fn commit(&self) -> CommitId {
        self.commit
    }

    pub(crate) fn generation(&self) -> &Arc<Generation> {
        &self.generation
    }
}

impl Drop for KeyedState {
    fn drop(&mut self) {
        if self.is_counted {
            let mut in_use = self.store.in_use.lock();
            let count = in_use.commits.get_mut(&self.commit).expect("it is counted while it lives");
            *count -= 1;
            if *count == 0 {
                in_use.commits.remove(&self.commit);
            }
        }
    }
}
