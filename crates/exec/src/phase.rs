//! Work that any number of workers share, one phase after the other.
//!
//! ```text
//! enter   a worker joins the phase and takes pieces of the work from wherever they are shared
//! leave   the worker found no more pieces, and hands over the part that it made
//! wait    when all workers that entered have left, one of them makes the whole from the parts, and all workers get it
//! ```
//!
//! A phase ends once. A worker that comes after the last piece was taken only finds the whole. A worker that goes away
//! without leaving cuts the phase short, because its part is missing: no whole is made, and waiting workers go away
//! too. An error does the same, and in addition tells the workers that still work to stop.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex, MutexGuard};
use rowmill_base::{Cancel, Result};

use crate::spin::spin_until;

/// How often a waiting worker checks whether the statement was cancelled. A cancelled statement should end within a
/// tenth of a second.
pub(crate) const CANCEL_INTERVAL: Duration = Duration::from_millis(10);

/// One phase. Parts of type `P` make a whole of type `W`.
pub(crate) struct Phase<P, W> {
    progress: Mutex<PhaseProgress<P, W>>,
    changed: Condvar,
    /// How often the phase changed. Workers that wait but do not sleep yet watch this number.
    changes: AtomicU64,
}

struct PhaseProgress<P, W> {
    /// The number of workers that have entered and not left.
    working: usize,
    /// Whether a worker has left, which means that no pieces are left.
    exhausted: bool,
    parts: Vec<P>,
    outcome: PhaseOutcome<W>,
}

enum PhaseOutcome<W> {
    Open,
    /// A worker is making the whole from the parts.
    Making,
    Whole(Arc<W>),
    /// There will be no whole, but workers that have entered may go on.
    Cut,
    /// There will be no whole, and no worker needs to go on.
    Over,
}

impl<P, W> Default for Phase<P, W> {
    fn default() -> Self {
        let progress = PhaseProgress { working: 0, exhausted: false, parts: Vec::new(), outcome: PhaseOutcome::Open };
        Phase { progress: Mutex::new(progress), changed: Condvar::new(), changes: AtomicU64::new(0) }
    }
}

impl<P, W> Phase<P, W> {
    /// Enters the phase. `None` if its work is done or was given up.
    pub(crate) fn enter(self: &Arc<Self>) -> Option<Turn<P, W>> {
        let mut progress = self.progress.lock();
        match progress.outcome {
            PhaseOutcome::Open | PhaseOutcome::Cut => {
                progress.working += 1;
                Some(Turn { phase: Arc::clone(self), left: false })
            }
            PhaseOutcome::Making | PhaseOutcome::Whole(_) | PhaseOutcome::Over => None,
        }
    }

    /// Whether going on with the work is useless.
    pub(crate) fn is_over(&self) -> bool {
        matches!(self.progress.lock().outcome, PhaseOutcome::Over)
    }

    /// The whole, if it is made and was not freed.
    pub(crate) fn whole(&self) -> Option<Arc<W>> {
        match &self.progress.lock().outcome {
            PhaseOutcome::Whole(whole) => Some(Arc::clone(whole)),
            _ => None,
        }
    }

    /// Ends the phase for all workers and frees the whole.
    pub(crate) fn end(&self) {
        self.settle(PhaseOutcome::Over);
    }

    fn settle(&self, outcome: PhaseOutcome<W>) {
        let mut progress = self.progress.lock();
        if !matches!(progress.outcome, PhaseOutcome::Over) {
            progress.outcome = outcome;
        }
        progress.parts.clear();
        self.tell();
    }

    /// Wakes all waiting workers after a change.
    fn tell(&self) {
        self.changes.fetch_add(1, Ordering::Release);
        self.changed.notify_all();
    }

    /// Waits until no worker is working. The first worker that sees this makes the whole. `None` if there is no whole.
    pub(crate) fn wait(&self, cancel: &Cancel, make: impl FnOnce(Vec<P>) -> Result<W>) -> Result<Option<Arc<W>>> {
        let mut progress = self.progress.lock();
        let mut has_spun = false;
        loop {
            match &progress.outcome {
                PhaseOutcome::Whole(whole) => return Ok(Some(Arc::clone(whole))),
                PhaseOutcome::Cut | PhaseOutcome::Over => return Ok(None),
                PhaseOutcome::Open if progress.working == 0 && progress.exhausted => break,
                PhaseOutcome::Open | PhaseOutcome::Making => {
                    cancel.check()?;
                    // Spin once before sleeping: phases often end within microseconds, and waking a thread takes
                    // longer.
                    if !std::mem::replace(&mut has_spun, true) {
                        let seen = self.changes.load(Ordering::Acquire);
                        let has_changed = || self.changes.load(Ordering::Acquire) != seen;
                        MutexGuard::unlocked(&mut progress, || spin_until(has_changed));
                        continue;
                    }
                    self.changed.wait_for(&mut progress, CANCEL_INTERVAL);
                }
            }
        }
        progress.outcome = PhaseOutcome::Making;
        // Making the whole may take long, so the lock is released. The outcome keeps other workers from making it too.
        let parts = std::mem::take(&mut progress.parts);
        drop(progress);
        // If `make` fails or panics, the guard must end the phase. Otherwise the others would wait forever.
        let mut guard = EndOnDrop(Some(self));
        let whole = Arc::new(make(parts)?);
        guard.0 = None;
        self.settle(PhaseOutcome::Whole(Arc::clone(&whole)));
        Ok(Some(whole))
    }

