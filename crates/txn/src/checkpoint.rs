//! The checkpoint: what changed since the last one goes to the ordered base, and the log before it is used again.
//!
//! States are immutable, so the difference between the one that the base has and the latest is found while commits go on,
//! and one synced write of the base, with the position of the log that it has come to, is the checkpoint. What has come and
//! gone in between is never written. Recent rows are written where their run is a new one: runs are joined a logarithmic
//! number of times.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};
use rowmill_base::{Cancel, CommitId, ErrorKind, IndexId, Result, TableId};
use rowmill_storage::keyed::KeyRange;
use rowmill_storage::{Block, OpenRun};

use crate::base::WriteBatch;
use crate::bell::Background;
use crate::change::{Definition, definitions};
use crate::deletes::Holder;
use crate::engine::Core;
use crate::keyed::generation::Generation;
use crate::keyed::{VersionBatch, VersionCursor, index_head};
use crate::log::Position;
use crate::manifest::{self, BLOCK, BlockEntry, DELETES, LOG_POSITION_KEY, NEXT_ROW, RUN, id_key, row_key};
use crate::snapshot::{Snapshot, TableSnapshot};

/// What the base has.
#[derive(Debug)]
pub(crate) struct Stored {
    state: Mutex<Arc<Snapshot>>,
    commit: AtomicU64,
    log_end: AtomicU64,
    /// Commits have removed blocks or tables that the base still names.
    space_waits: AtomicBool,
    times: Mutex<CheckpointTimes>,
}

/// Checkpoints since the database was opened.
#[derive(Clone, Copy, Debug, Default)]
pub struct CheckpointTimes {
    /// How many.
    pub count: u64,
    /// How long the last one took, during which commits went on.
    pub last: Duration,
    /// How long the longest one took.
    pub longest: Duration,
}

impl Stored {
    pub(crate) fn new(state: Arc<Snapshot>) -> Stored {
        let (commit, log_end) = (AtomicU64::new(state.commit.0), AtomicU64::new(state.log_end.0));
        Stored {
            state: Mutex::new(state),
            commit,
            log_end,
            space_waits: AtomicBool::new(false),
            times: Mutex::default(),
        }
    }

    /// The state that the base has, and goes on having as long as this is held.
    pub(crate) fn hold(&self) -> MutexGuard<'_, Arc<Snapshot>> {
        self.state.lock()
    }

    /// The last commit that the base has.
    pub(crate) fn commit(&self) -> CommitId {
        CommitId(self.commit.load(Ordering::Acquire))
    }

    pub(crate) fn times(&self) -> CheckpointTimes {
        *self.times.lock()
    }

    /// Up to where the base has what the log has.
    pub(crate) fn log_end(&self) -> Position {
        Position(self.log_end.load(Ordering::Acquire))
    }

    /// A commit has removed blocks or tables.
    pub(crate) fn note_space(&self) {
        self.space_waits.store(true, Ordering::Release);
    }

    /// Whether there is space that only a checkpoint gives back, or so many bytes of the log, which ends at `end`.
    pub(crate) fn is_due(&self, end: Position, bytes_max: u64) -> bool {
        let bytes = end.0.saturating_sub(self.log_end().0);
        self.space_waits.load(Ordering::Acquire) || bytes >= bytes_max
    }
}

/// Time between what makes a checkpoint due and the checkpoint, so that what follows at once is part of it.
const SETTLE: Duration = Duration::from_millis(200);

/// Starts the thread that makes checkpoints when they are due.
pub(crate) fn start(checkpointer: &Background, engine: &Arc<Core>) -> Result<()> {
    let engine = Arc::clone(engine);
    let work = move |_: &Cancel| {
        // One that fails is made again behind the next commit, and the log has everything meanwhile.
        let _ = checkpoint_if_due(&engine);
        engine.reap();
    };
    checkpointer.start("rowmill-checkpoint", SETTLE, work)
}

/// Brings the base to the latest state. One at a time; commits go on.
///
/// It waits for a check of the database, which takes long: whoever holds the commit lock, or has somebody wait who commits, takes
/// [`checkpoint_of`] or [`checkpoint_unless_busy`].
pub(crate) fn checkpoint(engine: &Core) -> Result<()> {
    checkpoint_of(engine, &mut engine.stored().hold())
}

/// As [`checkpoint`], if one is due still: commits ring for the one before until it is done.
fn checkpoint_if_due(engine: &Core) -> Result<()> {
    let mut stored = engine.stored().hold();
    // Not held meanwhile: what the latest snapshot needs would not be forgotten.
    let end = engine.latest().log_end;
    if engine.is_checkpoint_due(end) { checkpoint_of(engine, &mut stored) } else { Ok(()) }
}

/// As [`checkpoint`], unless another or a check is under way. The one that is due is made behind that then, and `false` says so.
pub(crate) fn checkpoint_unless_busy(engine: &Core) -> Result<bool> {
    match engine.stored().state.try_lock() {
        Some(mut stored) => checkpoint_of(engine, &mut stored).map(|()| true),
        None => {
            engine.stored().note_space();
            engine.tidy(engine.latest().log_end);
            Ok(false)
        }
    }
}

