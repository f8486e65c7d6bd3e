//! The writes of a transaction to keyed tables, by index. They can be undone to any earlier mark.
//!
//! ```text
//! index -> IndexWrites: key --> row, or that it is deleted, or nothing
//!               ^                    ^
//! undo log -----+-- what was before -+
//! ```
//!
//! Keys that come in order, for example when one transaction inserts many rows, share one entry of the undo log, as
//! long as they are in one chunk of memory and no other write comes between.
//!
//! A set that is cleared for the next transaction keeps its memory. A large set overflows to a temporary file, so a
//! transaction may write more than memory holds.

use std::sync::Arc;

use allocator_api2::vec::Vec as PieceVec;
use rapidhash::v3::RapidSecrets;
use rowmill_base::{CommitId, IndexId};
use rowmill_io::OverflowMemory;

use super::arena::ArenaOffset;
use super::gap::Gap;
use super::index_writes::{Before, IndexWrites, WrittenEntry};
use super::table_codec::TableCodec;
use super::version_cursor::VersionBatch;
use super::{HEAD_BYTES, index_head, index_of};

/// Approximate overhead in bytes of an entry beyond its key, and of a version beyond its row.
const RECORD_BYTES: u64 = 48;

/// A set with more keys than this is not kept for another transaction.
const KEYS_KEPT_MAX: usize = 1 << 12;

/// A reset keeps the memory of at most this many indexes.
const INDEXES_KEPT_MAX: usize = 16;

/// The write to a key: its new row, or `None` if it is deleted.
pub(crate) type Written<'a> = Option<&'a [u8]>;

/// The writes of a transaction to keyed tables. See the module header for the structure.
#[derive(Clone, Debug)]
pub(crate) struct WriteSet {
    /// The secrets of key hashes. They must be those of the versions that are read with this set, so that each key is
    /// hashed only once for both.
    secrets: RapidSecrets,
    /// The indexes in use, in the order of their first writes, followed by unused empty ones.
    by_index: Vec<IndexWrites>,
    /// For each index in use, the rows added minus the rows deleted. Always 0 for an index that is not the rows
    /// themselves.
    rows: Vec<i64>,
    /// Whether `rows` is exact.
    is_counted: bool,
    /// The head of each index in use.
    heads: Vec<[u8; HEAD_BYTES]>,
    /// The indexes in use, in the order of their heads.
    in_order: Vec<usize>,
    undo: PieceVec<Undo, OverflowMemory>,
    /// The number of changes that the undo log can take back. [`WriteSet::mark`] and [`WriteSet::undo_to`] count in
    /// these.
    changes: usize,
    bytes: u64,
    /// The codecs of the written tables in the order of their first writes, each with the version of its catalog.
    codecs: Vec<(Arc<TableCodec>, u64)>,
    /// The memory of keys, rows and undo log. After a commit took writes out, it is also the memory of those.
    memory: OverflowMemory,
    /// Whether a commit has taken writes out.
    is_taken: bool,
}

#[derive(Clone, Copy, Debug)]
enum Undo {
    /// One write to one entry, and the version that the entry had before.
    Entry {
        index: u32,
        entry: ArenaOffset,
        before: ArenaOffset,
        /// The rows that the write added to the table.
        rows: i8,
    },
    Pushed(Pushed),
}

/// New entries that are stored one after the other, each after its version.
#[derive(Clone, Copy, Debug)]
struct Pushed {
    index: u32,
    /// The version of the first entry.
    first: ArenaOffset,
    /// The place after the last entry, where the next version would begin.
    end: ArenaOffset,
    /// The number of entries.
    entries: u32,
    /// The rows that each of them added to the table.
    rows: i8,
}

impl Pushed {
    /// How many of these entries remain if the last `undone` changes are taken back, beginning with these entries.
    fn kept(&self, undone: usize) -> u32 {
        u32::try_from(undone).map_or(0, |undone| self.entries.saturating_sub(undone))
    }
}

