//! A mask of the rows of a range: one bit per row, which is set while the row is in.
//!
//! Filters narrow a mask step by step, and each looks only at rows whose bit is left. A word holds 64 rows that start
//! at a multiple of 64, wherever the range starts. So the words of a mask line up with vectors of stored values.

use std::ops::Range;

use arrow::buffer::BooleanBuffer;

/// The number of rows of a word.
pub(crate) const WORD_ROWS: usize = 64;

/// The number of rows of a byte.
const BYTE_ROWS: usize = 8;

/// The places of the bits that are set in a byte.
#[derive(Clone, Copy)]
struct BytePlaces {
    /// The places, ascending, and zeros after them.
    places: [u8; BYTE_ROWS],
    count: u8,
}

static BYTE_PLACES: [BytePlaces; 256] = {
    let mut all = [BytePlaces { places: [0; BYTE_ROWS], count: 0 }; 256];
    let mut entry = 0;
    while entry < all.len() * BYTE_ROWS {
        let (byte, bit) = (entry / BYTE_ROWS, entry % BYTE_ROWS);
        if byte >> bit & 1 == 1 {
            all[byte].places[all[byte].count as usize] = bit as u8;
            all[byte].count += 1;
        }
        entry += 1;
    }
    all
};

/// Some rows of a range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowMask {
    rows: Range<usize>,
    /// The first bit is the row at the last multiple of 64 up to the first row. Bits outside of the range must never be
    /// set.
    words: Vec<u64>,
}

impl RowMask {
    /// Makes a mask with no row of `rows`.
    pub fn none(rows: Range<usize>) -> RowMask {
        let first = rows.start / WORD_ROWS;
        let words = if rows.is_empty() { 0 } else { rows.end.div_ceil(WORD_ROWS) - first };
        RowMask { rows, words: vec![0; words] }
    }

    /// Makes a mask with all of `rows`.
    pub fn all(rows: Range<usize>) -> RowMask {
        let mut mask = RowMask::none(rows.clone());
        mask.insert_range(rows);
        mask
    }

    /// The range that the mask covers.
    pub fn rows(&self) -> Range<usize> {
        self.rows.clone()
    }

