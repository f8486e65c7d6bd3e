//! Work that any number of workers share, one phase after the other.
//!
//! ```text
//! enter   a worker takes pieces of the work from wherever they are shared
//! leave   it found no more, and hands over what it made
//! wait    when all that entered have left, one of them makes the whole of the parts, and everybody has it
//! ```
//!
//! A phase ends once: who comes later than the last piece only finds the whole. A worker that goes away without leaving
//! cuts the phase short, because its part is missing; then there is no whole, and who waits for it goes away too. A
//! failure does the same, and besides tells those that still work to stop.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex, MutexGuard};
use rowmill_base::{Cancel, Result};

use crate::spin::spin_until;

/// How often who waits asks whether the statement was cancelled.
const CANCEL_INTERVAL: Duration = Duration::from_millis(10);

/// One phase: parts of type `P` make a whole of type `W`.
pub(crate) struct Phase<P, W> {
    progress: Mutex<Progress<P, W>>,
    changed: Condvar,
    /// How often it changed, for those that wait and do not sleep yet.
    changes: AtomicU64,
}

struct Progress<P, W> {
    /// Workers that entered and have not left.
    working: usize,
    /// A worker left: there are no more pieces.
    exhausted: bool,
    parts: Vec<P>,
    outcome: Outcome<W>,
}

enum Outcome<W> {
    Open,
    /// A worker is putting the parts together.
    Making,
    Whole(Arc<W>),
    /// There is none, but those that work may go on.
    Cut,
    /// There is none, and nobody has to go on.
    Over,
}

impl<P, W> Default for Phase<P, W> {
    fn default() -> Self {
        let progress = Progress { working: 0, exhausted: false, parts: Vec::new(), outcome: Outcome::Open };
        Phase { progress: Mutex::new(progress), changed: Condvar::new(), changes: AtomicU64::new(0) }
    }
}

impl<P, W> Phase<P, W> {
    /// Begins to work; `None` if the work is done or given up.
    pub(crate) fn enter(self: &Arc<Self>) -> Option<Turn<P, W>> {
        let mut progress = self.progress.lock();
        match progress.outcome {
            Outcome::Open | Outcome::Cut => {
                progress.working += 1;
                Some(Turn { phase: Arc::clone(self), left: false })
            }
            Outcome::Making | Outcome::Whole(_) | Outcome::Over => None,
        }
    }

    /// Whether there is no use in going on.
    pub(crate) fn is_over(&self) -> bool {
        matches!(self.progress.lock().outcome, Outcome::Over)
    }

    /// The whole, if it is made and not let go of.
    pub(crate) fn whole(&self) -> Option<Arc<W>> {
        match &self.progress.lock().outcome {
            Outcome::Whole(whole) => Some(Arc::clone(whole)),
            _ => None,
        }
    }

    /// Ends the phase for everybody and lets go of the whole.
    pub(crate) fn end(&self) {
        self.settle(Outcome::Over);
    }

    fn settle(&self, outcome: Outcome<W>) {
        let mut progress = self.progress.lock();
        if !matches!(progress.outcome, Outcome::Over) {
            progress.outcome = outcome;
        }
        progress.parts.clear();
        self.tell();
    }

    /// Tells those that wait that something changed.
    fn tell(&self) {
        self.changes.fetch_add(1, Ordering::Release);
        self.changed.notify_all();
    }

    /// Waits until nobody works any more. The first to see it makes the whole. `None` if there is none.
    pub(crate) fn wait(&self, cancel: &Cancel, make: impl FnOnce(Vec<P>) -> Result<W>) -> Result<Option<Arc<W>>> {
        let mut progress = self.progress.lock();
        let mut has_spun = false;
        loop {
            match &progress.outcome {
                Outcome::Whole(whole) => return Ok(Some(Arc::clone(whole))),
                Outcome::Cut | Outcome::Over => return Ok(None),
                Outcome::Open if progress.working == 0 && progress.exhausted => break,
                Outcome::Open | Outcome::Making => {
                    cancel.check()?;
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
        progress.outcome = Outcome::Making;
        let parts = std::mem::take(&mut progress.parts);
        drop(progress);
        let mut guard = EndOnDrop(Some(self));
        let whole = Arc::new(make(parts)?);
        guard.0 = None;
        self.settle(Outcome::Whole(Arc::clone(&whole)));
        Ok(Some(whole))
    }

    /// Enters, works, leaves and waits. An error of `work` ends the phase for all.
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

/// Ends a phase on the way out of an error or a panic.
struct EndOnDrop<'a, P, W>(Option<&'a Phase<P, W>>);

impl<P, W> Drop for EndOnDrop<'_, P, W> {
    fn drop(&mut self) {
        if let Some(phase) = self.0 {
            phase.end();
        }
    }
}

/// A worker's time in a phase.
pub(crate) struct Turn<P, W> {
    phase: Arc<Phase<P, W>>,
    left: bool,
}

impl<P, W> Turn<P, W> {
    /// There are no more pieces, and `part` is what came of those that this worker had.
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
        if !self.left && matches!(progress.outcome, Outcome::Open) {
            progress.outcome = Outcome::Cut;
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
    fn the_whole_is_made_once_of_all_parts() {
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
    fn who_goes_away_takes_the_whole_along_but_stops_nobody() {
        let phase = Arc::new(Sum::default());
        let (gone, stays) = (phase.enter().expect("open"), phase.enter().expect("open"));
        drop(gone);
        assert!(!phase.is_over());
        stays.leave(5);
        assert_eq!(phase.wait(&Cancel::new(), sum).expect("ends quietly"), None);
    }

    #[test]
    fn who_waits_can_be_cancelled() {
        let phase = Arc::new(Sum::default());
        let _working = phase.enter().expect("open");
        let cancel = Cancel::new();
        cancel.cancel();
        assert_eq!(phase.wait(&cancel, sum).unwrap_err().kind(), ErrorKind::Cancelled);
    }
}
