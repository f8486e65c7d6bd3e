//! Reads a stored sequence of integers.
//!
//! The bytes may be hostile even under a valid checksum. So every offset is checked where it is used, and we never
//! allocate by a number from a head: the caller says how many values it expects.

use std::ops::Range;

use rowmill_base::{Error, Result};

use super::VECTOR;
use super::ints::{HEAD_BYTES, SequenceLayout};
use super::kernels::{WIDTH_MAX, low_bits, packed_bytes, unpack, unpack_some};
use super::word::Word;

/// From this many rows of one vector on, unpacking the whole vector is faster than picking single values.
pub(super) const PICKS_MAX: usize = 24;

/// A stored sequence. Readers choose the word size, and narrower stored words are widened.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ints<'a> {
    pub(super) layout: SequenceLayout,
    word_bytes: usize,
    pub(super) count: usize,
    /// For each vector, the first value (delta) or the least value (frame).
    bases: &'a [u8],
    /// For each vector, the least step.
    steps: &'a [u8],
    /// For each vector, the sum of the widths up to its end.
    ends: &'a [u8],
    packed: &'a [u8],
    /// The offset of the sequence in the chunk, for errors.
    at: usize,
}

impl<'a> Ints<'a> {
    /// Opens the sequence in `bytes`, which starts `at` bytes into the chunk and must have `count` values.
    pub(crate) fn open(bytes: &'a [u8], at: usize, count: usize) -> Result<Ints<'a>> {
        let damaged = |what: &str| corrupt(at, what);
        let (head, rest) = bytes.split_at_checked(HEAD_BYTES).ok_or_else(|| damaged("ends within its head"))?;
        let layout = match head[0] {
            0 => SequenceLayout::Plain,
            1 => SequenceLayout::Frame,
            2 => SequenceLayout::Delta,
            _ => return Err(damaged("has an unknown layout")),
        };
        let word_bytes = usize::from(head[1]);
        if !matches!(word_bytes, 1 | 2 | 4 | 8 | 16) || head[2..4] != [0, 0] {
            return Err(damaged("has a damaged head"));
        }
        let stored = u32::read(&head[4..]) as usize;
        if stored != count {
            return Err(corrupt(at, format_args!("has {stored} values instead of {count}")));
        }
        // `count` comes from the caller, so these sizes are bounded.
        let vectors = if layout == SequenceLayout::Plain { 0 } else { count.div_ceil(VECTOR) };
        let steps = if layout == SequenceLayout::Delta { vectors * word_bytes } else { 0 };
        let short = || damaged("is shorter than its values");
        let (bases, rest) = rest.split_at_checked(vectors * word_bytes).ok_or_else(short)?;
        let (steps, rest) = rest.split_at_checked(steps).ok_or_else(short)?;
        let (ends, packed) = rest.split_at_checked(vectors * 4).ok_or_else(short)?;
        if layout == SequenceLayout::Plain && packed.len() != count * word_bytes {
            return Err(damaged("is shorter or longer than its values"));
        }
        Ok(Ints { layout, word_bytes, count, bases, steps, ends, packed, at })
    }

    /// The number of values.
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// The size of a stored word in bytes. All values fit into it.
    pub(crate) fn word_bytes(&self) -> usize {
        self.word_bytes
    }

    pub(super) fn vector_len(&self, vector: usize) -> usize {
        VECTOR.min(self.count - vector * VECTOR)
    }

    fn word<W: Word>(&self, words: &[u8], index: usize) -> W {
        let bytes = &words[index * self.word_bytes..];
        match self.word_bytes {
            1 => W::truncate(u8::read(bytes).widen()),
            2 => W::truncate(u16::read(bytes).widen()),
            4 => W::truncate(u32::read(bytes).widen()),
            8 => W::truncate(u64::read(bytes).widen()),
            _ => W::truncate(u128::read(bytes)),
        }
    }

    /// The value at `index` of the plain layout.
    pub(super) fn plain<W: Word>(&self, index: usize) -> W {
        debug_assert_eq!(
            self.layout,
            SequenceLayout::Plain,
            "only the plain layout stores values without packing them"
        );
        self.word(self.packed, index)
    }

    /// The packed bytes of a vector and their width in bits.
    pub(super) fn packed(&self, vector: usize) -> Result<(&'a [u8], u32)> {
        let end = |vector: usize| u32::read(&self.ends[vector * 4..]);
        let before = if vector == 0 { 0 } else { end(vector - 1) };
        let width = end(vector).checked_sub(before).filter(|&width| width <= WIDTH_MAX);
        let width = width.ok_or_else(|| corrupt(self.at, format_args!("has a damaged vector {vector}")))?;
        // A vector of width `w` takes `128 * w` bytes, so the sum of the widths before it is its offset.
        let start = before as usize * (VECTOR / 8);
        let bytes = self.packed.get(start..).and_then(|rest| rest.get(..packed_bytes(self.vector_len(vector), width)));
        let bytes = bytes.ok_or_else(|| corrupt(self.at, format_args!("ends before its vector {vector}")))?;
        Ok((bytes, width))
    }

    /// The first value of a vector in the delta layout, otherwise the least one.
    pub(crate) fn base<W: Word>(&self, vector: usize) -> W {
        match self.layout {
            SequenceLayout::Plain => self.plain(vector * VECTOR),
            _ => self.word(self.bases, vector),
        }
    }

    /// The least and the greatest value that a vector of the delta layout can have, by its first value and its least
    /// and greatest possible step. `None` if this leads out of the words, because steps wrap, or for words of 128 bits.
    pub(super) fn step_bounds(&self, vector: usize) -> Result<Option<(u128, u128)>> {
        debug_assert_eq!(self.layout, SequenceLayout::Delta, "only the delta layout has steps");
        let bits = 8 * self.word_bytes as u32;
        if bits > u64::BITS {
            return Ok(None);
        }
        let (_, width) = self.packed(vector)?;
        let unused = u64::BITS - bits;
        // Steps are signed.
        let least = i128::from((self.word::<u64>(self.steps, vector) << unused).cast_signed() >> unused);
        let greatest = least + if width == 0 { 0 } else { i128::from(low_bits(width)) };
        let steps = self.vector_len(vector) as i128 - 1;
        let base = i128::from(self.base::<u64>(vector));
        let (low, high) = (base + steps * least.min(0), base + steps * greatest.max(0));
        Ok((low >= 0 && high < 1 << bits).then_some((low.cast_unsigned(), high.cast_unsigned())))
    }

    /// Unpacks a vector into the front of `out`. Returns the number of its values.
    pub(super) fn vector<W: Word>(&self, vector: usize, out: &mut [W; VECTOR]) -> Result<usize> {
        let count = self.vector_len(vector);
        let out = &mut out[..count];
        match self.layout {
            SequenceLayout::Plain => self.copy_plain(vector * VECTOR, out),
            SequenceLayout::Frame => {
                let (bytes, width) = self.packed(vector)?;
                unpack(bytes, self.base(vector), width, out);
            }
            SequenceLayout::Delta => {
                let (bytes, width) = self.packed(vector)?;
                let step: W = self.word(self.steps, vector);
                unpack(bytes, step, width, out);
                // Steps wrap at the size of the stored words, which may be smaller than `W`.
                let mask = W::truncate(u128::MAX >> (128 - 8 * self.word_bytes));
                // The first stored step is the least step, so adding it here gives the base.
                let mut value: W = self.base::<W>(vector).minus(step);
                for out in out {
                    value = value.plus(*out);
                    *out = value.masked(mask);
                }
            }
        }
        Ok(count)
    }

    fn copy_plain<W: Word>(&self, start: usize, out: &mut [W]) {
        let bytes = &self.packed[start * self.word_bytes..];
        match self.word_bytes {
            1 => widen::<u8, W>(bytes, out),
            2 => widen::<u16, W>(bytes, out),
            4 => widen::<u32, W>(bytes, out),
            8 => widen::<u64, W>(bytes, out),
            _ => widen::<u128, W>(bytes, out),
        }
    }

    pub(super) fn check_range(&self, range: &Range<usize>) -> Result<()> {
        match range.start <= range.end && range.end <= self.count {
            true => Ok(()),
            false => Err(corrupt(self.at, format_args!("has {} values, not {range:?}", self.count))),
        }
    }

    fn check_row(&self, row: u32) -> Result<()> {
        self.check_range(&(row as usize..row as usize + 1))
    }

    /// Calls `each` with the values of `range`, in order. Each call gets a vector or a part of one.
    pub(crate) fn for_each<W: Word>(&self, range: Range<usize>, mut each: impl FnMut(&[W])) -> Result<()> {
        self.check_range(&range)?;
        let mut buffer = [W::default(); VECTOR];
        let mut position = range.start;
        while position < range.end {
            let vector = position / VECTOR;
            let count = self.vector(vector, &mut buffer)?;
            let first = vector * VECTOR;
            each(&buffer[position - first..count.min(range.end - first)]);
            position = first + count;
        }
        Ok(())
    }

    /// Reads the values of `range`.
    pub(crate) fn read<W: Word>(&self, range: Range<usize>) -> Result<Vec<W>> {
        self.check_range(&range)?;
        let mut out = Vec::with_capacity(range.len());
        self.for_each(range, |values| out.extend_from_slice(values))?;
        Ok(out)
    }

    /// Calls `each` with the values at `rows`, a piece at a time. The rows must ascend and be distinct.
    pub(crate) fn gather<W: Word>(&self, rows: &[u32], mut each: impl FnMut(&[W])) -> Result<()> {
        debug_assert!(rows.is_sorted_by(|a, b| a < b), "rows must ascend, each at most once");
        self.gather_by_vector(rows, |buffer, rows, picked| {
            let (first, last) = (rows[0] as usize, rows[rows.len() - 1] as usize);
            let gaps = (last + 1 - first).saturating_sub(rows.len());
            // Many gaps: copy the wanted values together, so that `each` gets few slices. Few gaps: pass each run of
            // neighbours without copying.
            if gaps * ROWS_PER_GAP > rows.len() {
                pick_rows(buffer, rows, picked);
                return each(picked);
            }
            let mut left = rows;
            while let Some(first) = left.first() {
                let (run, behind) = left.split_at(run_at_front(left));
                let first = *first as usize % VECTOR;
                each(&buffer[first..first + run.len()]);
                left = behind;
            }
        })
    }

    /// Calls `each` with the values at `rows`, a piece at a time. The rows must ascend, and may repeat.
    pub(crate) fn gather_repeated<W: Word>(&self, rows: &[u32], mut each: impl FnMut(&[W])) -> Result<()> {
        debug_assert!(rows.is_sorted(), "rows must ascend");
        self.gather_by_vector(rows, |buffer, rows, picked| {
            pick_rows(buffer, rows, picked);
            each(picked);
        })
    }

    /// Calls `each` once per vector, with a buffer that has at least the wanted values at their positions, the wanted
    /// rows of the vector, and room for that many values.
    fn gather_by_vector<W: Word>(
        &self,
        rows: &[u32],
        mut each: impl FnMut(&[W; VECTOR], &[u32], &mut [W]),
    ) -> Result<()> {
        let (mut buffer, mut picked) = ([W::default(); VECTOR], [W::default(); VECTOR]);
        let mut left = rows;
        while let Some(first) = left.first() {
            let vector = *first as usize / VECTOR;
            let (rows, behind) = left.split_at(rows_of_vector(left));
            left = behind;
            // A delta needs all steps before a value, so single values cannot be picked from it.
            if self.layout != SequenceLayout::Delta && rows.len() < PICKS_MAX {
                self.pick(vector, rows, |row, value| buffer[row as usize % VECTOR] = value)?;
            } else {
                self.check_row(rows[rows.len() - 1])?;
                self.vector(vector, &mut buffer)?;
            }
            each(&buffer, rows, &mut picked[..rows.len()]);
        }
        Ok(())
    }

    /// Calls `each` with every row of `rows` and its value. The rows must be in `vector`. Not for the delta layout.
    pub(super) fn pick<W: Word>(&self, vector: usize, rows: &[u32], mut each: impl FnMut(u32, W)) -> Result<()> {
        debug_assert_ne!(self.layout, SequenceLayout::Delta, "a value of the delta layout needs all steps before it");
        rows.iter().try_for_each(|row| self.check_row(*row))?;
        if self.layout == SequenceLayout::Plain {
            rows.iter().for_each(|row| each(*row, self.plain(*row as usize)));
            return Ok(());
        }
        let (bytes, width) = self.packed(vector)?;
        let (base, count) = (self.base::<W>(vector), self.vector_len(vector));
        unpack_some(bytes, count, width, rows, |row, packed| each(row, base.plus(W::from_u64(packed))));
        Ok(())
    }

    /// Reads one value.
    pub(crate) fn get<W: Word>(&self, index: usize) -> Result<W> {
        let mut found = W::default();
        self.gather(&[index as u32], |values| values.iter().for_each(|value| found = *value))?;
        Ok(found)
    }
}

/// With more rows per gap than this, the rows of a vector are passed run by run. Finding the end of a run takes as long
/// as copying about this many values.
const ROWS_PER_GAP: usize = 128;

fn pick_rows<W: Word>(buffer: &[W; VECTOR], rows: &[u32], picked: &mut [W]) {
    picked.iter_mut().zip(rows).for_each(|(value, row)| *value = buffer[*row as usize % VECTOR]);
}

/// The length of the run of neighbours at the front of `rows`, which must ascend and be distinct.
fn run_at_front(rows: &[u32]) -> usize {
    count_at_front(rows.len(), |place| rows[place] as usize == rows[0] as usize + place)
}

/// The number of rows at the front of `rows` that are in the same vector as the first. `rows` must ascend and not be
/// empty. Returns at most the size of a vector.
fn rows_of_vector(rows: &[u32]) -> usize {
    let vector = rows[0] as usize / VECTOR;
    count_at_front(rows.len().min(VECTOR), |place| rows[place] as usize / VECTOR <= vector)
}

/// The number of positions at the front for which `is_in` is true, of `len`. The first one must be in, and no position
/// after one that is out may be in. Usually the result is small or `len`, so we double before we halve.
fn count_at_front(len: usize, is_in: impl Fn(usize) -> bool) -> usize {
    let mut end = 1;
    while end < len && is_in(end) {
        end *= 2;
    }
    // Half of `end` is the last position that was checked and is in.
    let (mut known, mut end) = (end / 2, end.min(len));
    while known + 1 < end {
        let middle = known + (end - known) / 2;
        match is_in(middle) {
            true => known = middle,
            false => end = middle,
        }
    }
    known + 1
}

fn widen<S: Word, W: Word>(bytes: &[u8], out: &mut [W]) {
    for (out, bytes) in out.iter_mut().zip(bytes.chunks_exact(S::BYTES)) {
        *out = W::truncate(S::read(bytes).widen());
    }
}

fn corrupt(at: usize, what: impl std::fmt::Display) -> Error {
    Error::corrupt(format!("byte {at} of the chunk: a sequence of integers {what}"))
}

/// Values that are compared at once on the way to the next target.
const STEP: usize = 16;
/// After this many steps, the rest is searched by halves.
const STEPS_MAX: usize = 4;

/// Searches an ascending sequence for ascending targets. Keeps the vector that it unpacked last.
pub(crate) struct SortedCursor<'a> {
    ints: Ints<'a>,
    /// The values of a vector, and greatest numbers after them. One step more than a vector, so that a step never ends
    /// early: the loop over a fixed number of values has no branch.
    buffer: [u32; VECTOR + STEP],
    /// The vector in the buffer, and the number of its values.
    loaded: Option<(usize, usize)>,
    /// The number of values in the buffer that are at most the last target.
    inside: usize,
}

