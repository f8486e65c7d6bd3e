//! Threads with a large stack for parsing and planning, and panics caught at the statement's border.
//!
//! The planner recurses over the statement's tree. Its own passes grow the stack when it runs out, but cloning,
//! comparing, printing and dropping a tree do not, so planning runs on a thread whose stack holds any tree that passed
//! the statement's limits. The stack is address space: a page of it is memory only once it was used.
//!
//! The caller waits for the thread and looks at the cancel flag meanwhile. Planning has no place to stop, so when the
//! statement is cancelled, its deadline passes or its planning takes too long, the caller leaves with the error and the
//! thread goes on alone until the next rule of the optimiser asks ([`is_left_alone`]) or the planner returns; then its
//! result is dropped and the thread takes the next statement. What it holds meanwhile is one core and the plan. At most
//! [`ABANDONED_MAX`] threads are left alone at a time; with more of them, statements are refused until one comes back.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, Once, PoisonError};
use std::time::{Duration, Instant};

use rowmill_base::{Cancel, Error, ErrorKind, Result, Settings};

use crate::errors::from_panic;

/// Stack of a planning thread, and what a thread that runs operators should have (they recurse over expressions too).
pub const STACK_BYTES: usize = 1 << 30;

/// Planning threads left alone at a time.
const ABANDONED_MAX: usize = 8;

/// Planning threads kept for the next statement.
const IDLE_MAX: usize = 4;

/// How often the waiting caller looks at the cancel flag.
const LOOK_INTERVAL: Duration = Duration::from_millis(10);

type Job = Box<dyn FnOnce() + Send>;

static IDLE: Mutex<Vec<Sender<Job>>> = Mutex::new(Vec::new());
static ABANDONED: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static LARGE: Cell<bool> = const { Cell::new(false) };
    static QUIET: Cell<bool> = const { Cell::new(false) };
    /// How the work of this thread stands: running, left or done.
    static STANDING: RefCell<Arc<AtomicUsize>> = RefCell::default();
}

/// Whether nobody waits any more for what this thread works on.
pub(super) fn is_left_alone() -> bool {
    STANDING.with_borrow(|standing| standing.load(Ordering::Relaxed) == LEFT)
}

/// Whether this thread plans; plans are run on others.
pub(super) fn is_planning() -> bool {
    LARGE.get()
}

/// How long someone waits for a plan.
#[derive(Clone, Debug)]
pub struct Patience {
    cancel: Cancel,
    /// Milliseconds (`planning_timeout_ms`); 0 is no limit.
    planning_max_ms: u64,
}

impl Patience {
    /// Until `cancel` says otherwise, and as long as `settings` allow.
    pub fn new(cancel: &Cancel, settings: &Settings) -> Patience {
        Patience { cancel: cancel.clone(), planning_max_ms: settings.number("planning_timeout_ms") }
    }

    /// An error when it has ended, for planning that began at `started`.
    fn check(&self, started: Instant) -> Result<()> {
        self.cancel.check()?;
        if self.planning_max_ms == 0 || started.elapsed() < Duration::from_millis(self.planning_max_ms) {
            return Ok(());
        }
        let max = self.planning_max_ms;
        let message = format!("planning the statement takes longer than {max} ms (planning_timeout_ms)");
        Err(Error::new(ErrorKind::Deadline, message)
            .hint("split the statement, or raise the limit with SET planning_timeout_ms = ...; 0 means no limit"))
    }
}

