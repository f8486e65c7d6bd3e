//! What a transaction has written to keyed tables: found by key, in order, and undone to any earlier length.
//!
//! ```text
//! key -> hash table --+       (once keys have come out of order)
//!                     v
//! Order ----------> entry: snapshot, key --> row, or that it is deleted, or nothing
//!                     ^                       ^
//! undo log -----------+--- what was before ---+
//! ```
//!
//! Keys and rows are records in arenas, as those of commits are ([`Versions`](super::Versions)), so that a set of any size
//! is cheap to add to, and one that is emptied for the next transaction keeps its memory. A key that is undone keeps its
//! entry, which then has nothing.
//!
//! Keys that come in order, as of many rows in one transaction, are behind the greatest each: that they are new needs no look at
//! a hash table, and so there is none until a key comes out of order.
//!
//! An entry remembers the snapshot over which its key was written first: whatever was committed to the key behind that is a
//! conflict, though later statements may have seen later snapshots.

use std::ops::ControlFlow;
use std::sync::Arc;

use hashbrown::HashTable;
use rapidhash::v3::RapidSecrets;
use rowmill_base::{CommitId, IndexId};
use rowmill_storage::keyed::KeyRange;

use super::TableCodec;
use super::arena::{Arena, Place};
use super::entry;
use super::key_index::{hash, spread};
use super::order::Order;
use super::version_cursor::VersionBatch;

/// Bytes of memory beyond those of a key and its row, about.
const ENTRY_BYTES: u64 = 96;

/// Of a set of more keys the memory is given back when it is emptied.
const KEYS_KEPT_MAX: usize = 1 << 12;

/// What is written to a key: its new row, or `None` where it is deleted.
pub(crate) type Written<'a> = Option<&'a [u8]>;

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct WriteSet {
    /// Of the hashes of keys: those of the versions that it is read with, so that a key is hashed once for both.
    secrets: RapidSecrets,
    keys: Arena,
    rows: Arena,
    order: Order,
    /// The entry of the greatest key.
    greatest: Place,
    /// How many entries there are.
    entries: usize,
    /// All entries, or none as long as keys have come in order.
    index: HashTable<Slot>,
    undo: Vec<Undo>,
    /// Keys that have something.
    len: usize,
    bytes: u64,
    /// Of the tables that are written to, in the order of the first writes.
    codecs: Vec<Arc<TableCodec>>,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    /// The lower half of the key's hash.
    tag: u32,
    entry: Place,
}

/// An entry and what it had before.
#[derive(Clone, Copy, Debug)]
struct Undo {
    entry: Place,
    before: Place,
    snapshot: CommitId,
}

/// Has an entry found by the hash of its key.
fn add_slot(index: &mut HashTable<Slot>, entry: Place, keys: &Arena, secrets: &RapidSecrets) {
    let tag = hash(entry::key_of(keys, entry), secrets) as u32;
    index.insert_unique(spread(tag), Slot { tag, entry }, |slot| spread(slot.tag));
}

impl WriteSet {
    /// One that is read with versions of these secrets.
    pub(crate) fn new(secrets: RapidSecrets) -> WriteSet {
        WriteSet {
            secrets,
            keys: Arena::new(),
            rows: Arena::new(),
            order: Order::new(),
            greatest: Place::NONE,
            entries: 0,
            index: HashTable::new(),
            undo: Vec::new(),
            len: 0,
            bytes: 0,
            codecs: Vec::new(),
        }
    }

    /// Forgets everything but the memory.
    pub(crate) fn reset(&mut self) {
        if self.entries > KEYS_KEPT_MAX || self.undo.len() > KEYS_KEPT_MAX {
            *self = WriteSet::new(self.secrets);
            return;
        }
        self.keys.clear();
        self.rows.clear();
        self.index.clear();
        self.order.clear();
        self.undo.clear();
        self.codecs.clear();
        self.greatest = Place::NONE;
        (self.entries, self.len, self.bytes) = (0, 0, 0);
    }

    /// Whether nothing is written.
    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes of memory, about.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// How many keys are written.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Bytes of keys and rows alone, those that others have replaced among them.
    pub(crate) fn content_bytes(&self) -> u64 {
        self.bytes - ENTRY_BYTES * (self.entries + self.undo.len()) as u64
    }

    /// Notes that keys to come are made by `codec`.
    pub(crate) fn note_codec(&mut self, codec: &Arc<TableCodec>) {
        if !self.codecs.iter().rev().any(|known| Arc::ptr_eq(known, codec)) {
            self.codecs.push(Arc::clone(codec));
        }
    }

    /// Those that were noted.
    pub(crate) fn codecs(&self) -> &[Arc<TableCodec>] {
        &self.codecs
    }

    /// The codec that has made the keys of an index last.
    pub(crate) fn codec_of(&self, index: IndexId) -> Option<&Arc<TableCodec>> {
        self.codecs.iter().rev().find(|codec| codec.has_index(index))
    }

