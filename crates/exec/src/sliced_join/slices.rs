//! The slices of time of a sliced join: where they begin, and whether they pay.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int64Array};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type};
use rowmill_base::{Error, Result};
use rowmill_plan::{CompareOp, Predicate, Scan};
use rowmill_storage::TableSource;
use rowmill_storage::chunk::Chunk;

use crate::scan::ScanMetrics;

/// The blocks of a side after which a slice ends. With fewer, the blocks at the ends of slices would be read more
/// often.
const SLICE_BLOCKS: usize = 4;
/// The most rows that are read for all slices, as a multiple of the rows of the table.
const READ_AGAIN_MAX: f64 = 2.5;

/// One side of a sliced join: a scan of a columnar table.
#[derive(Clone, Debug)]
pub(crate) struct SliceSide {
    pub(super) source: Arc<dyn TableSource>,
    pub(super) scan: Scan,
    /// The keys, by their positions in the columns of the scan.
    pub(super) keys: Vec<usize>,
    /// The time, by its position in the columns of the scan.
    time: usize,
    /// The columns that the join needs, by their positions in the columns of the scan.
    pub(super) kept: Vec<usize>,
    metrics: Arc<ScanMetrics>,
}

/// How far the right times that a left row may meet are from its own time, in units of the time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TimeReach {
    /// The distance of the least time. `None` if there is no bound.
    pub(crate) lower: Option<i64>,
    /// The distance of the greatest time. Not less than `lower`.
    pub(crate) upper: i64,
}

/// The slices, by the right times between them.
///
/// A slice has the right rows of its range of time, and the left rows whose upper bounds are in it. So a left row needs
/// no right rows of later slices.
#[derive(Clone, Debug)]
pub(crate) struct TimeSlices {
    bounds: Vec<i64>,
    reach: TimeReach,
    kind: DataType,
}

impl SliceSide {
    /// Returns `None` if the rows cannot be read by slices: the time may be NULL or is no timestamp.
    pub(crate) fn new(
        source: Arc<dyn TableSource>,
        scan: &Scan,
        keys: Vec<usize>,
        time: usize,
        kept: Vec<usize>,
    ) -> Option<SliceSide> {
        let table = source.table();
        let column = &table.columns[*scan.columns.get(time)?];
        let is_time = matches!(column.kind.arrow(), DataType::Timestamp(..)) && !column.nullable;
        let are_stored = keys.iter().chain(&kept).all(|column| *column < scan.columns.len());
        let is_usable = is_time && are_stored && table.keyed.is_none();
        is_usable.then(|| {
            let scan = Scan { row_number: false, ..scan.clone() };
            SliceSide { source, scan, keys, time, kept, metrics: Arc::default() }
        })
    }

    /// Counts of all slices.
    pub(crate) fn metrics(&self) -> &Arc<ScanMetrics> {
        &self.metrics
    }

    /// The type of a column, by its position in the columns of the scan.
    pub(super) fn kind(&self, column: usize) -> DataType {
        self.source.table().columns[self.scan.columns[column]].kind.arrow()
    }

    /// The time, by its position in the table.
    pub(super) fn time_column(&self) -> usize {
        self.scan.columns[self.time]
    }

    /// The type of the time.
    pub(super) fn time_kind(&self) -> DataType {
        self.kind(self.time)
    }

    /// The least and greatest time, and the rows, of each block.
    fn block_times(&self) -> Result<Vec<BlockTimes>> {
        let mut times = Vec::with_capacity(self.source.blocks().len());
        for block in self.source.blocks() {
            let head = block.chunk_head(self.source.table(), self.time_column())?;
            let zone = head.as_ref().and_then(Chunk::zone);
            let (min, max) = match zone.and_then(|zone| zone.max.map(|max| (zone.min, max))) {
                Some((min, max)) => (ticks(&min.value)?[0], ticks(&max.value)?[0]),
                None => (i64::MIN, i64::MAX),
            };
            times.push(BlockTimes { min, max, rows: block.rows() });
        }
        Ok(times)
    }
}

/// The least and greatest time, and the rows, of a block.
#[derive(Clone, Copy, Debug)]
struct BlockTimes {
    min: i64,
    max: i64,
    rows: usize,
}

/// The rows that all slices read, divided by the rows of the table.
fn reads(blocks: &[BlockTimes], bounds: &[i64]) -> f64 {
    let rows: usize = blocks.iter().map(|block| block.rows).sum();
    let slices = |block: &BlockTimes| {
        let before = |time: i64| bounds.partition_point(|bound| *bound <= time);
        before(block.max) - before(block.min) + 1
    };
    let read: usize = blocks.iter().map(|block| block.rows * slices(block)).sum();
    if rows == 0 { 1.0 } else { read as f64 / rows as f64 }
}

