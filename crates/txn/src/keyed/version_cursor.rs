//! Reads a range of keys in one snapshot, batch by batch, while others write.

use std::ops::ControlFlow;

use rowmill_base::CommitId;
use rowmill_storage::keyed::{ByteRows, KeyRange};

use super::entry;
use super::versions::Versions;

/// The most entries that are looked at under one lock.
const ENTRIES_PER_LOCK: usize = 512;
/// Once a batch has so many bytes of rows it is handed out.
const ROW_BYTES_PER_BATCH: usize = 256 << 10;

/// Keys with what a snapshot sees of them, copied. Made to be filled again and again.
#[derive(Clone, Debug, Default)]
pub struct VersionBatch {
    keys: ByteRows,
    rows: ByteRows,
    deleted: Vec<bool>,
}

impl VersionBatch {
    /// How many keys it has.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// A key and its row; `None` if it is deleted.
    pub fn get(&self, at: usize) -> (&[u8], Option<&[u8]>) {
        (self.keys.get(at), (!self.deleted[at]).then(|| self.rows.get(at)))
    }

    pub(super) fn clear(&mut self) {
        self.keys.clear();
        self.rows.clear();
        self.deleted.clear();
    }

    pub(super) fn push(&mut self, key: &[u8], row: Option<&[u8]>) {
        self.keys.push(key);
        self.rows.push(row.unwrap_or_default());
        self.deleted.push(row.is_none());
    }
}

/// A place in a range of keys. It holds no lock and nothing of the table, only the range that is left: what comes or goes
/// meanwhile changes nothing, since a snapshot does not see it.
#[derive(Clone, Debug, Default)]
pub struct VersionCursor {
    /// What has not been read.
    range: KeyRange,
    at: CommitId,
    /// Versions up to this commit are passed over.
    after: CommitId,
    backward: bool,
    done: bool,
    /// Becomes a bound of `range`.
    next: Vec<u8>,
}

impl VersionCursor {
    /// Reads `range` at the snapshot of commit `at`, upwards or from its end downwards.
    pub fn new(range: KeyRange, at: CommitId, backward: bool) -> Self {
        let done = range.is_empty();
        VersionCursor { range, at, after: CommitId(0), backward, done, next: Vec::new() }
    }

    /// Reads what was written to the keys of `range` after the commit `after`, up to `at`, upwards.
    pub fn changes(range: KeyRange, after: CommitId, at: CommitId) -> Self {
        VersionCursor { after, ..VersionCursor::new(range, at, false) }
    }

    /// Fills `batch` with the next keys of which the snapshot sees a version here, `keys_max` at most; without any the
    /// range is at its end. Keys that are not given are as the base has them.
    pub fn next_batch(&mut self, versions: &Versions, keys_max: usize, batch: &mut VersionBatch) {
        assert!(keys_max > 0, "a batch has room for a key");
        batch.clear();
        while batch.is_empty() && !self.done {
            let window = Window { after: self.after, at: self.at, backward: self.backward };
            let KeyRange { start, end } = &self.range;
            self.done = !window.read(versions, start, end, keys_max, batch, &mut self.next);
            let bound = if self.backward { &mut self.range.end } else { &mut self.range.start };
            std::mem::swap(bound, &mut self.next);
        }
    }
}

/// Which versions are read, and in which direction.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    /// Versions up to this commit are passed over.
    pub(super) after: CommitId,
    /// The snapshot.
    pub(super) at: CommitId,
    pub(super) backward: bool,
}

impl Window {
    /// Adds versions of keys from `start` on that are below `end` to `batch`, at most up to `keys_max` keys and as many as one
    /// lock allows. Whether there may be more: `next` is then the start of the keys that are left, or backward their end.
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
        // Nothing is below the empty key, which as an end would mean that there is none.
        !(self.backward && last.is_empty())
    }
}

/// Sets `bound` to the least key after `last`, or backward to `last`, below which keys are left.
pub(super) fn go_past(last: &[u8], backward: bool, bound: &mut Vec<u8>) {
    bound.clear();
    bound.extend_from_slice(last);
    if !backward {
        bound.push(0);
    }
}
