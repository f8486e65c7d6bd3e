//! How the server stops: first it refuses new statements, then it cancels the running ones.
//!
//! ```text
//! Serving ──stop()──► Draining ──patience is over──► Cancelling
//! ```

use tokio::sync::watch;

/// How far the server is on its way to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum StopPhase {
    /// It serves.
    Serving,
    /// It refuses new statements and ends idle connections.
    Draining,
    /// It has cancelled the running statements.
    Cancelling,
}

/// The phase that all connections see. Phases only go forward.
pub(crate) struct StopSignal {
    sender: watch::Sender<StopPhase>,
}

impl StopSignal {
    pub(crate) fn new() -> StopSignal {
        StopSignal { sender: watch::Sender::new(StopPhase::Serving) }
    }

    /// Goes on to `phase`, unless a later one has been reached.
    pub(crate) fn advance(&self, phase: StopPhase) {
        self.sender.send_if_modified(|current| {
            let later = phase > *current;
            if later {
                *current = phase;
            }
            later
        });
    }

    /// Whether new statements must be refused.
    pub(crate) fn is_stopping(&self) -> bool {
        *self.sender.borrow() > StopPhase::Serving
    }

    /// Waits until the server stops.
    pub(crate) async fn stopping(&self) {
        let mut receiver = self.sender.subscribe();
        // The sender lives in `self`, so the wait cannot fail.
        let _ = receiver.wait_for(|phase| *phase > StopPhase::Serving).await;
    }
}
