//! The reads of a transaction in keyed tables that no other transaction may have written when it commits: keys, and
//! ranges as far as they were read.
//!
//! Each read is recorded with its snapshot. Memory is bounded: beyond the bound, the reads of each index collapse into
//! one range from the first to the last of them. Such a range may report conflicts with keys that were not read, but
//! never misses one.

use std::collections::BTreeMap;

use parking_lot::Mutex;
use rowmill_base::{CommitId, Reservation, TableId};
use rowmill_storage::keyed::{ByteRows, KeyRange};

use super::table_codec::HEAD_BYTES;
use super::versions_by_index::VersionsByIndex;

/// The most bytes of keys and ranges before they collapse. They hold some twenty thousand reads of keys of 16 bytes,
/// with [`READ_BYTES`] for each.
const BYTES_MAX: usize = 1 << 20;
/// Approximate overhead in bytes of a read beyond its keys.
const READ_BYTES: usize = 32;
/// The unit of memory accounting, in bytes. A set asks the broker sixteen times until it has [`BYTES_MAX`].
const COUNTED_BYTES: usize = 64 << 10;

/// The reads of one transaction. All threads that read for the transaction share it.
#[derive(Debug)]
pub(crate) struct ReadSet {
    reads: Mutex<NotedReads>,
}

#[derive(Debug)]
struct NotedReads {
    keys: ByteRows,
    /// How each key was read.
    found: Vec<KeyRead>,
    ranges: Vec<ReadRange>,
    /// The collapsed reads: at most one range per index.
    wide: Vec<ReadRange>,
    /// Columnar tables that were read. A conflict is judged for the whole table.
    tables: Vec<TableId>,
    /// The number of times that reads have collapsed.
    collapses: u64,
    bytes: usize,
    memory: Reservation,
}

/// How a key was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct KeyRead {
    snapshot: CommitId,
    /// Whether the read only requires that the key exists, so that other transactions may change its row.
    is_presence: bool,
}

#[derive(Clone, Debug)]
struct ReadRange {
    range: KeyRange,
    snapshot: CommitId,
}

/// A recorded range whose scan continues.
#[derive(Clone, Copy, Debug)]
pub(super) struct NotedRange {
    at: usize,
    collapses: u64,
}

impl ReadSet {
    pub(crate) fn new(memory: Reservation) -> ReadSet {
        let reads = NotedReads {
            keys: ByteRows::new(),
            found: Vec::new(),
            ranges: Vec::new(),
            wide: Vec::new(),
            tables: Vec::new(),
            collapses: 0,
            bytes: 0,
            memory,
        };
        ReadSet { reads: Mutex::new(reads) }
    }

    /// Records that a key was read in the snapshot of commit `snapshot`.
    pub(crate) fn note_key(&self, key: &[u8], snapshot: CommitId) {
        self.note(key, KeyRead { snapshot, is_presence: false });
    }

    /// Records that a key was found. Other transactions may change its row but must not delete it.
    pub(crate) fn note_presence(&self, key: &[u8], snapshot: CommitId) {
        self.note(key, KeyRead { snapshot, is_presence: true });
    }

    fn note(&self, key: &[u8], read: KeyRead) {
        let mut reads = self.reads.lock();
        let last = reads.keys.len().checked_sub(1);
        let is_last = last.is_some_and(|last| {
            reads.keys.get(last) == key && (read.is_presence || reads.found[last].is_presence == read.is_presence)
        });
        // Skip a key that is already covered. Snapshots only grow, so the earlier record has an older one and is
        // stricter.
        if is_last || reads.wide.iter().any(|wide| wide.range.contains(key)) {
            return;
        }
        reads.keys.push(key);
        reads.found.push(read);
        reads.take(key.len());
    }

    /// Records that a columnar table was read.
    pub(crate) fn note_table(&self, table: TableId) {
        let mut reads = self.reads.lock();
        if !reads.tables.contains(&table) {
            reads.tables.push(table);
        }
    }

