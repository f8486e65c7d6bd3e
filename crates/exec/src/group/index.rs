//! A hash table from keys, which are stored elsewhere, to their numbers in the order in which they were met.

use std::mem::size_of;

/// The numbers of keys, by hash.
#[derive(Debug)]
pub(super) struct Index {
    /// A slot is one more than a number; 0 is free. There must be a power of two of them, at most half in use.
    slots: Vec<u32>,
    len: u32,
}

impl Index {
    /// An index that holds `keys` keys before it must grow.
    pub(super) fn with_room_for(keys: usize) -> Index {
        Index { slots: vec![0; slots_for(keys)], len: 0 }
    }

    /// Bytes of memory of an index with room for `keys` keys.
    pub(super) fn bytes_for(keys: usize) -> u64 {
        (slots_for(keys) * size_of::<u32>()) as u64
    }

    /// The number of keys that fit before the index must grow.
    pub(super) fn room(&self) -> usize {
        self.slots.len() / 2
    }

    /// The number of the first key that a search for this hash compares, if there is one.
    #[inline]
    pub(super) fn first(&self, hash: u64) -> Option<u32> {
        self.slots[hash as usize & (self.slots.len() - 1)].checked_sub(1)
    }

    /// The number of a key. `None` if the key is new; it then gets the next number.
    #[inline]
    pub(super) fn find(&mut self, hash: u64, is_same: impl Fn(u32) -> bool) -> Option<u32> {
        let mask = self.slots.len() - 1;
        let mut slot = hash as usize & mask;
        while self.slots[slot] != 0 {
            let number = self.slots[slot] - 1;
            if is_same(number) {
                return Some(number);
            }
            slot = (slot + 1) & mask;
        }
        assert!((self.len as usize) < self.slots.len() / 2, "the caller must grow an index before it is full");
        self.len += 1;
        self.slots[slot] = self.len;
        None
    }

    /// Makes room for `keys` keys. `hash` returns the hash of a number's key.
    pub(super) fn grow(&mut self, keys: usize, hash: impl Fn(u32) -> u64) {
        let mask = slots_for(keys) - 1;
        let mut slots = vec![0; mask + 1];
        for number in 0..self.len {
            let mut slot = hash(number) as usize & mask;
            while slots[slot] != 0 {
                slot = (slot + 1) & mask;
            }
            slots[slot] = number + 1;
        }
        self.slots = slots;
    }

    /// Removes all keys.
    pub(super) fn clear(&mut self) {
        self.slots.fill(0);
        self.len = 0;
    }
}

fn slots_for(keys: usize) -> usize {
    (keys * 2).next_power_of_two().max(2)
}
