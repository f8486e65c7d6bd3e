//! Finds an entry and its newest version by the whole key.
//!
//! Many small hash tables instead of one, so that none takes long to grow while readers wait: a million keys are four
//! thousand a table. They are open, and probed from a key's slot on. A slot holds half of the key's hash, so that neither
//! growing nor passing over other keys looks at entries; and it holds the place of the newest version beside that of the
//! entry, so that a processor which expects the key to be the right one loads both at once. A point read is then two cache
//! misses one after the other: the slot, and what it points to.

use rapidhash::v3::{RapidSecrets, rapidhash_v3_seeded};

use super::arena::Place;

const TABLES: usize = 256;
const SLOTS_MIN: usize = 8;

/// What the index says of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Indexed {
    pub(super) entry: Place,
    pub(super) newest: Place,
}

/// See the module. It does not know keys: who asks tells whether a place is of the key that is looked for.
#[derive(Debug)]
pub(super) struct KeyIndex {
    tables: Vec<Table>,
}

/// Slots are a power of two and at most three quarters taken.
#[derive(Debug, Default)]
struct Table {
    slots: Vec<Slot>,
    taken: usize,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    /// The lower half of the key's hash; its low bits say where to look first.
    tag: u32,
    /// The entry is nowhere in a free slot.
    indexed: Indexed,
}

const FREE: Slot = Slot { tag: 0, indexed: Indexed { entry: Place::NONE, newest: Place::NONE } };

impl Slot {
    fn is_free(&self) -> bool {
        self.indexed.entry == Place::NONE
    }
}

/// The hash of a key. The upper byte chooses the table.
pub(super) fn hash(key: &[u8], secrets: &RapidSecrets) -> u64 {
    rapidhash_v3_seeded(key, secrets)
}

impl KeyIndex {
    pub(super) fn new() -> Self {
        KeyIndex { tables: (0..TABLES).map(|_| Table::default()).collect() }
    }

    /// The key's entry and newest version.
    #[inline]
    pub(super) fn find(&self, hash: u64, is_key: impl Fn(Place) -> bool) -> Option<Indexed> {
        let table = &self.tables[(hash >> 56) as usize];
        let at = table.find(hash as u32, |indexed| is_key(indexed.entry))?;
        Some(table.slots[at].indexed)
    }

    /// Adds a key that is not there.
    pub(super) fn insert(&mut self, hash: u64, indexed: Indexed) {
        self.tables[(hash >> 56) as usize].insert(Slot { tag: hash as u32, indexed });
    }

    /// Changes what is said of the key whose entry is at `entry`.
    pub(super) fn replace(&mut self, hash: u64, entry: Place, indexed: Indexed) {
        let table = &mut self.tables[(hash >> 56) as usize];
        let at = table.find(hash as u32, |indexed| indexed.entry == entry).expect("every entry has a slot");
        table.slots[at].indexed = indexed;
    }

    /// Removes the key whose entry is at `entry`.
    pub(super) fn remove(&mut self, hash: u64, entry: Place) {
        let table = &mut self.tables[(hash >> 56) as usize];
        let at = table.find(hash as u32, |indexed| indexed.entry == entry).expect("every entry has a slot");
        table.remove(at);
    }

    /// Bytes taken from the allocator.
    pub(super) fn allocated_bytes(&self) -> usize {
        let slots: usize = self.tables.iter().map(|table| table.slots.capacity()).sum();
        TABLES * size_of::<Table>() + slots * size_of::<Slot>()
    }
}

impl Table {
    #[inline]
    fn find(&self, tag: u32, is_it: impl Fn(&Indexed) -> bool) -> Option<usize> {
        let mask = self.slots.len().checked_sub(1)?;
        let mut at = tag as usize & mask;
        loop {
            let slot = self.slots[at];
            if slot.is_free() {
                return None;
            }
            if slot.tag == tag && is_it(&slot.indexed) {
                return Some(at);
            }
            at = (at + 1) & mask;
        }
    }

    fn insert(&mut self, slot: Slot) {
        if (self.taken + 1) * 4 > self.slots.len() * 3 {
            self.resize((self.slots.len() * 2).max(SLOTS_MIN));
        }
        self.taken += 1;
        self.put(slot);
    }

    fn put(&mut self, slot: Slot) {
        let mask = self.slots.len() - 1;
        let mut at = slot.tag as usize & mask;
        while !self.slots[at].is_free() {
            at = (at + 1) & mask;
        }
        self.slots[at] = slot;
    }

    fn resize(&mut self, slots: usize) {
        let old = std::mem::replace(&mut self.slots, vec![FREE; slots]);
        old.into_iter().filter(|slot| !slot.is_free()).for_each(|slot| self.put(slot));
    }

    /// Frees a slot. Those behind it that were put there for want of a free one before move up.
    fn remove(&mut self, mut hole: usize) {
        let mask = self.slots.len() - 1;
        let mut at = hole;
        loop {
            at = (at + 1) & mask;
            let slot = self.slots[at];
            if slot.is_free() {
                break;
            }
            let first = slot.tag as usize & mask;
            if at.wrapping_sub(first) & mask >= at.wrapping_sub(hole) & mask {
                self.slots[hole] = slot;
                hole = at;
            }
        }
        self.slots[hole] = FREE;
        self.taken -= 1;
        if self.taken * 8 < self.slots.len() && self.slots.len() > SLOTS_MIN {
            self.resize(self.slots.len() / 2);
        }
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
        for (entry, (hash, _)) in twin {
            index.remove(hash, Place(entry));
        }
        assert!(index.allocated_bytes() < full);
    }
}
