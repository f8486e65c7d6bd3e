//! Entries, which are sorted in place of rows.
//!
//! ```text
//! high   unused | code of the partition | code of the order | place of the row   low
//! ```
//!
//! Codes are only as wide as the values in the input need. For example, a key with numbers from 1 to 100,000 takes 17
//! bits, whatever its type is. An entry is therefore often one word of 64 bits, and never more than two.

use std::fmt;

use crate::radix::{RADIX_ROWS_MIN, sort_by_bits, sorted_bits};

/// The bits of a row's keys above the place of the row.
pub(crate) trait WindowEntry: Copy + Ord + Default + fmt::Debug + Send + Sync + 'static {
    /// An entry with `bits` above `shift` lower bits. Bits that do not fit must be zero.
    fn of(bits: u64, shift: u32) -> Self;

    /// An entry with up to 128 `bits` above `shift` lower bits. Bits that do not fit must be zero.
    fn of_wide(bits: u128, shift: u32) -> Self;

    /// Combines the bits of both entries.
    fn with(self, other: Self) -> Self;

    /// The bits above the lowest `shift` bits.
    fn above(self, shift: u32) -> Self;

    /// The lowest `bits` bits.
    fn below(self, bits: u32) -> Self;

    /// The lowest 64 bits.
    fn low(self) -> u64;
}

macro_rules! window_entry {
    ($word:ty) => {
        impl WindowEntry for $word {
            #[inline(always)]
            fn of(bits: u64, shift: u32) -> $word {
                <$word>::from(bits).checked_shl(shift).unwrap_or(0)
            }

            #[inline(always)]
            fn of_wide(bits: u128, shift: u32) -> $word {
                (bits as $word).checked_shl(shift).unwrap_or(0)
            }

            #[inline(always)]
            fn with(self, other: $word) -> $word {
                self | other
            }

            #[inline(always)]
            fn above(self, shift: u32) -> $word {
                self.checked_shr(shift).unwrap_or(0)
            }

            #[inline(always)]
            fn below(self, bits: u32) -> $word {
                self & <$word>::MAX.checked_shr(<$word>::BITS - bits).unwrap_or(0)
            }

            #[inline(always)]
            fn low(self) -> u64 {
                self as u64
            }
        }
    };
}

window_entry!(u64);
window_entry!(u128);

/// Sorts entries that differ only in the bits from `low` to `high`, as far as their order matters. `scratch` is memory
/// to move them to.
pub(crate) fn sort_entries<E: WindowEntry>(entries: &mut Vec<E>, scratch: &mut Vec<E>, low: u32, high: u32) {
    if high <= low || entries.is_sorted() {
        return;
    }
    if entries.len() < RADIX_ROWS_MIN {
        return entries.sort_unstable();
    }
    // About log2(rows) + 2 bits separate most entries if the bits are evenly distributed.
    let wanted = (usize::BITS - entries.len().leading_zeros() + 2).min(high - low);
    let sorted = sorted_bits(wanted);
    let shift = low.max(high.saturating_sub(sorted));
    sort_by_bits(entries, scratch, sorted, shift > low, |entry| entry.above(shift).low());
}

#[cfg(test)]
mod tests {
    use rand::rngs::SmallRng;
    use rand::{Rng, SeedableRng};

    use super::*;

    #[test]
    fn entries_of_any_key_width_are_sorted() {
        let mut random = SmallRng::seed_from_u64(3);
        for rows in [0, 1, 2, 100, 700, 5_000] {
            for bits in [1, 9, 11, 23, 40] {
                let mut narrow: Vec<u64> =
                    (0..rows).map(|row| random.random_range(0..1_u64 << bits) << 20 | row).collect();
                let mut wide: Vec<u128> = narrow.iter().map(|entry| u128::from(*entry) << 60).collect();
                let mut expected = narrow.clone();
                expected.sort_unstable();
                sort_entries(&mut narrow, &mut Vec::new(), 20, 20 + bits);
                assert_eq!(narrow, expected);
                sort_entries(&mut wide, &mut Vec::new(), 80, 80 + bits);
                assert_eq!(wide, expected.iter().map(|entry| u128::from(*entry) << 60).collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn above_and_below_work_for_all_widths() {
        assert_eq!((u64::MAX.above(64), u64::MAX.below(0), 5_u64.below(64)), (0, 0, 5));
        assert_eq!((u128::MAX.above(128), u128::MAX.below(1), u128::of(3, 127)), (0, 1, 1 << 127));
    }
}
