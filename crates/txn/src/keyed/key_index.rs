//! A hash index from keys to their entries and newest versions.
//!
//! We use many small hash tables instead of one, because a table that grows makes readers wait. With a million keys
//! each table has about four thousand. A slot holds half of the key's hash, so that neither growing nor skipping other
//! keys reads entries. It also holds the place of the newest version beside that of the entry, so that a processor that
//! predicts a match loads both at once.

use hashbrown::HashTable;
use rapidhash::v3::{RapidSecrets, rapidhash_v3_seeded};
use rowmill_io::OverflowMemory;

use super::arena::ArenaOffset;

const TABLES: usize = 256;

/// The places that the index stores for a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Indexed {
    pub(super) entry: ArenaOffset,
    pub(super) newest: ArenaOffset,
}

/// A hash index from keys to places. It does not know the keys: the caller tells whether a place belongs to its key.
#[derive(Debug)]
pub(super) struct KeyIndex {
    /// Empty before the first key.
    tables: Vec<HashTable<KeySlot, OverflowMemory>>,
    /// The bytes that all tables have allocated. We keep the sum because every commit asks for it.
    slot_bytes: usize,
    memory: OverflowMemory,
}

#[derive(Clone, Copy, Debug)]
struct KeySlot {
    /// The lower half of the key's hash.
    tag: u32,
    indexed: Indexed,
}

/// The hash of a key. The upper byte selects the table.
pub(super) fn hash(key: &[u8], secrets: &RapidSecrets) -> u64 {
    rapidhash_v3_seeded(key, secrets)
}

/// The hash within a table. It is made from the tag, because a slot has only that.
pub(super) fn spread(tag: u32) -> u64 {
    u64::from(tag) << 32 | u64::from(tag)
}

impl KeyIndex {
    pub(super) fn new(memory: OverflowMemory) -> Self {
        KeyIndex { tables: Vec::new(), slot_bytes: 0, memory }
    }

    /// Looks up the entry and the newest version of a key.
    #[inline]
    pub(super) fn find(&self, hash: u64, is_key: impl Fn(ArenaOffset) -> bool) -> Option<Indexed> {
        let tag = hash as u32;
        let table = self.tables.get((hash >> 56) as usize)?;
        // The tag filters out nearly all other keys, so `is_key` usually runs once.
        let slot = table.find(spread(tag), |slot| slot.tag == tag && is_key(slot.indexed.entry))?;
        Some(slot.indexed)
    }

    /// Adds a key, which must not be in the index.
    pub(super) fn insert(&mut self, hash: u64, indexed: Indexed) {
        let tag = hash as u32;
        if self.tables.is_empty() {
            // Create the tables with the first key, because most indexes have no recent rows.
            self.tables.resize_with(TABLES, || HashTable::new_in(self.memory.clone()));
        }
        let table = &mut self.tables[(hash >> 56) as usize];
        let before = table.allocation_size();
        table.insert_unique(spread(tag), KeySlot { tag, indexed }, |slot| spread(slot.tag));
        self.slot_bytes += table.allocation_size() - before;
    }

    /// Replaces the places of the key whose entry is `entry`.
    pub(super) fn replace(&mut self, hash: u64, entry: ArenaOffset, indexed: Indexed) {
        let table = &mut self.tables[(hash >> 56) as usize];
        let slot = table.find_mut(spread(hash as u32), |slot| slot.indexed.entry == entry);
        slot.expect("every entry has a slot").indexed = indexed;
    }

    /// Removes the key whose entry is `entry`.
    pub(super) fn remove(&mut self, hash: u64, entry: ArenaOffset) {
        let table = &mut self.tables[(hash >> 56) as usize];
        let slot = table.find_entry(spread(hash as u32), |slot| slot.indexed.entry == entry);
        slot.expect("every entry has a slot").remove();
        // Shrink only when the table is nearly empty, so that keys that come and go do not move it back and forth.
        if table.len() * 8 < table.capacity() {
            let before = table.allocation_size();
            table.shrink_to_fit(|slot| spread(slot.tag));
            self.slot_bytes -= before - table.allocation_size();
        }
    }

    /// Bytes taken from the allocator.
    pub(super) fn allocated_bytes(&self) -> usize {
        self.tables.len() * size_of::<HashTable<KeySlot, OverflowMemory>>() + self.slot_bytes
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    /// Uses hashes with few distinct tags, so that most look-ups must probe.
    #[test]
    fn keys_come_and_go() {
        let mut index = KeyIndex::new(OverflowMemory::default());
        let mut twin: HashMap<u32, (u64, u32)> = HashMap::new();
        let mut random = 1_u64;
        for step in 0..60_000_u32 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let entry = 1 + (random >> 40) as u32 % 500;
            let hash = u64::from(entry % 3) << 56 | u64::from(entry.wrapping_mul(7) % 61);
            let place = ArenaOffset(entry);
            match twin.get(&entry) {
                None => {
                    index.insert(hash, Indexed { entry: place, newest: ArenaOffset(step) });
                    twin.insert(entry, (hash, step));
                }
                Some(_) if random >> 20 & 1 == 0 => {
                    index.replace(hash, place, Indexed { entry: place, newest: ArenaOffset(step) });
                    twin.insert(entry, (hash, step));
                }
                Some(_) => {
                    index.remove(hash, place);
                    twin.remove(&entry);
                }
            }
            let found = index.find(hash, |other| other == place).map(|indexed| indexed.newest.0);
            assert_eq!(found, twin.get(&entry).map(|(_, newest)| *newest));
            if step % 1000 == 0 {
                for (entry, (hash, newest)) in &twin {
                    let found = index.find(*hash, |other| other.0 == *entry);
                    assert_eq!(found, Some(Indexed { entry: ArenaOffset(*entry), newest: ArenaOffset(*newest) }));
                }
            }
        }
        let full = index.allocated_bytes();
        assert_eq!(index.slot_bytes, index.tables.iter().map(HashTable::allocation_size).sum::<usize>());
        for (entry, (hash, _)) in twin {
            index.remove(hash, ArenaOffset(entry));
        }
        assert!(index.allocated_bytes() < full);
        assert_eq!(index.slot_bytes, index.tables.iter().map(HashTable::allocation_size).sum::<usize>());
    }
}
