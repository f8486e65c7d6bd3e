//! An array with an entry for every possible key, in partitions.

use std::ops::Range;

use super::lists::{Entries, EntryForm, EntryRows, Keys};
use super::{NONE, PartitionPart};

/// The entries of all possible keys.
#[derive(Debug)]
pub(super) struct Direct {
    /// Each has the entries of `1 << shift` keys.
    partitions: Vec<Vec<u32>>,
    shift: u32,
}

impl Direct {
    pub(super) fn new(partitions: Vec<Vec<u32>>, shift: u32) -> Direct {
        Direct { partitions, shift }
    }

    /// The partition of a key and the index within it.
    fn place(&self, key: u64) -> (usize, usize) {
        ((key >> self.shift) as usize, (key & ((1 << self.shift) - 1)) as usize)
    }

    #[inline]
    fn entry(&self, key: u64) -> u32 {
        let (partition, place) = self.place(key);
        // `NO_KEY` is greater than every key, so it is in no partition.
        self.partitions.get(partition).and_then(|entries| entries.get(place)).copied().unwrap_or(NONE)
    }

    /// Appends the entries of keys.
    pub(super) fn find(&self, keys: &[u64], entries: &mut Vec<u32>) {
        entries.extend(keys.iter().map(|key| self.entry(*key)));
    }
}

/// The entries of the partition of the possible keys `keys`, and what they refer to.
pub(super) fn build(parts: &[&PartitionPart], keys: Range<u64>, form: EntryForm) -> (Vec<u32>, EntryRows) {
    let mut numbers = vec![NONE; (keys.end - keys.start) as usize];
    let mut met = Keys::new(parts.iter().map(|part| part.rows.len()).sum());
    for part in parts {
        for (key, row) in part.words.iter().zip(&part.rows) {
            met.add(&mut numbers[(key - keys.start) as usize], *row);
        }
    }
    let Entries { mut of_keys, rows } = met.finish(form);
    // The processor cannot predict which keys occur, so we avoid a branch: a missing key reads the last entry, which is
    // `NONE`.
    let last = of_keys.len() as u32;
    of_keys.push(NONE);
    for number in &mut numbers {
        *number = of_keys[(*number).min(last) as usize];
    }
    (numbers, rows)
}
