//! The right side in order: the rows of each key by position and tie, one key after the other.
//!
//! ```text
//! key        | 0                 | 1     | 2             |
//! place      | 0   1   2   3   4 | 5   6 | 7   8   9  10 |
//! row        | 3   0   5   9   8 | 1   6 | 2   4   7  10 |
//! position   | 10  12  12  15  20| 11  13| 9   10  14  17|
//! ```
//!
//! A place is a number in this order. The rows that a left row meets are a range of places of its key.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow::array::{Array, ArrayRef};
use arrow::compute::concat;
use parking_lot::Mutex;
use rowmill_base::{Reservation, Result};

use super::OrderedRequest;
use super::key_order::OrderedPart;
use super::places::PlaceCursors;
use super::positions::{Positions, failed};
use crate::window::{FrameAggregate, FrameColumns};

/// The right side in order.
#[derive(Debug)]
pub(crate) struct OrderedRows {
    pub(super) request: Arc<OrderedRequest>,
    /// The rows by place.
    pub(super) rows: Vec<u32>,
    /// The first place of each key, and the end of the last key.
    pub(super) starts: Vec<u32>,
    /// The positions by place.
    pub(super) positions: Positions,
    /// The columns that aggregates read, by place. In parts until they are joined.
    parts: Vec<(usize, Mutex<Vec<ArrayRef>>)>,
    /// The same columns as aggregates read them.
    columns: FrameColumns,
    /// The next aggregate to prepare.
    next: AtomicUsize,
    memory: Vec<Reservation>,
}

/// The rows that the rows of a left batch meet.
#[derive(Debug)]
pub(crate) enum RowsMet {
    /// At most one for each: its number, or [`super::places::NO_KEY`].
    One(Vec<u32>),
    /// The ranges of their places.
    Ranges(PlaceRanges),
}

/// A range of places for each row.
#[derive(Debug, Default)]
pub(crate) struct PlaceRanges {
    pub(crate) starts: Vec<u32>,
    pub(crate) ends: Vec<u32>,
}

/// The aggregates of a join, ready to be computed over any ranges of places.
#[derive(Debug)]
pub(crate) struct OrderedAggregates {
    aggregates: Vec<FrameAggregate>,
    _memory: Vec<Reservation>,
}

/// The aggregates that one worker has prepared.
#[derive(Debug)]
pub(crate) struct PreparedAggregates {
    /// With their numbers.
    aggregates: Vec<(usize, FrameAggregate)>,
    memory: Reservation,
}

impl PlaceRanges {
    /// The places of a row.
    pub(crate) fn of(&self, row: usize) -> Range<usize> {
        self.starts[row] as usize..self.ends[row] as usize
    }
}

impl OrderedRows {
    /// Joins the parts of the partitions, in the order of these.
    pub(crate) fn new(
        request: &Arc<OrderedRequest>,
        parts: Vec<OrderedPart>,
        frame_columns: FrameColumns,
        mut memory: Reservation,
    ) -> Result<OrderedRows> {
        let rows_of_all: usize = parts.iter().map(|part| part.rows.len()).sum();
        let keys: usize = parts.iter().map(|part| part.ends.len()).sum();
        // The positions of all parts are copied, and those of each part are freed with it.
        let of_positions: u64 = parts.iter().map(|part| part.positions.bytes()).sum();
        memory.grow(((rows_of_all + keys + 1) * size_of::<u32>()) as u64 + of_positions)?;
        let columns = request.argument_columns();
        let mut rows = Vec::with_capacity(rows_of_all);
        let mut starts = Vec::with_capacity(keys + 1);
        let mut all_columns: Vec<Vec<ArrayRef>> = columns.iter().map(|_| Vec::new()).collect();
        let (mut positions, mut all_memory) = (Vec::with_capacity(parts.len()), Vec::new());
        for part in parts {
            let OrderedPart { rows: of_part, ends, positions: of_rows, columns, memory: mut held } = part;
            let base = rows.len() as u32;
            starts.extend(std::iter::once(0).chain(ends.iter().copied()).take(ends.len()).map(|start| base + start));
            rows.extend_from_slice(&of_part);
            positions.push(of_rows);
            all_columns.iter_mut().zip(&columns).for_each(|(all, column)| all.push(Arc::clone(column)));
            held.recount(columns.iter().map(|column| column.get_array_memory_size() as u64).sum());
            all_memory.push(held);
        }
        starts.push(rows.len() as u32);
        let positions = Positions::join(positions)?;
        memory.recount(((rows.capacity() + starts.capacity()) * size_of::<u32>()) as u64 + positions.bytes());
        all_memory.push(memory);
        let parts = columns.into_iter().zip(all_columns.into_iter().map(Mutex::new)).collect();
        Ok(OrderedRows {
            request: Arc::clone(request),
            rows,
            starts,
            positions,
            parts,
            columns: frame_columns,
            next: AtomicUsize::new(0),
            memory: all_memory,
        })
    }

