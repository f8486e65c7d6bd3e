//! Shortened entries of an index that begin with the same bytes, in the order of the values in their rows.
//!
//! The index stores such entries in the order of hashes. Rows with equal values have equal hashes, so their entries are
//! adjacent, in the order of primary keys. So only the distinct values need sorting. We read each value once from its
//! row, sort the values, and then read the entries of each value where they are:
//!
//! ```text
//! stored    p h1 4 | p h1 9 | p h2 1 | p h3 5 | p h3 6
//! values    h1: p..c          h2: p..a  h3: p..b              ->   p h2 1 | p h3 5 | p h3 6 | p h1 4 | p h1 9
//! ```
//!
//! Memory is bounded. If there are too many values, we keep the first ones in order. After those were returned, we read
//! all entries again to find the next ones.

use std::collections::BTreeMap;

use rowmill_base::{Error, ErrorKind, Result};
use rowmill_storage::keyed::{KeyRange, SHORT_BYTES};

use super::index_codec::IndexCodec;
use super::index_scan::FoundRow;
use super::range_scan::RangeScan;
use super::reader::KeyedReader;
use super::table_codec::{HEAD_BYTES, TableCodec};

/// The most bytes of values that are sorted together.
const VALUES_BYTES_MAX: usize = 4 << 20;

/// Approximate overhead in bytes of a value and its prefix.
const VALUE_BYTES: usize = 96;

/// The most entries to sort for [`IndexOrder::FewAlike`](super::IndexOrder::FewAlike).
const FEW_ENTRIES: usize = 10_000;

/// A scan of shortened entries with the same prefix, in the order of their values. It should be started again and
/// again, because it keeps its memory.
#[derive(Debug, Default)]
pub(super) struct Alike {
    is_started: bool,
    backward: bool,
    is_few: bool,
    /// The prefix of all entries.
    beginning: Vec<u8>,
    /// The complete columns of the values still to come, each with the prefix of its entries.
    values: BTreeMap<Vec<u8>, Vec<u8>>,
    bytes: usize,
    /// Whether there are values after those in `values`.
    has_more: bool,
    /// The complete columns whose entries are being read. All values before them were returned. `None` at first.
    given: Option<Vec<u8>>,
    is_reading: bool,
    scan: RangeScan,
}

impl Alike {
    /// Starts a scan of the entries that begin with `beginning`. With `is_few`, more than [`FEW_ENTRIES`] are an error.
    pub(super) fn start(&mut self, beginning: &[u8], backward: bool, is_few: bool) {
        self.stop();
        (self.is_started, self.backward, self.is_few) = (true, backward, is_few);
        self.beginning.clear();
        self.beginning.extend_from_slice(beginning);
        self.has_more = true;
    }

    pub(super) fn stop(&mut self) {
        self.values.clear();
        (self.bytes, self.given, self.is_reading, self.is_started) = (0, None, false, false);
    }

    pub(super) fn is_started(&self) -> bool {
        self.is_started
    }

    /// Sets `found` to the next row whose complete entry is in `asked`, if `asked` is set. Returns `false` after the
    /// last row.
    pub(super) fn next(
        &mut self,
        codec: &TableCodec,
        index: &IndexCodec,
        reader: &KeyedReader<'_>,
        asked: Option<&KeyRange>,
        found: &mut FoundRow,
    ) -> Result<bool> {
        loop {
            // 1. Read the entries of the current value.
            while self.is_reading {
                let Some((entry, _)) = self.scan.next(reader)? else {
                    self.is_reading = false;
                    break;
                };
                found.get(codec, index.def.id, entry, reader)?;
                let is_asked = is_asked(codec, index, asked, found)?;
                // Rows with another value may have the same hash, so compare the complete columns.
                if is_asked && self.given.as_deref() == Some(&found.columns[..]) {
                    return Ok(true);
                }
            }
            // 2. Find the next values, if all known ones were read.
            if self.values.is_empty() && self.has_more {
                self.gather(codec, index, reader, asked, found)?;
            }
            // 3. Start with the next value.
            let next = if self.backward { self.values.pop_last() } else { self.values.pop_first() };
            let Some((columns, kept)) = next else {
                self.stop();
                return Ok(false);
            };
            let kept = KeyRange::of_prefix(&kept);
            self.scan.start(&kept.start, &kept.end, self.backward, usize::MAX);
            (self.given, self.is_reading) = (Some(columns), true);
        }
    }

    /// Finds the next values: reads all entries, and keeps the first values in order that were not returned yet.
    fn gather(
        &mut self,
        codec: &TableCodec,
        index: &IndexCodec,
        reader: &KeyedReader<'_>,
        asked: Option<&KeyRange>,
        found: &mut FoundRow,
    ) -> Result<()> {
        (self.has_more, self.bytes) = (false, 0);
        let all = KeyRange::of_prefix(&self.beginning);
        self.scan.start(&all.start, &all.end, false, usize::MAX);
        let mut entries = 0;
        while let Some((entry, _)) = self.scan.next(reader)? {
            entries += 1;
            if self.is_few && entries > FEW_ENTRIES {
                return Err(too_many(codec, index, entry));
            }
            found.get(codec, index.def.id, entry, reader)?;
            if !is_asked(codec, index, asked, found)? {
                continue;
            }
            let is_given = self.given.as_ref().is_some_and(|given| match self.backward {
                true => found.columns >= *given,
                false => found.columns <= *given,
            });
            // Skip values that were returned before or are known already.
            if is_given || self.values.contains_key(&found.columns) {
                continue;
            }
            let kept = entry[..HEAD_BYTES + SHORT_BYTES].to_vec();
            self.bytes += bytes_of(&found.columns, &kept);
            self.values.insert(found.columns.clone(), kept);
            // Too many values: drop the last ones in order. A later call finds them again.
            while self.bytes > VALUES_BYTES_MAX && self.values.len() > 1 {
                let last = if self.backward { self.values.pop_first() } else { self.values.pop_last() };
                self.bytes -= last.map_or(0, |(columns, kept)| bytes_of(&columns, &kept));
                self.has_more = true;
            }
        }
        Ok(())
    }
}

fn bytes_of(columns: &[u8], kept: &[u8]) -> usize {
    columns.len() + kept.len() + VALUE_BYTES
}

/// Makes the complete columns of the found row. Returns whether they are in the range `asked`.
fn is_asked(codec: &TableCodec, index: &IndexCodec, asked: Option<&KeyRange>, found: &mut FoundRow) -> Result<bool> {
    match asked {
        None => found.make_columns(codec, index).map(|()| true),
        Some(asked) => found.is_in(codec, index, asked),
    }
}

#[cold]
fn too_many(codec: &TableCodec, index: &IndexCodec, entry: &[u8]) -> Error {
    let (name, table, said) = (&index.def.name, &codec.def().name, codec.say(entry));
    let what = format!("order by index {name} of table {table}: more than {FEW_ENTRIES} entries begin like {said}");
    Error::new(ErrorKind::Unsupported, what).hint("leave out ORDER BY, or use one that this index does not provide")
}
