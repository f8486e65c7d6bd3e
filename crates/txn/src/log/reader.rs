//! Reads the stream record by record, up to the first position without one.

use std::collections::BTreeMap;

use memchr::memmem;
use rowmill_base::{Error, Result};
use rowmill_io::Disk;

use super::Position;
use super::record::{self, ALIGNMENT, HEAD_BYTES, MARK, RecordHead};
use super::segment::{Segment, SegmentBytes, SegmentReader};

/// Bytes per read. Copying them takes 105 µs at 10 GB/s, and a system call about 1 µs, so longer reads would save at
/// most a hundredth.
const WINDOW_BYTES: usize = 1 << 20;

/// A reader of the existing segments, which may have gaps between them.
#[derive(Debug)]
pub(super) struct LogReader<'a> {
    disk: &'a dyn Disk,
    segments: &'a BTreeMap<u64, Segment>,
    segment_bytes: SegmentBytes,
    /// The segment that was read last, by its number. Others are closed, so that a log of any length needs one file.
    open: Option<(u64, SegmentReader)>,
    /// A cached part of the stream, which begins at `start`.
    window: Vec<u8>,
    start: Position,
}

impl<'a> LogReader<'a> {
    pub(super) fn new(
        disk: &'a dyn Disk,
        segments: &'a BTreeMap<u64, Segment>,
        segment_bytes: SegmentBytes,
    ) -> LogReader<'a> {
        LogReader { disk, segments, segment_bytes, open: None, window: Vec::new(), start: Position(0) }
    }

    /// Reads the record at `position` and returns its head and payload. Returns `None` if there is no whole record.
    pub(super) fn record(&mut self, position: Position) -> Result<Option<(RecordHead, &[u8])>> {
        let Some(head) = self.bytes(position, HEAD_BYTES)?.and_then(|bytes| RecordHead::read(bytes, position)) else {
            return Ok(None);
        };
        let bytes = self.bytes(position, head.record_bytes())?;
        Ok(bytes.and_then(|bytes| record::payload(bytes, head)).map(|payload| (head, payload)))
    }

    /// Finds the first record after `end` which claims that the stream was on disk beyond `end`. After a true end there
    /// is none, because everything that was synced is still readable.
    pub(super) fn claim_behind(&mut self, end: Position) -> Result<Option<Position>> {
        // A damaged record hides the start of the next one, so we must try every position at which a record may begin.
        for number in self.segments.keys().copied() {
            let (start, behind) = (self.segment_bytes.start(number), self.segment_bytes.start(number + 1));
            let mut at = Position(start.0.max(end.0).next_multiple_of(ALIGNMENT));
            while let Some(marked) = self.next_mark(at, behind)? {
                if self.record(marked)?.is_some_and(|(head, _)| head.synced > end) {
                    return Ok(Some(marked));
                }
                at = Position(marked.0 + ALIGNMENT);
            }
        }
        Ok(None)
    }

    /// The first position of `at..behind` where we find the mark of a record. `at` must be aligned as records are.
    fn next_mark(&mut self, mut at: Position, behind: Position) -> Result<Option<Position>> {
        while at < behind && self.bytes(at, HEAD_BYTES)?.is_some() {
            let window = &self.window[(at.0 - self.start.0) as usize..];
            // Most of what follows the end of the log is zeros, which the search passes at the speed of memory.
            let mut found = memmem::find_iter(window, &MARK).map(|place| Position(at.0 + place as u64));
            if let Some(found) = found.find(|found| found.0.is_multiple_of(ALIGNMENT)) {
                return Ok((found < behind).then_some(found));
            }
            // A mark in the last bytes of the window may go on in the next window.
            let last = at.0 + (window.len() - MARK.len()) as u64;
            at = Position((last + 1).next_multiple_of(ALIGNMENT));
        }
        Ok(None)
    }

    /// Returns `len` bytes from `position` on, or `None` if a segment is missing there.
    fn bytes(&mut self, position: Position, len: usize) -> Result<Option<&[u8]>> {
        let skipped = position.0.wrapping_sub(self.start.0);
        if skipped >= self.window.len() as u64 || self.window.len() - (skipped as usize) < len {
            self.fill(position, len)?;
        }
        let skipped = (position.0 - self.start.0) as usize;
        Ok(self.window.get(skipped..skipped + len))
    }

    /// Reads at least `len_min` bytes from `position` on, unless a segment is missing.
    fn fill(&mut self, position: Position, len_min: usize) -> Result<()> {
        self.window.clear();
        self.start = position;
        let (mut number, mut at) = self.segment_bytes.place(position);
        while self.window.len() < len_min.max(WINDOW_BYTES)
            && let Some(segment) = self.segments.get(&number)
        {
            let missing = (len_min.max(WINDOW_BYTES) - self.window.len()) as u64;
            let piece = missing.min(self.segment_bytes.0 - at) as usize;
            let filled = self.window.len();
            self.window.resize(filled + piece, 0);
            if self.open.as_ref().is_none_or(|(open, _)| *open != number) {
                self.open = Some((number, segment.reader(self.disk)?));
            }
            let (_, reader) = self.open.as_ref().expect("the segment was opened");
            reader.read(&mut self.window[filled..], at)?;
            (number, at) = (number + 1, 0);
        }
        Ok(())
    }
}

/// The error for a log that ends before a position that was on disk.
pub(super) fn ends_too_early(end: Position, known: &str) -> Error {
    Error::corrupt(format!("the log ends at position {}, but {known}: the log is damaged there", end.0))
        .hint("restore the directory from a backup; the log folder alone is not enough")
}
