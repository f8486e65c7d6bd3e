//! Reads ranges of a file ahead of a decoder.
//!
//! A decoder of Parquet takes the columns of a row group page by page, and asks for the header of a page before its
//! rest. Over the network each of these reads would be a request. So we read what it will ask for before it does:
//!
//! - If the ranges are few bytes in all, by requests at the same time, before the decoder starts.
//! - Otherwise through a window for each range that moves forward: while the decoder works in one window, the next one
//!   is on its way. So a row group of any size needs bounded memory.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use rowmill_base::{Error, Result, StepMemory};
use tokio::task::JoinHandle;

use super::file::RemoteFile;
use super::runtime::{spawn, wait};
use crate::ahead::AheadBytes;
use crate::guard::file_failure;

/// More bytes than this are read through windows.
const WHOLE_BYTES_MAX: u64 = 32 << 20;
/// The windows of ranges that are needed at the same time have this size in all. Each range has two.
const WINDOWS_BYTES: u64 = 32 << 20;
const WINDOW_BYTES_MIN: u64 = 256 << 10;
const WINDOW_BYTES_MAX: u64 = 4 << 20;
/// The window of ranges that are read one after the other. There may be a reader for each column of a table.
const STREAM_WINDOW_BYTES: u64 = 1 << 20;

/// Reads `ranges` ahead, which are in order and apart. If `at_once`, the decoder needs all of them at the same time.
pub(crate) fn read_ahead(
    file: &Arc<RemoteFile>,
    ranges: Vec<Range<u64>>,
    at_once: bool,
) -> Result<Arc<dyn AheadBytes>> {
    let mut memory = file.memory.as_ref().map(|broker| broker.scratch("files over the network"));
    let mut grow = |bytes| memory.as_mut().map_or(Ok(()), |memory: &mut StepMemory| memory.grow(bytes));
    let total: u64 = ranges.iter().map(|range| range.end - range.start).sum();
    let file = Arc::clone(file);
    if at_once && total <= WHOLE_BYTES_MAX {
        grow(total)?;
        let bytes = file.fetch(ranges.clone())?;
        let pieces = ranges.into_iter().zip(bytes).collect();
        return Ok(Arc::new(WholeRanges { file, pieces, _memory: memory }));
    }
    let window_bytes = match at_once {
        true => (WINDOWS_BYTES / 2 / ranges.len().max(1) as u64).clamp(WINDOW_BYTES_MIN, WINDOW_BYTES_MAX),
        false => STREAM_WINDOW_BYTES,
    };
    let open = if at_once { ranges.len() as u64 } else { 1 };
    grow(2 * window_bytes * open)?;
    let windows = ranges.into_iter().map(|range| (range, Mutex::default())).collect();
    Ok(Arc::new(MovingWindows { file, windows, window_bytes, _memory: memory }))
}

/// Ranges that were read as a whole.
#[derive(Debug)]
struct WholeRanges {
    file: Arc<RemoteFile>,
    pieces: Vec<(Range<u64>, Bytes)>,
    _memory: Option<StepMemory>,
}

impl WholeRanges {
    /// The bytes from `at` to the end of the range that has it.
    fn from(&self, at: u64) -> Option<Bytes> {
        let place = self.pieces.partition_point(|(range, _)| range.end <= at);
        let (range, bytes) = self.pieces.get(place).filter(|(range, _)| range.contains(&at))?;
        Some(bytes.slice((at - range.start) as usize..))
    }
}

impl AheadBytes for WholeRanges {
    fn bytes(&self, at: u64, length: usize) -> io::Result<Bytes> {
        match self.from(at).filter(|bytes| bytes.len() >= length) {
            Some(bytes) => Ok(bytes.slice(..length)),
            None => self.file.read(at..at + length as u64).map_err(file_failure),
        }
    }

    fn read_at(&self, buffer: &mut [u8], at: u64) -> io::Result<usize> {
        match self.from(at) {
            Some(bytes) => Ok(copied(&bytes, buffer)),
            None => self.file.read_at(buffer, at),
        }
    }
}

/// Ranges that are read piece by piece.
#[derive(Debug)]
struct MovingWindows {
    file: Arc<RemoteFile>,
    windows: Vec<(Range<u64>, Mutex<Option<Window>>)>,
    window_bytes: u64,
    _memory: Option<StepMemory>,
}

