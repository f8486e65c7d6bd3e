//! Segments that are made before they are needed, on a thread of their own: filling and syncing a file takes as long as thousands of
//! commits.

use std::sync::Arc;
use std::thread::JoinHandle;

use parking_lot::{Condvar, Mutex, MutexGuard};
use rowmill_base::{Error, Result};
use rowmill_io::Disk;

use super::segment::{FOLDER, Segment, SegmentBytes, path};

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
    /// The segment to make next.
    wanted: Option<u64>,
    /// One is being made.
    is_busy: bool,
    /// One was made: the free files are older than it.
    is_used: bool,
    ready: Option<Segment>,
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
        let state =
            State { free, next_slot, wanted: None, is_busy: false, is_used: false, ready: None, is_over: false };
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
        while state.is_busy {
            self.shared.changed.wait(&mut state);
        }
        // The thread need not begin with what is made here.
        state.wanted = None;
        let ready = state.ready.take_if(|segment| segment.number == number);
        let segment = match ready {
            Some(segment) => segment,
            None => self.shared.make(&mut state, number)?,
        };
        state.is_used = true;
        state.wanted = Some(number + 1);
        self.shared.changed.notify_all();
        Ok(segment)
    }

    /// Removes the files that hold nothing that is needed. They are made again when they are.
    pub(super) fn trim(&self) -> Result<()> {
        let mut state = self.shared.state.lock();
        while state.is_busy {
            self.shared.changed.wait(&mut state);
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
            let ready = state.ready.take().map(|segment| segment.slot);
            let unneeded = state.free.drain(..).chain(ready);
            unneeded.for_each(|slot| drop(self.shared.disk.remove(&path(slot))));
        }
    }
}

impl Shared {
    fn make_ahead(&self) {
        let mut state = self.state.lock();
        while !state.is_over {
            let wanted = if state.is_busy { None } else { state.wanted.take() };
            let Some(number) = wanted else {
                self.changed.wait(&mut state);
                continue;
            };
            // Whoever needs the segment tries again, and says what is wrong.
            let made = self.make(&mut state, number).ok();
            state.ready = made;
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
