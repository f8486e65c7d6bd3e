//! Joins along the order of time of two tables whose blocks are in that order, slice of time by slice of time.
//!
//! ```text
//! time        |---- slice 0 ----|---- slice 1 ----|---- slice 2 ----|
//! right rows   read, after the rows of slices before it that its left rows may meet
//! left rows    read, those whose upper bounds are in the slice, and joined group by group
//! ```
//!
//! Workers take slices in order and read them at the same time. A slice needs only few rows of the slices before it:
//! the last row of each key, which prevails at its beginning, for ASOF joins and windows that include it; and for
//! windows the rows within the lower bounds of its left rows. A worker hands these on before it reads its own left
//! rows, so no worker waits for a join. Memory holds the slices that are being joined, whatever the size of the tables.
//!
//! Left rows come in the order of time, so an ASOF join passes both sides once, with an array of the last row of each
//! key. A join with aggregates over windows finds the rows of each window, in one way for windows with few rows
//! (key_chains.rs) and in another for those with many (key_ranges.rs). It computes the aggregates over them as the
//! general join does (window/frame_aggregate.rs).
//!
//! Zone maps decide whether it pays: the blocks of a slice are read for the slice, so they must not overlap much, and a
//! window must be short beside a slice.

mod join_slices;
mod key_chains;
mod key_numbers;
mod key_ranges;
mod met_rows;
mod slice_rows;
#[cfg(test)]
mod tests;

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use arrow::array::{ArrayRef, BooleanArray, RecordBatch, UInt32Array, new_null_array};
use arrow::compute::{filter_record_batch, take};
use arrow::datatypes::SchemaRef;
use rowmill_base::{Broker, Cancel, Error, Result, StepMemory};
use rowmill_expr::functions::moved_timestamp;
use rowmill_plan::Aggregate;
use rowmill_storage::spill::TempSpace;

pub(crate) use self::join_slices::{JoinSlices, SliceSide, TimeReach};
use self::key_chains::KeyChains;
use self::key_numbers::{KeyNumbers, NO_NUMBER, SharedNumbers};
use self::key_ranges::{KeyRanges, SliceCursor};
use self::met_rows::MetRows;
use self::slice_rows::SliceRows;
use crate::batch::{BatchSource, Batches};
use crate::ordered_join::columns_of_aggregates;
use crate::scan::ScanMetrics;
use crate::share::{batch_of, share, with_nulls};
use crate::time_slices::SliceRelay;
use crate::window::{FrameAggregate, FrameColumns};

/// The left rows of a group of windows. With fewer, the fixed cost of a group shows.
const GROUP_ROWS: usize = 1 << 14;
/// The right rows for each left row up to which windows have few rows. For windows with 0.06, 0.6 and 6 rows of 1,000
/// keys, it takes 16, 24 and 56 ns for each left row to find them by chains, and 38, 45 and 58 ns by ranges.
const FEW_ROWS_MAX: usize = 4;

const OWNER: &str = "join by slices of time";
const OF_ANOTHER_RESULT: &str = "a slice that was read for another result";

/// What a [`SlicedJoin`] gives.
#[derive(Clone, Debug)]
pub(crate) struct SlicedRequest {
    pub(crate) left: SliceSide,
    pub(crate) right: SliceSide,
    pub(crate) slices: JoinSlices,
    pub(crate) result: SlicedResult,
    /// The type of the result.
    pub(crate) schema: SchemaRef,
    pub(crate) batch_rows: usize,
    pub(crate) cancel: Cancel,
    pub(crate) broker: Broker,
    pub(crate) temp: TempSpace,
}

/// What a join gives for the rows that meet.
#[derive(Clone, Debug)]
pub(crate) enum SlicedResult {
    /// The last right row within reach of a left row.
    Last {
        /// Whether a right row at the upper bound is too late (`LT JOIN`).
        strict: bool,
        /// Whether left rows without a match are left out.
        inner: bool,
        /// The columns of the result: whether it is of the right side, and the position in the columns that the side
        /// keeps.
        output: Vec<(bool, usize)>,
    },
    /// Aggregates over all right rows within reach of a left row.
    Aggregates {
        /// The left columns of the result, by their positions in the columns that the side keeps.
        output: Vec<usize>,
        /// The aggregates. Their columns are positions in the columns that the right side keeps.
        aggregates: Vec<Aggregate>,
        /// Whether the last row before the lower bound belongs to them, if no row is at the bound.
        with_prevailing: bool,
    },
}

impl SlicedResult {
    /// Whether a slice needs the last row of each key before its rows.
    fn needs_last(&self) -> bool {
        matches!(self, SlicedResult::Last { .. } | SlicedResult::Aggregates { with_prevailing: true, .. })
    }
}

