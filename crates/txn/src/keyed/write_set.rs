//! What a transaction has written to keyed tables, by index, undone to any earlier length.
//!
//! ```text
//! index -> IndexWrites: key --> row, or that it is deleted, or nothing
//!               ^                    ^
//! undo log -----+-- what was before -+
//! ```
//!
//! Keys that come one behind the other, as of many rows in one transaction, take one entry of the undo log together, as far as
//! they lie in one chunk of memory and nothing else is written between.
//!
//! One that is emptied for the next transaction keeps its memory.

use std::sync::Arc;

use rapidhash::v3::RapidSecrets;
use rowmill_base::{CommitId, IndexId};

use super::arena::Place;
use super::gap::Gap;
use super::index_writes::{Before, IndexWrites, Put};
use super::table_codec::TableCodec;
use super::version_cursor::VersionBatch;
use super::{HEAD_BYTES, index_head, index_of};

/// Bytes of memory beyond those of a key, and beyond those of its row, about.
const RECORD_BYTES: u64 = 48;

/// Of a set of more keys the memory is given back when it is emptied.
const KEYS_KEPT_MAX: usize = 1 << 12;

/// Of more indexes than these too.
const INDEXES_KEPT_MAX: usize = 16;

/// What is written to a key: its new row, or `None` where it is deleted.
pub(crate) type Written<'a> = Option<&'a [u8]>;

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct WriteSet {
    /// Of the hashes of keys: those of the versions that it is read with, so that a key is hashed once for both.
    secrets: RapidSecrets,
    /// Those in use, in the order of their first writes, and behind them empty ones.
    by_index: Vec<IndexWrites>,
    /// Of each that is in use the rows that are added, less those that are deleted: 0 of an index that has entries.
    rows: Vec<i64>,
    /// Whether it is known how many rows are added.
    is_counted: bool,
    /// Of each that is in use what its keys begin with.
    heads: Vec<[u8; HEAD_BYTES]>,
    /// Those in use, in the order of their heads.
    in_order: Vec<usize>,
    undo: Vec<Undo>,
    /// What [`WriteSet::undo_to`] counts: all that the undo log takes back.
    changes: usize,
    bytes: u64,
    /// Of the tables that are written to, in the order of the first writes, with the versions of the catalogs that have them.
    codecs: Vec<(Arc<TableCodec>, u64)>,
}

#[derive(Clone, Copy, Debug)]
enum Undo {
    /// An entry, and the version that it had before.
    Entry {
        index: u32,
        entry: Place,
        before: Place,
        /// What it has added to the rows of the table.
        rows: i8,
    },
    Pushed(Pushed),
}

/// New entries that lie, each behind its version, one behind the other.
#[derive(Clone, Copy, Debug)]
struct Pushed {
    index: u32,
    /// The version of the first.
    first: Place,
    /// Where the next would begin.
    end: Place,
    /// How many.
    entries: u32,
    /// What each of them has added to the rows of the table.
    rows: i8,
}

impl Pushed {
    /// How many are left where the last `undone` changes are taken back, these entries first.
    fn kept(&self, undone: usize) -> u32 {
        u32::try_from(undone).map_or(0, |undone| self.entries.saturating_sub(undone))
    }
}

impl WriteSet {
    /// One that is read with versions of these secrets.
    pub(crate) fn new(secrets: RapidSecrets) -> WriteSet {
        WriteSet {
            secrets,
            by_index: Vec::new(),
            rows: Vec::new(),
            is_counted: true,
            heads: Vec::new(),
            in_order: Vec::new(),
            undo: Vec::new(),
            changes: 0,
            bytes: 0,
            codecs: Vec::new(),
        }
    }

    /// Forgets everything but the memory.
    pub(crate) fn reset(&mut self) {
        if self.entry_count() > KEYS_KEPT_MAX || self.changes > KEYS_KEPT_MAX {
            *self = WriteSet::new(self.secrets);
            return;
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
    }

    /// Whether nothing is written.
    pub(crate) fn is_empty(&self) -> bool {
        self.indexes().all(IndexWrites::is_empty)
    }

    /// Bytes of memory, about.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// How many there are, those among them that have nothing any more.
    fn entry_count(&self) -> usize {
        self.indexes().map(IndexWrites::entry_count).sum()
    }

    /// Bytes of keys and rows alone, those that others have replaced among them.
    pub(crate) fn content_bytes(&self) -> u64 {
        self.bytes - RECORD_BYTES * (self.entry_count() + self.changes) as u64
    }

    /// Notes that keys to come are made by `codec`, which is of the catalog of a version.
    pub(crate) fn note_codec(&mut self, codec: &Arc<TableCodec>, version: u64) {
        match self.codecs.iter_mut().find(|(known, _)| Arc::ptr_eq(known, codec)) {
            Some((_, last)) => *last = version,
            None => self.codecs.push((Arc::clone(codec), version)),
        }
    }

    /// Whether `codec` was noted to be of the catalog of a version.
    #[inline]
    pub(crate) fn is_noted(&self, codec: &Arc<TableCodec>, version: u64) -> bool {
        self.codecs.iter().rev().any(|(known, last)| Arc::ptr_eq(known, codec) && *last == version)
    }

    /// Those that were noted.
    pub(crate) fn codecs(&self) -> impl Iterator<Item = &Arc<TableCodec>> {
        self.codecs.iter().map(|(codec, _)| codec)
    }

    /// The codec that has made the keys of an index last.
    pub(crate) fn codec_of(&self, index: IndexId) -> Option<&Arc<TableCodec>> {
        self.codecs.iter().rev().map(|(codec, _)| codec).find(|codec| codec.has_index(index))
    }

    /// What is written by index, in the order of keys.
    pub(crate) fn indexes(&self) -> impl Iterator<Item = &IndexWrites> {
        self.in_order.iter().map(|at| &self.by_index[*at])
    }

    /// The same, for what takes it.
    pub(super) fn take_indexes(&mut self, mut each: impl FnMut(&mut IndexWrites)) {
        self.in_order.iter().for_each(|at| each(&mut self.by_index[*at]));
    }

    fn position(&self, key: &[u8]) -> Option<usize> {
        let head = key.first_chunk::<HEAD_BYTES>()?;
        self.heads.iter().position(|known| known == head)
    }

    /// What is written to `key`, if anything, whose hash is known.
    #[inline]
    pub(super) fn find(&self, hash: u64, key: &[u8]) -> Option<Written<'_>> {
        self.by_index[self.position(key)?].find(|| hash, key)
    }

