//! The flag that ends a statement early.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::{Error, ErrorKind, Result};

/// A handle by which any thread may end a statement. The statement's workers must check it once per frame.
///
/// Clones share one flag. Times are counted from the creation of the handle.
#[derive(Clone, Debug)]
pub struct Cancel(Arc<SharedCancel>);

#[derive(Debug)]
struct SharedCancel {
    cancelled: AtomicBool,
    started: Instant,
    /// Milliseconds from `started`. 0 means no deadline.
    deadline_ms: AtomicU64,
}

impl Default for Cancel {
    fn default() -> Self {
        Cancel::new()
    }
}

impl Cancel {
    /// Makes a handle that is not cancelled and has no deadline.
    pub fn new() -> Self {
        Cancel(Arc::new(SharedCancel {
            cancelled: AtomicBool::new(false),
            started: Instant::now(),
            deadline_ms: AtomicU64::new(0),
        }))
    }

    /// Lets the statement run for `limit` from now on.
    pub fn set_deadline(&self, limit: Duration) {
        let until = self.0.started.elapsed() + limit;
        // At least 1, because 0 means no deadline.
        self.0.deadline_ms.store((until.as_millis() as u64).max(1), Ordering::Relaxed);
    }

    /// Ends the statement. Every worker stops at its next frame.
    pub fn cancel(&self) {
        self.0.cancelled.store(true, Ordering::Relaxed);
    }

    /// Whether [`Cancel::cancel`] was called.
    pub fn is_cancelled(&self) -> bool {
        self.0.cancelled.load(Ordering::Relaxed)
    }

    /// The time left before the deadline, if there is one.
    pub fn remaining(&self) -> Option<Duration> {
        match self.0.deadline_ms.load(Ordering::Relaxed) {
            0 => None,
            ms => Some(Duration::from_millis(ms).saturating_sub(self.0.started.elapsed())),
        }
    }

    /// Fails if the statement was cancelled or its deadline has passed.
    pub fn check(&self) -> Result<()> {
        if self.is_cancelled() {
            return Err(Error::new(ErrorKind::Cancelled, "the statement was cancelled"));
        }
        if self.remaining() == Some(Duration::ZERO) {
            let ms = self.0.deadline_ms.load(Ordering::Relaxed);
            return Err(Error::new(ErrorKind::Deadline, format!("the statement ran into its deadline of {ms} ms"))
                .hint("raise it with SET statement_timeout_ms = ...; 0 means no deadline"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cancelled_handle_fails_in_every_clone() {
        let cancel = Cancel::new();
        let other = cancel.clone();
        assert!(other.check().is_ok());
        cancel.cancel();
        assert_eq!(other.check().unwrap_err().kind(), ErrorKind::Cancelled);
    }

    #[test]
    fn a_passed_deadline_has_its_own_kind_of_error() {
        let cancel = Cancel::new();
        cancel.set_deadline(Duration::from_millis(1));
        std::thread::sleep(Duration::from_millis(5));
        assert_eq!(cancel.check().unwrap_err().kind(), ErrorKind::Deadline);
    }
}
