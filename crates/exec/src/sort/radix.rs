//! Sorts entries by the digits of their highest bits.
//!
//! We look at the bits in which the entries differ, and take enough of the highest ones as digits to separate most of
//! the entries. We move all entries once per digit, the lowest digit first. The entries that are then still equal in
//! these digits differ only in lower bits. Usually these groups are small. If keys are unevenly spread, a group may be
//! large, which only costs the time of the comparison sort that finishes it.

use super::entry::Entry;

/// The bits of a digit: the counters of three digits fit the first-level cache.
const DIGIT_BITS: u32 = 11;
const DIGITS_MAX: u32 = 3;

/// With fewer entries than this, sorting by comparison is faster than counting digits.
const ROWS_MIN: usize = 1 << 10;

/// Sorts `entries`. `scratch` is memory to move them to, which the caller can reuse.
pub(super) fn sort<E: Entry>(entries: &mut Vec<E>, scratch: &mut Vec<E>) {
    if entries.is_sorted() {
        return;
    }
    if entries.len() < ROWS_MIN {
        return entries.sort_unstable();
    }
    let digits = RadixDigits::of(entries);
    // One pass counts all digits, because the counts do not depend on the order of entries.
    let mut counts = digits.count(entries);
    scratch.resize(entries.len(), E::default());
    for (digit, counts) in counts.chunks_exact_mut(1 << DIGIT_BITS).enumerate() {
        move_by(entries, scratch, counts, |entry| digits.get(entry, digit as u32));
        std::mem::swap(entries, scratch);
    }
    for same in entries.chunk_by_mut(|left, right| digits.all(*left) == digits.all(*right)) {
        if same.len() > 1 {
            same.sort_unstable();
        }
    }
}

/// The bits of an entry that are used as digits.
struct RadixDigits {
    least: u128,
    shift: u32,
    digits: u32,
}

impl RadixDigits {
    fn of<E: Entry>(entries: &[E]) -> RadixDigits {
        let (least, most) = entries.iter().fold((u128::MAX, u128::MIN), |(least, most), entry| {
            let head = entry.head();
            (least.min(head), most.max(head))
        });
        // Subtracting the least entry removes leading bits that all entries share.
        let bits = u128::BITS - (most - least).leading_zeros();
        // About log2(entries) bits separate most entries.
        let wanted = usize::BITS - entries.len().leading_zeros();
        let digits = wanted.min(bits).div_ceil(DIGIT_BITS).clamp(1, DIGITS_MAX);
        RadixDigits { least, shift: bits.saturating_sub(digits * DIGIT_BITS), digits }
    }

    /// All digits of an entry as one number.
    #[inline]
    fn all<E: Entry>(&self, entry: E) -> u64 {
        ((entry.head() - self.least) >> self.shift) as u64
    }

    #[inline]
    fn get<E: Entry>(&self, entry: E, digit: u32) -> usize {
        digit_of(self.all(entry), digit)
    }

    /// Counts the values of each digit, one digit after the other.
    fn count<E: Entry>(&self, entries: &[E]) -> Vec<u32> {
        let mut counts = vec![0; (self.digits as usize) << DIGIT_BITS];
        for entry in entries {
            let all = self.all(*entry);
            for digit in 0..self.digits {
                counts[((digit as usize) << DIGIT_BITS) + digit_of(all, digit)] += 1;
            }
        }
        counts
    }
}

#[inline]
fn digit_of(digits: u64, digit: u32) -> usize {
    (digits >> (digit * DIGIT_BITS)) as usize % (1 << DIGIT_BITS)
}

/// Moves entries to `to` in the order of one digit. `counts` must have the number of entries for each value of the
/// digit.
fn move_by<E: Entry>(from: &[E], to: &mut [E], counts: &mut [u32], digit: impl Fn(E) -> usize) {
    // Turn the counts into the positions at which the entries of each value start. Moving in order keeps equal ones in
    // order, so the sort by the previous digits stays valid.
    let mut start = 0;
    for count in counts.iter_mut() {
        start += std::mem::replace(count, start);
    }
    for entry in from {
        let next = &mut counts[digit(*entry)];
        to[*next as usize] = *entry;
        *next += 1;
    }
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
        for rows in [0, 1, 2, 100, ROWS_MIN, 5_000, 70_000] {
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
