//! The order of events around a commit: its record goes to the log before any reader sees its changes, and the log is
//! on disk before its client is told.
//!
//! The latest state is the one that the next commit builds on. Readers see the latest state that would survive a power
//! cut, except that they also see commits whose durability allows a loss. So no answer has to wait for the disk, and no
//! client acts on changes that may still be lost.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::{Mutex, RwLock};
use rowmill_base::{CommitId, Durability, Error, Result};

use crate::bell::Background;
use crate::job::Job;
use crate::log::{Log, Payload, Position};
use crate::snapshot::Snapshot;

/// The log of one open database and the states of its commits.
#[derive(Debug)]
pub(crate) struct Journal {
    /// `None` for a database in memory and in a process that only reads.
    log: Option<Arc<Log>>,
    durability: RwLock<Durability>,
    /// The state that the next commit builds on.
    latest: RwLock<Arc<Snapshot>>,
    /// The state that readers see.
    shown: RwLock<Arc<Snapshot>>,
    /// States after the shown one, oldest first.
    waiting: Mutex<VecDeque<Waiting>>,
    /// States that were the latest once, for as long as anyone holds them.
    replaced: Mutex<Replaced>,
    /// The bytes of the last record, kept to reuse their memory.
    record: Mutex<Vec<u8>>,
    /// Syncs commits that no caller waits for.
    syncer: Background,
    lag: Arc<Lag>,
}

/// A state that is not shown yet.
#[derive(Debug)]
struct Waiting {
    state: Arc<Snapshot>,
    /// The log must be on disk up to here before the state may be shown: the end of the last record up to this state
    /// that waits for the disk.
    behind: Position,
}

/// States that are no longer the latest, with the time when they were replaced.
#[derive(Debug, Default)]
struct Replaced {
    states: Vec<(Weak<Snapshot>, Instant)>,
    /// Number of states at which we drop the entries of states that no longer exist.
    sweep_at: usize,
}

/// We do not sweep shorter lists.
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

/// A commit that was made, and the conditions that its caller waits for.
#[derive(Debug)]
pub(crate) struct Published {
    pub(crate) commit: CommitId,
    /// The end of its record.
    end: Position,
    durability: Durability,
    /// The log must be on disk up to here before the commit is shown. `None` if it is shown already.
    shown_behind: Option<Position>,
}

/// The memory of longer records is not kept. Few commits are so long, and each of them would hold its memory until the
/// next commit.
const RECORD_BYTES_KEPT_MAX: usize = 1 << 20;

/// Tracks for how long commits that no caller waits for have not been on disk.
#[derive(Debug)]
struct Lag {
    bound: Duration,
    since: Mutex<Since>,
}

/// The time of the first commit that is being synced, and of the first commit after those.
#[derive(Clone, Copy, Debug, Default)]
struct Since {
    syncing: Option<Instant>,
    unsynced: Option<Instant>,
}

impl Lag {
    /// Counts one more commit. Returns whether the first unsynced commit has waited so long that the syncer seems late.
    fn is_late(&self) -> bool {
        let now = Instant::now();
        let mut since = self.since.lock();
        let unsynced = *since.unsynced.get_or_insert(now);
        // After four fifths of the bound we do not rely on the syncer, because a sync takes time too.
        now.duration_since(since.syncing.unwrap_or(unsynced)) * 5 >= self.bound * 4
    }