    /// Enters, works, leaves and waits. An error of `work` ends the phase for all workers.
    pub(crate) fn run(
        self: &Arc<Self>,
        cancel: &Cancel,
        work: impl FnOnce() -> Result<P>,
        make: impl FnOnce(Vec<P>) -> Result<W>,
    ) -> Result<Option<Arc<W>>> {
        if let Some(turn) = self.enter() {
            let mut guard = EndOnDrop(Some(&**self));
            let part = work()?;
            guard.0 = None;
            turn.leave(part);
        }
        self.wait(cancel, make)
    }
}

/// Ends a phase if an error or a panic leaves the scope.
struct EndOnDrop<'a, P, W>(Option<&'a Phase<P, W>>);

impl<P, W> Drop for EndOnDrop<'_, P, W> {
    fn drop(&mut self) {
        if let Some(phase) = self.0 {
            phase.end();
        }
    }
}

/// The time from a worker's entering to its leaving.
pub(crate) struct Turn<P, W> {
    phase: Arc<Phase<P, W>>,
    left: bool,
}

impl<P, W> Turn<P, W> {
    /// Leaves the phase. No pieces are left, and `part` is the result of the pieces that this worker took.
    pub(crate) fn leave(mut self, part: P) {
        let mut progress = self.phase.progress.lock();
        progress.exhausted = true;
        progress.parts.push(part);
        self.left = true;
    }
}

impl<P, W> Drop for Turn<P, W> {
    fn drop(&mut self) {
        let mut progress = self.phase.progress.lock();
        progress.working -= 1;
        // The worker goes away without its part, so the whole cannot be made.
        if !self.left && matches!(progress.outcome, PhaseOutcome::Open) {
            progress.outcome = PhaseOutcome::Cut;
        }
        self.phase.tell();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use rowmill_base::{Error, ErrorKind};

    use super::*;

    type Sum = Phase<usize, usize>;

    fn sum(parts: Vec<usize>) -> Result<usize> {
        Ok(parts.into_iter().sum())
    }

    #[test]
    fn the_whole_is_made_once_from_all_parts() {
        let (phase, next, made) = (Arc::new(Sum::default()), AtomicUsize::new(0), AtomicUsize::new(0));
        let work = || {
            let pieces = std::iter::from_fn(|| Some(next.fetch_add(1, Ordering::Relaxed)).filter(|next| *next < 1_000));
            Ok(pieces.sum())
        };
        let make = |parts: Vec<usize>| {
            made.fetch_add(1, Ordering::Relaxed);
            sum(parts)
        };
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let whole = phase.run(&Cancel::new(), work, make).expect("nothing fails");
                    assert_eq!(whole.as_deref(), Some(&499_500));
                });
            }
        });
        assert_eq!(made.load(Ordering::Relaxed), 1);
        let late = phase.run(&Cancel::new(), || unreachable!("the work is done"), sum).expect("nothing fails");
        assert_eq!(late.as_deref(), Some(&499_500));
        phase.end();
        assert_eq!(phase.run(&Cancel::new(), work, sum).expect("nothing fails"), None);
    }

    #[test]
    fn a_failure_ends_the_phase_for_all() {
        let phase = Arc::new(Sum::default());
        let error = phase.run(&Cancel::new(), || Err(Error::new(ErrorKind::Io, "disk")), sum).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Io);
        assert!(phase.is_over());
        assert_eq!(phase.run(&Cancel::new(), || Ok(1), sum).expect("ends quietly"), None);

        let phase = Arc::new(Sum::default());
        phase.run(&Cancel::new(), || Ok(1), |_| Err(Error::new(ErrorKind::Io, "disk"))).unwrap_err();
        assert_eq!(phase.wait(&Cancel::new(), sum).expect("ends quietly"), None);
    }

    #[test]
    fn a_dropped_turn_cuts_the_phase_but_stops_no_worker() {
        let phase = Arc::new(Sum::default());
        let (gone, stays) = (phase.enter().expect("open"), phase.enter().expect("open"));
        drop(gone);
        assert!(!phase.is_over());
        stays.leave(5);
        assert_eq!(phase.wait(&Cancel::new(), sum).expect("ends quietly"), None);
    }

    #[test]
    fn a_waiting_worker_can_be_cancelled() {
        let phase = Arc::new(Sum::default());
        let _working = phase.enter().expect("open");
        let cancel = Cancel::new();
        cancel.cancel();
        assert_eq!(phase.wait(&cancel, sum).unwrap_err().kind(), ErrorKind::Cancelled);
    }
}
