//! Finds the distinct values of a column of integers, and the code of each row.
//!
//! If the values span a small range, an array with a slot per possible value counts them. Otherwise a hash table
//! numbers them in the order of their appearance, and then the distinct values are sorted. We give up when there are
//! too many distinct values for a list to pay. A sample usually tells that before the table is filled: if all values
//! are equally frequent, a random draw of `n` rows repeats an earlier value about `c = n * n / 2d` times for `d`
//! distinct values, and more often if they are not equally frequent. The draw is scattered over all rows, because
//! neighbours repeat more or less often than other rows.
//!
//! The hash key is random for each process, so that no data can be crafted to collide.

use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;

use crate::sequence::Word;

/// The maximum number of slots of the counting array, per row.
const SLOTS_PER_ROW_MAX: usize = 2;
/// This many slots are allowed for small columns too.
const SLOTS_ALWAYS: usize = 1 << 16;

/// The number of rows of a sample.
const SAMPLE: usize = 8192;
/// Columns with fewer rows are not sampled.
const SAMPLED_ROWS_MIN: usize = 8 * SAMPLE;
/// With fewer repeated values than this in the sample, there are about twice as many possible values as rows, and more
/// than three quarters of the rows have a value of their own.
const REPEATED_MIN: usize = 32;
/// A prime that is larger than the number of rows of a chunk, so that its multiples visit different rows.
const SCATTER: usize = 2_654_435_761;
/// Fewer values than this are sorted by comparing.
const RADIX_MIN: usize = 2048;
/// The bits of one digit of the radix sort. The 256 places that are written to take 16 KiB of cache lines, half of the
/// first-level cache.
const DIGIT_BITS: u32 = 8;

/// The distinct values of a column.
pub(super) struct Distinct<W> {
    /// The values, ascending.
    pub(super) values: Vec<W>,
    /// For each value, the number of rows that are not NULL.
    pub(super) counts: Vec<u32>,
    numbers: ValueNumbers,
}

/// The way from a row's value to its code.
enum ValueNumbers {
    /// Indexed by value: the code.
    ByValue(Vec<u32>),
    /// Indexed by row: the number of its value in the order of appearance. Indexed by number: the code.
    ByRow { numbers: Vec<u32>, codes: Vec<u32> },
}

impl<W: Word> Distinct<W> {
    /// Finds the distinct values of `values`, whose greatest value is `high`. Returns `None` if there are more than
    /// `most`. Each NULL row must hold the value of some row that is not NULL.
    pub(super) fn find(values: &[W], high: W, null_rows: &[u32], most: usize) -> Option<Distinct<W>> {
        // An array is faster than a hash table, but it must not be much larger than the column.
        let slots_max = (values.len() * SLOTS_PER_ROW_MAX).max(SLOTS_ALWAYS.min(64 * values.len()));
        let mut found = match usize::try_from(high.widen()) {
            Ok(high) if high < slots_max => count_slots(values, high + 1, most)?,
            _ if most < values.len() && hardly_repeats(values) => return None,
            _ => number_values(values, most)?,
        };
        // The NULL rows were counted under the value that they hold. Take them out again.
        for row in null_rows {
            let code = found.code(values[*row as usize], *row as usize);
            found.counts[code as usize] -= 1;
        }
        Some(found)
    }

    /// Forgets the values, for a column with only NULLs: its NULL rows hold an arbitrary value.
    pub(super) fn forget_values(&mut self) {
        self.values.clear();
        self.counts.clear();
    }

    fn code(&self, value: W, row: usize) -> u32 {
        match &self.numbers {
            ValueNumbers::ByValue(codes) => codes[value.low() as usize],
            ValueNumbers::ByRow { numbers, codes } => codes[numbers[row] as usize],
        }
    }

