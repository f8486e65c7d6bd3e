//! How many statements run at a time: lanes for the engine, and lanes that short statements have for themselves.
//!
//! ```text
//! session threads   │ engine: running_max │ waiting for the engine: waiting_max │ short statements: at least SHORT │
//! ```
//!
//! A statement on keyed tables that runs as a program needs no lane, because it is short. All others take one of the
//! engine's lanes, and wait if there is none. Statements that wait hold a session thread, so only a part of the threads
//! may wait; a statement that finds them all waiting fails at once. So there are always threads for programs, however
//! many long statements clients send.
//!
//! A session holds one lane at most: for its statement, and for all results that it has not read to their ends. Without
//! this rule, sessions with several open cursors could wait for each other.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use rowmill::access::{Admission, AdmissionGuard};
use rowmill::{CancelHandle, Error, ErrorKind, Result};

use crate::options::ServerLimits;

/// The session threads that neither run nor wait for the engine.
const SHORT: usize = 64;
/// How often a statement that waits looks whether it was cancelled.
const WAIT_POLL: Duration = Duration::from_millis(20);

/// The lanes of the engine.
pub(crate) struct EngineLanes {
    running_max: usize,
    waiting_max: usize,
    use_of_lanes: Mutex<LaneUse>,
    freed: Condvar,
}

#[derive(Default)]
struct LaneUse {
    running: usize,
    waiting: usize,
}

/// A lane that is in use.
struct HeldLane(Arc<EngineLanes>);

impl EngineLanes {
    pub(crate) fn new(limits: &ServerLimits) -> Arc<EngineLanes> {
        Arc::new(EngineLanes {
            running_max: limits.running_max.max(1),
            waiting_max: limits.waiting_max,
            use_of_lanes: Mutex::default(),
            freed: Condvar::new(),
        })
    }

    /// The session threads that the server needs.
    pub(crate) fn threads(&self) -> usize {
        self.running_max + self.waiting_max + SHORT
    }
}

/// What a session asks for a lane.
pub(crate) struct LaneRequests(pub(crate) Arc<EngineLanes>);

impl Admission for LaneRequests {
    fn enter(&self, cancel: &CancelHandle) -> Result<AdmissionGuard> {
        let lanes = &self.0;
        let mut current = lanes.use_of_lanes.lock();
        if current.running >= lanes.running_max {
            if current.waiting >= lanes.waiting_max {
                let (running, waiting) = (current.running, current.waiting);
                let what = format!("too many statements: {running} run and {waiting} wait already");
                return Err(Error::new(ErrorKind::TooManyStatements, what)
                    .hint("try again later, or raise running_statements or waiting_statements of the server"));
            }
            current.waiting += 1;
            while current.running >= lanes.running_max && !cancel.is_cancelled() {
                lanes.freed.wait_for(&mut current, WAIT_POLL);
            }
            current.waiting -= 1;
            if current.running >= lanes.running_max {
                return Err(Error::new(ErrorKind::Cancelled, "the statement was cancelled while it waited for others"));
            }
        }
        current.running += 1;
        drop(current);
        Ok(Box::new(HeldLane(Arc::clone(lanes))))
    }
}

impl Drop for HeldLane {
    fn drop(&mut self) {
        self.0.use_of_lanes.lock().running -= 1;
        self.0.freed.notify_one();
    }
}
