//! A FILL over slices of time, each with all rows of its buckets, in any order.
//!
//! ```text
//! slice          0                1                2
//! key a   | 1 . . 4 . |     | . . . . . |    | . 7 . . . |
//! carried             4 ->                4 ->
//! ```
//!
//! Workers take slices in order and sort their rows by key and bucket at the same time. A slice needs only one thing of
//! the slices before: the last row of each key. A worker hands these on as soon as it has sorted its slice, and fills
//! the slice after that. Memory holds the slices that are being filled and one row for each key.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow::array::{Array, ArrayRef, RecordBatch, RecordBatchOptions, UInt32Array, new_null_array};
use arrow::compute::{concat, concat_batches, take};
use arrow::datatypes::SchemaRef;
use rowmill_base::{Broker, Cancel, Error, Reservation, Result};
use rowmill_plan::Fill as FillPlan;
use rowmill_storage::times_of;

use super::gaps::{Gaps, SliceKeys};
use super::slice_order::{KeyedRows, SliceOrder, key_numbers};
use super::{FillShape, FillWorker, with_schema};
use crate::batch::{BatchSource, Batches};
use crate::row_set::RowSet;
use crate::share::share;
use crate::sort::copied;
use crate::time_slices::SliceRelay;

/// The name of the operator in errors.
const OWNER: &str = "FILL";

/// The fewest groups whose gaps are filled by slices. No sort of all groups is needed then, so 3.6 million groups take
/// half of the time. A few hundred thousand groups are sorted in a few milliseconds.
pub(crate) const FILLED_GROUPS_MIN: f64 = (1 << 19) as f64;

/// Rows in slices of time. No bucket has rows in two slices, and those of a later slice are later.
pub(crate) trait BucketSlices: fmt::Debug + Send + Sync {
    /// The schema of the rows.
    fn schema(&self) -> &SchemaRef;
    /// The number of slices.
    fn count(&self) -> usize;
    /// The rows of a slice.
    fn rows(&self, slice: usize) -> Result<Batches>;
    /// Counts a worker that reads slices.
    fn count_worker(&self);
}

/// A FILL over slices of time.
pub(crate) struct SlicedFill {
    slices: Arc<dyn BucketSlices>,
    shape: Arc<FillShape>,
    batch_rows: usize,
    cancel: Cancel,
    broker: Broker,
    next: AtomicUsize,
    /// The last rows before a slice.
    carried: SliceRelay<Option<CarriedRows>>,
}

/// The last row of each key.
struct CarriedRows {
    rows: RecordBatch,
    /// The keys, in the order of `rows`.
    keys: RowSet,
}

/// The rows of one slice in order, with the rows that were carried to it.
struct SortedSlice {
    rows: RecordBatch,
    section: SliceKeys,
    memory: Reservation,
}

impl fmt::Debug for SlicedFill {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SlicedFill").field("slices", &self.slices).field("shape", &self.shape).finish()
    }
}

impl SlicedFill {
    pub(crate) fn new(
        slices: Arc<dyn BucketSlices>,
        plan: &FillPlan,
        batch_rows: usize,
        (cancel, broker): (Cancel, Broker),
    ) -> Result<Arc<SlicedFill>> {
        let shape = FillShape::new(slices.schema(), plan)?;
        Ok(Arc::new(SlicedFill {
            slices,
            shape,
            batch_rows,
            cancel,
            broker,
            next: AtomicUsize::new(0),
            carried: SliceRelay::default(),
        }))
    }

    /// Reads a slice, hands the last rows on, and puts the slice in order. Returns `None` if another worker has failed.
    fn slice(&self, slice: usize) -> Result<Option<SortedSlice>> {
        let duty = self.carried.begin(slice);
        let is_last = slice + 1 == self.slices.count();
        let schema = &self.shape.input;
        let mut memory = self.broker.reservation(OWNER);
        let mut batches = Vec::new();
        for batch in self.slices.rows(slice)? {
            let batch = with_schema(&batch?, schema)?;
            memory.grow(batch.get_array_memory_size() as u64)?;
            batches.push(batch);
        }
        let rows = concat_batches(schema, &batches).map_err(failed)?;
        drop(batches);
        // The last row of each key, and the order of the rows, are found before this worker waits for the slice before.
        let keys: Vec<ArrayRef> = self.shape.plan.keys.iter().map(|key| Arc::clone(rows.column(*key))).collect();
        let buckets = rows.column(self.shape.plan.bucket);
        if buckets.null_count() > 0 {
            return Err(Error::internal("a slice of time has a row without a bucket"));
        }
        let ticks = times_of(buckets)?;
        let mut known = RowSet::new(self.broker.reservation(OWNER));
        let numbers = key_numbers(&keys, rows.num_rows(), &self.shape.keys, &mut known)?;
        let order = SliceOrder::of(&numbers, &ticks, &mut known)?;
        drop((keys, numbers, ticks));

        let Some(before) = duty.value_before(&self.cancel)? else { return Ok(None) };
        let carried = before.as_ref().map_or(0, |before| before.rows.num_rows());
        // The carried row of each key of the slice, and of those that the slice does not have.
        let mut carried_of = vec![None; known.len()];
        let mut others = Vec::new();
        for row in 0..carried {
            let key = before.as_ref().map_or(&[][..], |before| before.keys.row(row));
            match known.find(key) {
                Some(number) => carried_of[number] = Some(row as u32),
                None => others.push(row as u32),
            }
        }
        let last_rows: Vec<u32> = order.of_keys().filter_map(|keyed| keyed.rows.last()).copied().collect();
        let mut handed_on = taken(&rows, &UInt32Array::from(last_rows))?;
        if let Some(before) = &before {
            let others = taken(&before.rows, &UInt32Array::from(others.clone()))?;
            handed_on = concat_batches(schema, [&others, &handed_on]).map_err(failed)?;
        }
        duty.hand_on(Some(self.carried_rows(&handed_on)?));

        let carried_ticks = match &before {
            Some(before) => times_of(before.rows.column(self.shape.plan.bucket))?,
            None => Vec::new(),
        };
        let mut places = Vec::with_capacity(order.len() + carried);
        let mut section = SliceKeys { is_last, ..SliceKeys::default() };
        let mut add = |key: u32, row: u32, ticks: i64, is_carried: bool| {
            places.push(row);
            section.keys.push(key);
            section.ticks.push(ticks);
            section.are_carried.push(is_carried);
        };
        for KeyedRows { key, rows, ticks } in order.of_keys() {
            if let Some(row) = carried_of[key as usize] {
                add(key, row, carried_ticks[row as usize], true);
            }
            rows.iter().zip(ticks).for_each(|(row, ticks)| add(key, carried as u32 + row, *ticks, false));
        }
        if is_last {
            // The buckets after the last row of a key go up to the end of the range.
            for (number, row) in (known.len() as u32..).zip(others) {
                add(number, row, carried_ticks[row as usize], true);
            }
        }
        let before = before.as_ref().map(|before| &before.rows);
        let rows = self.sources_at(before, &rows, &UInt32Array::from(places), &mut memory)?;
        Ok(Some(SortedSlice { rows, section, memory }))
    }

