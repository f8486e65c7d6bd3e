//! The parts of a table, blocks and open runs, and the frames into which they are cut.
//!
//! Frames of one block share its decoded and settled state. The first frame makes this state and the last one drops it,
//! so a reader holds the state of at most about as many blocks as it has workers. A worker takes all frames of one
//! block before it goes on to the next block, so that two workers seldom wait for the same value list. When all blocks
//! have been begun, it helps with the others.

use std::ops::{Deref, Range};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

use super::block_state::BlockState;
use super::offered::BlockFilters;

/// The parts of a table, shared by all workers that read it.
#[derive(Default)]
pub(crate) struct Parts {
    parts: Vec<ScanPart>,
    /// The first part that no worker has begun.
    next: AtomicUsize,
}

impl Parts {
    pub(crate) fn new(parts: Vec<ScanPart>) -> Parts {
        Parts { parts, next: AtomicUsize::new(0) }
    }

    /// The number of frames. More workers than frames have nothing to do.
    pub(crate) fn frames(&self) -> usize {
        self.parts.iter().map(|part| part.frames.len()).sum()
    }

    /// The next frame for a worker, with its part. `own` is the number of the part from which the worker took its last
    /// frame.
    pub(crate) fn next(&self, own: &mut Option<usize>) -> Option<(&ScanPart, Range<usize>)> {
        loop {
            let number = own.or_else(|| self.part())?;
            let part = &self.parts[number];
            *own = Some(number);
            if let Some(frame) = part.take() {
                return Some((part, frame));
            }
            // The part has no frame left; go on to another one.
            *own = None;
        }
    }

    /// A part that no worker has begun, or else one that has frames left.
    fn part(&self) -> Option<usize> {
        let begun = self.next.fetch_add(1, Ordering::Relaxed);
        // The part that was begun last probably has the most frames left.
        (begun < self.parts.len()).then_some(begun).or_else(|| self.parts.iter().rposition(ScanPart::has_frames))
    }
}

/// The origin of a part's rows: the number of a block or of an open run in the table.
#[derive(Clone, Copy, Debug)]
pub(crate) enum PartOrigin {
    Block(usize),
    Run(usize),
}

/// A block or an open run, and the frames into which it is cut.
pub(crate) struct ScanPart {
    pub(crate) origin: PartOrigin,
    frames: Vec<Range<usize>>,
    next_frame: AtomicUsize,
    shared: Mutex<BlockOfFrames>,
}

/// The state of a block while a frame still needs it.
struct BlockOfFrames {
    state: Option<Arc<SharedBlock>>,
    frames_left: usize,
}

/// The state that the frames of a block share.
pub(crate) struct SharedBlock {
    pub(crate) state: BlockState,
    pub(crate) filters: BlockFilters,
}

/// The state of a block for one of its frames. Dropping it ends the frame.
pub(crate) struct Entered<'a> {
    part: &'a ScanPart,
    shared: Arc<SharedBlock>,
}

impl ScanPart {
    /// Makes a part whose frames are all still to be taken.
    pub(crate) fn new(origin: PartOrigin, frames: impl Iterator<Item = Range<usize>>) -> ScanPart {
        let frames: Vec<Range<usize>> = frames.collect();
        let shared = Mutex::new(BlockOfFrames { state: None, frames_left: frames.len() });
        ScanPart { origin, frames, next_frame: AtomicUsize::new(0), shared }
    }

    /// A frame that no worker has taken yet.
    fn take(&self) -> Option<Range<usize>> {
        self.frames.get(self.next_frame.fetch_add(1, Ordering::Relaxed)).cloned()
    }

    /// Whether [`ScanPart::take`] may still return a frame.
    fn has_frames(&self) -> bool {
        self.next_frame.load(Ordering::Relaxed) < self.frames.len()
    }

    /// The state of the block for a frame that was taken. Calls `first` to make the state if this is the first frame.
    pub(crate) fn enter(&self, first: impl FnOnce() -> SharedBlock) -> Entered<'_> {
        let shared = Arc::clone(self.shared.lock().state.get_or_insert_with(|| Arc::new(first())));
        Entered { part: self, shared }
    }
}

impl Entered<'_> {
    /// A share of the state that may outlive the frame.
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
        // The last frame of the block is done, so we free its chunks now, not at the end of the scan.
        if shared.frames_left == 0 {
            shared.state = None;
        }
    }
}
