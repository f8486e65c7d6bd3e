//! What slices hand on to the slices after them.
//!
//! ```text
//! worker 0   slice 0: read | hand on | the rest of the work        | slice 2: read | ...
//! worker 1   slice 1: read |    wait | hand on | the rest of the work
//! ```
//!
//! Each slice takes what the slice before it has handed on, before it hands on its own. Workers take slices in order,
//! so the worker that others wait for is always at work. If it fails, it tells the others, and they end.

use parking_lot::{Condvar, Mutex};
use rowmill_base::{Cancel, Result};

use crate::phase::CANCEL_INTERVAL;

/// Values that slices hand on. The first slice gets the default value.
#[derive(Default)]
pub(crate) struct SliceRelay<T> {
    handed_on: Mutex<HandedOn<T>>,
    changed: Condvar,
}

#[derive(Default)]
struct HandedOn<T> {
    /// The first slice that has not handed on its value yet.
    next: usize,
    /// The value for slice `next`. Those of slices before it were taken.
    value: T,
    has_failed: bool,
}

/// The duty of a slice to hand on its value. Dropped, it tells the workers of later slices that there is none.
pub(crate) struct SliceDuty<'a, T> {
    relay: &'a SliceRelay<T>,
    slice: usize,
    is_done: bool,
}

impl<T: Default> SliceRelay<T> {
    /// Begins a slice.
    pub(crate) fn begin(&self, slice: usize) -> SliceDuty<'_, T> {
        SliceDuty { relay: self, slice, is_done: false }
    }
}

impl<T: Default> SliceDuty<'_, T> {
    /// Waits for the value of the slice before this one, and takes it. Returns `None` if it will never come.
    pub(crate) fn value_before(&self, cancel: &Cancel) -> Result<Option<T>> {
        let mut handed_on = self.relay.handed_on.lock();
        loop {
            if handed_on.has_failed {
                return Ok(None);
            }
            if handed_on.next == self.slice {
                return Ok(Some(std::mem::take(&mut handed_on.value)));
            }
            self.relay.changed.wait_for(&mut handed_on, CANCEL_INTERVAL);
            cancel.check()?;
        }
    }

    /// Hands on the value to the next slice.
    pub(crate) fn hand_on(mut self, value: T) {
        let mut handed_on = self.relay.handed_on.lock();
        debug_assert_eq!(handed_on.next, self.slice, "slices hand on in order");
        (handed_on.next, handed_on.value) = (self.slice + 1, value);
        self.relay.changed.notify_all();
        self.is_done = true;
    }
}

impl<T> Drop for SliceDuty<'_, T> {
    fn drop(&mut self) {
        if !self.is_done {
            self.relay.handed_on.lock().has_failed = true;
            self.relay.changed.notify_all();
        }
    }
}
