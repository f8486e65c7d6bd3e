//! What a transaction has read of keyed tables that nobody may have written when it commits: keys, and ranges as far as they
//! were read.
//!
//! A read is noted with its snapshot. Memory has a bound: beyond it the reads of each index become one range from the first
//! to the last of them, which others conflict with more often than with what was read, and never less.

use std::collections::BTreeMap;

use parking_lot::Mutex;
use rowmill_base::{CommitId, Reservation, TableId};
use rowmill_storage::keyed::{ByteRows, KeyRange};

use super::table_codec::HEAD_BYTES;
use super::versions_by_index::VersionsByIndex;

/// Bytes of keys and ranges that are kept as they are.
const BYTES_MAX: usize = 1 << 20;
/// Bytes of memory beyond those of keys.
const READ_BYTES: usize = 32;
/// Memory is counted in pieces of so many bytes.
const COUNTED_BYTES: usize = 64 << 10;

/// See the module. Threads that read for one transaction share it.
#[derive(Debug)]
pub(crate) struct ReadSet {
    reads: Mutex<Reads>,
}

#[derive(Debug)]
struct Reads {
    keys: ByteRows,
    /// Of each key.
    found: Vec<KeyRead>,
    ranges: Vec<ReadRange>,
    /// What has become of the others: few.
    wide: Vec<ReadRange>,
    /// Columnar tables, whose rows are looked at as a whole.
    tables: Vec<TableId>,
    /// How often they have.
    collapses: u64,
    bytes: usize,
    memory: Reservation,
}

/// How a key was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct KeyRead {
    snapshot: CommitId,
    /// Whether it may be written, if only it is there.
    is_presence: bool,
}

#[derive(Clone, Debug)]
struct ReadRange {
    range: KeyRange,
    snapshot: CommitId,
}

/// A range that is read on.
#[derive(Clone, Copy, Debug)]
pub(super) struct NotedRange {
    at: usize,
    collapses: u64,
}

impl ReadSet {
    pub(crate) fn new(memory: Reservation) -> ReadSet {
        let reads = Reads {
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

    /// A key was read in the snapshot of commit `snapshot`.
    pub(crate) fn note_key(&self, key: &[u8], snapshot: CommitId) {
        self.note(key, KeyRead { snapshot, is_presence: false });
    }

    /// A key was found, which others may write but not delete.
    pub(crate) fn note_presence(&self, key: &[u8], snapshot: CommitId) {
        self.note(key, KeyRead { snapshot, is_presence: true });
    }

    fn note(&self, key: &[u8], read: KeyRead) {
        let mut reads = self.reads.lock();
        let last = reads.keys.len().checked_sub(1);
        let is_last = last.is_some_and(|last| {
            reads.keys.get(last) == key && (read.is_presence || reads.found[last].is_presence == read.is_presence)
        });
        // Snapshots only grow, so that what was noted before has an older one.
        if is_last || reads.wide.iter().any(|wide| wide.range.contains(key)) {
            return;
        }
        reads.keys.push(key);
        reads.found.push(read);
        reads.take(key.len());
    }

    /// A columnar table was read.
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

    /// A range was read.
    pub(crate) fn note_range(&self, range: KeyRange, snapshot: CommitId) {
        let mut reads = self.reads.lock();
        let bytes = range.start.len() + range.end.len();
        reads.ranges.push(ReadRange { range, snapshot });
        reads.take(bytes);
    }

    /// `whole` was read from its beginning, or from its end, up to `last`; without one to the other end. `noted` is what the
    /// last call for this range has given.
    pub(super) fn note_passed(
        &self,
        noted: Option<NotedRange>,
        whole: &KeyRange,
        last: Option<&[u8]>,
        backward: bool,
        snapshot: CommitId,
    ) -> NotedRange {
        let mut reads = self.reads.lock();
        let known = noted.filter(|noted| noted.collapses == reads.collapses);
        let noted = known.unwrap_or(NotedRange { at: reads.ranges.len(), collapses: reads.collapses });
        if known.is_none() {
            reads.ranges.push(ReadRange { range: whole.clone(), snapshot });
            reads.take(2 * (whole.start.len() + whole.end.len()));
        }
        // What was taken may have made ranges wide, this one among them.
        if noted.collapses == reads.collapses {
            reads.ranges[noted.at].range.set_passed(whole, last, backward);
        }
        noted
    }

    /// A key that was read and was written behind its snapshot, if there is one.
    pub(crate) fn find_written(&self, versions: &VersionsByIndex, latest: CommitId) -> Option<Vec<u8>> {
        let reads = self.reads.lock();
        let is_written = |key: &[u8], read: &KeyRead| match read.is_presence {
            true => versions.of_key(key).is_deleted_after(key, read.snapshot),
            false => versions.of_key(key).latest_commit(key).is_some_and(|commit| commit > read.snapshot),
        };
        let mut keys = reads.keys.iter().zip(&reads.found).filter(|(_, read)| read.snapshot != latest);
        let key = keys.find(|(key, read)| is_written(key, read)).map(|(key, _)| key.to_vec());
        key.or_else(|| {
            let mut ranges = reads.ranges.iter().chain(&reads.wide).filter(|read| read.snapshot != latest);
            ranges.find_map(|read| versions.changed_in(&read.range, read.snapshot))
        })
    }

    /// Whether anything is noted.
    pub(crate) fn is_empty(&self) -> bool {
        let reads = self.reads.lock();
        reads.keys.is_empty() && reads.ranges.is_empty() && reads.wide.is_empty()
    }
}

impl Reads {
    /// Counts one more read.
    fn take(&mut self, bytes: usize) {
        self.bytes += READ_BYTES + bytes;
        if self.bytes > BYTES_MAX {
            self.collapse();
        }
        // It has a bound, and cannot be done without.
        self.memory.recount(self.bytes.next_multiple_of(COUNTED_BYTES) as u64);
    }

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

    use super::*;

    fn key(n: u32) -> Vec<u8> {
        [&b"K\0\0\0\x01"[..], &n.to_be_bytes()].concat()
    }

    fn set(broker: &Broker) -> ReadSet {
        ReadSet::new(broker.reservation("reads"))
    }

    /// The versions of commits that wrote one key each.
    fn written(keys: &[(u32, u64)]) -> VersionsByIndex {
        let versions = VersionsByIndex::new();
        for (n, commit) in keys {
            versions.of_key(&key(*n)).apply(CommitId(*commit), [(&key(*n)[..], None)], CommitId(0));
        }
        versions
    }

    #[test]
    fn ranges_are_noted_as_far_as_they_are_read() {
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
            // A commit that the snapshot has is none behind it.
            assert_eq!(set.find_written(&written(&[(12, 4)]), CommitId(6)), None);
        }
    }

    #[test]
    fn many_reads_become_few_ranges_that_have_them_all() {
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