impl TimeSlices {
    /// The slices for a join of two tables. Returns `None` if it does not pay to read them by slices. `is_bounded`
    /// tells that slices hand on all rows within the reach, rather than one row of each key.
    pub(crate) fn of(
        left: &SliceSide,
        right: &SliceSide,
        reach: TimeReach,
        is_bounded: bool,
    ) -> Result<Option<TimeSlices>> {
        if left.time_kind() != right.time_kind() {
            return Ok(None);
        }
        let right_blocks = right.block_times()?;
        // In right times: the slice of a left row is that of its upper bound.
        let moved = |time: i64| time.saturating_add(reach.upper);
        let mut left_blocks = left.block_times()?;
        left_blocks.iter_mut().for_each(|block| (block.min, block.max) = (moved(block.min), moved(block.max)));
        let begins = |blocks: &[BlockTimes], side: usize| -> Vec<(i64, usize)> {
            blocks.iter().map(|block| (block.min, side)).collect()
        };
        let mut all = [begins(&left_blocks, 0), begins(&right_blocks, 1)].concat();
        all.sort_unstable();
        let (mut bounds, mut in_slice): (Vec<i64>, [usize; 2]) = (Vec::new(), [0; 2]);
        for (begin, side) in all {
            let is_full = in_slice.iter().any(|blocks| *blocks >= SLICE_BLOCKS);
            if is_full && begin > i64::MIN && bounds.last().is_none_or(|last| *last < begin) {
                bounds.push(begin);
                in_slice = [0; 2];
            }
            in_slice[side] += 1;
        }
        if bounds.is_empty() || [&left_blocks, &right_blocks].iter().any(|side| reads(side, &bounds) > READ_AGAIN_MAX) {
            return Ok(None);
        }
        if is_bounded {
            // Each slice gets the rows of this time from the slices before it again.
            let handed_on = reach.lower.map_or(i128::MAX, |lower| i128::from(reach.upper) - i128::from(lower));
            let min = right_blocks.iter().map(|block| i128::from(block.min)).min().unwrap_or_default();
            let max = right_blocks.iter().map(|block| i128::from(block.max)).max().unwrap_or_default();
            if handed_on > (max - min) / (bounds.len() as i128 + 1) {
                return Ok(None);
            }
        }
        Ok(Some(TimeSlices { bounds, reach, kind: left.time_kind() }))
    }

    /// The number of slices.
    pub(crate) fn count(&self) -> usize {
        self.bounds.len() + 1
    }

    /// The distances of the right times that a left row may meet.
    pub(super) fn reach(&self) -> TimeReach {
        self.reach
    }

    /// The first right time after a slice. `None` for the last slice.
    pub(super) fn end(&self, slice: usize) -> Option<i64> {
        self.bounds.get(slice).copied()
    }

    /// The conditions on the time of the left rows of a slice.
    pub(super) fn left_predicates(&self, slice: usize, column: usize) -> Result<Vec<Predicate>> {
        self.predicates(slice, column, self.reach.upper)
    }

    /// The conditions on the time of the right rows of a slice.
    pub(super) fn right_predicates(&self, slice: usize, column: usize) -> Result<Vec<Predicate>> {
        self.predicates(slice, column, 0)
    }

    fn predicates(&self, slice: usize, column: usize, earlier: i64) -> Result<Vec<Predicate>> {
        let from = slice.checked_sub(1).map(|before| (CompareOp::GreaterOrEqual, self.bounds[before]));
        let to = self.bounds.get(slice).map(|bound| (CompareOp::Less, *bound));
        let predicate = |(op, bound): (CompareOp, i64)| {
            let bound = Int64Array::from(vec![bound.saturating_sub(earlier)]);
            Ok(Predicate::Compare { column, op, value: cast(&bound, &self.kind).map_err(failed)? })
        };
        from.into_iter().chain(to).map(predicate).collect()
    }
}

/// The ticks of timestamps.
pub(super) fn ticks(values: &ArrayRef) -> Result<Vec<i64>> {
    let values = cast(values, &DataType::Int64).map_err(failed)?;
    Ok(values.as_primitive::<Int64Type>().values().to_vec())
}

fn failed(error: arrow::error::ArrowError) -> Error {
    Error::internal(format!("cannot read a slice of time: {error}"))
}