impl WriteSet {
    /// An empty set in `memory`, to be read together with versions that use `secrets`.
    pub(crate) fn new(secrets: RapidSecrets, memory: OverflowMemory) -> WriteSet {
        WriteSet {
            secrets,
            by_index: Vec::new(),
            rows: Vec::new(),
            is_counted: true,
            heads: Vec::new(),
            in_order: Vec::new(),
            undo: PieceVec::new_in(memory.clone()),
            changes: 0,
            bytes: 0,
            codecs: Vec::new(),
            memory,
            is_taken: false,
        }
    }

    /// Removes all writes, but keeps their memory. Returns `false` and does nothing if the set is of no use for another
    /// transaction, because it is large or shares its memory with the versions.
    pub(crate) fn reset(&mut self) -> bool {
        let is_large = self.entry_count() > KEYS_KEPT_MAX || self.changes > KEYS_KEPT_MAX;
        if is_large || self.is_taken || self.memory.file_bytes() > 0 {
            return false;
        }
        self.by_index.truncate(INDEXES_KEPT_MAX);
        self.by_index.iter_mut().take(self.heads.len()).for_each(IndexWrites::clear);
        self.heads.clear();
        self.rows.clear();
        self.is_counted = true;
        self.in_order.clear();
        self.undo.clear();
        self.codecs.clear();
        (self.changes, self.bytes) = (0, 0);
        true
    }

    /// The memory of the writes.
    pub(crate) fn memory(&self) -> &OverflowMemory {
        &self.memory
    }

    /// Whether nothing is written.
    pub(crate) fn is_empty(&self) -> bool {
        self.indexes().all(IndexWrites::is_empty)
    }

    /// Approximate bytes of memory, without those in a file.
    pub(crate) fn bytes(&self) -> u64 {
        match self.memory.file_bytes() {
            0 => self.bytes,
            _ => self.bytes.min(self.memory.heap_bytes()),
        }
    }

    /// The number of entries, including those without a version.
    fn entry_count(&self) -> usize {
        self.indexes().map(IndexWrites::entry_count).sum()
    }

    /// Bytes of keys and rows alone, including rows that a later write replaced.
    pub(crate) fn content_bytes(&self) -> u64 {
        self.bytes - RECORD_BYTES * (self.entry_count() + self.changes) as u64
    }

    /// Records that `codec`, which belongs to catalog version `version`, makes the keys of the next writes.
    pub(crate) fn note_codec(&mut self, codec: &Arc<TableCodec>, version: u64) {
        match self.codecs.iter_mut().find(|(known, _)| Arc::ptr_eq(known, codec)) {
            Some((_, last)) => *last = version,
            None => self.codecs.push((Arc::clone(codec), version)),
        }
    }

    /// Whether `codec` was recorded with catalog version `version`.
    #[inline]
    pub(crate) fn is_noted(&self, codec: &Arc<TableCodec>, version: u64) -> bool {
        self.codecs.iter().rev().any(|(known, last)| Arc::ptr_eq(known, codec) && *last == version)
    }

    /// The recorded codecs.
    pub(crate) fn codecs(&self) -> impl Iterator<Item = &Arc<TableCodec>> {
        self.codecs.iter().map(|(codec, _)| codec)
    }

    /// The codec that last made the keys of an index.
    pub(crate) fn codec_of(&self, index: IndexId) -> Option<&Arc<TableCodec>> {
        self.codecs.iter().rev().map(|(codec, _)| codec).find(|codec| codec.has_index(index))
    }

    /// The writes by index, in the order of keys.
    pub(crate) fn indexes(&self) -> impl Iterator<Item = &IndexWrites> {
        self.in_order.iter().map(|at| &self.by_index[*at])
    }

    /// Frees the versions that later writes to their keys replaced. No write can be undone afterwards.
    pub(super) fn free_replaced(&mut self) {
        for undo in self.undo.drain(..) {
            if let Undo::Entry { index, before, .. } = undo
                && before != ArenaOffset::NONE
            {
                self.by_index[index as usize].free_replaced(before);
            }
        }
    }

    /// Passes the writes of each index to `each`, which may take them and returns whether it did.
    pub(super) fn take_indexes(&mut self, mut each: impl FnMut(&mut IndexWrites) -> bool) {
        for at in &self.in_order {
            self.is_taken |= each(&mut self.by_index[*at]);
        }
    }

    fn position(&self, key: &[u8]) -> Option<usize> {
        let head = key.first_chunk::<HEAD_BYTES>()?;
        self.heads.iter().position(|known| known == head)
    }

