//! The threads that run queries.
//!
//! A thread runs one job after the other. Without a job it waits at its desk. It spins for a short time first, because
//! the next query of a connection often comes at once, and waking a thread takes as long as a small query. Then it
//! sleeps. The pool has no upper limit: every job that is started gets a thread at once. A job may wait for the reader
//! of its batches, and the reader may start another query first, so a fixed number of threads could deadlock.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use rowmill_base::{Error, ErrorKind, Result};

use crate::spin::{set_spin, spin_until};

/// The time that a thread waits for a job before it ends. It must be longer than the pauses of a busy connection. A new
/// thread takes 50 µs to start and end, so even one that is needed once in 10 s costs nothing.
const IDLE_MAX: Duration = Duration::from_secs(10);

/// A pool of threads that grows as needed. Its threads end when it is dropped; a thread with a job ends after the job.
#[derive(Debug)]
pub struct Workers(Arc<Pool>);

#[derive(Debug)]
struct Pool {
    name: &'static str,
    stack_bytes: usize,
    idle: Mutex<IdleThreads>,
}

/// The threads without a job.
#[derive(Debug, Default)]
struct IdleThreads {
    /// The desk that was added last is taken first, so that threads that waited long can end.
    desks: VecDeque<Arc<Desk>>,
    /// Whether the pool was dropped, so that no thread needs to wait.
    are_dismissed: bool,
}

/// The place where a thread waits for its next job.
#[derive(Debug, Default)]
struct Desk {
    is_called: AtomicBool,
    call: Mutex<DeskMessage>,
    wake: Condvar,
}

/// The message on a desk.
#[derive(Debug, Default)]
enum DeskMessage {
    #[default]
    None,
    Work(Job),
    /// The thread must end.
    Dismissal,
}

struct Job {
    work: Box<dyn FnOnce() + Send>,
    /// The time for which the thread looks for work before it sleeps, during this job and after it.
    spin: Duration,
}

impl fmt::Debug for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Job").field("spin", &self.spin).finish_non_exhaustive()
    }
}

impl Workers {
    /// Makes a pool without threads. Its threads will have this name and stack size.
    pub fn new(name: &'static str, stack_bytes: usize) -> Workers {
        Workers(Arc::new(Pool { name, stack_bytes, idle: Mutex::default() }))
    }

    /// Runs `work` on a thread of the pool. The work must not panic. During the work and after it, the thread looks for
    /// further work for the time `spin` before it sleeps.
    pub fn start(&self, spin: Duration, work: impl FnOnce() + Send + 'static) -> Result<()> {
        let job = Job { work: Box::new(work), spin };
        let idle = self.0.idle.lock().desks.pop_back();
        if let Some(desk) = idle {
            desk.call(DeskMessage::Work(job));
            return Ok(());
        }
        let pool = Arc::clone(&self.0);
        let started = thread::Builder::new().name(pool.name.into()).stack_size(pool.stack_bytes).spawn(move || {
            let mut next = Some(job);
            while let Some(Job { work, spin }) = next {
                set_spin(spin);
                work();
                next = pool.next_job();
            }
        });
        started.map(|_| ()).map_err(|error| {
            Error::new(ErrorKind::Io, format!("the operating system refused a thread for a query: {error}"))
                .hint("lower the setting threads, or raise this user's limit of threads")
        })
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        let mut idle = self.0.idle.lock();
        idle.are_dismissed = true;
        // We do not wait for the threads to end, because the last owner of the pool may be one of them.
        for desk in idle.desks.drain(..) {
            desk.call(DeskMessage::Dismissal);
        }
    }
}

impl Pool {
    /// Waits for the next job of the calling thread. `None` if the thread must end: after a long time without a job, or
    /// if the pool was dropped.
    fn next_job(&self) -> Option<Job> {
        let desk = Arc::new(Desk::default());
        {
            let mut idle = self.idle.lock();
            if idle.are_dismissed {
                return None;
            }
            idle.desks.push_back(Arc::clone(&desk));
        }
        // Spin without a lock first. The condition variable below is for longer waits.
        spin_until(|| desk.is_called.load(Ordering::Acquire));
        let mut call = desk.call.lock();
        loop {
            match std::mem::take(&mut *call) {
                DeskMessage::Work(job) => return Some(job),
                DeskMessage::Dismissal => return None,
                DeskMessage::None => {}
            }
            if desk.wake.wait_for(&mut call, IDLE_MAX).timed_out() && matches!(*call, DeskMessage::None) {
                // The lock of the call must be released first: a dropped pool takes the two locks in the other order.
                drop(call);
                let mut idle = self.idle.lock();
                let before = idle.desks.len();
                idle.desks.retain(|other| !Arc::ptr_eq(other, &desk));
                if idle.desks.len() < before {
                    return None;
                }
                drop(idle);
                // The desk is no longer in the list, so its thread is about to be called.
                call = desk.call.lock();
            }
        }
    }
}

impl Desk {
    fn call(&self, call: DeskMessage) {
        // Put the message on the desk before setting the flag. Otherwise a spinning thread might find nothing and
        // sleep.
        *self.call.lock() = call;
        self.is_called.store(true, Ordering::Release);
        self.wake.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;
    use std::sync::mpsc::channel;

    #[test]
    fn all_jobs_run_even_if_they_wait_for_each_other() {
        let workers = Workers::new("test", 1 << 20);
        for round in 0..50 {
            let spin = Duration::from_micros(round % 2 * 100);
            let barrier = Arc::new(Barrier::new(5));
            let (done, results) = channel();
            for number in 0..5 {
                let (barrier, done) = (Arc::clone(&barrier), done.clone());
                workers
                    .start(spin, move || {
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

    #[test]
    fn threads_end_when_the_pool_is_dropped() {
        let workers = Workers::new("test", 1 << 20);
        let pool = Arc::downgrade(&workers.0);
        let (barrier, (done, results)) = (Arc::new(Barrier::new(2)), channel());
        let waiting = Arc::clone(&barrier);
        // One thread is idle when the pool is dropped, the other one has a job.
        workers.start(Duration::ZERO, move || done.send(1).expect("the test listens")).expect("a thread");
        assert_eq!(results.recv(), Ok(1));
        workers
            .start(Duration::ZERO, move || {
                waiting.wait();
            })
            .expect("a thread");
        drop(workers);
        barrier.wait();
        // Each thread holds the pool until it ends.
        let begun = std::time::Instant::now();
        while pool.strong_count() > 0 {
            assert!(begun.elapsed() < IDLE_MAX / 2, "the threads of a dropped pool must end at once");
            thread::yield_now();
        }
    }
}
