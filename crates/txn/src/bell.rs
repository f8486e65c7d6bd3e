//! Work in the background: a thread that sleeps until it is rung for, and ends when it is told to.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use rowmill_base::{Cancel, Error, Result};

/// A thread that does one thing whenever it was rung for, and its bell.
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
    /// Starts the thread. It does `work` at the earliest so long after it was rung for as `settle` says, for all that rang
    /// meanwhile; `work` gets the flag that tells it to end.
    pub(crate) fn start(&self, name: &str, settle: Duration, work: impl Fn(&Cancel) + Send + 'static) -> Result<()> {
        let bell = Arc::clone(&self.bell);
        let run = move || {
            while bell.wait(settle) {
                work(&bell.stop);
            }
        };
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(run);
        let thread = thread.map_err(|error| Error::io(format_args!("starting the thread {name}"), &error))?;
        *self.thread.lock() = Some(thread);
        Ok(())
    }

    /// There is work. It waits until a thread is started.
    pub(crate) fn ring(&self) {
        let mut wanted = self.bell.wanted.lock();
        if !std::mem::replace(&mut wanted, true) {
            self.bell.rung.notify_one();
        }
    }

    /// Ends the thread; work that is under way is told to give up.
    pub(crate) fn stop(&self) {
        {
            // Under the lock, so that the thread is not between its look at the flag and its sleep.
            let _wanted = self.bell.wanted.lock();
            self.bell.stop.cancel();
        }
        self.bell.rung.notify_one();
        if let Some(thread) = self.thread.lock().take() {
            let _ = thread.join();
        }
    }
}

impl Bell {
    /// Waits until there may be work; `false` when it is over.
    fn wait(&self, settle: Duration) -> bool {
        let mut wanted = self.wanted.lock();
        while !*wanted && !self.stop.is_cancelled() {
            self.rung.wait(&mut wanted);
        }
        if !self.stop.is_cancelled() {
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
    fn many_that_ring_are_served_together_and_a_stop_is_not_waited_for() {
        let served = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&served);
        let work = move |_: &Cancel| {
            count.fetch_add(1, Ordering::Relaxed);
        };
        let background = Background::default();
        background.start("test", Duration::from_millis(20), work).expect("a thread");
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
}