/// The part of a range that is here, and the next part on its way.
#[derive(Debug)]
struct Window {
    start: u64,
    bytes: Bytes,
    next: Option<PendingPart>,
}

/// A part of a range that was asked for.
#[derive(Debug)]
struct PendingPart {
    range: Range<u64>,
    task: JoinHandle<Result<Vec<Bytes>>>,
}

impl Drop for PendingPart {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Window {
    fn end(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }

    /// The bytes from `at` on.
    fn from(&self, at: u64) -> Option<Bytes> {
        (self.start <= at && at < self.end()).then(|| self.bytes.slice((at - self.start) as usize..))
    }
}

impl MovingWindows {
    /// At least `length` bytes from `at`, or those to the end of the range. `None` if no range has them.
    fn part(&self, at: u64, length: u64) -> Result<Option<Bytes>> {
        let place = self.windows.partition_point(|(range, _)| range.end <= at);
        let Some((range, window)) = self.windows.get(place).filter(|(range, _)| range.contains(&at)) else {
            return Ok(None);
        };
        let mut window = window.lock();
        let end = range.end.min(at.saturating_add(length));
        let kept = window.as_ref().and_then(|window| window.from(at)).filter(|bytes| at + bytes.len() as u64 >= end);
        let bytes = match kept {
            Some(bytes) => bytes,
            None => {
                let moved = self.moved(window.take(), range, at, end)?;
                let bytes = moved.from(at).unwrap_or_default();
                *window = Some(moved);
                bytes
            }
        };
        // The last bytes of a range are read once, so the window can go.
        if end == range.end && length > 0 && bytes.len() as u64 <= length {
            *window = None;
        }
        Ok(Some(bytes))
    }

    /// The window that has `at..end`, and asks for the part after it.
    fn moved(&self, old: Option<Window>, range: &Range<u64>, at: u64, end: u64) -> Result<Window> {
        let mut bytes = Vec::new();
        let mut from = at;
        if let Some(mut old) = old {
            if let Some(rest) = old.from(at) {
                from += rest.len() as u64;
                bytes.push(rest);
            }
            // The decoder usually continues where the window ends.
            if let Some(mut next) = old.next.take().filter(|next| next.range.start == from) {
                let task = std::mem::replace(&mut next.task, spawn(async { Ok(Vec::new()) })?);
                let part = wait(&self.file.cancel, task)?;
                bytes.extend(part.map_err(|error| Error::internal(format!("a request failed: {error}")))??);
                from = next.range.end;
            }
        }
        if from < end || bytes.is_empty() {
            let until = range.end.min(end.max(from + self.window_bytes));
            bytes.extend(self.file.fetch(std::iter::once(from..until).collect())?);
            from = until;
        }
        let next = from..range.end.min(from + self.window_bytes);
        let next = match next.is_empty() {
            true => None,
            false => Some(PendingPart { task: spawn(self.file.ranges(vec![next.clone()]))?, range: next }),
        };
        let bytes = if bytes.len() == 1 { bytes.swap_remove(0) } else { bytes.concat().into() };
        Ok(Window { start: at, bytes, next })
    }
}

impl AheadBytes for MovingWindows {
    fn bytes(&self, at: u64, length: usize) -> io::Result<Bytes> {
        match self.part(at, length as u64).map_err(file_failure)?.filter(|bytes| bytes.len() >= length) {
            Some(bytes) => Ok(bytes.slice(..length)),
            None => self.file.read(at..at + length as u64).map_err(file_failure),
        }
    }

    fn read_at(&self, buffer: &mut [u8], at: u64) -> io::Result<usize> {
        // A header of a page is shorter than this buffer, and its page follows. So a read must not use the window up.
        match self.part(at, 1).map_err(file_failure)? {
            Some(bytes) if !bytes.is_empty() => Ok(copied(&bytes, buffer)),
            _ => self.file.read_at(buffer, at),
        }
    }
}

/// Copies as many bytes as `buffer` takes.
fn copied(bytes: &[u8], buffer: &mut [u8]) -> usize {
    let length = bytes.len().min(buffer.len());
    buffer[..length].copy_from_slice(&bytes[..length]);
    length
}
