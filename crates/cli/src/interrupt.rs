//! Ctrl-C: cancels the running statement, ends a wait, and otherwise ends the program.

use std::sync::{Mutex, MutexGuard, Once};
use std::time::{Duration, Instant};

use rowmill::{CancelHandle, Error, Result};

/// What Ctrl-C means at the moment. It must be global, because the signal handler has no other access to it.
struct InterruptState {
    running: Option<CancelHandle>,
    /// Whether the shell waits for a time or another program, which Ctrl-C ends or handles.
    is_waiting: bool,
    is_interrupted: bool,
    /// When Ctrl-C arrived last during the running statement.
    last: Option<Instant>,
}

static STATE: Mutex<InterruptState> =
    Mutex::new(InterruptState { running: None, is_waiting: false, is_interrupted: false, last: None });

/// The exit code of a program that Ctrl-C ended.
const INTERRUPTED: i32 = 130;

/// How often a wait looks for Ctrl-C.
const POLL: Duration = Duration::from_millis(50);

fn state() -> MutexGuard<'static, InterruptState> {
    STATE.lock().expect("no thread panics while it holds the state")
}

/// Makes Ctrl-C cancel the running statement. It ends the program if no statement runs and nothing waits, or
/// if it comes twice within a second during one statement.
pub(crate) fn handle_interrupts() -> Result<()> {
    // The process can have only one handler.
    static SET: Once = Once::new();
    let mut set = Ok(());
    SET.call_once(|| set = ctrlc::set_handler(on_interrupt));
    set.map_err(|error| Error::internal(format!("Ctrl-C cannot be caught: {error}")))
}

fn on_interrupt() {
    let mut state = state();
    // A statement may not notice the cancellation soon enough, so the user needs a way out. For example, it may be
    // waiting for a disk.
    let is_repeated = state.last.is_some_and(|last| last.elapsed() < Duration::from_secs(1));
    state.last = Some(Instant::now());
    state.is_interrupted = true;
    match &state.running {
        Some(handle) if !is_repeated => handle.cancel(),
        None if state.is_waiting => {}
        _ => std::process::exit(INTERRUPTED),
    }
}

/// While it exists, Ctrl-C cancels the statement instead of the program.
pub(crate) struct RunningStatement;

impl RunningStatement {
    pub(crate) fn begin(handle: CancelHandle) -> RunningStatement {
        let mut state = state();
        state.running = Some(handle);
        // A press that was meant for an earlier statement is not the first of two for this one.
        state.last = None;
        RunningStatement
    }
}

impl Drop for RunningStatement {
    fn drop(&mut self) {
        state().running = None;
    }
}

/// Runs `work`, during which Ctrl-C does not end the program. For example, it is meant for a program that `work` waits
/// for.
pub(crate) fn without_end<T>(work: impl FnOnce() -> T) -> T {
    let was_waiting = {
        let mut state = state();
        state.is_interrupted = false;
        std::mem::replace(&mut state.is_waiting, true)
    };
    let result = work();
    state().is_waiting = was_waiting;
    result
}

/// Runs `work` again and again, with a pause between the runs, until it fails or Ctrl-C arrives. Ctrl-C cancels a
/// running statement.
pub(crate) fn repeat(pause: Duration, mut work: impl FnMut() -> Result<()>) -> Result<()> {
    // One wait spans all runs: Ctrl-C may arrive after the end of a statement and before the pause.
    without_end(|| {
        loop {
            work()?;
            if is_interrupted_within(pause) {
                return Ok(());
            }
        }
    })
}

/// Waits for a time. Returns whether Ctrl-C has arrived since the start of the wait around it.
fn is_interrupted_within(time: Duration) -> bool {
    let until = Instant::now() + time;
    loop {
        if state().is_interrupted {
            return true;
        }
        match until.checked_duration_since(Instant::now()) {
            Some(left) => std::thread::sleep(left.min(POLL)),
            None => return false,
        }
    }
}
