//! The distinct values of a chunk in byte order, the number of rows of each, and a code per row.
//!
//! In most columns, most rows repeat the row before or one of few values, and many columns are nearly always empty. So
//! we first compare a row with the row before. Then we look its view up in a small table of recent values (a view is 16
//! bytes, which are the whole value if it is short). Only then we hash its bytes and look it up among all values. Only
//! the distinct values are sorted, and then the codes of the rows are translated to the sorted order.

use arrow::array::BinaryViewArray;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use rapidhash::v3::{RapidSecrets, rapidhash_v3_seeded};

use super::{ByteStrings, sort};

/// The code of a NULL row until the number of values is known.
const NULL: u32 = u32::MAX;

/// The input of a value list and its codes.
#[derive(Debug)]
pub struct Dictionary<'a> {
    /// The distinct values, ascending by bytes, without NULL.
    pub values: Vec<&'a [u8]>,
    /// The number of rows of each value.
    pub counts: Vec<u32>,
    /// The code of each row: the index of its value, or `values.len()` if the row is NULL.
    pub codes: Vec<u32>,
}

impl<'a> Dictionary<'a> {
    /// Finds and sorts the distinct values of `strings`.
    pub fn build(strings: &'a ByteStrings) -> Dictionary<'a> {
        let mut distinct = Distinct::new(strings.views());
        let codes = distinct.codes_of_rows(strings);
        Dictionary::order(&distinct.values, codes)
    }

    /// Sorts the values in `found` and translates `codes`, which are indexes into `found`.
    fn order(found: &[&'a [u8]], mut codes: Vec<u32>) -> Dictionary<'a> {
        let order = sort::order(found);
        // The rank of a value in the sorted order is its final code.
        let mut rank = vec![0u32; found.len()];
        for (position, &code) in (0u32..).zip(&order) {
            rank[code as usize] = position;
        }
        let mut counts = vec![0u32; found.len() + 1];
        for code in &mut codes {
            // NULL has no rank. Its code becomes the number of values.
            *code = rank.get(*code as usize).copied().unwrap_or(found.len() as u32);
            counts[*code as usize] += 1;
        }
        counts.truncate(found.len());
        Dictionary { values: order.iter().map(|&code| found[code as usize]).collect(), counts, codes }
    }

    /// The total length of all values in bytes.
    pub fn value_bytes(&self) -> usize {
        self.values.iter().map(|value| value.len()).sum()
    }
}

/// After this many rows we estimate the number of distinct values. They are a sixty-fourth of a full block, so the
/// tables have hardly grown before.
const OBSERVED_ROWS: usize = 1 << 13;

/// The number of recent values that are found by their view. Their views and codes take 8 KiB, a quarter of the
/// first-level cache.
const RECENT: usize = 256;

/// The distinct values so far, in the order of their appearance.
struct Distinct<'a> {
    views: &'a BinaryViewArray,
    values: Vec<&'a [u8]>,
    /// The hash of each value, so that the table can grow.
    hashes: Vec<u64>,
    /// The table of values. An entry has some bits of the hash, so that other values are rarely compared by their
    /// bytes, and the code.
    table: HashTable<(u32, u32)>,
    recent: Box<[(u128, u32); RECENT]>,
    /// Random for each process, so that no user can make values collide.
    secrets: RapidSecrets,
}

impl<'a> Distinct<'a> {
    fn new(views: &'a BinaryViewArray) -> Distinct<'a> {
        Distinct {
            views,
            values: Vec::new(),
            hashes: Vec::new(),
            table: HashTable::new(),
            // No real view has these bits: it would be in buffer number 2^32 - 1.
            recent: Box::new([(u128::MAX, NULL); RECENT]),
            secrets: RapidSecrets::random(),
        }
    }

    fn codes_of_rows(&mut self, strings: &ByteStrings) -> Vec<u32> {
        let mut codes = Vec::with_capacity(strings.len());
        let mut before = (u128::MAX, NULL);
        let nulls = strings.nulls();
        for (row, &view) in self.views.views().iter().enumerate() {
            if row == OBSERVED_ROWS {
                self.expect(strings.len());
            }
            if nulls.is_some_and(|nulls| nulls.is_null(row)) {
                codes.push(NULL);
                continue;
            }
            // Equal views mean equal values: either the whole short value, or the same bytes in the same buffer.
            if view != before.0 {
                before = (view, self.code(row, view));
            }
            codes.push(before.1);
        }
        codes
    }

    /// Reserves memory for the values that `rows` rows will have if they go on like the first ones. A table that grows
    /// by doubling costs as much again as filling it.
    fn expect(&mut self, rows: usize) {
        let expected = self.values.len() * rows / OBSERVED_ROWS;
        self.values.reserve(expected);
        self.hashes.reserve(expected);
        self.table.reserve(expected, |&(_, code)| self.hashes[code as usize]);
    }

    fn code(&mut self, row: usize, view: u128) -> u32 {
        // The small table is direct-mapped: a new view replaces the old one in its slot.
        let place = (view as u64 ^ (view >> 64) as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - RECENT.ilog2());
        let (recent, code) = self.recent[place as usize];
        if recent == view {
            return code;
        }
        // Not seen lately, or seen with another view: compare by bytes.
        let code = self.code_by_bytes(row);
        self.recent[place as usize] = (view, code);
        code
    }

    fn code_by_bytes(&mut self, row: usize) -> u32 {
        let value = self.views.value(row);
        let hash = rapidhash_v3_seeded(value, &self.secrets);
        let next = self.values.len() as u32;
        // The table chooses the slot by the low bits, so the high bits tell more about the value in it.
        let high = (hash >> 32) as u32;
        let found = self.table.entry(
            hash,
            |&(bits, code)| bits == high && self.values[code as usize] == value,
            |&(_, code)| self.hashes[code as usize],
        );
        match found {
            Entry::Occupied(entry) => entry.get().1,
            Entry::Vacant(entry) => {
                entry.insert((high, next));
                self.values.push(value);
                self.hashes.push(hash);
                next
            }
        }
    }
}
