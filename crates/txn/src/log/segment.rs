//! A segment of the log: a file of fixed length that holds one range of the stream at a time.
//!
//! ```text
//! offset   bytes
//!  0       8      mark of a segment
//!  8       4      version of the format
//! 12       4      zeros
//! 16       8      bytes of the stream that a segment holds
//! 24       8      number of the segment: its range starts at this number times the bytes above
//! 32       4      CRC-32 of all before
//! 4,096    ...    the stream
//! ```
//!
//! A file is filled and synced before it is used, so that a sync of the log writes only records: neither the length nor
//! the disk blocks of the file change. A file whose segment is no longer needed becomes a later segment when its first
//! page is rewritten. The old records in it do not count, because each names a position that does not match.

use std::sync::Arc;

use rowmill_base::{Error, Result};
use rowmill_io::{Disk, DiskFile, OpenMode};

use super::Position;

/// The folder of the log.
pub(super) const FOLDER: &str = "log";

const MARK: [u8; 8] = *b"RowmilLg";
const VERSION: u32 = 1;
const HEAD_BYTES: usize = 36;
/// Where the stream begins in a file: after the first page, which is written by itself.
pub(crate) const STREAM_START: u64 = 4_096;
/// Bytes per write when a new file is filled. The page cache keeps the bytes of one write as one piece of up to
/// megabytes, and a later short write looks at every block of its piece. For example, a record of 120 bytes takes 1.1
/// µs in a piece of 1 MB, but 0.3 µs in one of up to 64 KB.
const FILL_BYTES: usize = 16 << 10;

/// Bytes of a new file that the system stores in one step. A commit that syncs the log at the same time waits for one
/// step, and not for the whole file.
const STEP_BYTES: u64 = 256 << 10;

/// The number of bytes of the stream that each segment holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SegmentBytes(pub(super) u64);

impl SegmentBytes {
    /// The number of the segment that holds the byte at `position`, and the offset of the byte in it.
    pub(super) fn place(self, position: Position) -> (u64, u64) {
        (position.0 / self.0, position.0 % self.0)
    }

    /// The position where segment `number` begins.
    pub(super) fn start(self, number: u64) -> Position {
        Position(number * self.0)
    }
}

/// A segment and its file.
#[derive(Clone, Debug)]
pub(super) struct Segment {
    pub(super) number: u64,
    /// The number in the file's name.
    pub(super) slot: u32,
    /// The open file; `None` if the segment was closed, so that a long record does not hold all of its files open. All
    /// bytes that were written to a closed segment are on disk.
    file: Option<Arc<dyn DiskFile>>,
}

/// The path of the file with number `slot`.
pub(super) fn path(slot: u32) -> String {
    format!("{FOLDER}/{slot:04}")
}

/// The number in the name of a file of the log, or `None` for any other name.
pub(super) fn slot_of(name: &str) -> Option<u32> {
    name.parse().ok().filter(|slot| path(*slot).ends_with(&format!("/{name}")))
}

impl Segment {
    /// Makes segment `number` in a file that is new or no longer needed. The segment is on disk when this returns.
    pub(super) fn make(disk: &dyn Disk, slot: u32, number: u64, bytes: SegmentBytes) -> Result<Segment> {
        let file: Arc<dyn DiskFile> = Arc::from(disk.open(&path(slot), OpenMode::Create)?);
        let len = STREAM_START + bytes.0;
        if file.len()? != len {
            let filled = fill(&*file, len).and_then(|()| file.sync());
            if let Err(error) = filled {
                // A file of the right length counts as filled and synced, so a failed one must not keep that length.
                let _ = file.set_len(0);
                return Err(error);
            }
        }
        disk.sync_dir(FOLDER)?;
        // The name and the zeros must be on disk before the head, because a whole head makes the file a segment.
        file.write_all_at(&head(number, bytes), 0)?;
        file.sync()?;
        Ok(Segment { number, slot, file: Some(file) })
    }

