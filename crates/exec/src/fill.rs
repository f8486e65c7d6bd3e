//! Rows for buckets of time in which the input has none: the FILL of SAMPLE BY.
//!
//! ```text
//! key  bucket  value        key  bucket  value
//! a    09:00       1        a    09:00       1
//! a    11:00       3   ->   a    10:00       1   (the value before, PREV)
//! b    10:00       7        a    11:00       3
//!                           b    10:00       7
//! ```
//!
//! The input is ordered by its keys and then by the bucket, so one pass sees each gap between two rows. We keep only
//! the batch that is being read and one row before it, whatever the size of a gap.

mod columns;
mod gaps;
mod slice_order;
mod sliced;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::{DataType, SchemaRef, TimeUnit};
use rowmill_base::{Cancel, Error, Result};
use rowmill_expr::time_buckets::{BucketRule, TimeBuckets};
use rowmill_plan::{Fill as FillPlan, FillMode, FilledBuckets};

use self::columns::FillColumns;
use self::gaps::{Gaps, NextRow};
pub(crate) use self::sliced::{BucketSlices, FILLED_GROUPS_MIN, SlicedFill};
use crate::batch::{BatchSource, Batches};
use crate::row_keys::RowKeys;
use crate::share::{share, with_nulls};

/// Adds a row for each bucket without one.
#[derive(Debug)]
pub(crate) struct Fill {
    input: Arc<dyn BatchSource>,
    shape: Arc<FillShape>,
    batch_rows: usize,
    cancel: Cancel,
    begun_shares: AtomicUsize,
    ended_shares: AtomicUsize,
    has_rows: AtomicBool,
}

/// What a [`Fill`] does, shared by its workers.
#[derive(Debug)]
pub(crate) struct FillShape {
    plan: FillPlan,
    unit: TimeUnit,
    keys: RowKeys,
    /// The columns of the input. Each of them may be NULL.
    input: SchemaRef,
    /// The columns of the result.
    schema: SchemaRef,
    /// Whether a column of the result depends on the times of rows that are added.
    needs_ticks: bool,
    /// The columns of the input that have values of the result.
    sources: Vec<bool>,
}

impl Fill {
    /// Makes the operator over `input`, which must be ordered by the keys and the bucket of `plan`.
    pub(crate) fn new(
        input: Arc<dyn BatchSource>,
        plan: &FillPlan,
        batch_rows: usize,
        cancel: Cancel,
    ) -> Result<Arc<Fill>> {
        let shape = FillShape::new(input.schema(), plan)?;
        Ok(Arc::new(Fill {
            input,
            shape,
            batch_rows,
            cancel,
            begun_shares: AtomicUsize::new(0),
            ended_shares: AtomicUsize::new(0),
            has_rows: AtomicBool::new(false),
        }))
    }

    /// Notes that a share has read all of its input. Returns whether no share has found a row.
    fn end_share(&self) -> bool {
        let ended = self.ended_shares.fetch_add(1, Ordering::SeqCst) + 1;
        ended == self.begun_shares.load(Ordering::SeqCst) && !self.has_rows.swap(true, Ordering::SeqCst)
    }
}

impl FillShape {
    fn new(schema: &SchemaRef, plan: &FillPlan) -> Result<Arc<FillShape>> {
        let input = with_nulls(schema);
        let DataType::Timestamp(unit, _) = input.field(plan.bucket).data_type() else {
            return Err(Error::internal("a bucket that is no timestamp"));
        };
        let kinds = plan.keys.iter().map(|key| input.field(*key).data_type().clone());
        let (unit, keys) = (*unit, RowKeys::new(kinds)?);
        let kept = input.project(&plan.keep);
        let schema = Arc::new(kept.map_err(|error| Error::internal(format!("the columns of a FILL: {error}")))?);
        let is_of_time = |column: &usize| *column == plan.bucket || matches!(plan.values[*column], FillMode::Linear);
        let needs_ticks = plan.keep.iter().any(is_of_time);
        let mut sources = vec![false; input.fields().len()];
        for column in &plan.keep {
            sources[*column] = true;
            if let FillMode::Previous(of) = plan.values[*column] {
                sources[of] = true;
            }
        }
        let shape = Arc::new(FillShape { plan: plan.clone(), unit, keys, input, schema, needs_ticks, sources });
        // The rule must be right before a row is read.
        shape.buckets(plan.buckets.origin)?;
        Ok(shape)
    }

    /// The buckets with this origin.
    fn buckets(&self, origin: i64) -> Result<TimeBuckets> {
        let FilledBuckets { stride, zone, offset, .. } = &self.plan.buckets;
        let rule = BucketRule { stride: *stride, zone: zone.as_deref(), origin, offset: *offset };
        TimeBuckets::new(&rule, self.unit)
    }
}

impl BatchSource for Fill {
    fn schema(&self) -> &SchemaRef {
        &self.shape.schema
    }

    fn parallelism(&self) -> usize {
        self.input.parallelism()
    }

    fn worker(self: Arc<Self>) -> Batches {
        self.begun_shares.fetch_add(1, Ordering::SeqCst);
        let mut input = Some(Arc::clone(&self.input).worker());
        let mut worker = FillWorker::new(&self.shape);
        share(move || {
            loop {
                self.cancel.check()?;
                if let Some(batch) = worker.next(self.batch_rows)? {
                    return Ok(Some(batch));
                }
                let Some(batches) = &mut input else { return Ok(None) };
                match batches.next().transpose()? {
                    Some(batch) => {
                        if batch.num_rows() > 0 {
                            self.has_rows.store(true, Ordering::SeqCst);
                            worker.gaps.read(&batch)?;
                        }
                    }
                    None => {
                        input = None;
                        // A range without keys has all of its buckets even if there is no row.
                        let is_empty = self.end_share() && self.shape.plan.keys.is_empty();
                        worker.gaps.end(is_empty)?;
                    }
                }
            }
        })
    }
}

/// One worker's part of a FILL.
struct FillWorker {
    gaps: Gaps,
    columns: FillColumns,
}

impl FillWorker {
    fn new(shape: &Arc<FillShape>) -> FillWorker {
        FillWorker { gaps: Gaps::new(shape), columns: FillColumns::new(Arc::clone(shape)) }
    }

    /// The next batch. Returns `None` if more rows must be read first.
    fn next(&mut self, batch_rows: usize) -> Result<Option<RecordBatch>> {
        while self.columns.added() < batch_rows {
            match self.gaps.next_row()? {
                NextRow::Read(row) => self.columns.add_read(row, &self.gaps),
                NextRow::Gap => self.columns.add_gap(&mut self.gaps, batch_rows)?,
                NextRow::BatchEnds => break,
            }
        }
        match self.columns.added() {
            0 => Ok(None),
            _ => self.columns.finish(&self.gaps).map(Some),
        }
    }
}

/// The same rows with a schema that allows NULLs.
fn with_schema(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(Arc::clone(schema), batch.columns().to_vec(), &options)
        .map_err(|error| Error::internal(format!("the rows of a FILL: {error}")))
}

/// Joins the rows of two batches.
fn joined(schema: &SchemaRef, first: &RecordBatch, second: &RecordBatch) -> Result<RecordBatch> {
    arrow::compute::concat_batches(schema, [first, second])
        .map_err(|error| Error::internal(format!("cannot join the batches of a FILL: {error}")))
}

#[cfg(test)]
mod tests;
