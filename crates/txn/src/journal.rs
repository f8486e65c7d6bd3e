//! What commits see of the log: it has their changes before anybody sees them, and is on disk before anybody is told.
//!
//! The latest state is what the next commit builds on. What readers see is the latest state that would be there after a power cut,
//! but for commits whose durability allows that they are lost. So an answer never has to wait for the disk, and nobody acts on
//! what may still be lost.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::{Mutex, RwLock};
use rowmill_base::{CommitId, Durability, Error, Result};

use crate::bell::Background;
use crate::log::{Log, Payload, Position};
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
    waiting: Mutex<VecDeque<Waiting>>,
    /// Those that were the latest, as long as somebody has them.
    replaced: Mutex<Replaced>,
    /// The bytes of the last record, for their memory.
    record: Mutex<Vec<u8>>,
    /// Syncs what nobody waits for.
    syncer: Background,
    lag: Arc<Lag>,
}

/// A state that is not shown yet.
#[derive(Debug)]
struct Waiting {
    state: Arc<Snapshot>,
    /// Where the log has to be on disk up to: where the last commit ends that waits for the disk.
    behind: Position,
}

/// States that are not the latest any more, and when they ceased to be.
#[derive(Debug, Default)]
struct Replaced {
    states: Vec<(Weak<Snapshot>, Instant)>,
    /// How many of them are the occasion to sweep out those that are gone.
    sweep_at: usize,
}

/// Fewer of them are not looked through.
const REPLACED_MIN: usize = 256;

impl Replaced {
    fn add(&mut self, state: &Arc<Snapshot>) {
        if self.states.len() >= self.sweep_at {
            self.states.retain(|(state, _)| state.strong_count() > 0);
            self.sweep_at = (self.states.len() * 2).max(REPLACED_MIN);
        }
        self.states.push((Arc::downgrade(state), Instant::now()));
    }
}

/// A commit that was made, and what whoever made it waits for.
#[derive(Debug)]
pub(crate) struct Published {
    pub(crate) commit: CommitId,
    /// Where its record ends.
    end: Position,
    durability: Durability,
    /// Unless it is shown already, up to where the log has to be on disk for that.
    shown_behind: Option<Position>,
}

