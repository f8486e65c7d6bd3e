//! Lengths of the values of a list, most of which are known without the values.
//!
//! Bytes are those that a value shares and those of its own: both are stored as numbers. Characters are as many wherever
//! all bytes are ASCII, which the stored bytes of a group tell without being decoded. Only groups with other bytes are
//! decoded, and their characters counted.

use rowmill_base::{Error, Result};

use super::fsst::AsciiCodes;
use super::windows::Scratch;
use super::{DecodedList, StringList, front};

/// What the length of a string counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LengthUnit {
    /// The bytes that it is stored as, before they are encoded.
    Bytes,
    /// The characters of UTF-8.
    Characters,
}

impl StringList<'_> {
    /// The length of each value. Characters are those of text: what is not UTF-8 has some length.
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
        let total: u64 = lengths.iter().map(|length| u64::from(*length)).sum();
        match total == self.decoded_bytes() as u64 {
            true => Ok(lengths),
            false => Err(Error::corrupt(format!("{total} bytes of values, not {}", self.decoded_bytes()))),
        }
    }

    /// Replaces the bytes of values by their characters where these differ.
    fn count_characters(&self, lengths: &mut [u32]) -> Result<()> {
        let codes = self.symbols.as_ref().map(AsciiCodes::of);
        let mut scratch = Scratch::default();
        for group in 0..self.groups() {
            let payload = self.payload_of(group..group + 1)?;
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

/// The characters of each value; value `i` is `bytes[offsets[i]..offsets[i + 1]]`.
fn characters(bytes: &[u8], offsets: &[u32], out: &mut [u32]) {
    for (ends, count) in offsets.windows(2).zip(out) {
        let value = &bytes[ends[0] as usize..ends[1] as usize];
        // Every byte begins a character but those of the form 10xxxxxx.
        *count = value.iter().map(|byte| u32::from(byte & 0xc0 != 0x80)).sum();
    }
}
