//! A keyed table as a source of the query engine.

use std::sync::Arc;

use arrow::array::ArrayRef;
use rowmill_base::{CommitId, Error, IndexId, Result};
use rowmill_storage::keyed::{ByteRows, KeyRange};
use rowmill_storage::{
    KeyBounds, KeyOrder, KeyRanges, KeyedRows, KeyedSource, RowRunTaker, TableDef, TableSource, TableStatistics,
    place_between,
};

use super::cursor::{CursorPlace, KeyedCursor, RowBatch};
use super::index_scan::IndexOrder;
use super::reader::KeyedView;
use super::row_lookups::RowLookups;
use super::store::KeyedStore;
use super::table_codec::TableCodec;
use crate::keyed_rows::{cursor, next_rows, restart};

/// The most rows to count for an estimate. Counting them takes some milliseconds, once in a while.
const ROWS_COUNTED_MAX: u64 = 100_000;
/// The largest factor by which we extrapolate from the counted rows. A single distant key must not inflate the
/// estimate.
const BEYOND_MAX: f64 = 1_000.0;
/// The number of rows to read at a time. A column of numbers then takes 8 KiB, so that a hundred columns fit the
/// second-level cache, and the cost of a call is shared by a thousand rows.
const ROWS_AT_ONCE: usize = 1024;

/// A view of one keyed table.
#[derive(Clone, Debug)]
pub(crate) struct KeyedTable {
    view: KeyedView,
    codec: Result<Arc<TableCodec>>,
    statistics: Option<Arc<TableStatistics>>,
}

impl KeyedTable {
    /// Without a codec the rows cannot be read. The error is returned when they are read.
    pub(crate) fn new(
        view: KeyedView,
        codec: Result<Arc<TableCodec>>,
        statistics: Option<Arc<TableStatistics>>,
    ) -> KeyedTable {
        KeyedTable { view, codec, statistics }
    }

    /// Whether the view sees only commits, and its reads are not recorded.
    pub(crate) fn sees_only_commits(&self) -> bool {
        let reader = self.view.reader();
        reader.own().is_none() && reader.reads().is_none()
    }

    /// The commit whose rows the view sees.
    pub(crate) fn commit(&self) -> CommitId {
        self.view.state().commit()
    }

    /// The definition of the table. `None` if its rows cannot be read.
    pub(crate) fn def(&self) -> Option<Arc<TableDef>> {
        self.codec().ok().map(|codec| Arc::clone(codec.def()))
    }

    pub(crate) fn store(&self) -> &KeyedStore {
        self.view.state().store()
    }

    /// Looks up the rows of all keys in `lookups`.
    pub(crate) fn look_up(&self, lookups: &mut RowLookups) -> Result<()> {
        self.view.reader().look_up(lookups)
    }

    /// Counts the rows up to `rows_max`. If there are more, or if they cannot be read, returns an estimate.
    fn count(&self, rows_max: u64) -> u64 {
        let Ok(mut rows) = self.read(&KeyBounds::ALL) else { return 0 };
        let (mut keys, mut values, mut count) = (ByteRows::new(), ByteRows::new(), 0);
        let mut first = Vec::new();
        while count < rows_max {
            match rows.next(ROWS_AT_ONCE, &mut keys, &mut values) {
                Ok(()) if !keys.is_empty() => count += keys.len() as u64,
                _ => return count,
            }
            if first.is_empty() {
                first.extend_from_slice(keys.get(0));
            }
        }
        // Extrapolate: assume that the keys are evenly distributed between the first and the last one.
        let last_counted = keys.get(keys.len() - 1);
        let counted_share = self.last_key().map_or(1.0, |last| place_between(&first, last_counted, &last));
        (count as f64 * (1.0 / counted_share).clamp(1.0, BEYOND_MAX)) as u64 + 1
    }

    /// The greatest key of the table's rows. The position of the last counted key between the first key and this one
    /// tells which part of the rows was counted, if the keys are evenly distributed.
    fn last_key(&self) -> Option<Vec<u8>> {
        let codec = self.codec().ok()?;
        let mut end = cursor(codec, None, KeyRange::default(), true, IndexOrder::Values).ok()?;
        let mut rows = RowBatch::default();
        next_rows(codec, &self.view.reader(), &mut end, 1, &mut rows).ok()?;
        rows.keys().iter().next().map(<[u8]>::to_vec)
    }

