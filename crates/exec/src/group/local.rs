//! Groups of the rows of one block: small numbers for the combinations of key values that occur in it.
//!
//! Each key becomes a number per row: its code where the values are listed, otherwise its bits, or the place of its
//! value among those met so far. The numbers of all keys are packed into 64 bits. Few of them index an array, many go
//! through a hash table.

use arrow::array::{Array, ArrayRef, BinaryViewArray};
use arrow::buffer::ScalarBuffer;
use rowmill_base::Result;

use super::bits::{Bits, bits_of, hash_of_bytes, mix};
use super::rows::Values;
use super::texts::texts_of;

/// Numbers below so many bits index an array.
const DENSE_BITS_MAX: u32 = 20;

/// Rows that tell whether a key is nearly unique.
const SAMPLE_ROWS: usize = 1 << 12;

/// Which group each row is in.
pub(super) struct LocalGroups {
    /// The group of each row.
    pub(super) groups: Vec<u32>,
    /// The first row of each group.
    pub(super) first_rows: Vec<u32>,
}

/// A number per row below 2^bits, equal exactly for equal values.
struct Numbers {
    bits: u32,
    numbers: ScalarBuffer<u64>,
}

/// Finds the groups of `rows` rows by their keys, of which there is one at least. `None` if each row is to be taken for
/// a group, because no two are alike or hardly any.
pub(super) fn group(keys: &[Values], rows: usize) -> Result<Option<LocalGroups>> {
    // The list of the only key is its groups already.
    if let [Values { codes: None, is_list: true, .. }] = keys {
        return Ok(None);
    }
    let mut all = Vec::with_capacity(keys.len());
    for key in keys {
        let numbers = numbers_of(key, rows)?;
        if is_nearly_unique(&numbers) {
            // Rows that are alike are found when the groups of all blocks are put together.
            return Ok(None);
        }
        all.push(numbers);
    }
    let mut all = all.into_iter();
    let mut packed = all.next().expect("there is a key");
    for mut next in all {
        for wide in [&mut packed, &mut next] {
            if wide.bits > 32 {
                *wide = renumbered(wide);
            }
        }
        let pairs = packed.numbers.iter().zip(&*next.numbers);
        let numbers = pairs.map(|(packed, number)| *packed << next.bits | number).collect();
        packed = Numbers { bits: packed.bits + next.bits, numbers };
    }
    Ok(Some(places(&packed)))
}

/// Whether hardly any number of a wide key comes twice, going by some of them.
fn is_nearly_unique(key: &Numbers) -> bool {
    if key.bits <= 32 || key.numbers.len() < SAMPLE_ROWS {
        return false;
    }
    let step = key.numbers.len() / SAMPLE_ROWS;
    // Neighbours are looked at too: they are alike more often than others.
    let sample: Vec<u64> =
        key.numbers.chunks(step * 16).flat_map(|rows| &rows[..rows.len().min(16)]).copied().collect();
    places_of(&sample, |number| mix(*number)).first_rows.len() * 32 > sample.len() * 31
}

fn numbers_of(key: &Values, rows: usize) -> Result<Numbers> {
    let numbers = match &key.codes {
        None => numbers_of_values(&key.values)?,
        Some(codes) if key.is_list => {
            Numbers { bits: bits_for(key.values.len()), numbers: codes.iter().map(|code| u64::from(*code)).collect() }
        }
        // What a function made of listed values need not be distinct.
        Some(codes) => {
            let of_values = numbers_of_values(&key.values)?;
            let numbers = codes.iter().map(|code| of_values.numbers[*code as usize]).collect();
            Numbers { bits: of_values.bits, numbers }
        }
    };
    assert_eq!(numbers.numbers.len(), rows, "a key has a value for each row");
    Ok(numbers)
}

/// A number for each value.
fn numbers_of_values(values: &ArrayRef) -> Result<Numbers> {
    if let Some(texts) = texts_of(values) {
        let (numbers, met) = places_of_texts(&texts);
        return Ok(Numbers { bits: bits_for(met), numbers });
    }
    let places = match (bits_of(values)?, values.logical_nulls()) {
        (Bits::Narrow { numbers, width }, None) => return Ok(Numbers { bits: width, numbers }),
        (Bits::Narrow { numbers, .. }, Some(nulls)) => {
            let valued: Vec<(u64, bool)> =
                numbers.iter().enumerate().map(|(row, number)| (*number, nulls.is_valid(row))).collect();
            places_of(&valued, |(number, valid)| mix(*number ^ u64::from(*valid)))
        }
        (Bits::Wide(numbers), nulls) => {
            let is_valid = |row: usize| nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row));
            let valued: Vec<(u128, bool)> =
                numbers.iter().enumerate().map(|(row, number)| (*number, is_valid(row))).collect();
            places_of(&valued, |(number, valid)| mix(*number as u64 ^ mix((*number >> 64) as u64 ^ u64::from(*valid))))
        }
    };
    Ok(Numbers { bits: bits_for(places.first_rows.len()), numbers: places.groups.into_iter().map(u64::from).collect() })
}

fn renumbered(wide: &Numbers) -> Numbers {
    let places = places(wide);
    Numbers { bits: bits_for(places.first_rows.len()), numbers: places.groups.into_iter().map(u64::from).collect() }
}