    /// The code of each row. The code of a NULL row is the number of values. `C` must be wide enough for all codes.
    pub(super) fn codes<C: Word>(&self, values: &[W], null_rows: &[u32]) -> Vec<C> {
        let mut out: Vec<C> = match &self.numbers {
            ValueNumbers::ByValue(codes) => {
                let codes: Vec<C> = codes.iter().map(|code| C::from_u64(u64::from(*code))).collect();
                values.iter().map(|value| codes[value.low() as usize]).collect()
            }
            ValueNumbers::ByRow { numbers, codes } => {
                let codes: Vec<C> = codes.iter().map(|code| C::from_u64(u64::from(*code))).collect();
                numbers.iter().map(|number| codes[*number as usize]).collect()
            }
        };
        let null = C::from_u64(self.values.len() as u64);
        null_rows.iter().for_each(|row| out[*row as usize] = null);
        out
    }
}

fn count_slots<W: Word>(values: &[W], slots: usize, most: usize) -> Option<Distinct<W>> {
    let mut rows = vec![0u32; slots];
    // Neighbours are often equal, and reading a slot that was just written stalls the processor. So two arrays take
    // turns.
    let mut others = vec![0u32; slots];
    let (pairs, rest) = values.as_chunks::<2>();
    for [a, b] in pairs {
        rows[a.low() as usize] += 1;
        others[b.low() as usize] += 1;
    }
    for value in rest {
        rows[value.low() as usize] += 1;
    }
    for (rows, others) in rows.iter_mut().zip(&others) {
        *rows += others;
    }
    let mut found = Distinct { values: Vec::new(), counts: Vec::new(), numbers: ValueNumbers::ByValue(Vec::new()) };
    // The second array is no longer needed for counting. We reuse it for the codes.
    let mut codes = others;
    for (slot, rows) in rows.iter().enumerate() {
        if *rows > 0 {
            // Too many values for a list to pay.
            if found.values.len() == most {
                return None;
            }
            codes[slot] = found.values.len() as u32;
            found.values.push(W::from_u64(slot as u64));
            found.counts.push(*rows);
        }
    }
    found.numbers = ValueNumbers::ByValue(codes);
    Some(found)
}

/// Whether a sample repeats so few values that nearly every row must have a value of its own.
fn hardly_repeats<W: Word>(values: &[W]) -> bool {
    if values.len() < SAMPLED_ROWS_MIN {
        return false;
    }
    let mut table = DistinctTable::new();
    (0..SAMPLE).for_each(|pick| {
        table.number(values[pick * SCATTER % values.len()]);
    });
    SAMPLE - table.found.len() < REPEATED_MIN
}

/// Sorts by value: by comparing if there are few values, otherwise by radix sort from the lowest digit.
fn sort<W: Word>(values: &mut Vec<(W, u32)>) {
    if values.len() < RADIX_MIN {
        return values.sort_unstable();
    }
    let mut other = values.clone();
    let highest = values.iter().map(|(value, _)| *value).max().unwrap_or_default();
    for shift in (0..highest.bits()).step_by(DIGIT_BITS as usize) {
        let digit = |value: W| (value.shifted(shift).low() & ((1 << DIGIT_BITS) - 1)) as usize;
        let mut starts = [0u32; 1 << DIGIT_BITS];
        // Count each digit, then turn the counts into the start of each digit's entries.
        values.iter().for_each(|(value, _)| starts[digit(*value)] += 1);
        let mut sum = 0;
        for start in &mut starts {
            sum += std::mem::replace(start, sum);
        }
        for entry in values.iter() {
            let start = &mut starts[digit(entry.0)];
            other[*start as usize] = *entry;
            *start += 1;
        }
        std::mem::swap(values, &mut other);
    }
}

static HASH_KEY: LazyLock<u64> = LazyLock::new(|| RandomState::new().hash_one(0u8) | 1);

/// An open-addressing hash table from value to number.
///
/// A slot holds a number and the bits of the hash that did not choose the slot. So a slot takes four bytes for any type
/// of value, the table stays in a near cache, and we only compare a value itself if those bits match.
struct DistinctTable<W> {
    slots: Vec<u32>,
    /// How far to shift the hash right to get the slot.
    shift: u32,
    key: u64,
    /// The values, indexed by number.
    found: Vec<W>,
}