    /// Looks which segment a file holds. The segment is closed. Returns `None` if no segment was ever completed in the
    /// file.
    pub(super) fn open(disk: &dyn Disk, slot: u32, bytes: SegmentBytes) -> Result<Option<Segment>> {
        let file: Arc<dyn DiskFile> = match disk.open(&path(slot), OpenMode::Read) {
            Ok(file) => Arc::from(file),
            // A process that closes the database may have removed a file that is no longer needed.
            Err(error) => return if disk.len(&path(slot))?.is_none() { Ok(None) } else { Err(error) },
        };
        if file.len()? < STREAM_START {
            return Ok(None);
        }
        let mut found = [0; HEAD_BYTES];
        file.read_exact_at(&mut found, 0)?;
        let number = u64::from_le_bytes(found[24..32].try_into().expect("eight bytes"));
        let is_whole = found[32..] == crc32fast::hash(&found[..32]).to_le_bytes();
        if !is_whole || found[..8] != MARK {
            return Ok(None);
        }
        let version = u32::from_le_bytes(found[8..12].try_into().expect("four bytes"));
        if version != VERSION {
            let message =
                format!("{}: version {version} of the log, and we read up to {VERSION}", disk.describe(&path(slot)));
            return Err(Error::newer_format(message));
        }
        let stretch = u64::from_le_bytes(found[16..24].try_into().expect("eight bytes"));
        if stretch != bytes.0 || file.len()? != STREAM_START + bytes.0 {
            let file = disk.describe(&path(slot));
            let message = format!("{file} holds {stretch} bytes of the log, not {}", bytes.0);
            return Err(Error::corrupt(message).in_file(file));
        }
        Ok(Some(Segment { number, slot, file: None }))
    }

    /// Writes `bytes` at offset `at` of the segment. Opens it if it is closed.
    pub(super) fn write(&mut self, disk: &dyn Disk, bytes: &[u8], at: u64) -> Result<()> {
        let file = match &self.file {
            Some(file) => file,
            None => self.file.insert(Arc::from(disk.open(&path(self.slot), OpenMode::Create)?)),
        };
        file.write_all_at(bytes, STREAM_START + at)
    }

    /// Opens the segment for reading.
    pub(super) fn reader(&self, disk: &dyn Disk) -> Result<SegmentReader> {
        let file = match &self.file {
            Some(file) => Arc::clone(file),
            None => Arc::from(disk.open(&path(self.slot), OpenMode::Read)?),
        };
        Ok(SegmentReader(file))
    }

    /// Syncs what was written since the segment was opened.
    pub(super) fn sync(&self) -> Result<()> {
        self.file.as_ref().map_or(Ok(()), |file| file.sync())
    }

    /// Closes the file. The caller must have synced what was written.
    pub(super) fn close(&mut self) {
        self.file = None;
    }

    pub(super) fn is_open(&self) -> bool {
        self.file.is_some()
    }
}

/// The open file of a segment that is read.
#[derive(Debug)]
pub(super) struct SegmentReader(Arc<dyn DiskFile>);

impl SegmentReader {
    /// Reads from offset `at` of the segment.
    pub(super) fn read(&self, bytes: &mut [u8], at: u64) -> Result<()> {
        self.0.read_exact_at(bytes, STREAM_START + at)
    }
}

/// Overwrites the whole file with zeros.
fn fill(file: &dyn DiskFile, len: u64) -> Result<()> {
    file.set_len(0)?;
    let zeros = vec![0; FILL_BYTES];
    for at in (0..len).step_by(FILL_BYTES) {
        let bytes = (FILL_BYTES as u64).min(len - at);
        file.write_all_at(&zeros[..bytes as usize], at)?;
        let end = at + bytes;
        if end.is_multiple_of(STEP_BYTES) {
            file.wait_stored(end - STEP_BYTES, STEP_BYTES)?;
        }
    }
    Ok(())
}

fn head(number: u64, bytes: SegmentBytes) -> [u8; HEAD_BYTES] {
    let mut head = [0; HEAD_BYTES];
    head[..8].copy_from_slice(&MARK);
    head[8..12].copy_from_slice(&VERSION.to_le_bytes());
    head[16..24].copy_from_slice(&bytes.0.to_le_bytes());
    head[24..32].copy_from_slice(&number.to_le_bytes());
    let sum = crc32fast::hash(&head[..32]);
    head[32..].copy_from_slice(&sum.to_le_bytes());
    head
}
