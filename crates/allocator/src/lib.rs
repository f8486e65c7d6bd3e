//! The allocator of the binaries: mimalloc with counters. The number of allocations of a query must not grow with the
//! number of rows that it reads. EXPLAIN ANALYZE shows the count of each operator, and benchmarks show the count of a
//! whole query.
//!
//! A thread counts in a thread-local counter, and also in a slot that it shares with few other threads. Slots are on
//! separate cache lines, so counting costs only a few nanoseconds and threads do not wait for each other. The sum over
//! all slots is exact once the threads that worked have ended.
//!
//! Freed pages go back to the system after a while, or when they are too many ([`release`]).

// An allocator can only be defined with unsafe code. This one only adds counters and passes every call on to mimalloc.
#![allow(unsafe_code)]

mod release;

use std::alloc::{GlobalAlloc, Layout};
use std::cell::Cell;
use std::ffi::{c_int, c_long};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};

use mimalloc::MiMalloc;

/// Milliseconds for which freed pages are kept. The next query needs them again, and the system must clear a page that
/// was given back before we can use it again. That took a tenth of the time of queries.
const PURGE_DELAY_MS: c_long = 10_000;

/// A process with less memory than this gives freed pages back at once and takes no huge pages. With 320 MB, both took
/// a sixth of the memory, and the system ended queries for it. If only the limit of its databases is lower, it takes no
/// huge pages either, which costs no time then.
const SMALL_MEMORY_BYTES: u64 = 1 << 30;

/// `mi_option_purge_delay`
const PURGE_DELAY: c_int = 15;
/// `mi_option_allow_large_os_pages`
const ALLOW_LARGE_OS_PAGES: c_int = 6;

unsafe extern "C" {
    /// Sets the default of an option, which the environment may override. It belongs to mimalloc's stable interface.
    /// The crate only exposes it with its `extended` feature and the dependencies of that.
    fn mi_option_set_default(option: c_int, value: c_long);
    /// Frees what the calling thread no longer uses. If forced, gives all free pages of the process back to the system.
    fn mi_collect(force: bool);
}

/// mimalloc with a counter of allocations.
pub struct CountingAllocator;

const SLOTS: usize = 64;

/// A counter alone on its cache line.
#[repr(align(128))]
struct CounterSlot(AtomicU64);

static COUNTS: [CounterSlot; SLOTS] = [const { CounterSlot(AtomicU64::new(0)) }; SLOTS];
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
            // A thread gets its slot with its first allocation. Threads are spread evenly over the slots.
            slot.set(THREADS.fetch_add(1, Relaxed) % SLOTS);
        }
        slot.get()
    });
    COUNTS[slot].0.fetch_add(1, Relaxed);
}

impl CountingAllocator {
    /// Tells the engine where the allocations of a thread are counted, and makes mimalloc keep freed pages for a
    /// while. A program with this global allocator must call it first in `main`.
    pub fn announce() {
        rowmill_base::allocations::count_with(|| OF_THREAD.with(Cell::get));
        let is_small = has_small_memory();
        for (option, value) in options(is_small) {
            // SAFETY: this function of mimalloc accepts any number for any of its options, from any thread.
            unsafe { mi_option_set_default(option, value) };
        }
        allow_huge_pages(!is_small);
        rowmill_base::allocations::watch_limit_with(|limit| {
            // Without a database there is no limit.
            allow_huge_pages(!has_small_memory() && (limit == 0 || limit >= SMALL_MEMORY_BYTES));
        });
    }
}

/// Lets the process take huge pages from now on, or not. Huge pages that its host does not allow stay so. If the system
/// refuses, the process only takes more memory than needed.
#[cfg(target_os = "linux")]
fn allow_huge_pages(are_allowed: bool) {
    static ARE_OURS: AtomicBool = AtomicBool::new(false);
    // SAFETY: these calls take numbers and change no memory.
    let (set, get) = unsafe {
        let set = |disabled: libc::c_ulong| libc::prctl(libc::PR_SET_THP_DISABLE, disabled, 0, 0, 0);
        (set, libc::prctl(libc::PR_GET_THP_DISABLE, 0, 0, 0, 0))
    };
    if are_allowed && ARE_OURS.swap(false, Relaxed) {
        let _ = set(0);
    } else if !are_allowed && get == 0 {
        ARE_OURS.store(set(1) == 0, Relaxed);
    }
}

#[cfg(not(target_os = "linux"))]
fn allow_huge_pages(_are_allowed: bool) {}

/// Gives all free pages back to the system.
fn collect() {
    // SAFETY: this function of mimalloc may be called from any thread at any time.
    unsafe { mi_collect(true) }
}

/// Whether the machine or the cgroup of the process has little memory.
fn has_small_memory() -> bool {
    static IS_SMALL: OnceLock<bool> = OnceLock::new();
    *IS_SMALL.get_or_init(|| rowmill_io::memory_bytes() < SMALL_MEMORY_BYTES)
}

/// The options of mimalloc that we set, with their values. `is_small` says whether the process has little memory.
fn options(is_small: bool) -> [(c_int, c_long); 2] {
    match is_small {
        true => [(PURGE_DELAY, 0), (ALLOW_LARGE_OS_PAGES, 0)],
        false => [(PURGE_DELAY, PURGE_DELAY_MS), (ALLOW_LARGE_OS_PAGES, 1)],
    }
}

/// The number of allocations of this process so far, including reallocations. Always zero with another allocator.
pub fn allocations() -> u64 {
    COUNTS.iter().map(|slot| slot.0.load(Relaxed)).sum()
}

// SAFETY: every call is passed on to mimalloc with its own arguments, and counting neither allocates nor panics.
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
        // SAFETY: the caller keeps the contract of `realloc`, and its pointer came from mimalloc.
        let moved = unsafe { MiMalloc.realloc(pointer, layout, size) };
        release::note_freed(layout.size());
        moved
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract of `dealloc`, and its pointer came from mimalloc.
        unsafe { MiMalloc.dealloc(pointer, layout) };
        release::note_freed(layout.size());
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

    /// The numbers of the options must match the mimalloc that is linked. The delay is one second by default, but the
    /// other test may already have set it.
    #[test]
    fn freed_pages_are_kept_for_a_while() {
        // SAFETY: this function of mimalloc accepts any of its options, from any thread.
        let get = |option| unsafe { mi_option_get(option) };
        let is_set = |name: &str| std::env::var_os(name).is_some();
        if is_set("MIMALLOC_PURGE_DELAY") || is_set("MIMALLOC_ALLOW_LARGE_OS_PAGES") {
            return;
        }
        let expected = options(has_small_memory());
        assert!([1_000, expected[0].1].contains(&get(PURGE_DELAY)));
        CountingAllocator::announce();
        assert_eq!(expected.map(|(option, _)| (option, get(option))), expected);
    }

    #[test]
    fn allocations_are_counted_per_thread_and_per_process() {
        CountingAllocator::announce();
        let of_thread = || rowmill_base::allocations::of_thread().expect("allocations are counted");
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
