//! The gate in front of a mapping that may move.
//!
//! LMDB maps its file once. When the file outgrows the mapping, or another process has let it, this process has to map
//! it anew, and no transaction may be open meanwhile: its pages would be pulled from under it. So every transaction
//! enters the gate and leaves it when it ends, and a remapping runs alone.
//!
//! Waiting for a moment without transactions must not keep new ones out: a thread that holds a read and begins another
//! would then wait for itself. The price is that a stream of overlapping reads can make the remapping wait for ever, so
//! it waits with patience and gives up. Mappings are made so long that hardly anybody ever gets here.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

/// Counts the transactions that are open.
#[derive(Debug, Default)]
pub(super) struct Gate {
    inside: Mutex<usize>,
    left: Condvar,
}

/// An open transaction's place behind the gate.
#[derive(Debug)]
pub(super) struct Entered(Arc<Gate>);

impl Gate {
    /// Enters. Waits only while somebody runs alone.
    pub(super) fn enter(self: &Arc<Self>) -> Entered {
        *self.inside.lock() += 1;
        Entered(Arc::clone(self))
    }

    /// Runs `change` while nobody is inside. `None` if somebody was for all of `patience`.
    pub(super) fn alone<T>(&self, patience: Duration, change: impl FnOnce() -> T) -> Option<T> {
        let deadline = Instant::now() + patience;
        let mut inside = self.inside.lock();
        while *inside > 0 {
            if self.left.wait_until(&mut inside, deadline).timed_out() && *inside > 0 {
                return None;
            }
        }
        Some(change())
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        let mut inside = self.0.inside.lock();
        *inside -= 1;
        if *inside == 0 {
            self.0.left.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: Duration = Duration::from_millis(20);

    #[test]
    fn alone_waits_until_all_have_left() {
        let gate = Arc::new(Gate::default());
        let first = gate.enter();
        assert_eq!(gate.alone(SHORT, || 1), None);
        std::thread::scope(|scope| {
            let alone = scope.spawn(|| gate.alone(Duration::from_secs(60), || 2));
            std::thread::sleep(SHORT);
            // Who waits to be alone keeps nobody out.
            drop(gate.enter());
            drop(first);
            assert_eq!(alone.join().ok(), Some(Some(2)));
        });
    }
}
