//! Finds an entry and its newest version by the whole key.
//!
//! Many small hash tables instead of one, so that none takes long to grow while readers wait: a million keys are four
//! thousand a table. A slot holds half of the key's hash, so that neither growing nor passing over other keys looks at
//! entries; and it holds the place of the newest version beside that of the entry, so that a processor which expects the
//! key to be the right one loads both at once.

use hashbrown::HashTable;
use rapidhash::v3::{RapidSecrets, rapidhash_v3_seeded};

use super::arena::Place;

const TABLES: usize = 256;

/// What the index says of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Indexed {
    pub(super) entry: Place,
    pub(super) newest: Place,
}

/// See the module. It does not know keys: who asks tells whether a place is of the key that is looked for.
#[derive(Debug)]
pub(super) struct KeyIndex {
    /// None before the first key.
    tables: Vec<HashTable<Slot>>,
    /// Bytes that all tables have allocated: every commit asks.
    slot_bytes: usize,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    /// The lower half of the key's hash.
    tag: u32,
    indexed: Indexed,
}

/// The hash of a key. The upper byte chooses the table.
pub(super) fn hash(key: &[u8], secrets: &RapidSecrets) -> u64 {
    rapidhash_v3_seeded(key, secrets)
}

/// The hash within a table, made of what a slot has.
pub(super) fn spread(tag: u32) -> u64 {
    u64::from(tag) << 32 | u64::from(tag)
}

impl KeyIndex {
    pub(super) fn new() -> Self {
        KeyIndex { tables: Vec::new(), slot_bytes: 0 }
    }

    /// The key's entry and newest version.
    #[inline]
    pub(super) fn find(&self, hash: u64, is_key: impl Fn(Place) -> bool) -> Option<Indexed> {
        let tag = hash as u32;
        let table = self.tables.get((hash >> 56) as usize)?;
        let slot = table.find(spread(tag), |slot| slot.tag == tag && is_key(slot.indexed.entry))?;
        Some(slot.indexed)
    }

    /// Adds a key that is not there.
    pub(super) fn insert(&mut self, hash: u64, indexed: Indexed) {
        let tag = hash as u32;
        if self.tables.is_empty() {
            self.tables.resize_with(TABLES, HashTable::new);
        }
        let table = &mut self.tables[(hash >> 56) as usize];
        let before = table.allocation_size();
        table.insert_unique(spread(tag), Slot { tag, indexed }, |slot| spread(slot.tag));
        self.slot_bytes += table.allocation_size() - before;
    }

    /// Changes what is said of the key whose entry is at `entry`.
    pub(super) fn replace(&mut self, hash: u64, entry: Place, indexed: Indexed) {
        let table = &mut self.tables[(hash >> 56) as usize];
        let slot = table.find_mut(spread(hash as u32), |slot| slot.indexed.entry == entry);
        slot.expect("every entry has a slot").indexed = indexed;
    }

    /// Removes the key whose entry is at `entry`.
    pub(super) fn remove(&mut self, hash: u64, entry: Place) {
        let table = &mut self.tables[(hash >> 56) as usize];
        let slot = table.find_entry(spread(hash as u32), |slot| slot.indexed.entry == entry);
        slot.expect("every entry has a slot").remove();
        if table.len() * 8 < table.capacity() {
            let before = table.allocation_size();
            table.shrink_to_fit(|slot| spread(slot.tag));
            self.slot_bytes -= before - table.allocation_size();
        }
    }

    /// Bytes taken from the allocator.
    pub(super) fn allocated_bytes(&self) -> usize {
        self.tables.len() * size_of::<HashTable<Slot>>() + self.slot_bytes
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    /// Hashes of few different tags, so that most keys are probed for.
    #[test]
    fn keys_come_and_go() {
        let mut index = KeyIndex::new();
        let mut twin: HashMap<u32, (u64, u32)> = HashMap::new();
        let mut random = 1_u64;
        for step in 0..60_000_u32 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let entry = 1 + (random >> 40) as u32 % 500;
            let hash = u64::from(entry % 3) << 56 | u64::from(entry.wrapping_mul(7) % 61);
            let place = Place(entry);
            match twin.get(&entry) {
                None => {
                    index.insert(hash, Indexed { entry: place, newest: Place(step) });
                    twin.insert(entry, (hash, step));
                }
                Some(_) if random >> 20 & 1 == 0 => {
                    index.replace(hash, place, Indexed { entry: place, newest: Place(step) });
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
                    assert_eq!(found, Some(Indexed { entry: Place(*entry), newest: Place(*newest) }));
                }
            }
        }
        let full = index.allocated_bytes();
        assert_eq!(index.slot_bytes, index.tables.iter().map(HashTable::allocation_size).sum::<usize>());
        for (entry, (hash, _)) in twin {
            index.remove(hash, Place(entry));
        }
        assert!(index.allocated_bytes() < full);
        assert_eq!(index.slot_bytes, index.tables.iter().map(HashTable::allocation_size).sum::<usize>());
    }
}
