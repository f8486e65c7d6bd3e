//! Decodes many values of a stored list at once, window by window, into one large buffer that is the result.

use std::ops::Range;

use arrow::buffer::NullBuffer;
use rowmill_base::{Error, Result};

use super::sink::Sink;
use super::{DecodedList, StringKind, StringList};

/// Decoded bytes for a stored one that memory is made ready for in advance.
const LIKELY_RATIO_MAX: usize = 64;

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

    /// The values of the numbers `wanted`, which ascend, each once. Panics if there is no such value.
    pub fn decode_wanted(&self, wanted: &[u32], kind: StringKind) -> Result<DecodedList> {
        let mut sink = Sink::new(kind, wanted.len(), self.likely_bytes(wanted.len()));
        self.for_each_wanted(wanted, |window| sink.append(window.bytes(), window.offsets(), None))?;
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
        self.for_each_window(values, |window| {
            let valid = valid.map(|valid| valid.slice(window.first(), window.len()));
            sink.append(window.bytes(), window.offsets(), valid)
        })
    }
}
