//! When a checkpoint is due, by the length of the log.
//!
//! A checkpoint writes every page that has changed, and costs about the same for a short log and a long one. A long log
//! takes space, and time when the database is opened after a crash. So the log may grow to `checkpoint_log_bytes`, and
//! a small database gets its checkpoint earlier, unless checkpoints would take too much of the time:
//!
//! ```text
//! log        0 ------- 8 MB ------------------- 64 MB      (checkpoint_log_bytes 64 MB, a base of up to 128 MB)
//! due        no         if the last one was long ago     yes
//! ```

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// A checkpoint may be due when the log has one part in this many of the base.
const BASE_SHARE: u64 = 16;

/// A checkpoint may be due when the log has one part in this many of `checkpoint_log_bytes`, if that is more.
const BYTES_MAX_SHARE: u64 = 8;

/// Checkpoints before `checkpoint_log_bytes` take at most one part in this many of the time.
const TIME_SHARE: u32 = 8;

/// Decides when a checkpoint is due.
#[derive(Debug, Default)]
pub(crate) struct CheckpointSchedule {
    /// Bytes of the base that are in use.
    base_bytes: AtomicU64,
    /// No early checkpoint before this moment.
    rest_until: Mutex<Option<Instant>>,
}

impl CheckpointSchedule {
    /// Notes the bytes of the base in use.
    pub(crate) fn note_base(&self, bytes: u64) {
        self.base_bytes.store(bytes, Ordering::Relaxed);
    }

    /// Notes the end of a checkpoint that took `duration`.
    pub(crate) fn note_done(&self, duration: Duration) {
        *self.rest_until.lock() = Some(Instant::now() + duration * (TIME_SHARE - 1));
    }

    /// Notes that the last checkpoint rested for this time. Its rests took no processor, so it need not be repaid by a
    /// pause.
    pub(crate) fn note_rested(&self, rested: Duration) {
        if let Some(until) = &mut *self.rest_until.lock() {
            *until = until.checked_sub(rested * (TIME_SHARE - 1)).unwrap_or(*until);
        }
    }

    /// Whether a checkpoint is due when the log has `bytes` since the last one, and `bytes_max` is
    /// `checkpoint_log_bytes`.
    pub(crate) fn is_due(&self, bytes: u64, bytes_max: u64) -> bool {
        if bytes >= bytes_max {
            return true;
        }
        // A base of another kind does not tell its size.
        let base_bytes = self.base_bytes.load(Ordering::Relaxed);
        let is_long = base_bytes > 0 && bytes >= (base_bytes / BASE_SHARE).max(bytes_max / BYTES_MAX_SHARE);
        is_long && self.rest_until.lock().is_none_or(|until| Instant::now() >= until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_log_is_long_enough_for_a_small_base_that_had_time_to_rest() {
        let schedule = CheckpointSchedule::default();
        assert!(!schedule.is_due(799, 800) && schedule.is_due(800, 800));
        schedule.note_base(3_200);
        assert!(!schedule.is_due(199, 800) && schedule.is_due(200, 800));
        schedule.note_base(10);
        assert!(!schedule.is_due(99, 800) && schedule.is_due(100, 800));
        schedule.note_done(Duration::from_secs(60));
        assert!(!schedule.is_due(799, 800) && schedule.is_due(800, 800));
        schedule.note_done(Duration::ZERO);
        assert!(schedule.is_due(100, 800));
        // A checkpoint of one second that rested for 60.
        schedule.note_done(Duration::from_secs(61));
        schedule.note_rested(Duration::from_secs(60));
        assert!(!schedule.is_due(100, 800));
        schedule.note_rested(Duration::from_secs(1));
        assert!(schedule.is_due(100, 800));
    }
}
