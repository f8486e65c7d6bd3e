//! The versions in memory, and the snapshots that need them: everything that a process has of keyed tables beyond the
//! base.
//!
//! A snapshot of commit S is read over the base's state of commit G, where G is at most S. It finds the newest version
//! of a key that is not newer than S in memory, or else in the base's state. For that to be right while the snapshot
//! lives, two things must be kept:
//!
//! * The versions of commits above G that the snapshot sees. So we drop all versions of a key if its newest version is
//!   not newer than the oldest G of all snapshots. Of any other key we drop the versions after the first one that the
//!   oldest snapshot sees.
//! * The state of G ([`Generation`]).
//!
//! The validation of a commit only asks the versions whether a key was written after its snapshot S. If it was, the
//! key's newest version is above S, hence above G, hence above the oldest G, so it was not dropped. So if there is no
//! version, no transaction has written the key.
//!
//! Snapshots that differ only in columnar tables share one [`KeyedState`], because no commit between them wrote to
//! keyed tables.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use parking_lot::{Mutex, RwLock, RwLockReadGuard, RwLockWriteGuard};
use rowmill_base::{Broker, CommitId, Error, ErrorKind, Reservation, Result};
use rowmill_io::OverflowMemory;
use rowmill_storage::spill::TempSpace;

use super::changed_counts::ChangedCounts;
use super::dead_ranges::DeadRanges;
use super::generation::Generation;
use super::index_writes::IndexWrites;
use super::row_counts::RowCounts;
use super::versions_by_index::VersionsByIndex;
use super::write_buffers::WriteBuffers;
use super::write_set::WriteSet;
use crate::column_copies::ColumnCopies;

/// The recent versions of keyed tables, and the snapshots and states of the base that are in use.
#[derive(Debug)]
pub(crate) struct KeyedStore {
    versions: VersionsByIndex,
    dead: DeadRanges,
    row_counts: RowCounts,
    changed_counts: ChangedCounts,
    column_copies: ColumnCopies,
    /// The current state of the base.
    current: RwLock<Arc<Generation>>,
    in_use: Mutex<InUse>,
    memory: Mutex<Reservation>,
    broker: Broker,
    /// The place of temporary files, unless the rows must stay in memory.
    temp: Option<TempSpace>,
    /// The memory of versions that were copied from write sets.
    overflow: OverflowMemory,
    /// The memory of writes that became versions without a copy.
    taken: Mutex<Vec<OverflowMemory>>,
    /// Empty write sets for future transactions.
    write_sets: Mutex<Vec<(Arc<WriteSet>, Box<WriteBuffers>)>>,
}

/// The most empty write sets that we keep.
const WRITE_SETS_MAX: usize = 16;

/// The rows of a transaction may take one part in this many of the memory limit before they overflow to a file.
const WRITE_SET_SHARE: u64 = 8;

/// Recent rows may take one part in this many of the memory limit before they overflow to a file. Writers wait for a
/// checkpoint earlier (`back_pressure.rs`), so this happens only if a checkpoint cannot free them.
const RECENT_ROWS_SHARE: u64 = 2;

/// The most files that recent rows take over from transactions. Each is open as long as its rows are needed.
const FILES_TAKEN_MAX: usize = 8;

/// With fewer bytes of recent rows, an index has places for more.
const PLACES_CHECKED_BYTES_MIN: u64 = 4 << 30;

/// The holder of recent rows, in errors and in lists of holders.
const OWNER: &str = "recent rows of keyed tables";

#[derive(Debug, Default)]
struct InUse {
    /// The number of snapshots for each commit.
    commits: BTreeMap<CommitId, usize>,
    generations: Vec<Weak<Generation>>,
    /// What the last call of [`KeyedStore::forget`] kept: the oldest state of the base, and the oldest snapshot.
    forgotten: Option<(CommitId, CommitId)>,
}

impl KeyedStore {
    /// A store without versions over the base's state `current`. Rows that memory has no room for go to files in
    /// `temp`, if there is a place.
    pub(crate) fn new(current: Generation, memory: &Broker, temp: Option<TempSpace>) -> Arc<KeyedStore> {
        let overflow = overflow_memory(temp.as_ref(), OWNER);
        let store = KeyedStore {
            versions: VersionsByIndex::new(&overflow),
            dead: DeadRanges::default(),
            row_counts: RowCounts::default(),
            changed_counts: ChangedCounts::default(),
            column_copies: ColumnCopies::default(),
            current: RwLock::new(Arc::new(Generation::unread(current.commit()))),
            in_use: Mutex::default(),
            memory: Mutex::new(memory.reservation(OWNER)),
            broker: memory.clone(),
            temp,
            overflow,
            taken: Mutex::default(),
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

    /// How many rows were written to each table.
    pub(crate) fn changed_counts(&self) -> &ChangedCounts {
        &self.changed_counts
    }

    pub(crate) fn column_copies(&self) -> &ColumnCopies {
        &self.column_copies
    }

    /// The account of memory.
    pub(crate) fn broker(&self) -> &Broker {
        &self.broker
    }

    pub(super) fn dead(&self) -> &DeadRanges {
        &self.dead
    }

    /// Registers a state of the base. The versions above it are kept as long as the state lives.
    pub(crate) fn keep(&self, generation: Generation) -> Arc<Generation> {
        let generation = Arc::new(generation);
        self.in_use.lock().generations.push(Arc::downgrade(&generation));
        generation
    }

    /// The current state of the base, locked: it cannot be replaced while the guard is held.
    pub(crate) fn current(&self) -> RwLockReadGuard<'_, Arc<Generation>> {
        self.current.read()
    }

    /// The current state of the base.
    pub(crate) fn current_arc(&self) -> Arc<Generation> {
        Arc::clone(&self.current.read())
    }

    /// The current state of the base, locked for replacement.
    pub(crate) fn current_mut(&self) -> RwLockWriteGuard<'_, Arc<Generation>> {
        self.current.write()
    }

