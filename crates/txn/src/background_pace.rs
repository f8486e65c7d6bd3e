//! The pace of a checkpoint: it works a little and rests a little, so that a transaction soon finds a free processor.
//!
//! A checkpoint takes some hundred milliseconds of a processor. If it took them at once, while queries keep the other
//! processors busy, a transaction would wait for its turn after each sync of the log: up to some milliseconds each
//! time. A rest also lets the syncs of the log go between the writes of the checkpoint.
//!
//! ```text
//! checkpoint     ##..##..##..##..##..##      works for WORK, rests for REST
//! in a hurry     ##########                  a thread waits for it, or the log gets long
//! ```

use std::cell::RefCell;
use std::thread;
use std::time::{Duration, Instant};

/// The time after which the work rests. The system gives a thread about three times as much before it lets others run.
const WORK: Duration = Duration::from_millis(1);

/// The time of a rest.
const REST: Duration = Duration::from_millis(2);

struct BackgroundPace {
    is_hurried: Box<dyn Fn() -> bool>,
    worked_since: Instant,
    rested: Duration,
}

thread_local! {
    /// The pace of this thread's work, which goes through code that other threads run without rests.
    static PACE: RefCell<Option<BackgroundPace>> = const { RefCell::new(None) };
}

/// Does `work`, which rests in [`rest_if_due`] unless `is_hurried`. Returns its result, and the time of its rests.
pub(crate) fn at_background_pace<T>(
    is_hurried: impl Fn() -> bool + 'static,
    work: impl FnOnce() -> T,
) -> (T, Duration) {
    let pace =
        BackgroundPace { is_hurried: Box::new(is_hurried), worked_since: Instant::now(), rested: Duration::ZERO };
    PACE.with(|of_thread| *of_thread.borrow_mut() = Some(pace));
    let result = work();
    let rested = PACE.with(|of_thread| of_thread.borrow_mut().take()).map_or(Duration::ZERO, |pace| pace.rested);
    (result, rested)
}

/// Rests if this thread works at the pace of the background and has worked for long enough. The caller must hold no
/// lock that a transaction may wait for.
#[inline]
pub(crate) fn rest_if_due() {
    PACE.with(|of_thread| {
        if let Some(pace) = &mut *of_thread.borrow_mut() {
            pace.rest_if_due();
        }
    });
}

impl BackgroundPace {
    fn rest_if_due(&mut self) {
        let now = Instant::now();
        if now - self.worked_since < WORK {
            return;
        }
        if !(self.is_hurried)() {
            thread::sleep(REST);
            self.rested += now.elapsed();
        }
        self.worked_since = Instant::now();
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::rc::Rc;

    use super::*;

    fn work_for(time: Duration) {
        let begun = Instant::now();
        while begun.elapsed() < time {
            rest_if_due();
        }
    }

    #[test]
    fn work_in_the_background_rests_unless_it_is_hurried() {
        let is_hurried = Rc::new(Cell::new(false));
        let asked = Rc::clone(&is_hurried);
        let ((), rested) = at_background_pace(move || asked.get(), || work_for(Duration::from_millis(30)));
        assert!(rested >= Duration::from_millis(4), "{rested:?}");
        let asked = Rc::clone(&is_hurried);
        is_hurried.set(true);
        let ((), rested) = at_background_pace(move || asked.get(), || work_for(Duration::from_millis(10)));
        assert_eq!(rested, Duration::ZERO);
        // No other work of the thread rests.
        rest_if_due();
    }
}
