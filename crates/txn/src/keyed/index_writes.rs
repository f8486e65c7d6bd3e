//! What a transaction has written to one index: found by key, in order, and undone.
//!
//! ```text
//! key -> hash table --+       (once keys have come out of order)
//!                     v
//! Order ----------> entry: snapshot, key --> row, or that it is deleted, or nothing
//! ```
//!
//! Keys and rows are records in an arena, as those of commits are ([`Versions`](super::Versions)), so that a set of any size
//! is cheap to add to, one that is emptied for the next transaction keeps its memory, and one that is large becomes a part of
//! those as it is ([`Run`]). What is undone and lies behind all else is gone; any other key that is undone keeps its entry, which
//! then has nothing.
//!
//! Keys that come in order, as of many rows in one transaction, are behind the greatest each: that they are new needs no look at
//! a hash table, and so there is none until a key comes out of order.
//!
//! An entry remembers the snapshot over which its key was written first, and each of its versions the one that it had with
//! that: whatever was committed to the key behind that is a conflict, though later statements may have seen later snapshots.

use std::ops::ControlFlow;

use hashbrown::HashTable;
use rapidhash::v3::RapidSecrets;
use rowmill_base::{CommitId, IndexId};
use rowmill_storage::keyed::KeyRange;

use super::arena::{Arena, Place};
use super::entry;
use super::gap::Gap;
use super::key_index::{hash, spread};
use super::order::Order;
use super::run::Run;
use super::version_cursor::VersionBatch;
use super::write_set::Written;

/// Of fewer entries the memory is not worth to be kept by the versions: chunks that are hardly used.
const RUN_ENTRIES_MIN: usize = 1 << 10;

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct IndexWrites {
    index: IndexId,
    records: Arena,
    order: Order,
    /// The entry of the greatest key.
    greatest: Place,
    /// How many entries there are.
    entries: usize,
    content: Content,
    /// All entries, or none as long as keys have come in order.
    hashed: HashTable<Slot>,
    /// Whether something was written again, or taken back.
    is_rewritten: bool,
    /// The oldest snapshot over which anything was written.
    oldest: CommitId,
    /// Behind the greatest key.
    gap: Gap,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    /// The lower half of the key's hash.
    tag: u32,
    entry: Place,
}

/// Keys that have something, and their rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Content {
    /// How many keys.
    pub(crate) keys: usize,
    /// Bytes of them.
    pub(crate) key_bytes: usize,
    /// How many of them are not deleted.
    pub(crate) rows: usize,
    /// Bytes of those.
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

/// An entry that was written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Put {
    pub(super) entry: Place,
    /// Whether the key is new.
    pub(super) is_new: bool,
    pub(super) before: Before,
}

/// What an entry had before it was written.
#[derive(Clone, Copy, Debug)]
pub(super) enum Before {
    /// This version, or nothing.
    Version(Place),
    /// Nothing: the entry is new, and lies right behind its version. [`IndexWrites::pushed`] finds those that were pushed one
    /// behind the other.
    Pushed { version: Place, end: Place },
}

/// What a version writes.
fn row_of(records: &Arena, version: Place) -> Written<'_> {
    let (head, row) = entry::record(records, version);
    (!head.is_deleted()).then_some(row)
}

/// Has an entry found by the hash of its key.
fn add_slot(hashed: &mut HashTable<Slot>, entry: Place, records: &Arena, secrets: &RapidSecrets) {
    let tag = hash(entry::key_of(records, entry), secrets) as u32;
    hashed.insert_unique(spread(tag), Slot { tag, entry }, |slot| spread(slot.tag));
}

impl IndexWrites {
    /// Nothing.
    pub(super) fn new(index: IndexId) -> IndexWrites {
        IndexWrites {
            index,
            records: Arena::new(),
            order: Order::new(),
            greatest: Place::NONE,
            entries: 0,
            content: Content::default(),
            hashed: HashTable::new(),
            is_rewritten: false,
            oldest: CommitId(u64::MAX),
            gap: Gap::unknown(),
        }
    }

    /// Is of another index from now on. There is nothing in it.
    pub(super) fn start(&mut self, index: IndexId) {
        assert_eq!(self.entries, 0, "it was cleared");
        self.index = index;
    }

    /// Forgets everything but the memory.
    pub(super) fn clear(&mut self) {
        self.records.clear();
        self.order.clear();
        self.greatest = Place::NONE;
        (self.entries, self.content) = (0, Content::default());
        self.hashed.clear();
        self.is_rewritten = false;
        self.oldest = CommitId(u64::MAX);
        self.gap.forget();
    }

    /// The index that all keys are of.
    pub(crate) fn index(&self) -> IndexId {
        self.index
    }

    /// How much is written.
    pub(crate) fn content(&self) -> Content {
        self.content
    }

    /// Whether nothing is written.
    pub(crate) fn is_empty(&self) -> bool {
        self.content.keys == 0
    }

    /// The oldest snapshot over which anything was written.
    pub(crate) fn oldest(&self) -> CommitId {
        self.oldest
    }

