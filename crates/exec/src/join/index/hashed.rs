//! Open addressing, in partitions by the highest bits of the hashes.
//!
//! A slot holds a word next to its entry, so one memory access tells whether the word is there. Words are looked up
//! many at a time. First the slots where they should be are computed. Then these slots are read; the processor fetches
//! many at once because no read waits for another. Then the words are compared. A word that is not in its slot goes on
//! to the next slot, which is near.

use rowmill_base::{Reservation, Result};

use super::lists::{Entries, EntryForm, EntryRows, Keys};
use super::{NONE, PartitionPart};
use crate::cache::LOOKUPS_AT_ONCE;
use crate::hash::mix;

/// Least number of slots per key, in fourths. Slots are a power of two, so there are up to twice as many. At 4 keys
/// for 7 slots, linear probing looks at 1.7 slots for a key of the table and at 3.2 for another one; with 3 keys for 4
/// slots it would be 2.5 and 8.5 (Knuth, "The Art of Computer Programming", volume 3, section 6.4).
const SLOTS_PER_KEY_FOURTHS: usize = 7;
/// Slots of an empty table.
const SLOTS_MIN: usize = 16;
const _: () = assert!(LOOKUPS_AT_ONCE <= 1 << u8::BITS, "the row of a look-up is a byte");

/// The way in which words are hashed.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::join) struct Hashing {
    /// Gives all words the same hash, so that tests meet collisions that otherwise never happen.
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

    /// Whether all hashes are equal, as a test may ask for.
    pub(in super::super) fn are_equal(self) -> bool {
        self.of(0) == self.of(1)
    }
}

/// The partition of a hash among `1 << bits` partitions.
#[inline]
pub(super) fn partition(hash: u64, bits: u32) -> usize {
    // We shift twice because one shift by all 64 bits, with a single partition, is not allowed.
    (hash >> 1 >> (63 - bits)) as usize
}

/// Packed: a table that is smaller by a fourth saves more cache misses than slots that cross cache lines cost.
#[derive(Clone, Copy, Debug)]
#[repr(C, packed(4))]
struct JoinSlot {
    word: u64,
    /// [`NONE`] if the slot is free.
    entry: u32,
}

const FREE: JoinSlot = JoinSlot { word: 0, entry: NONE };

// The processor cannot predict whether a slot is the right one, so these functions must not branch on it.
impl JoinSlot {
    /// The entry if the slot has this word, otherwise [`NONE`].
    #[inline(always)]
    fn entry_of(&self, word: u64) -> u32 {
        self.entry | u32::from(self.word == word).wrapping_sub(1)
    }

    /// One if the slot has another word, otherwise zero.
    #[inline(always)]
    fn is_of_another(&self, word: u64) -> usize {
        usize::from(self.word != word) & usize::from(self.entry != NONE)
    }
}

/// The table of one partition.
#[derive(Debug)]
pub(super) struct HashTable {
    slots: Vec<JoinSlot>,
}

impl HashTable {
    fn new(slots: usize) -> HashTable {
        HashTable { slots: vec![FREE; slots] }
    }

    /// Adds `base` to the entries of all keys.
    pub(super) fn renumber(&mut self, base: u32) {
        self.slots.iter_mut().filter(|slot| slot.entry != NONE).for_each(|slot| slot.entry += base);
    }

    pub(super) fn bytes(&self) -> usize {
        self.slots.len() * size_of::<JoinSlot>()
    }

    /// The slot where a word with this hash should be. Scales the lower half of the hash to the number of slots.
    #[inline]
    fn home(&self, hash: u64) -> usize {
        (((hash & u64::from(u32::MAX)) * self.slots.len() as u64) >> 32) as usize
    }

    /// The slot `step` after `slot`. The first slot follows the last one. No search is longer than the table.
    #[inline]
    fn behind(&self, slot: usize, step: usize) -> usize {
        let at = slot + step;
        if at < self.slots.len() { at } else { at - self.slots.len() }
    }

