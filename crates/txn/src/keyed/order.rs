//! The entries in the order of their keys: leaves of up to 128 entries under a map of their least keys.
//!
//! A leaf has the bytes that all its keys begin with, and of each key the eight bytes behind those, as a number. So a
//! search in a leaf runs through numbers that lie side by side, and looks at keys, which lie elsewhere, only where those
//! are equal: rarely, since keys of one leaf differ within few bytes.
//!
//! Keys that come in order, at the end or in many places at once (the orders of each district), leave full leaves behind: a
//! leaf is cut where the last two keys were put side by side, else in its middle.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::ops::ControlFlow;

use rowmill_storage::keyed::KeyRange;

use super::arena::{Arena, Place};
use super::entry::key_of;

/// Entries of a leaf: few leaves to search for, and inserting moves at most a kilobyte and a half.
const LEAF_ENTRIES: usize = 128;

#[derive(Clone, Debug)]
pub(super) struct Leaf {
    /// What all keys begin with; the rest is compared.
    prefix: Vec<u8>,
    len: usize,
    /// Where the last key was put.
    last_insert: usize,
    heads: [u64; LEAF_ENTRIES],
    entries: [Place; LEAF_ENTRIES],
}

/// See the module. Leaves stand under a lower bound of their keys, which those of the leaf before are below; the first one
/// under nothing, and is always there.
#[derive(Clone, Debug)]
pub(super) struct Order {
    leaves: BTreeMap<Box<[u8]>, Box<Leaf>>,
    /// Bytes of bounds and prefixes.
    key_bytes: usize,
}

/// The first eight bytes of `key`, with zeros behind a shorter one, as a number in the order of bytes.
#[inline]
fn head_of(key: &[u8]) -> u64 {
    match key.first_chunk() {
        Some(bytes) => u64::from_be_bytes(*bytes),
        None => {
            let mut bytes = [0; 8];
            bytes[..key.len()].copy_from_slice(key);
            u64::from_be_bytes(bytes)
        }
    }
}

fn common_bytes(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

impl Leaf {
    fn new() -> Self {
        Leaf {
            prefix: Vec::new(),
            len: 0,
            last_insert: 0,
            heads: [0; LEAF_ENTRIES],
            entries: [Place::NONE; LEAF_ENTRIES],
        }
    }

    pub(super) fn entries(&self) -> &[Place] {
        &self.entries[..self.len]
    }

    /// The first entry whose key is not below `key`.
    #[inline]
    fn lower_bound(&self, key: &[u8], keys: &Arena) -> usize {
        let Some(rest) = key.strip_prefix(&self.prefix[..]) else {
            return if key < &self.prefix[..] { 0 } else { self.len };
        };
        let head = head_of(rest);
        let heads = &self.heads[..self.len];
        let first = heads.partition_point(|other| *other < head);
        if heads.get(first) != Some(&head) {
            return first;
        }
        let equal = heads[first..].partition_point(|other| *other == head);
        first + self.entries[first..first + equal].partition_point(|entry| key_of(keys, *entry) < key)
    }

    /// Sets what the keys begin with and all numbers.
    fn set_heads(&mut self, prefix_bytes: usize, keys: &Arena) {
        let first = key_of(keys, self.entries[0]);
        self.prefix.clear();
        self.prefix.extend_from_slice(&first[..prefix_bytes]);
        for (head, entry) in self.heads.iter_mut().zip(&self.entries[..self.len]) {
            *head = head_of(&key_of(keys, *entry)[prefix_bytes..]);
        }
    }

    /// As [`Leaf::set_heads`], with as long a prefix as all keys share; a key alone keeps its end out of it, which is
    /// where the next key will differ.
    fn set_prefix(&mut self, keys: &Arena) {
        if let [first, .., last] = self.entries() {
            self.set_heads(common_bytes(key_of(keys, *first), key_of(keys, *last)), keys);
        } else if let [only] = self.entries() {
            self.set_heads(key_of(keys, *only).len().saturating_sub(8), keys);
        }
    }

    /// Puts the entry of `key` at `at`. There has to be room.
    fn insert(&mut self, at: usize, key: &[u8], entry: Place, keys: &Arena) {
        self.entries.copy_within(at..self.len, at + 1);
        self.heads.copy_within(at..self.len, at + 1);
        self.entries[at] = entry;
        self.len += 1;
        self.last_insert = at;
        match key.strip_prefix(&self.prefix[..]) {
            _ if self.len == 1 => self.set_prefix(keys),
            Some(rest) => self.heads[at] = head_of(rest),
            None => self.set_heads(common_bytes(key, &self.prefix), keys),
        }
    }

    /// Takes the entries from `at` on.
    fn split_off(&mut self, at: usize, keys: &Arena) -> Box<Leaf> {
        let mut right = Box::new(Leaf::new());
        right.len = self.len - at;
        right.entries[..right.len].copy_from_slice(&self.entries[at..self.len]);
        right.set_prefix(keys);
        self.len = at;
        self.set_prefix(keys);
        right
    }

    /// Replaces each entry by what `keep` makes of it.
    fn retain(&mut self, mut keep: impl FnMut(Place) -> Option<Place>) {
        let mut len = 0;
        for i in 0..self.len {
            if let Some(entry) = keep(self.entries[i]) {
                (self.entries[len], self.heads[len]) = (entry, self.heads[i]);
                len += 1;
            }
        }
        self.len = len;
        self.last_insert = usize::MAX - 1;
    }
}

/// The same leaf as [`Order::leaf`], to be changed. Keys that come in order belong to the last one, and are not searched for.
fn leaf_of<'l>(leaves: &'l mut BTreeMap<Box<[u8]>, Box<Leaf>>, key: &[u8]) -> &'l mut Leaf {
    if leaves.last_key_value().is_some_and(|(bound, _)| **bound <= *key) {
        return leaves.last_entry().expect("it was looked at").into_mut();
    }
    let up_to = (Bound::Unbounded, Bound::Included(key));
    leaves.range_mut::<[u8], _>(up_to).next_back().expect("the first leaf is always there").1
}

