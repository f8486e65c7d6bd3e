//! Reads sections of spill files.

use std::ops::Range;
use std::sync::Arc;

use arrow::buffer::{Buffer, MutableBuffer};
use rowmill_base::{Error, Result};

use super::file::SpillFile;
use super::frame::{FrameHead, HEAD_BYTES};

/// The bytes that a reader asks a file for at once. A merge reads many runs at the same time, so a buffer should take
/// little: this is a sixteenth of the second-level cache.
const READ_BYTES: usize = 1 << 16;

/// A part of a spill file that is read from its start to its end. The file lives as long as its sections.
#[derive(Clone, Debug)]
pub struct SpillSection {
    file: Option<Arc<SpillFile>>,
    range: Range<u64>,
}

impl SpillSection {
    pub(super) fn new(file: Arc<SpillFile>, range: Range<u64>) -> SpillSection {
        SpillSection { file: Some(file), range }
    }

    /// A section without frames.
    pub(super) fn empty() -> SpillSection {
        SpillSection { file: None, range: 0..0 }
    }

    /// The bytes of the section, compressed.
    #[cfg(test)]
    pub(super) fn stored_bytes(&self) -> u64 {
        self.range.end - self.range.start
    }

    /// Reads the section from its start.
    pub fn reader(&self) -> SectionReader {
        SectionReader { section: self.clone(), next: self.range.start, buffer: Vec::new(), at: 0 }
    }
}

/// Reads the frames of a section, one after the other.
#[derive(Debug)]
pub struct SectionReader {
    section: SpillSection,
    /// The position in the file of the first byte that is not in the buffer.
    next: u64,
    buffer: Vec<u8>,
    /// The start of the next frame in the buffer.
    at: usize,
}

impl SectionReader {
    /// Returns the next frame, aligned for every type of values. `None` at the end of the section.
    pub fn next_frame(&mut self) -> Result<Option<Buffer>> {
        if self.at == self.buffer.len() && self.next == self.section.range.end {
            return Ok(None);
        }
        self.make_available(HEAD_BYTES)?;
        let mut head = [0; HEAD_BYTES];
        head.copy_from_slice(&self.buffer[self.at..][..HEAD_BYTES]);
        let available = (self.buffer.len() - self.at - HEAD_BYTES) as u64 + self.section.range.end - self.next;
        let head = FrameHead::decode(&head, available)?;
        self.make_available(HEAD_BYTES + head.stored)?;
        let mut frame = MutableBuffer::from_len_zeroed(head.bytes);
        head.open(&self.buffer[self.at + HEAD_BYTES..][..head.stored], &mut frame)?;
        self.at += HEAD_BYTES + head.stored;
        Ok(Some(frame.into()))
    }

    /// Reads on until `bytes` bytes after the current position are in the buffer.
    fn make_available(&mut self, bytes: usize) -> Result<()> {
        let has = self.buffer.len() - self.at;
        let Some(lacks) = bytes.checked_sub(has).filter(|lacks| *lacks > 0) else { return Ok(()) };
        self.buffer.drain(..self.at);
        self.at = 0;
        let left = self.section.range.end - self.next;
        let more = (lacks.max(READ_BYTES) as u64).min(left) as usize;
        self.buffer.resize(has + more, 0);
        match &self.section.file {
            Some(file) if more >= lacks => file.read(self.next, &mut self.buffer[has..])?,
            _ => return Err(Error::corrupt("a section of a temporary file ends within a frame")),
        }
        self.next += more as u64;
        Ok(())
    }
}