/// Bits that hold the numbers below `count`.
fn bits_for(count: usize) -> u32 {
    usize::BITS - count.saturating_sub(1).leading_zeros()
}

/// The place of each row's number among the distinct ones, in the order in which they are met.
fn places(packed: &Numbers) -> LocalGroups {
    let rows = packed.numbers.len();
    if packed.bits > DENSE_BITS_MAX || 1 << packed.bits > rows.max(512) * 4 {
        return places_of(&packed.numbers, |number| mix(*number));
    }
    let mut known = vec![u32::MAX; 1 << packed.bits];
    let mut found = LocalGroups { groups: Vec::with_capacity(rows), first_rows: Vec::new() };
    for (row, number) in packed.numbers.iter().enumerate() {
        let group = &mut known[*number as usize];
        if *group == u32::MAX {
            *group = found.first_rows.len() as u32;
            found.first_rows.push(row as u32);
        }
        found.groups.push(*group);
    }
    found
}

fn places_of<T: PartialEq>(values: &[T], hash: impl Fn(&T) -> u64) -> LocalGroups {
    let mut table = Places::new();
    let mut groups = Vec::with_capacity(values.len());
    for (row, value) in values.iter().enumerate() {
        groups.push(table.place(hash(value), row as u32, |other| values[other as usize] == *value));
    }
    LocalGroups { groups, first_rows: table.first_rows }
}

/// The place of each text among the distinct ones, and the number of those. NULL is one of them.
fn places_of_texts(texts: &BinaryViewArray) -> (ScalarBuffer<u64>, usize) {
    let mut table = Places::new();
    let value = |row: usize| texts.is_valid(row).then(|| texts.value(row));
    let numbers = (0..texts.len())
        .map(|row| {
            let text = value(row);
            let hash = hash_of_bytes(text.unwrap_or_default(), u64::from(text.is_some()));
            u64::from(table.place(hash, row as u32, |other| value(other as usize) == text))
        })
        .collect();
    (numbers, table.first_rows.len())
}

/// A hash table from values, which stay where they are, to the order in which they were met.
struct Places {
    /// One more than a place; 0 is free.
    slots: Vec<u32>,
    hashes: Vec<u64>,
    first_rows: Vec<u32>,
}

impl Places {
    /// Many rows often have few values, so the table starts small.
    fn new() -> Places {
        Places { slots: vec![0; 1024], hashes: Vec::new(), first_rows: Vec::new() }
    }

    #[inline]
    fn place(&mut self, hash: u64, row: u32, is_same: impl Fn(u32) -> bool) -> u32 {
        let mask = self.slots.len() - 1;
        let mut slot = hash as usize & mask;
        while self.slots[slot] != 0 {
            let place = self.slots[slot] as usize - 1;
            if self.hashes[place] == hash && is_same(self.first_rows[place]) {
                return place as u32;
            }
            slot = (slot + 1) & mask;
        }
        let place = self.first_rows.len() as u32;
        self.hashes.push(hash);
        self.first_rows.push(row);
        self.slots[slot] = place + 1;
        if self.first_rows.len() * 2 > self.slots.len() {
            self.grow();
        }
        place
    }

    #[cold]
    fn grow(&mut self) {
        let mask = self.slots.len() * 4 - 1;
        self.slots = vec![0; mask + 1];
        for (place, hash) in self.hashes.iter().enumerate() {
            let mut slot = *hash as usize & mask;
            while self.slots[slot] != 0 {
                slot = (slot + 1) & mask;
            }
            self.slots[slot] = place as u32 + 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Int64Array, StringViewArray};
    use std::sync::Arc;

    fn of(values: ArrayRef) -> Values {
        Values { values, codes: None, is_list: false }
    }

    #[test]
    fn rows_are_together_exactly_if_their_keys_are_equal() {
        let numbers: Vec<Option<i64>> =
            (0..5_000_i64).map(|row| (row % 7 != 0).then_some(row * row % 1_000 * i64::MAX / 1_000)).collect();
        let texts: Vec<Option<String>> =
            (0..5_000).map(|row| (row % 5 != 0).then(|| format!("text number {}", row % 300))).collect();
        let keys = [
            of(Arc::new(Int64Array::from(numbers.clone()))),
            of(Arc::new(StringViewArray::from_iter(texts.clone()))),
            Values {
                codes: Some(Arc::new((0..5_000).map(|row| row % 2).collect())),
                ..of(Arc::new(Int64Array::from(vec![4, 9])))
            },
        ];
        for count in 1..=3 {
            let found = group(&keys[..count], 5_000).expect("keys of ours").expect("many are alike");
            let mut known = std::collections::HashMap::new();
            for row in 0..5_000_usize {
                let key = (numbers[row], texts[row].clone().filter(|_| count > 1), if count > 2 { row % 2 } else { 0 });
                let key = if count > 1 { (key.0, Some(key.1), key.2) } else { (key.0, None, 0) };
                let group = known.entry(key).or_insert(found.groups[row]);
                assert_eq!(*group, found.groups[row], "row {row} of {count} keys");
            }
            assert_eq!(known.len(), found.first_rows.len());
        }
    }
}
