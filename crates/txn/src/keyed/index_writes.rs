//! The writes of a transaction to one index: can be found by key, read in order, and undone.
//!
//! ```text
//! key -> hash table --+       (once keys have come out of order)
//!                     v
//! KeyTree --------> entry: snapshot, key --> row, or that it is deleted, or nothing
//! ```
//!
//! Keys and rows are records in an arena, as in the versions of commits ([`Versions`](super::Versions)). Because of
//! that, writing is cheap for a set of any size, a set that is cleared for the next transaction keeps its memory, and a
//! large set can become part of the versions without a copy ([`Run`]). An undo removes records at the end of the arena.
//! Any other key that is undone keeps its entry, which then has no version.
//!
//! Keys often come in order, for example when one transaction inserts many rows. Each is then greater than all before,
//! so we know without a hash table that it is new. We build the hash table only when the first key comes out of order.
//!
//! An entry remembers the snapshot over which its key was first written, and each of its versions remembers the
//! snapshot that the entry had then. Any later commit to the key is a conflict, even if later statements saw later
//! snapshots.

use std::ops::ControlFlow;

use hashbrown::HashTable;
use rapidhash::v3::RapidSecrets;
use rowmill_base::{CommitId, IndexId};
use rowmill_io::OverflowMemory;
use rowmill_storage::keyed::KeyRange;

use super::arena::{Arena, ArenaOffset};
use super::entry;
use super::gap::Gap;
use super::key_index::{hash, spread};
use super::order::KeyTree;
use super::run::CommitRun;
use super::version_cursor::VersionBatch;
use super::write_set::Written;

/// Sets with fewer entries do not become a [`Run`]: they would leave chunks of memory in the versions that are hardly
/// used.
const RUN_ENTRIES_MIN: usize = 1 << 10;

/// The writes of a transaction to one index. See the module header for the structure.
#[derive(Clone, Debug)]
pub(crate) struct IndexWrites {
    index: IndexId,
    records: Arena,
    order: KeyTree,
    /// The entry of the greatest key.
    greatest: ArenaOffset,
    /// The number of entries.
    entries: usize,
    content: Content,
    /// A hash table of all entries. Empty as long as all keys have come in order.
    hashed: HashTable<WriteSlot, OverflowMemory>,
    /// The oldest snapshot over which any key was written.
    oldest: CommitId,
    /// The gap of the snapshot after the greatest key.
    gap: Gap,
}

#[derive(Clone, Copy, Debug)]
struct WriteSlot {
    /// The lower half of the key's hash.
    tag: u32,
    entry: ArenaOffset,
}

/// Numbers and bytes of the keys that have a version, and of their rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Content {
    /// The number of keys.
    pub(crate) keys: usize,
    /// The bytes of those keys.
    pub(crate) key_bytes: usize,
    /// The number of those keys that are not deleted.
    pub(crate) rows: usize,
    /// The bytes of their rows.
    pub(crate) row_bytes: usize,
}

impl Content {
    pub(super) fn add(&mut self, key: &[u8], row: Written<'_>) {
        self.keys += 1;
        self.key_bytes += key.len();
        self.rows += usize::from(row.is_some());
        self.row_bytes += row.map_or(0, <[u8]>::len);
    }

    fn remove(&mut self, key: &[u8], row: Written<'_>) {
        self.keys -= 1;
        self.key_bytes -= key.len();
        self.rows -= usize::from(row.is_some());
        self.row_bytes -= row.map_or(0, <[u8]>::len);
    }
}

/// A written entry.
#[derive(Clone, Copy, Debug)]
pub(super) struct WrittenEntry {
    pub(super) entry: ArenaOffset,
    /// Whether the key is new.
    pub(super) is_new: bool,
    pub(super) before: Before,
}

/// What an entry had before it was written.
#[derive(Clone, Copy, Debug)]
pub(super) enum Before {
    /// This version, or no version ([`Place::NONE`]).
    Version(ArenaOffset),
    /// Nothing: the entry is new and is stored right after its version. [`IndexWrites::pushed`] finds entries that were
    /// pushed one after the other.
    Pushed { version: ArenaOffset, end: ArenaOffset },
}

/// The row that a version writes; `None` for a deletion.
fn row_of(records: &Arena, version: ArenaOffset) -> Written<'_> {
    let (head, row) = entry::record(records, version);
    (!head.is_deleted()).then_some(row)
}

/// Adds an entry to the hash table.
fn add_slot(
    hashed: &mut HashTable<WriteSlot, OverflowMemory>,
    entry: ArenaOffset,
    records: &Arena,
    secrets: &RapidSecrets,
) {
    let tag = hash(entry::key_of(records, entry), secrets) as u32;
    hashed.insert_unique(spread(tag), WriteSlot { tag, entry }, |slot| spread(slot.tag));
}

