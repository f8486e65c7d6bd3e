//! An allocator that counts: how many times a query asks for memory must not grow with the rows that it reads.
//!
//! Threads count into slots of their own, a cache line apart, so that counting costs about a nanosecond and does not
//! make threads wait for each other. A count is exact once the threads that worked are done.

// An allocator can only be defined by unsafe code. This one adds a counter to mimalloc and passes every call on as it is.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout};
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use mimalloc::MiMalloc;

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
}

fn count() {
    let slot = SLOT.with(|slot| {
        if slot.get() == usize::MAX {
            slot.set(THREADS.fetch_add(1, Relaxed) % SLOTS);
        }
        slot.get()
    });
    COUNTS[slot].0.fetch_add(1, Relaxed);
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
