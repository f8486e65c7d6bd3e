//! Reads a range of keys in one snapshot, batch by batch, while other threads write.

use std::ops::ControlFlow;

use rowmill_base::CommitId;
use rowmill_storage::keyed::{ByteRows, KeyRange};

use super::entry;
use super::versions::Versions;

/// The most entries to look at under one lock, which takes about ten microseconds. A commit to the same table waits.
const ENTRIES_PER_LOCK: usize = 64;
/// A batch ends when its rows have this number of bytes. Copying them takes 7 µs at 10 GB/s, about as long as looking
/// at [`ENTRIES_PER_LOCK`] entries.
const ROW_BYTES_PER_BATCH: usize = 64 << 10;

/// Copies of keys and of what a snapshot sees of them. A batch should be filled again and again, because it keeps its
/// memory.
#[derive(Clone, Debug, Default)]
pub struct VersionBatch {
    keys: ByteRows,
    rows: ByteRows,
    deleted: Vec<bool>,
}

impl VersionBatch {
    /// The number of keys.
    #[inline]
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Whether the batch has no keys.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// A key and its row; `None` if the key is deleted.
    #[inline]
    pub fn get(&self, at: usize) -> (&[u8], Option<&[u8]>) {
        (self.keys.get(at), (!self.deleted[at]).then(|| self.rows.get(at)))
    }

    pub(super) fn clear(&mut self) {
        self.keys.clear();
        self.rows.clear();
        self.deleted.clear();
    }

    #[inline]
    pub(super) fn push(&mut self, key: &[u8], row: Option<&[u8]>) {
        self.keys.push(key);
        self.rows.push(row.unwrap_or_default());
        self.deleted.push(row.is_none());
    }
}

/// A position in a range of keys. It holds no lock and nothing of the table, only the rest of the range. Changes
/// between two batches do not matter, because the snapshot does not see them.
#[derive(Clone, Debug, Default)]
pub struct VersionCursor {
    /// The part of the range that has not been read.
    range: KeyRange,
    at: CommitId,
    /// Versions up to this commit are skipped.
    after: CommitId,
    backward: bool,
    done: bool,
    /// A buffer that becomes a bound of `range`.
    next: Vec<u8>,
}

impl VersionCursor {
    /// Reads `range` in the snapshot of commit `at`, forward or backward.
    pub fn new(range: KeyRange, at: CommitId, backward: bool) -> Self {
        let done = range.is_empty();
        VersionCursor { range, at, after: CommitId(0), backward, done, next: Vec::new() }
    }

    /// Reads the changes to the keys of `range` by commits after `after` up to `at`, forward.
    pub fn changes(range: KeyRange, after: CommitId, at: CommitId) -> Self {
        VersionCursor { after, ..VersionCursor::new(range, at, false) }
    }

    /// Fills `batch` with the next keys that have a version in this snapshot, at most `keys_max`. An empty batch means
    /// that the range is at its end. Keys that it does not return are as the base has them.
    pub fn next_batch(&mut self, versions: &Versions, keys_max: usize, batch: &mut VersionBatch) {
        assert!(keys_max > 0, "`keys_max` must be at least 1");
        batch.clear();
        while batch.is_empty() && !self.done {
            let window = VersionWindow { after: self.after, at: self.at, backward: self.backward };
            let KeyRange { start, end } = &self.range;
            self.done = !window.read(versions, start, end, keys_max, batch, &mut self.next);
            let bound = if self.backward { &mut self.range.end } else { &mut self.range.start };
            std::mem::swap(bound, &mut self.next);
        }
    }
}

/// Which versions to read, and in which direction.
#[derive(Clone, Copy, Debug)]
pub(super) struct VersionWindow {
    /// Versions up to this commit are skipped.
    pub(super) after: CommitId,
    /// The commit of the snapshot.
    pub(super) at: CommitId,
    pub(super) backward: bool,
}

impl VersionWindow {
    /// Adds the visible versions of keys from `start` up to `end` (exclusive) to `batch`. It stops when the batch has
    /// `keys_max` keys, or when it has held the lock long enough. Returns whether there may be more. Then `next` is the
    /// start of the remaining keys, or backward their end.
    pub(super) fn read(
        self,
        versions: &Versions,
        start: &[u8],
        end: &[u8],
        keys_max: usize,
        batch: &mut VersionBatch,
        next: &mut Vec<u8>,
    ) -> bool {
        let table = versions.read();
        let (mut looked_at, mut last) = (0, None);
        let walked = table.walk(start, end, self.backward, |place| {
            // The entry's own commit is that of its newest version, so a key without recent changes is skipped early.
            let (head, key) = entry::record(&table.chains.records, place);
            if head.commit > self.after
                && let Some((commit, row)) = table.chains.visible_version(head.next, self.at)
                && commit > self.after
            {
                batch.push(key, row);
            }
            looked_at += 1;
            last = Some(key);
            let is_full = batch.len() == keys_max || batch.rows.total_bytes() >= ROW_BYTES_PER_BATCH;
            if is_full || looked_at == ENTRIES_PER_LOCK { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        let (ControlFlow::Break(()), Some(last)) = (walked, last) else { return false };
        go_past(last, self.backward, next);
        // If the last key was the empty one, nothing is below it. It must not become the end, because an empty end
        // would mean that there is no bound.
        !(self.backward && last.is_empty())
    }
}

/// Sets `bound` to the least key after `last`, or backward to `last`, because the remaining keys are below it.
pub(super) fn go_past(last: &[u8], backward: bool, bound: &mut Vec<u8>) {
    bound.clear();
    bound.extend_from_slice(last);
    if !backward {
        bound.push(0);
    }
}