    /// The first slot, from the home of `hash` on, that is free or for which `is_it` is true.
    #[inline]
    fn seek(&self, hash: u64, is_it: impl Fn(&JoinSlot) -> bool) -> usize {
        let mut at = self.home(hash);
        while self.slots[at].entry != NONE && !is_it(&self.slots[at]) {
            at = self.behind(at, 1);
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

/// Builds the table of a partition, and what its entries refer to. Equal words belong to the same key only if
/// `is_same` is true for their rows.
pub(super) fn build(
    parts: &[&PartitionPart],
    hashing: Hashing,
    form: EntryForm,
    is_same: impl Fn(u32, u32) -> bool,
    memory: &mut Reservation,
) -> Result<(HashTable, EntryRows)> {
    let rows: usize = parts.iter().map(|part| part.rows.len()).sum();
    // Most build sides have unique keys, for which the table doubles twice. One with few distinct keys needs no large
    // table.
    let slots = rows * SLOTS_PER_KEY_FOURTHS / 16 + SLOTS_MIN;
    memory.grow((slots * size_of::<JoinSlot>()) as u64)?;
    let mut table = HashTable::new(slots);
    let mut keys = Keys::new(rows);
    for part in parts {
        for (word, row) in part.words.iter().zip(&part.rows) {
            if keys.len() * SLOTS_PER_KEY_FOURTHS >= table.slots.len() * 4 {
                let before = table.bytes() as u64;
                memory.grow(2 * before)?;
                // The old table is dropped now, so its memory is given back.
                table.double(hashing);
                memory.recount(memory.bytes() - before);
            }
            let is_it = |slot: &JoinSlot| slot.word == *word && is_same(keys.first(slot.entry), *row);
            let at = table.seek(hashing.of(*word), is_it);
            let mut number = table.slots[at].entry;
            keys.add(&mut number, *row);
            table.slots[at] = JoinSlot { word: *word, entry: number };
        }
    }
    let Entries { of_keys, rows } = keys.finish(form);
    for slot in table.slots.iter_mut().filter(|slot| slot.entry != NONE) {
        slot.entry = of_keys[slot.entry as usize];
    }
    Ok((table, rows))
}

/// The place where a word should be.
#[derive(Clone, Copy)]
struct Home {
    table: u32,
    slot: u32,
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
    fn home(&self, word: u64) -> Home {
        let hash = self.hashing.of(word);
        let table = partition(hash, self.bits);
        Home { table: table as u32, slot: self.partitions[table].home(hash) as u32 }
    }

    #[inline]
    fn slot(&self, home: Home, step: usize) -> JoinSlot {
        let table = &self.partitions[home.table as usize];
        table.slots[table.behind(home.slot as usize, step)]
    }

    /// Appends the entries of words.
    pub(super) fn find(&self, words: &[u64], entries: &mut Vec<u32>) {
        let start = entries.len();
        entries.resize(start + words.len(), NONE);
        for (words, entries) in words.chunks(LOOKUPS_AT_ONCE).zip(entries[start..].chunks_mut(LOOKUPS_AT_ONCE)) {
            self.find_few(words, entries);
        }
    }

    /// Finds few enough words that the cache lines of their slots fit the first-level cache.
    fn find_few(&self, words: &[u64], entries: &mut [u32]) {
        let mut homes = [Home { table: 0, slot: 0 }; LOOKUPS_AT_ONCE];
        for (home, word) in homes.iter_mut().zip(words) {
            *home = self.home(*word);
        }
        // Only memory reads in this loop: the less work is between them, the more of them are in flight at once.
        let mut slots = [FREE; LOOKUPS_AT_ONCE];
        for (slot, home) in slots.iter_mut().zip(&homes[..words.len()]) {
            *slot = self.slot(*home, 0);
        }
        // `late` collects the words whose slot has another word. Each is written, but `left` advances only past those.
        let (mut late, mut left) = ([0_u8; LOOKUPS_AT_ONCE], 0);
        for (row, ((slot, word), entry)) in slots.iter().zip(words).zip(entries.iter_mut()).enumerate() {
            *entry = slot.entry_of(*word);
            late[left] = row as u8;
            left += slot.is_of_another(*word);
        }
        let mut step = 0;
        while left > 0 {
            step += 1;
            let before = left;
            left = 0;
            for index in 0..before {
                let row = usize::from(late[index]);
                let slot = self.slot(homes[row], step);
                entries[row] = slot.entry_of(words[row]);
                late[left] = row as u8;
                left += slot.is_of_another(words[row]);
            }
        }
    }

    /// The entry of the key that has this word and for which `is_it` is true.
    pub(super) fn find_one(&self, word: u64, is_it: impl Fn(u32) -> bool) -> u32 {
        let hash = self.hashing.of(word);
        let table = &self.partitions[partition(hash, self.bits)];
        table.slots[table.seek(hash, |slot| slot.word == word && is_it(slot.entry))].entry
    }
}
