//! Waiting without sleep, because waking a thread takes as long as a small query.

use std::cell::Cell;
use std::hint::spin_loop;
use std::time::{Duration, Instant};

thread_local! {
    /// The time for which this thread looks for work before it sleeps: that of the statement that it works for.
    static SPIN: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

/// Sets the time for which this thread looks for work before it sleeps. It should be about the time that waking a
/// thread takes.
pub(crate) fn set_spin(spin: Duration) {
    SPIN.set(spin);
}

/// Returns when there is work, or when it is time to sleep.
pub(crate) fn spin_until(is_work: impl Fn() -> bool) {
    let (waiting, spin) = (Instant::now(), SPIN.get());
    while !is_work() && waiting.elapsed() < spin {
        spin_loop();
    }
}