    /// Syncs all commits made so far.
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
    /// Starts a journal with `state`, the last state that the log has.
    pub(crate) fn start(log: Option<Log>, state: Snapshot, durability: Durability, bound: Duration) -> Result<Journal> {
        let log = log.map(Arc::new);
        let state = Arc::new(state);
        let syncer = Background::default();
        let lag = Arc::new(Lag { bound, since: Mutex::default() });
        if let Some(log) = &log {
            let (log, lag) = (Arc::clone(log), Arc::clone(&lag));
            // Half of the bound remains for the sync itself. A failed sync makes the log refuse writes, and every later
            // commit reports that.
            syncer.start(Job::Sync, bound / 2, move |_| drop(lag.sync(&log)))?;
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

    /// In a process that only reads: shows a state of the writing process, unless a later one is shown already.
    pub(crate) fn show(&self, state: &Arc<Snapshot>) {
        let mut shown = self.shown.write();
        if shown.commit <= state.commit {
            *shown = Arc::clone(state);
            *self.latest.write() = Arc::clone(state);
        }
    }

    /// Replaces all states from commit `from` on by the result of `change`, which must describe the same rows.
    pub(crate) fn replace(&self, from: CommitId, mut change: impl FnMut(&Snapshot) -> Snapshot) {
        let mut renew = |state: &mut Arc<Snapshot>| {
            if state.commit >= from {
                let changed = Arc::new(change(state));
                self.replaced.lock().add(state);
                *state = changed;
            }
        };
        // No commit can advance now, because the caller holds a lock that every commit needs for it.
        let mut waiting = self.waiting.lock();
        waiting.iter_mut().for_each(|waiting| renew(&mut waiting.state));
        renew(&mut self.shown.write());
        renew(&mut self.latest.write());
    }

    /// The states that were replaced and are still in use, with the time when they were replaced.
    pub(crate) fn replaced(&self) -> Vec<(Arc<Snapshot>, Instant)> {
        let replaced = self.replaced.lock();
        replaced.states.iter().filter_map(|(state, since)| Some((state.upgrade()?, *since))).collect()
    }

    fn is_logged(&self) -> Option<&Log> {
        // The log, unless the durability of the database turns it off.
        self.log().filter(|_| *self.durability.read() != Durability::Off)
    }

    /// Announces a record of about this many bytes.
    pub(crate) fn expect(&self, record_bytes: u64) {
        if let Some(log) = self.is_logged() {
            log.expect(record_bytes);
        }
    }

    /// Appends a record and returns its end. `record` gets an empty buffer and encodes into it. We take the buffer back
    /// afterwards to reuse its memory. The caller must hold the commit lock.
    pub(crate) fn append<R: Payload + Into<Vec<u8>>>(
        &self,
        record: impl FnOnce(Vec<u8>) -> Result<R>,
    ) -> Result<Position> {
        let Some(log) = self.is_logged() else {
            // We write nothing, but an earlier failure must still be reported.
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

    /// Makes `next` the latest state. Its record must be the last that was appended, and the caller must hold the
    /// commit lock. `durability` overrides the durability of the database.
    ///
    /// A state that need not wait for the disk still waits while a state before it does, because a reader of the later
    /// state would see the earlier one too.
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

    /// Returns when the commit is as durable as it should be, and shown to readers.
    pub(crate) fn wait_for(&self, published: &Published) -> Result<()> {
        let Some(log) = self.is_logged() else { return Ok(()) };
        let position = match published.durability {
            Durability::Full => Some(published.end),
            Durability::Relaxed | Durability::Off => {
                self.syncer.ring();
                if self.lag.is_late() {
                    // The syncer did not get its turn, or the disk is slow. We sync here, so that the bound holds.
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

    /// Returns when readers see everything committed so far. A failing disk may prevent that.
    pub(crate) fn show_latest(&self) {
        if !Arc::ptr_eq(&self.latest(), &self.shown()) {
            // An error is reported to the transactions that wait for it.
            let _ = self.sync();
        }
    }

    /// Returns an error if the log refuses further commits.
    pub(crate) fn check(&self) -> Result<()> {
        self.log().map_or(Ok(()), Log::check)
    }

    /// Makes the log refuse further commits, because of `error`.
    pub(crate) fn refuse(&self, error: &Error) {
        if let Some(log) = self.log() {
            log.refuse(error);
        }
    }

    /// Syncs all records written so far and shows their states.
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
            // States wait in commit order, so the first one that is not on disk ends the loop.
            last = Some(first.state);
        }
        if let Some(state) = last {
            *self.shown.write() = state;
        }
    }

    pub(crate) fn durability(&self) -> Durability {
        *self.durability.read()
    }

    /// Changes the durability of later commits. The caller must hold the commit lock, and the base must have all
    /// commits that no log has.
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
    fn a_relaxed_commit_is_shown_only_after_the_full_commit_before_it() {
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
        // A transaction reads its own commit as soon as it has waited for it.
        journal.wait_for(&behind).expect("synced");
        assert_eq!(shown(), 3);
        assert!(synced() >= full.end);
        journal.wait_for(&full).expect("synced");
        assert_eq!(shown(), 3);
        advance(Durability::Relaxed);
        assert_eq!(shown(), 4);
    }
}