    /// Looks up the write to `key`, if any. `hash` must be the hash of `key`.
    #[inline]
    pub(super) fn find(&self, hash: u64, key: &[u8]) -> Option<Written<'_>> {
        self.by_index[self.position(key)?].find(|| hash, key)
    }

    /// The number of the index of `key` in this set, if `key` is greater than all keys written to that index and the
    /// snapshot is known not to have it.
    #[inline]
    pub(crate) fn find_in_gap(&self, key: &[u8], snapshot: CommitId) -> Option<usize> {
        self.position(key).filter(|at| self.by_index[*at].is_in_gap(key, snapshot))
    }

    /// The gap after the greatest key written to the index of `key`, and the number of that index. `None` if `key` is
    /// not greater than that key.
    pub(crate) fn gap(&mut self, key: &[u8]) -> Option<(usize, &mut Gap)> {
        let at = self.position(key)?;
        self.by_index[at].gap(key).map(|gap| (at, gap))
    }

    /// The number of the index of `key` in this set. Adds the index if it is new.
    #[inline]
    fn position_to_write(&mut self, key: &[u8]) -> usize {
        match self.position(key) {
            Some(at) => at,
            None => self.start_index(index_of(key).expect("a key begins with its index")),
        }
    }

    fn start_index(&mut self, index: IndexId) -> usize {
        let (at, head) = (self.heads.len(), index_head(index));
        match self.by_index.get_mut(at) {
            Some(empty) => empty.start(index),
            None => self.by_index.push(IndexWrites::new(index, &self.memory)),
        }
        // The new index is last in `by_index`, and `in_order` gets it at the place of its head.
        self.heads.push(head);
        self.rows.push(0);
        self.in_order.insert(self.in_order.partition_point(|other| self.heads[*other] < head), at);
        at
    }

    /// Writes `row` to `key` (`None` deletes it) over the state of the snapshot `snapshot`. `rows` is the number of
    /// rows that this adds to the table: 1, 0 or -1.
    pub(crate) fn put(&mut self, key: &[u8], row: Written<'_>, snapshot: CommitId, rows: i8) {
        let at = self.position_to_write(key);
        let put = self.by_index[at].put(key, row, snapshot, &self.secrets);
        self.note(at, put, key, row, rows);
    }

    /// Writes a new row to a key that is greater than all keys written to index number `at`.
    #[inline]
    pub(crate) fn push(&mut self, at: usize, key: &[u8], row: Written<'_>, snapshot: CommitId) {
        let put = self.by_index[at].push(key, row, snapshot, &self.secrets);
        self.note(at, put, key, row, 1);
    }

    /// Writes like [`WriteSet::put`] if the caller does not know whether the snapshot has the row.
    pub(crate) fn put_uncounted(&mut self, key: &[u8], row: Written<'_>, snapshot: CommitId) {
        // From here on the number of added rows is unknown, until the next reset.
        self.is_counted = false;
        self.put(key, row, snapshot, 0);
    }

    /// The number of rows added to the table whose primary index is `index`, if it is known.
    pub(super) fn rows_added(&self, index: IndexId) -> Option<i64> {
        let at = self.heads.iter().position(|head| *head == index_head(index));
        self.is_counted.then(|| at.map_or(0, |at| self.rows[at]))
    }

    /// The number of rows added, by index; `None` where it is not known.
    pub(super) fn added(&self) -> impl Iterator<Item = (IndexId, Option<i64>)> {
        let indexes = self.by_index.iter().zip(&self.rows);
        indexes.map(|(writes, rows)| (writes.index(), self.is_counted.then_some(*rows)))
    }

    #[inline]
    fn note(
        &mut self,
        at: usize,
        WrittenEntry { entry, is_new, before }: WrittenEntry,
        key: &[u8],
        row: Written<'_>,
        rows: i8,
    ) {
        self.rows[at] += i64::from(rows);
        self.bytes += RECORD_BYTES + row.map_or(0, |row| row.len() as u64);
        if is_new {
            self.bytes += RECORD_BYTES + key.len() as u64;
        }
        self.changes += 1;
        let index = at as u32;
        // A pushed entry that directly follows the last undo record extends that record instead of adding one.
        let undo = match (before, self.undo.last_mut()) {
            (Before::Pushed { version, end }, Some(Undo::Pushed(last)))
                if last.index == index && last.end == version && last.rows == rows =>
            {
                last.end = end;
                last.entries += 1;
                return;
            }
            (Before::Pushed { version, end }, _) => {
                Undo::Pushed(Pushed { index, first: version, end, entries: 1, rows })
            }
            (Before::Version(before), _) => Undo::Entry { index, entry, before, rows },
        };
        self.undo.push(undo);
    }

    /// Removes the writes to all keys that begin with `prefix`, which must include the head of an index.
    pub(crate) fn clear(&mut self, prefix: &[u8]) {
        let Some(at) = self.position(prefix) else { return };
        let writes = &mut self.by_index[at];
        // Each entry stays without a version, and the undo log remembers the version that it had.
        for entry in writes.entries_of(prefix) {
            let before = writes.forget(entry);
            self.bytes += RECORD_BYTES;
            self.changes += 1;
            self.undo.push(Undo::Entry { index: at as u32, entry, before, rows: 0 });
        }
    }

    /// A mark to which the set can be undone.
    pub(crate) fn mark(&self) -> usize {
        self.changes
    }

    /// Passes the keys that were written since `mark` to `each`. A key may come more than once.
    pub(crate) fn keys_since(&self, mark: usize, mut each: impl FnMut(&[u8])) {
        let mut left = self.changes - mark;
        for undo in self.undo.iter().rev() {
            match undo {
                _ if left == 0 => return,
                Undo::Entry { index, entry, .. } => {
                    each(self.by_index[*index as usize].key_of(*entry));
                    left -= 1;
                }
                Undo::Pushed(pushed) => {
                    let (writes, kept) = (&self.by_index[pushed.index as usize], pushed.kept(left));
                    // Versions and entries can only be walked from the first one, so walk over the kept entries too.
                    let mut version = pushed.first;
                    for at in 0..pushed.entries {
                        let (entry, next) = writes.pushed(version);
                        if at >= kept {
                            each(writes.key_of(entry));
                        }
                        version = next;
                    }
                    left -= (pushed.entries - kept) as usize;
                }
            }
        }
    }

    /// Undoes all writes since `mark`.
    pub(crate) fn undo_to(&mut self, mark: usize) {
        while self.changes > mark {
            // Undo the latest change first, because an earlier one restores what a later one replaced.
            match self.undo.pop().expect("the undo log covers all changes") {
                Undo::Entry { index, entry, before, rows } => {
                    self.rows[index as usize] -= i64::from(rows);
                    self.bytes -= RECORD_BYTES + self.by_index[index as usize].undo(entry, before);
                    self.changes -= 1;
                }
                Undo::Pushed(pushed) => {
                    // The mark may be inside this record: undo its last entries and put the record of the others back.
                    let (writes, kept) = (&mut self.by_index[pushed.index as usize], pushed.kept(self.changes - mark));
                    let undone = (pushed.entries - kept) as usize;
                    self.rows[pushed.index as usize] -= i64::from(pushed.rows) * undone as i64;
                    let end = (0..kept).fold(pushed.first, |version, _| writes.pushed(version).1);
                    let (bytes, gone) = writes.undo_pushed(end, undone, &self.secrets);
                    self.bytes -= bytes + RECORD_BYTES * (undone + gone) as u64;
                    self.changes -= undone;
                    if kept > 0 {
                        self.undo.push(Undo::Pushed(Pushed { end, entries: kept, ..pushed }));
                    }
                }
            }
        }
    }

    /// The written keys in order, with their rows.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&[u8], Written<'_>)> {
        self.indexes().flat_map(IndexWrites::iter)
    }

    /// Adds the first keys of the range `start`..`end`, all of one index, to `batch`, or with `backward` the last ones,
    /// until it has `keys_max`.
    pub(super) fn fill(&self, start: &[u8], end: &[u8], backward: bool, keys_max: usize, batch: &mut VersionBatch) {
        if let Some(at) = self.position(start) {
            self.by_index[at].fill(start, end, backward, keys_max, batch);
        }
    }
}

#[cfg(test)]
mod tests;