/// Brings the base from `stored`, which it has, to the latest state.
pub(crate) fn checkpoint_of(engine: &Core, stored: &mut Arc<Snapshot>) -> Result<()> {
    let done = try_checkpoint(engine, stored);
    if done.is_err() {
        // For the next commit to ask for another one.
        engine.stored().note_space();
    }
    done
}

fn try_checkpoint(engine: &Core, stored: &mut Arc<Snapshot>) -> Result<()> {
    let Some(log) = engine.journal().log() else { return Ok(()) };
    // Before the state is looked up: what is noted behind that waits for the next.
    engine.stored().space_waits.store(false, Ordering::Release);
    let latest = engine.journal().latest();
    if latest.commit == stored.commit {
        return Ok(());
    }
    let begun = Instant::now();
    // The base must not have what a power cut may take from the log: its position would lie behind the log's end.
    engine.journal().sync()?;
    let mut batch = difference(stored, &latest)?;
    batch.put(manifest::META_KEY.to_vec(), engine.ids().meta().encode());
    batch.put(LOG_POSITION_KEY.to_vec(), manifest::encode_position(latest.log_end));
    let keyed = latest.keyed.store();
    let has_keyed = latest.keyed.commit() != stored.keyed.commit() || !dropped_indexes(stored, &latest).is_empty();
    let before = Arc::clone(&keyed.current());
    make_room(engine, &before, batch.bytes())?;
    if has_keyed {
        before.end()?;
    }
    if let Err(error) = engine.base().write(&batch, latest.commit) {
        if has_keyed {
            before.resume(engine.base_arc());
        }
        if error.kind() == ErrorKind::Io {
            log.refuse(&error);
        }
        return Err(error);
    }
    engine.stored().commit.store(latest.commit.0, Ordering::Release);
    engine.stored().log_end.store(latest.log_end.0, Ordering::Release);
    log.release(latest.log_end);
    let keyed_commit = match has_keyed {
        true => stand_on(engine, &latest),
        false => {
            // Those that read the state go on with what the base has now, which is the same for them.
            before.let_go();
            latest.keyed.commit()
        }
    };
    // It is compared with, and not read: it keeps neither versions nor an older state of the base.
    *stored = Arc::new(latest.with_keyed(keyed.unread_state(keyed_commit)));
    drop((before, latest));
    stored.keyed.store().forget();
    let mut times = engine.stored().times.lock();
    let last = begun.elapsed();
    *times = CheckpointTimes { count: times.count + 1, last, longest: times.longest.max(last) };
    Ok(())
}

/// Makes room in the base before a read of it is kept, or goes on being one of a seat: neither goes away while the write waits for
/// that. Without the moment that it takes the write is tried as things are.
fn make_room(engine: &Core, before: &Generation, bytes: usize) -> Result<()> {
    let base = engine.base();
    if !base.make_room(bytes, Duration::ZERO)? {
        before.alone(ROOM_PATIENCE, || base.make_room(bytes, ROOM_MOMENT))?;
    }
    Ok(())
}

/// For how long a checkpoint that needs room keeps reads of the base from being opened.
const ROOM_PATIENCE: Duration = Duration::from_secs(2);
/// How long it waits at a time for those that are open.
const ROOM_MOMENT: Duration = Duration::from_millis(5);

/// Has snapshots from `latest` on read the base as it is now, which has the keyed rows of that.
///
/// Older ones go on with the state that ended: the base has rows now that they do not see. Gives the commit of the base's keyed
/// rows.
fn stand_on(engine: &Core, latest: &Snapshot) -> CommitId {
    let store = latest.keyed.store();
    let mut current = store.current_mut();
    *current = store.keep(Generation::of_base(latest.commit, engine.base_arc()));
    engine.journal().replace(latest.commit, |state| {
        state.with_keyed(store.state(state.keyed.commit().max(latest.commit), &current))
    });
    latest.commit
}

/// What makes a base that has the state `before` one that has `after`.
pub(crate) fn difference(before: &Snapshot, after: &Snapshot) -> Result<WriteBatch> {
    let mut difference = Difference { batch: WriteBatch::behind(before.commit) };
    // First: long values of what follows would stand behind the rows of the last index, and could not be put aside for them.
    difference.keyed(before, after);
    for Definition { kind, id, value } in definitions(&before.catalog, &after.catalog)? {
        match value {
            Some(value) => difference.batch.put(id_key(kind, id), value),
            None => difference.batch.delete(id_key(kind, id)),
        };
    }
    for (id, before) in &*before.tables {
        match after.tables.get(id) {
            Some(after) => difference.tables(before, after)?,
            None => difference.dropped_table(*id),
        }
    }
    for (_, after) in after.tables.iter().filter(|(id, _)| !before.tables.contains_key(id)) {
        difference.tables(&TableSnapshot::empty(Arc::clone(&after.def)), after)?;
    }
    Ok(difference.batch)
}

