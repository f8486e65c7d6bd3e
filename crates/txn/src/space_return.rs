//! Gives space back while the database is open.
//!
//! * **Under load**, after a checkpoint: the pages of the base that it replaced. The next checkpoint takes the space
//!   again, so we do this only if checkpoints are so rare that it takes a small part of the time.
//! * **In quiet times**, when no commit has come for a while: a checkpoint empties the log, its spare files are
//!   removed, and the base becomes as short as it can be without a copy.
//! * **Before the database is closed**, as under load.

use std::time::{Duration, Instant};

use rowmill_base::{Cancel, CommitId};

use crate::checkpoint::checkpoint_of;
use crate::engine::Core;

/// The time without a commit after which times count as quiet.
const QUIET: Duration = Duration::from_secs(10);

/// A checkpoint for fewer bytes of log gives back no file.
const LOG_BYTES_MIN: u64 = 1 << 20;

/// Giving space back under load takes at most one part in this many of the time.
const TIME_SHARE: u32 = 10;

/// Giving space back takes at most this time at once, under load and when a database is closed. On a busy disk, each
/// hole takes milliseconds.
const AT_ONCE_MAX: Duration = Duration::from_millis(500);

/// What gives space back, with its memory of the past.
#[derive(Debug)]
pub(crate) struct SpaceReturn {
    /// The last commit when times were last looked at.
    seen: CommitId,
    /// No space is given back under load before this moment.
    rest_until: Instant,
}

impl SpaceReturn {
    pub(crate) fn new() -> SpaceReturn {
        SpaceReturn { seen: CommitId(0), rest_until: Instant::now() }
    }

    /// The last commit when times were last looked at.
    pub(crate) fn seen(&self) -> CommitId {
        self.seen
    }

    /// Gives back the space of pages that a checkpoint has replaced, unless `stop` is set or the next checkpoint is
    /// due.
    pub(crate) fn after_checkpoint(&mut self, engine: &Core, stop: &Cancel) {
        let begun = Instant::now();
        if begun < self.rest_until {
            return;
        }
        let go_on = || {
            let is_due = || engine.is_checkpoint_due(engine.latest().log_end);
            begun.elapsed() < AT_ONCE_MAX && !stop.is_cancelled() && !is_due()
        };
        // Nothing is lost if it fails: the next checkpoint reports a fault of the base.
        let _ = engine.base().release_free(&go_on);
        self.rest_until = Instant::now() + begun.elapsed() * (TIME_SHARE - 1);
    }

    /// Gives space back before the database is closed.
    pub(crate) fn at_close(engine: &Core) {
        let begun = Instant::now();
        // The next opening takes the space again where it writes. If this fails, nothing is lost.
        let _ = engine.base().release_free(&|| begun.elapsed() < AT_ONCE_MAX);
    }

    /// Does the work of quiet times if no commit has come since the last call. Returns when to look again; `None` if
    /// nothing is left to do before the next commit.
    pub(crate) fn if_quiet(&mut self, engine: &Core, stop: &Cancel) -> Option<Duration> {
        let last = engine.latest().commit;
        if std::mem::replace(&mut self.seen, last) != last {
            return Some(QUIET);
        }
        // A check or a backup reads the base for a long time.
        let Some(mut stored) = engine.stored().try_hold_for(Duration::ZERO) else { return Some(QUIET) };
        let log_bytes = engine.latest().log_end.0.saturating_sub(engine.stored().log_end().0);
        if log_bytes >= LOG_BYTES_MIN {
            // If it fails, the next commit asks for another one. Nothing is lost, because the log has everything.
            let _ = checkpoint_of(engine, &mut stored);
        }
        let is_quiet = || engine.latest().commit == last && !stop.is_cancelled();
        while is_quiet() && engine.base().shrink().unwrap_or(false) {
            // Reads that seats keep for their next look-up would keep the replaced pages.
            engine.latest().keyed.store().current_arc().let_go();
        }
        // Few free pages are left, and those that could not be moved away from.
        let _ = engine.base().release_free(&is_quiet);
        drop(stored);
        if let Some(log) = engine.journal().log().filter(|_| is_quiet()) {
            // A file that cannot be removed now is removed when the database is closed.
            let _ = log.rest();
        }
        None
    }
}
