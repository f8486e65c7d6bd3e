//! The slices of time of a sliced join: where they begin, and whether they pay.

use std::sync::Arc;

use arrow::datatypes::DataType;
use rowmill_base::Result;
use rowmill_plan::{Predicate, Scan};
use rowmill_storage::TableSource;

use crate::scan::ScanMetrics;
use crate::time_slices::{BlockTimes, READ_AGAIN_MAX, TimeSlices, block_times};

/// The blocks of a side after which a slice ends. With fewer, the blocks at the ends of slices would be read more
/// often.
const SLICE_BLOCKS: usize = 2;

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

/// The slices of a join, by the right times between them.
///
/// A slice has the right rows of its range of time, and the left rows whose upper bounds are in it. So a left row needs
/// no right rows of later slices.
#[derive(Clone, Debug)]
pub(crate) struct JoinSlices {
    slices: TimeSlices,
    reach: TimeReach,
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

    fn block_times(&self) -> Result<Vec<BlockTimes>> {
        block_times(&*self.source, self.time_column())
    }

    /// The rows that are not in blocks, which all slices read.
    fn rows_in_runs(&self) -> usize {
        self.source.runs().iter().map(|run| run.rows()).sum()
    }
}

impl JoinSlices {
    /// The slices for a join of two tables. Returns `None` if it does not pay to read them by slices. `is_bounded`
    /// tells that slices hand on all rows within the reach, rather than one row of each key.
    pub(crate) fn of(
        left: &SliceSide,
        right: &SliceSide,
        reach: TimeReach,
        is_bounded: bool,
    ) -> Result<Option<JoinSlices>> {
        if left.time_kind() != right.time_kind() {
            return Ok(None);
        }
        let right_blocks = right.block_times()?;
        // In right times: the slice of a left row is that of its upper bound.
        let moved = |time: i64| time.saturating_add(reach.upper);
        let mut left_blocks = left.block_times()?;
        left_blocks.iter_mut().for_each(|block| (block.min, block.max) = (moved(block.min), moved(block.max)));
        let bounds = bounds(&left_blocks, &right_blocks);
        if bounds.is_empty() {
            return Ok(None);
        }
        let slices = TimeSlices::new(bounds, left.time_kind());
        if slices.reads(&left_blocks, left.rows_in_runs()) > READ_AGAIN_MAX
            || slices.reads(&right_blocks, right.rows_in_runs()) > READ_AGAIN_MAX
        {
            return Ok(None);
        }
        if is_bounded {
            // Each slice gets the rows of this time from the slices before it again.
            let handed_on = reach.lower.map_or(i128::MAX, |lower| i128::from(reach.upper) - i128::from(lower));
            let min = right_blocks.iter().map(|block| i128::from(block.min)).min().unwrap_or_default();
            let max = right_blocks.iter().map(|block| i128::from(block.max)).max().unwrap_or_default();
            if handed_on > (max - min) / slices.count() as i128 {
                return Ok(None);
            }
        }
        Ok(Some(JoinSlices { slices, reach }))
    }

    /// The number of slices.
    pub(crate) fn count(&self) -> usize {
        self.slices.count()
    }

    /// The distances of the right times that a left row may meet.
    pub(super) fn reach(&self) -> TimeReach {
        self.reach
    }

    /// The first right time after a slice. `None` for the last slice.
    pub(super) fn end(&self, slice: usize) -> Option<i64> {
        self.slices.range(slice).1
    }

    /// The conditions on the time of the left rows of a slice.
    pub(super) fn left_predicates(&self, slice: usize, column: usize) -> Result<Vec<Predicate>> {
        self.slices.predicates(slice, column, self.reach.upper.saturating_neg())
    }

    /// The conditions on the time of the right rows of a slice.
    pub(super) fn right_predicates(&self, slice: usize, column: usize) -> Result<Vec<Predicate>> {
        self.slices.predicates(slice, column, 0)
    }
}

/// The times between slices, each the least time of a block.
fn bounds(left_blocks: &[BlockTimes], right_blocks: &[BlockTimes]) -> Vec<i64> {
    let begins = |blocks: &[BlockTimes], side: usize| -> Vec<(i64, usize)> {
        blocks.iter().map(|block| (block.min, side)).collect()
    };
    let mut all = [begins(left_blocks, 0), begins(right_blocks, 1)].concat();
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
    bounds
}
