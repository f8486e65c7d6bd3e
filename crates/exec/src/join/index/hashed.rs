//! Open addressing, in partitions by the highest bits of the hashes.
//!
//! A slot holds the word that was hashed beside its entry. Words are looked up many at a time: first the slot where each
//! should be, which the processor does for many words at once because no word's way depends on another's; then, for those
//! that are elsewhere, the next slot, and so on.

use rowmill_base::{Reservation, Result};

use super::lists::{Entries, Keys};
use super::{NONE, Part};
use crate::hash::mix;

/// Slots are at least so many times the keys, in fourths.
const SLOTS_PER_KEY_FOURTHS: usize = 7;
/// Slots of an empty table.
const SLOTS_MIN: usize = 16;

/// How words are hashed.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::join) struct Hashing {
    /// All words have one hash, so that tests meet what is never met.
    #[cfg(test)]
    pub(in crate::join) all_equal: bool,
}

impl Hashing {
    #[inline]
    pub(super) fn of(self, word: u64) -> u64 {
        #[cfg(test)]
        if self.all_equal {
            return 0;
        }
        mix(word)
    }
}

/// The partition of a hash, of `1 << bits`.
#[inline]
pub(super) fn partition(hash: u64, bits: u32) -> usize {
    // In two steps, because a shift by all 64 bits is none for the processor.
    (hash >> 1 >> (63 - bits)) as usize
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    word: u64,
    /// [`NONE`] if the slot is free.
    entry: u32,
}

const FREE: Slot = Slot { word: 0, entry: NONE };

/// One partition.
#[derive(Debug)]
pub(super) struct HashTable {
    slots: Vec<Slot>,
}

impl HashTable {
    fn new(slots: usize) -> HashTable {
        HashTable { slots: vec![FREE; slots] }
    }

    pub(super) fn bytes(&self) -> usize {
        self.slots.len() * size_of::<Slot>()
    }

    /// The slot where a word of this hash should be. The lower half of the hash scales to the slots.
    #[inline]
    fn home(&self, hash: u64) -> usize {
        (((hash & u64::from(u32::MAX)) * self.slots.len() as u64) >> 32) as usize
    }

    #[inline]
    fn after(&self, slot: usize) -> usize {
        if slot + 1 == self.slots.len() { 0 } else { slot + 1 }
    }

    /// The first slot from the home of `hash` on that is free or that `is_it`.
    #[inline]
    fn seek(&self, hash: u64, is_it: impl Fn(&Slot) -> bool) -> usize {
        let mut at = self.home(hash);
        while self.slots[at].entry != NONE && !is_it(&self.slots[at]) {
            at = self.after(at);
        }
        at
    }

    #[cold]
    fn double(&mut self, hashing: Hashing) {
        let grown = HashTable::new(self.slots.len() * 2);
        let before = std::mem::replace(self, grown);
        for slot in before.slots.into_iter().filter(|slot| slot.entry != NONE) {
            let at = self.seek(hashing.of(slot.word), |_| false);
            self.slots[at] = slot;
        }
    }
}

/// The table of a partition, and its lists. Words that are equal belong to one key if `is_same` says so of its rows.
pub(super) fn build(
    parts: &[&Part],
    hashing: Hashing,
    lists_start: u32,
    is_same: impl Fn(u32, u32) -> bool,
    memory: &mut Reservation,
) -> Result<(HashTable, Vec<u32>)> {
    let rows: usize = parts.iter().map(|part| part.rows.len()).sum();
    // Most builds have unique keys; one with a few does not need a large table.
    let slots = (rows / 4 * SLOTS_PER_KEY_FOURTHS / 4).max(SLOTS_MIN);
    memory.grow((slots * size_of::<Slot>()) as u64)?;
    let mut table = HashTable::new(slots);
    let mut keys = Keys::new(rows);
    for part in parts {
        for (word, row) in part.words.iter().zip(&part.rows) {
            if keys.len() * SLOTS_PER_KEY_FOURTHS >= table.slots.len() * 4 {
                let before = table.bytes() as u64;
                memory.grow(2 * before)?;
                table.double(hashing);
                memory.recount(memory.bytes() - before);
            }
            let at = table.seek(hashing.of(*word), |slot| slot.word == *word && is_same(keys.first(slot.entry), *row));
            let slot = &mut table.slots[at];
            slot.word = *word;
            keys.add(&mut slot.entry, *row);
        }
    }
    let Entries { of_keys, lists } = keys.finish(lists_start);
    for slot in table.slots.iter_mut().filter(|slot| slot.entry != NONE) {
        slot.entry = of_keys[slot.entry as usize];
    }
    Ok((table, lists))
}

/// The tables of all partitions.
#[derive(Debug)]
pub(super) struct Hashed {
    partitions: Vec<HashTable>,
    bits: u32,
    hashing: Hashing,
}

impl Hashed {
    pub(super) fn new(partitions: Vec<HashTable>, bits: u32, hashing: Hashing) -> Hashed {
        Hashed { partitions, bits, hashing }
    }

    #[inline]
    fn table(&self, hash: u64) -> &HashTable {
        &self.partitions[partition(hash, self.bits)]
    }

    /// Appends the entries of words. `late` is room for work.
    pub(super) fn find(&self, words: &[u64], late: &mut Vec<u32>, entries: &mut Vec<u32>) {
        late.resize(words.len(), 0);
        let start = entries.len();
        let mut left = 0;
        for (row, word) in words.iter().enumerate() {
            let hash = self.hashing.of(*word);
            let table = self.table(hash);
            let slot = table.slots[table.home(hash)];
            let is_it = slot.word == *word;
            entries.push(if is_it { slot.entry } else { NONE });
            late[left] = row as u32;
            left += usize::from(!is_it && slot.entry != NONE);
        }
        let mut step = 0;
        while left > 0 {
            step += 1;
            left = self.find_late(words, &mut late[..left], step, &mut entries[start..]);
        }
    }

    /// Looks up the words of the rows `late`, `step` slots behind their homes. How many of them are elsewhere; these
    /// come first then.
    fn find_late(&self, words: &[u64], late: &mut [u32], step: usize, entries: &mut [u32]) -> usize {
        let mut left = 0;
        for index in 0..late.len() {
            let row = late[index];
            let word = words[row as usize];
            let hash = self.hashing.of(word);
            let table = self.table(hash);
            let at = table.home(hash) + step;
            // Behind the last slot comes the first; no way is longer than the table.
            let slot = table.slots[if at < table.slots.len() { at } else { at - table.slots.len() }];
            let is_it = slot.word == word;
            entries[row as usize] = if is_it { slot.entry } else { NONE };
            late[left] = row;
            left += usize::from(!is_it && slot.entry != NONE);
        }
        left
    }

    /// The entry of the key with this word that `is_it`.
    pub(super) fn find_one(&self, word: u64, is_it: impl Fn(u32) -> bool) -> u32 {
        let hash = self.hashing.of(word);
        let table = self.table(hash);
        table.slots[table.seek(hash, |slot| slot.word == word && is_it(slot.entry))].entry
    }
}
