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
}

impl VersionCursor {
    /// Reads `range` at the snapshot of commit `at`, upwards or from its end downwards.
    pub fn new(range: KeyRange, at: CommitId, backward: bool) -> Self {
        let done = range.is_empty();
        VersionCursor { range, at, after: CommitId(0), backward, done }
    }

    /// Goes to the beginning of another range, or to its end, in the memory that it has.
    pub(super) fn restart(&mut self, start: &[u8], end: &[u8], backward: bool) {
        self.range.start.clear();
        self.range.start.extend_from_slice(start);
        self.range.end.clear();
        self.range.end.extend_from_slice(end);
        (self.backward, self.done) = (backward, self.range.is_empty());
    }

    /// As [`VersionCursor::next_batch`], at the snapshot of commit `at`.
    pub(super) fn next_batch_at(
        &mut self,
        versions: &Versions,
        at: CommitId,
        keys_max: usize,
        batch: &mut VersionBatch,
    ) {
        self.at = at;
        self.next_batch(versions, keys_max, batch);
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
            self.read(versions, keys_max, batch);
        }
    }

    /// As much as one lock allows.
    fn read(&mut self, versions: &Versions, keys_max: usize, batch: &mut VersionBatch) {
        let table = versions.read();
        let mut looked_at = 0;
        let mut last = None;
        let walked = table.walk(&self.range, self.backward, |place| {
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
        match (walked, last) {
            (ControlFlow::Break(()), Some(last)) if self.backward => {
                self.range.end.clear();
                self.range.end.extend_from_slice(last);
                // Nothing is below the empty key, which as an end would mean that there is none.
                self.done = last.is_empty();
            }
            (ControlFlow::Break(()), Some(last)) => {
                self.range.start.clear();
                self.range.start.extend_from_slice(last);
                // The least key above.
                self.range.start.push(0);
            }
            _ => self.done = true,
        }
    }
}