    /// Where what is written to the index of `key` is, if that is behind all of it and known not to be in a snapshot.
    #[inline]
    pub(crate) fn find_in_gap(&self, key: &[u8], snapshot: CommitId) -> Option<usize> {
        self.position(key).filter(|at| self.by_index[*at].is_in_gap(key, snapshot))
    }

    /// The gap behind all that is written to the index of `key`, if that is there, and where that index is.
    pub(crate) fn gap(&mut self, key: &[u8]) -> Option<(usize, &mut Gap)> {
        let at = self.position(key)?;
        self.by_index[at].gap(key).map(|gap| (at, gap))
    }

    /// Where what is written to the index of `key` is to be.
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
            None => self.by_index.push(IndexWrites::new(index)),
        }
        self.heads.push(head);
        self.rows.push(0);
        self.in_order.insert(self.in_order.partition_point(|other| self.heads[*other] < head), at);
        at
    }

    /// Writes `row` to `key`, or that it is deleted, over what the snapshot of commit `snapshot` has. `rows` is what that
    /// adds to the rows of the table.
    pub(crate) fn put(&mut self, key: &[u8], row: Written<'_>, snapshot: CommitId, rows: i8) {
        let at = self.position_to_write(key);
        let put = self.by_index[at].put(key, row, snapshot, &self.secrets);
        self.note(at, put, key, row, rows);
    }

    /// Writes a new row to a key after all keys that are written to its index, which is `at`.
    #[inline]
    pub(crate) fn push(&mut self, at: usize, key: &[u8], row: Written<'_>, snapshot: CommitId) {
        let put = self.by_index[at].push(key, row, snapshot, &self.secrets);
        self.note(at, put, key, row, 1);
    }

    /// Writes as [`WriteSet::put`] does, where it is not known whether the snapshot has the row.
    pub(crate) fn put_uncounted(&mut self, key: &[u8], row: Written<'_>, snapshot: CommitId) {
        self.is_counted = false;
        self.put(key, row, snapshot, 0);
    }

    /// The rows that are added to the table whose rows `index` names, if that is known.
    pub(super) fn rows_added(&self, index: IndexId) -> Option<i64> {
        let at = self.heads.iter().position(|head| *head == index_head(index));
        self.is_counted.then(|| at.map_or(0, |at| self.rows[at]))
    }

    /// The rows that are added, by index, as far as that is known.
    pub(super) fn added(&self) -> impl Iterator<Item = (IndexId, Option<i64>)> {
        let indexes = self.by_index.iter().zip(&self.rows);
        indexes.map(|(writes, rows)| (writes.index(), self.is_counted.then_some(*rows)))
    }

    #[inline]
    fn note(&mut self, at: usize, Put { entry, is_new, before }: Put, key: &[u8], row: Written<'_>, rows: i8) {
        self.rows[at] += i64::from(rows);
        self.bytes += RECORD_BYTES + row.map_or(0, |row| row.len() as u64);
        if is_new {
            self.bytes += RECORD_BYTES + key.len() as u64;
        }
        self.changes += 1;
        let index = at as u32;
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

    /// Forgets what was written to keys that begin with `prefix`, which says of which index they are.
    pub(crate) fn clear(&mut self, prefix: &[u8]) {
        let Some(at) = self.position(prefix) else { return };
        let writes = &mut self.by_index[at];
        for entry in writes.entries_of(prefix) {
            let before = writes.forget(entry);
            self.bytes += RECORD_BYTES;
            self.changes += 1;
            self.undo.push(Undo::Entry { index: at as u32, entry, before, rows: 0 });
        }
    }

    /// A point to go back to.
    pub(crate) fn mark(&self) -> usize {
        self.changes
    }

    /// The keys that were written since `mark`, some perhaps more than once.
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

    /// Takes back what was written since `mark`.
    pub(crate) fn undo_to(&mut self, mark: usize) {
        while self.changes > mark {
            match self.undo.pop().expect("there is one for all changes") {
                Undo::Entry { index, entry, before, rows } => {
                    self.rows[index as usize] -= i64::from(rows);
                    self.bytes -= RECORD_BYTES + self.by_index[index as usize].undo(entry, before);
                    self.changes -= 1;
                }
                Undo::Pushed(pushed) => {
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

    /// The keys in order, with what is written to them.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&[u8], Written<'_>)> {
        self.indexes().flat_map(IndexWrites::iter)
    }

    /// Adds the first keys of `range`, all of one index, to `batch`, or the last ones from its end, until it has `keys_max`.
    pub(super) fn fill(&self, start: &[u8], end: &[u8], backward: bool, keys_max: usize, batch: &mut VersionBatch) {
        if let Some(at) = self.position(start) {
            self.by_index[at].fill(start, end, backward, keys_max, batch);
        }
    }
}

#[cfg(test)]
mod tests;
