//! Lengths and counts: small integers with a fixed number of bits each, and patches for the few large ones.
//!
//! ```text
//!   width u8 | base u32 | patches u32 | low bits, first number in the lowest bits | positions u32.. | numbers u32..
//! ```
//!
//! A number is `base` plus its low bits, unless a patch at its position replaces it. We choose the width that makes the
//! section smallest. For example, one value of a megabyte among half a million short ones costs eight bytes, and not 15
//! bits per row. Numbers can be read from any position. Block-wise layouts unpack faster but do not allow that. At
//! about a nanosecond each, the numbers are not the bottleneck of decoding strings.

use std::ops::Range;

use rowmill_base::{Error, Result};

use super::reader::{SectionReader, u32_at};
use crate::sequence::pack_in_order;

/// The size of a patch: its position and its number.
const PATCH_BYTES: usize = 8;

/// Packs `numbers` and appends them to `out`.
pub(super) fn write(numbers: &[u32], out: &mut Vec<u8>) {
    // Subtracting the least number makes equal numbers take no bits.
    let base = numbers.iter().copied().min().unwrap_or(0);
    let width = best_width(numbers, base);
    let fits = |number: u32| u64::from(number - base) >> width == 0;
    let patches: Vec<(u32, u32)> = (0u32..).zip(numbers.iter().copied()).filter(|&(_, number)| !fits(number)).collect();
    out.push(width as u8);
    out.extend_from_slice(&base.to_le_bytes());
    out.extend_from_slice(&(patches.len() as u32).to_le_bytes());
    let low_bits = numbers.iter().map(|&number| if fits(number) { u64::from(number - base) } else { 0 });
    pack_in_order(low_bits, width, out);
    patches.iter().for_each(|(position, _)| out.extend_from_slice(&position.to_le_bytes()));
    patches.iter().for_each(|(_, number)| out.extend_from_slice(&number.to_le_bytes()));
}

/// The width for which packed bits and patches together are smallest.
fn best_width(numbers: &[u32], base: u32) -> u32 {
    let mut of_width = [0usize; 33];
    for &number in numbers {
        of_width[(u32::BITS - (number - base).leading_zeros()) as usize] += 1;
    }
    // `wider` counts the numbers that do not fit `width` and so need a patch.
    let mut wider = numbers.len();
    let bytes_at = |width: usize| {
        wider -= of_width[width];
        (numbers.len() * width).div_ceil(8) + wider * PATCH_BYTES
    };
    let bytes: Vec<usize> = (0..=32).map(bytes_at).collect();
    (0..=32).min_by_key(|&width| bytes[width as usize]).expect("the range is not empty")
}

/// Stored numbers.
#[derive(Clone, Debug)]
pub(super) struct PackedInts<'a> {
    width: u32,
    base: u32,
    low_bits: &'a [u8],
    positions: &'a [u8],
    patches: &'a [u8],
}

