//! The entries in the order of their keys: leaves of up to 128 entries in a [`LeafMap`].
//!
//! A leaf stores the prefix that all its keys share, and for each key the eight bytes after that prefix as an integer,
//! its head. A search in a leaf runs over these adjacent integers. It looks at the keys, which are stored elsewhere,
//! only if heads are equal. That is rare, because keys of one leaf differ within few bytes.
//!
//! Keys often come in order, at the end or at many places at once. For example, new orders come in order within each
//! TPC-C district. Such keys should leave full leaves. So we split a full leaf right before the new key if that key
//! follows the last inserted one, and otherwise in the middle.

use std::ops::ControlFlow;

use allocator_api2::boxed::Box as PieceBox;
use rowmill_io::OverflowMemory;
use rowmill_storage::keyed::KeyRange;

use super::arena::{Arena, ArenaOffset};
use super::entry::key_of;
use super::leaf_map::LeafMap;
use crate::key_bytes::{common_bytes, head_of, is_before, search_heads};

/// The number of entries that a caller loads into the cache together.
pub(super) const ENTRIES_AT_ONCE: usize = 16;

/// The most entries of a leaf. With this size we search few leaves, and an insert moves at most 1.5 KiB.
const LEAF_ENTRIES: usize = 128;

#[derive(Clone, Debug)]
pub(super) struct Leaf {
    /// The bytes that all keys begin with. Only the rest is compared.
    prefix: Vec<u8>,
    len: usize,
    /// The position of the last insert.
    last_insert: usize,
    /// Whether the entries are also in the caller's hash table. Entries of [`KeyTree::append`] are not, until
    /// [`KeyTree::leaf_to_hash`] asks for them.
    is_hashed: bool,
    heads: [u64; LEAF_ENTRIES],
    entries: [ArenaOffset; LEAF_ENTRIES],
}

/// The result of putting an entry into a leaf.
struct LeafPut {
    /// The growth of the leaf's prefix, in bytes.
    grown: usize,
    /// If the leaf was split: the bound of the right half, and the right half.
    right: Option<(Box<[u8]>, LeafBox)>,
}

/// Entries in the order of their keys. Each leaf is stored under a lower bound of its keys, and all keys of the leaf
/// before must be less than that bound. The first leaf has the empty bound and always exists.
#[derive(Clone, Debug)]
pub(super) struct KeyTree {
    leaves: LeafMap<LeafBox>,
    /// The bytes of all bounds and prefixes.
    key_bytes: usize,
    /// The number of leaves that are not hashed.
    unhashed: usize,
    /// Where new leaves come from. Leaves of another tree keep their own memory.
    memory: OverflowMemory,
}

/// A leaf in memory, or in a file that it overflows to.
type LeafBox = PieceBox<Leaf, OverflowMemory>;

impl Leaf {
    fn new() -> Self {
        Leaf {
            prefix: Vec::new(),
            len: 0,
            last_insert: 0,
            is_hashed: true,
            heads: [0; LEAF_ENTRIES],
            entries: [ArenaOffset::NONE; LEAF_ENTRIES],
        }
    }

    pub(super) fn entries(&self) -> &[ArenaOffset] {
        &self.entries[..self.len]
    }

    /// The position of the first entry whose key is not less than `key`.
    #[inline]
    fn lower_bound(&self, key: &[u8], records: &Arena) -> usize {
        let is_below = |at: usize| key_of(records, self.entries[at]) < key;
        search_heads(&self.prefix, &self.heads[..self.len], key, is_below)
    }

    /// The position of the first entry at or after `from` whose key is not less than `end`. An empty `end` means no
    /// bound.
    #[inline]
    fn upper_bound(&self, from: usize, end: &[u8], records: &Arena) -> usize {
        if end.is_empty() || from == self.len {
            return self.len;
        }
        let is_below = |at: usize| key_of(records, self.entries[from + at]) < end;
        from + search_heads(&self.prefix, &self.heads[from..self.len], end, is_below)
    }

    /// The entry of `key`, if the leaf has it.
    fn find(&self, key: &[u8], records: &Arena) -> Option<ArenaOffset> {
        self.entries().get(self.lower_bound(key, records)).copied().filter(|entry| key_of(records, *entry) == key)
    }

