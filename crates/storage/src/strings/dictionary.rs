//! The distinct values of a chunk in byte order, how many rows hold each, and a code per row.

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

use super::ByteStrings;

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
        let mut table: HashTable<u32> = HashTable::new();
        let mut values: Vec<&[u8]> = Vec::new();
        let mut codes = Vec::with_capacity(strings.len());
        let nulls = strings.nulls();
        for row in 0..strings.len() {
            if nulls.is_some_and(|nulls| nulls.is_null(row)) {
                codes.push(u32::MAX);
                continue;
            }
            let value = strings.value(row);
            let hash = rapidhash::v3::rapidhash_v3(value);
            let found = table.entry(
                hash,
                |&code| values[code as usize] == value,
                |&code| rapidhash::v3::rapidhash_v3(values[code as usize]),
            );
            let code = match found {
                Entry::Occupied(entry) => *entry.get(),
                Entry::Vacant(entry) => *entry.insert(values.len() as u32).get(),
            };
            if code as usize == values.len() {
                values.push(value);
            }
            codes.push(code);
        }
        Dictionary::order(&values, codes)
    }

    fn order(found: &[&'a [u8]], mut codes: Vec<u32>) -> Dictionary<'a> {
        let mut order: Vec<u32> = (0..found.len() as u32).collect();
        order.sort_unstable_by_key(|&code| found[code as usize]);
        let mut rank = vec![0u32; found.len()];
        for (position, &code) in order.iter().enumerate() {
            rank[code as usize] = position as u32;
        }
        let mut counts = vec![0u32; found.len()];
        for code in &mut codes {
            if *code == u32::MAX {
                *code = found.len() as u32;
            } else {
                *code = rank[*code as usize];
                counts[*code as usize] += 1;
            }
        }
        Dictionary { values: order.iter().map(|&code| found[code as usize]).collect(), counts, codes }
    }

    /// Bytes of all values together.
    pub fn value_bytes(&self) -> usize {
        self.values.iter().map(|value| value.len()).sum()
    }
}