/// The indexes, those of rows among them, that `after` has no more.
fn dropped_indexes(before: &Snapshot, after: &Snapshot) -> Vec<IndexId> {
    if Arc::ptr_eq(&before.catalog, &after.catalog) {
        return Vec::new();
    }
    let kept: BTreeSet<IndexId> = index_ids(after).collect();
    index_ids(before).filter(|id| !kept.contains(id)).collect()
}

/// The indexes of all keyed tables, those of rows among them.
fn index_ids(state: &Snapshot) -> impl Iterator<Item = IndexId> + '_ {
    state.catalog.all_tables().filter_map(|table| table.keyed.as_ref()).flat_map(|keyed| keyed.index_ids())
}

/// Keys that are copied under one lock of the versions, in ten microseconds or so; commits go on in between.
const KEYS_AT_ONCE: usize = 64;

struct Difference {
    batch: WriteBatch,
}

impl Difference {
    fn dropped_table(&mut self, table: TableId) {
        for kind in [BLOCK, DELETES, RUN, NEXT_ROW] {
            self.batch.delete_prefix(id_key(kind, table.0));
        }
    }

    fn keyed(&mut self, before: &Snapshot, after: &Snapshot) {
        for index in dropped_indexes(before, after) {
            self.batch.delete_prefix(index_head(index));
        }
        let (from, to) = (before.keyed.commit(), after.keyed.commit());
        if from == to {
            return;
        }
        let mut changes = VersionBatch::default();
        for index in index_ids(after) {
            let range = KeyRange::of_prefix(&index_head(index));
            let versions = after.keyed.store().versions().of_range(&range);
            let mut cursor = VersionCursor::changes(range, from, to);
            loop {
                cursor.next_batch(versions, KEYS_AT_ONCE, &mut changes);
                if changes.is_empty() {
                    break;
                }
                (0..changes.len()).map(|at| changes.get(at)).for_each(|(key, row)| self.batch.set_row(key, row));
            }
        }
    }

    fn tables(&mut self, before: &TableSnapshot, after: &TableSnapshot) -> Result<()> {
        let table = after.def.id;
        if !Arc::ptr_eq(&before.blocks, &after.blocks) {
            self.blocks(table, &before.blocks, &after.blocks)?;
        }
        if !Arc::ptr_eq(&before.runs, &after.runs) {
            self.runs(table, &before.runs, &after.runs)?;
        }
        if before.next_row != after.next_row {
            self.batch.put(id_key(NEXT_ROW, table.0), after.next_row.0.to_le_bytes().to_vec());
        }
        Ok(())
    }

    fn blocks(&mut self, table: TableId, before: &[Arc<Block>], after: &[Arc<Block>]) -> Result<()> {
        let mut old: HashMap<_, _> = before.iter().map(|block| (block.id(), block)).collect();
        let mut puts = Vec::new();
        for block in after {
            match old.remove(&block.id()) {
                Some(old) if Arc::ptr_eq(old, block) => {}
                Some(_) => puts.push((block, false)),
                None => puts.push((block, true)),
            }
        }
        // Removals first: a rewritten block may start at the row of one that it replaces.
        for block in old.into_values() {
            self.batch.delete(row_key(BLOCK, table, block.first_row()));
            self.batch.delete(row_key(DELETES, table, block.first_row()));
        }
        for (block, new) in puts {
            if new {
                self.batch.put(row_key(BLOCK, table, block.first_row()), BlockEntry::of(block).encode());
            }
            self.deletes(&Holder::Block(Arc::clone(block)), table)?;
        }
        Ok(())
    }

    fn runs(&mut self, table: TableId, before: &[Arc<OpenRun>], after: &[Arc<OpenRun>]) -> Result<()> {
        let mut old: HashMap<_, _> = before.iter().map(|run| (run.first_row(), run)).collect();
        let mut puts = Vec::new();
        for run in after {
            match old.remove(&run.first_row()) {
                Some(old) if Arc::ptr_eq(old, run) => {}
                Some(old) => puts.push((run, !old.same_rows(run))),
                None => puts.push((run, true)),
            }
        }
        for run in old.into_values() {
            self.batch.delete(row_key(RUN, table, run.first_row()));
            // A sealed block that starts at the same row has written its own deletes before.
            if !self.batch.puts(&row_key(DELETES, table, run.first_row())) {
                self.batch.delete(row_key(DELETES, table, run.first_row()));
            }
        }
        for (run, new) in puts {
            if new {
                self.batch.put(row_key(RUN, table, run.first_row()), run.encode()?);
            }
            self.deletes(&Holder::Run(Arc::clone(run)), table)?;
        }
        Ok(())
    }

    fn deletes(&mut self, holder: &Holder, table: TableId) -> Result<()> {
        let key = row_key(DELETES, table, holder.first_row());
        match holder.deleted() {
            Some(deleted) => self.batch.put(key, manifest::encode_deletes(deleted)?),
            None => self.batch.delete(key),
        };
        Ok(())
    }
}
