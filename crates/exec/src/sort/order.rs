//! The order of entries, including entries whose keys go on after them.
//!
//! Many entries with equal first bytes are sorted by their next bytes in the same way, and so on. A prefix that many
//! texts share is therefore read once and not at every comparison. Only few such entries are compared directly.

use std::cmp::Ordering;

use super::entry::{Entry, Wide};
use super::long::{ENTRY_BYTES, LongKeys, bits_of, goes_on};
use super::radix;

/// Up to this number of entries, comparing their remaining bytes is cheaper than sorting by the next bytes, which costs
/// a pass over all of them to read the bytes. With 4 to 64, sorting ClickBench's URLs takes equally long.
const COMPARED_MAX: usize = 16;

/// The order of entries.
pub(super) struct EntryOrder<'a> {
    /// The long keys, by part. `None` if the entries contain the whole keys.
    long: Option<Vec<&'a LongKeys>>,
    descending: bool,
}

impl<'a> EntryOrder<'a> {
    /// Makes the order of keys that fit their entries.
    pub(super) fn of_entries() -> EntryOrder<'a> {
        EntryOrder { long: None, descending: false }
    }

    /// Makes the order of long keys. The places of entries refer to `parts`.
    pub(super) fn of_long(parts: Vec<&'a LongKeys>, descending: bool) -> EntryOrder<'a> {
        EntryOrder { long: Some(parts), descending }
    }

    /// The bytes of an entry's key that do not fit the entry.
    pub(super) fn rest<E: Entry>(&self, entry: E) -> &'a [u8] {
        match &self.long {
            Some(_) if goes_on(entry, self.descending) => self.bytes(entry, ENTRY_BYTES),
            _ => &[],
        }
    }

    /// Compares the keys of two entries. `other` may belong to other parts, so `rest` has the remaining bytes of its
    /// key.
    pub(super) fn compare_keys<E: Entry>(&self, entry: E, other: E, rest: &[u8]) -> Ordering {
        entry.key().cmp(&other.key()).then_with(|| self.compare_bytes(self.rest(entry), rest))
    }

    /// Compares entries. Entries with equal keys compare by their places.
    pub(super) fn compare<E: Entry>(&self, left: E, right: E) -> Ordering {
        match &self.long {
            None => left.cmp(&right),
            Some(_) => self.compare_keys(left, right, self.rest(right)).then_with(|| left.cmp(&right)),
        }
    }

    /// Sorts entries. `scratch` is memory to move them to, which the caller can reuse.
    pub(super) fn sort<E: Entry>(&self, entries: &mut Vec<E>, scratch: &mut Vec<E>) {
        // This sorts by the bytes in the entries. For most keys that is all.
        radix::sort(entries, scratch);
        if self.long.is_none() {
            return;
        }
        for same in entries.chunk_by_mut(|left, right| left.key() == right.key()) {
            if same.len() > 1 && goes_on(same[0], self.descending) {
                self.sort_by_rest(same);
            }
        }
    }

    /// Sorts entries whose keys are equal so far by the remaining bytes of their keys.
    fn sort_by_rest<E: Entry>(&self, entries: &mut [E]) {
        // The next bytes of the keys, above the places.
        let mut nexts: Vec<Wide> = entries.iter().map(|entry| Wide::at(entry.place())).collect();
        // Each item is a range of entries and the number of bytes in which their keys are known to be equal.
        let mut unsorted = vec![(0..nexts.len(), ENTRY_BYTES)];
        while let Some((range, known)) = unsorted.pop() {
            let start = range.start;
            let nexts = &mut nexts[range];
            if nexts.len() <= COMPARED_MAX {
                nexts.sort_unstable_by(|left, right| {
                    self.compare_bytes(self.bytes(*left, known), self.bytes(*right, known))
                        .then_with(|| left.place().cmp(&right.place()))
                });
                continue;
            }
            for next in nexts.iter_mut() {
                let mut entry: Wide = bits_of(0, self.bytes(*next, known), self.descending);
                entry |= Wide::at(next.place());
                *next = entry;
            }
            nexts.sort_unstable();
            // Entries that are still equal and go on are sorted by the bytes after these.
            let mut end = start;
            for same in nexts.chunk_by(|left, right| left.key() == right.key()) {
                end += same.len();
                if same.len() > 1 && goes_on(same[0], self.descending) {
                    unsorted.push((end - same.len()..end, known + ENTRY_BYTES));
                }
            }
        }
        for (entry, next) in entries.iter_mut().zip(nexts) {
            *entry = entry.moved(next.place());
        }
    }

    /// The bytes of a long key after the first `known` bytes.
    fn bytes<E: Entry>(&self, entry: E, known: usize) -> &'a [u8] {
        let place = entry.place();
        let parts = self.long.as_ref().expect("only long keys have bytes");
        &parts[place.part].get(place.row)[known..]
    }

    pub(super) fn compare_bytes(&self, left: &[u8], right: &[u8]) -> Ordering {
        if self.descending { right.cmp(left) } else { left.cmp(right) }
    }
}
