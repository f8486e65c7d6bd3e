//! Counts the distinct values of groups, one range of values at a time.

use std::mem::size_of;

use rowmill_base::{Reservation, Result};

use crate::group::bits::mix;

/// The first number of slots, a power of two. They double as needed.
const SLOTS_MIN: usize = 1 << 10;

/// A value, and a word with the number of the round in its high half and the group in its low half.
type Slot = [u64; 2];

/// A set of pairs of values and groups, and the number of pairs of each group in all rounds.
pub(super) struct Counter {
    /// A power of two of slots, at most half of them in use. A slot of an earlier round is free.
    slots: Vec<Slot>,
    /// Slots in use.
    used: usize,
    round: u32,
    counts: Vec<u64>,
    memory: Reservation,
}

impl Counter {
    /// Makes a counter for `groups` groups. Takes its memory from `memory`.
    pub(super) fn new(groups: usize, mut memory: Reservation) -> Result<Counter> {
        memory.grow((groups * size_of::<u64>() + SLOTS_MIN * size_of::<Slot>()) as u64)?;
        Ok(Counter { slots: vec![[0; 2]; SLOTS_MIN], used: 0, round: 0, counts: vec![0; groups], memory })
    }

    /// Begins a round, whose values must not occur in any other round.
    pub(super) fn begin(&mut self) {
        (self.used, self.round) = (0, self.round + 1);
    }

    /// Makes room for `more` further pairs.
    pub(super) fn make_room(&mut self, more: usize) -> Result<()> {
        let slots = ((self.used + more) * 2).next_power_of_two();
        if slots <= self.slots.len() {
            return Ok(());
        }
        // Both tables exist while the slots are moved.
        self.memory.grow((slots * size_of::<Slot>()) as u64)?;
        let before = std::mem::replace(&mut self.slots, vec![[0; 2]; slots]);
        // Only the slots of this round are in use.
        for slot in before.iter().filter(|slot| slot[1] >> 32 == u64::from(self.round)) {
            let mut at = hash(slot[0], slot[1] as u32) as usize & (slots - 1);
            while self.slots[at] != [0; 2] {
                at = (at + 1) & (slots - 1);
            }
            self.slots[at] = *slot;
        }
        self.memory.recount(self.memory.bytes() - (before.len() * size_of::<Slot>()) as u64);
        Ok(())
    }

    /// Counts a value of a group unless this round has met it before. The caller must have made room.
    #[inline]
    pub(super) fn add(&mut self, value: u64, group: u32) {
        let wanted = [value, u64::from(self.round) << 32 | u64::from(group)];
        let mask = self.slots.len() - 1;
        let mut at = hash(value, group) as usize & mask;
        loop {
            // The processor cannot predict whether a value is new, so no branch depends on it.
            let slot = self.slots[at];
            let is_free = slot[1] >> 32 != u64::from(self.round);
            self.slots[at] = if is_free { wanted } else { slot };
            self.used += usize::from(is_free);
            self.counts[group as usize] += u64::from(is_free);
            if is_free | (slot == wanted) {
                return;
            }
            at = (at + 1) & mask;
        }
    }

    /// The counts of all rounds, and the memory that they hold.
    pub(super) fn finish(mut self) -> (Vec<u64>, Reservation) {
        self.memory.recount((self.counts.len() * size_of::<u64>()) as u64);
        (self.counts, self.memory)
    }
}

#[inline]
fn hash(value: u64, group: u32) -> u64 {
    mix(value ^ u64::from(group).rotate_left(40))
}
