//! Frames: the pieces in which spill files are written, read and checked.
//!
//! ```text
//!   0        4             8          12
//!   ┌────────┬─────────────┬──────────┬──────────────┐
//!   │ bytes  │ bytes stored│ CRC-32   │ stored bytes │
//!   └────────┴─────────────┴──────────┴──────────────┘
//! ```
//!
//! Numbers are little-endian. If both lengths are equal, the bytes are stored as they are; otherwise they are an LZ4
//! block. The checksum covers the stored bytes. Disks do return wrong bytes at times, and we must not turn them into
//! wrong rows.
//!
//! Compression should save time or space that is scarce. It takes about 2 ns for each byte, and a file that the system
//! keeps in memory takes less to write and read. So we measure both, and compress only where that pays.

use std::time::{Duration, Instant};

use rowmill_base::{Error, Result};

/// The bytes before the stored ones.
pub(super) const HEAD_BYTES: usize = 12;

/// The most bytes of a frame, because lengths have 32 bits. LZ4 may need a little more than the bytes themselves.
pub(super) const FRAME_BYTES_MAX: usize = 1 << 30;

/// After a frame that was not worth its compression, this many frames are stored as they are. Frames that are not worth
/// it thus cost an attempt per sixteen frames.
const FRAMES_PAST_COMPRESSION: u32 = 15;

/// The written bytes after which the time of earlier writes counts half. The disk may become slower, for example when
/// the system no longer keeps the file in memory.
const REMEMBERED_BYTES: u64 = 32 << 20;

/// Frames with fewer bytes are stored as they are.
const COMPRESSED_BYTES_MIN: usize = 1 << 9;

/// Makes frames.
#[derive(Debug, Default)]
pub(super) struct FrameEncoder {
    /// The number of frames to store as they are because the last attempt did not make a frame smaller.
    incompressible: u32,
    /// The number of frames to store as they are because the last attempt took too long.
    unpaid: u32,
    /// Bytes that were written to disk, and the time for them.
    written: (u64, Duration),
}

impl FrameEncoder {
    /// Notes the time of a write to disk.
    pub(super) fn note_write(&mut self, bytes: u64, time: Duration) {
        let (all_bytes, all_time) = &mut self.written;
        (*all_bytes, *all_time) = (*all_bytes + bytes, *all_time + time);
        if *all_bytes > REMEMBERED_BYTES {
            (*all_bytes, *all_time) = (*all_bytes / 2, *all_time / 2);
        }
    }

    /// Whether the next frame is stored without an attempt to compress it.
    fn passes_over(&mut self, is_scarce: bool) -> bool {
        let count = if self.incompressible > 0 || is_scarce { &mut self.incompressible } else { &mut self.unpaid };
        let passes = *count > 0;
        *count = count.saturating_sub(1);
        passes
    }

    /// Whether it takes longer to write and read `saved` bytes than to compress the frame, as far as is known.
    fn pays(&self, saved: usize, compression: Duration) -> bool {
        let (bytes, time) = self.written;
        // A byte is read as often as it is written, and we take the same time for that.
        bytes == 0 || 2.0 * time.as_secs_f64() * saved as f64 > compression.as_secs_f64() * bytes as f64
    }

    /// Appends a frame with `bytes` to `out`. If disk space `is_scarce`, a frame that compresses is always compressed.
    pub(super) fn encode(&mut self, bytes: &[u8], is_scarce: bool, out: &mut Vec<u8>) -> Result<()> {
        if bytes.len() > FRAME_BYTES_MAX {
            let found = bytes.len();
            return Err(Error::internal(format!("a frame of {found} bytes is longer than {FRAME_BYTES_MAX}")));
        }
        let head = out.len();
        out.resize(head + HEAD_BYTES, 0);
        let start = out.len();
        let is_stored_plain = bytes.len() < COMPRESSED_BYTES_MIN || self.passes_over(is_scarce);
        if is_stored_plain {
            out.extend_from_slice(bytes);
        } else {
            let begun = Instant::now();
            out.resize(start + lz4_flex::block::get_maximum_output_size(bytes.len()), 0);
            let stored = lz4_flex::block::compress_into(bytes, &mut out[start..])
                .map_err(|error| Error::internal(format!("cannot compress a frame: {error}")))?;
            if stored >= bytes.len() / 10 * 9 {
                self.incompressible = FRAMES_PAST_COMPRESSION;
                out.truncate(start);
                out.extend_from_slice(bytes);
            } else {
                out.truncate(start + stored);
                if !self.pays(bytes.len() - stored, begun.elapsed()) {
                    self.unpaid = FRAMES_PAST_COMPRESSION;
                }
            }
        }
        let (stored, checksum) = ((out.len() - start) as u32, crc32fast::hash(&out[start..]));
        out[head..head + 4].copy_from_slice(&(bytes.len() as u32).to_le_bytes());
        out[head + 4..head + 8].copy_from_slice(&stored.to_le_bytes());
        out[head + 8..start].copy_from_slice(&checksum.to_le_bytes());
        Ok(())
    }
}

/// The head of a frame.
#[derive(Clone, Copy, Debug)]
pub(super) struct FrameHead {
    pub(super) bytes: usize,
    pub(super) stored: usize,
    checksum: u32,
}

impl FrameHead {
    /// Reads a head. `available` is the number of bytes after it, so that damaged lengths cannot ask for more.
    pub(super) fn decode(head: &[u8; HEAD_BYTES], available: u64) -> Result<FrameHead> {
        let number = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let head = FrameHead { bytes: number(0) as usize, stored: number(4) as usize, checksum: number(8) };
        if head.stored as u64 > available || head.bytes > FRAME_BYTES_MAX || head.stored > head.bytes {
            let FrameHead { bytes, stored, .. } = head;
            return Err(damaged(format_args!("{bytes} bytes stored in {stored}, with {available} left to read")));
        }
        Ok(head)
    }

    /// Checks the stored bytes and puts the bytes of the frame into `into`, which must have their length.
    pub(super) fn open(&self, stored: &[u8], into: &mut [u8]) -> Result<()> {
        let found = crc32fast::hash(stored);
        if found != self.checksum {
            return Err(damaged(format_args!("its checksum is {found:08x} instead of {:08x}", self.checksum)));
        }
        if self.stored == self.bytes {
            into.copy_from_slice(stored);
            return Ok(());
        }
        match lz4_flex::block::decompress_into(stored, into) {
            Ok(bytes) if bytes == self.bytes => Ok(()),
            Ok(bytes) => Err(damaged(format_args!("it has {bytes} bytes instead of {}", self.bytes))),
            Err(error) => Err(damaged(format_args!("{error}"))),
        }
    }
}

fn damaged(what: std::fmt::Arguments<'_>) -> Error {
    Error::corrupt(format!("a frame of a temporary file is damaged: {what}"))
}
