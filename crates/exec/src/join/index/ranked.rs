//! A bit for every possible key, and entries for the keys that occur, in partitions.
//!
//! The number of keys before a key is the index of its entry. We keep this number for every 64 bits. So a missing key
//! costs one access to a small table, and an existing key one more access.

use super::NONE;

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

impl RankedKeys {
    /// Makes the partition from the entries of all its possible keys.
    pub(super) fn new(direct: &[u32]) -> RankedKeys {
        let mut groups = Vec::with_capacity(direct.len().div_ceil(GROUP_KEYS));
        // One entry more, because the rank of a key after the last one is an index too.
        let mut entries = vec![NONE; direct.iter().map(|entry| usize::from(*entry != NONE)).sum::<usize>() + 1];
        let mut len = 0;
        for direct in direct.chunks(GROUP_KEYS) {
            let before = len as u32;
            let mut bits = 0;
            for entry in direct.iter().rev() {
                bits = bits << 1 | u64::from(*entry != NONE);
            }
            // The processor cannot predict which keys occur, so we write missing entries too and overwrite them.
            for entry in direct {
                entries[len] = *entry;
                len += usize::from(*entry != NONE);
            }
            groups.push(RankedBits { bits, before });
        }
        RankedKeys { groups, entries }
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
        let place = (key & ((1 << self.shift) - 1)) as usize;
        let Some(RankedBits { bits, before }) = partition.groups.get(place / GROUP_KEYS).copied() else { return NONE };
        let bit = (place % GROUP_KEYS) as u32;
        let rank = before + (bits & !(u64::MAX << bit)).count_ones();
        // The processor cannot predict whether a key occurs, so we must not branch: a missing key sets all bits of the
        // entry.
        let missing = ((bits >> bit & 1) as u32).wrapping_sub(1);
        partition.entries[rank as usize] | missing
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
        let direct: Vec<u32> = (0..1_000).map(|key| if key % 7 == 3 || key > 990 { key * 2 } else { NONE }).collect();
        let partitions = direct.chunks(256).map(RankedKeys::new).collect();
        let mut entries = Vec::new();
        Ranked::new(partitions, 8).find(&(0..1_100).chain([u64::MAX]).collect::<Vec<_>>(), &mut entries);
        assert_eq!(entries[..1_000], direct);
        assert!(entries[1_000..].iter().all(|entry| *entry == NONE));
    }
}