    fn codec(&self) -> Result<&TableCodec> {
        self.codec.as_deref().map_err(Clone::clone)
    }
}

impl KeyedSource for KeyedTable {
    fn rows_about(&self) -> u64 {
        let count = || KeyedTable { view: self.view.unnoted(), ..self.clone() }.count(ROWS_COUNTED_MAX);
        let Ok(codec) = self.codec() else { return 0 };
        let (counts, index) = (self.view.state().store().row_counts(), codec.row_index());
        // An exact count is best. Otherwise we use an estimate, and for large tables the number that ANALYZE found.
        if let Some(rows) = counts.rows(index, self.view.state().commit()) {
            return rows;
        }
        let counted = counts.about(index, count);
        match &self.statistics {
            Some(statistics) if counted > ROWS_COUNTED_MAX => statistics.rows.max(ROWS_COUNTED_MAX),
            _ => counted,
        }
    }

    fn statistics(&self) -> Option<&TableStatistics> {
        self.statistics.as_deref()
    }

    fn read(&self, bounds: &KeyBounds<'_>) -> Result<Box<dyn KeyedRows>> {
        let ranges = vec![self.range_of(bounds)?];
        self.read_ranges(KeyRanges { index: bounds.index, ranges, are_points: false, order: KeyOrder::Any })
    }

    fn range_of(&self, bounds: &KeyBounds<'_>) -> Result<KeyRange> {
        let (head, keys) = self.codec()?.keys(bounds.index)?;
        let mut range = KeyRange::default();
        keys.range(head, &bounds.equal, bounds.lower, bounds.upper, &mut range)?;
        Ok(range)
    }

    fn read_ranges(&self, ranges: KeyRanges) -> Result<Box<dyn KeyedRows>> {
        let KeyRanges { index, mut ranges, are_points, order } = ranges;
        self.codec()?.keys(index)?;
        // `left` is taken from its end, so put the first range there.
        if order != KeyOrder::Backward {
            ranges.reverse();
        }
        let table = self.clone();
        Ok(match (are_points, index) {
            (true, None) => Box::new(Points { table, left: ranges, row: Vec::new() }),
            _ => {
                let (cursor, batch) = (None, RowBatch::default());
                Box::new(RangeReader { table, index, order, left: ranges, cursor, is_within: false, batch })
            }
        })
    }

    fn split(&self, ranges: KeyRanges, parts: usize) -> Result<Vec<KeyRanges>> {
        // A stored entry of an index can be shortened, so it is no bound of a range of complete entries.
        if ranges.index.is_some() || ranges.are_points || parts < 2 {
            return Ok(vec![ranges]);
        }
        let (reader, order) = (self.view.reader(), ranges.order);
        let mut split = Vec::with_capacity(ranges.ranges.len());
        for KeyRange { mut start, end } in ranges.ranges {
            let keys = reader.base().read(Vec::new(), |base| base.split_keys(&start, &end, parts))?;
            for key in keys {
                split.push(KeyRange { start: std::mem::replace(&mut start, key.clone()), end: key });
            }
            split.push(KeyRange { start, end });
        }
        let part = |range| KeyRanges { index: None, ranges: vec![range], are_points: false, order };
        Ok(split.into_iter().map(part).collect())
    }

    fn decode(&self, keys: &[&[u8]], rows: &[&[u8]], columns: &[usize]) -> Result<Vec<ArrayRef>> {
        self.codec()?.decode(keys, rows, columns)
    }

    fn column_copy(&self, columns: &[usize]) -> Option<Arc<dyn TableSource>> {
        self.store().column_copies().rows_of(self, columns)
    }

    fn has_column_copy(&self, columns: &[usize]) -> bool {
        self.store().column_copies().has_copy_of(self, columns)
    }
}

