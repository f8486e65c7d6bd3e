//! How often the heap was asked for memory, where the process knows.
//!
//! A library cannot replace the allocator of its host. A host whose allocator counts says here how to read the count, and
//! whoever measures work reads it before and after.

use std::sync::OnceLock;

static COUNT: OnceLock<fn() -> u64> = OnceLock::new();

/// Has [`of_thread`] answer with `count`: the allocations of the calling thread so far. It must be cheap and must not
/// allocate. The first caller decides.
pub fn count_with(count: fn() -> u64) {
    // Whoever comes second has the same allocator: a process has one.
    let _ = COUNT.set(count);
}

/// Allocations of the calling thread so far, growing ones included; `None` where nobody counts.
pub fn of_thread() -> Option<u64> {
    COUNT.get().map(|count| count())
}
