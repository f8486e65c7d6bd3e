//! The distinct values of a column of integers, and a code per row.
//!
//! Where the values span a small range, an array with a slot per possible value counts them. Elsewhere a hash table
//! numbers them in the order of their appearance, and the distinct ones are sorted. That gives up where so many are
//! distinct that a value list would not pay, and a sample tells of most such columns before the table is filled: among
//! `n` of `N` rows drawn at random, `c` repeat an earlier one where about `n * n / 2c` values are equally frequent, and
//! more repeat where they are not. The draw is scattered over all rows, since neighbours repeat more or less than others.
//!
//! Hashes are keyed by the process, so that no data can be made to collide in it.

use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;

use crate::encoding::Word;

/// Slots that may be counted in an array, per row.
const SLOTS_PER_ROW_MAX: usize = 2;
/// Slots that may be counted in an array, however few rows there are.
const SLOTS_ALWAYS: usize = 1 << 16;

/// Rows of a sample.
const SAMPLE: usize = 8192;
/// Fewer rows are not sampled.
const SAMPLED_ROWS_MIN: usize = 8 * SAMPLE;
/// Below this, a sample has so few repeated values that there are twice as many values as rows to draw from, and more than
/// three quarters of the rows then have one of their own.
const REPEATED_MIN: usize = 32;
/// A prime larger than a chunk has rows.
const SCATTER: usize = 2_654_435_761;
/// Fewer values are sorted by comparing.
const RADIX_MIN: usize = 2048;
/// Bits of a digit of the radix sort.
const DIGIT_BITS: u32 = 8;

/// The distinct values of a column.
pub(super) struct Distinct<W> {
    /// Ascending.
    pub(super) values: Vec<W>,
    /// Rows of each value that are not NULL.
    pub(super) counts: Vec<u32>,
    numbers: Numbers,
}

/// How to get from a row's value to its code.
enum Numbers {
    /// The code of each possible value.
    ByValue(Vec<u32>),
    /// The number of each row's value in the order of appearance, and the code of each number.
    ByRow { numbers: Vec<u32>, codes: Vec<u32> },
}

impl<W: Word> Distinct<W> {
    /// The distinct values of `values`, the greatest of which is `high`, or `None` if there are more than `most`. A NULL
    /// row holds the value of some row that is not NULL.
    pub(super) fn find(values: &[W], high: W, null_rows: &[u32], most: usize) -> Option<Distinct<W>> {
        let slots_max = (values.len() * SLOTS_PER_ROW_MAX).max(SLOTS_ALWAYS.min(64 * values.len()));
        let mut found = match usize::try_from(high.widen()) {
            Ok(high) if high < slots_max => count_slots(values, high + 1, most)?,
            _ if most < values.len() && hardly_repeats(values) => return None,
            _ => number_values(values, most)?,
        };
        for row in null_rows {
            let code = found.code(values[*row as usize], *row as usize);
            found.counts[code as usize] -= 1;
        }
        Some(found)
    }

    /// All rows are NULL: what their values repeat is no value.
    pub(super) fn forget_values(&mut self) {
        self.values.clear();
        self.counts.clear();
    }

    fn code(&self, value: W, row: usize) -> u32 {
        match &self.numbers {
            Numbers::ByValue(codes) => codes[value.low() as usize],
            Numbers::ByRow { numbers, codes } => codes[numbers[row] as usize],
        }
    }