    /// The number of rows in the mask.
    pub fn count(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Whether no row is in the mask.
    pub fn is_empty(&self) -> bool {
        self.words.iter().all(|word| *word == 0)
    }

    /// Whether all rows of the range are in the mask.
    pub fn is_full(&self) -> bool {
        self.count() == self.rows.len()
    }

    /// The shortest range that contains all rows of the mask.
    pub fn extent(&self) -> Range<usize> {
        let first = self.words.iter().position(|word| *word != 0);
        let last = self.words.iter().rposition(|word| *word != 0);
        let (Some(first), Some(last)) = (first, last) else { return self.rows.start..self.rows.start };
        let start = first * WORD_ROWS + self.words[first].trailing_zeros() as usize;
        let end = (last + 1) * WORD_ROWS - self.words[last].leading_zeros() as usize;
        self.first_row() + start..self.first_row() + end
    }

    /// Whether `row` is in the mask. It must be in the range.
    pub fn contains(&self, row: usize) -> bool {
        let (word, bit) = self.place(row);
        self.words[word] >> bit & 1 == 1
    }

    /// Adds `row`, which must be in the range.
    pub fn insert(&mut self, row: usize) {
        let (word, bit) = self.place(row);
        self.words[word] |= 1 << bit;
    }

    /// Removes `row`, which must be in the range.
    pub fn remove(&mut self, row: usize) {
        let (word, bit) = self.place(row);
        self.words[word] &= !(1 << bit);
    }

    /// Adds the part of `rows` that is in the range.
    pub(crate) fn insert_range(&mut self, rows: Range<usize>) {
        self.for_words_of(rows, |word, bits| *word |= bits);
    }

    /// Removes all rows.
    pub fn clear(&mut self) {
        self.words.fill(0);
    }

    /// Inverts every row of the range.
    pub(crate) fn invert(&mut self) {
        let rows = self.rows();
        self.for_words_of(rows, |word, bits| *word ^= bits);
    }

    /// Keeps only the rows that are also in `other`, which must have the same range.
    pub fn and(&mut self, other: &RowMask) {
        self.combine(other, |word, other| word & other);
    }

    /// Adds the rows of `other`, which must have the same range.
    pub fn or(&mut self, other: &RowMask) {
        self.combine(other, |word, other| word | other);
    }

    /// Removes the rows of `other`, which must have the same range.
    pub fn and_not(&mut self, other: &RowMask) {
        self.combine(other, |word, other| word & !other);
    }

    fn combine(&mut self, other: &RowMask, with: impl Fn(u64, u64) -> u64) {
        assert_eq!(self.rows, other.rows, "only masks of the same range can be combined");
        self.words.iter_mut().zip(&other.words).for_each(|(word, other)| *word = with(*word, *other));
    }

    /// Keeps only those of `rows` whose bit is set, and removes every row outside of `rows`. `bits` must have one bit
    /// for each of `rows`, which must be within the range.
    pub fn and_bits(&mut self, rows: Range<usize>, bits: &BooleanBuffer) {
        assert_eq!(bits.len(), rows.len(), "a bit for each row");
        if rows.is_empty() {
            return self.clear();
        }
        let (first, skipped) = self.place(rows.start);
        let (before, words) = self.words.split_at_mut(first);
        before.fill(0);
        // `bits` starts anywhere within a word, so each word takes the rest of one chunk and the start of the next.
        let mut carried = 0;
        let mut chunks = bits.bit_chunks().iter_padded();
        for word in words {
            let next = chunks.next().unwrap_or(0);
            *word &= carried | next << skipped;
            carried = if skipped == 0 { 0 } else { next >> (WORD_ROWS - skipped) };
        }
    }

    /// Keeps those rows of the mask whose bit is set. `bits` must have one bit for each row in the mask, in their
    /// order.
    pub fn keep(&mut self, bits: &BooleanBuffer) {
        assert_eq!(bits.len(), self.count(), "a bit for each row that is in");
        let mut chunks = bits.bit_chunks().iter_padded();
        let (mut pending, mut pending_bits) = (0_u128, 0);
        for word in &mut self.words {
            let rows = word.count_ones();
            if pending_bits < rows {
                pending |= u128::from(chunks.next().unwrap_or(0)) << pending_bits;
                pending_bits += u64::BITS;
            }
            let mut bits = pending as u64;
            (pending, pending_bits) = (pending >> rows, pending_bits - rows);
            let mut left = std::mem::take(word);
            while left != 0 {
                // The lowest set bit is the next row. Whether it stays is unpredictable, so we do not branch on it.
                let row = left & left.wrapping_neg();
                *word |= row & (bits & 1).wrapping_neg();
                left ^= row;
                bits >>= 1;
            }
        }
    }

    /// The rows of the mask, ascending.
    pub fn positions(&self) -> Vec<u32> {
        let mut positions = Vec::new();
        self.append_positions(&mut positions);
        positions
    }

    /// Appends the rows of the mask, ascending.
    pub fn append_positions(&self, positions: &mut Vec<u32>) {
        let count = self.count();
        // A full mask needs no look at its bits.
        if count == self.rows.len() {
            return positions.extend(self.rows.start as u32..self.rows.end as u32);
        }
        if count * BYTE_ROWS < self.rows.len() {
            positions.reserve(count);
            return self.for_each(|row| positions.push(row as u32));
        }
        // Each byte writes eight positions, and the next byte writes over those that are too many.
        let mut at = positions.len();
        positions.resize(at + count + BYTE_ROWS, 0);
        for (word, first) in self.words.iter().zip((self.first_row()..).step_by(WORD_ROWS)) {
            for (byte, first) in word.to_le_bytes().into_iter().zip((first as u32..).step_by(BYTE_ROWS)) {
                let BytePlaces { places, count } = BYTE_PLACES[usize::from(byte)];
                let out = positions[at..].first_chunk_mut().expect("there is room for eight positions");
                *out = places.map(|place| first + u32::from(place));
                at += usize::from(count);
            }
        }
        positions.truncate(at);
    }

    /// Calls `each` with every row of the mask, ascending.
    pub fn for_each(&self, mut each: impl FnMut(usize)) {
        for (word, first) in self.words.iter().zip((self.first_row()..).step_by(WORD_ROWS)) {
            let mut left = *word;
            while left != 0 {
                each(first + left.trailing_zeros() as usize);
                left &= left - 1;
            }
        }
    }

    /// The row of the first bit, which may be before the range.
    fn first_row(&self) -> usize {
        self.rows.start / WORD_ROWS * WORD_ROWS
    }

    /// The existing words of the rows from `first`, which must be a multiple of 64, to `end`. Also returns how many
    /// words are missing before them.
    pub(crate) fn words_of(&mut self, first: usize, end: usize) -> (usize, &mut [u64]) {
        debug_assert_eq!(first % WORD_ROWS, 0, "words start at multiples of {WORD_ROWS}");
        let own = self.first_row() / WORD_ROWS;
        let (from, to) = (first / WORD_ROWS, end.div_ceil(WORD_ROWS));
        let start = from.max(own);
        let stop = to.min(own + self.words.len()).max(start);
        (start - from, &mut self.words[start - own..stop - own])
    }

    fn place(&self, row: usize) -> (usize, usize) {
        debug_assert!(self.rows.contains(&row), "row {row} of {:?}", self.rows);
        let bit = row - self.first_row();
        (bit / WORD_ROWS, bit % WORD_ROWS)
    }

    /// Calls `change` with each word that has some of `rows`, and with the bits of these rows.
    fn for_words_of(&mut self, rows: Range<usize>, change: impl Fn(&mut u64, u64)) {
        let (start, end) = (rows.start.max(self.rows.start), rows.end.min(self.rows.end));
        if start >= end {
            return;
        }
        let (start, end) = (start - self.first_row(), end - self.first_row());
        let (first, last) = (start / WORD_ROWS, (end - 1) / WORD_ROWS);
        // The first and the last word may be covered only in part.
        let (head, tail) = (u64::MAX << (start % WORD_ROWS), u64::MAX >> (WORD_ROWS - 1 - (end - 1) % WORD_ROWS));
        if first == last {
            return change(&mut self.words[first], head & tail);
        }
        change(&mut self.words[first], head);
        self.words[first + 1..last].iter_mut().for_each(|word| change(word, u64::MAX));
        change(&mut self.words[last], tail);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(rows: Range<usize>, is_in: impl Fn(usize) -> bool) -> RowMask {
        let mut mask = RowMask::none(rows.clone());
        rows.filter(|row| is_in(*row)).for_each(|row| mask.insert(row));
        mask
    }

    fn members(mask: &RowMask) -> Vec<bool> {
        mask.rows().map(|row| mask.contains(row)).collect()
    }

    proptest! {
        #[test]
        fn masks_behave_like_sets(start in 0usize..200, len in 0usize..300, from in 0usize..500, more in 0usize..300) {
            let rows = start..start + len;
            let mask = of(rows.clone(), |row| row % 3 == 0);
            let other = of(rows.clone(), |row| row % 5 < 3);
            let expect = |is_in: &dyn Fn(usize) -> bool| rows.clone().map(is_in).collect::<Vec<bool>>();
            let changed = |change: &dyn Fn(&mut RowMask)| {
                let mut mask = mask.clone();
                change(&mut mask);
                // No bit may ever be set outside of the range.
                let count = members(&mask).iter().filter(|is_in| **is_in).count();
                assert_eq!(mask.count(), count);
                assert_eq!((mask.is_empty(), mask.is_full()), (count == 0, count == len));
                members(&mask)
            };
            let part = from..from + more;
            prop_assert_eq!(changed(&|mask| mask.and(&other)), expect(&|row| row % 3 == 0 && row % 5 < 3));
            prop_assert_eq!(changed(&|mask| mask.or(&other)), expect(&|row| row % 3 == 0 || row % 5 < 3));
            prop_assert_eq!(changed(&|mask| mask.and_not(&other)), expect(&|row| row % 3 == 0 && row % 5 >= 3));
            prop_assert_eq!(changed(&|mask| mask.invert()), expect(&|row| row % 3 != 0));
            prop_assert_eq!(
                changed(&|mask| mask.insert_range(part.clone())),
                expect(&|row| row % 3 == 0 || part.contains(&row))
            );
            prop_assert_eq!(changed(&RowMask::clear), vec![false; len]);
            prop_assert_eq!(members(&RowMask::all(rows.clone())), vec![true; len]);
            // The bits start at an odd position in their buffer, and the rows at an odd position in their word.
            let within = (start + len / 3)..(start + len - len / 4);
            let bits = BooleanBuffer::collect_bool(within.len() + 7, |bit| (within.start + bit) % 7 < 4);
            let bits = bits.slice(7, within.len());
            prop_assert_eq!(
                changed(&|mask| mask.and_bits(within.clone(), &bits)),
                expect(&|row| row % 3 == 0 && within.contains(&row) && (row + 7) % 7 < 4)
            );
            let kept = BooleanBuffer::collect_bool(mask.count(), |place| place % 2 == 0);
            let positions: Vec<u32> = rows.clone().filter(|row| row % 3 == 0).map(|row| row as u32).collect();
            prop_assert_eq!(mask.positions(), positions.clone());
            let extent = positions.first().map_or(start..start, |first| {
                *first as usize..positions.last().map_or(0, |last| *last as usize + 1)
            });
            prop_assert_eq!(mask.extent(), extent);
            let halved = |row: usize| positions.iter().step_by(2).any(|position| *position as usize == row);
            prop_assert_eq!(changed(&|mask| mask.keep(&kept)), expect(&halved));
        }
    }
}
