//! A Bloom filter in which all bits of a value are in one word, so that a lookup reads memory only once.

use rowmill_base::{Reservation, Result};

/// The number of bits per value. All bits of a value are in one word. With 8, 12, 16 and 24 bits, 3.4, 1.2, 0.5 and 0.2
/// % of other values pass; each costs one look-up in the table of the join. With more bits, the filter leaves the cache
/// sooner.
const BITS_PER_VALUE: usize = 12;
/// With fewer bits per value than this, every fifth other value or more would pass.
const BITS_PER_VALUE_MIN: usize = 4;
/// The number of bits that a value sets. Each takes six bits of the hash. With 2, 3, 4, 5 and 6 of them, 2.7, 1.5, 1.2,
/// 1.1 and 1.0 % of other values pass.
const BITS_SET: u32 = 4;

/// The bits in words of 64. Each value sets a few bits of one word.
#[derive(Debug)]
pub(super) struct Bloom(Vec<u64>);

impl Bloom {
    /// Makes a filter for `values` values.
    pub(super) fn new(values: usize, memory: &mut Reservation) -> Result<Bloom> {
        let words = (values * BITS_PER_VALUE / 64).max(1);
        memory.grow((words * size_of::<u64>()) as u64)?;
        Ok(Bloom(vec![0; words]))
    }

    /// Makes a filter of `bytes` bytes.
    pub(super) fn of_bytes(bytes: usize, memory: &mut Reservation) -> Result<Bloom> {
        let words = (bytes / size_of::<u64>()).max(1);
        memory.grow((words * size_of::<u64>()) as u64)?;
        Ok(Bloom(vec![0; words]))
    }

    /// Whether only few other values pass if the filter has `values` values.
    pub(super) fn has_room_for(&self, values: usize) -> bool {
        values <= self.0.len() * 64 / BITS_PER_VALUE_MIN
    }

    /// The filter of the values of both filters. `None` if they differ in size.
    pub(super) fn merged(mut self, other: &Bloom) -> Option<Bloom> {
        if self.0.len() != other.0.len() {
            return None;
        }
        self.0.iter_mut().zip(&other.0).for_each(|(word, other)| *word |= other);
        Some(self)
    }

    /// The word of a hash, and its bits. The upper half of the hash is scaled to the number of words, and the lower
    /// half chooses the bits.
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

    /// Whether a value with this hash may have been inserted.
    #[inline]
    pub(super) fn may_hold(&self, hash: u64) -> bool {
        let (word, bits) = self.place(hash);
        // If one of the bits is missing, no value with this hash was inserted.
        self.0[word] & bits == bits
    }
}