    /// The view of a snapshot of `commit` over a state of the base, which must not be newer than the snapshot.
    pub(crate) fn state(self: &Arc<Self>, commit: CommitId, generation: &Arc<Generation>) -> Arc<KeyedState> {
        assert!(generation.commit() <= commit, "the state of the base must not be newer than the snapshot");
        *self.in_use.lock().commits.entry(commit).or_default() += 1;
        Arc::new(KeyedState { store: Arc::clone(self), commit, generation: Arc::clone(generation), is_counted: true })
    }

    /// A state only for comparison with others. It cannot be read and keeps no versions.
    pub(crate) fn unread_state(self: &Arc<Self>, commit: CommitId) -> Arc<KeyedState> {
        let generation = Arc::new(Generation::unread(commit));
        Arc::new(KeyedState { store: Arc::clone(self), commit, generation, is_counted: false })
    }

    /// Adds the writes of a commit. This must happen before any snapshot of the commit exists. If the caller is the
    /// only owner of `changes`, large parts may be moved out of it. Returns whether a table has changed so much that it
    /// needs other statistics.
    pub(crate) fn apply(&self, commit: CommitId, changes: &mut Arc<WriteSet>) -> bool {
        // Without any snapshot, only the new commit must stay visible.
        let oldest = self.in_use.lock().commits.keys().next().copied().unwrap_or(commit);
        for (index, rows) in changes.added() {
            self.row_counts.add(index, commit, rows, oldest);
        }
        let written = changes.indexes().map(|writes| (writes.index(), writes.content().keys as u64));
        let needs_statistics = self.changed_counts.add(written);
        // Rows that the file cannot have stay in memory, because nothing may fail here. Each commit tries the file
        // again.
        let of_taken: u64 = self.taken.lock().iter().map(OverflowMemory::heap_bytes).sum();
        let share = self.broker.limit_bytes() / RECENT_ROWS_SHARE;
        self.overflow.set_heap_bytes_max(share.saturating_sub(of_taken));
        drop(self.overflow.take_failure());
        let mut taken = Vec::new();
        // The versions must be added before dead ranges are removed. See `dead_ranges.rs` for the reason.
        match Arc::get_mut(changes) {
            // We are the only owner, so large parts can be moved into the versions instead of copied.
            Some(own) if self.may_take(own.memory()) => {
                if own.indexes().any(IndexWrites::is_run) {
                    own.free_replaced();
                }
                own.take_indexes(|writes| {
                    let range = self.versions.take(commit, writes, oldest);
                    let is_taken = range.is_some();
                    taken.extend(range);
                    is_taken
                });
                if !taken.is_empty() {
                    self.taken.lock().push(own.memory().clone());
                }
            }
            _ => changes.indexes().for_each(|writes| self.versions.apply(commit, writes, oldest)),
        }
        self.dead.revive(changes.iter().filter_map(|(key, row)| row.map(|_| key)));
        taken.iter().for_each(|range| self.dead.revive_within(range));
        self.recount();
        needs_statistics
    }

    /// Whether writes in `memory` may become versions without a copy. When recent rows have filled their share of
    /// memory, those of a small commit are copied, so that they overflow to the one file of all recent rows.
    fn may_take(&self, memory: &OverflowMemory) -> bool {
        let (limit, heap_bytes) = (self.broker.limit_bytes(), memory.heap_bytes());
        if self.bytes() + heap_bytes < limit / RECENT_ROWS_SHARE {
            return true;
        }
        let files = self.taken.lock().iter().filter(|memory| memory.file_bytes() > 0).count();
        heap_bytes + memory.file_bytes() >= limit / WRITE_SET_SHARE && files < FILES_TAKEN_MAX
    }

    /// Whether recent rows stay in memory although they have filled their share, because no file can have them.
    pub(crate) fn is_out_of_files(&self) -> bool {
        self.overflow.has_failed()
    }

    /// Forgets that no file could have recent rows, so that the next commit tries again.
    pub(crate) fn retry_files(&self) {
        drop(self.overflow.take_failure());
    }

