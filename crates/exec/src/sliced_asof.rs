//! ASOF joins of two tables whose blocks are in the order of time, slice of time by slice of time.
//!
//! ```text
//! time        |---- slice 0 ----|---- slice 1 ----|---- slice 2 ----|
//! right rows   read, and the last row of each key found; it prevails in the next slices
//! left rows    read, and merged with the right rows: one pass, one array with the last row of each key
//! ```
//!
//! Workers take slices in order and read them at the same time. A slice needs only one thing of the slice before: the
//! row of each key that prevails at its beginning. A worker hands these on before it merges its own left rows, so no
//! worker waits for a merge. Memory holds the slices that are being joined, whatever the size of the tables.
//!
//! Zone maps decide whether it pays: the blocks of a slice are read for the slice, so they must not overlap much.

mod key_numbers;
mod slices;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow::array::{ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions, UInt32Array};
use arrow::compute::{concat, filter_record_batch, take};
use arrow::datatypes::SchemaRef;
use parking_lot::{Condvar, Mutex};
use rowmill_base::{Broker, Cancel, Error, Result};

use self::key_numbers::{KeyNumbers, NO_NUMBER, SharedNumbers};
pub(crate) use self::slices::{SliceSide, TimeSlices, block_times, time_array};
use crate::batch::{BatchSource, Batches};
use crate::phase::CANCEL_INTERVAL;
use crate::scan::ScanMetrics;
use crate::share::{share, with_nulls};

/// What a [`SlicedAsof`] gives.
#[derive(Clone, Debug)]
pub(crate) struct SlicedRequest {
    pub(crate) left: SliceSide,
    pub(crate) right: SliceSide,
    pub(crate) slices: TimeSlices,
    /// Whether a right row at the time of a left row is too late (`LT JOIN`).
    pub(crate) strict: bool,
    /// Whether left rows without a match are left out.
    pub(crate) inner: bool,
    /// The columns of the result: whether it is of the right side, and the position in the side's columns.
    pub(crate) output: Vec<(bool, usize)>,
    pub(crate) schema: SchemaRef,
    pub(crate) batch_rows: usize,
    pub(crate) cancel: Cancel,
    pub(crate) broker: Broker,
}

/// An ASOF join that works by slices of time.
pub(crate) struct SlicedAsof {
    request: SlicedRequest,
    schema: SchemaRef,
    numbers: SharedNumbers,
    next: AtomicUsize,
    handed_on: Mutex<HandedOn>,
    changed: Condvar,
}

/// The rows that prevail at the beginnings of slices.
struct HandedOn {
    /// The first slice whose beginning is not known yet.
    next: usize,
    /// What prevails at the beginning of the slices that are known and not begun yet, the first one of slice `next - 1`
    /// and so on backwards. Only the last is needed, because each slice takes its own before it hands on the next.
    rows: Option<Arc<PrevailingRows>>,
    has_failed: bool,
}

/// The right row of each key that prevails at a point in time.
struct PrevailingRows {
    /// The columns of the rows.
    columns: Vec<ArrayRef>,
    /// The row of each key, by the number of the key.
    row_of: Vec<u32>,
}

/// Tells the workers of later slices, which wait for this one, if it fails.
struct HandOnPromise<'a>(&'a SlicedAsof);

impl Drop for HandOnPromise<'_> {
    fn drop(&mut self) {
        self.0.handed_on.lock().has_failed = true;
        self.0.changed.notify_all();
    }
}

/// One worker's part of the work.
struct SliceWorker {
    numbers: KeyNumbers,
    /// Rows of the result that were not given yet.
    rest: Option<RecordBatch>,
}

impl fmt::Debug for SlicedAsof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SlicedAsof").field("request", &self.request).finish()
    }
}

impl SlicedAsof {
    pub(crate) fn new(request: SlicedRequest) -> Arc<SlicedAsof> {
        let numbers = SharedNumbers::new(request.broker.reservation("ASOF JOIN"));
        let handed_on = HandedOn { next: 0, rows: None, has_failed: false };
        let schema = with_nulls(&request.schema);
        Arc::new(SlicedAsof {
            request,
            schema,
            numbers,
            next: AtomicUsize::new(0),
            handed_on: Mutex::new(handed_on),
            changed: Condvar::new(),
        })
    }

    /// Counts of the scans of both sides.
    pub(crate) fn scans(&self) -> impl Iterator<Item = &Arc<ScanMetrics>> {
        [self.request.left.metrics(), self.request.right.metrics()].into_iter()
    }

    /// Waits until the rows that prevail at the beginning of a slice are known. Returns `None` if they will never be.
    fn prevailing(&self, slice: usize) -> Result<Option<Arc<PrevailingRows>>> {
        let mut handed_on = self.handed_on.lock();
        loop {
            if handed_on.has_failed {
                return Ok(None);
            }
            if handed_on.next == slice {
                let none = || Arc::new(PrevailingRows { columns: Vec::new(), row_of: Vec::new() });
                return Ok(Some(handed_on.rows.take().unwrap_or_else(none)));
            }
            self.changed.wait_for(&mut handed_on, CANCEL_INTERVAL);
            self.request.cancel.check()?;
        }
    }

    fn hand_on(&self, slice: usize, rows: PrevailingRows) {
        let mut handed_on = self.handed_on.lock();
        debug_assert_eq!(handed_on.next, slice, "slices are handed on in order");
        (handed_on.next, handed_on.rows) = (slice + 1, Some(Arc::new(rows)));
        self.changed.notify_all();
    }