impl<'a> SortedCursor<'a> {
    /// Makes a cursor over `ints`, which must ascend. If it does not, answers are wrong but nothing worse happens.
    pub(crate) fn new(ints: Ints<'a>) -> SortedCursor<'a> {
        SortedCursor { ints, buffer: [u32::MAX; VECTOR + STEP], loaded: None, inside: 0 }
    }

    /// The number of values that are at most `target`, and the last one of them.
    pub(crate) fn at_most(&mut self, target: u32) -> Result<(usize, Option<u32>)> {
        let (vector, count) = match self.loaded {
            // Targets ascend, so most of them are in the same vector as the target before.
            Some((vector, count)) if self.buffer[0] <= target && target < self.buffer[count - 1] => (vector, count),
            _ => {
                // The target is in another vector. Its base tells which one without unpacking.
                let Some(vector) = self.vector_before(target) else { return Ok((0, None)) };
                match self.loaded {
                    Some((loaded, count)) if loaded == vector => (vector, count),
                    _ => {
                        self.inside = 0;
                        let values = self.buffer.first_chunk_mut().expect("the buffer has room for a vector");
                        let count = self.ints.vector(vector, values)?;
                        self.buffer[count..].fill(u32::MAX);
                        (vector, count)
                    }
                }
            }
        };
        self.loaded = Some((vector, count));
        self.inside = self.advance(count, target);
        let last = self.inside.checked_sub(1).map(|last| self.buffer[last]);
        Ok((vector * VECTOR + self.inside, last))
    }

    /// The number of the `count` values in the buffer that are at most `target`. The next target is rarely far from the
    /// last one, so a few comparisons that do not depend on each other are faster than a binary search.
    fn advance(&self, count: usize, target: u32) -> usize {
        // A target below the last one is allowed, but starts at the front again.
        let is_behind = self.inside > 0 && self.buffer[self.inside - 1] > target;
        let mut inside = if is_behind { 0 } else { self.inside };
        for _ in 0..STEPS_MAX {
            let step: &[u32; STEP] = self.buffer[inside..].first_chunk().expect("a step follows the last value");
            let at_most = step.iter().map(|value| u32::from(*value <= target)).sum::<u32>() as usize;
            // The numbers after the last value are at most the greatest target.
            inside = count.min(inside + at_most);
            if at_most < STEP {
                return inside;
            }
        }
        inside + self.buffer[inside..count].partition_point(|value| *value <= target)
    }

    /// The last vector whose first value is at most `target`.
    fn vector_before(&self, target: u32) -> Option<usize> {
        let mut vectors = 0..self.ints.count.div_ceil(VECTOR);
        while !vectors.is_empty() {
            let middle = vectors.start + vectors.len() / 2;
            match self.ints.base::<u32>(middle) <= target {
                true => vectors.start = middle + 1,
                false => vectors.end = middle,
            }
        }
        vectors.start.checked_sub(1)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use proptest::prelude::*;

    use super::*;
    use crate::sequence::{encode, encode_as};

    fn check<W: Word>(values: &[W]) {
        for layout in [SequenceLayout::Plain, SequenceLayout::Frame, SequenceLayout::Delta] {
            let Some(bytes) = encode_as(layout, values) else { continue };
            let ints = Ints::open(&bytes, 0, values.len()).unwrap();
            assert_eq!(ints.read::<W>(0..values.len()).unwrap(), values, "{layout:?}");
            let wide: Vec<u128> = ints.read(0..values.len()).unwrap();
            assert!(wide.iter().zip(values).all(|(a, b)| *a == b.widen()));
            for start in [0, 1, values.len() / 3, values.len().saturating_sub(1)] {
                for end in [start, start + 1, values.len() / 2, values.len()] {
                    if start <= end && end <= values.len() {
                        assert_eq!(ints.read::<W>(start..end).unwrap(), values[start..end]);
                    }
                }
            }
            for step in [1, 7, 100, 1025] {
                let rows: Vec<u32> = (0..values.len() as u32).step_by(step).collect();
                let mut taken = Vec::new();
                ints.gather(&rows, |values: &[W]| taken.extend_from_slice(values)).unwrap();
                assert!(taken.iter().zip(&rows).all(|(value, row)| *value == values[*row as usize]));
                assert_eq!(taken.len(), rows.len());
            }
            assert!(ints.read::<W>(0..values.len() + 1).is_err());
            assert!(ints.get::<W>(values.len()).is_err());
            assert!(Ints::open(&bytes, 0, values.len() + 1).is_err());
        }
        let best = encode(values);
        for layout in [SequenceLayout::Plain, SequenceLayout::Frame, SequenceLayout::Delta] {
            assert!(encode_as(layout, values).is_none_or(|bytes| best.len() <= bytes.len()));
        }
    }

    #[test]
    fn evenly_spaced_values_take_no_bits() {
        let values: Vec<u64> = (0..4096u64).map(|row| u64::MAX - 5 * row).collect();
        check(&values);
        assert!(encode(&values).len() < 200);
    }

    #[test]
    fn a_cursor_agrees_with_a_binary_search() {
        for values in [vec![], vec![7], (0..5000).map(|value| value * 3 + 5).collect::<Vec<u32>>()] {
            for layout in [SequenceLayout::Plain, SequenceLayout::Frame, SequenceLayout::Delta] {
                let bytes = encode_as(layout, &values).unwrap();
                let mut cursor = SortedCursor::new(Ints::open(&bytes, 0, values.len()).unwrap());
                for target in (0..16_000).step_by(11).chain([4, 5, 6, 7, 8]) {
                    let count = values.partition_point(|value| *value <= target);
                    let last = count.checked_sub(1).map(|last| values[last]);
                    assert_eq!(cursor.at_most(target).unwrap(), (count, last));
                }
            }
        }
    }

    proptest! {
        #[test]
        fn any_values_come_back(seed in any::<u64>(), bits in 0u32..=64, count in 0usize..3000) {
            let mut state = seed | 1;
            let values: Vec<u64> = (0..count)
                .map(|_| {
                    state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                    (state >> 7).rotate_left(7).checked_shr(64 - bits).unwrap_or(0)
                })
                .collect();
            check(&values);
            check(&values.iter().map(|value| *value as u8).collect::<Vec<_>>());
            check(&values.iter().map(|value| *value as u16).collect::<Vec<_>>());
            check(&values.iter().map(|value| *value as u32).collect::<Vec<_>>());
            check(&values.iter().map(|value| u128::from(*value) << (seed % 64)).collect::<Vec<_>>());
        }

        #[test]
        fn hostile_bytes_are_an_error_or_garbage(
            values in proptest::collection::vec(any::<u32>(), 0..2500),
            layout in 0u8..3,
            flips in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        ) {
            let layout = [SequenceLayout::Plain, SequenceLayout::Frame, SequenceLayout::Delta][layout as usize];
            let mut bytes = encode_as(layout, &values).unwrap();
            for (index, byte) in flips {
                let index = index.index(bytes.len());
                bytes[index] = byte;
            }
            if let Ok(ints) = Ints::open(&bytes, 0, values.len()) {
                let _ = ints.read::<u32>(0..values.len());
                let _ = ints.gather(&(0..values.len() as u32).step_by(50).collect::<Vec<_>>(), |_: &[u8]| {});
                let mut cursor = SortedCursor::new(ints);
                let _ = cursor.at_most(1 << 20);
            }
        }
    }
}
