//! What the allocator of the process can do for us, if it says so.
//!
//! A library cannot replace the allocator of its host. A host whose allocator counts allocations tells us here how to
//! read the count. Code that measures work reads it before and after. An allocator that keeps freed memory for a while
//! can ask how much memory the databases of the process may use.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

static COUNT: OnceLock<fn() -> u64> = OnceLock::new();
static LIMIT: AtomicU64 = AtomicU64::new(0);
static WATCH: OnceLock<fn(u64)> = OnceLock::new();

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

/// Makes `watch` called with the limit of all databases whenever it changes. The first call decides.
pub fn watch_limit_with(watch: fn(u64)) {
    let _ = WATCH.set(watch);
}

/// Adds the memory limit of a database, or the change of one. With wrap-around, so that a limit can be taken off.
pub(crate) fn add_limit(bytes: u64) {
    let limit = LIMIT.fetch_add(bytes, Ordering::Relaxed).wrapping_add(bytes);
    if let Some(watch) = WATCH.get() {
        watch(limit);
    }
}

/// The bytes of memory that all databases of the process may use together; 0 if there is no database.
pub fn limit_bytes() -> u64 {
    LIMIT.load(Ordering::Relaxed)
}
