//! A range of an index in order: its entries, and where they are shortened the rows that they name.
//!
//! A range is one of whole keys, as [`KeyCodec::range`](rowmill_storage::keyed::KeyCodec::range) makes them. What the index keeps
//! of long values is read by a range that has all of those and perhaps more, and what it has more is left out by the row's own
//! values:
//!
//! ```text
//! asked     [ 'aaa...ab'                         , 'b'  )
//! kept      [ 'aaa...a'  (1,024 bytes)           , 'b'  )      of entries with that beginning the row is asked
//! ```
//!
//! Entries that begin with the same 1,024 bytes are kept in no order: [`Alike`] puts them in that of their values.

use rowmill_base::{Error, IndexId, Result};
use rowmill_storage::keyed::{KeyRange, RangeFit, SHORT_PREFIX_BYTES};

use super::alike::Alike;
use super::index_codec::IndexCodec;
use super::range_scan::RangeScan;
use super::reader::Reader;
use super::table_codec::{HEAD_BYTES, TableCodec};

/// What entries are given in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IndexOrder {
    /// The order of their bytes, which is that of values but for entries that begin alike: those are given as they are found.
    Kept,
    /// The order of values.
    #[default]
    Values,
    /// The same, by somebody who holds little: `Unsupported` where more entries begin alike than are sorted in passing.
    FewAlike,
}

/// An entry.
#[derive(Debug)]
pub enum IndexEntry<'s> {
    /// Which has the values of all columns of the index and of the primary key.
    Whole(&'s [u8]),
    /// Which has not: the row's key and the row.
    Row(&'s [u8], &'s [u8]),
}

/// A place in a range of an index, as a [`RangeScan`] is one.
#[derive(Debug, Default)]
pub struct IndexScan {
    index: IndexId,
    order: IndexOrder,
    backward: bool,
    scan: RangeScan,
    /// What is read of the index, and what of it is asked for; where the two are the same, `asked` is not set.
    kept: KeyRange,
    asked: KeyRange,
    fit: RangeFit,
    /// The entry that was read last, and whether one was read beyond it.
    entry: Vec<u8>,
    ahead: Vec<u8>,
    is_ahead: bool,
    /// Whether all entries of the range are whole, and asked for.
    is_plain: bool,
    found: FoundRow,
    /// Made for the first entries that begin alike.
    alike: Option<Box<Alike>>,
}

/// The row that an entry names.
#[derive(Debug, Default)]
pub(crate) struct FoundRow {
    pub(super) key: Vec<u8>,
    pub(super) row: Vec<u8>,
    /// What its entry would begin with if it was whole.
    pub(crate) columns: Vec<u8>,
    value: Vec<u8>,
}

/// Which of its buffers has what was found.
enum Found {
    Whole,
    Row,
}

impl IndexScan {
    /// Goes to the first of the keys of `range`, or to the last, to be read downwards. `first` is how many will be asked for, as
    /// far as is known. `UndefinedObject` if the table has no such index.
    pub fn start(
        &mut self,
        codec: &TableCodec,
        index: IndexId,
        range: &KeyRange,
        backward: bool,
        first: usize,
        order: IndexOrder,
    ) -> Result<()> {
        let of_index = codec.index(index)?;
        self.fit = of_index.kept_range(range, &mut self.kept)?;
        if self.fit != RangeFit::Exact {
            self.asked.start.clone_from(&range.start);
            self.asked.end.clone_from(&range.end);
        }
        // Entries of one value are in the order of primary keys.
        self.order = if self.fit == RangeFit::OneValue { IndexOrder::Kept } else { order };
        (self.index, self.backward, self.is_ahead) = (index, backward, false);
        self.is_plain = !of_index.shortens && self.fit == RangeFit::Exact;
        if let Some(alike) = &mut self.alike {
            alike.stop();
        }
        self.scan.start(&self.kept.start, &self.kept.end, backward, first);
        Ok(())
    }