    /// The code of each row; that of a NULL row is the number of values. `C` has room for all codes.
    pub(super) fn codes<C: Word>(&self, values: &[W], null_rows: &[u32]) -> Vec<C> {
        let mut out: Vec<C> = match &self.numbers {
            Numbers::ByValue(codes) => {
                let codes: Vec<C> = codes.iter().map(|code| C::from_u64(u64::from(*code))).collect();
                values.iter().map(|value| codes[value.low() as usize]).collect()
            }
            Numbers::ByRow { numbers, codes } => {
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
    // Neighbours are often equal, and a slot that was just written is slow to read: two arrays take turns.
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
    let mut found = Distinct { values: Vec::new(), counts: Vec::new(), numbers: Numbers::ByValue(Vec::new()) };
    let mut codes = others;
    for (slot, rows) in rows.iter().enumerate() {
        if *rows > 0 {
            if found.values.len() == most {
                return None;
            }
            codes[slot] = found.values.len() as u32;
            found.values.push(W::from_u64(slot as u64));
            found.counts.push(*rows);
        }
    }
    found.numbers = Numbers::ByValue(codes);
    Some(found)
}

/// Whether a sample has so few repeated values that nearly every row must have a value of its own.
fn hardly_repeats<W: Word>(values: &[W]) -> bool {
    if values.len() < SAMPLED_ROWS_MIN {
        return false;
    }
    let mut table = Table::new();
    (0..SAMPLE).for_each(|pick| {
        table.number(values[pick * SCATTER % values.len()]);
    });
    SAMPLE - table.found.len() < REPEATED_MIN
}

/// Sorts by value: by comparing where there are few, else digit by digit from the lowest.
fn sort<W: Word>(values: &mut Vec<(W, u32)>) {
    if values.len() < RADIX_MIN {
        return values.sort_unstable();
    }
    let mut other = values.clone();
    let highest = values.iter().map(|(value, _)| *value).max().unwrap_or_default();
    for shift in (0..highest.bits()).step_by(DIGIT_BITS as usize) {
        let digit = |value: W| (value.shifted(shift).low() & ((1 << DIGIT_BITS) - 1)) as usize;
        let mut starts = [0u32; 1 << DIGIT_BITS];
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

/// An open-addressing table from value to number.
///
/// A slot holds a number and the bits of the hash that are left over, so that it has four bytes whatever the value: the
/// table stays in a near cache, and a value itself is only looked at where those bits fit.
struct Table<W> {
    slots: Vec<u32>,
    /// The hash's bits that are no slot.
    shift: u32,
    key: u64,
    /// By number.
    found: Vec<W>,
}

const EMPTY: u32 = u32::MAX;
const SLOT_BITS_FIRST: u32 = 12;
/// Bits of a number. The highest one is none, so that no entry is [`EMPTY`].
const NUMBER_BITS: u32 = 20;
const NUMBER_MASK: u32 = (1 << NUMBER_BITS) - 1;

const _: () = assert!(super::ROWS_MAX < NUMBER_MASK as usize);

impl<W: Word> Table<W> {
    fn new() -> Table<W> {
        let slots = vec![EMPTY; 1 << SLOT_BITS_FIRST];
        Table { slots, shift: 64 - SLOT_BITS_FIRST, key: *HASH_KEY, found: Vec::new() }
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
        if self.found.len() * 2 > self.slots.len() {
            self.grow();
        }
        number
    }

    fn grow(&mut self) {
        self.shift -= 2;
        let mask = self.slots.len() * 4 - 1;
        self.slots = vec![EMPTY; mask + 1];
        for (number, value) in self.found.iter().enumerate() {
            let hash = self.hash(*value);
            let mut slot = (hash >> self.shift) as usize & mask;
            while self.slots[slot] != EMPTY {
                slot = (slot + 1) & mask;
            }
            self.slots[slot] = (hash as u32) & !NUMBER_MASK | number as u32;
        }
    }
}

fn number_values<W: Word>(values: &[W], most: usize) -> Option<Distinct<W>> {
    let mut table = Table::new();
    let mut rows: Vec<u32> = Vec::new();
    let mut numbers = Vec::with_capacity(values.len());
    for run in values.chunk_by(|a, b| a == b) {
        let number = table.number(run[0]);
        if number as usize == rows.len() {
            if rows.len() == most {
                return None;
            }
            rows.push(0);
        }
        rows[number as usize] += run.len() as u32;
        numbers.resize(numbers.len() + run.len(), number);
    }
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
        numbers: Numbers::ByRow { numbers, codes },
    })
}
