//! Searches a stored sequence: for the position of a value in an ascending sequence, and for the rows whose values are
//! in a range.
//!
//! Both decode as little as possible. The base, the least step and the width of a vector tell which values it can have,
//! so most vectors are skipped or taken whole. The others are compared in their packed form, in the lanes that they are
//! unpacked to, without adding the base to each value.

use rowmill_base::Result;

use super::VECTOR;
use super::ints::SequenceLayout;
use super::kernels::{PackedSpan, find_packed, low_bits, unpack_one};
use super::reader::{Ints, PICKS_MAX};
use super::word::Word;
use crate::row_mask::RowMask;

/// A range of values, both ends inclusive.
pub(crate) type Span<W> = (W, W);

/// One bit for each value of a vector.
type VectorBits = [u64; VECTOR / 64];

/// Searches an ascending sequence for one target after another. Keeps the vector that it decoded last, so ascending
/// targets decode each vector at most once.
pub(crate) struct SequenceSearch<'a, 'b, W> {
    ints: &'a Ints<'b>,
    decoded: Option<usize>,
    values: Vec<W>,
}

impl<W: Word> SequenceSearch<'_, '_, W> {
    /// The number of values of the sequence that are below `target`. If the sequence does not ascend, the answer is
    /// wrong but nothing worse happens.
    pub(crate) fn lower_bound(&mut self, target: W) -> Result<usize> {
        let ints = self.ints;
        let behind = partition_point(ints.len().div_ceil(VECTOR), |vector| ints.base::<W>(vector) < target);
        // The border is in the last vector whose first value is below the target.
        let Some(vector) = behind.checked_sub(1) else { return Ok(0) };
        let count = ints.vector_len(vector);
        let inside = match ints.layout {
            SequenceLayout::Plain => partition_point(count, |index| ints.plain::<W>(vector * VECTOR + index) < target),
            SequenceLayout::Frame => {
                let (bytes, width) = ints.packed(vector)?;
                // Compare packed values with the distance of the target from the base, so that nothing needs to be
                // unpacked.
                let distance = target.minus(ints.base(vector)).widen();
                partition_point(count, |index| u128::from(unpack_one(bytes, count, width, index)) < distance)
            }
            SequenceLayout::Delta => {
                if self.decoded != Some(vector) {
                    // The buffer is invalid until the vector is decoded, because decoding may fail halfway.
                    self.decoded = None;
                    self.values.resize(VECTOR, W::default());
                    let values = self.values.first_chunk_mut().expect("as long as a vector");
                    ints.vector(vector, values)?;
                    self.decoded = Some(vector);
                }
                partition_point(count, |index| self.values[index] < target)
            }
        };
        Ok(vector * VECTOR + inside)
    }
}

