//! Who reads one state of the base again and again, with the read that is kept from one look-up to the next.
//!
//! A transaction has a place of its own at its [`Generation`], taken at its first look-up. The lock of a seat is waited for
//! only where threads read for one transaction, or where a checkpoint takes the read away.

use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use rowmill_base::Result;

use super::generation::Generation;
use crate::base::BaseRead;

/// A read that is opened when it is needed and stays open until somebody needs it gone.
#[derive(Default)]
pub(super) struct Seat {
    read: Mutex<Option<Box<dyn BaseRead>>>,
}

impl Seat {
    pub(super) fn let_go(&self) {
        *self.read.lock() = None;
    }

    /// The same, unless somebody reads this moment.
    pub(super) fn let_go_if_idle(&self) {
        if let Some(mut read) = self.read.try_lock() {
            *read = None;
        }
    }
}

/// Reads a state of the base for one transaction, or for one statement.
pub(crate) struct BaseReader {
    generation: Arc<Generation>,
    seat: OnceLock<Option<Arc<Seat>>>,
}

impl BaseReader {
    /// Of `generation`. Nothing is opened yet.
    pub(crate) fn new(generation: &Arc<Generation>) -> BaseReader {
        BaseReader { generation: Arc::clone(generation), seat: OnceLock::new() }
    }

    /// Reads the state; where it can have no rows, `nothing` is what is found. What `look` does must not read it again.
    pub(super) fn read<T>(&self, nothing: T, look: impl FnOnce(&dyn BaseRead) -> Result<T>) -> Result<T> {
        let Some(seat) = self.seat.get_or_init(|| self.generation.take_seat()) else {
            return self.generation.read(nothing, look);
        };
        let mut read = seat.read.lock();
        if read.is_none() {
            *read = self.generation.open()?;
        }
        match &*read {
            Some(read) => look(&**read),
            // The state has ended since it was let go of.
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
