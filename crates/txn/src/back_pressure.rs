//! Back-pressure: a writer that fills memory faster than checkpoints empty it waits for them.
//!
//! A writer waits after its commit, when it no longer holds a snapshot. A snapshot keeps the versions of keyed rows
//! that the base did not have when it began, so a checkpoint could not free them while the writer holds it.

use std::time::{Duration, Instant};

use rowmill_base::Cancel;

use crate::checkpoint::checkpoint_of;
use crate::engine::Core;

/// Recent rows of keyed tables may take one part in this many of the memory limit. Above that, writers wait. They leave
/// room for the rows of a transaction, which are counted twice while it commits.
const WAIT_SHARE: u64 = 4;

/// The log should have grown by one part in this many of the memory limit before a writer makes a checkpoint. Otherwise
/// each commit would make one while a long reader keeps the versions.
const LOG_SHARE: u64 = 16;

/// The longest wait for a checkpoint or a check of the database that is running.
const WAIT_MAX: Duration = Duration::from_secs(10);

/// How often a waiting writer looks whether it was cancelled.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Waits for checkpoints while recent rows of keyed tables take too much memory and a checkpoint can free some. The
/// caller must hold no snapshot. Its commit is done, so a cancellation only ends the wait.
pub(crate) fn wait_for_memory(engine: &Core, cancel: &Cancel) {
    let begun = Instant::now();
    while !relieve(engine, LOOK_EVERY) && begun.elapsed() < WAIT_MAX && !cancel.is_cancelled() {}
}

/// Frees memory without a wait for the work of others, before a transaction takes its snapshot. Writers wait after
/// their commits, but the last of them may have met a reader that has ended since.
pub(crate) fn relieve_at_once(engine: &Core) {
    relieve(engine, Duration::ZERO);
}

/// Makes a checkpoint if recent rows take too much memory and it can free some. Returns `false` if another checkpoint
/// or a check still runs after `wait_max`.
fn relieve(engine: &Core, wait_max: Duration) -> bool {
    let limit = engine.broker().limit_bytes();
    let is_much = || {
        // Recent rows are a part of the memory in use, which is much cheaper to ask for. So we ask for it first.
        engine.broker().used_bytes() > limit / WAIT_SHARE && engine.latest().keyed.store().bytes() > limit / WAIT_SHARE
    };
    if engine.journal().log().is_none() || !is_much() {
        return true;
    }
    // The snapshot that kept the versions may have ended since the last checkpoint.
    engine.latest().keyed.store().forget();
    if !is_much() {
        return true;
    }
    let Some(mut stored) = engine.stored().try_hold_for(wait_max) else { return false };
    // Another writer may have made the checkpoint in the meantime.
    let log_bytes = engine.latest().log_end.0.saturating_sub(engine.stored().log_end().0);
    if is_much() && log_bytes >= limit / LOG_SHARE {
        // If it fails, the next commit asks for another one. Nothing is lost, because the log has everything.
        let _ = checkpoint_of(engine, &mut stored);
    }
    true
}