/// Longer records give their memory back.
const RECORD_BYTES_KEPT_MAX: usize = 1 << 20;

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
            replaced: Mutex::default(),
            record: Mutex::default(),
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
                let changed = Arc::new(change(state));
                self.replaced.lock().add(state);
                *state = changed;
            }
        };
        // Nobody advances meanwhile: the caller holds what they all need for that.
        let mut waiting = self.waiting.lock();
        waiting.iter_mut().for_each(|waiting| renew(&mut waiting.state));
        renew(&mut self.shown.write());
        renew(&mut self.latest.write());
    }

    /// States that others have replaced and that somebody has, and since when they are replaced.
    pub(crate) fn replaced(&self) -> Vec<(Arc<Snapshot>, Instant)> {
        let replaced = self.replaced.lock();
        replaced.states.iter().filter_map(|(state, since)| Some((state.upgrade()?, *since))).collect()
    }

    fn is_logged(&self) -> Option<&Log> {
        self.log().filter(|_| *self.durability.read() != Durability::Off)
    }

    /// Notes that a record of about so many bytes is likely to come.
    pub(crate) fn expect(&self, record_bytes: u64) {
        if let Some(log) = self.is_logged() {
            log.expect(record_bytes);
        }
    }

    /// Puts a record behind the last one and says where it ends; `record` makes it with the empty buffer that it gets, and that is
    /// asked for again. The caller holds the commit lock.
    pub(crate) fn append<R: Payload + Into<Vec<u8>>>(
        &self,
        record: impl FnOnce(Vec<u8>) -> Result<R>,
    ) -> Result<Position> {
        let Some(log) = self.is_logged() else {
            // Nothing is written, but it may be known already that nothing can be.
            self.check()?;
            return Ok(self.latest.read().log_end);
        };
        let mut buffer = std::mem::take(&mut *self.record.lock());
        buffer.clear();
        let record = record(buffer)?;
        let appended = log.append_slices(&record);
        let bytes: Vec<u8> = record.into();
        if bytes.capacity() <= RECORD_BYTES_KEPT_MAX {
            *self.record.lock() = bytes;
        }
        appended
    }

    /// The state of the record that was appended last, as durable as `durability` says, or as the database has it. The caller
    /// holds the commit lock.
    ///
    /// A state that need not wait for the disk waits all the same while one before it does: whoever saw it would see that one.
    pub(crate) fn advance(&self, next: Arc<Snapshot>, durability: Option<Durability>) -> Published {
        let durability = match (*self.durability.read(), self.log()) {
            (Durability::Off, _) | (_, None) => Durability::Off,
            (of_database, _) => durability.unwrap_or(of_database),
        };
        let (commit, end) = (next.commit, next.log_end);
        let last = std::mem::replace(&mut *self.latest.write(), Arc::clone(&next));
        self.replaced.lock().add(&last);
        drop(last);
        let mut waiting = self.waiting.lock();
        let shown_behind = match durability {
            Durability::Full => Some(end),
            Durability::Relaxed | Durability::Off => waiting.back().map(|last| last.behind),
        };
        match shown_behind {
            Some(behind) => waiting.push_back(Waiting { state: next, behind }),
            None => *self.shown.write() = next,
        }
        Published { commit, end, durability, shown_behind }
    }

    /// Returns when a commit is as durable as it is to be, and shown.
    pub(crate) fn wait_for(&self, published: &Published) -> Result<()> {
        let Some(log) = self.is_logged() else { return Ok(()) };
        let position = match published.durability {
            Durability::Full => Some(published.end),
            Durability::Relaxed | Durability::Off => {
                self.syncer.ring();
                if self.lag.is_late() {
                    // Where the syncer does not come to its turn, or the disk is slow, who commits waits for it.
                    self.lag.sync(log)?;
                }
                published.shown_behind
            }
        };
        if let Some(position) = position {
            log.sync_to(position)?;
            self.show_synced(log);
        }
        Ok(())
    }

    /// Returns when readers see all that is committed by now, if the disk allows it.
    pub(crate) fn show_latest(&self) {
        if !Arc::ptr_eq(&self.latest(), &self.shown()) {
            // Whoever has committed it says what became of it.
            let _ = self.sync();
        }
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
        while let Some(first) = waiting.pop_front_if(|first| first.behind <= synced) {
            last = Some(first.state);
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

#[cfg(test)]
mod tests {
    use rowmill_base::Settings;
    use rowmill_io::MemoryDisk;

    use super::*;
    use crate::base::MemoryBase;
    use crate::engine::Engine;

    #[test]
    fn nothing_is_shown_before_a_commit_in_it_that_waits_for_the_disk() {
        let mut settings = Settings::default();
        settings.set("relaxed_sync_ms", "60000").expect("a number");
        let engine = Engine::over(Arc::new(MemoryDisk::new()), Arc::new(MemoryBase::new()), settings).expect("opened");
        let journal = engine.journal();
        let first = journal.latest().commit;
        let advance = |durability| {
            let end = journal.append(|mut record| {
                record.extend(b"a record");
                Ok(record)
            });
            let latest = journal.latest();
            let (commit, log_end) = (CommitId(latest.commit.0 + 1), end.expect("appended"));
            journal.advance(Arc::new(Snapshot { commit, log_end, ..(*latest).clone() }), Some(durability))
        };
        let shown = || journal.shown().commit.0 - first.0;
        let synced = || journal.log().expect("a log").synced();

        let relaxed = advance(Durability::Relaxed);
        assert_eq!((shown(), relaxed.shown_behind), (1, None));
        let full = advance(Durability::Full);
        let behind = advance(Durability::Relaxed);
        assert_eq!((shown(), behind.shown_behind), (1, Some(full.end)));
        assert!(synced() < full.end);
        // Whoever has committed it reads it.
        journal.wait_for(&behind).expect("synced");
        assert_eq!(shown(), 3);
        assert!(synced() >= full.end);
        journal.wait_for(&full).expect("synced");
        assert_eq!(shown(), 3);
        advance(Durability::Relaxed);
        assert_eq!(shown(), 4);
    }
}