    /// Sets the prefix to the first `prefix_bytes` bytes of the keys, and recomputes all heads.
    fn set_heads(&mut self, prefix_bytes: usize, records: &Arena) {
        let first = key_of(records, self.entries[0]);
        self.prefix.clear();
        self.prefix.extend_from_slice(&first[..prefix_bytes]);
        for (head, entry) in self.heads.iter_mut().zip(&self.entries[..self.len]) {
            *head = head_of(&key_of(records, *entry)[prefix_bytes..]);
        }
    }

    /// Sets the longest prefix that all keys share, and recomputes all heads. If the leaf has only one key, the prefix
    /// excludes its last eight bytes, because the next key will probably differ there.
    fn set_prefix(&mut self, records: &Arena) {
        if let [first, .., last] = self.entries() {
            self.set_heads(common_bytes(key_of(records, *first), key_of(records, *last)), records);
        } else if let [only] = self.entries() {
            self.set_heads(key_of(records, *only).len().saturating_sub(8), records);
        }
    }

    /// Inserts the entry of `key` at position `at`. The leaf must have room.
    fn insert(&mut self, at: usize, key: &[u8], entry: ArenaOffset, records: &Arena) {
        if at < self.len {
            self.entries.copy_within(at..self.len, at + 1);
            self.heads.copy_within(at..self.len, at + 1);
        }
        self.entries[at] = entry;
        self.len += 1;
        self.last_insert = at;
        // A key without the prefix of the leaf shortens the prefix, so that all heads change.
        match key.strip_prefix(&self.prefix[..]) {
            _ if self.len == 1 => self.set_prefix(records),
            Some(rest) => self.heads[at] = head_of(rest),
            None => self.set_heads(common_bytes(key, &self.prefix), records),
        }
    }

    /// Appends the entry of `key`. Returns `false` if the leaf is full or empty, or if its prefix would have to change.
    #[inline]
    fn push(&mut self, key: &[u8], entry: ArenaOffset) -> bool {
        let at = self.len;
        if at == 0 || at == LEAF_ENTRIES {
            return false;
        }
        let Some(rest) = key.strip_prefix(&self.prefix[..]) else { return false };
        (self.heads[at], self.entries[at]) = (head_of(rest), entry);
        (self.len, self.last_insert) = (at + 1, at);
        true
    }

    /// Inserts the entry of `key` at position `at`, and splits the leaf first if it is full.
    fn put(&mut self, at: usize, key: &[u8], entry: ArenaOffset, records: &Arena, memory: &OverflowMemory) -> LeafPut {
        let prefix_bytes = self.prefix.capacity();
        if self.len < LEAF_ENTRIES {
            self.insert(at, key, entry, records);
            return LeafPut { grown: self.prefix.capacity() - prefix_bytes, right: None };
        }
        // If the keys come in order, split after the last insert: the left leaf then stays full. Else split in the
        // middle.
        let in_order = at == self.len || at == self.last_insert + 1;
        let cut = if in_order { at } else { LEAF_ENTRIES / 2 };
        let mut right = self.split_off(cut, records, memory);
        if at < cut || at == cut && right.len > 0 {
            self.insert(at, key, entry, records);
        } else {
            right.insert(at - cut, key, entry, records);
        }
        let bound = bound_between(key_of(records, self.entries[self.len - 1]), key_of(records, right.entries[0]));
        LeafPut { grown: self.prefix.capacity() - prefix_bytes, right: Some((bound, right)) }
    }

    /// Moves the entries from position `at` on to a new leaf.
    fn split_off(&mut self, at: usize, records: &Arena, memory: &OverflowMemory) -> LeafBox {
        let mut right = PieceBox::new_in(Leaf { is_hashed: self.is_hashed, ..Leaf::new() }, memory.clone());
        if at == self.len {
            return right;
        }
        let moved = self.len - at;
        right.len = moved;
        right.entries[..moved].copy_from_slice(&self.entries[at..self.len]);
        right.set_prefix(records);
        self.len = at;
        self.set_prefix(records);
        right
    }

    /// Replaces each entry by the result of `keep`, or drops it.
    fn retain(&mut self, mut keep: impl FnMut(ArenaOffset) -> Option<ArenaOffset>) {
        let mut len = 0;
        for i in 0..self.len {
            if let Some(entry) = keep(self.entries[i]) {
                (self.entries[len], self.heads[len]) = (entry, self.heads[i]);
                len += 1;
            }
        }
        self.len = len;
        // No position can follow this one, so the next full leaf is split in its middle.
        self.last_insert = usize::MAX - 1;
    }
}