    /// The rows at `places` of those in `before` and then in `rows`. Only columns with values of the result have their
    /// values.
    fn sources_at(
        &self,
        before: Option<&RecordBatch>,
        rows: &RecordBatch,
        places: &UInt32Array,
        memory: &mut Reservation,
    ) -> Result<RecordBatch> {
        let schema = rows.schema();
        let mut columns = Vec::with_capacity(rows.num_columns());
        for (number, column) in rows.columns().iter().enumerate() {
            if !self.shape.sources[number] {
                columns.push(new_null_array(column.data_type(), places.len()));
                continue;
            }
            let column = match before {
                Some(before) => concat(&[before.column(number), column]).map_err(failed)?,
                None => Arc::clone(column),
            };
            columns.push(take(&column, places, None).map_err(failed)?);
        }
        let bytes = columns.iter().map(|column| column.get_array_memory_size() as u64).sum();
        memory.grow(bytes)?;
        RecordBatch::try_new_with_options(schema, columns, &options(places.len())).map_err(failed)
    }

    /// The rows for the next slice.
    fn carried_rows(&self, rows: &RecordBatch) -> Result<CarriedRows> {
        // The texts of the slice must not stay in memory for the sake of a few rows.
        let columns = rows.columns().iter().map(copied).collect::<Result<_>>()?;
        let rows = RecordBatch::try_new_with_options(rows.schema(), columns, &options(rows.num_rows()));
        let rows = rows.map_err(failed)?;
        let of_rows: Vec<ArrayRef> = self.shape.plan.keys.iter().map(|key| Arc::clone(rows.column(*key))).collect();
        let encoded = self.shape.keys.encode(&of_rows)?;
        let mut keys = RowSet::new(self.broker.reservation(OWNER));
        (0..rows.num_rows()).for_each(|row| {
            keys.insert(encoded.get(row));
        });
        keys.account(rows.get_array_memory_size())?;
        debug_assert_eq!(keys.len(), rows.num_rows(), "each key has one last row");
        Ok(CarriedRows { rows, keys })
    }
}

impl BatchSource for SlicedFill {
    fn schema(&self) -> &SchemaRef {
        &self.shape.schema
    }

    fn parallelism(&self) -> usize {
        self.slices.count()
    }

    fn worker(self: Arc<Self>) -> Batches {
        let mut worker = FillWorker::new(&self.shape);
        let mut _held = None;
        let mut has_slice = false;
        share(move || {
            loop {
                self.cancel.check()?;
                if let Some(batch) = worker.next(self.batch_rows)? {
                    return Ok(Some(batch));
                }
                let slice = self.next.fetch_add(1, Ordering::SeqCst);
                if slice >= self.slices.count() {
                    return Ok(None);
                }
                if !std::mem::replace(&mut has_slice, true) {
                    self.slices.count_worker();
                }
                _held = None;
                let Some(SortedSlice { rows, section, memory }) = self.slice(slice)? else { return Ok(None) };
                _held = Some(memory);
                let is_empty = section.is_last && rows.num_rows() == 0 && self.shape.plan.keys.is_empty();
                worker.gaps = Gaps::of_section(&self.shape, rows, section)?;
                if is_empty {
                    worker.gaps.end(true)?;
                }
            }
        })
    }
}

/// The rows of a batch at `places`.
fn taken(batch: &RecordBatch, places: &UInt32Array) -> Result<RecordBatch> {
    let columns = batch.columns().iter().map(|column| take(column, places, None).map_err(failed));
    let columns = columns.collect::<Result<Vec<_>>>()?;
    RecordBatch::try_new_with_options(batch.schema(), columns, &options(places.len())).map_err(failed)
}

fn options(rows: usize) -> RecordBatchOptions {
    RecordBatchOptions::new().with_row_count(Some(rows))
}

pub(super) fn failed(error: arrow::error::ArrowError) -> Error {
    Error::internal(format!("cannot fill a slice of time: {error}"))
}
