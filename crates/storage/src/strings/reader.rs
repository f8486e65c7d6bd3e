//! Reads stored bytes from the front, without ever reading past their end.

use rowmill_base::{Error, Result};

/// The rest of a stored section.
#[derive(Clone, Debug)]
pub(super) struct SectionReader<'a>(&'a [u8]);

impl<'a> SectionReader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> SectionReader<'a> {
        SectionReader(bytes)
    }

    /// Takes the next `len` bytes.
    pub(super) fn bytes(&mut self, len: usize) -> Result<&'a [u8]> {
        // The only place that takes bytes, so no other read can go beyond the end.
        let Some((taken, rest)) = self.0.split_at_checked(len) else {
            return Err(Error::corrupt(format!("a string section ends {} bytes early", len - self.0.len())));
        };
        self.0 = rest;
        Ok(taken)
    }

    pub(super) fn u8(&mut self) -> Result<u8> {
        Ok(self.bytes(1)?[0])
    }

    pub(super) fn u32(&mut self) -> Result<u32> {
        Ok(u32_at(self.bytes(4)?, 0))
    }

    pub(super) fn u64(&mut self) -> Result<u64> {
        let low = u64::from(self.u32()?);
        Ok(low | u64::from(self.u32()?) << 32)
    }

    /// All remaining bytes.
    pub(super) fn rest(self) -> &'a [u8] {
        self.0
    }
}

/// Number `index` of a packed array of little-endian numbers. Panics if the array is shorter.
#[inline]
pub(super) fn u32_at(bytes: &[u8], index: usize) -> u32 {
    let four = bytes[index * 4..][..4].try_into().expect("the slice has four bytes");
    u32::from_le_bytes(four)
}
