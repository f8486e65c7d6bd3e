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

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions, UInt32Array};
use arrow::compute::{concat_batches, take};
use arrow::datatypes::SchemaRef;
use parking_lot::{Condvar, Mutex};
use rowmill_base::{Broker, Cancel, Error, Reservation, Result};
use rowmill_plan::Fill as FillPlan;
use rowmill_storage::times_of;

use super::gaps::{Gaps, Section};
use super::{FillShape, FillWorker, with_schema};
use crate::batch::{BatchSource, Batches};
use crate::phase::CANCEL_INTERVAL;
use crate::row_set::RowSet;
use crate::share::share;
use crate::sort::copied;

/// The name of the operator in errors.
const OWNER: &str = "FILL";

/// Rows in slices of time. No bucket has rows in two slices, and those of a later slice are later.
pub(crate) trait BucketSlices: fmt::Debug + Send + Sync {
    /// The schema of the rows.
    fn schema(&self) -> &SchemaRef;
    /// The number of slices.
    fn count(&self) -> usize;
    /// The rows of a slice.
    fn rows(&self, slice: usize) -> Result<Batches>;
}

/// A FILL over slices of time.
pub(crate) struct SlicedFill {
    slices: Arc<dyn BucketSlices>,
    shape: Arc<FillShape>,
    batch_rows: usize,
    cancel: Cancel,
    broker: Broker,
    next: AtomicUsize,
    carried: Mutex<HandedOn>,
    changed: Condvar,
}

/// The last rows before the first slice that has not taken them yet.
#[derive(Default)]
struct HandedOn {
    next: usize,
    rows: Option<CarriedRows>,
    has_failed: bool,
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
    section: Section,
    memory: Reservation,
}

/// Tells the workers of later slices, which wait for this one, if it fails.
struct HandOnPromise<'a>(&'a SlicedFill);

impl Drop for HandOnPromise<'_> {
    fn drop(&mut self) {
        self.0.carried.lock().has_failed = true;
        self.0.changed.notify_all();
    }
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
            carried: Mutex::default(),
            changed: Condvar::new(),
        }))
    }

    /// Reads a slice, hands the last rows on, and puts the slice in order. Returns `None` if another worker has failed.
    fn slice(&self, slice: usize) -> Result<Option<SortedSlice>> {
        let promise = HandOnPromise(self);
        let is_last = slice + 1 == self.slices.count();
        let schema = &self.shape.schema;
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
        let keys = self.shape.keys.encode(&keys)?;
        let ticks = times_of(rows.column(self.shape.plan.bucket))?;
        let mut known = RowSet::new(self.broker.reservation(OWNER));
        let mut order: Vec<(u32, i64, u32)> = Vec::with_capacity(rows.num_rows());
        for (row, ticks) in ticks.iter().enumerate() {
            order.push((known.insert(keys.get(row)).0 as u32, *ticks, row as u32));
        }
        known.account(order.capacity() * size_of::<(u32, i64, u32)>())?;
        drop(keys);
        order.sort_unstable();

        let Some(before) = self.carried(slice)? else { return Ok(None) };
        let carried = before.as_ref().map_or(0, |before| before.rows.num_rows());
        let all = match &before {
            Some(before) => concat_batches(schema, [&before.rows, &rows]).map_err(failed)?,
            None => rows,
        };
        memory.grow(all.get_array_memory_size() as u64)?;
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
        let last_rows = order.chunk_by(|one, next| one.0 == next.0).filter_map(|rows| rows.last());
        let last_rows = last_rows.map(|(_, _, row)| carried as u32 + row);
        self.hand_on(slice, &all, others.iter().copied().chain(last_rows).collect())?;
        std::mem::forget(promise);

        let mut places = Vec::with_capacity(order.len() + carried);
        let mut section = Section { is_last, ..Section::default() };
        let mut add = |key: u32, row: u32, is_carried: bool| {
            places.push(row);
            section.keys.push(key);
            section.are_carried.push(is_carried);
        };
        for rows in order.chunk_by(|one, next| one.0 == next.0) {
            let key = rows[0].0;
            carried_of[key as usize].into_iter().for_each(|row| add(key, row, true));
            rows.iter().for_each(|(_, _, row)| add(key, carried as u32 + row, false));
        }
        if is_last {
            // The buckets after the last row of a key go up to the end of the range.
            (0..).zip(others).for_each(|(number, row)| add(known.len() as u32 + number, row, true));
        }
        let rows = taken(&all, &UInt32Array::from(places))?;
        Ok(Some(SortedSlice { rows, section, memory }))
    }

    /// Waits for the last rows before a slice. Returns `None` if they will never be known.
    fn carried(&self, slice: usize) -> Result<Option<Option<CarriedRows>>> {
        let mut carried = self.carried.lock();
        loop {
            if carried.has_failed {
                return Ok(None);
            }
            if carried.next == slice {
                return Ok(Some(carried.rows.take()));
            }
            self.changed.wait_for(&mut carried, CANCEL_INTERVAL);
            self.cancel.check()?;
        }
    }

    /// Hands the last rows to the next slice: these rows of `all`.
    fn hand_on(&self, slice: usize, all: &RecordBatch, last: Vec<u32>) -> Result<()> {
        let rows = taken(all, &UInt32Array::from(last))?;
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
        let mut carried = self.carried.lock();
        debug_assert_eq!(carried.next, slice, "slices are handed on in order");
        (carried.next, carried.rows) = (slice + 1, Some(CarriedRows { rows, keys }));
        self.changed.notify_all();
        Ok(())
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

fn failed(error: arrow::error::ArrowError) -> Error {
    Error::internal(format!("cannot fill a slice of time: {error}"))
}