    /// Joins one slice. Returns `None` if another worker has failed.
    fn slice(&self, slice: usize, worker: &mut SliceWorker) -> Result<Option<RecordBatch>> {
        let request = &self.request;
        let promise = HandOnPromise(self);
        let mut memory = request.broker.scratch("ASOF JOIN");
        let right = request.right.read(&request.slices, slice, &mut worker.numbers, &self.numbers, &request.cancel)?;
        memory.grow(right.bytes())?;
        let Some(before) = self.prevailing(slice)? else { return Ok(None) };
        let known = before.columns.first().map_or(0, |column| column.len());
        let columns: Vec<ArrayRef> = (0..right.width())
            .map(|place| {
                let mut parts: Vec<ArrayRef> = Vec::with_capacity(right.batches.len() + 1);
                parts.extend(before.columns.get(place).cloned());
                parts.extend(right.batches.iter().map(|batch| Arc::clone(batch.column(place))));
                joined(parts, &right, place)
            })
            .collect::<Result<_>>()?;
        let mut last = before.row_of.clone();
        last.resize(self.numbers.count(), NO_NUMBER);
        let at_begin = last.clone();
        for (row, key) in right.keys.iter().enumerate() {
            if *key != NO_NUMBER {
                last[*key as usize] = (known + row) as u32;
            }
        }
        self.hand_on(slice, prevailing_rows(&columns, &last)?);
        std::mem::forget(promise);

        let left = request.left.read(&request.slices, slice, &mut worker.numbers, &self.numbers, &request.cancel)?;
        memory.grow(left.bytes())?;
        let met = merged(&left, &right, at_begin, known, request.strict);
        let met = UInt32Array::from(met);
        let rows = left.keys.len();
        let left_columns: Vec<ArrayRef> = (0..left.width())
            .map(|place| {
                let parts = left.batches.iter().map(|batch| Arc::clone(batch.column(place))).collect();
                joined(parts, &left, place)
            })
            .collect::<Result<_>>()?;
        let mut output = Vec::with_capacity(request.output.len());
        for (is_right, column) in &request.output {
            output.push(match is_right {
                true if columns[*column].is_empty() => arrow::array::new_null_array(columns[*column].data_type(), rows),
                true => take(&columns[*column], &met, None).map_err(failed)?,
                false => Arc::clone(&left_columns[*column]),
            });
        }
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let batch = RecordBatch::try_new_with_options(Arc::clone(&self.schema), output, &options).map_err(failed)?;
        if !request.inner {
            return Ok(Some(batch));
        }
        let has_match = BooleanArray::from_iter(met.iter().map(|row| Some(row.is_some())));
        filter_record_batch(&batch, &has_match).map(Some).map_err(failed)
    }
}

/// For each left row the right row that it meets. The first `known` right rows are those of `last`.
fn merged(
    left: &slices::SliceRows,
    right: &slices::SliceRows,
    mut last: Vec<u32>,
    known: usize,
    strict: bool,
) -> Vec<Option<u32>> {
    let mut met = Vec::with_capacity(left.keys.len());
    let mut next = 0;
    for (key, time) in left.keys.iter().zip(&left.times) {
        while next < right.times.len() && (right.times[next] < *time || !strict && right.times[next] == *time) {
            if right.keys[next] != NO_NUMBER {
                last[right.keys[next] as usize] = (known + next) as u32;
            }
            next += 1;
        }
        // A key that only the left side has may be newer than the array.
        met.push(last.get(*key as usize).copied().filter(|row| *row != NO_NUMBER));
    }
    met
}

/// The rows at the places in `last`.
fn prevailing_rows(columns: &[ArrayRef], last: &[u32]) -> Result<PrevailingRows> {
    let mut row_of = vec![NO_NUMBER; last.len()];
    let mut places = Vec::new();
    for (key, place) in last.iter().enumerate().filter(|(_, place)| **place != NO_NUMBER) {
        row_of[key] = places.len() as u32;
        places.push(*place);
    }
    let places = UInt32Array::from(places);
    let columns = columns.iter().map(|column| take(column, &places, None).map_err(failed));
    Ok(PrevailingRows { columns: columns.collect::<Result<_>>()?, row_of })
}

/// Joins the parts of a column.
fn joined(parts: Vec<ArrayRef>, side: &slices::SliceRows, place: usize) -> Result<ArrayRef> {
    let parts: Vec<&dyn arrow::array::Array> = parts.iter().map(AsRef::as_ref).collect();
    match parts.is_empty() {
        true => Ok(arrow::array::new_empty_array(side.kind(place))),
        false => concat(&parts).map_err(failed),
    }
}

impl BatchSource for SlicedAsof {
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
                    let numbers = KeyNumbers::new(&self.request.right, self.request.broker.reservation("ASOF JOIN"))?;
                    worker.insert(SliceWorker { numbers, rest: None })
                }
            };
            loop {
                if let Some(batch) = worker.rest.take().filter(|batch| batch.num_rows() > 0) {
                    let rows = batch.num_rows().min(self.request.batch_rows);
                    worker.rest = Some(batch.slice(rows, batch.num_rows() - rows));
                    return Ok(Some(batch.slice(0, rows)));
                }
                self.request.cancel.check()?;
                let slice = self.next.fetch_add(1, Ordering::SeqCst);
                if slice >= self.request.slices.count() {
                    return Ok(None);
                }
                match self.slice(slice, worker)? {
                    Some(batch) => worker.rest = Some(batch),
                    None => return Ok(None),
                }
            }
        })
    }
}

fn failed(error: arrow::error::ArrowError) -> Error {
    Error::internal(format!("cannot join a slice of time: {error}"))
}
