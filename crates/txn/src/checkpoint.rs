//! The checkpoint: writes the changes since the last one to the ordered base, so that the log before it can be reused.
//!
//! States are immutable, so we compute the difference between the base's state and the latest state while commits go
//! on. One synced write of the base applies the difference together with the log position that it reaches. Rows that
//! came and went between two checkpoints are never written. Recent rows are written once per run that holds them. A row
//! is in few runs over time, because runs are joined a logarithmic number of times.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};
use rowmill_base::{Cancel, CommitId, ErrorKind, Result};

use crate::background_pace::at_background_pace;
use crate::bell::Background;
use crate::checkpoint_schedule::CheckpointSchedule;
use crate::difference::{DifferenceInParts, dropped_indexes};
use crate::engine::Core;
use crate::job::Job;
use crate::keyed::generation::Generation;
use crate::log::Position;
use crate::manifest::{self, LOG_POSITION_KEY};
use crate::snapshot::Snapshot;
use crate::space_return::SpaceReturn;

/// The state that the base has.
#[derive(Debug)]
pub(crate) struct InBase {
    state: Mutex<Arc<Snapshot>>,
    commit: AtomicU64,
    log_end: AtomicU64,
    /// Commits have removed blocks or tables that the base still names, so only a checkpoint can free their space.
    space_waits: AtomicBool,
    schedule: CheckpointSchedule,
    /// Whether the thread of checkpoints looks at the next commits. Otherwise the next one must ring.
    is_watched: AtomicBool,
    /// The number of threads that wait for the state.
    waiting: AtomicUsize,
    times: Mutex<CheckpointTimes>,
}

/// Checkpoints since the database was opened.
#[derive(Clone, Copy, Debug, Default)]
pub struct CheckpointTimes {
    /// Number of checkpoints.
    pub count: u64,
    /// Duration of the last one. Commits go on during a checkpoint.
    pub last: Duration,
    /// Duration of the longest one.
    pub longest: Duration,
}

impl InBase {
    pub(crate) fn new(state: Arc<Snapshot>) -> InBase {
        let (commit, log_end) = (AtomicU64::new(state.commit.0), AtomicU64::new(state.log_end.0));
        InBase {
            state: Mutex::new(state),
            commit,
            log_end,
            space_waits: AtomicBool::new(false),
            schedule: CheckpointSchedule::default(),
            is_watched: AtomicBool::new(false),
            waiting: AtomicUsize::new(0),
            times: Mutex::default(),
        }
    }

    /// Locks the state that the base has. No checkpoint can change it while the lock is held.
    pub(crate) fn hold(&self) -> MutexGuard<'_, Arc<Snapshot>> {
        self.state.try_lock().unwrap_or_else(|| {
            self.waiting.fetch_add(1, Ordering::SeqCst);
            let state = self.state.lock();
            self.waiting.fetch_sub(1, Ordering::SeqCst);
            state
        })
    }

    /// Locks the state that the base has, as [`InBase::hold`] does, if that takes no longer than `wait_max`.
    pub(crate) fn try_hold_for(&self, wait_max: Duration) -> Option<MutexGuard<'_, Arc<Snapshot>>> {
        if let Some(state) = self.state.try_lock() {
            return Some(state);
        }
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let state = self.state.try_lock_for(wait_max);
        self.waiting.fetch_sub(1, Ordering::SeqCst);
        state
    }

    /// Whether a thread waits for the end of a checkpoint.
    fn is_waited_for(&self) -> bool {
        self.waiting.load(Ordering::SeqCst) > 0
    }

    /// The last commit that the base has.
    pub(crate) fn commit(&self) -> CommitId {
        CommitId(self.commit.load(Ordering::Acquire))
    }

    pub(crate) fn times(&self) -> CheckpointTimes {
        *self.times.lock()
    }

    /// The log position that the base has reached.
    pub(crate) fn log_end(&self) -> Position {
        Position(self.log_end.load(Ordering::Acquire))
    }

    /// Notes that a commit has removed blocks or tables.
    pub(crate) fn note_space(&self) {
        self.space_waits.store(true, Ordering::Release);
    }

    /// Whether a checkpoint is due: space waits for one, or the log, which ends at `end`, is long (see
    /// [`CheckpointSchedule`]). `bytes_max` is `checkpoint_log_bytes`.
    pub(crate) fn is_due(&self, end: Position, bytes_max: u64) -> bool {
        let bytes = end.0.saturating_sub(self.log_end().0);
        self.space_waits.load(Ordering::Acquire) || self.schedule.is_due(bytes, bytes_max)
    }

    /// Whether the thread of checkpoints looks at commits by itself.
    pub(crate) fn is_watched(&self) -> bool {
        self.is_watched.load(Ordering::SeqCst)
    }
}

