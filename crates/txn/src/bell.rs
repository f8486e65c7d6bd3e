//! Background work: a thread that sleeps until its bell is rung, and ends when it is told to stop.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use rowmill_base::{Cancel, Result};

use crate::job::Job;

/// A thread that does one piece of work each time its bell was rung.
#[derive(Debug, Default)]
pub(crate) struct Background {
    bell: Arc<Bell>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Debug, Default)]
struct Bell {
    wanted: Mutex<bool>,
    rung: Condvar,
    stop: Cancel,
}

impl Background {
    /// Starts the thread of `job`. After a ring it waits for the time `settle` and then calls `work` once for all rings
    /// up to then. `work` gets the flag that tells it to stop.
    pub(crate) fn start(&self, job: Job, settle: Duration, work: impl Fn(&Cancel) + Send + 'static) -> Result<()> {
        self.start_timed(job, settle, move |stop| {
            work(stop);
            None
        })
    }

    /// Starts the thread of `job` as [`Background::start`] does. If `work` returns a time, it is called again after it
    /// even without a ring.
    pub(crate) fn start_timed(
        &self,
        job: Job,
        settle: Duration,
        work: impl Fn(&Cancel) -> Option<Duration> + Send + 'static,
    ) -> Result<()> {
        let bell = Arc::clone(&self.bell);
        let run = move || {
            let mut after = None;
            while bell.wait(settle, after) {
                after = work(&bell.stop);
            }
        };
        *self.thread.lock() = Some(job.spawn(run)?);
        Ok(())
    }

    /// Starts the thread of `job`, which calls `work` after each pause. `work` gets the flag that tells it to stop.
    pub(crate) fn start_every(&self, job: Job, pause: Duration, work: impl Fn(&Cancel) + Send + 'static) -> Result<()> {
        let bell = Arc::clone(&self.bell);
        let run = move || {
            while bell.pause(pause) {
                work(&bell.stop);
            }
        };
        *self.thread.lock() = Some(job.spawn(run)?);
        Ok(())
    }

    /// Rings the bell. If no thread has started yet, the ring waits for it.
    pub(crate) fn ring(&self) {
        let mut wanted = self.bell.wanted.lock();
        if !std::mem::replace(&mut wanted, true) {
            self.bell.rung.notify_one();
        }
    }

    /// Tells the thread to stop, and work in progress to give up. Does not wait for the thread.
    pub(crate) fn tell_to_stop(&self) {
        {
            // Under the lock: otherwise the thread could check the flag, miss the notification and sleep forever.
            let _wanted = self.bell.wanted.lock();
            self.bell.stop.cancel();
        }
        self.bell.rung.notify_one();
    }

    /// Stops the thread. Work in progress is told to give up.
    pub(crate) fn stop(&self) {
        self.tell_to_stop();
        if let Some(thread) = self.thread.lock().take() {
            let _ = thread.join();
        }
    }
}

impl Bell {
    /// Waits until the pause is over. Returns `false` when the thread should end.
    fn pause(&self, pause: Duration) -> bool {
        let mut wanted = self.wanted.lock();
        let end = Instant::now() + pause;
        while !self.stop.is_cancelled() && !self.rung.wait_until(&mut wanted, end).timed_out() {}
        !self.stop.is_cancelled()
    }

    /// Waits for a ring, or for the time `at_most`. Returns `false` when the thread should end.
    fn wait(&self, settle: Duration, at_most: Option<Duration>) -> bool {
        let mut wanted = self.wanted.lock();
        let until = at_most.map(|at_most| Instant::now() + at_most);
        while !*wanted && !self.stop.is_cancelled() {
            match until {
                None => self.rung.wait(&mut wanted),
                Some(until) if self.rung.wait_until(&mut wanted, until).timed_out() => break,
                Some(_) => {}
            }
        }
        if *wanted && !self.stop.is_cancelled() {
            // Rings during this pause count for the same call of `work`, so a burst of commits causes one piece of
            // work.
            self.rung.wait_for(&mut wanted, settle);
        }
        *wanted = false;
        !self.stop.is_cancelled()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn rings_in_a_burst_are_served_once_and_stop_does_not_wait_for_more() {
        let served = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&served);
        let work = move |_: &Cancel| {
            count.fetch_add(1, Ordering::Relaxed);
        };
        let background = Background::default();
        background.start(Job::Sync, Duration::from_millis(20), work).expect("a thread");
        (0..100).for_each(|_| background.ring());
        while served.load(Ordering::Relaxed) == 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(served.load(Ordering::Relaxed), 1);
        background.stop();
        background.ring();
        background.stop();
        assert_eq!(served.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn periodic_work_is_done_after_each_pause_until_it_is_stopped() {
        let served = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&served);
        let work = move |_: &Cancel| {
            count.fetch_add(1, Ordering::Relaxed);
        };
        let background = Background::default();
        background.start_every(Job::Sync, Duration::from_millis(1), work).expect("a thread");
        while served.load(Ordering::Relaxed) < 3 {
            std::thread::sleep(Duration::from_millis(1));
        }
        background.stop();
        let idle = Background::default();
        idle.start_every(Job::Sync, Duration::from_secs(3_600), |_| panic!("the pause is not over")).expect("a thread");
        idle.stop();
    }

    #[test]
    fn timed_work_is_called_again_without_a_ring_for_as_long_as_it_asks_for_that() {
        let served = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&served);
        let work = move |_: &Cancel| {
            let times = count.fetch_add(1, Ordering::Relaxed) + 1;
            (times < 3).then_some(Duration::from_millis(5))
        };
        let background = Background::default();
        background.start_timed(Job::Refresh, Duration::ZERO, work).expect("a thread");
        std::thread::sleep(Duration::from_millis(30));
        assert_eq!(served.load(Ordering::Relaxed), 0);
        background.ring();
        while served.load(Ordering::Relaxed) < 3 {
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(Duration::from_millis(30));
        assert_eq!(served.load(Ordering::Relaxed), 3);
        background.stop();
    }
}
