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
    /// Of which the first are not used.
    end: [u8; ALIGNMENT as usize - 1 + END_BYTES],
    end_bytes: usize,
}

impl Frame {
    /// Of the record of `payload`.
    pub(super) fn of(payload: &[u8], position: Position, synced: Position) -> Frame {
        let payload_bytes = u32::try_from(payload.len()).expect("the caller has looked at the length");
        let mut head = [0; HEAD_BYTES];
        head[..4].copy_from_slice(&MARK);
        head[4..8].copy_from_slice(&payload_bytes.to_le_bytes());
        head[8..16].copy_from_slice(&position.0.to_le_bytes());
        head[16..].copy_from_slice(&synced.0.to_le_bytes());
        let mut end = [0; ALIGNMENT as usize - 1 + END_BYTES];
        let end_bytes = record_bytes(payload.len()) - HEAD_BYTES - payload.len();
        let (zeros, numbers) = end.split_at_mut(ALIGNMENT as usize - 1);
        let mut crc = crc32fast::Hasher::new();
        crc.update(&head);
        crc.update(payload);
        crc.update(&zeros[..end_bytes - END_BYTES]);
        numbers[..4].copy_from_slice(&crc.finalize().to_le_bytes());
        numbers[4..].copy_from_slice(&END_MARK);
        Frame { head, end, end_bytes }
    }

    pub(super) fn end(&self) -> &[u8] {
        &self.end[self.end.len() - self.end_bytes..]
    }
}

/// Puts the record of `payload` into `out`, whose bytes are used again.
pub(super) fn write(payload: &[u8], position: Position, synced: Position, out: &mut Vec<u8>) {
    let frame = Frame::of(payload, position, synced);
    out.clear();
    out.extend_from_slice(&frame.head);
    out.extend_from_slice(payload);
    out.extend_from_slice(frame.end());
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
            write(&content, position, Position(4_000), &mut record);
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