/// Reads the rows of some ranges of a table, from a position on.
struct RangeReader {
    table: KeyedTable,
    index: Option<IndexId>,
    order: KeyOrder,
    /// The ranges that are still to be started, the next one last.
    left: Vec<KeyRange>,
    /// The position in the range that was started last.
    cursor: Option<KeyedCursor>,
    /// Whether that range may have more rows.
    is_within: bool,
    batch: RowBatch,
}

impl RangeReader {
    /// Starts the next range, unless one is being read. Returns whether a range is being read. `wanted` is the number
    /// of rows that the caller expects to read.
    fn begin_range(&mut self, wanted: usize) -> Result<bool> {
        if self.is_within {
            return Ok(true);
        }
        let Some(range) = self.left.pop() else { return Ok(false) };
        let codec = self.table.codec()?;
        let order = if self.order == KeyOrder::Any { IndexOrder::Kept } else { IndexOrder::Values };
        let backward = self.order == KeyOrder::Backward;
        // One cursor serves all ranges: it is restarted for each range.
        let place = match &mut self.cursor {
            None => self.cursor.insert(cursor(codec, self.index, KeyRange::default(), backward, order)?),
            Some(place) => place,
        };
        restart(codec, self.index, place, range, backward, order, wanted)?;
        self.is_within = true;
        Ok(true)
    }

    /// Replaces the batch by the next rows of the range, at most `rows_max`.
    fn fill_batch(&mut self, rows_max: usize) -> Result<()> {
        let (codec, reader) = (self.table.codec()?, self.table.view.reader());
        let place = self.cursor.as_mut().ok_or_else(|| Error::internal("no range of rows was started"))?;
        next_rows(codec, &reader, place, rows_max, &mut self.batch)?;
        self.is_within = self.batch.len() == rows_max;
        Ok(())
    }
}

impl KeyedRows for RangeReader {
    fn next(&mut self, rows_max: usize, keys: &mut ByteRows, rows: &mut ByteRows) -> Result<()> {
        keys.clear();
        rows.clear();
        while keys.len() < rows_max && self.begin_range(rows_max - keys.len())? {
            // Read directly into the caller's buffers if they are empty, else append a copy.
            if keys.is_empty() {
                self.batch.swap(keys, rows);
                let read = self.fill_batch(rows_max);
                self.batch.swap(keys, rows);
                read?;
            } else {
                self.fill_batch(rows_max - keys.len())?;
                self.batch.keys().iter().for_each(|key| keys.push(key));
                self.batch.rows().iter().for_each(|row| rows.push(row));
            }
        }
        Ok(())
    }

    fn next_in_place(&mut self, rows_max: usize, take: &mut RowRunTaker<'_>) -> Result<usize> {
        while self.begin_range(rows_max)? {
            if let Some(KeyedCursor { place: CursorPlace::Rows(scan), .. }) = &mut self.cursor
                && let Some(passed) = scan.take_run(&self.table.view.reader(), rows_max, take)?
            {
                if passed > 0 {
                    return Ok(passed);
                }
                self.is_within = false;
                continue;
            }
            // The scan looks at each row by itself, or reads entries of an index.
            self.fill_batch(rows_max.min(ROWS_AT_ONCE))?;
            if !self.batch.is_empty() {
                let (keys, rows) = (self.batch.keys(), self.batch.rows());
                take(&keys.iter().collect::<Vec<_>>(), &rows.iter().collect::<Vec<_>>())?;
                return Ok(keys.len());
            }
        }
        Ok(0)
    }
}

/// Looks up rows by complete primary keys.
struct Points {
    table: KeyedTable,
    /// The keys that are still to be looked up, the next one last. Each key is the start of a range.
    left: Vec<KeyRange>,
    row: Vec<u8>,
}

impl KeyedRows for Points {
    fn next(&mut self, rows_max: usize, keys: &mut ByteRows, rows: &mut ByteRows) -> Result<()> {
        keys.clear();
        rows.clear();
        let reader = self.table.view.reader();
        while keys.len() < rows_max
            && let Some(point) = self.left.pop()
        {
            if reader.get(&point.start, &mut self.row)? {
                keys.push(&point.start);
                rows.push(&self.row);
            }
        }
        Ok(())
    }
}
