//! How far something is that all workers do together: those that are done wait for those that are not.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use rowmill_base::{Cancel, Result};

/// What the workers of a grouping tell each other: each of them gathers a `Part`, which together are the `Whole`.
pub(super) struct Progress<Part, Whole> {
    state: Mutex<State<Part, Whole>>,
    changed: Condvar,
}

struct State<Part, Whole> {
    /// Workers that gather.
    gathering: usize,
    /// Whether some worker found nothing more to take.
    exhausted: bool,
    failed: bool,
    gathered: Vec<Part>,
    /// What all workers gathered, once they are done.
    all: Option<Arc<Whole>>,
}

/// A worker's time among those that gather. It ends for the others whatever happens.
pub(super) struct Turn<'a, Part, Whole> {
    progress: &'a Progress<Part, Whole>,
    gathered: Option<Part>,
}

impl<Part, Whole> Progress<Part, Whole> {
    /// Nobody has begun.
    pub(super) fn new() -> Progress<Part, Whole> {
        let state = State { gathering: 0, exhausted: false, failed: false, gathered: Vec::new(), all: None };
        Progress { state: Mutex::new(state), changed: Condvar::new() }
    }

    /// Begins to gather, if it is worth it.
    pub(super) fn begin(&self) -> Option<Turn<'_, Part, Whole>> {
        let mut state = self.state.lock();
        if state.exhausted || state.failed {
            return None;
        }
        state.gathering += 1;
        Some(Turn { progress: self, gathered: None })
    }

    /// Waits until no worker gathers any more, and gives what all gathered, put together once by `join`. `None` if one
    /// of them failed.
    pub(super) fn wait(
        &self,
        cancel: &Cancel,
        join: impl FnOnce(Vec<Part>) -> Result<Whole>,
    ) -> Result<Option<Arc<Whole>>> {
        let mut state = self.state.lock();
        loop {
            if state.failed {
                return Ok(None);
            }
            if state.gathering == 0 {
                if let Some(all) = &state.all {
                    return Ok(Some(Arc::clone(all)));
                }
                let all = join(std::mem::take(&mut state.gathered)).inspect_err(|_| state.failed = true)?;
                return Ok(Some(Arc::clone(state.all.insert(Arc::new(all)))));
            }
            cancel.check()?;
            self.changed.wait_for(&mut state, Duration::from_millis(10));
        }
    }
}

impl<Part, Whole> Turn<'_, Part, Whole> {
    /// Ends the turn of a worker that found nothing more to take.
    pub(super) fn end(mut self, gathered: Part) {
        self.gathered = Some(gathered);
    }
}

impl<Part, Whole> Drop for Turn<'_, Part, Whole> {
    fn drop(&mut self) {
        let mut state = self.progress.state.lock();
        state.gathering -= 1;
        match self.gathered.take() {
            Some(gathered) => {
                state.exhausted = true;
                state.gathered.push(gathered);
            }
            None => {
                state.failed = true;
                state.gathered.clear();
            }
        }
        self.progress.changed.notify_all();
    }
}