impl Ints<'_> {
    /// Makes a search for positions in this sequence, which must ascend.
    pub(crate) fn search<W: Word>(&self) -> SequenceSearch<'_, '_, W> {
        SequenceSearch { ints: self, decoded: None, values: Vec::new() }
    }

    /// Leaves the rows in `mask` whose value is in one of `spans`. There should be few spans.
    pub(crate) fn retain<W: Word>(&self, spans: &[Span<W>], mask: &mut RowMask) -> Result<()> {
        let is_in = |value: W| spans.iter().any(|(low, high)| *low <= value && value <= *high);
        let mut packed_spans = Vec::with_capacity(spans.len());
        self.retain_vectors(mask, &is_in, |vector| {
            if self.layout == SequenceLayout::Delta {
                let bounds = self.step_bounds(vector)?;
                return Ok(bounds.and_then(|bounds| bits_of_bounds(spans, bounds)));
            }
            if self.layout == SequenceLayout::Plain {
                return Ok(None);
            }
            let (bytes, width) = self.packed(vector)?;
            // The vector's values are between its base and its base plus this.
            let highest = if width == 0 { 0 } else { low_bits(width) };
            let base = self.base::<W>(vector);
            packed_spans.clear();
            packed_spans.extend(spans.iter().filter_map(|span| over_base(*span, base, highest)));
            // No span meets the possible values, or a span covers all of them, or we compare the packed values. A short
            // last vector has no lanes, so its values are compared one by one.
            Ok(match &packed_spans[..] {
                [] => Some([0; VECTOR / 64]),
                spans if spans.contains(&(0, highest)) => Some([u64::MAX; VECTOR / 64]),
                spans if self.vector_len(vector) == VECTOR => Some(find_packed(bytes, width, spans)),
                _ => None,
            })
        })
    }

    /// Leaves the rows in `mask` for whose value `is_in` is true.
    pub(crate) fn retain_where<W: Word>(&self, is_in: impl Fn(W) -> bool, mask: &mut RowMask) -> Result<()> {
        self.retain_vectors(mask, &is_in, |_| Ok(None))
    }

    /// Visits the vectors that have rows in `mask`. `at_once` may decide a vector without reading each value.
    fn retain_vectors<W: Word>(
        &self,
        mask: &mut RowMask,
        is_in: &impl Fn(W) -> bool,
        mut at_once: impl FnMut(usize) -> Result<Option<VectorBits>>,
    ) -> Result<()> {
        let rows = mask.rows();
        self.check_range(&rows)?;
        let mut values = [W::default(); VECTOR];
        for vector in rows.start / VECTOR..rows.end.div_ceil(VECTOR) {
            let first = vector * VECTOR;
            let (skipped, words) = mask.words_of(first, first + VECTOR);
            let left: u32 = words.iter().map(|word| word.count_ones()).sum();
            if left == 0 {
                continue;
            }
            // Few rows are left, so picking them is faster than unpacking the vector.
            if left as usize <= PICKS_MAX && self.layout != SequenceLayout::Delta {
                self.retain_picked(vector, first + skipped * 64, words, is_in)?;
                continue;
            }
            let bits = match at_once(vector)? {
                Some(bits) => bits,
                None => {
                    let count = self.vector(vector, &mut values)?;
                    bits_of(&values[..count], is_in)
                }
            };
            words.iter_mut().zip(&bits[skipped..]).for_each(|(word, bits)| *word &= bits);
        }
        Ok(())
    }

    /// Checks the few values of a vector whose bits are set. The first bit is the one of the row `first`.
    fn retain_picked<W: Word>(
        &self,
        vector: usize,
        first: usize,
        words: &mut [u64],
        is_in: &impl Fn(W) -> bool,
    ) -> Result<()> {
        let (mut rows, mut count) = ([0; PICKS_MAX], 0);
        for (word, first) in words.iter().zip((first..).step_by(64)) {
            let mut left = *word;
            while left != 0 {
                rows[count] = first as u32 + left.trailing_zeros();
                count += 1;
                left &= left - 1;
            }
        }
        self.pick(vector, &rows[..count], |row, value| {
            if !is_in(value) {
                let place = row as usize - first;
                words[place / 64] ^= 1 << (place % 64);
            }
        })
    }
}

/// The part of `span` that is possible for values from `base` to `base + highest`, as distances from the base.
fn over_base<W: Word>((low, high): Span<W>, base: W, highest: u64) -> Option<PackedSpan> {
    let base = base.widen();
    let low = u64::try_from(low.widen().saturating_sub(base)).ok().filter(|low| *low <= highest)?;
    let high = u64::try_from(high.widen().checked_sub(base)?).map_or(highest, |high| high.min(highest));
    Some((low, high))
}

/// The bits of a vector whose values are all from `least` to `greatest`, if no span or one span has all of these.
fn bits_of_bounds<W: Word>(spans: &[Span<W>], (least, greatest): (u128, u128)) -> Option<VectorBits> {
    let mut meeting = spans.iter().filter(|(low, high)| low.widen() <= greatest && least <= high.widen());
    match meeting.next() {
        None => Some([0; VECTOR / 64]),
        Some((low, high)) if low.widen() <= least && greatest <= high.widen() => Some([u64::MAX; VECTOR / 64]),
        Some(_) => None,
    }
}

fn bits_of<W: Word>(values: &[W], is_in: &impl Fn(W) -> bool) -> VectorBits {
    let mut bits = [0; VECTOR / 64];
    for (word, values) in bits.iter_mut().zip(values.chunks(64)) {
        *word = values.iter().rev().fold(0, |word, value| word << 1 | u64::from(is_in(*value)));
    }
    bits
}

