//! The gate that guards a mapping that may move.
//!
//! LMDB maps its file once. When the file outgrows the mapping, or another process let it grow, this process must map
//! the file again. No transaction may be open then, because its pages would be unmapped while it reads them. So every
//! transaction enters the gate and leaves it when it ends, and a remapping runs alone.
//!
//! While a remapping waits for a moment without transactions, new ones must still be let in. For example, a thread that
//! holds a read and begins another one would otherwise wait for itself. The price is that overlapping reads can delay
//! the remapping forever, so it waits for a limited time and then gives up. Our mappings are so long that this is rare.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

/// Counts the open transactions.
#[derive(Debug, Default)]
pub(super) struct Gate {
    inside: Mutex<usize>,
    left: Condvar,
}

/// The place of an open transaction inside the gate. Leaves the gate when dropped.
#[derive(Debug)]
pub(super) struct Entered(Arc<Gate>);

impl Gate {
    /// Enters the gate. Waits only while a remapping runs.
    pub(super) fn enter(self: &Arc<Self>) -> Entered {
        // `alone` holds this lock while its change runs, so we wait exactly that long.
        *self.inside.lock() += 1;
        Entered(Arc::clone(self))
    }

    /// Runs `change` while no transaction is inside. Returns `None` if no such moment came within `patience`.
    pub(super) fn alone<T>(&self, patience: Duration, change: impl FnOnce() -> T) -> Option<T> {
        let deadline = Instant::now() + patience;
        let mut inside = self.inside.lock();
        while *inside > 0 {
            if self.left.wait_until(&mut inside, deadline).timed_out() && *inside > 0 {
                return None;
            }
        }
        // The lock is still held here, so no transaction can enter before `change` has run.
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
            // A thread that waits to be alone should not keep other threads out.
            drop(gate.enter());
            drop(first);
            assert_eq!(alone.join().ok(), Some(Some(2)));
        });
    }
}
