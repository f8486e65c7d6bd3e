//! Scans a range of an index in order: its entries, and for shortened entries the rows that they name.
//!
//! The caller asks for a range of complete keys, as [`KeyCodec::range`](rowmill_storage::keyed::KeyCodec::range) makes
//! them. For long values the scan reads a range of stored entries that covers the asked one and may contain more. It
//! decides by the values of the row which entries to leave out:
//!
//! ```text
//! asked     [ 'aaa...ab'                         , 'b'  )
//! stored    [ 'aaa...a'  (1,024 bytes)           , 'b'  )      entries with this prefix need a look at their row
//! ```
//!
//! Entries with the same first 1,024 bytes are not stored in the order of values. [`Alike`] sorts them.

use rowmill_base::{Error, IndexId, Result};
use rowmill_storage::keyed::{KeyRange, RangeFit, SHORT_PREFIX_BYTES};

use super::alike::Alike;
use super::index_codec::IndexCodec;
use super::range_scan::{RangeScan, RowTest};
use super::reader::KeyedReader;
use super::table_codec::{HEAD_BYTES, TableCodec};

/// The order in which entries are returned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IndexOrder {
    /// The stored order. It is the order of values, except among shortened entries with the same prefix.
    Kept,
    /// The order of values.
    #[default]
    Values,
    /// The order of values, for a caller with little memory. Returns `Unsupported` if too many entries have the same
    /// prefix.
    FewAlike,
}

/// An index entry.
#[derive(Debug)]
pub enum IndexEntry<'s> {
    /// A complete entry, with the values of all columns of the index and of the primary key.
    Whole(&'s [u8]),
    /// For a shortened entry: the key of the row, and the row.
    Row(&'s [u8], &'s [u8]),
}

/// A position in a range of an index, similar to [`RangeScan`] for rows.
#[derive(Debug, Default)]
pub struct IndexScan {
    index: IndexId,
    order: IndexOrder,
    backward: bool,
    scan: RangeScan,
    /// The range of stored entries to read, and the range that was asked for. `asked` is set only if the two differ.
    /// Neither is set if the index never shortens its entries.
    kept: KeyRange,
    asked: KeyRange,
    fit: RangeFit,
    /// The entry that was read last. If `is_ahead` is set, `ahead` has the entry after it, which was read already.
    entry: Vec<u8>,
    ahead: Vec<u8>,
    is_ahead: bool,
    /// Whether the index never shortens its entries, so that all entries of the range are complete and asked for.
    is_plain: bool,
    found: FoundRow,
    /// Created when the first entries with the same prefix come.
    alike: Option<Box<Alike>>,
}

/// The row that an entry names.
#[derive(Debug, Default)]
pub(crate) struct FoundRow {
    pub(super) key: Vec<u8>,
    pub(super) row: Vec<u8>,
    /// The columns of its entry, complete.
    pub(crate) columns: Vec<u8>,
    value: Vec<u8>,
}

/// Where the result of a step is stored.
enum FoundIn {
    Whole,
    Row,
}

