//! Computes the lengths of a list's values, mostly without decoding them.
//!
//! The length in bytes is the shared length plus the own length, and both are stored as numbers. The number of
//! characters is the same if all bytes are ASCII, which the stored bytes of a group show without decoding. Only groups
//! with other bytes are decoded, and their characters are counted.

use rowmill_base::{Error, LengthUnit, Result};

use super::fsst::AsciiCodes;
use super::windows::SlabScratch;
use super::{DecodedList, StringList, front};

impl StringList<'_> {
    /// The length of each value. Characters are only meaningful for text: bytes that are not UTF-8 give an arbitrary
    /// number.
    pub fn lengths(&self, unit: LengthUnit) -> Result<Vec<u32>> {
        let mut lengths = self.byte_lengths()?;
        if unit == LengthUnit::Characters {
            self.count_characters(&mut lengths)?;
        }
        Ok(lengths)
    }

    fn byte_lengths(&self) -> Result<Vec<u32>> {
        let mut lengths = Vec::with_capacity(self.len());
        self.lengths.unpack(0..self.len(), &mut lengths);
        if let Some(stored) = &self.shared {
            let mut shared = Vec::with_capacity(self.len());
            stored.unpack(0..self.len(), &mut shared);
            front::add_shared(&shared, &mut lengths)?;
        }
        // The sum must match the header, or the lengths are damaged.
        let total: u64 = lengths.iter().map(|length| u64::from(*length)).sum();
        match total == self.decoded_bytes() as u64 {
            true => Ok(lengths),
            false => Err(Error::corrupt(format!("{total} bytes of values, not {}", self.decoded_bytes()))),
        }
    }

    /// Replaces the length in bytes by the number of characters where they differ.
    fn count_characters(&self, lengths: &mut [u32]) -> Result<()> {
        let codes = self.symbols.as_ref().map(AsciiCodes::of);
        let mut scratch = SlabScratch::default();
        for group in 0..self.groups() {
            let payload = self.payload_of(group..group + 1)?;
            // If the group's own bytes are ASCII, so are the bytes that its values share, because they come from the
            // same group.
            let is_ascii = codes.as_ref().map_or_else(|| payload.is_ascii(), |codes| codes.are_all_of(payload));
            if !is_ascii {
                let (bytes, offsets) = self.decode_slab(group..group + 1, &mut scratch, self.decoded_bytes())?;
                characters(bytes, offsets, &mut lengths[self.values_of(group..group + 1)]);
            }
        }
        Ok(())
    }
}

impl DecodedList {
    /// The length of each value.
    pub fn lengths(&self, unit: LengthUnit) -> Vec<u32> {
        let mut lengths: Vec<u32> = self.offsets().windows(2).map(|ends| ends[1] - ends[0]).collect();
        if unit == LengthUnit::Characters && !self.bytes().is_ascii() {
            characters(self.bytes(), self.offsets(), &mut lengths);
        }
        lengths
    }
}

/// Counts the characters of each value. Value `i` is `bytes[offsets[i]..offsets[i + 1]]`.
fn characters(bytes: &[u8], offsets: &[u32], out: &mut [u32]) {
    for (ends, count) in offsets.windows(2).zip(out) {
        let value = &bytes[ends[0] as usize..ends[1] as usize];
        // Every byte starts a character, except those of the form 10xxxxxx.
        *count = value.iter().map(|byte| u32::from(byte & 0xc0 != 0x80)).sum();
    }
}