    /// The columnar tables that were read.
    pub(crate) fn tables(&self) -> Vec<TableId> {
        self.reads.lock().tables.clone()
    }

    /// Records that a range was read.
    pub(crate) fn note_range(&self, range: KeyRange, snapshot: CommitId) {
        let mut reads = self.reads.lock();
        let bytes = range.start.len() + range.end.len();
        reads.ranges.push(ReadRange { range, snapshot });
        reads.take(bytes);
    }

    /// Records that `whole` was read from its start (or backward from its end) up to `last`, or completely if `last` is
    /// `None`. `noted` must be the result of the previous call for this scan.
    pub(super) fn note_passed(
        &self,
        noted: Option<NotedRange>,
        whole: &KeyRange,
        last: Option<&[u8]>,
        backward: bool,
        snapshot: CommitId,
    ) -> NotedRange {
        let mut reads = self.reads.lock();
        // After a collapse the recorded range is part of a wide one, so the scan must record its range again.
        let known = noted.filter(|noted| noted.collapses == reads.collapses);
        let noted = known.unwrap_or(NotedRange { at: reads.ranges.len(), collapses: reads.collapses });
        if known.is_none() {
            reads.ranges.push(ReadRange { range: whole.clone(), snapshot });
            reads.take(2 * (whole.start.len() + whole.end.len()));
        }
        // The call of `take` may have collapsed the ranges, including this one. Then it is covered already.
        if noted.collapses == reads.collapses {
            reads.ranges[noted.at].range.set_passed(whole, last, backward);
        }
        noted
    }

    /// Returns a key that was read and that a commit wrote after the snapshot of the read, if there is one. Reads in
    /// the snapshot `latest` need no check, because no commit follows it.
    pub(crate) fn find_written(&self, versions: &VersionsByIndex, latest: CommitId) -> Option<Vec<u8>> {
        let reads = self.reads.lock();
        let is_written = |key: &[u8], read: &KeyRead| match read.is_presence {
            true => versions.of_key(key).is_deleted_after(key, read.snapshot),
            false => versions.of_key(key).latest_commit(key).is_some_and(|commit| commit > read.snapshot),
        };
        // Check keys first: each takes one look-up, while a range takes a scan.
        let mut keys = reads.keys.iter().zip(&reads.found).filter(|(_, read)| read.snapshot != latest);
        let key = keys.find(|(key, read)| is_written(key, read)).map(|(key, _)| key.to_vec());
        key.or_else(|| {
            let mut ranges = reads.ranges.iter().chain(&reads.wide).filter(|read| read.snapshot != latest);
            ranges.find_map(|read| versions.changed_in(&read.range, read.snapshot))
        })
    }

    /// Whether nothing was recorded in keyed tables.
    pub(crate) fn is_empty(&self) -> bool {
        let reads = self.reads.lock();
        reads.keys.is_empty() && reads.ranges.is_empty() && reads.wide.is_empty()
    }
}

impl NotedReads {
    /// Counts the memory of one more read.
    fn take(&mut self, bytes: usize) {
        self.bytes += READ_BYTES + bytes;
        if self.bytes > BYTES_MAX {
            self.collapse();
        }
        // The memory is bounded and cannot be refused, so only account for it.
        self.memory.recount(self.bytes.next_multiple_of(COUNTED_BYTES) as u64);
    }