    /// Returns an error if recent rows have too few places for the writes of a commit.
    pub(crate) fn check_room(&self, changes: &WriteSet) -> Result<()> {
        // Fewer bytes always have places, and asking the tables would cost each small commit some locks.
        let is_little = self.versions.allocated_bytes() as u64 + changes.content_bytes() < PLACES_CHECKED_BYTES_MIN;
        match is_little || changes.indexes().all(|writes| self.versions.has_room_for(writes)) {
            true => Ok(()),
            false => Err(Error::new(
                ErrorKind::MemoryLimit,
                format!("{OWNER} and those of this commit have more than 32 GiB for one index"),
            )
            .hint("end the transactions that read old rows, or commit fewer rows at once")),
        }
    }

    /// Takes an empty write set that no other transaction has. It must be given back.
    pub(crate) fn take_write_set(&self) -> (Arc<WriteSet>, Box<WriteBuffers>) {
        let kept = self.write_sets.lock().pop();
        let (set, buffers) = kept.unwrap_or_else(|| (Arc::new(self.new_write_set()), Box::default()));
        set.memory().set_heap_bytes_max(self.broker.limit_bytes() / WRITE_SET_SHARE);
        (set, buffers)
    }

    /// Makes a new empty write set.
    pub(crate) fn new_write_set(&self) -> WriteSet {
        let memory = overflow_memory(self.temp.as_ref(), "keyed rows of an open transaction");
        memory.set_heap_bytes_max(self.broker.limit_bytes() / WRITE_SET_SHARE);
        WriteSet::new(self.versions.secrets(), memory)
    }

    /// Takes a write set back to keep its memory, unless a view still reads it.
    pub(crate) fn give_write_set_back(&self, mut set: Arc<WriteSet>, buffers: Box<WriteBuffers>) {
        // A view of the transaction may still read the set. Its memory is then freed with the view.
        let Some(own) = Arc::get_mut(&mut set) else { return };
        let is_of_use = own.reset();
        let mut kept = self.write_sets.lock();
        if is_of_use && kept.len() < WRITE_SETS_MAX {
            kept.push((set, buffers));
        }
    }

    /// Drops the versions that no snapshot needs.
    pub(crate) fn forget(&self) {
        let (in_base, oldest) = {
            let mut in_use = self.in_use.lock();
            in_use.generations.retain(|generation| generation.strong_count() > 0);
            // Without a registered state we cannot tell which versions are needed, so we drop none.
            let in_base = in_use.generations.iter().filter_map(Weak::upgrade).map(|it| it.commit()).min();
            let Some(in_base) = in_base else { return };
            let needed = (in_base, in_use.commits.keys().next().copied().unwrap_or(in_base));
            // While a long reader keeps the same versions, each writer asks again. The walk over all of them would free
            // nothing.
            if in_use.forgotten.replace(needed) == Some(needed) {
                return;
            }
            needed
        };
        self.versions.forget(in_base, oldest);
        self.recount();
    }

    /// The commit of the oldest state of the base in use. The versions of later commits are kept.
    pub(crate) fn oldest_in_use(&self) -> Option<CommitId> {
        self.in_use.lock().generations.iter().filter_map(Weak::upgrade).map(|generation| generation.commit()).min()
    }

    /// Releases the base. A snapshot that outlives the database must not keep the base open.
    pub(crate) fn close(&self) {
        let generations: Vec<_> = self.in_use.lock().generations.iter().filter_map(Weak::upgrade).collect();
        generations.iter().for_each(|generation| generation.close());
    }

    /// The bytes of memory that the versions take.
    pub(crate) fn bytes(&self) -> u64 {
        self.memory.lock().bytes()
    }

    /// Stores the versions that are in files. An error means that some of them may be lost.
    pub(crate) fn sync_files(&self) -> Result<()> {
        let taken = self.taken.lock().clone();
        taken.iter().chain([&self.overflow]).filter(|memory| memory.file_bytes() > 0).try_for_each(OverflowMemory::sync)
    }

    fn recount(&self) {
        let mut taken = self.taken.lock();
        taken.retain(|memory| memory.heap_bytes() + memory.file_bytes() > 0);
        let in_files = taken.iter().chain([&self.overflow]).map(OverflowMemory::file_bytes).sum();
        let mut memory = self.memory.lock();
        memory.recount((self.versions.allocated_bytes() as u64).saturating_sub(in_files));
    }
}

/// Memory of `owner` that overflows to a file in `temp`, if there is a place.
fn overflow_memory(temp: Option<&TempSpace>, owner: &'static str) -> OverflowMemory {
    temp.map_or_else(OverflowMemory::default, |temp| temp.overflow_memory(owner, u64::MAX))
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
            let count = in_use.commits.get_mut(&self.commit).expect("a state is counted while it lives");
            *count -= 1;
            if *count == 0 {
                in_use.commits.remove(&self.commit);
            }
        }
    }
}
