//! Makes segments ahead of their use, on a thread of its own, because filling and syncing a file takes as long as
//! thousands of commits. One segment is ready in advance. While a transaction grows whose record will be long, we make
//! more.
//!
//! Files that are no longer needed become later segments, which saves filling new ones. We keep as many of them as the
//! log needed since the checkpoint before the last one, and the thread removes the others. So a log that was long once
//! does not keep its length. [`Spares::trim`] removes all of them when no commits come.

use std::collections::VecDeque;
use std::sync::Arc;
use std::thread::JoinHandle;

use parking_lot::{Condvar, Mutex, MutexGuard};
use rowmill_base::Result;
use rowmill_io::Disk;

use super::segment::{FOLDER, Segment, SegmentBytes, path};
use crate::job::Job;

/// At most this many segments are made ahead: 128 MiB of log, twice the default of `checkpoint_log_bytes`.
const AHEAD_MAX: u64 = 32;

/// Makes segments ahead of their use.
#[derive(Debug)]
pub(super) struct Spares {
    shared: Arc<SharedSpares>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Debug)]
struct SharedSpares {
    disk: Arc<dyn Disk>,
    segment_bytes: SegmentBytes,
    state: Mutex<SparesState>,
    changed: Condvar,
}

#[derive(Debug)]
struct SparesState {
    /// Slots of files that hold nothing that is needed.
    free: Vec<u32>,
    /// More free files than this are removed.
    free_max: usize,
    /// The slot for the next new file.
    next_slot: u32,
    /// The first segment that was not taken yet. `None` before the first one is taken, and while a caller makes one
    /// itself.
    next: Option<u64>,
    /// The number of segments that should be ready, counted from `next`.
    ahead: usize,
    /// The thread has failed. It tries again when a segment is taken or more are asked for.
    is_stuck: bool,
    /// A segment is being made.
    is_busy: bool,
    /// A segment was taken. From then on, the free files are not those of the log before.
    is_used: bool,
    /// The ready segments, from `next` on, without gaps.
    ready: VecDeque<Segment>,
    is_over: bool,
}

impl Spares {
    /// Starts the thread. The files in `free` may be overwritten. No file may exist with a slot of `next_slot` or
    /// above.
    pub(super) fn start(
        disk: &Arc<dyn Disk>,
        segment_bytes: SegmentBytes,
        free: Vec<u32>,
        next_slot: u32,
    ) -> Result<Spares> {
        let state = SparesState {
            free,
            free_max: usize::MAX,
            next_slot,
            next: None,
            ahead: 1,
            is_stuck: false,
            is_busy: false,
            is_used: false,
            ready: VecDeque::new(),
            is_over: false,
        };
        let shared = Arc::new(SharedSpares {
            disk: Arc::clone(disk),
            segment_bytes,
            state: Mutex::new(state),
            changed: Condvar::new(),
        });
        let work = {
            let shared = Arc::clone(&shared);
            move || shared.make_ahead()
        };
        Ok(Spares { shared, thread: Mutex::new(Some(Job::Segments.spawn(work)?)) })
    }

    /// Takes segment `number` and has the thread make the following one.
    pub(super) fn take(&self, number: u64) -> Result<Segment> {
        let mut state = self.shared.state.lock();
        // If a segment is ready, the one that is being made comes later, so we need not wait for it.
        while state.is_busy && state.ready.is_empty() {
            self.shared.changed.wait(&mut state);
        }
        // The thread must not start the segment that we make here.
        state.next = None;
        let segment = match state.ready.pop_front() {
            Some(segment) => segment,
            None => self.shared.make(&mut state, number)?,
        };
        assert_eq!(segment.number, number, "segments are taken in order");
        state.is_used = true;
        state.ahead = state.ahead.saturating_sub(1).max(1);
        (state.next, state.is_stuck) = (Some(number + 1), false);
        self.shared.changed.notify_all();
        Ok(segment)
    }

    /// Asks for the segments that a record of `record_bytes` needs.
    pub(super) fn expect(&self, record_bytes: u64) {
        let segments = (record_bytes / self.shared.segment_bytes.0 + 1).min(AHEAD_MAX) as usize;
        let mut state = self.shared.state.lock();
        if segments > state.ahead {
            (state.ahead, state.is_stuck) = (segments, false);
            self.shared.changed.notify_all();
        }
    }