/// A checkpoint does not rest while recent rows of keyed tables take one part in this many of the memory limit. Writers
/// wait for it when they take more (`back_pressure.rs`).
const HURRY_SHARE: u64 = 6;

/// Delay between the moment a checkpoint is due and its start, so that it includes the commits that follow at once.
const SETTLE: Duration = Duration::from_millis(200);

/// Starts the thread that makes checkpoints when they are due.
pub(crate) fn start(checkpointer: &Background, engine: &Arc<Core>) -> Result<()> {
    let engine = Arc::clone(engine);
    note_base(&engine);
    let space = Mutex::new(SpaceReturn::new());
    let work = move |stop: &Cancel| {
        engine.stored().is_watched.store(true, Ordering::SeqCst);
        let mut space = space.lock();
        // If it fails, the next commit asks for another one. Nothing is lost, because the log has everything.
        let (made, rested) = at_background_pace(hurry(&engine, stop), || checkpoint_if_due(&engine));
        if made.is_ok_and(|made| made) {
            engine.stored().schedule.note_rested(rested);
            let _ = at_background_pace(hurry(&engine, stop), || space.after_checkpoint(&engine, stop));
        }
        engine.reap();
        let again = space.if_quiet(&engine, stop);
        if again.is_none() {
            engine.stored().is_watched.store(false, Ordering::SeqCst);
            // A commit that came before this line did not ring.
            return (engine.latest().commit != space.seen()).then_some(SETTLE);
        }
        again
    };
    checkpointer.start_timed(Job::Checkpoint, SETTLE, work)
}

/// Whether a checkpoint must not rest: a thread waits for it, the log or memory gets full, or `stop` is set.
fn hurry(engine: &Arc<Core>, stop: &Cancel) -> impl Fn() -> bool + 'static {
    let (engine, stop) = (Arc::clone(engine), stop.clone());
    move || {
        let stored = engine.stored();
        let log_bytes = engine.latest().log_end.0.saturating_sub(stored.log_end().0);
        let is_log_long = log_bytes >= engine.checkpoint_log_bytes();
        stop.is_cancelled() || stored.is_waited_for() || is_log_long || engine.has_many_recent_rows(HURRY_SHARE)
    }
}

/// Notes the size of the base for the next checkpoints.
fn note_base(engine: &Core) {
    // If the base does not tell its size, we keep the last one.
    if let Ok(space) = engine.base().space() {
        engine.stored().schedule.note_base(space.file_bytes.saturating_sub(space.free_bytes));
    }
}

/// Brings the base to the latest state. Only one checkpoint runs at a time, and commits go on during it.
///
/// It waits for a running check of the database, which can take long. A caller that holds the commit lock, or that
/// delays a committing thread, must use [`checkpoint_of`] or [`checkpoint_unless_busy`] instead.
pub(crate) fn checkpoint(engine: &Core) -> Result<()> {
    checkpoint_of(engine, &mut engine.stored().hold())
}

/// Brings the base to the latest state if a checkpoint is still due. Commits keep ringing until the checkpoint before
/// is done, so it may be done already. Returns whether it made one.
fn checkpoint_if_due(engine: &Core) -> Result<bool> {
    let mut stored = engine.stored().hold();
    // We must not hold the latest snapshot during the checkpoint, or the versions that it needs could not be dropped.
    let end = engine.latest().log_end;
    let is_due = engine.is_checkpoint_due(end);
    if is_due {
        checkpoint_of(engine, &mut stored)?;
    }
    Ok(is_due)
}

