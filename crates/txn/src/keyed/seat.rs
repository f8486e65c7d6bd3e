//! A transaction's place at a state of the base. It keeps one read open from one look-up to the next.
//!
//! A transaction takes its own seat at its [`Generation`] with its first look-up. A thread waits for the lock of a seat
//! only if several threads read for one transaction, or if a checkpoint closes the read.

use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use rowmill_base::Result;

use super::generation::Generation;
use crate::base::BaseRead;

/// A read that is opened on demand and stays open until a checkpoint closes it.
#[derive(Default)]
pub(super) struct Seat {
    read: Mutex<Option<Box<dyn BaseRead>>>,
}

impl Seat {
    /// Closes the read. Waits for a look-up that is using it.
    pub(super) fn let_go(&self) {
        *self.read.lock() = None;
    }
}

/// Reads a state of the base for one transaction or one statement.
pub(crate) struct BaseReader {
    generation: Arc<Generation>,
    seat: OnceLock<Option<Arc<Seat>>>,
}

impl BaseReader {
    /// A reader of `generation`. Nothing is opened yet.
    pub(crate) fn new(generation: &Arc<Generation>) -> BaseReader {
        BaseReader { generation: Arc::clone(generation), seat: OnceLock::new() }
    }

    /// Calls `look` with a read of the state, or returns `nothing` if the state cannot have rows. `look` must not call
    /// this again, because the seat is locked.
    pub(super) fn read<T>(&self, nothing: T, look: impl FnOnce(&dyn BaseRead) -> Result<T>) -> Result<T> {
        let Some(seat) = self.seat.get_or_init(|| self.generation.take_seat()) else {
            return self.generation.read(nothing, look);
        };
        // The lock is held during the look-up, so that a checkpoint cannot close the read in between.
        let mut read = seat.read.lock();
        if read.is_none() {
            *read = self.generation.open()?;
        }
        match &*read {
            Some(read) => look(&**read),
            // A checkpoint closed our read, and the base has moved on to a newer state since. It cannot read our state
            // again, so all share the one read that the generation keeps.
            None => self.generation.read(nothing, look),
        }
    }
}

impl Drop for BaseReader {
    fn drop(&mut self) {
        if let Some(Some(seat)) = self.seat.take() {
            self.generation.give_seat_back(seat);
        }
    }
}

impl std::fmt::Debug for BaseReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BaseReader").field("generation", &self.generation).finish_non_exhaustive()
    }
}
