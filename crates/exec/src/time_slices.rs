//! Slices of time: parts of the work of an operator that reads tables whose blocks are in the order of time.
//!
//! ```text
//! time     |---- slice 0 ----|---- slice 1 ----|---- slice 2 ----|
//! blocks   [-----][-----][------][-----][----][-----][-----][----]
//! ```
//!
//! Workers take slices in order. What a slice needs of the slices before it is handed on from slice to slice
//! (slice_relay.rs). Blocks at the ends of slices are read for two slices, so zone maps decide whether slices pay.

mod slice_relay;

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use rowmill_base::{Error, Result};
use rowmill_plan::{CompareOp, Predicate};
use rowmill_storage::chunk::Chunk;
use rowmill_storage::{TableSource, times_of};

pub(crate) use self::slice_relay::SliceRelay;

/// The most rows that are read for all slices, as a multiple of the rows of the table. With more, slices do not pay.
pub(crate) const READ_AGAIN_MAX: f64 = 2.5;

/// Slices by the times between them. The first one has no beginning, the last one has no end.
#[derive(Clone, Debug)]
pub(crate) struct TimeSlices {
    bounds: Vec<i64>,
    kind: DataType,
}

/// The least and greatest time, and the rows, of a block. A block without a zone may have any times.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BlockTimes {
    pub(crate) min: i64,
    pub(crate) max: i64,
    pub(crate) rows: usize,
}

/// The times of each block. `column` is the time, a timestamp or date without NULLs.
pub(crate) fn block_times(source: &dyn TableSource, column: usize) -> Result<Vec<BlockTimes>> {
    let mut times = Vec::with_capacity(source.blocks().len());
    for block in source.blocks() {
        let head = block.chunk_head(source.table(), column)?;
        let zone = head.as_ref().and_then(Chunk::zone);
        let (min, max) = match zone.and_then(|zone| zone.max.map(|max| (zone.min, max))) {
            Some((min, max)) => (times_of(&min.value)?[0], times_of(&max.value)?[0]),
            None => (i64::MIN, i64::MAX),
        };
        times.push(BlockTimes { min, max, rows: block.rows() });
    }
    Ok(times)
}

/// Times from their numbers: units of a timestamp, or days of a date.
pub(crate) fn time_array(times: &[i64], kind: &DataType) -> Result<ArrayRef> {
    let times: ArrayRef = Arc::new(Int64Array::from(times.to_vec()));
    match kind {
        DataType::Date32 => cast(&cast(&times, &DataType::Int32).map_err(failed)?, kind).map_err(failed),
        _ => cast(&times, kind).map_err(failed),
    }
}

impl TimeSlices {
    /// Slices that end before the times `bounds`, which must ascend. `kind` is the type of the times.
    pub(crate) fn new(bounds: Vec<i64>, kind: DataType) -> TimeSlices {
        debug_assert!(bounds.is_sorted_by(|one, next| one < next), "the bounds of slices ascend");
        TimeSlices { bounds, kind }
    }

    /// The number of slices.
    pub(crate) fn count(&self) -> usize {
        self.bounds.len() + 1
    }

    /// The first time of a slice, and the time before which it ends. `None` for no bound.
    pub(crate) fn range(&self, slice: usize) -> (Option<i64>, Option<i64>) {
        (slice.checked_sub(1).map(|before| self.bounds[before]), self.bounds.get(slice).copied())
    }

    /// The conditions on the time of the rows of a slice. The bounds of the slice are moved by `distance`.
    pub(crate) fn predicates(&self, slice: usize, column: usize, distance: i64) -> Result<Vec<Predicate>> {
        let (from, to) = self.range(slice);
        let from = from.map(|bound| (CompareOp::GreaterOrEqual, bound));
        let to = to.map(|bound| (CompareOp::Less, bound));
        let predicate = |(op, bound): (CompareOp, i64)| {
            let value = time_array(&[bound.saturating_add(distance)], &self.kind)?;
            Ok(Predicate::Compare { column, op, value })
        };
        from.into_iter().chain(to).map(predicate).collect()
    }

    /// The rows that all slices read, divided by the rows of the table. Runs have no zone maps, so each slice reads
    /// their rows.
    pub(crate) fn reads(&self, blocks: &[BlockTimes], rows_in_runs: usize) -> f64 {
        let slice_of = |time: i64| self.bounds.partition_point(|bound| *bound <= time);
        let slices = |block: &BlockTimes| slice_of(block.max) - slice_of(block.min) + 1;
        let rows = blocks.iter().map(|block| block.rows).sum::<usize>() + rows_in_runs;
        let in_blocks: usize = blocks.iter().map(|block| block.rows * slices(block)).sum();
        if rows == 0 { 1.0 } else { (in_blocks + rows_in_runs * self.count()) as f64 / rows as f64 }
    }
}

fn failed(error: arrow::error::ArrowError) -> Error {
    Error::internal(format!("cannot compute the times of a slice: {error}"))
}