    /// The next entry; `None` at the end of the range. Every call of one scan gets a reader of the same snapshot. `Corrupt` if a
    /// shortened entry names no row.
    #[inline]
    pub fn next(&mut self, codec: &TableCodec, reader: &Reader<'_>) -> Result<Option<IndexEntry<'_>>> {
        if self.is_plain {
            return Ok(self.scan.next(reader)?.map(|(entry, _)| IndexEntry::Whole(entry)));
        }
        if self.fit == RangeFit::Exact && !self.is_ahead && !self.alike.as_ref().is_some_and(|alike| alike.is_started())
        {
            if !self.scan.advance(reader)? {
                return Ok(None);
            }
            if !codec.index(self.index)?.is_short(self.scan.current().0) {
                return Ok(Some(IndexEntry::Whole(self.scan.current().0)));
            }
            self.ahead.clear();
            self.ahead.extend_from_slice(self.scan.current().0);
            self.is_ahead = true;
        }
        Ok(self.advance(codec, reader)?.map(|found| match found {
            Found::Whole => IndexEntry::Whole(&self.entry),
            Found::Row => IndexEntry::Row(&self.found.key, &self.found.row),
        }))
    }

    /// Passes over the next entries, `entries_max` at most, as [`RangeScan::pass`] does.
    pub fn pass(&mut self, codec: &TableCodec, reader: &Reader<'_>, entries_max: usize) -> Result<usize> {
        // Entries that begin alike are many or few in any order.
        match self.is_plain || self.fit == RangeFit::Exact && self.order == IndexOrder::Kept && !self.is_ahead {
            true => self.scan.pass(reader, entries_max),
            false if entries_max == 0 => Ok(0),
            false => Ok(usize::from(self.advance(codec, reader)?.is_some())),
        }
    }

    /// The key and the row that the next entry names. `Corrupt` if there is no such row.
    pub fn next_row(&mut self, codec: &TableCodec, reader: &Reader<'_>) -> Result<Option<(&[u8], &[u8])>> {
        match self.advance(codec, reader)? {
            None => return Ok(None),
            Some(Found::Whole) => self.found.get(codec, self.index, &self.entry, reader)?,
            Some(Found::Row) => {}
        }
        Ok(Some((&self.found.key, &self.found.row)))
    }

    /// The range of entries as they are kept that the scan reads, in [`IndexOrder::Kept`].
    pub(crate) fn kept(&self) -> &KeyRange {
        &self.kept
    }

    /// The entry of the row that was given last, as it is kept, in [`IndexOrder::Kept`].
    pub(crate) fn short_entry(&self) -> &[u8] {
        &self.entry
    }

    fn advance(&mut self, codec: &TableCodec, reader: &Reader<'_>) -> Result<Option<Found>> {
        let index = codec.index(self.index)?;
        loop {
            if let Some(alike) = self.alike.as_mut().filter(|alike| alike.is_started()) {
                let asked = (self.fit != RangeFit::Exact).then_some(&self.asked);
                if alike.next(codec, index, reader, asked, &mut self.found)? {
                    return Ok(Some(Found::Row));
                }
            }
            if !self.take_entry(reader)? {
                return Ok(None);
            }
            if !index.is_short(&self.entry) {
                if self.fit == RangeFit::Exact || self.asked.contains(&self.entry) {
                    return Ok(Some(Found::Whole));
                }
                continue;
            }
            if self.order != IndexOrder::Kept && self.begins_alike(reader)? {
                self.start_alike();
                continue;
            }
            self.found.get(codec, self.index, &self.entry, reader)?;
            if self.fit == RangeFit::Exact || self.found.is_in(codec, index, &self.asked)? {
                return Ok(Some(Found::Row));
            }
        }
    }

    /// Has `entry` be the next one; whether there is one.
    fn take_entry(&mut self, reader: &Reader<'_>) -> Result<bool> {
        if std::mem::take(&mut self.is_ahead) {
            std::mem::swap(&mut self.entry, &mut self.ahead);
            return Ok(true);
        }
        let Some((entry, _)) = self.scan.next(reader)? else { return Ok(false) };
        self.entry.clear();
        self.entry.extend_from_slice(entry);
        Ok(true)
    }

    /// Whether the entry behind the one that was taken, which is shortened, begins as that does.
    fn begins_alike(&mut self, reader: &Reader<'_>) -> Result<bool> {
        let Some((next, _)) = self.scan.next(reader)? else { return Ok(false) };
        let beginning = &self.entry[..HEAD_BYTES + SHORT_PREFIX_BYTES];
        if next.starts_with(beginning) {
            return Ok(true);
        }
        self.ahead.clear();
        self.ahead.extend_from_slice(next);
        self.is_ahead = true;
        Ok(false)
    }

    /// Leaves all entries that begin as the one does that was taken to [`Alike`], and goes behind them.
    fn start_alike(&mut self) {
        let beginning = &self.entry[..HEAD_BYTES + SHORT_PREFIX_BYTES];
        let is_few = self.order == IndexOrder::FewAlike;
        self.alike.get_or_insert_default().start(beginning, self.backward, is_few);
        let alike = KeyRange::of_prefix(beginning);
        match self.backward {
            true => self.kept.end = alike.start,
            false => self.kept.start = alike.end,
        }
        self.scan.start(&self.kept.start, &self.kept.end, self.backward, usize::MAX);
    }
}

impl FoundRow {
    /// Finds the row that `entry` names. `Corrupt` if there is no such row.
    pub(crate) fn get(&mut self, codec: &TableCodec, index: IndexId, entry: &[u8], reader: &Reader<'_>) -> Result<()> {
        codec.row_key(index, entry, &mut self.key)?;
        match reader.get(&self.key, &mut self.row)? {
            true => Ok(()),
            false => Err(without_row(codec, index, entry)),
        }
    }

    /// Makes the whole columns of the row.
    pub(crate) fn make_columns(&mut self, codec: &TableCodec, index: &IndexCodec) -> Result<()> {
        index.columns_of_row(&codec.row(&self.key, &self.row)?, &mut self.columns, &mut self.value)
    }

    /// Whether the row's entry, if it was whole, would be in `range`.
    pub(super) fn is_in(&mut self, codec: &TableCodec, index: &IndexCodec, range: &KeyRange) -> Result<bool> {
        self.make_columns(codec, index)?;
        let columns = self.columns.len();
        self.columns.extend_from_slice(&self.key[HEAD_BYTES..]);
        let is_in = range.contains(&self.columns);
        self.columns.truncate(columns);
        Ok(is_in)
    }
}

#[cold]
fn without_row(codec: &TableCodec, index: IndexId, entry: &[u8]) -> Error {
    let name = codec.index(index).map_or("", |index| &index.def.name[..]);
    let (table, said) = (&codec.def().name, codec.say(entry));
    Error::corrupt(format!("table {table}: the index {name} has {said}, and there is no such row"))
}
