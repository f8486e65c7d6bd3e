//! Back-pressure: a writer that fills memory faster than checkpoints empty it waits for them.
//!
//! A writer waits after its commit, when it no longer holds a snapshot. A snapshot keeps the versions of keyed rows
//! that the base did not have when it began, so a checkpoint could not free them while the writer holds it.

use std::time::Duration;

use rowmill_base::Cancel;

use crate::checkpoint::checkpoint_of;
use crate::engine::Core;

/// Recent rows of keyed tables may take one part in this many of the memory limit. Above that, writers wait. They leave
/// room for the rows of a transaction, which are counted twice while it commits.
const WAIT_SHARE: u64 = 4;

/// The log should have grown by one part in this many of the memory limit before a writer makes a checkpoint. Otherwise
/// each commit would make one while a long reader keeps the versions.
const LOG_SHARE: u64 = 16;

/// How often a waiting writer looks whether it was cancelled. A cancelled statement should end within a tenth of a
/// second.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// The looks of a writer that waits for another checkpoint or a check of the database: it waits 10 s at most.
const LOOKS_MAX: usize = 500;

/// Waits for checkpoints while recent rows of keyed tables take too much memory and a checkpoint can free some. The
/// caller must hold no snapshot. Its commit is done, so a cancellation only ends the wait.
pub(crate) fn wait_for_memory(engine: &Core, cancel: &Cancel) {
    if !is_short(engine) {
        return;
    }
    for _ in 0..LOOKS_MAX {
        if relieve(engine, LOOK_EVERY) || cancel.is_cancelled() {
            return;
        }
    }
}

/// Frees memory without a wait for the work of others, before a transaction takes its snapshot. Writers wait after
/// their commits, but the last of them may have met a reader that has ended since.
pub(crate) fn relieve_at_once(engine: &Core) {
    if is_short(engine) {
        relieve(engine, Duration::ZERO);
    }
}

/// Whether recent rows take too much memory, also without the versions that no snapshot needs.
fn is_short(engine: &Core) -> bool {
    if !engine.has_many_recent_rows(WAIT_SHARE) || engine.journal().log().is_none() {
        return false;
    }
    // The snapshot that kept the versions may have ended since the last checkpoint.
    engine.latest().keyed.store().forget();
    engine.has_many_recent_rows(WAIT_SHARE)
}

/// Makes a checkpoint if recent rows take too much memory and it can free some. Returns `false` if another checkpoint
/// or a check still runs after `wait_max`.
fn relieve(engine: &Core, wait_max: Duration) -> bool {
    let Some(mut stored) = engine.stored().try_hold_for(wait_max) else { return false };
    // Another writer may have made the checkpoint in the meantime.
    let log_bytes = engine.latest().log_end.0.saturating_sub(engine.stored().log_end().0);
    if engine.has_many_recent_rows(WAIT_SHARE) && log_bytes >= engine.broker().limit_bytes() / LOG_SHARE {
        // If it fails, the next commit asks for another one. Nothing is lost, because the log has everything.
        let _ = checkpoint_of(engine, &mut stored);
    }
    true
}
