//! A short wait for the next message without sleeping.
//!
//! A client that sends one statement after another lets its session thread sleep for a few microseconds each time. To
//! wake a thread, and the processor under it, takes longer than a statement on keyed tables. So a session thread first
//! looks for the next message again and again, as long as so few sessions work that a processor is free for it.

use std::io;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};

/// How long a session thread looks before it sleeps: about as long as a client needs to read an answer and send the
/// next statement.
const SPIN: Duration = Duration::from_micros(100);
/// How often a session thread looks before it lets another thread run. To ask the system for one takes as long as a look,
/// and a message that comes in the middle waits for it.
const LOOKS: usize = 3;

/// The session threads that work for a client or wait for its next message.
#[derive(Debug)]
pub(crate) struct WorkingSessions {
    count: AtomicUsize,
    /// With more sessions than this, none of them spins. The other half of the processors is for their clients and for
    /// the engine.
    spinning_max: usize,
}

impl WorkingSessions {
    pub(crate) fn new() -> Arc<WorkingSessions> {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        Arc::new(WorkingSessions { count: AtomicUsize::new(0), spinning_max: processors / 2 })
    }
}

/// A session thread that works, counted as long as this exists.
pub(crate) struct WorkingSession(Arc<WorkingSessions>);

impl WorkingSession {
    pub(crate) fn new(all: &Arc<WorkingSessions>) -> WorkingSession {
        all.count.fetch_add(1, Ordering::Relaxed);
        WorkingSession(Arc::clone(all))
    }

    /// Waits a little for bytes of `stream`, and receives them into `bytes`. Returns `None` if none have come, and at once
    /// if a processor may not be free. With [`RecvFlags::PEEK`] the bytes stay where they are.
    pub(crate) fn spin(&self, stream: &TcpStream, bytes: &mut [u8], flags: RecvFlags) -> Option<io::Result<usize>> {
        let mut since = None;
        while self.0.count.load(Ordering::Relaxed) <= self.0.spinning_max {
            for _ in 0..LOOKS {
                match recv(stream, &mut *bytes, flags | RecvFlags::DONTWAIT) {
                    Ok((received, _)) => return Some(Ok(received)),
                    Err(Errno::AGAIN) => {}
                    // The blocking read that follows waits again after a signal.
                    Err(Errno::INTR) => return None,
                    Err(error) => return Some(Err(error.into())),
                }
            }
            if since.get_or_insert_with(Instant::now).elapsed() > SPIN {
                return None;
            }
            // A thread that has work goes first.
            std::thread::yield_now();
        }
        None
    }
}

impl Drop for WorkingSession {
    fn drop(&mut self) {
        self.0.count.fetch_sub(1, Ordering::Relaxed);
    }
}