/// A join that works by slices of time.
pub(crate) struct SlicedJoin {
    request: SlicedRequest,
    schema: SchemaRef,
    group_rows: usize,
    few_rows_max: usize,
    /// Whether windows with many rows were found.
    has_many: AtomicBool,
    numbers: SharedNumbers,
    next: AtomicUsize,
    /// The right rows of the slices before a slice that it needs.
    relay: SliceRelay<SliceRows>,
}

/// A slice whose rows were read.
struct LoadedSlice {
    left: SliceRows,
    /// The rows that slices before it have handed on, then its own.
    right: SliceRows,
    progress: SliceProgress,
    /// The number of keys of the rows.
    keys: usize,
    _memory: StepMemory,
}

/// How far a slice was joined.
enum SliceProgress {
    /// The last row of each key among the first right rows; the number of these; the next left row.
    Last {
        last: Vec<u32>,
        passed: usize,
        next: usize,
    },
    FewRows(KeyChains),
    ManyRows(SliceCursor),
}

/// One worker's part of the work.
struct SliceWorker {
    numbers: KeyNumbers,
    ranges: KeyRanges,
    met: MetRows,
    slice: Option<LoadedSlice>,
    /// Rows of the result that were not given yet.
    rest: Option<RecordBatch>,
}

impl fmt::Debug for SlicedJoin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SlicedJoin").field("request", &self.request).finish()
    }
}

impl SlicedJoin {
    pub(crate) fn new(request: SlicedRequest) -> Arc<SlicedJoin> {
        SlicedJoin::with_groups(request, GROUP_ROWS, FEW_ROWS_MAX)
    }

    /// A join whose groups have about `group_rows` left rows, and whose windows have few rows if they have at most
    /// `few_rows_max`.
    fn with_groups(request: SlicedRequest, group_rows: usize, few_rows_max: usize) -> Arc<SlicedJoin> {
        let numbers = SharedNumbers::new(request.broker.reservation(OWNER));
        let schema = with_nulls(&request.schema);
        Arc::new(SlicedJoin {
            request,
            schema,
            group_rows,
            few_rows_max,
            has_many: AtomicBool::new(false),
            numbers,
            next: AtomicUsize::new(0),
            relay: SliceRelay::default(),
        })
    }

    /// Counts of the scans of both sides.
    pub(crate) fn scans(&self) -> impl Iterator<Item = &Arc<ScanMetrics>> {
        [self.request.left.metrics(), self.request.right.metrics()].into_iter()
    }

    /// The places of the rows that later slices may need.
    fn needed_later(&self, slice: usize, right: &SliceRows) -> Vec<u32> {
        let Some(end) = self.request.slices.end(slice) else { return Vec::new() };
        let reach = self.request.slices.reach();
        let within_reach = match (&self.request.result, reach.lower) {
            (SlicedResult::Aggregates { .. }, Some(lower)) => {
                let first = end.saturating_sub(reach.upper.saturating_sub(lower));
                right.times.partition_point(|time| *time < first)
            }
            // An ASOF join needs no row but the last.
            _ => right.len(),
        };
        let mut places: Vec<u32> = Vec::new();
        if self.request.result.needs_last() {
            let mut last = vec![NO_NUMBER; self.numbers.count()];
            for (row, key) in right.keys[..within_reach].iter().enumerate().filter(|(_, key)| **key != NO_NUMBER) {
                last[*key as usize] = row as u32;
            }
            places.extend(last.into_iter().filter(|row| *row != NO_NUMBER));
            places.sort_unstable();
        }
        let rows = within_reach..right.len();
        places.extend(rows.filter(|row| right.keys[*row] != NO_NUMBER).map(|row| row as u32));
        places
    }

