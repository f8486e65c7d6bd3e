//! How far gathering is: workers that are done wait for those that are not.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use rowmill_base::{Cancel, Result};

use super::Gathered;
use super::gather;

/// What the workers of a grouping tell each other.
#[derive(Default)]
pub(super) struct Progress {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// Workers that gather.
    gathering: usize,
    /// Whether some worker found nothing more to take.
    exhausted: bool,
    failed: bool,
    gathered: Vec<gather::Gathered>,
    /// What all workers gathered, once they are done.
    all: Option<Arc<Gathered>>,
}

/// A worker's time among those that gather. It ends for the others whatever happens.
pub(super) struct Turn<'a> {
    progress: &'a Progress,
    gathered: Option<gather::Gathered>,
}

impl Progress {
    /// Begins to gather, if it is worth it.
    pub(super) fn begin(&self) -> Option<Turn<'_>> {
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
        join: impl FnOnce(Vec<gather::Gathered>) -> Gathered,
    ) -> Result<Option<Arc<Gathered>>> {
        let mut state = self.state.lock();
        loop {
            if state.failed {
                return Ok(None);
            }
            if state.gathering == 0 {
                let state = &mut *state;
                let all = state.all.get_or_insert_with(|| Arc::new(join(std::mem::take(&mut state.gathered))));
                return Ok(Some(Arc::clone(all)));
            }
            cancel.check()?;
            self.changed.wait_for(&mut state, Duration::from_millis(10));
        }
    }
}

impl Turn<'_> {
    /// Ends the turn of a worker that found nothing more to take.
    pub(super) fn end(mut self, gathered: gather::Gathered) {
        self.gathered = Some(gathered);
    }
}

impl Drop for Turn<'_> {
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