impl<'a> PackedInts<'a> {
    /// Opens the next `len` numbers of a section.
    pub(super) fn read(section: &mut SectionReader<'a>, len: usize) -> Result<PackedInts<'a>> {
        let width = u32::from(section.u8()?);
        let base = section.u32()?;
        let patches = section.u32()? as usize;
        if width > 32 || patches > len {
            return Err(Error::corrupt(format!("{patches} patches for {len} numbers of {width} bits")));
        }
        Ok(PackedInts {
            width,
            base,
            low_bits: section.bytes((len * width as usize).div_ceil(8))?,
            positions: section.bytes(patches * 4)?,
            patches: section.bytes(patches * 4)?,
        })
    }

    /// Appends a range of the numbers to `out`. The range must be within the numbers.
    pub(super) fn unpack(&self, range: Range<usize>, out: &mut Vec<u32>) {
        self.unpack_behind(range, &mut 0, out);
    }

    /// Appends a range of the numbers to `out`, for ascending ranges. `patch` keeps the position in the patches from
    /// one range to the next. It must be 0 at first.
    pub(super) fn unpack_behind(&self, range: Range<usize>, patch: &mut usize, out: &mut Vec<u32>) {
        let start = out.len();
        let mut bit = range.start * self.width as usize;
        // The width is at most 32, so an unaligned number is always within eight bytes.
        let mask = (1u64 << self.width) - 1;
        out.extend(range.clone().map(|_| {
            let low = word_at(self.low_bits, bit >> 3) >> (bit & 7) & mask;
            bit += self.width as usize;
            self.base.wrapping_add(low as u32)
        }));
        *patch = self.patch(range, *patch, &mut out[start..]);
    }

    /// Overwrites the numbers that have a patch, beginning with patch number `patch`. Returns the number of the next
    /// patch. In hostile bytes the positions may be unordered. Then some patches are missed.
    fn patch(&self, range: Range<usize>, patch: usize, out: &mut [u32]) -> usize {
        let patches = self.positions.len() / 4;
        let position = |patch: usize| u32_at(self.positions, patch) as usize;
        // The first patch of the range is probably near, so we double the step before we search by halves.
        let (mut low, mut step) = (patch, 1);
        while low + step <= patches && position(low + step - 1) < range.start {
            low += step;
            step *= 2;
        }
        let mut high = (low + step - 1).min(patches);
        while low < high {
            let middle = low + (high - low) / 2;
            match position(middle) < range.start {
                true => low = middle + 1,
                false => high = middle,
            }
        }
        while low < patches {
            match out.get_mut(position(low).wrapping_sub(range.start)) {
                Some(number) => *number = u32_at(self.patches, low),
                None => break,
            }
            low += 1;
        }
        low
    }
}

/// Eight bytes from `byte` on, with zeros after the end.
#[inline]
fn word_at(bytes: &[u8], byte: usize) -> u64 {
    match bytes.get(byte..byte + 8) {
        Some(eight) => u64::from_le_bytes(eight.try_into().expect("the slice has eight bytes")),
        None => bytes.get(byte..).unwrap_or(&[]).iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte)),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use proptest::prelude::*;

    use super::*;

    fn stored(numbers: &[u32]) -> Vec<u8> {
        let mut out = Vec::new();
        write(numbers, &mut out);
        out
    }

    proptest! {
        #[test]
        fn any_range_comes_back(
            numbers in prop::collection::vec(prop_oneof![20 => 0u32..40, 1 => any::<u32>()], 0..300),
            from in 0usize..300,
            to in 0usize..300,
        ) {
            let bytes = stored(&numbers);
            let mut reader = SectionReader::new(&bytes);
            let packed = PackedInts::read(&mut reader, numbers.len()).unwrap();
            prop_assert!(reader.rest().is_empty());
            let to = to.min(numbers.len());
            let from = from.min(to);
            let mut out = vec![7];
            packed.unpack(from..to, &mut out);
            prop_assert_eq!(&out[1..], &numbers[from..to]);
        }

        #[test]
        fn ascending_ranges_come_back(
            numbers in prop::collection::vec(prop_oneof![4 => 0u32..40, 1 => any::<u32>()], 0..300),
            steps in prop::collection::vec((0usize..40, 0usize..20), 0..20),
        ) {
            let bytes = stored(&numbers);
            let packed = PackedInts::read(&mut SectionReader::new(&bytes), numbers.len()).unwrap();
            let (mut at, mut patch) = (0, 0);
            for (gap, len) in steps {
                let from = (at + gap).min(numbers.len());
                let to = (from + len).min(numbers.len());
                let mut out = Vec::new();
                packed.unpack_behind(from..to, &mut patch, &mut out);
                prop_assert_eq!(&out, &numbers[from..to]);
                at = to;
            }
        }

        #[test]
        fn hostile_bytes_never_cause_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..100), len in 0usize..50) {
            if let Ok(packed) = PackedInts::read(&mut SectionReader::new(&bytes), len) {
                let mut out = Vec::new();
                packed.unpack(len / 2..len, &mut out);
                prop_assert_eq!(out.len(), len - len / 2);
                let mut patch = 0;
                for start in (0..len).step_by(7) {
                    packed.unpack_behind(start..(start + 3).min(len), &mut patch, &mut out);
                }
            }
        }
    }

    #[test]
    fn equal_numbers_take_no_bits() {
        assert_eq!(stored(&[36; 1000]).len(), 9);
    }

    #[test]
    fn one_large_number_costs_a_patch() {
        let mut numbers = vec![3; 1000];
        numbers[500] = 1 << 20;
        assert_eq!(stored(&numbers).len(), 9 + PATCH_BYTES);
    }
}
