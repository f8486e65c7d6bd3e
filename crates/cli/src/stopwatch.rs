//! The time that a query takes, without the time in which its result is printed or looked at.

use std::time::{Duration, Instant};

/// Adds up the time of a query.
#[derive(Debug)]
pub(crate) struct Stopwatch {
    spent: Duration,
    since: Option<Instant>,
}

impl Stopwatch {
    /// A stopwatch that runs.
    pub(crate) fn started() -> Stopwatch {
        Stopwatch { spent: Duration::ZERO, since: Some(Instant::now()) }
    }

    pub(crate) fn stop(&mut self) {
        self.spent += self.since.take().map_or(Duration::ZERO, |since| since.elapsed());
    }

    /// Runs `work` and counts its time.
    pub(crate) fn count<T>(&mut self, work: impl FnOnce() -> T) -> T {
        self.since.get_or_insert_with(Instant::now);
        let result = work();
        self.stop();
        result
    }

    /// The line that tells the time.
    pub(crate) fn line(&self) -> String {
        format!("Time: {:.3} s\n", self.spent.as_secs_f64())
    }
}