    /// How many keys there are, those among them that have nothing any more.
    pub(super) fn entry_count(&self) -> usize {
        self.entries
    }

    /// What is written to `key`, if anything; `hash_of` is asked where it is of use.
    #[inline]
    pub(super) fn find(&self, hash_of: impl FnOnce() -> u64, key: &[u8]) -> Option<Written<'_>> {
        self.entry_of(hash_of, key).and_then(|entry| self.written(entry))
    }

    fn entry_of(&self, hash_of: impl FnOnce() -> u64, key: &[u8]) -> Option<Place> {
        if self.is_in_order() {
            return if self.is_behind_all(key) { None } else { self.order.find(key, &self.records) };
        }
        let tag = hash_of() as u32;
        let slot =
            self.hashed.find(spread(tag), |slot| slot.tag == tag && entry::key_of(&self.records, slot.entry) == key)?;
        Some(slot.entry)
    }

    /// Whether each key has come behind all before it.
    pub(super) fn is_in_order(&self) -> bool {
        self.hashed.is_empty()
    }

    /// Whether `key` is behind all that is written, and known not to be in a snapshot.
    #[inline]
    pub(super) fn is_in_gap(&self, key: &[u8], snapshot: CommitId) -> bool {
        self.gap.has(key, snapshot) && self.is_behind_all(key)
    }

    /// The gap behind all that is written, if `key` is there.
    pub(super) fn gap(&mut self, key: &[u8]) -> Option<&mut Gap> {
        if self.is_behind_all(key) { Some(&mut self.gap) } else { None }
    }

    /// Whether `key` is greater than all that are written.
    #[inline]
    fn is_behind_all(&self, key: &[u8]) -> bool {
        self.greatest == Place::NONE || key > entry::key_of(&self.records, self.greatest)
    }

    fn written(&self, entry: Place) -> Option<Written<'_>> {
        let newest = entry::head(&self.records, entry).next;
        (newest != Place::NONE).then(|| row_of(&self.records, newest))
    }

    /// Writes `row` to `key`, or that it is deleted, over what the snapshot of commit `snapshot` has.
    pub(super) fn put(&mut self, key: &[u8], row: Written<'_>, snapshot: CommitId, secrets: &RapidSecrets) -> Put {
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
        // Whoever wrote it first has seen the oldest snapshot.
        let first = if head.next == Place::NONE { snapshot } else { head.commit };
        let version = entry::push_version(&mut self.records, row, first, Place::NONE);
        self.is_rewritten |= !is_new;
        self.set(entry, first, version);
        Put { entry, is_new, before: Before::Version(head.next) }
    }

    /// The same, of a key behind all that are written.
    pub(super) fn push(&mut self, key: &[u8], row: Written<'_>, snapshot: CommitId, secrets: &RapidSecrets) -> Put {
        self.oldest = self.oldest.min(snapshot);
        let version = entry::push_version(&mut self.records, row, snapshot, Place::NONE);
        let entry = entry::push_entry(&mut self.records, key, snapshot, version);
        self.order.push(key, entry, &self.records);
        if !self.is_in_order() {
            add_slot(&mut self.hashed, entry, &self.records, secrets);
        }
        self.greatest = entry;
        self.gap.pass(key);
        self.entries += 1;
        self.content.add(key, row);
        let before = match version.behind(entry::version_bytes(row)) {
            behind if behind == entry => Before::Pushed { version, end: entry.behind(entry::entry_bytes(key)) },
            _ => Before::Version(Place::NONE),
        };
        Put { entry, is_new: true, before }
    }

    /// Adds the entry of a key that has none and is not behind all others.
    fn add_between(&mut self, key: &[u8], snapshot: CommitId, secrets: &RapidSecrets) -> Place {
        let entry = entry::push_entry(&mut self.records, key, snapshot, Place::NONE);
        self.order.insert(key, entry, &self.records);
        if self.is_in_order() {
            self.order.entries().for_each(|entry| add_slot(&mut self.hashed, entry, &self.records, secrets));
        } else {
            add_slot(&mut self.hashed, entry, &self.records, secrets);
        }
        self.entries += 1;
        entry
    }

    fn set(&mut self, entry: Place, first: CommitId, version: Place) {
        let (head, key) = entry::record(&self.records, entry);
        if head.next != Place::NONE {
            self.content.remove(key, row_of(&self.records, head.next));
        }
        if version != Place::NONE {
            self.content.add(key, row_of(&self.records, version));
        }
        entry::set_newest(&mut self.records, entry, first, version);
    }

    /// Has an entry have nothing, and gives what it had.
    pub(super) fn forget(&mut self, entry: Place) -> Place {
        self.is_rewritten = true;
        let head = entry::head(&self.records, entry);
        self.set(entry, head.commit, Place::NONE);
        head.next
    }

    /// Has an entry have what it had before. Gives the bytes of what it had until now, if their memory is used again.
    pub(super) fn undo(&mut self, entry: Place, before: Place) -> u64 {
        self.is_rewritten = true;
        let undone = entry::head(&self.records, entry).next;
        let first = if before == Place::NONE { CommitId(0) } else { entry::head(&self.records, before).commit };
        self.set(entry, first, before);
        if undone == Place::NONE {
            return 0;
        }
        let (head, row) = entry::record(&self.records, undone);
        let bytes = row.len() as u64;
        if self.records.free(undone, head.record_bytes()) { bytes } else { 0 }
    }

    /// Takes back what was pushed: `entries` of them, the first with `version`. Gives the bytes of their keys and rows whose
    /// memory is used again, and how many of the entries are gone: all of them where no other key is between or behind.
    pub(super) fn undo_pushed(&mut self, version: Place, entries: usize, secrets: &RapidSecrets) -> (u64, usize) {
        let mut next = version;
        let mut pushed = Vec::with_capacity(entries);
        for _ in 0..entries {
            let (entry, behind) = self.pushed(next);
            pushed.push((next, entry));
            next = behind;
        }
        if !pushed.iter().rev().map(|(_, entry)| *entry).eq(self.order.entries_from_end().take(entries)) {
            return (pushed.iter().map(|(_, entry)| self.undo(*entry, Place::NONE)).sum(), 0);
        }
        self.order.pop(entries);
        self.entries -= entries;
        let mut bytes = 0;
        for (version, entry) in pushed.into_iter().rev() {
            let ((of_entry, key), (of_version, row)) =
                (entry::record(&self.records, entry), entry::record(&self.records, version));
            assert_eq!(of_entry.next, version, "what was written to it since was taken back");
            self.content.remove(key, row_of(&self.records, version));
            if !self.hashed.is_empty() {
                let slot = self.hashed.find_entry(spread(hash(key, secrets) as u32), |slot| slot.entry == entry);
                slot.expect("all entries are hashed, or none").remove();
            }
            let (key_bytes, row_bytes) = (key.len() as u64, row.len() as u64);
            bytes += if self.records.free(entry, of_entry.record_bytes()) { key_bytes } else { 0 };
            bytes += if self.records.free(version, of_version.record_bytes()) { row_bytes } else { 0 };
        }
        self.greatest = self.order.entries_from_end().next().unwrap_or(Place::NONE);
        let greatest = (self.greatest != Place::NONE).then(|| entry::key_of(&self.records, self.greatest));
        self.gap.go_back_to(greatest);
        (bytes, entries)
    }

    /// The entry that was pushed with `version`, and where the next version lies if there is one behind it.
    pub(super) fn pushed(&self, version: Place) -> (Place, Place) {
        let entry = version.behind(entry::head(&self.records, version).record_bytes());
        (entry, entry.behind(entry::head(&self.records, entry).record_bytes()))
    }

    pub(super) fn key_of(&self, entry: Place) -> &[u8] {
        entry::key_of(&self.records, entry)
    }

    /// The entries of keys that begin with `prefix`.
    pub(super) fn entries_of(&self, prefix: &[u8]) -> Vec<Place> {
        let mut entries = Vec::new();
        let range = KeyRange::of_prefix(prefix);
        let _ = self.order.ascend(&range.start, &range.end, &self.records, |found| {
            entries.extend_from_slice(found);
            ControlFlow::Continue(())
        });
        entries
    }

    /// The keys in order, with what is written to them and the snapshot over which they were written first.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (&[u8], Written<'_>, CommitId)> {
        let found = self.order.slices().flat_map(|entries| {
            entry::touch(&self.records, entries);
            entries
        });
        found.filter_map(|place| {
            let (head, key) = entry::record(&self.records, *place);
            self.written(*place).map(|written| (key, written, head.commit))
        })
    }

    /// The keys in order, with what is written to them.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&[u8], Written<'_>)> {
        self.entries().map(|(key, written, _)| (key, written))
    }

    /// Adds the first keys of `range` to `batch`, or the last ones from its end, until it has `keys_max`.
    pub(super) fn fill(&self, start: &[u8], end: &[u8], backward: bool, keys_max: usize, batch: &mut VersionBatch) {
        let mut push = |entry: &Place| {
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

    /// Whether it is large, and each of its keys has what was written to it first: then it may be taken as a [`Run`].
    pub(super) fn is_run(&self) -> bool {
        !self.is_rewritten && self.entries >= RUN_ENTRIES_MIN
    }

    /// From the first key to the last, if there are any.
    pub(super) fn range(&self) -> Option<KeyRange> {
        let (first, last) = (self.order.entries().next()?, self.key_of(self.greatest));
        Some(KeyRange { start: self.key_of(first).to_vec(), end: [last, &[0]].concat() })
    }

    #[cfg(test)]
    pub(super) fn allocated_bytes(&self) -> usize {
        self.records.allocated_bytes() + self.order.allocated_bytes()
    }

    /// Where its records end.
    pub(super) fn end(&self) -> u32 {
        self.records.end()
    }

    /// Takes all that is written.
    pub(super) fn take_run(&mut self) -> Run {
        let IndexWrites { records, order, .. } = std::mem::replace(self, IndexWrites::new(self.index));
        Run::new(records, order)
    }
}