impl IndexWrites {
    /// An empty set for `index`, in `memory`.
    pub(super) fn new(index: IndexId, memory: &OverflowMemory) -> IndexWrites {
        IndexWrites {
            index,
            records: Arena::new(memory.clone()),
            order: KeyTree::new(memory.clone()),
            greatest: ArenaOffset::NONE,
            entries: 0,
            content: Content::default(),
            hashed: HashTable::new_in(memory.clone()),
            oldest: CommitId(u64::MAX),
            gap: Gap::unknown(),
        }
    }

    /// Assigns an empty set to another index.
    pub(super) fn start(&mut self, index: IndexId) {
        assert_eq!(self.entries, 0, "the set must be empty");
        self.index = index;
    }

    /// Removes all writes, but keeps the memory.
    pub(super) fn clear(&mut self) {
        self.records.clear();
        self.order.clear();
        self.greatest = ArenaOffset::NONE;
        (self.entries, self.content) = (0, Content::default());
        self.hashed.clear();
        self.oldest = CommitId(u64::MAX);
        self.gap.forget();
    }

    /// The index to which all keys belong.
    pub(crate) fn index(&self) -> IndexId {
        self.index
    }

    /// Numbers and bytes of the written keys and rows.
    pub(crate) fn content(&self) -> Content {
        self.content
    }

    /// Whether nothing is written.
    pub(crate) fn is_empty(&self) -> bool {
        self.content.keys == 0
    }

    /// The oldest snapshot over which any key was written.
    pub(crate) fn oldest(&self) -> CommitId {
        self.oldest
    }

    /// The number of entries, including those without a version.
    pub(super) fn entry_count(&self) -> usize {
        self.entries
    }

