//! What the allocator of the process can do for us, if it says so.
//!
//! A library cannot replace the allocator of its host. A host whose allocator counts allocations tells us here how to
//! read the count. Code that measures work reads it before and after. A host whose allocator keeps freed memory for a
//! while tells us how to give it back to the system.

use std::sync::OnceLock;

static COUNT: OnceLock<fn() -> u64> = OnceLock::new();
static RELEASE: OnceLock<fn()> = OnceLock::new();

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

/// Makes [`release`] call `release`, which must give freed memory back to the system. The first call decides.
pub fn release_with(release: fn()) {
    let _ = RELEASE.set(release);
}

/// Gives freed memory back to the system, if the process has told how.
pub fn release() {
    if let Some(release) = RELEASE.get() {
        release();
    }
}