impl Order {
    pub(super) fn new() -> Self {
        Order { leaves: BTreeMap::from([(Box::default(), Box::new(Leaf::new()))]), key_bytes: 0 }
    }

    /// Bytes taken from the allocator; the nodes of the map are two thirds full.
    pub(super) fn allocated_bytes(&self) -> usize {
        self.leaves.len() * (size_of::<Leaf>() + 3 * size_of::<(Box<[u8]>, Box<Leaf>)>() / 2) + self.key_bytes
    }

    /// Forgets all entries, and keeps the first leaf.
    pub(super) fn clear(&mut self) {
        if self.leaves.len() > 1 {
            *self = Order::new();
        } else if let Some(leaf) = self.leaves.values_mut().next() {
            (leaf.len, leaf.last_insert) = (0, 0);
            leaf.prefix.clear();
        }
    }

    /// All entries in order.
    pub(super) fn entries(&self) -> impl Iterator<Item = Place> + '_ {
        self.leaves.values().flat_map(|leaf| leaf.entries()).copied()
    }

    /// The leaf that `key` belongs to.
    fn leaf(&self, key: &[u8]) -> &Leaf {
        let up_to = (Bound::Unbounded, Bound::Included(key));
        self.leaves.range::<[u8], _>(up_to).next_back().expect("the first leaf is always there").1
    }

    /// The entry of `key`, if it is there.
    pub(super) fn find(&self, key: &[u8], keys: &Arena) -> Option<Place> {
        let leaf = self.leaf(key);
        leaf.entries().get(leaf.lower_bound(key, keys)).copied().filter(|entry| key_of(keys, *entry) == key)
    }

    /// Adds the entry of `key`, which is not there yet.
    pub(super) fn insert(&mut self, key: &[u8], entry: Place, keys: &Arena) {
        let leaf = leaf_of(&mut self.leaves, key);
        let prefix_bytes = leaf.prefix.capacity();
        let at = leaf.lower_bound(key, keys);
        if leaf.len < LEAF_ENTRIES {
            leaf.insert(at, key, entry, keys);
            self.key_bytes += leaf.prefix.capacity() - prefix_bytes;
            return;
        }
        let in_order = at == leaf.len || at == leaf.last_insert + 1;
        let cut = if in_order { at } else { LEAF_ENTRIES / 2 };
        let mut right = leaf.split_off(cut, keys);
        if at < cut || at == cut && right.len > 0 {
            leaf.insert(at, key, entry, keys);
        } else {
            right.insert(at - cut, key, entry, keys);
        }
        let last = key_of(keys, leaf.entries[leaf.len - 1]);
        let first = key_of(keys, right.entries[0]);
        let bound: Box<[u8]> = first[..common_bytes(last, first) + 1].into();
        self.key_bytes += leaf.prefix.capacity() - prefix_bytes + right.prefix.capacity() + bound.len();
        self.leaves.insert(bound, right);
    }

    /// Gives `each` the entries of `range`, ascending, in slices.
    pub(super) fn ascend(
        &self,
        range: &KeyRange,
        keys: &Arena,
        mut each: impl FnMut(&[Place]) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let start = &range.start[..];
        let leaf = self.leaf(start);
        let from = leaf.lower_bound(start, keys);
        let mut next = None;
        let (mut leaf, mut from) = (leaf, from);
        loop {
            let to = if range.end.is_empty() { leaf.len } else { leaf.lower_bound(&range.end, keys) };
            if from < to {
                each(&leaf.entries[from..to])?;
            }
            if to < leaf.len {
                return ControlFlow::Continue(());
            }
            let behind = || self.leaves.range::<[u8], _>((Bound::Excluded(start), Bound::Unbounded));
            match next.get_or_insert_with(behind).next() {
                Some((_, behind)) => (leaf, from) = (behind, 0),
                None => return ControlFlow::Continue(()),
            }
        }
    }

    /// As [`Order::ascend`], from the end: of each slice the last entry is the next.
    pub(super) fn descend(
        &self,
        range: &KeyRange,
        keys: &Arena,
        mut each: impl FnMut(&[Place]) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let end = if range.end.is_empty() { Bound::Unbounded } else { Bound::Excluded(&range.end[..]) };
        for (bound, leaf) in self.leaves.range::<[u8], _>((Bound::Unbounded, end)).rev() {
            let to = if range.end.is_empty() { leaf.len } else { leaf.lower_bound(&range.end, keys) };
            let from = leaf.lower_bound(&range.start, keys);
            if from < to {
                each(&leaf.entries[from..to])?;
            }
            if **bound <= range.start[..] {
                break;
            }
        }
        ControlFlow::Continue(())
    }

    /// Replaces each entry of the leaf behind `bound`, of the first one if there is no bound, by what `keep` makes of it
    /// (the same entry elsewhere, or nothing), and gives that leaf's bound.
    pub(super) fn retain_leaf(
        &mut self,
        bound: Option<&[u8]>,
        keep: impl FnMut(Place) -> Option<Place>,
    ) -> Option<Box<[u8]>> {
        let from = bound.map_or(Bound::Unbounded, Bound::Excluded);
        let (bound, leaf) = self.leaves.range_mut::<[u8], _>((from, Bound::Unbounded)).next()?;
        leaf.retain(keep);
        Some(bound.clone())
    }

    /// Puts the leaf of `bound` into the one before if together they fill no more than half of one.
    pub(super) fn merge_leaf(&mut self, bound: &[u8], keys: &Arena) {
        let mut up_to = self.leaves.range_mut::<[u8], _>((Bound::Unbounded, Bound::Included(bound)));
        let (Some((_, leaf)), Some((_, before))) = (up_to.next_back(), up_to.next_back()) else { return };
        let len = before.len + leaf.len;
        if len > LEAF_ENTRIES / 2 {
            return;
        }
        let prefix_bytes = before.prefix.capacity() + leaf.prefix.capacity();
        before.entries[before.len..len].copy_from_slice(leaf.entries());
        before.len = len;
        before.last_insert = usize::MAX - 1;
        before.set_prefix(keys);
        self.key_bytes += before.prefix.capacity();
        self.key_bytes -= prefix_bytes + bound.len();
        self.leaves.remove(bound);
    }
}