/// Runs `work` on a thread with a large stack and waits for its result, as long as `patience` lasts.
///
/// A panic of `work` comes back as an error of kind `Internal`. Called on such a thread, `work` runs in place.
pub fn run_on_large_stack<T: Send + 'static>(
    patience: &Patience,
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    patience.cancel.check()?;
    if LARGE.get() {
        return catch_panics(work);
    }
    if ABANDONED.load(Ordering::Relaxed) >= ABANDONED_MAX {
        return Err(Error::new(
            ErrorKind::StatementTooComplex,
            format!("{ABANDONED_MAX} statements that were given up are still being planned"),
        )
        .hint("try again when they have ended"));
    }
    let left = Arc::new(AtomicUsize::new(RUNNING));
    let (send, receive) = channel();
    hand_out(Box::new({
        let left = left.clone();
        move || {
            STANDING.replace(left.clone());
            let result = catch_panics(work);
            // Nobody waits for the result of an abandoned statement.
            let _ = send.send(result);
            if left.swap(DONE, Ordering::AcqRel) == LEFT {
                ABANDONED.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }))?;
    wait(&receive, patience, &left)
}

const RUNNING: usize = 0;
const LEFT: usize = 1;
const DONE: usize = 2;

fn wait<T>(receive: &Receiver<Result<T>>, patience: &Patience, left: &AtomicUsize) -> Result<T> {
    let started = Instant::now();
    loop {
        match receive.recv_timeout(LOOK_INTERVAL) {
            Ok(result) => return result,
            Err(RecvTimeoutError::Disconnected) => return Err(Error::internal("a planning thread ended early")),
            Err(RecvTimeoutError::Timeout) => {}
        }
        if let Err(error) = patience.check(started) {
            ABANDONED.fetch_add(1, Ordering::Relaxed);
            if left.swap(LEFT, Ordering::AcqRel) == DONE {
                ABANDONED.fetch_sub(1, Ordering::Relaxed);
            }
            return Err(error);
        }
    }
}

/// Gives `job` to an idle thread, or to a new one.
fn hand_out(mut job: Job) -> Result<()> {
    loop {
        let idle = IDLE.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let Some(idle) = idle else { break };
        match idle.send(job) {
            Ok(()) => return Ok(()),
            // That thread has ended; the job comes back.
            Err(returned) => job = returned.0,
        }
    }
    let (send, receive) = channel::<Job>();
    send.send(job).expect("the receiver is held here");
    std::thread::Builder::new()
        .name("rowmill-plan".into())
        .stack_size(STACK_BYTES)
        .spawn(move || serve(send, receive))
        .map(drop)
        .map_err(|error| Error::io("starting a thread for planning", &error))
}

fn serve(own: Sender<Job>, jobs: Receiver<Job>) {
    LARGE.set(true);
    quiet_panics();
    while let Ok(job) = jobs.recv() {
        job();
        let mut idle = IDLE.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() >= IDLE_MAX {
            return;
        }
        idle.push(own.clone());
    }
}

/// Runs `work` and turns a panic into an error with the panic's message. Nothing is printed.
pub fn catch_panics<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    install_hook();
    let before = QUIET.replace(true);
    let result = catch_unwind(AssertUnwindSafe(work));
    QUIET.set(before);
    result.unwrap_or_else(|payload: Box<dyn Any + Send>| Err(from_panic(payload.as_ref())))
}

/// Panics of this thread are not printed from now on: whoever catches them reports them.
///
/// For the start hook of a runtime whose threads run statements only.
pub fn quiet_panics() {
    install_hook();
    QUIET.set(true);
}

/// The host's panic hook stays in charge of every thread that is not ours.
fn install_hook() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let host = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if !QUIET.get() {
                host(info);
            }
        }));
    });
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn patience() -> Patience {
        Patience::new(&Cancel::new(), &Settings::default())
    }

    #[test]
    fn results_errors_and_panics_come_back() {
        let patience = patience();
        assert_eq!(run_on_large_stack(&patience, || Ok(7)).unwrap(), 7);
        let error = run_on_large_stack(&patience, || Err::<(), _>(Error::corrupt("x"))).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt);
        let error = run_on_large_stack::<()>(&patience, || panic!("invariant {}", 5)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Internal);
        assert!(error.message().contains("invariant 5"), "{error}");
        assert_eq!(run_on_large_stack(&patience, || Ok(8)).unwrap(), 8);
    }

    #[test]
    fn recursion_has_room() {
        fn deep(n: u64) -> u64 {
            let room = std::hint::black_box([n; 64]);
            if n == 0 { 0 } else { 1 + deep(n - 1) + room[5] - n }
        }
        assert_eq!(run_on_large_stack(&patience(), || Ok(deep(1_000_000))).unwrap(), 1_000_000);
    }

    #[test]
    fn waiting_ends_with_the_deadline_or_the_patience() {
        let cancel = Cancel::new();
        cancel.set_deadline(Duration::from_millis(50));
        let by_deadline = Patience::new(&cancel, &Settings::default());
        let by_patience = Patience { cancel: Cancel::new(), planning_max_ms: 50 };
        for (patience, setting) in [(by_deadline, "deadline of 50 ms"), (by_patience, "planning_timeout_ms")] {
            let started = Instant::now();
            let (send, receive) = channel::<()>();
            let error = run_on_large_stack(&patience, move || {
                let _ = receive.recv();
                Ok(())
            })
            .unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Deadline);
            assert!(error.message().contains(setting), "{error}");
            assert!(started.elapsed() < Duration::from_secs(2));
            drop(send);
        }
    }
}
