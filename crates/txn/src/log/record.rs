//! A record of the log: one commit, with the marks and checksums that tell it from any other bytes in a file.
//!
//! ```text
//! offset   bytes
//!  0       4      mark of a record
//!  4       4      length of the payload
//!  8       8      position of the record in the stream
//! 16       8      position up to which the stream was on disk for certain when the record was written
//! 24       n      payload
//! 24 + n   0..7   zeros, up to a multiple of eight
//!          4      CRC-32 of everything before
//!          4      mark of the end
//! ```
//!
//! Numbers are little endian. A record starts at a multiple of eight and may cross into the next segment. Its position
//! tells it from older records that a reused file still holds.

use super::Position;

/// The first bytes of every record.
pub(super) const MARK: [u8; 4] = *b"RmLg";
const END_MARK: [u8; 4] = *b"gLmR";
pub(super) const HEAD_BYTES: usize = 24;
const END_BYTES: usize = 8;

/// Records start at a multiple of this many bytes.
pub(super) const ALIGNMENT: u64 = 8;

/// The longest payload, in bytes.
pub(super) const PAYLOAD_BYTES_MAX: usize = u32::MAX as usize - HEAD_BYTES - END_BYTES - ALIGNMENT as usize;

/// The fields of a record's head that the reader needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RecordHead {
    pub(super) payload_bytes: usize,
    pub(super) synced: Position,
}

impl RecordHead {
    /// Decodes the head of a record at `position`. Returns `None` if no record can begin there.
    pub(super) fn read(bytes: &[u8], position: Position) -> Option<RecordHead> {
        let head = bytes.first_chunk::<HEAD_BYTES>()?;
        if head[..4] != MARK || u64_at(head, 8) != position.0 {
            return None;
        }
        let payload_bytes = u32::from_le_bytes(head[4..8].try_into().expect("four bytes")) as usize;
        Some(RecordHead { payload_bytes, synced: Position(u64_at(head, 16)) })
    }

    /// The length of the whole record.
    pub(super) fn record_bytes(self) -> usize {
        record_bytes(self.payload_bytes)
    }
}

fn u64_at(bytes: &[u8; HEAD_BYTES], offset: usize) -> u64 {
    // The caller passes offsets within the head, so the slice cannot fail.
    u64::from_le_bytes(bytes[offset..offset + 8].try_into().expect("eight bytes"))
}

/// The length of a record with a payload of `payload_bytes`.
pub(super) fn record_bytes(payload_bytes: usize) -> usize {
    (HEAD_BYTES + payload_bytes).next_multiple_of(ALIGNMENT as usize) + END_BYTES
}

/// The bytes before and after the payload of a record, computed while the payload passes.
#[derive(Debug)]
pub(super) struct Frame {
    pub(super) head: [u8; HEAD_BYTES],
    /// Checksum of the head and of all slices passed so far.
    crc: crc32fast::Hasher,
    /// Bytes of the payload that were not passed yet.
    left: usize,
    zeros: usize,
}

/// The bytes after a payload.
pub(super) struct RecordEnd {
    bytes: [u8; ALIGNMENT as usize - 1 + END_BYTES],
    len: usize,
}

impl Frame {
    /// Starts the frame of a record with `payload_bytes` bytes of payload.
    pub(super) fn new(payload_bytes: usize, position: Position, synced: Position) -> Frame {
        let len = u32::try_from(payload_bytes).expect("the caller has looked at the length");
        let mut head = [0; HEAD_BYTES];
        head[..4].copy_from_slice(&MARK);
        head[4..8].copy_from_slice(&len.to_le_bytes());
        head[8..16].copy_from_slice(&position.0.to_le_bytes());
        head[16..].copy_from_slice(&synced.0.to_le_bytes());
        let mut crc = crc32fast::Hasher::new();
        crc.update(&head);
        let zeros = record_bytes(payload_bytes) - HEAD_BYTES - payload_bytes - END_BYTES;
        Frame { head, crc, left: payload_bytes, zeros }
    }

    /// Adds the next slice of the payload to the checksum.
    pub(super) fn pass(&mut self, slice: &[u8]) {
        self.crc.update(slice);
        self.left = self.left.checked_sub(slice.len()).expect("a payload has the length that it announced");
    }

    /// Finishes the frame. All of the payload must have been passed.
    pub(super) fn end(mut self) -> RecordEnd {
        assert_eq!(self.left, 0, "a payload has the length that it announced");
        let mut bytes = [0; ALIGNMENT as usize - 1 + END_BYTES];
        self.crc.update(&bytes[..self.zeros]);
        let numbers = &mut bytes[self.zeros..][..END_BYTES];
        numbers[..4].copy_from_slice(&self.crc.finalize().to_le_bytes());
        numbers[4..].copy_from_slice(&END_MARK);
        RecordEnd { bytes, len: self.zeros + END_BYTES }
    }
}

impl RecordEnd {
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// The payload of a record, or `None` if the bytes differ from those that were written. `record` must be the whole
/// record.
pub(super) fn payload(record: &[u8], head: RecordHead) -> Option<&[u8]> {
    let (body, end) = record.split_last_chunk::<END_BYTES>()?;
    let is_whole = end[4..] == END_MARK && end[..4] == crc32fast::hash(body).to_le_bytes();
    is_whole.then(|| &body[HEAD_BYTES..HEAD_BYTES + head.payload_bytes])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_round_trips_and_any_changed_bit_is_noticed() {
        for payload_bytes in [0, 1, 7, 8, 100] {
            let content: Vec<u8> = (0..payload_bytes).map(|byte| byte as u8 ^ 0x5A).collect();
            let (position, mut record) = (Position(4_096), Vec::new());
            let mut frame = Frame::new(payload_bytes, position, Position(4_000));
            record.extend_from_slice(&frame.head);
            for slice in content.chunks(7) {
                frame.pass(slice);
                record.extend_from_slice(slice);
            }
            record.extend_from_slice(frame.end().bytes());
            assert_eq!(record.len(), record_bytes(payload_bytes));
            assert_eq!(record.len() as u64 % ALIGNMENT, 0);
            let head = RecordHead::read(&record, position).expect("a head");
            assert_eq!((head.record_bytes(), head.synced), (record.len(), Position(4_000)));
            assert_eq!(payload(&record, head), Some(&content[..]));
            assert_eq!(RecordHead::read(&record, Position(4_104)), None, "the record names another position");
            for bit in 0..record.len() * 8 {
                let mut damaged = record.clone();
                damaged[bit / 8] ^= 1 << (bit % 8);
                let read = RecordHead::read(&damaged, position).filter(|head| head.record_bytes() == record.len());
                assert_eq!(read.and_then(|head| payload(&damaged, head)), None, "bit {bit} of {payload_bytes}");
            }
        }
    }
}
