//! Shortened entries of an index that begin with the same bytes, in the order of the values that their rows have.
//!
//! They are kept in the order of hashes. Where rows have the same values, hashes are the same too, and their entries lie side
//! by side in the order of primary keys; so what has to be put in order are the different values, each of which is found in
//! its rows once, and then the entries of each are read where they are:
//!
//! ```text
//! kept      p h1 4 | p h1 9 | p h2 1 | p h3 5 | p h3 6
//! values    h1: p..c          h2: p..a  h3: p..b              ->   p h2 1 | p h3 5 | p h3 6 | p h1 4 | p h1 9
//! ```
//!
//! Memory has a bound: of more values the first ones in order are kept, and when those were given all entries are gone through
//! again for the next ones.

use std::collections::BTreeMap;

use rowmill_base::{Error, ErrorKind, Result};
use rowmill_storage::keyed::{KeyRange, SHORT_BYTES};

use super::index_codec::IndexCodec;
use super::index_scan::FoundRow;
use super::range_scan::RangeScan;
use super::reader::Reader;
use super::table_codec::{HEAD_BYTES, TableCodec};

/// Bytes of values that are put in order at a time.
const VALUES_BYTES_MAX: usize = 4 << 20;

/// Bytes of memory beyond those of a value and its entry's beginning.
const VALUE_BYTES: usize = 96;

/// Entries that are put in order in passing.
const FEW_ENTRIES: usize = 10_000;

/// See the module. Made to be started again and again.
#[derive(Debug, Default)]
pub(super) struct Alike {
    is_started: bool,
    backward: bool,
    is_few: bool,
    /// What all entries begin with.
    beginning: Vec<u8>,
    /// Whole columns that are yet to come, and what their entries begin with.
    values: BTreeMap<Vec<u8>, Vec<u8>>,
    bytes: usize,
    /// Whether there are values behind those.
    has_more: bool,
    /// The whole columns whose entries are read; those before were given. Nothing before the first.
    given: Option<Vec<u8>>,
    is_reading: bool,
    scan: RangeScan,
}

impl Alike {
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

    /// Sets `found` to the next row whose whole entry is in `asked`, if that is there; `false` behind the last.
    pub(super) fn next(
        &mut self,
        codec: &TableCodec,
        index: &IndexCodec,
        reader: &Reader<'_>,
        asked: Option<&KeyRange>,
        found: &mut FoundRow,
    ) -> Result<bool> {
        loop {
            while self.is_reading {
                let Some((entry, _)) = self.scan.next(reader)? else {
                    self.is_reading = false;
                    break;
                };
                found.get(codec, index.def.id, entry, reader)?;
                let is_asked = is_asked(codec, index, asked, found)?;
                // Other values may have the same hash.
                if is_asked && self.given.as_deref() == Some(&found.columns[..]) {
                    return Ok(true);
                }
            }
            if self.values.is_empty() && self.has_more {
                self.gather(codec, index, reader, asked, found)?;
            }
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

    /// Finds the next values.
    fn gather(
        &mut self,
        codec: &TableCodec,
        index: &IndexCodec,
        reader: &Reader<'_>,
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
            if is_given || self.values.contains_key(&found.columns) {
                continue;
            }
            let kept = entry[..HEAD_BYTES + SHORT_BYTES].to_vec();
            self.bytes += bytes_of(&found.columns, &kept);
            self.values.insert(found.columns.clone(), kept);
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

/// Makes the whole columns of what was found, and says whether that is asked for.
fn is_asked(codec: &TableCodec, index: &IndexCodec, asked: Option<&KeyRange>, found: &mut FoundRow) -> Result<bool> {
    match asked {
        None => found.make_columns(codec, index).map(|()| true),
        Some(asked) => found.is_in(codec, index, asked),
    }
}

#[cold]
fn too_many(codec: &TableCodec, index: &IndexCodec, entry: &[u8]) -> Error {
    let (name, table, said) = (&index.def.name, &codec.def().name, codec.say(entry));
    let what =
        format!("in order by index {name} of table {table}: more than {FEW_ENTRIES} entries begin as {said} does");
    Error::new(ErrorKind::Unsupported, what).hint("leave out the order, or make it one that the index does not give")
}
