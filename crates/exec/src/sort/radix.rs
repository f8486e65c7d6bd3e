//! Sorts entries by the bits in which they differ.

use super::entry::Entry;
use crate::radix::{RADIX_ROWS_MIN, sort_by_bits, sorted_bits};

/// Sorts `entries`. `scratch` is memory to move them to, which the caller can reuse.
pub(super) fn sort<E: Entry>(entries: &mut Vec<E>, scratch: &mut Vec<E>) {
    if entries.is_sorted() {
        return;
    }
    if entries.len() < RADIX_ROWS_MIN {
        return entries.sort_unstable();
    }
    let (least, most) = entries.iter().fold((u128::MAX, u128::MIN), |(least, most), entry| {
        let head = entry.head();
        (least.min(head), most.max(head))
    });
    // Subtracting the least entry removes leading bits that all entries share.
    let bits = u128::BITS - (most - least).leading_zeros();
    // About log2(entries) bits separate most entries.
    let wanted = usize::BITS - entries.len().leading_zeros();
    let sorted = sorted_bits(wanted.min(bits));
    let shift = bits.saturating_sub(sorted);
    sort_by_bits(entries, scratch, sorted, true, |entry| ((entry.head() - least) >> shift) as u64);
}

#[cfg(test)]
mod tests {
    use rand::rngs::SmallRng;
    use rand::{Rng, SeedableRng};

    use super::super::entry::{RowPlace, Wide};
    use super::*;

    fn check<E: Entry>(keys: impl Iterator<Item = (u128, u32)>) {
        let mut entries: Vec<E> = Vec::new();
        for (row, (bits, shift)) in keys.enumerate() {
            let mut entry = E::at(RowPlace { part: row % 7, row });
            entry |= E::of_key(bits, shift);
            entries.push(entry);
        }
        let mut expected = entries.clone();
        expected.sort_unstable();
        sort(&mut entries, &mut Vec::new());
        assert_eq!(entries, expected);
    }

    #[test]
    fn entries_are_sorted_for_every_distribution_of_keys() {
        let mut random = SmallRng::seed_from_u64(5);
        for rows in [0, 1, 2, 100, RADIX_ROWS_MIN, 5_000, 70_000] {
            let spread: Vec<u128> = (0..rows).map(|_| random.random::<u128>() >> 60).collect();
            check::<u128>(spread.iter().map(|key| (*key, 0)));
            check::<u128>(spread.iter().map(|key| (key % 3, 0)));
            check::<u128>(spread.iter().map(|key| (key % 5_000 + (1 << 40), 7)));
            // All keys are near each other, except for a few.
            check::<u128>(spread.iter().map(|key| (if key % 1_000 == 0 { *key } else { key % 9_999 }, 0)));
            check::<u128>((0..rows as u128).rev().map(|key| (key, 0)));
            check::<Wide>(spread.iter().map(|key| (*key, 140)));
            check::<Wide>(spread.iter().map(|key| (*key, 0)));
            check::<Wide>(spread.iter().map(|key| (key % 20, 79)));
        }
    }
}
