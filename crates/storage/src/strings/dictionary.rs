//! The distinct values of a chunk in byte order, how many rows hold each, and a code per row.
//!
//! Most rows of most columns repeat the row before or one of few values, and a good part of the columns is nearly
//! always empty. So a row is first compared with the row before, then looked up by its view (the 16 bytes that are the
//! whole value if it is short) in a small table of values seen lately, and only then hashed by its bytes and looked up
//! among all values. Only distinct values are sorted, and the rows' codes are translated by rank.

use arrow::array::BinaryViewArray;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use rapidhash::v3::{RapidSecrets, rapidhash_v3_seeded};

use super::{ByteStrings, sort};

/// The code of a NULL row until the number of values is known.
const NULL: u32 = u32::MAX;

/// What a value list and its codes are made from.
#[derive(Debug)]
pub struct Dictionary<'a> {
    /// The distinct values, ascending by bytes, without NULL.
    pub values: Vec<&'a [u8]>,
    /// Rows that hold each value.
    pub counts: Vec<u32>,
    /// The value of each row; `values.len()` where the row is NULL.
    pub codes: Vec<u32>,
}

impl<'a> Dictionary<'a> {
    /// Finds and orders the distinct values of `strings`.
    pub fn build(strings: &'a ByteStrings) -> Dictionary<'a> {
        let mut distinct = Distinct::new(strings.views());
        let codes = distinct.codes_of_rows(strings);
        Dictionary::order(&distinct.values, codes)
    }

    /// Sorts the values that were `found`; `codes` count them as they came.
    fn order(found: &[&'a [u8]], mut codes: Vec<u32>) -> Dictionary<'a> {
        let order = sort::order(found);
        let mut rank = vec![0u32; found.len()];
        for (position, &code) in (0u32..).zip(&order) {
            rank[code as usize] = position;
        }
        let mut counts = vec![0u32; found.len() + 1];
        for code in &mut codes {
            // NULL has no rank: its code becomes the number of values.
            *code = rank.get(*code as usize).copied().unwrap_or(found.len() as u32);
            counts[*code as usize] += 1;
        }
        counts.truncate(found.len());
        Dictionary { values: order.iter().map(|&code| found[code as usize]).collect(), counts, codes }
    }

    /// Bytes of all values together.
    pub fn value_bytes(&self) -> usize {
        self.values.iter().map(|value| value.len()).sum()
    }
}

/// Rows after which the number of distinct values is guessed.
const OBSERVED_ROWS: usize = 1 << 13;

/// Values seen lately, by their view.
const RECENT: usize = 256;

/// The distinct values so far, in the order in which they came.
struct Distinct<'a> {
    views: &'a BinaryViewArray,
    values: Vec<&'a [u8]>,
    /// The hash of each value, for the table to grow.
    hashes: Vec<u64>,
    /// Values by hash: some bits of the hash, so that hardly any other value is compared by its bytes, and the code.
    table: HashTable<(u32, u32)>,
    recent: Box<[(u128, u32); RECENT]>,
    /// Keyed per process: nobody outside can make values collide.
    secrets: RapidSecrets,
}

impl<'a> Distinct<'a> {
    fn new(views: &'a BinaryViewArray) -> Distinct<'a> {
        Distinct {
            views,
            values: Vec::new(),
            hashes: Vec::new(),
            table: HashTable::new(),
            // No view has these bits: it would lie in buffer number 2^32 - 1.
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
            if view != before.0 {
                before = (view, self.code(row, view));
            }
            codes.push(before.1);
        }
        codes
    }

    /// Makes room for as many values as `rows` will have if they go on as they began. A table that grows by doubling
    /// costs as much again as filling it.
    fn expect(&mut self, rows: usize) {
        let expected = self.values.len() * rows / OBSERVED_ROWS;
        self.values.reserve(expected);
        self.hashes.reserve(expected);
        self.table.reserve(expected, |&(_, code)| self.hashes[code as usize]);
    }

    fn code(&mut self, row: usize, view: u128) -> u32 {
        let place = (view as u64 ^ (view >> 64) as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - RECENT.ilog2());
        let (recent, code) = self.recent[place as usize];
        if recent == view {
            return code;
        }
        let code = self.code_by_bytes(row);
        self.recent[place as usize] = (view, code);
        code
    }

    fn code_by_bytes(&mut self, row: usize) -> u32 {
        let value = self.views.value(row);
        let hash = rapidhash_v3_seeded(value, &self.secrets);
        let next = self.values.len() as u32;
        // The table places by the low bits: the high ones say more about who is there.
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