    /// Replaces all reads by one range per index, which covers them and has the oldest of their snapshots.
    fn collapse(&mut self) {
        let mut by_index: BTreeMap<Vec<u8>, ReadRange> = BTreeMap::new();
        let point = |(key, read): (&[u8], &KeyRead)| {
            let range = KeyRange { start: key.to_vec(), end: [key, &[0]].concat() };
            ReadRange { range, snapshot: read.snapshot }
        };
        let points = self.keys.iter().zip(&self.found).map(point);
        for read in points.chain(self.ranges.drain(..)).chain(self.wide.drain(..)) {
            if read.range.is_empty() {
                continue;
            }
            // The head names the index, so ranges of different indexes never merge.
            let head = read.range.start[..HEAD_BYTES.min(read.range.start.len())].to_vec();
            match by_index.get_mut(&head) {
                Some(wide) => wide.cover(read),
                None => drop(by_index.insert(head, read)),
            }
        }
        self.wide = by_index.into_values().collect();
        (self.keys, self.found) = (ByteRows::new(), Vec::new());
        self.bytes = self.wide.iter().map(|wide| READ_BYTES + wide.range.start.len() + wide.range.end.len()).sum();
        self.collapses += 1;
    }
}

impl ReadRange {
    /// Extends the range to cover `other`.
    fn cover(&mut self, other: ReadRange) {
        let (own, other_range) = (&mut self.range, other.range);
        if other_range.start < own.start {
            own.start = other_range.start;
        }
        if other_range.end.is_empty() || (!own.end.is_empty() && other_range.end > own.end) {
            own.end = other_range.end;
        }
        self.snapshot = self.snapshot.min(other.snapshot);
    }
}

#[cfg(test)]
mod tests {
    use rowmill_base::Broker;

    use rowmill_io::OverflowMemory;

    use super::*;

    fn key(n: u32) -> Vec<u8> {
        [&b"K\0\0\0\x01"[..], &n.to_be_bytes()].concat()
    }

    fn set(broker: &Broker) -> ReadSet {
        ReadSet::new(broker.reservation("reads"))
    }

    /// The versions of commits that each deleted one key.
    fn written(keys: &[(u32, u64)]) -> VersionsByIndex {
        let versions = VersionsByIndex::new(&OverflowMemory::default());
        for (n, commit) in keys {
            versions.of_key(&key(*n)).apply(CommitId(*commit), [(&key(*n)[..], None)], CommitId(0));
        }
        versions
    }

    #[test]
    fn ranges_are_recorded_as_far_as_they_are_read() {
        let broker = Broker::new(1 << 30);
        let whole = KeyRange { start: key(10), end: key(20) };
        let found = |set: &ReadSet, n| set.find_written(&written(&[(n, 5)]), CommitId(5)).is_some();
        for (backward, inside, outside) in [(false, 12, 13), (true, 17, 16)] {
            let set = set(&broker);
            let mut noted = None;
            for passed in [inside.min(18), inside] {
                noted = Some(set.note_passed(noted, &whole, Some(&key(passed)), backward, CommitId(4)));
            }
            assert!(found(&set, inside) && !found(&set, outside) && !found(&set, 9) && !found(&set, 20));
            set.note_passed(noted, &whole, None, backward, CommitId(4));
            assert!(found(&set, 10) && found(&set, 19) && !found(&set, 9) && !found(&set, 20));
            // The snapshot already includes this commit, so it is no conflict.
            assert_eq!(set.find_written(&written(&[(12, 4)]), CommitId(6)), None);
        }
    }

    #[test]
    fn many_reads_collapse_into_few_ranges_that_cover_them() {
        let broker = Broker::new(1 << 30);
        let set = set(&broker);
        let whole = KeyRange { start: key(500_000), end: key(600_000) };
        let mut noted = None;
        for n in 0..100_000 {
            set.note_key(&key(n * 3), CommitId(4));
            if n % 10 == 0 {
                noted = Some(set.note_passed(noted, &whole, Some(&key(500_000 + n)), false, CommitId(4)));
            }
            assert!(broker.used_bytes() <= (BYTES_MAX + COUNTED_BYTES) as u64);
        }
        for n in [0, 30, 299_997, 500_000, 599_990] {
            assert_eq!(set.find_written(&written(&[(n, 5)]), CommitId(5)), Some(key(n)));
        }
        assert_eq!(set.find_written(&written(&[(700_000, 5)]), CommitId(5)), None);
    }
}
