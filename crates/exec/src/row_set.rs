//! A set of rows in the form of bytes.
//!
//! The bytes of all rows are stored one after the other. A hash table with linear probing finds a row by its hash. The
//! table is at most half full.

use rowmill_base::{Reservation, Result};

use crate::hash::hash_of_bytes;
use crate::row_keys::KeyRows;

/// Marks an empty slot of the table.
const EMPTY: u32 = u32::MAX;
/// The number of slots of the smallest table. It doubles as needed.
const PLACES_MIN: usize = 16;

/// Distinct rows.
#[derive(Debug)]
pub(crate) struct RowSet {
    bytes: Vec<u8>,
    /// The hash of each row, and the end of its bytes.
    rows: Vec<(u64, usize)>,
    places: Vec<u32>,
    memory: Reservation,
}

impl RowSet {
    /// Makes an empty set. `memory` must grant the memory for its rows.
    pub(crate) fn new(memory: Reservation) -> RowSet {
        RowSet { bytes: Vec::new(), rows: Vec::new(), places: Vec::new(), memory }
    }

    /// Adds the first `rows` rows of `keys`, and tells `is_new` for each row whether it was not in the set before.
    pub(crate) fn add(&mut self, keys: &KeyRows, rows: usize, mut is_new: impl FnMut(bool)) -> Result<()> {
        for row in 0..rows {
            is_new(self.insert(keys.get(row)).1);
        }
        self.account(0)
    }

    /// Reserves the memory of the set, and `more` bytes that belong to its rows.
    pub(crate) fn account(&mut self, more: usize) -> Result<()> {
        let held = self.bytes.capacity() + self.rows.capacity() * size_of::<(u64, usize)>() + self.places.len() * 4;
        self.memory.grow(((held + more) as u64).saturating_sub(self.memory.bytes()))
    }

    /// Adds a row. Returns its number, and whether it was not in the set before.
    pub(crate) fn insert(&mut self, row: &[u8]) -> (usize, bool) {
        // Grow before the lookup, so that the slot it finds stays valid.
        if self.rows.len() * 2 >= self.places.len() {
            self.make_room();
        }
        let hash = hash_of_bytes(row, 0);
        let place = self.place(hash, row);
        if self.places[place] != EMPTY {
            return (self.places[place] as usize, false);
        }
        self.places[place] = u32::try_from(self.rows.len()).expect("the number of rows must fit 32 bits");
        self.bytes.extend_from_slice(row);
        self.rows.push((hash, self.bytes.len()));
        (self.rows.len() - 1, true)
    }

    /// The number of a row, if it is in the set.
    pub(crate) fn find(&self, row: &[u8]) -> Option<usize> {
        if self.places.is_empty() {
            return None;
        }
        let number = self.places[self.place(hash_of_bytes(row, 0), row)];
        (number != EMPTY).then_some(number as usize)
    }

    /// The slot that has the number of a row, or the empty slot for it.
    fn place(&self, hash: u64, row: &[u8]) -> usize {
        let mut place = hash as usize & (self.places.len() - 1);
        // The table is never full, so the search ends at an empty slot at the latest.
        while self.places[place] != EMPTY {
            let other = self.places[place] as usize;
            if self.rows[other].0 == hash && self.row(other) == row {
                break;
            }
            place = (place + 1) & (self.places.len() - 1);
        }
        place
    }

    /// The number of rows.
    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    /// The bytes of a row.
    pub(crate) fn row(&self, number: usize) -> &[u8] {
        let start = number.checked_sub(1).map_or(0, |before| self.rows[before].1);
        &self.bytes[start..self.rows[number].1]
    }

    fn make_room(&mut self) {
        let places = (self.places.len() * 2).max(PLACES_MIN);
        self.places = vec![EMPTY; places];
        for (number, (hash, _)) in self.rows.iter().enumerate() {
            // All rows are distinct, so we only look for an empty slot and compare no bytes.
            let mut place = *hash as usize & (places - 1);
            while self.places[place] != EMPTY {
                place = (place + 1) & (places - 1);
            }
            self.places[place] = number as u32;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::sync::Arc;

    use arrow::array::{ArrayRef, Float64Array, Int64Array};
    use arrow::datatypes::DataType;
    use rowmill_base::{Broker, ErrorKind};

    use super::*;
    use crate::row_keys::RowKeys;

    #[test]
    fn a_row_is_new_once() {
        let broker = Broker::new(1 << 20);
        let mut set = RowSet::new(broker.reservation("a test"));
        let keys = RowKeys::new([DataType::Int64]).expect("a type that rows can have");
        let mut known = HashSet::new();
        for batch in 0..50_i64 {
            let numbers: Vec<i64> = (0..batch).map(|row| (row * 37 + batch * batch) % 700).collect();
            let column: ArrayRef = Arc::new(Int64Array::from(numbers.clone()));
            let mut found = Vec::new();
            let rows = keys.encode(&[column]).expect("numbers");
            set.add(&rows, numbers.len(), |is_new| found.push(is_new)).expect("memory");
            assert_eq!(found, numbers.iter().map(|number| known.insert(*number)).collect::<Vec<_>>());
        }
        assert!(broker.used_bytes() > 700 * 8);
        drop(set);
        assert_eq!(broker.used_bytes(), 0);
    }

    #[test]
    fn all_nulls_are_equal_and_so_are_all_nans_and_both_zeros() {
        let mut set = RowSet::new(Broker::new(1 << 20).reservation("a test"));
        let keys = RowKeys::new([DataType::Float64]).expect("a type that rows can have");
        let values = [Some(0.0), Some(-0.0), None, Some(f64::NAN), Some(-f64::NAN), None, Some(1.0)];
        let column: ArrayRef = Arc::new(Float64Array::from(values.to_vec()));
        let mut found = Vec::new();
        set.add(&keys.encode(&[column]).expect("floats"), 7, |is_new| found.push(is_new)).expect("memory");
        assert_eq!(found, [true, false, true, true, false, false, true]);
    }

    #[test]
    fn rows_without_columns_are_equal_and_memory_is_reserved() {
        let keys = RowKeys::new([]).expect("no types");
        let mut found = Vec::new();
        let mut set = RowSet::new(Broker::new(1 << 20).reservation("a test"));
        set.add(&keys.encode(&[]).expect("nothing"), 2, |is_new| found.push(is_new)).expect("memory");
        assert_eq!(found, [true, false]);
        let mut set = RowSet::new(Broker::new(8).reservation("a test"));
        let error = set.add(&keys.encode(&[]).expect("nothing"), 1, |_| ()).expect_err("too much");
        assert_eq!(error.kind(), ErrorKind::MemoryLimit);
    }
}
