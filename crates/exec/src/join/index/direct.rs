//! An array with a place for every possible key, in partitions.

use super::lists::{Entries, Keys};
use super::{NONE, Part};

/// The entries of all possible keys.
#[derive(Debug)]
pub(super) struct Direct {
    /// Of `1 << shift` keys each.
    partitions: Vec<Vec<u32>>,
    shift: u32,
}

impl Direct {
    pub(super) fn new(partitions: Vec<Vec<u32>>, shift: u32) -> Direct {
        Direct { partitions, shift }
    }

    /// The place of a key in its partition.
    fn place(&self, key: u64) -> (usize, usize) {
        ((key >> self.shift) as usize, (key & ((1 << self.shift) - 1)) as usize)
    }

    #[inline]
    fn entry(&self, key: u64) -> u32 {
        let (partition, place) = self.place(key);
        self.partitions.get(partition).and_then(|entries| entries.get(place)).copied().unwrap_or(NONE)
    }

    /// Appends the entries of keys.
    pub(super) fn find(&self, keys: &[u64], entries: &mut Vec<u32>) {
        entries.extend(keys.iter().map(|key| self.entry(*key)));
    }
}

/// The entries of a partition of so many keys, the first of which is `first_key`, and its lists.
pub(super) fn build(parts: &[&Part], first_key: u64, keys: usize, lists_start: u32) -> (Vec<u32>, Vec<u32>) {
    let mut numbers = vec![NONE; keys];
    let mut met = Keys::new(parts.iter().map(|part| part.rows.len()).sum());
    for part in parts {
        for (key, row) in part.words.iter().zip(&part.rows) {
            met.add(&mut numbers[(key - first_key) as usize], *row);
        }
    }
    let Entries { mut of_keys, lists } = met.finish(lists_start);
    // Which keys there are is as good as random, and not branched on: those that are not have the last entry.
    let last = of_keys.len() as u32;
    of_keys.push(NONE);
    for number in &mut numbers {
        *number = of_keys[(*number).min(last) as usize];
    }
    (numbers, lists)
}