const NO_LEAF: &str = "the first leaf always exists";

/// The shortest bound that is greater than `last` and not greater than `first`, the key after it.
fn bound_between(last: &[u8], first: &[u8]) -> Box<[u8]> {
    first[..common_bytes(last, first) + 1].into()
}

impl KeyTree {
    pub(super) fn new(memory: OverflowMemory) -> Self {
        let first = PieceBox::new_in(Leaf::new(), memory.clone());
        KeyTree { leaves: LeafMap::of_first(first), key_bytes: 0, unhashed: 0, memory }
    }

    /// Bytes taken from the allocator, also those in a file.
    pub(super) fn allocated_bytes(&self) -> usize {
        self.leaves.len() * size_of::<Leaf>() + self.leaves.allocated_bytes() + self.key_bytes
    }

    /// Removes all entries, but keeps the first leaf.
    pub(super) fn clear(&mut self) {
        if self.leaves.len() > 1 {
            *self = KeyTree::new(self.memory.clone());
        } else if let Some(leaf) = self.leaves.last_mut() {
            (leaf.len, leaf.last_insert) = (0, 0);
            leaf.prefix.clear();
        }
    }

    /// All entries in order.
    pub(super) fn entries(&self) -> impl Iterator<Item = ArenaOffset> + '_ {
        self.slices().flatten().copied()
    }

    /// All entries in order, in slices of at most [`ENTRIES_AT_ONCE`].
    pub(super) fn slices(&self) -> impl Iterator<Item = &[ArenaOffset]> {
        self.leaves.iter().flat_map(|(_, leaf)| leaf.entries().chunks(ENTRIES_AT_ONCE))
    }

    /// The leaf to which `key` belongs.
    fn leaf(&self, key: &[u8]) -> &Leaf {
        self.leaves.of_key(key).expect(NO_LEAF).1
    }

    /// The entry of `key`, if it exists.
    pub(super) fn find(&self, key: &[u8], records: &Arena) -> Option<ArenaOffset> {
        self.leaf(key).find(key, records)
    }

    /// Adds the entry of `key`, which must not exist yet.
    pub(super) fn insert(&mut self, key: &[u8], entry: ArenaOffset, records: &Arena) {
        let leaf = self.leaves.of_key_mut(key).expect(NO_LEAF);
        let at = leaf.lower_bound(key, records);
        let put = leaf.put(at, key, entry, records, &self.memory);
        self.note(put);
    }

    /// Adds the entry of `key`, which must be greater than all other keys.
    pub(super) fn push(&mut self, key: &[u8], entry: ArenaOffset, records: &Arena) {
        let leaf = self.leaves.last_mut().expect(NO_LEAF);
        if !leaf.push(key, entry) {
            let at = leaf.len;
            let put = leaf.put(at, key, entry, records, &self.memory);
            self.note(put);
        }
    }

    /// Removes the last `entries` entries. At least that number must exist.
    pub(super) fn pop(&mut self, mut entries: usize) {
        while entries > 0 {
            let is_only = self.leaves.len() == 1;
            let leaf = self.leaves.last_mut().expect(NO_LEAF);
            let taken = leaf.len.min(entries);
            assert!(taken > 0, "at least this number of entries exists");
            (leaf.len, leaf.last_insert) = (leaf.len - taken, usize::MAX - 1);
            entries -= taken;
            // The first leaf must stay, even if it is empty.
            if leaf.len == 0 && !is_only {
                let bound = self.leaves.last().map(|(bound, _)| Box::from(bound)).expect(NO_LEAF);
                self.remove_leaf(&bound);
            }
        }
    }

    /// All entries, last one first.
    pub(super) fn entries_from_end(&self) -> impl Iterator<Item = ArenaOffset> + '_ {
        self.leaves.iter_from_end().flat_map(|(_, leaf)| leaf.entries().iter().rev()).copied()
    }

    fn note(&mut self, put: LeafPut) {
        self.key_bytes += put.grown;
        if let Some((bound, right)) = put.right {
            self.add_leaf(bound, right);
        }
    }

    fn add_leaf(&mut self, bound: Box<[u8]>, leaf: LeafBox) {
        self.key_bytes += leaf.prefix.capacity() + bound.len();
        self.unhashed += usize::from(!leaf.is_hashed);
        self.leaves.insert(bound, leaf);
    }

    fn remove_leaf(&mut self, bound: &[u8]) -> LeafBox {
        let leaf = self.leaves.remove(bound).expect("a bound of a leaf");
        self.key_bytes -= leaf.prefix.capacity() + bound.len();
        self.unhashed -= usize::from(!leaf.is_hashed);
        leaf
    }

    /// Whether a range contains any key.
    pub(super) fn has_any(&self, range: &KeyRange, records: &Arena) -> bool {
        self.ascend(&range.start, &range.end, records, |_| ControlFlow::Break(())).is_break()
    }

    /// Adds `units` to the place of every entry, with wrap-around.
    pub(super) fn shift(&mut self, units: u32) {
        self.leaves.for_each_mut(|leaf| {
            let len = leaf.len;
            leaf.entries[..len].iter_mut().for_each(|entry| entry.0 = entry.0.wrapping_add(units));
        });
    }

    /// Adds the leaves of `other` without copying their entries. The keys of `other` must be in `records` too, and no
    /// key of this order may be between its first and its last one.
    pub(super) fn append(&mut self, other: KeyTree, records: &Arena) {
        // 1. Split the leaf into which the first key of `other` falls: its entries after that key move to `behind`.
        let (Some((_, first)), Some((_, last))) = (other.leaves.first(), other.leaves.last()) else { return };
        let (first, last) = (key_of(records, first.entries()[0]), key_of(records, last.entries()[last.len - 1]));
        let bound: Box<[u8]> = self.leaves.of_key(first).expect(NO_LEAF).0.into();
        let before = self.leaves.of_key_mut(first).expect(NO_LEAF);
        let (at, prefix_bytes) = (before.lower_bound(first, records), before.prefix.capacity());
        // The entries after `other` need a leaf with a bound after `other`.
        let mut behind = (at < before.len).then(|| before.split_off(at, records, &self.memory));
        self.key_bytes += before.prefix.capacity() - prefix_bytes;
        // 2. The first new leaf gets a bound between the key before it and its first key. If the old leaf has no key
        //    before it, the old leaf is empty now and the new one takes its bound.
        let bound = match at.checked_sub(1) {
            Some(at) => bound_between(key_of(records, before.entries[at]), first),
            None => {
                self.remove_leaf(&bound);
                bound
            }
        };
        // 3. Remove leaves with bounds within `other`. At most one of them has entries, and those are after `other`.
        while let Some((bound, _)) = self.leaves.after(first).filter(|(bound, _)| *bound <= last) {
            let leaf = self.remove_leaf(&Box::<[u8]>::from(bound));
            behind = behind.or((leaf.len > 0).then_some(leaf));
        }
        if let Some(behind) = behind {
            self.add_leaf(bound_between(last, key_of(records, behind.entries[0])), behind);
        }
        // 4. Add the new leaves. All but the first keep their bounds.
        let mut bound = Some(bound);
        for (own, mut leaf) in other.leaves.into_leaves() {
            leaf.is_hashed = false;
            self.add_leaf(bound.take().unwrap_or(own), leaf);
        }
    }

    #[cfg(test)]
    pub(super) fn has_unhashed(&self) -> bool {
        let unhashed = self.leaves.iter().filter(|(_, leaf)| !leaf.is_hashed).count();
        assert_eq!(unhashed, self.unhashed);
        unhashed > 0
    }

    /// The entry of `key`, if it exists and is in a leaf that is not hashed.
    pub(super) fn find_unhashed(&self, key: &[u8], records: &Arena) -> Option<ArenaOffset> {
        if self.unhashed == 0 {
            return None;
        }
        let leaf = self.leaf(key);
        if leaf.is_hashed { None } else { leaf.find(key, records) }
    }

    /// Returns the entries that the caller must hash before it adds or changes the entry of `key`. Marks them as
    /// hashed.
    pub(super) fn leaf_to_hash(&mut self, key: &[u8]) -> &[ArenaOffset] {
        if self.unhashed == 0 {
            return &[];
        }
        let leaf = self.leaves.of_key_mut(key).expect(NO_LEAF);
        if leaf.is_hashed {
            return &[];
        }
        leaf.is_hashed = true;
        self.unhashed -= 1;
        leaf.entries()
    }

    /// Passes the entries from the key `start` up to `end` (exclusive) to `each`, ascending, in slices. An empty `end`
    /// means no upper bound.
    pub(super) fn ascend(
        &self,
        start: &[u8],
        end: &[u8],
        records: &Arena,
        mut each: impl FnMut(&[ArenaOffset]) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let (mut bound, leaf) = self.leaves.of_key(start).expect(NO_LEAF);
        let (mut leaf, mut from) = (leaf, leaf.lower_bound(start, records));
        loop {
            let to = leaf.upper_bound(from, end, records);
            if from < to {
                each(&leaf.entries[from..to])?;
            }
            // The end of the range is inside this leaf.
            if to < leaf.len {
                return ControlFlow::Continue(());
            }
            match self.leaves.after(bound) {
                Some((next, _)) if !end.is_empty() && !is_before(next, end) => break,
                Some((next, next_leaf)) => (bound, leaf, from) = (next, next_leaf, 0),
                None => break,
            }
        }
        ControlFlow::Continue(())
    }

    /// Passes the entries from the key `start` up to `end` (exclusive) to `each`, in slices from the last to the first.
    /// Within a slice the entries ascend, so the caller must read it from its end.
    pub(super) fn descend(
        &self,
        start: &[u8],
        end: &[u8],
        records: &Arena,
        mut each: impl FnMut(&[ArenaOffset]) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let mut next = if end.is_empty() { self.leaves.last() } else { self.leaves.before(end) };
        while let Some((bound, leaf)) = next {
            let from = leaf.lower_bound(start, records);
            let to = leaf.upper_bound(from, end, records);
            if from < to {
                each(&leaf.entries[from..to])?;
            }
            next = if !is_before(start, bound) { None } else { self.leaves.before(bound) };
        }
        ControlFlow::Continue(())
    }

    /// Passes each entry of the leaf after `bound` (of the first leaf if there is no bound) to `keep`, together with
    /// whether it is hashed. `keep` returns the entry's new place, or `None` to drop it. Returns the bound of that
    /// leaf.
    pub(super) fn retain_leaf(
        &mut self,
        bound: Option<&[u8]>,
        mut keep: impl FnMut(ArenaOffset, bool) -> Option<ArenaOffset>,
    ) -> Option<Box<[u8]>> {
        let next = bound.map_or_else(|| self.leaves.first(), |bound| self.leaves.after(bound));
        let bound = Box::from(next?.0);
        let leaf = self.leaves.of_key_mut(&bound)?;
        let is_hashed = leaf.is_hashed;
        leaf.retain(|entry| keep(entry, is_hashed));
        // An empty leaf counts as hashed, because it has no entry left to hash.
        if leaf.len == 0 && !is_hashed {
            leaf.is_hashed = true;
            self.unhashed -= 1;
        }
        Some(bound)
    }

    /// Merges the leaf of `bound` into the leaf before it if both together fill at most half a leaf.
    pub(super) fn merge_leaf(&mut self, bound: &[u8], records: &Arena) {
        let (Some((_, leaf)), Some((before_bound, before))) = (self.leaves.of_key(bound), self.leaves.before(bound))
        else {
            return;
        };
        let len = before.len + leaf.len;
        let is_hashed = if before.len == 0 { leaf.is_hashed } else { before.is_hashed };
        if len > LEAF_ENTRIES / 2 || leaf.len > 0 && leaf.is_hashed != is_hashed {
            return;
        }
        // An empty leaf counts as hashed, so the count of unhashed leaves may change.
        self.unhashed += usize::from(before.is_hashed && !is_hashed);
        let before_bound: Box<[u8]> = before_bound.into();
        // Remove the leaf from the map first: its entries then belong to the leaf before it.
        let leaf = self.remove_leaf(bound);
        let before = self.leaves.of_key_mut(&before_bound).expect(NO_LEAF);
        before.is_hashed = is_hashed;
        let prefix_bytes = before.prefix.capacity();
        let end = before.len;
        before.entries[end..len].copy_from_slice(leaf.entries());
        before.len = len;
        before.last_insert = usize::MAX - 1;
        before.set_prefix(records);
        self.key_bytes += before.prefix.capacity() - prefix_bytes;
    }
}