impl IndexScan {
    /// Starts at the first key of `range`, or with `backward` at the last one. `first` is the expected number of
    /// entries that the caller will ask for. Returns `UndefinedObject` if the table has no such index.
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
        (self.index, self.backward, self.is_ahead) = (index, backward, false);
        if let Some(alike) = &mut self.alike {
            alike.stop();
        }
        self.is_plain = !of_index.shortens;
        if self.is_plain {
            (self.fit, self.order) = (RangeFit::Exact, order);
            self.scan.start(&range.start, &range.end, backward, first);
            return Ok(());
        }
        self.fit = of_index.kept_range(range, &mut self.kept)?;
        if self.fit != RangeFit::Exact {
            self.asked.start.clone_from(&range.start);
            self.asked.end.clone_from(&range.end);
        }
        // All entries have the same value, so they are stored in the order of primary keys and need no sort.
        self.order = if self.fit == RangeFit::OneValue { IndexOrder::Kept } else { order };
        self.scan.start(&self.kept.start, &self.kept.end, backward, first);
        Ok(())
    }

    /// Returns the next entry, or `None` at the end of the range. All calls of one scan must pass a reader of the same
    /// snapshot. Returns `Corrupt` if a shortened entry names no row.
    #[inline]
    pub fn next(&mut self, codec: &TableCodec, reader: &KeyedReader<'_>) -> Result<Option<IndexEntry<'_>>> {
        if self.is_plain {
            return Ok(self.scan.next(reader)?.map(|(entry, _)| IndexEntry::Whole(entry)));
        }
        // The fast path returns a complete entry without copying it.
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
            FoundIn::Whole => IndexEntry::Whole(&self.entry),
            FoundIn::Row => IndexEntry::Row(&self.found.key, &self.found.row),
        }))
    }

    /// Whether [`next_passing`](Self::next_passing) can be used: all entries of the index are complete.
    pub fn is_plain(&self) -> bool {
        self.is_plain
    }

    /// The next entry that passes `test`, of a scan that [is plain](Self::is_plain). See
    /// [`RangeScan::next_passing`].
    pub fn next_passing(&mut self, reader: &KeyedReader<'_>, test: &mut dyn RowTest) -> Result<Option<&[u8]>> {
        debug_assert!(self.is_plain, "shortened entries must be read as rows");
        Ok(self.scan.next_passing(reader, test)?.map(|(entry, _)| entry))
    }

    /// Skips the next entries, at most `entries_max`, and returns how many it skipped. See [`RangeScan::pass`].
    pub fn pass(&mut self, codec: &TableCodec, reader: &KeyedReader<'_>, entries_max: usize) -> Result<usize> {
        // In the stored order, entries with the same prefix need no sort, so the scan can count them without a look.
        match self.is_plain || self.fit == RangeFit::Exact && self.order == IndexOrder::Kept && !self.is_ahead {
            true => self.scan.pass(reader, entries_max),
            false if entries_max == 0 => Ok(0),
            false => Ok(usize::from(self.advance(codec, reader)?.is_some())),
        }
    }

    /// The key and the row that the next entry names. Returns `Corrupt` if there is no such row.
    pub fn next_row(&mut self, codec: &TableCodec, reader: &KeyedReader<'_>) -> Result<Option<(&[u8], &[u8])>> {
        match self.advance(codec, reader)? {
            None => return Ok(None),
            Some(FoundIn::Whole) => self.found.get(codec, self.index, &self.entry, reader)?,
            Some(FoundIn::Row) => {}
        }
        Ok(Some((&self.found.key, &self.found.row)))
    }

    /// The range of stored entries that the scan reads. Only for [`IndexOrder::Kept`].
    pub(crate) fn kept(&self) -> &KeyRange {
        if self.is_plain { self.scan.whole() } else { &self.kept }
    }

    /// The stored entry of the row that was returned last. Only for [`IndexOrder::Kept`].
    pub(crate) fn short_entry(&self) -> &[u8] {
        &self.entry
    }

    /// Goes to the next entry that was asked for. Returns where it is stored, or `None` at the end of the range.
    fn advance(&mut self, codec: &TableCodec, reader: &KeyedReader<'_>) -> Result<Option<FoundIn>> {
        let index = codec.index(self.index)?;
        loop {
            if let Some(alike) = self.alike.as_mut().filter(|alike| alike.is_started()) {
                let asked = (self.fit != RangeFit::Exact).then_some(&self.asked);
                if alike.next(codec, index, reader, asked, &mut self.found)? {
                    return Ok(Some(FoundIn::Row));
                }
            }
            if !self.take_entry(reader)? {
                return Ok(None);
            }
            if !index.is_short(&self.entry) {
                // The stored range may contain complete entries outside of the asked range.
                if self.fit == RangeFit::Exact || self.asked.contains(&self.entry) {
                    return Ok(Some(FoundIn::Whole));
                }
                continue;
            }
            // Two or more shortened entries with the same prefix need sorting by the values of their rows.
            if self.order != IndexOrder::Kept && self.begins_alike(reader)? {
                self.start_alike();
                continue;
            }
            self.found.get(codec, self.index, &self.entry, reader)?;
            if self.fit == RangeFit::Exact || self.found.is_in(codec, index, &self.asked)? {
                return Ok(Some(FoundIn::Row));
            }
        }
    }

    /// Sets `entry` to the next entry. Returns whether there is one.
    fn take_entry(&mut self, reader: &KeyedReader<'_>) -> Result<bool> {
        if std::mem::take(&mut self.is_ahead) {
            std::mem::swap(&mut self.entry, &mut self.ahead);
            return Ok(true);
        }
        let Some((entry, _)) = self.scan.next(reader)? else { return Ok(false) };
        self.entry.clear();
        self.entry.extend_from_slice(entry);
        Ok(true)
    }

    /// Whether the entry after the current one, which must be shortened, has the same prefix.
    fn begins_alike(&mut self, reader: &KeyedReader<'_>) -> Result<bool> {
        let Some((next, _)) = self.scan.next(reader)? else { return Ok(false) };
        let beginning = &self.entry[..HEAD_BYTES + SHORT_PREFIX_BYTES];
        if next.starts_with(beginning) {
            return Ok(true);
        }
        // The scan is already past this entry, so keep it for the next call.
        self.ahead.clear();
        self.ahead.extend_from_slice(next);
        self.is_ahead = true;
        Ok(false)
    }

    /// Lets [`Alike`] read all entries with the prefix of the current one, and continues after them.
    fn start_alike(&mut self) {
        let beginning = &self.entry[..HEAD_BYTES + SHORT_PREFIX_BYTES];
        let is_few = self.order == IndexOrder::FewAlike;
        self.alike.get_or_insert_default().start(beginning, self.backward, is_few);
        // Cut the entries with this prefix off the rest of the range and restart the scan there.
        let alike = KeyRange::of_prefix(beginning);
        match self.backward {
            true => self.kept.end = alike.start,
            false => self.kept.start = alike.end,
        }
        self.scan.start(&self.kept.start, &self.kept.end, self.backward, usize::MAX);
    }
}

impl FoundRow {
    /// Reads the row that `entry` names. Returns `Corrupt` if there is no such row.
    pub(crate) fn get(
        &mut self,
        codec: &TableCodec,
        index: IndexId,
        entry: &[u8],
        reader: &KeyedReader<'_>,
    ) -> Result<()> {
        codec.row_key(index, entry, &mut self.key)?;
        match reader.get(&self.key, &mut self.row)? {
            true => Ok(()),
            false => Err(without_row(codec, index, entry)),
        }
    }

    /// Makes the complete columns of the row.
    pub(crate) fn make_columns(&mut self, codec: &TableCodec, index: &IndexCodec) -> Result<()> {
        index.columns_of_row(&codec.row(&self.key, &self.row)?, &mut self.columns, &mut self.value)
    }

    /// Whether the row's complete entry is in `range`.
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
    Error::corrupt(format!("table {table}: index {name} has an entry for {said}, but the row does not exist"))
}