const EMPTY: u32 = u32::MAX;
const SLOT_BITS_FIRST: u32 = 12;
/// The bits of a number. A number never has all of them set, so no slot with an entry equals [`EMPTY`].
const NUMBER_BITS: u32 = 20;
const NUMBER_MASK: u32 = (1 << NUMBER_BITS) - 1;

const _: () = assert!(crate::chunk::ROWS_MAX < NUMBER_MASK as usize);

impl<W: Word> DistinctTable<W> {
    fn new() -> DistinctTable<W> {
        let slots = vec![EMPTY; 1 << SLOT_BITS_FIRST];
        DistinctTable { slots, shift: 64 - SLOT_BITS_FIRST, key: *HASH_KEY, found: Vec::new() }
    }

    #[inline]
    fn hash(&self, value: W) -> u64 {
        let wide = value.widen();
        let folded = (wide as u64 ^ ((wide >> 64) as u64).rotate_left(32)) ^ self.key;
        let product = u128::from(folded) * u128::from(0x9e37_79b9_7f4a_7c15_u64 ^ (self.key << 1));
        (product >> 64) as u64 ^ product as u64
    }

    #[inline]
    fn number(&mut self, value: W) -> u32 {
        let hash = self.hash(value);
        // The slot takes the high bits of the hash and the tag low ones, so the tag adds information.
        let tag = (hash as u32) & !NUMBER_MASK;
        let mask = self.slots.len() - 1;
        let mut slot = (hash >> self.shift) as usize & mask;
        loop {
            let entry = self.slots[slot];
            if entry == EMPTY {
                return self.insert(slot, tag, value);
            }
            let number = entry & NUMBER_MASK;
            if entry & !NUMBER_MASK == tag && self.found[number as usize] == value {
                return number;
            }
            slot = (slot + 1) & mask;
        }
    }

    fn insert(&mut self, slot: usize, tag: u32, value: W) -> u32 {
        let number = self.found.len() as u32;
        self.slots[slot] = tag | number;
        self.found.push(value);
        // At most half of the slots are used, so that probing stays short and always finds an empty slot.
        if self.found.len() * 2 > self.slots.len() {
            self.grow();
        }
        number
    }

    /// Makes the table four times as large and inserts all values again.
    fn grow(&mut self) {
        self.shift -= 2;
        let mask = self.slots.len() * 4 - 1;
        self.slots = vec![EMPTY; mask + 1];
        for (number, value) in self.found.iter().enumerate() {
            let hash = self.hash(*value);
            let mut slot = (hash >> self.shift) as usize & mask;
            // All values are distinct here, so no comparison is needed.
            while self.slots[slot] != EMPTY {
                slot = (slot + 1) & mask;
            }
            self.slots[slot] = (hash as u32) & !NUMBER_MASK | number as u32;
        }
    }
}

fn number_values<W: Word>(values: &[W], most: usize) -> Option<Distinct<W>> {
    let mut table = DistinctTable::new();
    let mut rows: Vec<u32> = Vec::new();
    let mut numbers = Vec::with_capacity(values.len());
    // A run of equal values needs only one lookup.
    for run in values.chunk_by(|a, b| a == b) {
        let number = table.number(run[0]);
        // This is a new value: the table numbers values from 0 without gaps.
        if number as usize == rows.len() {
            if rows.len() == most {
                return None;
            }
            rows.push(0);
        }
        rows[number as usize] += run.len() as u32;
        numbers.resize(numbers.len() + run.len(), number);
    }
    // Sort the values, then translate numbers to codes: the code is the rank of the value.
    let mut order: Vec<(W, u32)> =
        table.found.iter().enumerate().map(|(number, value)| (*value, number as u32)).collect();
    sort(&mut order);
    let mut codes = vec![0; order.len()];
    for (code, (_, number)) in order.iter().enumerate() {
        codes[*number as usize] = code as u32;
    }
    Some(Distinct {
        values: order.iter().map(|(value, _)| *value).collect(),
        counts: order.iter().map(|(_, number)| rows[*number as usize]).collect(),
        numbers: ValueNumbers::ByRow { numbers, codes },
    })
}
