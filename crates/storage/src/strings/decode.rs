//! Decodes many values of a stored list at once, window by window, into the one large buffer of the result.

use std::ops::Range;

use arrow::buffer::NullBuffer;
use rowmill_base::{Error, Result};

use super::sink::Sink;
use super::{DecodedList, StringKind, StringList};

/// Memory is reserved in advance for at most this many decoded bytes per stored byte, so that a damaged length cannot
/// ask for unbounded memory. A list that shrinks further grows its buffer while it is decoded.
const LIKELY_RATIO_MAX: usize = 64;

impl StringList<'_> {
    /// Decodes all values, and verifies that text is UTF-8.
    pub fn decode(&self, kind: StringKind) -> Result<DecodedList> {
        let mut sink = Sink::new(kind, self.len(), self.likely_bytes(self.len()));
        self.decode_into(0..self.len(), None, &mut sink)?;
        // The header's number is used to reserve memory elsewhere, so it must be right.
        match sink.bytes() == self.decoded_bytes() {
            true => Ok(DecodedList::new(sink)),
            false => Err(Error::corrupt(format!("{} bytes of values, not {}", sink.bytes(), self.decoded_bytes()))),
        }
    }

    /// Decodes a range of the values, for work that is shared between threads. Panics if the list is shorter.
    pub(crate) fn decode_range(&self, values: Range<usize>, kind: StringKind) -> Result<DecodedList> {
        let mut sink = Sink::new(kind, values.len(), self.likely_bytes(values.len()));
        self.decode_into(values, None, &mut sink)?;
        Ok(DecodedList::new(sink))
    }

    /// Decodes the values with the indexes `wanted`, which must ascend and be distinct. Panics if the list is shorter.
    pub(crate) fn decode_wanted(&self, wanted: &[u32], kind: StringKind) -> Result<DecodedList> {
        let mut sink = Sink::new(kind, wanted.len(), self.likely_bytes(wanted.len()));
        self.for_each_wanted(wanted, |window| sink.append(window.bytes(), window.offsets(), None))?;
        Ok(DecodedList::new(sink))
    }

    /// Estimates the decoded size of `values` values in bytes. We do not reserve memory for a header that claims far
    /// more than the stored bytes: then memory grows with the bytes that are really decoded.
    pub(super) fn likely_bytes(&self, values: usize) -> usize {
        let share = self.decoded_bytes() as u64 * values as u64 / self.len().max(1) as u64;
        (share as usize).min(self.payload_bytes() * LIKELY_RATIO_MAX)
    }

    /// Appends a range of the values to `sink`. A value is NULL where `valid`, which must cover the range, is false.
    /// Panics if the list is shorter.
    pub(super) fn decode_into(&self, values: Range<usize>, valid: Option<&NullBuffer>, sink: &mut Sink) -> Result<()> {
        self.for_each_window(values, |window| {
            let valid = valid.map(|valid| valid.slice(window.first(), window.len()));
            sink.append(window.bytes(), window.offsets(), valid)
        })
    }
}