    /// Looks up the write to `key`, if any. Calls `hash_of` only if it needs the hash.
    #[inline]
    pub(super) fn find(&self, hash_of: impl FnOnce() -> u64, key: &[u8]) -> Option<Written<'_>> {
        self.entry_of(hash_of, key).and_then(|entry| self.written(entry))
    }

    fn entry_of(&self, hash_of: impl FnOnce() -> u64, key: &[u8]) -> Option<ArenaOffset> {
        if self.is_in_order() {
            return if self.is_behind_all(key) { None } else { self.order.find(key, &self.records) };
        }
        let tag = hash_of() as u32;
        let slot =
            self.hashed.find(spread(tag), |slot| slot.tag == tag && entry::key_of(&self.records, slot.entry) == key)?;
        Some(slot.entry)
    }

    /// Whether each key was greater than all keys before it.
    pub(super) fn is_in_order(&self) -> bool {
        self.hashed.is_empty()
    }

    /// Whether `key` is greater than all written keys, and the snapshot is known not to have it.
    #[inline]
    pub(super) fn is_in_gap(&self, key: &[u8], snapshot: CommitId) -> bool {
        self.gap.has(key, snapshot) && self.is_behind_all(key)
    }

    /// The gap after the greatest written key; `None` if `key` is not greater than that key.
    pub(super) fn gap(&mut self, key: &[u8]) -> Option<&mut Gap> {
        if self.is_behind_all(key) { Some(&mut self.gap) } else { None }
    }

    /// Whether `key` is greater than all written keys.
    #[inline]
    fn is_behind_all(&self, key: &[u8]) -> bool {
        self.greatest == ArenaOffset::NONE || key > entry::key_of(&self.records, self.greatest)
    }

    fn written(&self, entry: ArenaOffset) -> Option<Written<'_>> {
        let newest = entry::head(&self.records, entry).next;
        (newest != ArenaOffset::NONE).then(|| row_of(&self.records, newest))
    }

    /// Writes `row` to `key` (`None` deletes it) over the state of the snapshot `snapshot`.
    pub(super) fn put(
        &mut self,
        key: &[u8],
        row: Written<'_>,
        snapshot: CommitId,
        secrets: &RapidSecrets,
    ) -> WrittenEntry {
        if self.is_behind_all(key) {
            return self.push(key, row, snapshot, secrets);
        }
        self.oldest = self.oldest.min(snapshot);
        let known = self.entry_of(|| hash(key, secrets), key);
        let (entry, is_new) = match known {
            Some(entry) => (entry, false),
            None => (self.add_between(key, snapshot, secrets), true),
        };
        let head = entry::head(&self.records, entry);
        // The first write saw the oldest snapshot, and conflicts must be judged by that one. So keep it.
        let first = if head.next == ArenaOffset::NONE { snapshot } else { head.commit };
        let version = entry::push_version(&mut self.records, row, first, ArenaOffset::NONE);
        self.set(entry, first, version);
        WrittenEntry { entry, is_new, before: Before::Version(head.next) }
    }

    /// Writes `row` to a key that must be greater than all written keys.
    pub(super) fn push(
        &mut self,
        key: &[u8],
        row: Written<'_>,
        snapshot: CommitId,
        secrets: &RapidSecrets,
    ) -> WrittenEntry {
        self.oldest = self.oldest.min(snapshot);
        let version = entry::push_version(&mut self.records, row, snapshot, ArenaOffset::NONE);
        let entry = entry::push_entry(&mut self.records, key, snapshot, version);
        self.order.push(key, entry, &self.records);
        if !self.is_in_order() {
            add_slot(&mut self.hashed, entry, &self.records, secrets);
        }
        self.greatest = entry;
        self.gap.pass(key);
        self.entries += 1;
        self.content.add(key, row);
        // The entry follows its version directly unless a new chunk began between the two.
        let before = match version.behind(entry::version_bytes(row)) {
            behind if behind == entry => Before::Pushed { version, end: entry.behind(entry::entry_bytes(key)) },
            _ => Before::Version(ArenaOffset::NONE),
        };
        WrittenEntry { entry, is_new: true, before }
    }

    /// Adds the entry of a new key that is not greater than all others.
    fn add_between(&mut self, key: &[u8], snapshot: CommitId, secrets: &RapidSecrets) -> ArenaOffset {
        let entry = entry::push_entry(&mut self.records, key, snapshot, ArenaOffset::NONE);
        self.order.insert(key, entry, &self.records);
        // The first key out of order: hash all entries, including the new one.
        if self.is_in_order() {
            self.order.entries().for_each(|entry| add_slot(&mut self.hashed, entry, &self.records, secrets));
        } else {
            add_slot(&mut self.hashed, entry, &self.records, secrets);
        }
        self.entries += 1;
        entry
    }

    fn set(&mut self, entry: ArenaOffset, first: CommitId, version: ArenaOffset) {
        let (head, key) = entry::record(&self.records, entry);
        if head.next != ArenaOffset::NONE {
            self.content.remove(key, row_of(&self.records, head.next));
        }
        if version != ArenaOffset::NONE {
            self.content.add(key, row_of(&self.records, version));
        }
        entry::set_newest(&mut self.records, entry, first, version);
    }

    /// Removes the version of an entry, and returns that version.
    pub(super) fn forget(&mut self, entry: ArenaOffset) -> ArenaOffset {
        let head = entry::head(&self.records, entry);
        self.set(entry, head.commit, ArenaOffset::NONE);
        head.next
    }

    /// Restores the version that an entry had before. Returns the bytes of the undone row if their memory can be
    /// reused.
    pub(super) fn undo(&mut self, entry: ArenaOffset, before: ArenaOffset) -> u64 {
        let undone = entry::head(&self.records, entry).next;
        let first = if before == ArenaOffset::NONE { CommitId(0) } else { entry::head(&self.records, before).commit };
        self.set(entry, first, before);
        if undone == ArenaOffset::NONE {
            return 0;
        }
        let (head, row) = entry::record(&self.records, undone);
        let bytes = row.len() as u64;
        // No entry refers to the undone version now, so its record can be freed.
        if self.records.free(undone, head.record_bytes()) { bytes } else { 0 }
    }

    /// Undoes `entries` pushed entries, beginning with that of `version`. Returns the bytes of keys and rows whose
    /// memory can be reused, and the number of removed entries: all of them if no other key is between or after them,
    /// otherwise 0.
    pub(super) fn undo_pushed(&mut self, version: ArenaOffset, entries: usize, secrets: &RapidSecrets) -> (u64, usize) {
        let mut next = version;
        let mut pushed = Vec::with_capacity(entries);
        for _ in 0..entries {
            let (entry, behind) = self.pushed(next);
            pushed.push((next, entry));
            next = behind;
        }
        // If other keys are between or after these entries, they cannot be cut off the order. Keep them without a
        // version.
        if !pushed.iter().rev().map(|(_, entry)| *entry).eq(self.order.entries_from_end().take(entries)) {
            return (pushed.iter().map(|(_, entry)| self.undo(*entry, ArenaOffset::NONE)).sum(), 0);
        }
        self.order.pop(entries);
        self.entries -= entries;
        let mut bytes = 0;
        // Free the records from the last to the first, because the arena reuses memory only at the end of a chunk.
        for (version, entry) in pushed.into_iter().rev() {
            let ((of_entry, key), (of_version, row)) =
                (entry::record(&self.records, entry), entry::record(&self.records, version));
            assert_eq!(of_entry.next, version, "later writes to the key must be undone first");
            self.content.remove(key, row_of(&self.records, version));
            if !self.hashed.is_empty() {
                let slot = self.hashed.find_entry(spread(hash(key, secrets) as u32), |slot| slot.entry == entry);
                slot.expect("either all entries are hashed or none").remove();
            }
            let (key_bytes, row_bytes) = (key.len() as u64, row.len() as u64);
            bytes += if self.records.free(entry, of_entry.record_bytes()) { key_bytes } else { 0 };
            bytes += if self.records.free(version, of_version.record_bytes()) { row_bytes } else { 0 };
        }
        self.greatest = self.order.entries_from_end().next().unwrap_or(ArenaOffset::NONE);
        let greatest = (self.greatest != ArenaOffset::NONE).then(|| entry::key_of(&self.records, self.greatest));
        self.gap.go_back_to(greatest);
        (bytes, entries)
    }

    /// The entry that was pushed with `version`, and the place of the version after it, if one was pushed.
    pub(super) fn pushed(&self, version: ArenaOffset) -> (ArenaOffset, ArenaOffset) {
        let entry = version.behind(entry::head(&self.records, version).record_bytes());
        (entry, entry.behind(entry::head(&self.records, entry).record_bytes()))
    }

    pub(super) fn key_of(&self, entry: ArenaOffset) -> &[u8] {
        entry::key_of(&self.records, entry)
    }

    /// The entries of all keys that begin with `prefix`.
    pub(super) fn entries_of(&self, prefix: &[u8]) -> Vec<ArenaOffset> {
        let mut entries = Vec::new();
        let range = KeyRange::of_prefix(prefix);
        let _ = self.order.ascend(&range.start, &range.end, &self.records, |found| {
            entries.extend_from_slice(found);
            ControlFlow::Continue(())
        });
        entries
    }

    /// The written keys in order, with their rows and the snapshot over which each key was first written.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (&[u8], Written<'_>, CommitId)> {
        // Load the entries of a slice into the cache together before reading them one by one.
        let found = self.order.slices().flat_map(|entries| {
            entry::touch(&self.records, entries);
            entries
        });
        found.filter_map(|place| {
            let (head, key) = entry::record(&self.records, *place);
            self.written(*place).map(|written| (key, written, head.commit))
        })
    }

    /// The written keys in order, with their rows.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&[u8], Written<'_>)> {
        self.entries().map(|(key, written, _)| (key, written))
    }

    /// Adds the first keys of the range `start`..`end` to `batch`, or with `backward` the last ones, until it has
    /// `keys_max`.
    pub(super) fn fill(&self, start: &[u8], end: &[u8], backward: bool, keys_max: usize, batch: &mut VersionBatch) {
        let mut push = |entry: &ArenaOffset| {
            if let Some(written) = self.written(*entry) {
                batch.push(entry::key_of(&self.records, *entry), written);
            }
            if batch.len() < keys_max { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        };
        let _ = match backward {
            false => self.order.ascend(start, end, &self.records, |entries| entries.iter().try_for_each(&mut push)),
            true => {
                self.order.descend(start, end, &self.records, |entries| entries.iter().rev().try_for_each(&mut push))
            }
        };
    }

    /// Whether the set is large and each key has a version, so that it can become a [`CommitRun`].
    pub(super) fn is_run(&self) -> bool {
        self.entries >= RUN_ENTRIES_MIN && self.entries == self.content.keys
    }

    /// Frees a version that a later write to its key replaced. It must not be undone to afterwards.
    pub(super) fn free_replaced(&mut self, version: ArenaOffset) {
        let bytes = entry::head(&self.records, version).record_bytes();
        self.records.free(version, bytes);
    }

    /// The range from the first key to the last one; `None` if there are no keys.
    pub(super) fn range(&self) -> Option<KeyRange> {
        let (first, last) = (self.order.entries().next()?, self.key_of(self.greatest));
        // The key with a zero byte appended is the least greater key, so the range includes the last key.
        Some(KeyRange { start: self.key_of(first).to_vec(), end: [last, &[0]].concat() })
    }

    #[cfg(test)]
    pub(super) fn allocated_bytes(&self) -> usize {
        self.records.allocated_bytes() + self.order.allocated_bytes()
    }

    /// The number of places that the records take.
    pub(super) fn end(&self) -> u32 {
        self.records.end()
    }

    /// Moves all writes out as a run. The set is empty afterwards.
    pub(super) fn take_run(&mut self) -> CommitRun {
        let empty = IndexWrites::new(self.index, self.hashed.allocator());
        let IndexWrites { records, order, .. } = std::mem::replace(self, empty);
        CommitRun::new(records, order)
    }
}
