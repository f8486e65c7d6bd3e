//! A bit for every possible key, and entries for the keys that occur, in partitions.
//!
//! The number of keys before a key is the index of its entry. We keep this number for every 64 bits. So a missing key
//! costs one access to a small table, and an existing key one more access.

use std::ops::Range;

use super::lists::{Entries, EntryForm, EntryRows, Keys};
use super::{NONE, PartitionPart};

/// Keys of a group of bits.
const GROUP_KEYS: usize = u64::BITS as usize;

/// The bits of consecutive keys, and the number of bits that are set before them.
#[derive(Clone, Copy, Debug)]
#[repr(C, packed(4))]
struct RankedBits {
    bits: u64,
    before: u32,
}

/// One partition.
#[derive(Debug)]
pub(super) struct RankedKeys {
    groups: Vec<RankedBits>,
    entries: Vec<u32>,
}

impl RankedBits {
    /// The rank of the key that has this bit: the number of keys before it.
    #[inline]
    fn rank(self, bit: u32) -> u32 {
        self.before + (self.bits & !(u64::MAX << bit)).count_ones()
    }
}

/// The group of a key within its partition, and its bit there.
fn place(key: u64) -> (usize, u32) {
    (key as usize / GROUP_KEYS, (key % GROUP_KEYS as u64) as u32)
}

/// The entries of the partition of the possible keys `keys`, and what they refer to. Takes two passes over the rows
/// and one over the groups of bits, and never looks at single possible keys, because most of them have no row.
pub(super) fn build(parts: &[&PartitionPart], keys: Range<u64>, form: EntryForm) -> (RankedKeys, EntryRows) {
    let mut groups = vec![RankedBits { bits: 0, before: 0 }; ((keys.end - keys.start) as usize).div_ceil(GROUP_KEYS)];
    for key in parts.iter().flat_map(|part| &part.words) {
        let (group, bit) = place(key - keys.start);
        groups[group].bits |= 1 << bit;
    }
    let mut len = 0;
    for group in &mut groups {
        group.before = len;
        len += group.bits.count_ones();
    }
    // One entry more, because the rank of a key after the last one is an index too.
    let mut entries = vec![NONE; len as usize + 1];
    let mut met = Keys::new(parts.iter().map(|part| part.rows.len()).sum());
    for part in parts {
        for (key, row) in part.words.iter().zip(&part.rows) {
            let (group, bit) = place(key - keys.start);
            met.add(&mut entries[groups[group].rank(bit) as usize], *row);
        }
    }
    let Entries { of_keys, rows } = met.finish(form);
    entries[..len as usize].iter_mut().for_each(|entry| *entry = of_keys[*entry as usize]);
    (RankedKeys { groups, entries }, rows)
}

impl RankedKeys {
    /// Adds `base` to the entries of all keys.
    pub(super) fn renumber(&mut self, base: u32) {
        self.entries.iter_mut().filter(|entry| **entry != NONE).for_each(|entry| *entry += base);
    }

    /// Most bytes for `keys` possible keys if at most `rows` of them occur.
    pub(super) fn bytes_max(keys: usize, rows: usize) -> usize {
        keys.div_ceil(GROUP_KEYS) * size_of::<RankedBits>() + (rows.min(keys) + 1) * size_of::<u32>()
    }

    pub(super) fn bytes(&self) -> usize {
        self.groups.len() * size_of::<RankedBits>() + self.entries.capacity() * size_of::<u32>()
    }
}

/// The entries of all keys.
#[derive(Debug)]
pub(super) struct Ranked {
    /// Each has `1 << shift` keys.
    partitions: Vec<RankedKeys>,
    shift: u32,
}

impl Ranked {
    pub(super) fn new(partitions: Vec<RankedKeys>, shift: u32) -> Ranked {
        Ranked { partitions, shift }
    }

    #[inline]
    fn entry(&self, key: u64) -> u32 {
        let Some(partition) = self.partitions.get((key >> self.shift) as usize) else { return NONE };
        let (group, bit) = place(key & ((1 << self.shift) - 1));
        let Some(group) = partition.groups.get(group).copied() else { return NONE };
        // The processor cannot predict whether a key occurs, so we must not branch: a missing key sets all bits of the
        // entry.
        let missing = ((group.bits >> bit & 1) as u32).wrapping_sub(1);
        partition.entries[group.rank(bit) as usize] | missing
    }

    /// Appends the entries of keys.
    pub(super) fn find(&self, keys: &[u64], entries: &mut Vec<u32>) {
        entries.extend(keys.iter().map(|key| self.entry(*key)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_has_its_entry() {
        let is_in = |key: u64| key < 1_000 && (key % 7 == 3 || key > 990);
        let row = |key: u64| if is_in(key) { key as u32 * 2 } else { NONE };
        let partition = |first_key: u64| {
            // Two workers each have a part of the rows, in no order of keys.
            let part = |keys: &mut dyn Iterator<Item = u64>| {
                let words: Vec<u64> = keys.filter(|key| is_in(*key)).collect();
                PartitionPart { rows: words.iter().map(|key| row(*key)).collect(), words }
            };
            let keys = first_key..(first_key + 256).min(1_000);
            let parts = [part(&mut keys.clone().rev().step_by(2)), part(&mut keys.clone().rev().skip(1).step_by(2))];
            build(&[&parts[0], &parts[1]], keys, EntryForm::Lists { start: 0 }).0
        };
        let mut entries = Vec::new();
        let keys: Vec<u64> = (0..1_100).chain([u64::MAX]).collect();
        Ranked::new((0..1_000).step_by(256).map(partition).collect(), 8).find(&keys, &mut entries);
        assert!(keys.iter().map(|key| row(*key)).eq(entries));
    }
}