    /// Reads one slice. Returns `None` if another worker has failed.
    fn load(&self, slice: usize, numbers: &mut KeyNumbers) -> Result<Option<LoadedSlice>> {
        let SlicedRequest { left, right, slices, cancel, .. } = &self.request;
        let duty = self.relay.begin(slice);
        let mut memory = self.request.broker.scratch(OWNER);
        let right = right.read(slices.right_predicates(slice, right.time_column())?, numbers, &self.numbers, cancel)?;
        memory.grow(right.bytes())?;
        let Some(before) = duty.value_before(cancel)? else { return Ok(None) };
        // Parts of columns and whole columns are in memory at the same time.
        memory.grow(right.bytes() + before.bytes())?;
        let right = right.after(&before)?;
        duty.hand_on(right.at(self.needed_later(slice, &right))?);
        memory.clear();
        memory.grow(right.bytes())?;

        let left = left.read(slices.left_predicates(slice, left.time_column())?, numbers, &self.numbers, cancel)?;
        memory.grow(2 * left.bytes())?;
        let left = left.after(&SliceRows::default())?;
        self.check_bounds(&left)?;
        // Keys that only other slices have met may be counted too.
        let keys = self.numbers.count();
        let progress = match &self.request.result {
            SlicedResult::Last { .. } => SliceProgress::Last { last: vec![NO_NUMBER; keys], passed: 0, next: 0 },
            SlicedResult::Aggregates { with_prevailing, .. } => match self.has_many.load(Ordering::Relaxed) {
                false => SliceProgress::FewRows(KeyChains::new(keys)),
                true => SliceProgress::ManyRows(SliceCursor::new(0, *with_prevailing, keys)),
            },
        };
        memory.clear();
        // The numbers of a slice for each of its keys, and for windows for each right row.
        memory.grow(right.bytes() + left.bytes() + KeyChains::bytes(right.len(), keys))?;
        Ok(Some(LoadedSlice { left, right, progress, keys, _memory: memory }))
    }

    /// Fails if a bound of a left row is no timestamp, as computing the bound would.
    fn check_bounds(&self, left: &SliceRows) -> Result<()> {
        let (reach, kind) = (self.request.slices.reach(), self.request.left.time_kind());
        for time in left.times.first().into_iter().chain(left.times.last()) {
            for distance in reach.lower.into_iter().chain([reach.upper]).filter(|distance| *distance != 0) {
                moved_timestamp(&kind, *time, distance)?;
            }
        }
        Ok(())
    }

    /// Joins the next left rows of a slice. Returns `None` at its end.
    fn next_rows(
        &self,
        slice: &mut LoadedSlice,
        ranges: &mut KeyRanges,
        met: &mut MetRows,
    ) -> Result<Option<RecordBatch>> {
        let reach = self.request.slices.reach();
        let LoadedSlice { left, right, progress, keys, .. } = slice;
        match (&self.request.result, progress) {
            (SlicedResult::Last { strict, inner, output }, SliceProgress::Last { last, passed, next }) => {
                if *next == left.len() {
                    return Ok(None);
                }
                let rows = *next..left.len().min(*next + self.request.batch_rows.max(1));
                *next = rows.end;
                let met = last_met((left, rows.clone()), (right, passed), last, reach, *strict);
                self.pairs((left, rows), (right, met), *inner, output).map(Some)
            }
            (SlicedResult::Aggregates { output, aggregates, with_prevailing }, progress) => {
                let lower = reach.lower.ok_or_else(|| Error::internal("a window without a lower bound"))?;
                let reach = (lower, reach.upper);
                let rows = match progress {
                    SliceProgress::FewRows(chains) if chains.next < left.len() => {
                        let met_max = self.group_rows.saturating_mul(self.few_rows_max);
                        let rows =
                            chains.group(left, right, (reach, *with_prevailing), (self.group_rows, met_max), met);
                        if met.order.len() >= met_max {
                            self.has_many.store(true, Ordering::Relaxed);
                            let rest = SliceCursor::new(rows.end, *with_prevailing, *keys);
                            *progress = SliceProgress::ManyRows(rest);
                        }
                        rows
                    }
                    SliceProgress::ManyRows(cursor) if cursor.next < left.len() => {
                        cursor.group(left, right, (reach, *keys), self.group_rows, (ranges, met))
                    }
                    SliceProgress::FewRows(_) | SliceProgress::ManyRows(_) => return Ok(None),
                    SliceProgress::Last { .. } => return Err(Error::internal(OF_ANOTHER_RESULT)),
                };
                let mut columns: Vec<ArrayRef> =
                    output.iter().map(|column| left.columns[*column].slice(rows.start, rows.len())).collect();
                columns.extend(self.aggregated(right, met, ranges.bytes(), aggregates)?);
                batch_of(OWNER, &self.schema, columns, rows.len()).map(Some)
            }
            _ => Err(Error::internal(OF_ANOTHER_RESULT)),
        }
    }