    /// What is written to `key`, if anything, whose hash is known.
    #[inline]
    pub(super) fn find(&self, hash: u64, key: &[u8]) -> Option<Written<'_>> {
        self.entry_of(|_| hash, key).and_then(|entry| self.written(entry))
    }

    fn entry_of(&self, hash: impl FnOnce(&RapidSecrets) -> u64, key: &[u8]) -> Option<Place> {
        if self.is_in_order() {
            return if self.is_behind_all(key) { None } else { self.order.find(key, &self.keys) };
        }
        let tag = hash(&self.secrets) as u32;
        let slot =
            self.index.find(spread(tag), |slot| slot.tag == tag && entry::key_of(&self.keys, slot.entry) == key)?;
        Some(slot.entry)
    }

    /// Whether each key has come behind all before it.
    fn is_in_order(&self) -> bool {
        self.index.is_empty()
    }

    fn is_behind_all(&self, key: &[u8]) -> bool {
        self.greatest == Place::NONE || key > entry::key_of(&self.keys, self.greatest)
    }

    /// Adds the entry of a key that has none.
    fn add_entry(&mut self, key: &[u8], snapshot: CommitId) -> Place {
        let is_behind_all = self.is_behind_all(key);
        let entry = entry::push_entry(&mut self.keys, key, snapshot, Place::NONE);
        self.order.insert(key, entry, &self.keys);
        if !self.is_in_order() {
            add_slot(&mut self.index, entry, &self.keys, &self.secrets);
        } else if !is_behind_all {
            let entries = self.order.entries();
            entries.for_each(|entry| add_slot(&mut self.index, entry, &self.keys, &self.secrets));
        }
        if is_behind_all {
            self.greatest = entry;
        }
        self.entries += 1;
        self.bytes += ENTRY_BYTES + key.len() as u64;
        entry
    }

    fn written(&self, entry: Place) -> Option<Written<'_>> {
        let newest = entry::head(&self.keys, entry).next;
        if newest == Place::NONE {
            return None;
        }
        let (head, row) = entry::record(&self.rows, newest);
        Some((!head.is_deleted()).then_some(row))
    }

    /// Writes `row` to `key`, or that it is deleted, over what the snapshot of commit `snapshot` has.
    pub(crate) fn put(&mut self, key: &[u8], row: Written<'_>, snapshot: CommitId) {
        let known = self.entry_of(|secrets| hash(key, secrets), key);
        let entry = known.unwrap_or_else(|| self.add_entry(key, snapshot));
        let version = entry::push_version(&mut self.rows, row, snapshot, Place::NONE);
        let head = entry::head(&self.keys, entry);
        // Whoever wrote it first has seen the oldest snapshot.
        let first = if head.next == Place::NONE { snapshot } else { head.commit };
        self.bytes += ENTRY_BYTES + row.map_or(0, |row| row.len() as u64);
        self.set(entry, version, first);
    }

    /// Forgets what was written to keys that begin with `prefix`.
    pub(crate) fn clear(&mut self, prefix: &[u8]) {
        let mut entries = Vec::new();
        let _ = self.order.ascend(&KeyRange::of_prefix(prefix), &self.keys, |found| {
            entries.extend_from_slice(found);
            ControlFlow::Continue(())
        });
        for entry in entries {
            self.bytes += ENTRY_BYTES;
            self.set(entry, Place::NONE, CommitId(0));
        }
    }

    /// Has an entry have what is at `place`, and notes what it had.
    fn set(&mut self, entry: Place, place: Place, snapshot: CommitId) {
        let head = entry::head(&self.keys, entry);
        self.undo.push(Undo { entry, before: head.next, snapshot: head.commit });
        entry::set_newest(&mut self.keys, entry, snapshot, place);
        self.count(head.next, place);
    }

    fn count(&mut self, before: Place, after: Place) {
        self.len += usize::from(after != Place::NONE);
        self.len -= usize::from(before != Place::NONE);
    }

    /// A point to go back to.
    pub(crate) fn mark(&self) -> usize {
        self.undo.len()
    }

    /// The keys that were written since `mark`, some perhaps more than once.
    pub(crate) fn keys_since(&self, mark: usize) -> impl Iterator<Item = &[u8]> {
        self.undo[mark..].iter().map(|undo| entry::key_of(&self.keys, undo.entry))
    }

    /// Takes back what was written since `mark`.
    pub(crate) fn undo_to(&mut self, mark: usize) {
        while self.undo.len() > mark {
            let Undo { entry, before, snapshot } = self.undo.pop().expect("it is longer than the mark");
            let undone = entry::head(&self.keys, entry).next;
            self.bytes -= ENTRY_BYTES;
            if undone != Place::NONE {
                let head = entry::head(&self.rows, undone);
                self.bytes -= entry::record(&self.rows, undone).1.len() as u64;
                self.rows.free(undone, head.record_bytes());
            }
            entry::set_newest(&mut self.keys, entry, snapshot, before);
            self.count(undone, before);
        }
    }

    /// The keys in order, with what is written to them.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&[u8], Written<'_>)> {
        self.entries().map(|(key, written, _)| (key, written))
    }

    /// As [`WriteSet::iter`], each with the snapshot over which it was written first.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (&[u8], Written<'_>, CommitId)> {
        self.order.entries().filter_map(|place| {
            let (head, key) = entry::record(&self.keys, place);
            self.written(place).map(|written| (key, written, head.commit))
        })
    }

    /// Adds the first keys of `range` to `batch`, or the last ones from its end, until it has `keys_max`.
    pub(super) fn fill(&self, range: &KeyRange, backward: bool, keys_max: usize, batch: &mut VersionBatch) {
        let mut push = |entry: &Place| {
            if let Some(written) = self.written(*entry) {
                batch.push(entry::key_of(&self.keys, *entry), written);
            }
            if batch.len() < keys_max { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        };
        let _ = match backward {
            false => self.order.ascend(range, &self.keys, |entries| entries.iter().try_for_each(&mut push)),
            true => self.order.descend(range, &self.keys, |entries| entries.iter().rev().try_for_each(&mut push)),
        };
    }
}

#[cfg(test)]
mod tests;
