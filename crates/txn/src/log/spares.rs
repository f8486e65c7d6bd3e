//! Segments that are made before they are needed, on a thread of their own: filling and syncing a file takes as long as thousands of
//! commits. There is one ahead, and more while a transaction grows whose record will be long.

use std::collections::VecDeque;
use std::sync::Arc;
use std::thread::JoinHandle;

use parking_lot::{Condvar, Mutex, MutexGuard};
use rowmill_base::{Error, Result};
use rowmill_io::Disk;

use super::segment::{FOLDER, Segment, SegmentBytes, path};

/// Segments that are made ahead at most.
const AHEAD_MAX: u64 = 32;

/// Makes segments ahead.
#[derive(Debug)]
pub(super) struct Spares {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Debug)]
struct Shared {
    disk: Arc<dyn Disk>,
    segment_bytes: SegmentBytes,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    /// Files that hold nothing that is needed.
    free: Vec<u32>,
    /// The number of the next file that is made.
    next_slot: u32,
    /// The first segment that was not taken, once one was; `None` while one is made for whoever needs it.
    next: Option<u64>,
    /// How many of the segments from there on are to be ready.
    ahead: usize,
    /// The thread has failed, and goes on when something is asked for again.
    is_stuck: bool,
    /// One is being made.
    is_busy: bool,
    /// One was made: the free files are older than it.
    is_used: bool,
    /// From `next` on, without gaps.
    ready: VecDeque<Segment>,
    is_over: bool,
}

impl Spares {
    /// `free` are files that may be written over; no file has a number from `next_slot` on.
    pub(super) fn start(
        disk: &Arc<dyn Disk>,
        segment_bytes: SegmentBytes,
        free: Vec<u32>,
        next_slot: u32,
    ) -> Result<Spares> {
        let state = State {
            free,
            next_slot,
            next: None,
            ahead: 1,
            is_stuck: false,
            is_busy: false,
            is_used: false,
            ready: VecDeque::new(),
            is_over: false,
        };
        let shared = Arc::new(Shared {
            disk: Arc::clone(disk),
            segment_bytes,
            state: Mutex::new(state),
            changed: Condvar::new(),
        });
        let work = {
            let shared = Arc::clone(&shared);
            move || shared.make_ahead()
        };
        let thread = std::thread::Builder::new().name("rowmill-log".into()).spawn(work);
        let thread = thread.map_err(|error| Error::io("starting the thread that prepares the log", &error))?;
        Ok(Spares { shared, thread: Mutex::new(Some(thread)) })
    }

    /// Segment `number`. Has the one behind it made meanwhile.
    pub(super) fn take(&self, number: u64) -> Result<Segment> {
        let mut state = self.shared.state.lock();
        // What is being made goes behind those that are ready.
        while state.is_busy && state.ready.is_empty() {
            self.shared.changed.wait(&mut state);
        }
        // The thread need not begin with what is made here.
        state.next = None;
        let segment = match state.ready.pop_front() {
            Some(segment) => segment,
            None => self.shared.make(&mut state, number)?,
        };
        assert_eq!(segment.number, number, "segments are taken one behind the other");
        state.is_used = true;
        state.ahead = (state.ahead - 1).max(1);
        (state.next, state.is_stuck) = (Some(number + 1), false);
        self.shared.changed.notify_all();
        Ok(segment)
    }

    /// Has as many segments made ahead as a record of so many bytes takes.
    pub(super) fn expect(&self, record_bytes: u64) {
        let segments = (record_bytes / self.shared.segment_bytes.0 + 1).min(AHEAD_MAX) as usize;
        let mut state = self.shared.state.lock();
        if segments > state.ahead {
            (state.ahead, state.is_stuck) = (segments, false);
            self.shared.changed.notify_all();
        }
    }

    /// Removes the files that hold nothing that is needed. They are made again when they are.
    pub(super) fn trim(&self) -> Result<()> {
        let mut state = self.shared.state.lock();
        // What was expected may have been rolled back.
        state.ahead = 1;
        while state.is_busy {
            self.shared.changed.wait(&mut state);
        }
        while state.ready.len() > 1 {
            let unneeded = state.ready.pop_back().map(|segment| segment.slot);
            state.free.extend(unneeded);
        }
        // Before a segment is made the free ones are those of the log before, which are looked at by whoever opens it.
        if !state.is_used || state.free.is_empty() {
            return Ok(());
        }
        let slots = std::mem::take(&mut state.free);
        let remove = |slot: &u32| self.shared.disk.remove(&path(*slot));
        let removed = slots.iter().try_for_each(remove);
        if removed.is_err() {
            // One that is gone is made anew.
            state.free = slots;
        }
        // Before any of them is made again: what a power cut brings back must not be the twin of another.
        removed.and(self.shared.disk.sync_dir(FOLDER))
    }

    /// The file of a segment that is not needed any more.
    pub(super) fn give_back(&self, segment: &Segment) {
        // A file of which it is not known whether it became a segment is the next one that is tried, for the same segment.
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
            // While commits go on they are used again. What stays all the same is in nobody's way.
            let State { free, ready, .. } = &mut *state;
            let unneeded = free.drain(..).chain(ready.drain(..).map(|segment| segment.slot));
            unneeded.for_each(|slot| drop(self.shared.disk.remove(&path(slot))));
        }
    }
}

impl Shared {
    fn make_ahead(&self) {
        let mut state = self.state.lock();
        while !state.is_over {
            let is_due = !state.is_busy && !state.is_stuck && state.ready.len() < state.ahead;
            let Some(next) = state.next.filter(|_| is_due) else {
                self.changed.wait(&mut state);
                continue;
            };
            let number = next + state.ready.len() as u64;
            match self.make(&mut state, number) {
                Ok(segment) => state.ready.push_back(segment),
                // Whoever needs the segment tries again, and says what is wrong.
                Err(_) => (state.is_stuck, state.ahead) = (true, state.ready.len().max(1)),
            }
        }
    }

    fn make(&self, state: &mut MutexGuard<'_, State>, number: u64) -> Result<Segment> {
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
