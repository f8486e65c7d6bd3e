//! The distinct values of a column of integers, and a code per row.
//!
//! Where the values span a small range, an array with a slot per possible value counts them. Elsewhere a hash table
//! numbers them in the order of their appearance, and gives up once so many are distinct that a value list would not
//! pay. Hashes are keyed by the process, so that no data can be made to collide in it.

use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;

use arrow::buffer::NullBuffer;

use crate::encoding::Word;

/// Slots that may be counted in an array, per row.
const SLOTS_PER_ROW_MAX: usize = 2;
/// Slots that may be counted in an array, however few rows there are.
const SLOTS_ALWAYS: usize = 1 << 16;

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
    pub(super) fn find(values: &[W], high: W, nulls: Option<&NullBuffer>, most: usize) -> Option<Distinct<W>> {
        let slots_max = (values.len() * SLOTS_PER_ROW_MAX).max(SLOTS_ALWAYS.min(64 * values.len()));
        let mut found = match usize::try_from(high.widen()) {
            Ok(high) if high < slots_max => count_slots(values, high + 1, most)?,
            _ => number_values(values, most)?,
        };
        if let Some(nulls) = nulls {
            for (row, value) in values.iter().enumerate() {
                if nulls.is_null(row) {
                    let code = found.code(*value, row);
                    found.counts[code as usize] -= 1;
                }
            }
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
    pub(super) fn codes<C: Word>(&self, values: &[W], nulls: Option<&NullBuffer>) -> Vec<C> {
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
        if let Some(nulls) = nulls {
            let null = C::from_u64(self.values.len() as u64);
            for (row, code) in out.iter_mut().enumerate() {
                if nulls.is_null(row) {
                    *code = null;
                }
            }
        }
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

static HASH_KEY: LazyLock<u64> = LazyLock::new(|| RandomState::new().hash_one(0u8) | 1);

/// An open-addressing table from value to number.
struct Table<W> {
    /// Value and number; [`EMPTY`] is no number.
    slots: Vec<(W, u32)>,
    shift: u32,
    key: u64,
    found: Vec<W>,
}

const EMPTY: u32 = u32::MAX;
const SLOT_BITS_FIRST: u32 = 12;

impl<W: Word> Table<W> {
    fn new() -> Table<W> {
        let slots = vec![(W::default(), EMPTY); 1 << SLOT_BITS_FIRST];
        Table { slots, shift: 64 - SLOT_BITS_FIRST, key: *HASH_KEY, found: Vec::new() }
    }

    #[inline]
    fn slot(&self, value: W) -> usize {
        let wide = value.widen();
        let folded = (wide as u64 ^ ((wide >> 64) as u64).rotate_left(32)) ^ self.key;
        let product = u128::from(folded) * u128::from(0x9e37_79b9_7f4a_7c15_u64 ^ (self.key << 1));
        (((product >> 64) as u64 ^ product as u64) >> self.shift) as usize
    }

    #[inline]
    fn number(&mut self, value: W) -> u32 {
        let mut slot = self.slot(value);
        loop {
            match self.slots[slot] {
                (_, EMPTY) => return self.insert(slot, value),
                (held, number) if held == value => return number,
                _ => slot = (slot + 1) & (self.slots.len() - 1),
            }
        }
    }

    fn insert(&mut self, slot: usize, value: W) -> u32 {
        let number = self.found.len() as u32;
        self.slots[slot] = (value, number);
        self.found.push(value);
        if self.found.len() * 2 > self.slots.len() {
            self.grow();
        }
        number
    }

    fn grow(&mut self) {
        self.shift -= 2;
        self.slots = vec![(W::default(), EMPTY); self.slots.len() * 4];
        for (number, value) in self.found.iter().enumerate() {
            let mut slot = self.slot(*value);
            while self.slots[slot].1 != EMPTY {
                slot = (slot + 1) & (self.slots.len() - 1);
            }
            self.slots[slot] = (*value, number as u32);
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
    order.sort_unstable();
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
