//! A record of the log: one commit, and what tells it from anything else that lies in a file.
//!
//! ```text
//! offset   bytes
//!  0       4      mark of a record
//!  4       4      length of the payload
//!  8       8      position of the record in the stream
//! 16       8      position up to which the stream was on disk for certain when the record was written
//! 24       n      payload
//! 24 + n   0..7   zeros, up to a multiple of eight
//!          4      CRC-32 of all before
//!          4      mark of the end
//! ```
//!
//! Numbers are little endian. A record starts at a multiple of eight and may cross into the next segment. The position tells it from
//! what a reused file still holds.

use super::Position;

const MARK: [u8; 4] = *b"RmLg";
const END_MARK: [u8; 4] = *b"gLmR";
pub(super) const HEAD_BYTES: usize = 24;
const END_BYTES: usize = 8;

/// Records start at a multiple of so many bytes.
pub(super) const ALIGNMENT: u64 = 8;

/// The longest payload, in bytes.
pub(super) const PAYLOAD_BYTES_MAX: usize = u32::MAX as usize - HEAD_BYTES - END_BYTES - ALIGNMENT as usize;

/// What the first bytes of a record say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) payload_bytes: usize,
    pub(super) synced: Position,
}

impl Head {
    /// The head of the record at `position`, if one may be there.
    pub(super) fn read(bytes: &[u8], position: Position) -> Option<Head> {
        let head = bytes.first_chunk::<HEAD_BYTES>()?;
        if head[..4] != MARK || u64_at(head, 8) != position.0 {
            return None;
        }
        let payload_bytes = u32::from_le_bytes(head[4..8].try_into().expect("four bytes")) as usize;
        Some(Head { payload_bytes, synced: Position(u64_at(head, 16)) })
    }

    /// Bytes of the whole record.
    pub(super) fn record_bytes(self) -> usize {
        record_bytes(self.payload_bytes)
    }
}

fn u64_at(bytes: &[u8; HEAD_BYTES], offset: usize) -> u64 {
    u64::from_le_bytes(bytes[offset..offset + 8].try_into().expect("eight bytes"))
}

/// Bytes of a record with a payload of `payload_bytes`.
pub(super) fn record_bytes(payload_bytes: usize) -> usize {
    (HEAD_BYTES + payload_bytes).next_multiple_of(ALIGNMENT as usize) + END_BYTES
}

/// What stands before and behind a payload in its record.
#[derive(Debug)]
pub(super) struct Frame {
    pub(super) head: [u8; HEAD_BYTES],
    /// Of all that was passed.
    crc: crc32fast::Hasher,
    /// Bytes of the payload that were not.
    left: usize,
    zeros: usize,
}

/// What stands behind a payload.
pub(super) struct End {
    bytes: [u8; ALIGNMENT as usize - 1 + END_BYTES],
    len: usize,
}

impl Frame {
    /// Of a record whose payload has so many bytes.
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

    /// Passes the next slice of the payload.
    pub(super) fn pass(&mut self, slice: &[u8]) {
        self.crc.update(slice);
        self.left = self.left.checked_sub(slice.len()).expect("a payload has as many bytes as it says");
    }

    /// The end, behind all of the payload.
    pub(super) fn end(mut self) -> End {
        assert_eq!(self.left, 0, "a payload has as many bytes as it says");
        let mut bytes = [0; ALIGNMENT as usize - 1 + END_BYTES];
        self.crc.update(&bytes[..self.zeros]);
        let numbers = &mut bytes[self.zeros..][..END_BYTES];
        numbers[..4].copy_from_slice(&self.crc.finalize().to_le_bytes());
        numbers[4..].copy_from_slice(&END_MARK);
        End { bytes, len: self.zeros + END_BYTES }
    }
}

impl End {
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// The payload of a record all of whose bytes are given, if they are those that were written.
pub(super) fn payload(record: &[u8], head: Head) -> Option<&[u8]> {
    let (body, end) = record.split_last_chunk::<END_BYTES>()?;
    let is_whole = end[4..] == END_MARK && end[..4] == crc32fast::hash(body).to_le_bytes();
    is_whole.then(|| &body[HEAD_BYTES..HEAD_BYTES + head.payload_bytes])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_back_and_no_bit_of_it_may_change() {
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
            let head = Head::read(&record, position).expect("a head");
            assert_eq!((head.record_bytes(), head.synced), (record.len(), Position(4_000)));
            assert_eq!(payload(&record, head), Some(&content[..]));
            assert_eq!(Head::read(&record, Position(4_104)), None, "it is of another place");
            for bit in 0..record.len() * 8 {
                let mut damaged = record.clone();
                damaged[bit / 8] ^= 1 << (bit % 8);
                let read = Head::read(&damaged, position).filter(|head| head.record_bytes() == record.len());
                assert_eq!(read.and_then(|head| payload(&damaged, head)), None, "bit {bit} of {payload_bytes}");
            }
        }
    }
}
