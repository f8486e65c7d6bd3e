//! Entries, which are sorted in place of rows.
//!
//! ```text
//! u128    key 80 bits                                               | part 28 | row 20
//! Wide    key 128 bits          | key 80 bits                       | part 28 | row 20
//! ```
//!
//! The bits of the key come first, so entries compare like keys. Below them is the place of the row, which
//! distinguishes rows with equal keys. No two entries are equal, however often a key occurs, so a sequence of entries
//! can be cut anywhere.

use std::fmt;
use std::ops::BitOrAssign;

/// The number of bits of a place.
pub(super) const PLACE_BITS: u32 = PART_BITS + ROW_BITS;
const PART_BITS: u32 = 28;
const ROW_BITS: u32 = 20;
const PLACE_MASK: u64 = (1 << PLACE_BITS) - 1;

/// The most rows of a part.
pub(super) const PART_ROWS_MAX: usize = 1 << ROW_BITS;

/// The place of a row: the number of a part, and the row in it. The owner of the place knows the list of parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct RowPlace {
    pub(super) part: usize,
    pub(super) row: usize,
}

impl RowPlace {
    fn bits(self) -> u64 {
        debug_assert!(self.part < 1 << PART_BITS && self.row < PART_ROWS_MAX, "a place must fit its bits");
        (self.part as u64) << ROW_BITS | self.row as u64
    }

    fn of(bits: u64) -> RowPlace {
        let bits = bits & PLACE_MASK;
        RowPlace { part: (bits >> ROW_BITS) as usize, row: bits as usize % PART_ROWS_MAX }
    }
}

/// A key above a place.
pub(super) trait Entry: Copy + Ord + Default + BitOrAssign + fmt::Debug + Send + Sync + 'static {
    /// The number of bits that a key may have.
    const KEY_BITS: u32;

    /// An entry with no key bits above `place`.
    fn at(place: RowPlace) -> Self;

    /// An entry with only key bits: `bits`, above the `shift` lower bits of the key.
    fn of_key(bits: u128, shift: u32) -> Self;

    /// The highest 128 bits.
    fn head(self) -> u128;

    /// The lowest 64 bits.
    fn tail(self) -> u64;

    /// The key without its place.
    fn key(self) -> Self;

    /// The place.
    fn place(self) -> RowPlace {
        RowPlace::of(self.tail())
    }

    /// The entry with the same key and another place.
    fn moved(self, place: RowPlace) -> Self {
        let mut entry = self.key();
        // The key leaves the bits of the place empty, so OR puts the new place there.
        entry |= Self::at(place);
        entry
    }
}

impl Entry for u128 {
    const KEY_BITS: u32 = u128::BITS - PLACE_BITS;

    fn at(place: RowPlace) -> u128 {
        u128::from(place.bits())
    }

    fn of_key(bits: u128, shift: u32) -> u128 {
        bits << (shift + PLACE_BITS)
    }

    fn head(self) -> u128 {
        self
    }

    fn tail(self) -> u64 {
        self as u64
    }

    fn key(self) -> u128 {
        self & !u128::from(PLACE_MASK)
    }
}

/// An entry with room for longer keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Wide {
    high: u128,
    low: u128,
}

impl BitOrAssign for Wide {
    fn bitor_assign(&mut self, other: Wide) {
        self.high |= other.high;
        self.low |= other.low;
    }
}

impl Entry for Wide {
    const KEY_BITS: u32 = 2 * u128::BITS - PLACE_BITS;

    fn at(place: RowPlace) -> Wide {
        Wide { high: 0, low: u128::at(place) }
    }

    fn of_key(bits: u128, shift: u32) -> Wide {
        match shift + PLACE_BITS {
            // PLACE_BITS is above zero, so `shift` is not 0 here and the right shift is below 128.
            shift @ 0..u128::BITS => Wide { high: bits >> (u128::BITS - shift), low: bits << shift },
            shift => Wide { high: bits << (shift - u128::BITS), low: 0 },
        }
    }

    fn head(self) -> u128 {
        self.high
    }

    fn tail(self) -> u64 {
        self.low as u64
    }

    fn key(self) -> Wide {
        Wide { high: self.high, low: self.low.key() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_compare_by_key_first_and_return_their_place() {
        let place = |part, row| RowPlace { part, row };
        let ends = [place(0, 0), place(0, PART_ROWS_MAX - 1), place((1 << PART_BITS) - 1, 7)];
        for place in ends {
            assert_eq!(u128::at(place).place(), place);
            let mut entry = Wide::of_key(u128::MAX, 3);
            entry |= Wide::at(place);
            assert_eq!((entry.place(), entry.key()), (place, Wide::of_key(u128::MAX, 3)));
            assert_eq!(entry.moved(ends[1]).place(), ends[1]);
        }
        assert!(u128::of_key(1, 0) > u128::at(ends[2]));
        assert!(Wide::of_key(1, 0) > Wide::at(ends[2]));
        assert!(Wide::of_key(1, 80) > Wide::of_key((1 << 80) - 1, 0));
        assert_eq!(Wide::of_key(u128::MAX, 80).head(), u128::MAX);
    }
}
