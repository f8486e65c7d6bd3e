//! Rows that are looked up together by their keys.
//!
//! A look-up in a large base mostly waits for memory. Looking up several rows at once lets them wait together
//! (`base/tree/lookups.rs`).

use rowmill_storage::keyed::ByteRows;

/// Keys, and the rows that a [`KeyedReader`](super::KeyedReader) found for them. It should be filled again and again,
/// because it keeps its memory.
#[derive(Debug, Default)]
pub struct RowLookups {
    pub(super) keys: ByteRows,
    pub(super) found: FoundRows,
    /// The keys that are looked up in the base.
    pub(super) of_base: Vec<usize>,
    /// A buffer for one row.
    pub(super) row: Vec<u8>,
}

/// The rows of some keys, in the order in which they were found.
#[derive(Debug, Default)]
pub(super) struct FoundRows {
    bytes: Vec<u8>,
    /// The start and the end of the row of each key; `None` if the key has no row.
    places: Vec<Option<(usize, usize)>>,
}

impl FoundRows {
    /// Sets the row of the key at place `at`.
    pub(super) fn set(&mut self, at: usize, row: &[u8]) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(row);
        self.places[at] = Some((start, self.bytes.len()));
    }

    pub(super) fn has(&self, at: usize) -> bool {
        self.places[at].is_some()
    }
}

impl RowLookups {
    /// Removes all keys and rows.
    pub fn clear(&mut self) {
        self.keys.clear();
        self.found.bytes.clear();
        self.found.places.clear();
    }

    /// The number of keys.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Whether there are no keys.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Adds a key to look up.
    pub fn push(&mut self, key: &[u8]) {
        self.keys.push(key);
        self.found.places.push(None);
    }

    /// Adds a key whose row is known.
    pub fn push_found(&mut self, key: &[u8], row: &[u8]) {
        self.push(key);
        self.found.set(self.keys.len() - 1, row);
    }

    /// The key at place `at`, and its row if it has one.
    pub fn get(&self, at: usize) -> (&[u8], Option<&[u8]>) {
        (self.keys.get(at), self.found.places[at].map(|(start, end)| &self.found.bytes[start..end]))
    }
}
