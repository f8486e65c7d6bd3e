//! A Bloom filter whose bits of one value are all in one word, so that it takes one look into memory.

use rowmill_base::{Reservation, Result};

/// Bits for each value.
const BITS_PER_VALUE: usize = 12;
/// Bits that a value sets.
const BITS_SET: u32 = 4;

/// Words of 64 bits, in which each value has a few.
#[derive(Debug)]
pub(super) struct Bloom(Vec<u64>);

impl Bloom {
    /// A filter for so many values.
    pub(super) fn new(values: usize, memory: &mut Reservation) -> Result<Bloom> {
        let words = (values * BITS_PER_VALUE / 64).max(1);
        memory.grow((words * size_of::<u64>()) as u64)?;
        Ok(Bloom(vec![0; words]))
    }

    /// The word of a hash, and its bits. The upper half of the hash scales to the words, the lower one names the bits.
    #[inline]
    fn place(&self, hash: u64) -> (usize, u64) {
        let word = ((hash >> 32) * self.0.len() as u64) >> 32;
        let bits = (0..BITS_SET).fold(0, |bits, number| bits | 1 << (hash >> (6 * number) & 63));
        (word as usize, bits)
    }

    #[inline]
    pub(super) fn insert(&mut self, hash: u64) {
        let (word, bits) = self.place(hash);
        self.0[word] |= bits;
    }

    /// Whether a value of this hash may have been inserted.
    #[inline]
    pub(super) fn may_hold(&self, hash: u64) -> bool {
        let (word, bits) = self.place(hash);
        self.0[word] & bits == bits
    }
}
