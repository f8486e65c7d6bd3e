//! Waiting without sleep, because waking a thread takes as long as a small query.

use std::hint::spin_loop;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The time for which a thread looks for work before it sleeps. It should be about the time that waking a thread takes.
static SPIN_US: AtomicU64 = AtomicU64::new(50);

/// Sets the microseconds for which idle threads look for work before they sleep.
pub fn set_spin_us(spin_us: u64) {
    SPIN_US.store(spin_us, Ordering::Relaxed);
}

/// Returns when there is work, or when it is time to sleep.
pub(crate) fn spin_until(is_work: impl Fn() -> bool) {
    let (waiting, spin) = (Instant::now(), Duration::from_micros(SPIN_US.load(Ordering::Relaxed)));
    while !is_work() && waiting.elapsed() < spin {
        spin_loop();
    }
}
