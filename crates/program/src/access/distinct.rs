//! Gives one row for all rows that have the same values in the first columns of a key.
//!
//! The scan steps over the rows with the same values. If there are many of them, it seeks the key after all of them:
//!
//! ```text
//! entries    bikes 1, bikes 2, ... bikes 870, books 3, books 9, toys 4
//! given      bikes 1 (of 870 rows), books 3 (of 2), toys 4 (of 1)
//! ```
//!
//! So the work grows with the number of distinct values, and never exceeds the work of a plain scan by much. The rows
//! that a seek passes are counted by the pages of the base.

use rowmill_base::{Cancel, Error, IndexId, Result};
use rowmill_plan::program::DistinctKeys;
use rowmill_storage::keyed::KeyRange;
use rowmill_txn::keyed::{IndexEntry, IndexOrder, IndexScan, KeyedReader, RangeScan, TableCodec};

use super::columns::FoundBytes;
use super::{AccessScratch, CompiledAccess, FoundEntry, RowTaker, Unread};
use crate::pace::given_up;

/// Rows with the same values that the scan steps over before it seeks the next values. A seek takes as long as this
/// number of steps, within a factor of two (1 to 2 us against 40 ns). After many rows of one group, the next group
/// probably has many too, so the scan steps over fewer.
const STEPS_MAX: usize = 24;

/// The entries of a range of a key.
struct Entries<'s> {
    codec: &'s TableCodec,
    index: Option<IndexId>,
    backward: bool,
    reader: &'s KeyedReader<'s>,
    scan: &'s mut RangeScan,
    index_scan: &'s mut IndexScan,
}

impl Entries<'_> {
    fn start(&mut self, range: &KeyRange, first: usize) -> Result<()> {
        match self.index {
            None => self.scan.start(&range.start, &range.end, self.backward, first),
            Some(index) => {
                self.index_scan.start(self.codec, index, range, self.backward, first, IndexOrder::Kept)?;
            }
        }
        Ok(())
    }

    /// The next entry of an index, or the next key and its row.
    fn next(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        if self.index.is_none() {
            return self.scan.next(self.reader);
        }
        match self.index_scan.next(self.codec, self.reader)? {
            None => Ok(None),
            Some(IndexEntry::Whole(entry)) => Ok(Some((entry, &[]))),
            // Shortened entries with the same beginning may have different values.
            Some(IndexEntry::Row(..)) => Err(given_up("a statement with one row for each of several long values")),
        }
    }

    fn pass(&mut self, rows_max: usize) -> Result<usize> {
        match self.index {
            None => self.scan.pass(self.reader, rows_max),
            Some(_) => self.index_scan.pass(self.codec, self.reader, rows_max),
        }
    }
}

impl CompiledAccess {
    /// Reads the range that `scratch` holds and gives one row for each combination of values.
    pub(super) fn run_distinct(
        &self,
        distinct: DistinctKeys,
        reader: &KeyedReader<'_>,
        scratch: &mut AccessScratch,
        cancel: &Cancel,
        taker: &mut impl RowTaker,
    ) -> Result<bool> {
        let (head, key_codec) = self.codec.keys(self.index)?;
        let AccessScratch { key, row, next, next_row, range, longer, scan, index_scan, values, .. } = scratch;
        let (codec, index, backward) = (&*self.codec, self.index, self.backward);
        let mut entries = Entries { codec, index, backward, reader, scan, index_scan };
        let mut steps = STEPS_MAX;
        entries.start(range, steps + 1)?;
        let mut has_next = copy_entry(entries.next()?, next, next_row);
        while has_next {
            std::mem::swap(key, next);
            std::mem::swap(row, next_row);
            let own = key.get(head.len()..).ok_or_else(|| Error::corrupt("a key ends before its first column"))?;
            let same = &key[..head.len() + key_codec.prefix_bytes(own, distinct.columns)?];
            let mut rows = 1;
            has_next = loop {
                match entries.next()? {
                    None => break false,
                    Some((entry, entry_row)) if !entry.starts_with(same) => {
                        steps = (2 * steps).min(STEPS_MAX);
                        break copy_entry(Some((entry, entry_row)), next, next_row);
                    }
                    Some(_) if rows < steps => rows += 1,
                    Some(_) => {
                        // Many rows have these values: count them by pages, and seek the first row after them.
                        longer.set_prefix(same);
                        if distinct.counts {
                            rows = count_in_both(range, longer, &mut entries, cancel)?;
                        }
                        match backward {
                            true => range.end.clone_from(&longer.start),
                            false => range.start.clone_from(&longer.end),
                        }
                        // Without a key after these values there is no start.
                        if range.is_empty() || !backward && range.start.is_empty() {
                            break false;
                        }
                        steps = (steps / 4).max(1);
                        entries.start(range, steps + 1)?;
                        break copy_entry(entries.next()?, next, next_row);
                    }
                }
            };
            let found = if self.index.is_none() { FoundBytes::Row(key, row) } else { FoundBytes::Entry(key) };
            if !taker.take(FoundEntry { rows, ..self.found(found, values) }, false)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// The number of entries that are in both ranges.
fn count_in_both(range: &KeyRange, of_values: &KeyRange, entries: &mut Entries<'_>, cancel: &Cancel) -> Result<usize> {
    let start = range.start.clone().max(of_values.start.clone());
    let end = match (range.end.is_empty(), of_values.end.is_empty()) {
        (true, _) => &of_values.end,
        (_, true) => &range.end,
        _ => (&range.end).min(&of_values.end),
    };
    entries.start(&KeyRange { start, end: end.clone() }, 1)?;
    let mut unread = Unread::new(usize::MAX, cancel);
    unread.pass(|rows| entries.pass(rows))?;
    Ok(usize::MAX - unread.rows)
}

/// Copies an entry, because the scan reuses its buffers. Returns whether there is one.
fn copy_entry(entry: Option<(&[u8], &[u8])>, key: &mut Vec<u8>, row: &mut Vec<u8>) -> bool {
    let Some((found_key, found_row)) = entry else { return false };
    key.clear();
    key.extend_from_slice(found_key);
    row.clear();
    row.extend_from_slice(found_row);
    true
}
