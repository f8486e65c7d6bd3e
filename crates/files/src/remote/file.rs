//! One file over the network.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use bytes::{Bytes, BytesMut};
use object_store::{GetOptions, GetRange, GetResult, ObjectMeta, ObjectStore, coalesce_ranges};
use parking_lot::Mutex;
use rowmill_base::{Broker, Cancel, Result};

use super::failure::{Attempt, changed, failed, wrong_length};
use super::reader::RemoteReader;
use super::runtime::wait;
use super::store::RemoteObject;
use crate::guard::file_failure;

/// Small reads at offsets are widened to this size: a footer, an index and a header are read in few requests.
pub(super) const WINDOW_BYTES: u64 = 64 << 10;
/// The windows that a file keeps.
const WINDOWS_KEPT: usize = 8;
/// Larger reads are not kept, because they are not repeated.
const KEPT_WINDOW_BYTES_MAX: u64 = 1 << 20;
/// Ranges with a smaller gap between them are read by one request.
const GAP_BYTES_MAX: u64 = 512 << 10;
/// The starts of texts that the files of a statement keep together. Types are guessed from them, and then the rows are
/// read without sending the same bytes again.
const KEPT_START_BYTES_MAX: u64 = 16 << 20;

/// The space for the starts of texts, shared by the files of a pattern.
#[derive(Clone, Debug)]
pub(super) struct StartSpace(Arc<AtomicU64>);

impl StartSpace {
    pub(super) fn new() -> StartSpace {
        StartSpace(Arc::new(AtomicU64::new(KEPT_START_BYTES_MAX)))
    }

    /// Takes `bytes` of the space, unless fewer are left.
    fn take(&self, bytes: u64) -> bool {
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(bytes)).is_ok()
    }
}

/// The facts about a file after the server was asked.
#[derive(Clone, Debug)]
pub(super) enum Examined {
    /// Ranges can be read. The facts are those of the first answer.
    Ranges(ObjectMeta),
    /// The server sends only the whole file.
    Whole,
}

/// One file over the network.
pub(crate) struct RemoteFile {
    pub(super) object: RemoteObject,
    pub(super) cancel: Cancel,
    pub(super) memory: Option<Broker>,
    pub(super) examined: OnceLock<Examined>,
    /// Some bytes that were read, by their offsets.
    windows: Mutex<VecDeque<(u64, Bytes)>>,
    /// The bytes at the start that readers of the text have read.
    start: Mutex<BytesMut>,
    start_space: StartSpace,
}

impl RemoteFile {
    pub(super) fn new(object: RemoteObject, cancel: Cancel, memory: Option<Broker>, space: StartSpace) -> RemoteFile {
        RemoteFile {
            object,
            cancel,
            memory,
            examined: OnceLock::new(),
            windows: Mutex::default(),
            start: Mutex::default(),
            start_space: space,
        }
    }

    /// The URL, without its query.
    pub(crate) fn name(&self) -> &str {
        &self.object.name
    }

    /// The size in bytes. `None` if the server sends only the whole file, whose size is then known at its end.
    pub(crate) fn bytes(&self) -> Option<u64> {
        self.facts().map(|facts| facts.size)
    }

    /// The facts of the first answer. `None` if the server sends only the whole file.
    pub(super) fn facts(&self) -> Option<&ObjectMeta> {
        match self.examined.get()? {
            Examined::Ranges(facts) => Some(facts),
            Examined::Whole => None,
        }
    }

    /// Reads the file from front to back.
    pub(crate) fn reader(self: &Arc<Self>) -> RemoteReader {
        RemoteReader::new(Arc::clone(self))
    }

    /// Fills `buffer` with the bytes at `at`. Reads fewer at the end of the file.
    pub(crate) fn read_at(&self, buffer: &mut [u8], at: u64) -> io::Result<usize> {
        let end = self.bytes().unwrap_or_default().min(at.saturating_add(buffer.len() as u64));
        let Some(length) = end.checked_sub(at).filter(|length| *length > 0) else { return Ok(0) };
        let bytes = self.read(at..end).map_err(file_failure)?;
        buffer[..length as usize].copy_from_slice(&bytes);
        Ok(length as usize)
    }

    /// Reads a range of the file, from a window if one has it.
    pub(super) fn read(&self, range: Range<u64>) -> Result<Bytes> {
        if let Some(bytes) = self.kept(&range) {
            return Ok(bytes);
        }
        let window = widened(&range, self.bytes().unwrap_or_default());
        let mut fetched = self.fetch(vec![window.clone()])?;
        let bytes = fetched.pop().expect("one range was asked for");
        if window.end - window.start <= KEPT_WINDOW_BYTES_MAX {
            self.keep(window.start, bytes.clone());
        }
        Ok(bytes.slice((range.start - window.start) as usize..(range.end - window.start) as usize))
    }

