//! The allocator of the binaries: mimalloc, which counts. How many times a query asks for memory must not grow with the
//! rows that it reads; EXPLAIN ANALYZE shows the count of each operator, and measurements that of a whole query.
//!
//! A thread counts for itself, and besides into a slot that few others share, a cache line from the next, so that
//! counting costs a few nanoseconds and threads do not wait for each other. The sum over slots is exact once the threads
//! that worked are done.

// An allocator can only be defined by unsafe code. This one adds a counter to mimalloc and passes every call on as it is.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout};
use std::cell::Cell;
use std::ffi::{c_int, c_long};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use mimalloc::MiMalloc;

/// Milliseconds for which freed pages are kept. The next query needs them again, and a page that
/// was given back is cleared by the system before it is had anew, which took a tenth of the time of queries.
const PURGE_DELAY_MS: c_long = 10_000;

/// `mi_option_purge_delay`
const PURGE_DELAY: c_int = 15;
/// `mi_option_allow_large_os_pages`
const ALLOW_LARGE_OS_PAGES: c_int = 6;

unsafe extern "C" {
    /// What an option is unless the environment says otherwise. Of mimalloc's stable interface, which the crate shows only with its extended feature and what that depends on.
    fn mi_option_set_default(option: c_int, value: c_long);
}

/// mimalloc with a counter of allocations.
pub struct CountingAllocator;

const SLOTS: usize = 64;

/// A counter alone on its cache line.
#[repr(align(128))]
struct Slot(AtomicU64);

static COUNTS: [Slot; SLOTS] = [const { Slot(AtomicU64::new(0)) }; SLOTS];
static THREADS: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    // Constant and without a destructor, so that reading it never allocates.
    static SLOT: Cell<usize> = const { Cell::new(usize::MAX) };
    static OF_THREAD: Cell<u64> = const { Cell::new(0) };
}

fn count() {
    OF_THREAD.with(|count| count.set(count.get() + 1));
    let slot = SLOT.with(|slot| {
        if slot.get() == usize::MAX {
            slot.set(THREADS.fetch_add(1, Relaxed) % SLOTS);
        }
        slot.get()
    });
    COUNTS[slot].0.fetch_add(1, Relaxed);
}

impl CountingAllocator {
    /// Tells the engine where the allocations of a thread are counted, and has mimalloc keep what is freed for a while. To be
    /// called first by `main` of a program whose global allocator this is.
    pub fn announce() {
        rowmill_base::allocations::count_with(|| OF_THREAD.with(Cell::get));
        for (option, value) in [(PURGE_DELAY, PURGE_DELAY_MS), (ALLOW_LARGE_OS_PAGES, 1)] {
            // SAFETY: mimalloc's function for this takes any number for any of its options, by whichever thread.
            unsafe { mi_option_set_default(option, value) };
        }
    }
}

/// Allocations of this process so far, growing ones included. Zero for ever where another allocator is in use.
pub fn allocations() -> u64 {
    COUNTS.iter().map(|slot| slot.0.load(Relaxed)).sum()
}

// SAFETY: every call is passed on to mimalloc with the arguments it came with, and counting neither allocates nor panics.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { MiMalloc.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller keeps the contract of `alloc_zeroed`.
        unsafe { MiMalloc.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: the caller keeps the contract of `realloc`, and what it got came from mimalloc.
        unsafe { MiMalloc.realloc(pointer, layout, size) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract of `dealloc`, and what it got came from mimalloc.
        unsafe { MiMalloc.dealloc(pointer, layout) }
    }
}

#[cfg(test)]
mod tests {
    use std::hint::black_box;

    use super::*;

    #[global_allocator]
    static ALLOCATOR: CountingAllocator = CountingAllocator;

    unsafe extern "C" {
        fn mi_option_get(option: c_int) -> c_long;
    }

    /// The numbers of options are those of the mimalloc that is linked: the delay is a second unless it is set,
    /// which the other test may have done.
    #[test]
    fn what_is_freed_is_kept_for_a_while() {
        // SAFETY: mimalloc's function for this takes any of its options, by whichever thread.
        let get = |option| unsafe { mi_option_get(option) };
        let is_set = |name: &str| std::env::var_os(name).is_some();
        if is_set("MIMALLOC_PURGE_DELAY") || is_set("MIMALLOC_ALLOW_LARGE_OS_PAGES") {
            return;
        }
        assert!([1_000, PURGE_DELAY_MS].contains(&get(PURGE_DELAY)));
        CountingAllocator::announce();
        assert_eq!((get(PURGE_DELAY), get(ALLOW_LARGE_OS_PAGES)), (PURGE_DELAY_MS, 1));
    }

    #[test]
    fn threads_are_counted_alone_and_together() {
        CountingAllocator::announce();
        let of_thread = || rowmill_base::allocations::of_thread().expect("somebody counts");
        let (all, before) = (allocations(), of_thread());
        (0..11).for_each(|byte| drop(black_box(vec![byte; 100])));
        assert_eq!(of_thread() - before, 11);
        let others = std::thread::spawn(move || {
            let before = of_thread();
            drop(black_box(vec![1_u8; 100]));
            of_thread() - before
        });
        assert_eq!(others.join().expect("it ends"), 1);
        assert!(allocations() - all >= 12);
    }
}
