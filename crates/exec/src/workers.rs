//! Threads that work on queries.
//!
//! A thread takes one job after the other. When it has none it waits at its desk: for a short time it spins, because the
//! next query of a connection often comes at once and waking a thread takes as long as a small query, and then it
//! sleeps. There are as many threads as there are jobs at a time: a job may wait for whoever reads its batches, who may
//! start another query first.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use rowmill_base::{Error, ErrorKind, Result};

use crate::spin::spin_until;

/// How long a thread stays without a job.
const IDLE_MAX: Duration = Duration::from_secs(10);

type Job = Box<dyn FnOnce() + Send>;

/// A pool of threads.
#[derive(Debug)]
pub struct Workers {
    name: &'static str,
    stack_bytes: usize,
    on_start: fn(),
    /// The desks of threads without a job, those that wait shortest last.
    idle: Mutex<VecDeque<Arc<Desk>>>,
}

/// Where a thread waits for its next job.
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
    /// A pool without threads. Those it starts have this name and stack, and call `on_start` first.
    pub const fn new(name: &'static str, stack_bytes: usize, on_start: fn()) -> Workers {
        Workers { name, stack_bytes, on_start, idle: Mutex::new(VecDeque::new()) }
    }

    /// Has a thread do `job`, which must not panic.
    pub fn start(&'static self, job: impl FnOnce() + Send + 'static) -> Result<()> {
        if let Some(desk) = self.idle.lock().pop_back() {
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
            Error::new(ErrorKind::Io, format!("the operating system gives no thread for a query: {error}"))
                .hint("lower the setting threads, or raise the limit of threads of this user")
        })
    }

    /// The next job of the calling thread; `None` when there was none for a long time.
    fn next_job(&self) -> Option<Job> {
        let desk = Arc::new(Desk::default());
        self.idle.lock().push_back(Arc::clone(&desk));
        spin_until(|| desk.called.load(Ordering::Acquire));
        let mut job = desk.job.lock();
        loop {
            if job.is_some() {
                return job.take();
            }
            if desk.wake.wait_for(&mut job, IDLE_MAX).timed_out() && job.is_none() {
                drop(job);
                let mut idle = self.idle.lock();
                let before = idle.len();
                idle.retain(|other| !Arc::ptr_eq(other, &desk));
                if idle.len() < before {
                    return None;
                }
                drop(idle);
                // Somebody has taken the desk and is about to leave a job on it.
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
    fn every_job_runs_even_if_all_wait_for_each_other() {
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