/// Brings the base to the latest state, unless a checkpoint or a check is running. In that case it asks for one to
/// follow and returns `false`.
pub(crate) fn checkpoint_unless_busy(engine: &Core) -> Result<bool> {
    match engine.stored().state.try_lock() {
        Some(mut stored) => checkpoint_of(engine, &mut stored).map(|()| true),
        None => {
            engine.stored().note_space();
            let latest = engine.latest();
            engine.tidy(latest.log_end, latest.catalog());
            Ok(false)
        }
    }
}

/// Brings the base from `stored`, the state that it has, to the latest state.
pub(crate) fn checkpoint_of(engine: &Core, stored: &mut Arc<Snapshot>) -> Result<()> {
    let done = try_checkpoint(engine, stored);
    if done.is_err() {
        // The next commit should ask for another checkpoint.
        engine.stored().note_space();
    }
    done
}

fn try_checkpoint(engine: &Core, stored: &mut Arc<Snapshot>) -> Result<()> {
    let Some(log) = engine.journal().log() else { return Ok(()) };
    // Before we read the latest state: space that is noted later may not be part of it and waits for the next
    // checkpoint.
    engine.stored().space_waits.store(false, Ordering::Release);
    let latest = engine.journal().latest();
    if latest.commit == stored.commit {
        return Ok(());
    }
    let begun = Instant::now();
    // The log must be on disk up to the position that the base is about to store. Otherwise a power cut could leave the
    // base with a position after the log's end.
    engine.journal().sync()?;
    // A row that a temporary file has lost must not get into the base. The log still has it.
    latest.keyed.store().sync_files()?;
    let mut parts = DifferenceInParts::new(stored, &latest, engine.broker())?;
    parts.put(manifest::META_KEY, engine.ids().meta().encode());
    parts.put(LOG_POSITION_KEY, manifest::encode_position(latest.log_end));
    let keyed = latest.keyed.store();
    let drops_indexes = !dropped_indexes(stored, &latest).is_empty();
    let has_keyed = latest.keyed.commit() != stored.keyed.commit() || drops_indexes;
    let before = Arc::clone(&keyed.current());
    if has_keyed {
        // The write replaces keyed rows, so older snapshots need a read that keeps the state of now.
        before.end()?;
    }
    // This write is the checkpoint: before it the base has the old state, after it the new one, and nothing in between.
    if let Err(error) = engine.base().write_parts(&mut parts, latest.commit) {
        if has_keyed {
            before.resume(engine.base_arc());
        }
        if error.kind() == ErrorKind::Io {
            log.refuse(&error);
        }
        return Err(error);
    }
    // Only now may the log be reused and space be freed, because the base no longer needs either.
    engine.stored().commit.store(latest.commit.0, Ordering::Release);
    engine.stored().log_end.store(latest.log_end.0, Ordering::Release);
    log.release(latest.log_end);
    let keyed_commit = match has_keyed {
        true => stand_on(engine, &latest),
        false => {
            // Readers of the old state go on with the base as it is now. It has the same keyed rows.
            before.let_go();
            latest.keyed.commit()
        }
    };
    // This state is only compared with, so it must keep neither versions nor an older state of the base.
    *stored = Arc::new(latest.with_keyed(keyed.unread_state(keyed_commit)));
    drop((before, latest));
    let keyed = stored.keyed.store();
    keyed.forget();
    if drops_indexes {
        keyed.column_copies().tidy();
    }
    let mut times = engine.stored().times.lock();
    let last = begun.elapsed();
    engine.stored().schedule.note_done(last);
    *times = CheckpointTimes { count: times.count + 1, last, longest: times.longest.max(last) };
    drop(times);
    note_base(engine);
    Ok(())
}

/// Makes snapshots from `latest` on read the base as it is now, because it has the keyed rows of `latest`. Older
/// snapshots keep the previous state of the base, because the base now has rows that they must not see. Returns the
/// commit of the base's keyed rows.
fn stand_on(engine: &Core, latest: &Snapshot) -> CommitId {
    let store = latest.keyed.store();
    let mut current = store.current_mut();
    *current = store.keep(Generation::of_base(latest.commit, engine.base_arc()));
    engine.journal().replace(latest.commit, |state| {
        state.with_keyed(store.state(state.keyed.commit().max(latest.commit), &current))
    });
    latest.commit
}
