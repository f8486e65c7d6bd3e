//! The request of another connection to end this one (`pg_terminate_backend`).

use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

use crate::wire_error::{ADMIN_SHUTDOWN, WireError};

/// Tells a connection that it must end, whether it is idle or runs a statement.
#[derive(Debug, Default)]
pub(crate) struct EndSignal {
    is_given: AtomicBool,
    given: Notify,
}

impl EndSignal {
    /// Gives the signal. A statement that runs must also be cancelled.
    pub(crate) fn give(&self) {
        self.is_given.store(true, Ordering::Release);
        // The permit stays until the connection waits the next time.
        self.given.notify_one();
    }

    pub(crate) fn is_given(&self) -> bool {
        self.is_given.load(Ordering::Acquire)
    }

    /// Returns when the signal is given.
    pub(crate) async fn wait(&self) {
        while !self.is_given() {
            self.given.notified().await;
        }
    }
}

/// The error for a client whose connection was ended by another one.
pub(crate) fn terminated() -> WireError {
    WireError::new(ADMIN_SHUTDOWN, "terminating connection due to administrator command")
}
