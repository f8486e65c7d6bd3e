//! Gives freed pages back to the system when the process has more memory than its databases may use.
//!
//! mimalloc keeps freed pages for a while, because the next query needs them again. With a low limit these pages would
//! be the greater part of what the process has. So we look at its memory from time to time while pieces are freed.

use std::cell::Cell;
use std::fs::File;
use std::io::Read;
use std::sync::atomic::{AtomicU64, Ordering};

use rowmill_base::allocations;

use crate::collect;

/// Smaller pieces are not counted, because the allocator soon uses their memory again.
const PIECE_BYTES_MIN: usize = 1 << 16;

/// We look at the memory of the process when pieces of this part of the limit, as a divisor, were freed. A look takes a
/// few microseconds.
const LOOK_DIVISOR: u64 = 64;

/// Pages are given back when the process has this part of the limit, as a divisor, less than the limit or more. Other
/// threads take memory while one gives pages back.
const ROOM_DIVISOR: u64 = 4;

/// Pages are given back only if the process has got this part of the limit, as a divisor, since they were given back
/// last. Otherwise a process that needs more than the limit would give the same pages back all the time.
const GROWTH_DIVISOR: u64 = 32;

/// The bytes of freed pieces so far.
static FREED: AtomicU64 = AtomicU64::new(0);

/// The memory of the process after pages were given back, or the least of it since.
static LEAST: AtomicU64 = AtomicU64::new(0);

/// The number of times that pages were given back.
static ROUND: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// The last round in which the thread gave back its own pages.
    static OWN_ROUND: Cell<u64> = const { Cell::new(0) };
}

/// Counts a piece that was freed, and gives pages back if they are too many.
#[inline]
pub(crate) fn note_freed(bytes: usize) {
    if bytes >= PIECE_BYTES_MIN {
        count(bytes as u64);
    }
}

#[cold]
fn count(bytes: u64) {
    let before = FREED.fetch_add(bytes, Ordering::Relaxed);
    // A thread can only give back pages that are its own or free for all. So each thread that frees memory takes part
    // in a round.
    let round = ROUND.load(Ordering::Relaxed);
    if OWN_ROUND.replace(round) < round {
        collect();
    }
    let limit = allocations::limit_bytes();
    let look_bytes = (limit / LOOK_DIVISOR).max(1);
    if limit == 0 || before / look_bytes == (before + bytes) / look_bytes {
        return;
    }
    let Some(now) = anonymous_bytes() else { return };
    let least = LEAST.fetch_min(now, Ordering::Relaxed).min(now);
    if now > limit - limit / ROOM_DIVISOR && now >= least + limit / GROWTH_DIVISOR {
        OWN_ROUND.set(ROUND.fetch_add(1, Ordering::Relaxed) + 1);
        collect();
        LEAST.store(anonymous_bytes().unwrap_or(now), Ordering::Relaxed);
    }
}

/// The anonymous memory of the process, if the system tells. It must not allocate, because an allocator calls it.
#[cfg(target_os = "linux")]
fn anonymous_bytes() -> Option<u64> {
    let mut text = [0; 128];
    let len = File::open("/proc/self/statm").ok()?.read(&mut text).ok()?;
    let mut numbers = text[..len].split(|byte| *byte == b' ').skip(1);
    let mut next = || std::str::from_utf8(numbers.next()?).ok()?.parse::<u64>().ok();
    // The pages in memory, and those of them that files have.
    let (resident, of_files) = (next()?, next()?);
    Some(resident.saturating_sub(of_files) * rowmill_io::page_len())
}

#[cfg(not(target_os = "linux"))]
fn anonymous_bytes() -> Option<u64> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_os = "linux")]
    fn the_system_tells_the_memory_of_the_process() {
        let before = anonymous_bytes().expect("a number");
        let pages = vec![1_u8; 64 << 20];
        let after = anonymous_bytes().expect("a number");
        assert!((before + (60 << 20)..before + (100 << 20)).contains(&after), "{before} and {after}");
        drop(pages);
    }
}