/// The number of positions at the front for which `is_before` is true, of `count`. No position after a false one may be
/// true.
fn partition_point(count: usize, is_before: impl Fn(usize) -> bool) -> usize {
    let mut places = 0..count;
    while !places.is_empty() {
        let middle = places.start + places.len() / 2;
        match is_before(middle) {
            true => places.start = middle + 1,
            false => places.end = middle,
        }
    }
    places.start
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use proptest::prelude::*;

    use super::*;
    use crate::sequence::encode_as;

    const LAYOUTS: [SequenceLayout; 3] = [SequenceLayout::Plain, SequenceLayout::Frame, SequenceLayout::Delta];

    fn check<W: Word>(values: &[W], spans: &[(u64, u64)], step: usize) {
        let spans: Vec<Span<W>> = spans
            .iter()
            .map(|(a, b)| (W::from_u64(*a.min(b)), W::from_u64(*a.max(b))))
            .filter(|(low, high)| low <= high)
            .collect();
        let is_in = |value: &W| spans.iter().any(|(low, high)| low <= value && value <= high);
        let mut sorted = values.to_vec();
        sorted.sort_unstable();
        for layout in LAYOUTS {
            // The steps of 64-bit numbers may span more bits than can be packed.
            let Some(bytes) = encode_as(layout, values) else { continue };
            let ints = Ints::open(&bytes, 0, values.len()).unwrap();
            let start = step.min(values.len());
            let mut mask = RowMask::none(start..values.len());
            mask.rows().step_by(step).for_each(|row| mask.insert(row));
            let expected: Vec<u32> =
                (start..values.len()).step_by(step).filter(|row| is_in(&values[*row])).map(|row| row as u32).collect();
            let mut others = mask.clone();
            ints.retain(&spans, &mut mask).unwrap();
            assert_eq!(mask.positions(), expected, "{layout:?}");
            ints.retain_where(|value: W| is_in(&value), &mut others).unwrap();
            assert_eq!(others, mask, "{layout:?}");
            let Some(bytes) = encode_as(layout, &sorted) else { continue };
            let ints = Ints::open(&bytes, 0, sorted.len()).unwrap();
            let mut mask = RowMask::all(0..sorted.len());
            ints.retain(&spans, &mut mask).unwrap();
            let expected: Vec<u32> = (0..).zip(&sorted).filter(|(_, value)| is_in(value)).map(|(row, _)| row).collect();
            assert_eq!(mask.positions(), expected, "{layout:?}");
            let mut search = ints.search();
            for (low, high) in &spans {
                for target in [*low, *high] {
                    let expected = sorted.partition_point(|value| *value < target);
                    assert_eq!(search.lower_bound(target).unwrap(), expected, "{layout:?}");
                }
            }
        }
    }

    proptest! {
        #[test]
        fn searches_agree_with_a_loop_over_all_values(
            seed in any::<u64>(),
            bits in 0u32..=64,
            count in 0usize..3000,
            spans in proptest::collection::vec((any::<u64>(), any::<u64>()), 0..4),
            step in prop_oneof![Just(1usize), 2usize..200],
        ) {
            let mut state = seed | 1;
            let values: Vec<u64> = (0..count)
                .map(|_| {
                    state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                    (state >> 7).rotate_left(7).checked_shr(64 - bits).unwrap_or(0).wrapping_add(seed >> 1)
                })
                .collect();
            // Spans near the stored values: their ends are values or neighbours of values.
            let spans: Vec<(u64, u64)> = spans
                .iter()
                .map(|(a, b)| match values.len() {
                    0 => (*a, *b),
                    len => {
                        let (a_value, b_value) = (values[*a as usize % len], values[*b as usize % len]);
                        (a_value.wrapping_add(a % 3), b_value.wrapping_sub(b % 2))
                    }
                })
                .collect();
            check(&values, &spans, step);
            check(&values.iter().map(|value| *value as u8).collect::<Vec<_>>(), &spans, step);
            check(&values.iter().map(|value| *value as u16).collect::<Vec<_>>(), &spans, step);
            check(&values.iter().map(|value| *value as u32).collect::<Vec<_>>(), &spans, step);
            check(&values.iter().map(|value| u128::from(*value)).collect::<Vec<_>>(), &spans, step);
        }

        #[test]
        fn hostile_bytes_are_an_error_or_garbage(
            values in proptest::collection::vec(any::<u32>(), 1..2500),
            layout in 0usize..3,
            flips in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        ) {
            let mut bytes = encode_as(LAYOUTS[layout], &values).unwrap();
            for (index, byte) in flips {
                let index = index.index(bytes.len());
                bytes[index] = byte;
            }
            if let Ok(ints) = Ints::open(&bytes, 0, values.len()) {
                let mut search = ints.search();
                for target in [0, values[0], u32::MAX] {
                    let _ = search.lower_bound(target);
                    let mut mask = RowMask::all(0..values.len());
                    let _ = ints.retain(&[(target, target), (7, 1 << 20)], &mut mask);
                    let mut few = RowMask::none(0..values.len());
                    few.insert(values.len() / 2);
                    let _ = ints.retain(&[(target, target)], &mut few);
                }
            }
        }
    }

    #[test]
    fn rows_beyond_the_sequence_are_an_error() {
        let bytes = encode_as(SequenceLayout::Frame, &[1u32, 2, 3]).unwrap();
        let ints = Ints::open(&bytes, 0, 3).unwrap();
        assert!(ints.retain(&[(1u32, 2)], &mut RowMask::all(0..4)).is_err());
    }
}
