//! What commits see of the log: it has their changes before anybody sees them, and is on disk before anybody is told.
//!
//! The latest state is what the next commit builds on. What readers see is the latest state that would be there after a power cut,
//! or where the durability allows it the latest of all. So an answer never has to wait for the disk, and nobody acts on what may
//! still be lost.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Mutex, RwLock};
use rowmill_base::{CommitId, Durability, Error, Result};

use crate::bell::Background;
use crate::log::{Log, Position};
use crate::snapshot::Snapshot;

/// The log of one open database and the states that its commits lead to.
#[derive(Debug)]
pub(crate) struct Journal {
    /// `None` where nothing outlives the process, or nothing is written.
    log: Option<Arc<Log>>,
    durability: RwLock<Durability>,
    /// The latest state.
    latest: RwLock<Arc<Snapshot>>,
    /// What readers see.
    shown: RwLock<Arc<Snapshot>>,
    /// States behind the shown one, oldest first.
    waiting: Mutex<VecDeque<Arc<Snapshot>>>,
    /// Syncs what nobody waits for.
    syncer: Background,
    lag: Arc<Lag>,
}

/// How long commits that nobody waits for have not been on disk.
#[derive(Debug)]
struct Lag {
    bound: Duration,
    since: Mutex<Since>,
}

/// When the first commit was made of those that are being synced, and of those behind them.
#[derive(Clone, Copy, Debug, Default)]
struct Since {
    syncing: Option<Instant>,
    unsynced: Option<Instant>,
}

impl Lag {
    /// There is one more commit. Whether the first of them waits for so long that the syncer is late.
    fn is_late(&self) -> bool {
        let now = Instant::now();
        let mut since = self.since.lock();
        let unsynced = *since.unsynced.get_or_insert(now);
        now.duration_since(since.syncing.unwrap_or(unsynced)) * 5 >= self.bound * 4
    }

    /// Syncs all commits that there are.
    fn sync(&self, log: &Log) -> Result<()> {
        {
            let mut since = self.since.lock();
            let unsynced = since.unsynced.take();
            since.syncing = since.syncing.or(unsynced);
        }
        let synced = log.sync_to(log.end());
        self.since.lock().syncing = None;
        synced
    }
}

impl Journal {
    /// One that begins with `state`, the last that the log has.
    pub(crate) fn start(log: Option<Log>, state: Snapshot, durability: Durability, bound: Duration) -> Result<Journal> {
        let log = log.map(Arc::new);
        let state = Arc::new(state);
        let syncer = Background::default();
        let lag = Arc::new(Lag { bound, since: Mutex::default() });
        if let Some(log) = &log {
            let (log, lag) = (Arc::clone(log), Arc::clone(&lag));
            // Half of the bound is left for the sync itself. One that fails poisons the log, which says so from then on.
            syncer.start("rowmill-sync", bound / 2, move |_| drop(lag.sync(&log)))?;
        }
        Ok(Journal {
            log,
            durability: RwLock::new(durability),
            latest: RwLock::new(Arc::clone(&state)),
            shown: RwLock::new(state),
            waiting: Mutex::default(),
            syncer,
            lag,
        })
    }

    pub(crate) fn log(&self) -> Option<&Log> {
        self.log.as_deref()
    }

    /// The state that the next commit builds on.
    pub(crate) fn latest(&self) -> Arc<Snapshot> {
        Arc::clone(&self.latest.read())
    }

    /// The state that readers see.
    pub(crate) fn shown(&self) -> Arc<Snapshot> {
        Arc::clone(&self.shown.read())
    }

    /// In a process that only reads: a state that another process has written, unless a later one is known.
    pub(crate) fn show(&self, state: &Arc<Snapshot>) {
        let mut shown = self.shown.write();
        if shown.commit <= state.commit {
            *shown = Arc::clone(state);
            *self.latest.write() = Arc::clone(state);
        }
    }

    /// Replaces states from the commit `from` on by what `change` makes of them, which says the same.
    pub(crate) fn replace(&self, from: CommitId, mut change: impl FnMut(&Snapshot) -> Snapshot) {
        let mut renew = |state: &mut Arc<Snapshot>| {
            if state.commit >= from {
                *state = Arc::new(change(state));
            }
        };
        // Nobody advances meanwhile: the caller holds what they all need for that.
        let mut waiting = self.waiting.lock();
        waiting.iter_mut().for_each(&mut renew);
        renew(&mut self.shown.write());
        renew(&mut self.latest.write());
    }

    fn is_logged(&self) -> Option<&Log> {
        self.log().filter(|_| *self.durability.read() != Durability::Off)
    }

    /// Puts a record behind the last one and says where it ends. The caller holds the commit lock.
    pub(crate) fn append(&self, record: impl FnOnce() -> Result<Vec<u8>>) -> Result<Position> {
        match (self.is_logged(), self.log()) {
            (Some(log), _) => log.append(&record()?),
            (None, _) => {
                // Nothing is written, but it may be known already that nothing can be.
                self.check()?;
                Ok(self.latest.read().log_end)
            }
        }
    }

    /// The state of the record that was appended last. The caller holds the commit lock.
    pub(crate) fn advance(&self, next: Arc<Snapshot>) {
        *self.latest.write() = Arc::clone(&next);
        let is_full = *self.durability.read() == Durability::Full;
        if self.is_logged().is_some() && is_full {
            self.waiting.lock().push_back(next);
        } else {
            *self.shown.write() = next;
        }
    }

    /// Returns when commits up to `end` are as durable as the database has them, and shown.
    pub(crate) fn wait_for(&self, end: Position) -> Result<()> {
        let Some(log) = self.is_logged() else { return Ok(()) };
        if *self.durability.read() == Durability::Relaxed {
            self.syncer.ring();
            // Where the syncer does not come to its turn, or the disk is slow, who commits waits for it.
            return if self.lag.is_late() { self.lag.sync(log) } else { Ok(()) };
        }
        log.sync_to(end)?;
        self.show_synced(log);
        Ok(())
    }

    /// An error if nothing is committed any more.
    pub(crate) fn check(&self) -> Result<()> {
        self.log().map_or(Ok(()), Log::check)
    }

    /// Commits nothing any more, because of `error`.
    pub(crate) fn refuse(&self, error: &Error) {
        if let Some(log) = self.log() {
            log.refuse(error);
        }
    }

    /// Syncs all that is there.
    pub(crate) fn sync(&self) -> Result<()> {
        let Some(log) = self.log() else { return Ok(()) };
        log.sync_to(log.end())?;
        self.show_synced(log);
        Ok(())
    }

    fn show_synced(&self, log: &Log) {
        let mut waiting = self.waiting.lock();
        let synced = log.synced();
        let mut last = None;
        while let Some(state) = waiting.pop_front_if(|state| state.log_end <= synced) {
            last = Some(state);
        }
        if let Some(state) = last {
            *self.shown.write() = state;
        }
    }

    pub(crate) fn durability(&self) -> Durability {
        *self.durability.read()
    }

    /// Changes what commits to come wait for. The caller holds the commit lock, and has what no log has in the base.
    pub(crate) fn set_durability(&self, durability: Durability) -> Result<()> {
        self.sync()?;
        *self.durability.write() = durability;
        Ok(())
    }

    pub(crate) fn stop(&self) {
        self.syncer.stop();
    }
}