    /// The aggregates over the rows that left rows meet. `bytes` is the memory that it took to find them.
    fn aggregated(
        &self,
        right: &SliceRows,
        met: &MetRows,
        bytes: u64,
        aggregates: &[Aggregate],
    ) -> Result<Vec<ArrayRef>> {
        let SlicedRequest { broker, temp, cancel, .. } = &self.request;
        let mut memory = broker.reservation(OWNER);
        memory.grow(bytes + met.bytes())?;
        let columns = FrameColumns::new(broker.clone(), temp.clone(), cancel.clone())?;
        let order = UInt32Array::from(met.order.clone());
        for column in columns_of_aggregates(aggregates.iter()) {
            let values = take(&right.columns[column], &order, None).map_err(failed)?;
            memory.grow(values.get_array_memory_size() as u64)?;
            columns.set(column, values);
        }
        let result = |aggregate: &Aggregate| {
            let prepared = FrameAggregate::new(aggregate, &columns, met.order.len(), &mut memory)?;
            prepared.results(&columns, &met.starts, &met.ends)
        };
        aggregates.iter().map(result).collect()
    }

    /// Left rows with the right rows that they meet.
    fn pairs(
        &self,
        (left, rows): (&SliceRows, Range<usize>),
        (right, met): (&SliceRows, Vec<Option<u32>>),
        inner: bool,
        output: &[(bool, usize)],
    ) -> Result<RecordBatch> {
        let has_match = inner.then(|| BooleanArray::from_iter(met.iter().map(|row| Some(row.is_some()))));
        let met = UInt32Array::from(met);
        let mut columns = Vec::with_capacity(output.len());
        for (is_right, column) in output {
            columns.push(match is_right {
                false => left.columns[*column].slice(rows.start, rows.len()),
                true if right.len() == 0 => new_null_array(right.columns[*column].data_type(), rows.len()),
                true => take(&right.columns[*column], &met, None).map_err(failed)?,
            });
        }
        let batch = batch_of(OWNER, &self.schema, columns, rows.len())?;
        match has_match {
            None => Ok(batch),
            Some(has_match) => filter_record_batch(&batch, &has_match).map_err(failed),
        }
    }
}

/// For each left row the last right row that it meets. `last` has the last row of each key among the first `passed`
/// right rows.
fn last_met(
    (left, rows): (&SliceRows, Range<usize>),
    (right, passed): (&SliceRows, &mut usize),
    last: &mut [u32],
    reach: TimeReach,
    strict: bool,
) -> Vec<Option<u32>> {
    let mut met = Vec::with_capacity(rows.len());
    for (key, time) in left.keys[rows.clone()].iter().zip(&left.times[rows]) {
        let to = time.saturating_add(reach.upper);
        while *passed < right.len() && (right.times[*passed] < to || !strict && right.times[*passed] == to) {
            if right.keys[*passed] != NO_NUMBER {
                last[right.keys[*passed] as usize] = *passed as u32;
            }
            *passed += 1;
        }
        let found = last.get(*key as usize).copied().filter(|row| *row != NO_NUMBER);
        met.push(match reach.lower {
            None => found,
            Some(lower) => found.filter(|row| right.times[*row as usize] >= time.saturating_add(lower)),
        });
    }
    met
}

impl BatchSource for SlicedJoin {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn parallelism(&self) -> usize {
        self.request.slices.count()
    }

    fn worker(self: Arc<Self>) -> Batches {
        let mut worker: Option<SliceWorker> = None;
        share(move || {
            let worker = match &mut worker {
                Some(worker) => worker,
                None => {
                    for scan in self.scans() {
                        scan.workers.fetch_add(1, Ordering::Relaxed);
                    }
                    let numbers = KeyNumbers::new(&self.request.right, self.request.broker.reservation(OWNER))?;
                    worker.insert(SliceWorker {
                        numbers,
                        ranges: KeyRanges::default(),
                        met: MetRows::default(),
                        slice: None,
                        rest: None,
                    })
                }
            };
            loop {
                if let Some(batch) = worker.rest.take().filter(|batch| batch.num_rows() > 0) {
                    let rows = batch.num_rows().min(self.request.batch_rows.max(1));
                    worker.rest = Some(batch.slice(rows, batch.num_rows() - rows));
                    return Ok(Some(batch.slice(0, rows)));
                }
                self.request.cancel.check()?;
                if let Some(slice) = &mut worker.slice {
                    worker.rest = self.next_rows(slice, &mut worker.ranges, &mut worker.met)?;
                    if worker.rest.is_none() {
                        worker.slice = None;
                    }
                    continue;
                }
                let slice = self.next.fetch_add(1, Ordering::SeqCst);
                if slice >= self.request.slices.count() {
                    return Ok(None);
                }
                worker.slice = self.load(slice, &mut worker.numbers)?;
                if worker.slice.is_none() {
                    return Ok(None);
                }
            }
        })
    }
}

fn failed(error: arrow::error::ArrowError) -> Error {
    Error::internal(format!("cannot join a slice of time: {error}"))
}
