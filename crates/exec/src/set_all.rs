//! INTERSECT ALL and EXCEPT ALL: selects rows of the first input by how often they occur in the second one.
//!
//! We count the rows of the second input. Then we read the first input, and each of its rows takes one from the count
//! of its equal row while the count is above zero. `INTERSECT ALL` returns the rows that took one, `EXCEPT ALL` the
//! others.
//!
//! If the counts do not fit into memory, both inputs go to disk, into buckets by the hash of the whole row, and each
//! bucket is a set operation of its own (spilled.rs). Rows that are already counted are written once, with their count.

mod counts;
mod spilled;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow::array::{BooleanArray, RecordBatch};
use arrow::buffer::BooleanBuffer;
use arrow::compute::filter_record_batch;
use arrow::datatypes::SchemaRef;
use parking_lot::Mutex;
use rowmill_base::{Broker, Cancel, Error, Result};
use rowmill_storage::spill::TempSpace;

use self::counts::RepeatedRows;
use self::spilled::{SetBucketShare, SetBuckets, SetPart};
use crate::batch::{BatchSource, Batches};
use crate::phase::Phase;
use crate::row_keys::RowKeys;
use crate::share::share;
use crate::spill_buckets::BucketRows;

/// What a set operation computes, and what it needs for that.
#[derive(Clone, Debug)]
pub(crate) struct SetRequest {
    /// Whether it is `EXCEPT ALL`, or else `INTERSECT ALL`.
    pub(crate) except: bool,
    /// Ends the work early. Workers check it once per batch.
    pub(crate) cancel: Cancel,
    /// Grants the memory for the rows of the second input.
    pub(crate) broker: Broker,
    /// The place of temporary files.
    pub(crate) temp: TempSpace,
}

impl SetRequest {
    /// The name of the operator in errors.
    fn owner(&self) -> &'static str {
        if self.except { "EXCEPT ALL" } else { "INTERSECT ALL" }
    }
}

/// Returns rows of its first input depending on how often they occur in the second one.
pub(crate) struct SetAll {
    left: Arc<dyn BatchSource>,
    right: Arc<dyn BatchSource>,
    request: SetRequest,
    part: SetPart,
    keys: RowKeys,
    /// The counts of the second input. `None` before the first row, and after the rows have gone to disk.
    counts: Mutex<Option<RepeatedRows>>,
    /// Whether memory is short, so that all workers write their rows to disk.
    is_short: AtomicBool,
    counting: Arc<Phase<Option<BucketRows>, CountedRight>>,
    scattering: Arc<Phase<BucketRows, SetBuckets>>,
}

/// The second input after all of its rows were read.
#[derive(Debug)]
enum CountedRight {
    InMemory,
    OnDisk(BucketRows),
}

impl fmt::Debug for SetAll {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("SetAll");
        debug.field("left", &self.left).field("right", &self.right).field("except", &self.request.except);
        debug.finish_non_exhaustive()
    }
}

impl SetAll {
    /// Makes `left EXCEPT ALL right` or `left INTERSECT ALL right`. Both inputs must have columns of the same types.
    /// NULL equals NULL.
    pub(crate) fn new(
        left: Arc<dyn BatchSource>,
        right: Arc<dyn BatchSource>,
        request: SetRequest,
    ) -> Result<Arc<SetAll>> {
        SetAll::of_part(left, right, request, SetPart::default())
    }

    fn of_part(
        left: Arc<dyn BatchSource>,
        right: Arc<dyn BatchSource>,
        request: SetRequest,
        part: SetPart,
    ) -> Result<Arc<SetAll>> {
        let keys = RowKeys::new(left.schema().fields().iter().map(|field| field.data_type().clone()))?;
        Ok(Arc::new(SetAll {
            left,
            right,
            request,
            part,
            keys,
            counts: Mutex::default(),
            is_short: AtomicBool::new(false),
            counting: Arc::default(),
            scattering: Arc::default(),
        }))
    }

    /// The number of columns of a row.
    fn width(&self) -> usize {
        self.left.schema().fields().len()
    }

    /// Counts rows of the second input until none are left. If memory is short, writes them to disk instead.
    fn count(&self) -> Result<Option<BucketRows>> {
        let mut right = Arc::clone(&self.right).worker();
        while !self.is_short.load(Ordering::Relaxed) {
            self.request.cancel.check()?;
            let Some(batch) = right.next().transpose()? else { return Ok(None) };
            if self.counting.is_over() {
                return Ok(None);
            }
            self.add(&batch)?;
        }
        self.write_right(right).map(Some)
    }

    fn add(&self, batch: &RecordBatch) -> Result<()> {
        let keys = self.keys.encode(&batch.columns()[..self.width()])?;
        let repeats = self.part.counts_of(batch)?;
        let mut counts = self.counts.lock();
        let counts = counts.get_or_insert_with(|| RepeatedRows::new(&self.request));
        counts.add(&keys, batch.num_rows(), repeats)?;
        if self.part.may_spill && counts.must_spill() {
            self.is_short.store(true, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Selects the rows of a batch of the first input that belong to the result.
    fn given(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        let keys = self.keys.encode(batch.columns())?;
        let mut counts = self.counts.lock();
        let is_given = BooleanBuffer::collect_bool(batch.num_rows(), |row| {
            // INTERSECT ALL keeps the rows that took one, EXCEPT ALL the others.
            counts.as_mut().is_some_and(|counts| counts.take_one(keys.get(row))) != self.request.except
        });
        drop(counts);
        filter_record_batch(batch, &BooleanArray::new(is_given, None))
            .map_err(|error| Error::internal(format!("cannot filter the rows of a set operation: {error}")))
    }

    /// Reads the second input, together with other workers. `None` if another worker failed.
    fn begin(&self) -> Result<Option<SetStep>> {
        let cancel = &self.request.cancel;
        let counted = self.counting.run(cancel, || self.count(), |parts| self.counted(parts))?;
        let Some(counted) = counted else { return Ok(None) };
        let CountedRight::OnDisk(right) = &*counted else {
            return Ok(Some(SetStep::Select(Arc::clone(&self.left).worker())));
        };
        let scattered =
            self.scattering.run(cancel, || self.scatter_left(right), |parts| Ok(self.buckets(parts, right)))?;
        Ok(scattered.map(|buckets| SetStep::Buckets(SetBucketShare::new(buckets))))
    }
}

/// What a worker does after the second input was read.
enum SetStep {
    /// Selects rows of the first input.
    Select(Batches),
    /// Computes buckets.
    Buckets(SetBucketShare),
}

impl BatchSource for SetAll {
    fn schema(&self) -> &SchemaRef {
        self.left.schema()
    }

    fn parallelism(&self) -> usize {
        self.left.parallelism().max(self.right.parallelism())
    }

    fn worker(self: Arc<Self>) -> Batches {
        let mut step: Option<SetStep> = None;
        share(move || {
            loop {
                self.request.cancel.check()?;
                let step = match &mut step {
                    Some(step) => step,
                    None => match self.begin()? {
                        Some(begun) => step.insert(begun),
                        None => return Ok(None),
                    },
                };
                let left = match step {
                    SetStep::Select(left) => left,
                    SetStep::Buckets(buckets) => return buckets.next_batch(&self.request),
                };
                let Some(batch) = left.next().transpose()? else { return Ok(None) };
                let given = self.given(&batch)?;
                if given.num_rows() > 0 {
                    return Ok(Some(given));
                }
            }
        })
    }
}
