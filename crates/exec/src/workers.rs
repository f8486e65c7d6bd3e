//! The threads that run queries.
//!
//! A thread runs one job after the other. Without a job it waits at its desk. It spins for a short time first, because
//! the next query of a connection often comes at once, and waking a thread takes as long as a small query. Then it
//! sleeps. The pool has no upper limit: every job that is started gets a thread at once. A job may wait for the reader
//! of its batches, and the reader may start another query first, so a fixed number of threads could deadlock.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use rowmill_base::{Error, ErrorKind, Result};

use crate::spin::spin_until;

/// The time that a thread waits for a job before it ends.
const IDLE_MAX: Duration = Duration::from_secs(10);

type Job = Box<dyn FnOnce() + Send>;

/// A pool of threads that grows as needed.
#[derive(Debug)]
pub struct Workers {
    name: &'static str,
    stack_bytes: usize,
    on_start: fn(),
    /// The desks of the threads without a job. The desk that was added last is taken first, so that threads that
    /// waited long can end.
    idle: Mutex<VecDeque<Arc<Desk>>>,
}

/// The place where a thread waits for its next job.
#[derive(Default)]
struct Desk {
    called: AtomicBool,
    job: Mutex<Option<Job>>,
    wake: Condvar,
}

impl std::fmt::Debug for Desk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Desk")
    }
}

impl Workers {
    /// Makes a pool without threads. Its threads will have this name and stack size, and call `on_start` first.
    pub const fn new(name: &'static str, stack_bytes: usize, on_start: fn()) -> Workers {
        Workers { name, stack_bytes, on_start, idle: Mutex::new(VecDeque::new()) }
    }

    /// Runs `job` on a thread of the pool. The job must not panic.
    pub fn start(&'static self, job: impl FnOnce() + Send + 'static) -> Result<()> {
        if let Some(desk) = self.idle.lock().pop_back() {
            // Put the job on the desk before setting the flag. Otherwise a spinning thread might find no job and sleep.
            *desk.job.lock() = Some(Box::new(job));
            desk.called.store(true, Ordering::Release);
            desk.wake.notify_one();
            return Ok(());
        }
        let started = thread::Builder::new().name(self.name.into()).stack_size(self.stack_bytes).spawn(move || {
            (self.on_start)();
            job();
            while let Some(job) = self.next_job() {
                job();
            }
        });
        started.map(|_| ()).map_err(|error| {
            Error::new(ErrorKind::Io, format!("the operating system refused a thread for a query: {error}"))
                .hint("lower the setting threads, or raise this user's limit of threads")
        })
    }

    /// Waits for the next job of the calling thread. `None` after a long time without a job.
    fn next_job(&self) -> Option<Job> {
        let desk = Arc::new(Desk::default());
        self.idle.lock().push_back(Arc::clone(&desk));
        // Spin without a lock first. The condition variable below is for longer waits.
        spin_until(|| desk.called.load(Ordering::Acquire));
        let mut job = desk.job.lock();
        loop {
            if job.is_some() {
                return job.take();
            }
            if desk.wake.wait_for(&mut job, IDLE_MAX).timed_out() && job.is_none() {
                // The lock of the job must be released first: `start` takes the two locks in the other order.
                drop(job);
                let mut idle = self.idle.lock();
                let before = idle.len();
                idle.retain(|other| !Arc::ptr_eq(other, &desk));
                if idle.len() < before {
                    return None;
                }
                drop(idle);
                // The desk is no longer in the list, so `start` has taken it and is about to put a job on it.
                job = desk.job.lock();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spin::set_spin_us;
    use std::sync::mpsc::channel;

    static WORKERS: Workers = Workers::new("test", 1 << 20, || {});

    #[test]
    fn all_jobs_run_even_if_they_wait_for_each_other() {
        for round in 0..50_u64 {
            set_spin_us(round % 2 * 100);
            let barrier = Arc::new(std::sync::Barrier::new(5));
            let (done, results) = channel();
            for number in 0..5 {
                let (barrier, done) = (Arc::clone(&barrier), done.clone());
                WORKERS
                    .start(move || {
                        barrier.wait();
                        done.send(number).expect("the test listens");
                    })
                    .expect("a few threads");
            }
            drop(done);
            let mut all: Vec<i32> = results.iter().collect();
            all.sort_unstable();
            assert_eq!(all, [0, 1, 2, 3, 4]);
        }
    }
}
