//! What lies together in a table, and the frames that it is cut into.
//!
//! Frames of one block share what is decoded and settled of it. The state is made for the first frame and dropped with the
//! last one, so that a reader holds as many blocks as it has workers, not as the table has. A worker takes all frames of one
//! block before it goes on to the next, so that no two of them wait for the same value list; when no block is left that nobody
//! has begun it helps with the others.

use std::ops::{Deref, Range};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

use super::block_state::BlockState;
use super::offered::BlockFilters;

/// The parts of a table, shared by all workers that read it.
#[derive(Default)]
pub(crate) struct Parts {
    parts: Vec<Part>,
    /// The first that nobody has begun.
    next: AtomicUsize,
}

impl Parts {
    pub(crate) fn new(parts: Vec<Part>) -> Parts {
        Parts { parts, next: AtomicUsize::new(0) }
    }

    /// Frames to be read; more workers than that have nothing to do.
    pub(crate) fn frames(&self) -> usize {
        self.parts.iter().map(|part| part.frames.len()).sum()
    }

    /// The next frame for a worker, and the part that it is of. `own` is the number of the part that the worker took the last one of.
    pub(crate) fn next(&self, own: &mut Option<usize>) -> Option<(&Part, Range<usize>)> {
        loop {
            let number = own.or_else(|| self.part())?;
            let part = &self.parts[number];
            *own = Some(number);
            if let Some(frame) = part.take() {
                return Some((part, frame));
            }
            *own = None;
        }
    }

    /// A part that nobody has begun, or else one that has frames left.
    fn part(&self) -> Option<usize> {
        let begun = self.next.fetch_add(1, Ordering::Relaxed);
        // What was begun last has most left.
        (begun < self.parts.len()).then_some(begun).or_else(|| self.parts.iter().rposition(Part::has_frames))
    }
}

/// Where the rows of a part are: the number of a block or an open run among those of the table.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Origin {
    Block(usize),
    Run(usize),
}

/// A block or an open run, and the frames that it is cut into.
pub(crate) struct Part {
    pub(crate) origin: Origin,
    frames: Vec<Range<usize>>,
    next_frame: AtomicUsize,
    shared: Mutex<Shared>,
}

/// The state of a block as long as a frame still needs it.
struct Shared {
    state: Option<Arc<SharedBlock>>,
    frames_left: usize,
}

/// What the frames of a block share.
pub(crate) struct SharedBlock {
    pub(crate) state: BlockState,
    pub(crate) filters: BlockFilters,
}

/// The state of a block for one of its frames, which lets go of it at the end.
pub(crate) struct Entered<'a> {
    part: &'a Part,
    shared: Arc<SharedBlock>,
}

impl Part {
    /// A part of these frames, none of which was taken.
    pub(crate) fn new(origin: Origin, frames: impl Iterator<Item = Range<usize>>) -> Part {
        let frames: Vec<Range<usize>> = frames.collect();
        let shared = Mutex::new(Shared { state: None, frames_left: frames.len() });
        Part { origin, frames, next_frame: AtomicUsize::new(0), shared }
    }

    /// A frame that nobody has taken yet.
    fn take(&self) -> Option<Range<usize>> {
        self.frames.get(self.next_frame.fetch_add(1, Ordering::Relaxed)).cloned()
    }

    /// Whether [`Part::take`] may still give a frame.
    fn has_frames(&self) -> bool {
        self.next_frame.load(Ordering::Relaxed) < self.frames.len()
    }

    /// The state of the block for a frame that was taken; `first` makes it.
    pub(crate) fn enter(&self, first: impl FnOnce() -> SharedBlock) -> Entered<'_> {
        let shared = Arc::clone(self.shared.lock().state.get_or_insert_with(|| Arc::new(first())));
        Entered { part: self, shared }
    }
}

impl Entered<'_> {
    /// The state, for what outlives the frame's turn.
    pub(crate) fn share(&self) -> Arc<SharedBlock> {
        Arc::clone(&self.shared)
    }
}

impl Deref for Entered<'_> {
    type Target = SharedBlock;

    fn deref(&self) -> &SharedBlock {
        &self.shared
    }
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        let mut shared = self.part.shared.lock();
        shared.frames_left -= 1;
        if shared.frames_left == 0 {
            shared.state = None;
        }
    }
}
