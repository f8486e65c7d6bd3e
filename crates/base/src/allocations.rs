//! The number of heap allocations, if the process counts them.
//!
//! A library cannot replace the allocator of its host. A host whose allocator counts tells us here how to read the
//! count. Code that measures work reads it before and after.

use std::sync::OnceLock;

static COUNT: OnceLock<fn() -> u64> = OnceLock::new();

/// Makes [`of_thread`] return the result of `count`: the allocations of the calling thread so far. `count` must not
/// allocate, and it should be cheap, because operators call it for every batch. The first call decides.
pub fn count_with(count: fn() -> u64) {
    // A process has only one allocator, so a second call can only register the same count.
    let _ = COUNT.set(count);
}

/// The allocations of the calling thread so far, including reallocations. `None` if the process does not count them.
pub fn of_thread() -> Option<u64> {
    COUNT.get().map(|count| count())
}
