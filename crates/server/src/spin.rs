//! A short wait for the next message without sleeping.
//!
//! A client that sends one statement after another lets its session thread sleep for a few microseconds each time. To
//! wake a thread, and the processor under it, takes longer than a statement on keyed tables. So a session thread first
//! looks for the next message again and again, as long as a processor is free for it.
//!
//! A processor is not free if more than half as many sessions work as there are processors. Other programs may need it,
//! too: then a thread that lets others run comes back late, and a message waits for it. A thread that sleeps is woken
//! at once. So after a late return no thread looks for a while, and for twice as long after each further one:
//!
//! ```text
//! looks ── late ──► sleeps for PAUSE_MIN ──► looks ── late ──► sleeps for twice the time ──► looks ...
//!   ▲                                                                                        │
//!   └──────────────────────── no return was late for PAUSE_MAX ──────────────────────────────┘
//! ```

use std::io;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};

/// How long a session thread looks before it sleeps: about as long as a client needs to read an answer and send the
/// next statement.
const SPIN: Duration = Duration::from_micros(100);
/// How often a session thread looks before it lets another thread run. To ask the system for one takes as long as a
/// look, and a message that comes in the middle waits for it.
const LOOKS: usize = 3;
/// A thread that lets others run and comes back after this time was not alone. Without others it takes half a
/// microsecond.
const LATE: Duration = Duration::from_micros(30);
/// The time without looks after the first late return.
const PAUSE_MIN: Duration = Duration::from_millis(20);
/// The longest time without looks.
const PAUSE_MAX: Duration = Duration::from_secs(2);

/// The session threads that work for a client or wait for its next message.
#[derive(Debug)]
pub(crate) struct WorkingSessions {
    count: AtomicUsize,
    /// With more sessions than this, none of them spins. The other half of the processors is for their clients and for
    /// the engine.
    spinning_max: usize,
    pauses: SpinPauses,
}

/// The times in which no thread spins, because other threads need the processors.
#[derive(Debug)]
struct SpinPauses {
    since: Instant,
    /// The end of the current pause, in microseconds from `since`.
    ends_us: AtomicU64,
    /// The length of the next pause in microseconds.
    next_us: AtomicU64,
}

impl SpinPauses {
    fn new() -> SpinPauses {
        let next_us = AtomicU64::new(micros(PAUSE_MIN));
        SpinPauses { since: Instant::now(), ends_us: AtomicU64::new(0), next_us }
    }

    /// Whether a thread may look at the time `now`.
    fn has_ended(&self, now: Instant) -> bool {
        micros(now.duration_since(self.since)) >= self.ends_us.load(Ordering::Relaxed)
    }

    /// Begins a pause. It lasts twice as long as the last one, unless that ended long ago.
    fn begin(&self, now: Instant) {
        let now = micros(now.duration_since(self.since));
        let is_old = now.saturating_sub(self.ends_us.load(Ordering::Relaxed)) > micros(PAUSE_MAX);
        let length = if is_old { micros(PAUSE_MIN) } else { self.next_us.load(Ordering::Relaxed) };
        self.ends_us.store(now + length, Ordering::Relaxed);
        self.next_us.store((length * 2).min(micros(PAUSE_MAX)), Ordering::Relaxed);
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

impl WorkingSessions {
    pub(crate) fn new() -> Arc<WorkingSessions> {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let (count, pauses) = (AtomicUsize::new(0), SpinPauses::new());
        Arc::new(WorkingSessions { count, spinning_max: processors / 2, pauses })
    }
}

/// A session thread that works, counted as long as this exists.
pub(crate) struct WorkingSession(Arc<WorkingSessions>);

impl WorkingSession {
    pub(crate) fn new(all: &Arc<WorkingSessions>) -> WorkingSession {
        all.count.fetch_add(1, Ordering::Relaxed);
        WorkingSession(Arc::clone(all))
    }

    /// Waits a little for bytes of `stream`, and receives them into `bytes`. Returns `None` if none have come, and at
    /// once if a processor may not be free. With [`RecvFlags::PEEK`] the bytes stay where they are.
    pub(crate) fn spin(&self, stream: &TcpStream, bytes: &mut [u8], flags: RecvFlags) -> Option<io::Result<usize>> {
        let WorkingSessions { count, spinning_max, pauses } = &*self.0;
        let began = Instant::now();
        let mut looked = began;
        while count.load(Ordering::Relaxed) <= *spinning_max && pauses.has_ended(looked) {
            for _ in 0..LOOKS {
                match recv(stream, &mut *bytes, flags | RecvFlags::DONTWAIT) {
                    Ok((received, _)) => return Some(Ok(received)),
                    Err(Errno::AGAIN) => {}
                    // The blocking read that follows waits again after a signal.
                    Err(Errno::INTR) => return None,
                    Err(error) => return Some(Err(error.into())),
                }
            }
            let before = Instant::now();
            if before.duration_since(began) > SPIN {
                return None;
            }
            // A thread that has work goes first.
            std::thread::yield_now();
            looked = Instant::now();
            if looked.duration_since(before) > LATE {
                pauses.begin(looked);
            }
        }
        None
    }
}

impl Drop for WorkingSession {
    fn drop(&mut self) {
        self.0.count.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_until_none_was_needed_for_a_while() {
        let pauses = SpinPauses::new();
        let at = |millis| pauses.since + Duration::from_millis(millis);
        let lasts = |from, to| !pauses.has_ended(at(to - 1)) && pauses.has_ended(at(to)) && from < to;
        assert!(pauses.has_ended(at(0)));
        pauses.begin(at(0));
        assert!(lasts(0, 20));
        pauses.begin(at(100));
        assert!(lasts(100, 140));
        for _ in 0..20 {
            pauses.begin(at(1_000));
        }
        assert!(lasts(1_000, 3_000));
        pauses.begin(at(5_001));
        assert!(lasts(5_001, 5_021));
    }
}
