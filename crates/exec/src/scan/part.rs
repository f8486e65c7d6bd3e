//! What lies together in a table, and the frames that it is cut into.
//!
//! Frames of one block share what is decoded and settled of it. The state is made for the first frame and dropped with the
//! last one, so that a scan holds as many blocks as it has cursors, not as the table has.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

use super::block_state::BlockState;
use super::cut;
use super::offered::BlockFilters;

/// Where the rows of a part are: the number of a block or an open run among those of the table.
#[derive(Clone, Copy, Debug)]
pub(super) enum Origin {
    Block(usize),
    Run(usize),
}

/// A block or an open run, and the frames that it is cut into.
pub(super) struct Part {
    pub(super) origin: Origin,
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
pub(super) struct SharedBlock {
    pub(super) state: BlockState,
    pub(super) filters: BlockFilters,
}

impl Part {
    /// A part of so many rows of which no frame was taken.
    pub(super) fn new(origin: Origin, rows: usize) -> Part {
        let frames: Vec<Range<usize>> = cut(rows).collect();
        let shared = Mutex::new(Shared { state: None, frames_left: frames.len() });
        Part { origin, frames, next_frame: AtomicUsize::new(0), shared }
    }

    /// Frames, taken or not.
    pub(super) fn frames(&self) -> usize {
        self.frames.len()
    }

    /// A frame that nobody has taken yet.
    pub(super) fn take(&self) -> Option<Range<usize>> {
        self.frames.get(self.next_frame.fetch_add(1, Ordering::Relaxed)).cloned()
    }

    /// Whether [`Part::take`] may still give a frame.
    pub(super) fn has_frames(&self) -> bool {
        self.next_frame.load(Ordering::Relaxed) < self.frames.len()
    }

    /// The state of the block for one of its frames; `first` makes it. [`Part::leave`] has to follow.
    pub(super) fn enter(&self, first: impl FnOnce() -> SharedBlock) -> Arc<SharedBlock> {
        Arc::clone(self.shared.lock().state.get_or_insert_with(|| Arc::new(first())))
    }

    /// Lets go of what the block decoded, with the last of its frames.
    pub(super) fn leave(&self) {
        let mut shared = self.shared.lock();
        shared.frames_left -= 1;
        if shared.frames_left == 0 {
            shared.state = None;
        }
    }
}