    /// Bytes of memory.
    pub(crate) fn bytes(&self) -> u64 {
        self.memory.iter().map(Reservation::bytes).sum()
    }

    /// The rows by place.
    pub(crate) fn rows(&self) -> &[u32] {
        &self.rows
    }

    /// New cursors for a worker.
    pub(crate) fn cursors(&self, memory: Reservation) -> Result<PlaceCursors> {
        PlaceCursors::new(self.starts.len() - 1, self.rows.len(), memory)
    }

    /// A column by place. The first call joins its parts.
    fn column(&self, number: usize, memory: &mut Reservation) -> Result<ArrayRef> {
        let mut parts = self.parts[number].1.lock();
        if parts.len() != 1 {
            memory.grow(parts.iter().map(|part| part.get_array_memory_size() as u64).sum())?;
            let refs: Vec<&dyn Array> = parts.iter().map(|part| &**part).collect();
            *parts = vec![concat(&refs).map_err(failed)?];
        }
        Ok(Arc::clone(&parts[0]))
    }

    /// Prepares aggregates until no other one is left.
    pub(crate) fn prepare_aggregates(&self, mut memory: Reservation) -> Result<PreparedAggregates> {
        let mut aggregates = Vec::new();
        let Some(all) = &self.request.aggregates else { return Ok(PreparedAggregates { aggregates, memory }) };
        loop {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            let Some(aggregate) = all.get(number) else { return Ok(PreparedAggregates { aggregates, memory }) };
            self.columns.check()?;
            for (place, (column, _)) in self.parts.iter().enumerate() {
                if super::layout::columns_of_aggregate(aggregate).contains(column) {
                    self.columns.set(*column, self.column(place, &mut memory)?);
                }
            }
            aggregates.push((number, FrameAggregate::new(aggregate, &self.columns, self.rows.len(), &mut memory)?));
        }
    }
}

impl OrderedAggregates {
    /// Joins what all workers have prepared.
    pub(crate) fn join(parts: Vec<PreparedAggregates>) -> OrderedAggregates {
        let (mut all, mut memory) = (Vec::new(), Vec::new());
        for part in parts {
            all.extend(part.aggregates);
            memory.push(part.memory);
        }
        all.sort_unstable_by_key(|(number, _)| *number);
        let aggregates = all.into_iter().map(|(_, aggregate)| aggregate).collect();
        OrderedAggregates { aggregates, _memory: memory }
    }

    /// The aggregates over ranges of places of `rows`.
    pub(crate) fn results(&self, rows: &OrderedRows, ranges: &PlaceRanges) -> Result<Vec<ArrayRef>> {
        let results = |aggregate: &FrameAggregate| aggregate.results(&rows.columns, &ranges.starts, &ranges.ends);
        self.aggregates.iter().map(results).collect()
    }
}
