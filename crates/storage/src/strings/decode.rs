//! Decodes many values of a stored list at once.
//!
//! Groups go through in slabs that stay in the processor's cache, each in flat passes: lengths to offsets, codes to
//! bytes, suffixes to values, and into the sink. Memory that is touched for the first time costs more than all of the
//! decoding, so there is one scratch for all slabs, and the only large buffer is the result.

use std::ops::Range;

use arrow::buffer::NullBuffer;
use rowmill_base::{Error, Result};

use super::sink::Sink;
use super::{DecodedList, StringKind, StringList, front, fsst};

/// Values of a slab at most, and stored bytes: one group at least.
const SLAB_VALUES_MAX: usize = 2048;
const SLAB_PAYLOAD_MAX: usize = 64 << 10;

/// Decoded bytes for a stored one that memory is made ready for in advance.
const LIKELY_RATIO_MAX: usize = 64;

/// What one slab needs, kept for the next.
#[derive(Default)]
struct Scratch {
    /// Own and shared length of each value, and where the values end.
    lengths: Vec<u32>,
    shared: Vec<u32>,
    offsets: Vec<u32>,
    /// The values' own bytes, decoded.
    own: Vec<u8>,
    /// The values, put together.
    values: Vec<u8>,
}

impl StringList<'_> {
    /// All values; text is verified to be UTF-8.
    pub fn decode(&self, kind: StringKind) -> Result<DecodedList> {
        let mut sink = Sink::new(kind, self.len(), self.likely_bytes(self.len()));
        self.decode_into(0..self.len(), None, &mut sink)?;
        match sink.bytes() == self.decoded_bytes() {
            true => Ok(DecodedList::new(sink)),
            false => Err(Error::corrupt(format!("{} bytes of values, not {}", sink.bytes(), self.decoded_bytes()))),
        }
    }

    /// A range of the values, for work that is shared between threads. Panics if the list is shorter.
    pub fn decode_range(&self, values: Range<usize>, kind: StringKind) -> Result<DecodedList> {
        let mut sink = Sink::new(kind, values.len(), self.likely_bytes(values.len()));
        self.decode_into(values, None, &mut sink)?;
        Ok(DecodedList::new(sink))
    }

    /// Bytes that so many of the values about decode to. Memory is not taken on the word of a header that says much
    /// more than what is stored: then it grows with what is really there.
    pub(super) fn likely_bytes(&self, values: usize) -> usize {
        let share = self.decoded_bytes() as u64 * values as u64 / self.len().max(1) as u64;
        (share as usize).min(self.payload_bytes() * LIKELY_RATIO_MAX)
    }

    /// Appends a range of the values to `sink`, NULL where `valid`, which is of the range, is false. Panics if the list
    /// is shorter.
    pub(super) fn decode_into(&self, values: Range<usize>, valid: Option<&NullBuffer>, sink: &mut Sink) -> Result<()> {
        assert!(values.start <= values.end && values.end <= self.len(), "{values:?} of {} values", self.len());
        let mut scratch = Scratch::default();
        let mut room = self.decoded_bytes();
        let end = values.end.div_ceil(self.group_values());
        let mut group = values.start / self.group_values();
        while group < end {
            let slab = self.slab(group..end);
            group = slab.end;
            let held = self.values_of(slab.clone());
            let wanted = held.start.max(values.start)..held.end.min(values.end);
            let valid = valid.map(|valid| valid.slice(wanted.start - values.start, wanted.len()));
            self.decode_slab(slab, &mut scratch, room, |bytes, offsets| {
                room -= offsets[offsets.len() - 1] as usize;
                sink.append(bytes, &offsets[wanted.start - held.start..=wanted.end - held.start], valid)
            })?;
        }
        Ok(())
    }

    /// As many of `groups`, from the first on, as make a slab.
    fn slab(&self, groups: Range<usize>) -> Range<usize> {
        let most = groups.len().min(SLAB_VALUES_MAX / self.group_values()).max(1);
        let start = self.group_start(groups.start);
        let fitting = (1..=most)
            .rev()
            .find(|&taken| self.group_start(groups.start + taken).saturating_sub(start) <= SLAB_PAYLOAD_MAX);
        groups.start..groups.start + fitting.unwrap_or(1)
    }

    /// Gives the bytes of a slab's values, `room` at most, and where each ends to `sink`.
    fn decode_slab(
        &self,
        groups: Range<usize>,
        scratch: &mut Scratch,
        room: usize,
        sink: impl FnOnce(&[u8], &[u32]) -> Result<()>,
    ) -> Result<()> {
        let payload = self.payload_of(groups.clone())?;
        let values = self.values_of(groups);
        let Scratch { lengths, shared, offsets, own, values: whole } = scratch;
        lengths.clear();
        self.lengths.unpack(values.clone(), lengths);
        let Some(stored_shared) = &self.shared else {
            front::offsets(None, lengths, room, offsets)?;
            let own = self.decode_own(payload, offsets[lengths.len()] as usize, own)?;
            return sink(own, offsets);
        };
        shared.clear();
        stored_shared.unpack(values, shared);
        front::offsets(Some(shared), lengths, room, offsets)?;
        let own_bytes: usize = lengths.iter().map(|&length| length as usize).sum();
        let own = self.decode_own(payload, own_bytes, own)?;
        grow(whole, offsets[lengths.len()] as usize + front::SLACK);
        front::expand(own, shared, offsets, whole);
        sink(whole, offsets)
    }

    /// The `total` bytes that `payload` stands for; there may be more behind them.
    fn decode_own<'s>(&self, payload: &'s [u8], total: usize, scratch: &'s mut Vec<u8>) -> Result<&'s [u8]> {
        let mismatch = || Error::corrupt(format!("{} payload bytes are not {total} bytes of values", payload.len()));
        let Some(symbols) = &self.symbols else {
            return if payload.len() == total { Ok(payload) } else { Err(mismatch()) };
        };
        if total > payload.len() * fsst::SYMBOL_BYTES_MAX {
            return Err(mismatch());
        }
        grow(scratch, total + fsst::SLACK);
        symbols.decode(payload, &mut scratch[..total + fsst::SLACK]).ok_or_else(mismatch)?;
        Ok(scratch)
    }
}

/// Makes `bytes` at least `len` long; what is in it does not matter.
fn grow(bytes: &mut Vec<u8>, len: usize) {
    if bytes.len() < len {
        bytes.clear();
        bytes.resize(len, 0);
    }
}
