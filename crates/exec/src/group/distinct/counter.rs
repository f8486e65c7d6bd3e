//! Counts the distinct values of groups, one range of values at a time.

use std::mem::size_of;
use std::ops::Range;

use rowmill_base::{Reservation, Result};

use super::pairs::{BITS, DistinctPairs};
use crate::group::bits::mix;

/// The first number of slots, a power of two. They double as needed.
const SLOTS_MIN: usize = 1 << 10;

/// A value, and a word with the number of the round in its high half and the group in its low half.
type Slot = [u64; 2];

/// The number of pairs of values and groups of each group, in all rounds.
pub(super) struct Counter {
    met: MetPairs,
    counts: Vec<u64>,
    memory: Reservation,
}

/// The pairs of one round.
enum MetPairs {
    /// For each value a bit per group. Values are small numbers, and groups are few.
    Bits(Vec<u64>),
    Set(PairSet),
}

/// A set of pairs of values and groups.
struct PairSet {
    /// A power of two of slots, at most half of them in use. A slot of an earlier round is free.
    slots: Vec<Slot>,
    /// Slots in use.
    used: usize,
    round: u32,
}

impl Counter {
    /// Makes a counter for `groups` groups. `has_small_values` says that the values of a round are numbers from 0 on.
    /// Takes its memory from `memory`.
    pub(super) fn new(groups: usize, has_small_values: bool, mut memory: Reservation) -> Result<Counter> {
        memory.grow((groups * size_of::<u64>()) as u64)?;
        let met = match has_small_values && groups <= BITS {
            true => MetPairs::Bits(Vec::new()),
            false => {
                memory.grow((SLOTS_MIN * size_of::<Slot>()) as u64)?;
                MetPairs::Set(PairSet { slots: vec![[0; 2]; SLOTS_MIN], used: 0, round: 1 })
            }
        };
        Ok(Counter { met, counts: vec![0; groups], memory })
    }

    /// Makes room for `pairs` further pairs, whose values are below `values` if they are small.
    pub(super) fn make_room(&mut self, pairs: usize, values: usize) -> Result<()> {
        match &mut self.met {
            MetPairs::Bits(bits) => {
                let lacks = values.saturating_sub(bits.capacity());
                self.memory.grow((lacks * size_of::<u64>()) as u64)?;
                bits.reserve_exact(values.saturating_sub(bits.len()));
                bits.resize(values.max(bits.len()), 0);
                Ok(())
            }
            MetPairs::Set(set) => set.make_room(pairs, &mut self.memory),
        }
    }

    /// Counts the pairs of the values at `places`, unless this round has met them before. `numbers` has the number of
    /// each value, and `groups` the group of each number of the worker. The caller must have made room.
    pub(super) fn add_pairs(&mut self, pairs: &DistinctPairs, places: &Range<usize>, numbers: &[u64], groups: &[u32]) {
        let (counts, group_of) = (&mut self.counts, |group: u32| groups[group as usize]);
        match &mut self.met {
            MetPairs::Bits(bits) => {
                pairs.each(places, numbers, group_of, |value, group| bits[value as usize] |= 1 << group);
            }
            MetPairs::Set(set) => {
                pairs.each(places, numbers, group_of, |value, group| set.add(value, group, counts));
            }
        }
    }

    /// Counts single pairs, unless this round has met them before. The caller must have made room.
    pub(super) fn add(&mut self, pairs: impl Iterator<Item = (u64, u32)>) {
        match &mut self.met {
            MetPairs::Bits(bits) => pairs.for_each(|(value, group)| bits[value as usize] |= 1 << group),
            MetPairs::Set(set) => pairs.for_each(|(value, group)| set.add(value, group, &mut self.counts)),
        }
    }

    /// Ends a round. Its values must not occur in any other round.
    pub(super) fn end(&mut self) {
        match &mut self.met {
            MetPairs::Bits(bits) => {
                for value in &mut *bits {
                    let mut left = *value;
                    while left != 0 {
                        self.counts[left.trailing_zeros() as usize] += 1;
                        left &= left - 1;
                    }
                }
                bits.clear();
            }
            MetPairs::Set(set) => (set.used, set.round) = (0, set.round + 1),
        }
    }

    /// The counts of all rounds, and the memory that they hold.
    pub(super) fn finish(mut self) -> (Vec<u64>, Reservation) {
        self.memory.recount((self.counts.len() * size_of::<u64>()) as u64);
        (self.counts, self.memory)
    }
}

impl PairSet {
    fn make_room(&mut self, more: usize, memory: &mut Reservation) -> Result<()> {
        let slots = ((self.used + more) * 2).next_power_of_two();
        if slots <= self.slots.len() {
            return Ok(());
        }
        // Both tables exist while the slots are moved.
        memory.grow((slots * size_of::<Slot>()) as u64)?;
        let before = std::mem::replace(&mut self.slots, vec![[0; 2]; slots]);
        // Only the slots of this round are in use.
        for slot in before.iter().filter(|slot| slot[1] >> 32 == u64::from(self.round)) {
            let mut at = hash(slot[0], slot[1] as u32) as usize & (slots - 1);
            while self.slots[at] != [0; 2] {
                at = (at + 1) & (slots - 1);
            }
            self.slots[at] = *slot;
        }
        memory.recount(memory.bytes() - (before.len() * size_of::<Slot>()) as u64);
        Ok(())
    }

    /// Counts a value of a group unless this round has met it before.
    #[inline]
    fn add(&mut self, value: u64, group: u32, counts: &mut [u64]) {
        let wanted = [value, u64::from(self.round) << 32 | u64::from(group)];
        let mask = self.slots.len() - 1;
        let mut at = hash(value, group) as usize & mask;
        loop {
            // The processor cannot predict whether a value is new, so no branch depends on it.
            let slot = self.slots[at];
            let is_free = slot[1] >> 32 != u64::from(self.round);
            self.slots[at] = if is_free { wanted } else { slot };
            self.used += usize::from(is_free);
            counts[group as usize] += u64::from(is_free);
            if is_free | (slot == wanted) {
                return;
            }
            at = (at + 1) & mask;
        }
    }
}

#[inline]
fn hash(value: u64, group: u32) -> u64 {
    mix(value ^ u64::from(group).rotate_left(40))
}
