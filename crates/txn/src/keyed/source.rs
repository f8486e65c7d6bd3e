//! A keyed table as the engine scans it.

use std::sync::Arc;

use arrow::array::ArrayRef;
use rowmill_base::{IndexId, Result};
use rowmill_storage::keyed::{ByteRows, KeyRange};
use rowmill_storage::{KeyBounds, KeyOrder, KeyRanges, KeyedRows, KeyedSource, TableStatistics, place_between};

use super::cursor::{KeyedCursor, RowBatch};
use super::index_scan::IndexOrder;
use super::reader::KeyedView;
use super::table_codec::TableCodec;
use crate::keyed_rows::{cursor, next_rows, restart};

/// Rows that are counted where a plan depends on how many there are: they take some milliseconds, once in a while.
const ROWS_COUNTED_MAX: u64 = 100_000;
/// How many times as many there are at most, as far as plans go, if there are more: one key far from all others says little.
const BEYOND_MAX: f64 = 1_000.0;
/// Rows that are read at a time.
const ROWS_AT_ONCE: usize = 1024;

/// The rows of one keyed table.
#[derive(Clone, Debug)]
pub(crate) struct KeyedTable {
    view: KeyedView,
    codec: Result<Arc<TableCodec>>,
    statistics: Option<Arc<TableStatistics>>,
}

impl KeyedTable {
    /// Without a codec its rows cannot be read, which is said when they are.
    pub(crate) fn new(
        view: KeyedView,
        codec: Result<Arc<TableCodec>>,
        statistics: Option<Arc<TableStatistics>>,
    ) -> KeyedTable {
        KeyedTable { view, codec, statistics }
    }

    /// How many rows there are, if they are not more than so many: a guess otherwise, or where they cannot be read.
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
        let last_counted = keys.get(keys.len() - 1);
        let counted_share = self.last_key().map_or(1.0, |last| place_between(&first, last_counted, &last));
        (count as f64 * (1.0 / counted_share).clamp(1.0, BEYOND_MAX)) as u64 + 1
    }

    /// The greatest key of a row. Where the last one of those that were counted lies between the first and this says how large a part
    /// was counted, if keys are spread evenly.
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
        // The next one is the last.
        if order != KeyOrder::Backward {
            ranges.reverse();
        }
        let table = self.clone();
        Ok(match (are_points, index) {
            (true, None) => Box::new(Points { table, left: ranges, row: Vec::new() }),
            _ => {
                let (cursor, batch) = (None, RowBatch::default());
                Box::new(Reading { table, index, order, left: ranges, cursor, is_within: false, batch })
            }
        })
    }

    fn decode(&self, keys: &ByteRows, rows: &ByteRows, columns: &[usize]) -> Result<Vec<ArrayRef>> {
        self.codec()?.decode(keys, rows, columns)
    }
}

/// Rows of ranges of a table up to some place.
struct Reading {
    table: KeyedTable,
    index: Option<IndexId>,
    order: KeyOrder,
    /// The ranges that were not begun, the next one at the end.
    left: Vec<KeyRange>,
    /// The place in the range that was begun last.
    cursor: Option<KeyedCursor>,
    /// Whether that range may have more rows.
    is_within: bool,
    batch: RowBatch,
}

impl Reading {
    /// Appends the next rows to `keys` and `rows`, or has them hold those where they are empty, until there are `rows_max`.
    fn append(&mut self, rows_max: usize, keys: &mut ByteRows, rows: &mut ByteRows) -> Result<()> {
        let codec = self.table.codec()?;
        let reader = self.table.view.reader();
        while keys.len() < rows_max {
            let wanted = rows_max - keys.len();
            let order = if self.order == KeyOrder::Any { IndexOrder::Kept } else { IndexOrder::Values };
            let backward = self.order == KeyOrder::Backward;
            let place = match &mut self.cursor {
                Some(place) if self.is_within => place,
                place => {
                    let Some(range) = self.left.pop() else { break };
                    let place = match place {
                        None => place.insert(cursor(codec, self.index, KeyRange::default(), backward, order)?),
                        Some(place) => place,
                    };
                    restart(codec, self.index, place, range, backward, order, wanted)?;
                    self.is_within = true;
                    place
                }
            };
            if keys.is_empty() {
                self.batch.swap(keys, rows);
                let read = next_rows(codec, &reader, place, wanted, &mut self.batch);
                self.batch.swap(keys, rows);
                read?;
            } else {
                next_rows(codec, &reader, place, wanted, &mut self.batch)?;
                self.batch.keys().iter().for_each(|key| keys.push(key));
                self.batch.rows().iter().for_each(|row| rows.push(row));
            }
            self.is_within = keys.len() == rows_max;
        }
        Ok(())
    }
}

impl KeyedRows for Reading {
    fn next(&mut self, rows_max: usize, keys: &mut ByteRows, rows: &mut ByteRows) -> Result<()> {
        keys.clear();
        rows.clear();
        self.append(rows_max, keys, rows)
    }
}

/// Rows that are looked up by whole primary keys.
struct Points {
    table: KeyedTable,
    /// The keys that were not looked for, the next one at the end, each as the start of a range.
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