    /// Removes files that hold nothing that is needed, except for the next `kept` segments. New ones are made when the
    /// log needs them. With `kept` 0, the thread makes none before [`Spares::expect`] asks for one.
    pub(super) fn trim(&self, kept: usize) -> Result<()> {
        let mut state = self.shared.state.lock();
        // The transaction that asked for more segments may have rolled back.
        state.ahead = kept;
        while state.is_busy {
            self.shared.changed.wait(&mut state);
        }
        while state.ready.len() > kept {
            let unneeded = state.ready.pop_back().map(|segment| segment.slot);
            state.free.extend(unneeded);
        }
        self.shared.remove_free(&mut state, 0)
    }

    /// Has the thread remove free files, until there are at most `count`.
    pub(super) fn keep(&self, count: usize) {
        self.shared.state.lock().free_max = count;
        self.shared.changed.notify_all();
    }

    /// The number of files that are ready or free.
    pub(super) fn count(&self) -> usize {
        let state = self.shared.state.lock();
        state.ready.len() + state.free.len()
    }

    /// Takes back the file of a segment that is no longer needed.
    pub(super) fn give_back(&self, segment: &Segment) {
        // We put it first, so it is used last. After a failure, the last slot may already hold the new segment, and it
        // must be tried again for the same one.
        self.shared.state.lock().free.insert(0, segment.slot);
    }
}

impl Drop for Spares {
    fn drop(&mut self) {
        self.shared.state.lock().is_over = true;
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.lock().take() {
            let _ = thread.join();
        }
        let mut state = self.shared.state.lock();
        if state.is_used {
            // During normal work these files would be reused. A file that cannot be removed does no harm.
            let SparesState { free, ready, .. } = &mut *state;
            let unneeded = free.drain(..).chain(ready.drain(..).map(|segment| segment.slot));
            unneeded.for_each(|slot| drop(self.shared.disk.remove(&path(slot))));
        }
    }
}

impl SharedSpares {
    fn make_ahead(&self) {
        let mut state = self.state.lock();
        while !state.is_over {
            let is_due = !state.is_busy && !state.is_stuck && state.ready.len() < state.ahead;
            let Some(next) = state.next.filter(|_| is_due) else {
                let kept = state.free_max;
                if state.is_used && !state.is_busy && state.free.len() > kept {
                    // A file that cannot be removed does no harm. It is tried again after the next checkpoint.
                    let removed = self.remove_free(&mut state, kept);
                    state.free_max = if removed.is_err() { usize::MAX } else { kept };
                    continue;
                }
                self.changed.wait(&mut state);
                continue;
            };
            let number = next + state.ready.len() as u64;
            match self.make(&mut state, number) {
                Ok(mut segment) => {
                    // Only the next one is used soon. Many ready segments would hold many files open.
                    if !state.ready.is_empty() {
                        segment.close();
                    }
                    state.ready.push_back(segment);
                }
                // The caller that needs the segment tries again and reports the error.
                Err(_) => (state.is_stuck, state.ahead) = (true, state.ready.len().max(1)),
            }
        }
    }

    /// Removes free files until there are `kept`.
    fn remove_free(&self, state: &mut MutexGuard<'_, SparesState>, kept: usize) -> Result<()> {
        // Until a segment is made, the free files hold the log of the previous run. Another opening may still need to
        // read it.
        if !state.is_used || state.free.len() <= kept {
            return Ok(());
        }
        // The files that would be used last.
        let count = state.free.len() - kept;
        let slots: Vec<u32> = state.free.drain(..count).collect();
        state.is_busy = true;
        let removed = MutexGuard::unlocked(state, || {
            let removed = slots.iter().try_for_each(|slot| self.disk.remove(&path(*slot)));
            // The removal must be on disk before a file of that name is made again. Otherwise a power cut could bring
            // the old file back, with the same segment in two files.
            removed.and(self.disk.sync_dir(FOLDER))
        });
        state.is_busy = false;
        if removed.is_err() {
            // A removed file in this list does no harm: it is made again.
            state.free.splice(0..0, slots);
        }
        self.changed.notify_all();
        removed
    }

    fn make(&self, state: &mut MutexGuard<'_, SparesState>, number: u64) -> Result<Segment> {
        let slot = match state.free.pop() {
            Some(slot) => slot,
            None => {
                state.next_slot += 1;
                state.next_slot - 1
            }
        };
        state.is_busy = true;
        let made = MutexGuard::unlocked(state, || Segment::make(&*self.disk, slot, number, self.segment_bytes));
        state.is_busy = false;
        if made.is_err() {
            state.free.push(slot);
        }
        self.changed.notify_all();
        made
    }
}