    /// Keeps bytes that were read, for reads that follow.
    pub(super) fn keep(&self, at: u64, bytes: Bytes) {
        let mut windows = self.windows.lock();
        if windows.len() == WINDOWS_KEPT {
            windows.pop_front();
        }
        windows.push_back((at, bytes));
    }

    fn kept(&self, range: &Range<u64>) -> Option<Bytes> {
        let windows = self.windows.lock();
        let inside = |(at, bytes): &&(u64, Bytes)| *at <= range.start && range.end <= at + bytes.len() as u64;
        let (at, bytes) = windows.iter().rev().find(inside)?;
        Some(bytes.slice((range.start - at) as usize..(range.end - at) as usize))
    }

    /// Reads ranges, which must lie in the file: several at a time, and neighbours by one request.
    pub(super) fn fetch(&self, ranges: Vec<Range<u64>>) -> Result<Vec<Bytes>> {
        wait(&self.cancel, self.ranges(ranges))?
    }

    /// The work of [`RemoteFile::fetch`].
    pub(super) fn ranges(&self, ranges: Vec<Range<u64>>) -> impl Future<Output = Result<Vec<Bytes>>> + Send + use<> {
        let (object, facts) = (self.object.clone(), self.facts().cloned());
        async move {
            let read = |range| read_range(object.clone(), facts.clone(), range);
            coalesce_ranges(&ranges, read, GAP_BYTES_MAX).await
        }
    }

    /// Copies bytes at `at` from the kept start of the text. 0 if they are not kept.
    pub(super) fn read_start(&self, buffer: &mut [u8], at: u64) -> usize {
        let start = self.start.lock();
        let Some(kept) = usize::try_from(at).ok().and_then(|at| start.get(at..)) else { return 0 };
        let length = kept.len().min(buffer.len());
        buffer[..length].copy_from_slice(&kept[..length]);
        length
    }

    /// Keeps bytes at `at` if they continue the start of the text and there is space.
    pub(super) fn keep_start(&self, at: u64, bytes: &[u8]) {
        let mut start = self.start.lock();
        if start.len() as u64 == at && self.start_space.take(bytes.len() as u64) {
            start.extend_from_slice(bytes);
        }
    }
}

impl fmt::Debug for RemoteFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteFile").field("name", &self.object.name).finish_non_exhaustive()
    }
}

/// A small range, widened to a window. At the end of the file, the window reaches to the end, because formats with a
/// footer are read from there.
fn widened(range: &Range<u64>, bytes: u64) -> Range<u64> {
    let tail = bytes.saturating_sub(WINDOW_BYTES);
    let start = if range.start >= tail { tail } else { range.start };
    start..range.end.max(start.saturating_add(WINDOW_BYTES)).min(bytes)
}

/// Reads one range.
async fn read_range(object: RemoteObject, facts: Option<ObjectMeta>, range: Range<u64>) -> Result<Bytes> {
    let wanted = range.end - range.start;
    let result = get(&object, Some(GetRange::Bounded(range))).await?;
    if facts.is_some_and(|facts| differs(&facts, &result.meta)) {
        return Err(changed(&object));
    }
    let bytes = result.bytes().await.map_err(|error| failed(Attempt::Read, &object, &error))?;
    if bytes.len() as u64 != wanted {
        return Err(wrong_length(&object, bytes.len() as u64, wanted));
    }
    Ok(bytes)
}

/// Begins to read a range, or the whole file.
pub(super) async fn get(object: &RemoteObject, range: Option<GetRange>) -> Result<GetResult> {
    let options = GetOptions { range, ..GetOptions::default() };
    let result = object.store.get_opts(&object.path, options).await;
    result.map_err(|error| failed(Attempt::Read, object, &error))
}

/// Whether two answers are about different contents.
pub(super) fn differs(first: &ObjectMeta, later: &ObjectMeta) -> bool {
    // Lists and answers may quote the tag in different ways.
    let tag = |facts: &ObjectMeta| {
        facts.e_tag.as_deref().map(|tag| tag.trim_start_matches("W/").trim_matches('"').to_owned())
    };
    match (tag(first), tag(later)) {
        (Some(first), Some(later)) => first != later,
        _ => first.size != later.size || first.last_modified != later.last_modified,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_reads_become_windows() {
        assert_eq!(widened(&(0..4), 1 << 20), 0..WINDOW_BYTES);
        assert_eq!(widened(&(100..200_000), 1 << 20), 100..200_000);
        let end = (1 << 20) - 8..1 << 20;
        assert_eq!(
            widened(&end, 1 << 20),
            (1 << 20) - WINDOW_BYTES..1 << 20,
            "a footer comes with the bytes before it"
        );
        assert_eq!(widened(&(3..5), 10), 0..10);
    }
}
