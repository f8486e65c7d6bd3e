//! Set operations whose counts do not fit into memory.
//!
//! ```text
//! count     memory is short: the counts so far and all further rows of the second input go to disk, into buckets
//! scatter   all rows of the first input go to disk too, into buckets by the same hash
//! buckets   a worker takes a bucket and computes the set operation of its rows
//! ```
//!
//! Copies of a row are in the same bucket, and they need one count only. For example, a million copies of one row and
//! ten other rows are eleven counts. So we should not judge by the rows of a bucket whether it fits into memory: we
//! count them as if it did. If memory gets short then, the bucket is divided again by further bits of the hash, and so
//! on.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow::array::{ArrayRef, AsArray, RecordBatch, UInt64Array};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, UInt64Type};
use rowmill_base::{Broker, Error, Result};

use super::{CountedRight, SetAll, SetRequest};
use crate::batch::{BatchSource, Batches};
use crate::spill_buckets::{
    BucketRequest, BucketRows, BucketWriter, HASH_BITS_MAX, SpillSizes, SpilledBatch, SpilledRows, SpilledRowsForm,
    row_count,
};

/// The bytes that a distinct row takes beside its own: its hash, its end, its count, and two to four slots of a table.
/// Vectors that are full double, so that they have up to twice these bytes.
const BYTES_OF_COUNT: u64 = 64;

/// The memory limit divided by the bytes of the counts of all workers' buckets that need no further division.
const BUCKETS_SHARE: u64 = 4;

/// The part of a larger set operation that an operator computes.
#[derive(Clone, Copy, Debug)]
pub(super) struct SetPart {
    /// How often the rows were divided into buckets.
    depth: u32,
    sizes: SpillSizes,
    /// Whether rows go to disk if memory is short.
    pub(super) may_spill: bool,
}

impl Default for SetPart {
    /// The whole.
    fn default() -> Self {
        SetPart { depth: 0, sizes: SpillSizes::usual(), may_spill: true }
    }
}

impl SetPart {
    /// How often each row of a batch of the second input occurs. `None` if it is once.
    pub(super) fn counts_of(self, batch: &RecordBatch) -> Result<Option<&[u64]>> {
        // Rows from disk have their count as the last column.
        if self.depth == 0 {
            return Ok(None);
        }
        let counts = batch.columns().last().and_then(|counts| counts.as_primitive_opt::<UInt64Type>());
        counts.map(|counts| Some(&counts.values()[..])).ok_or_else(|| Error::internal("spilled rows have counts"))
    }
}

impl SetAll {
    /// The columns of the second input on disk: those of a row, and its count.
    fn counted_schema(&self) -> SchemaRef {
        let count = Arc::new(Field::new("count", DataType::UInt64, true));
        Arc::new(Schema::new(self.left.schema().fields().iter().cloned().chain([count]).collect::<Vec<_>>()))
    }

    fn bucket_writer(&self, schema: &SchemaRef, broker: &Broker) -> BucketWriter {
        let rows = BucketRequest {
            owner: self.request.owner(),
            schema,
            used: &(0..schema.fields().len()).collect::<Vec<_>>(),
            keys: (0..self.width()).collect(),
            nulls_equal: true,
            keeps_keyless: true,
            depth: self.part.depth,
            sizes: self.part.sizes,
            all_equal: false,
        };
        BucketWriter::new(rows, broker, &self.request.temp)
    }

    /// Writes the counts and the `rest` of a worker's share of the second input to disk. The first worker that comes
    /// writes the counts.
    pub(super) fn write_right(&self, rest: impl Iterator<Item = Result<RecordBatch>>) -> Result<BucketRows> {
        let memory = self.request.broker.spillable();
        let mut writer = self.bucket_writer(&self.counted_schema(), memory.broker());
        let counts = self.counts.lock().take();
        if let Some(counts) = counts {
            counts.write(&self.keys, &mut writer)?;
        }
        for batch in rest {
            self.request.cancel.check()?;
            if self.counting.is_over() {
                break;
            }
            let batch = batch?;
            let mut columns = batch.columns().to_vec();
            if self.part.counts_of(&batch)?.is_none() {
                columns.push(Arc::new(UInt64Array::from_value(1, batch.num_rows())) as ArrayRef);
            }
            writer.add(columns, batch.num_rows())?;
        }
        writer.finish()
    }

    /// Puts together what all workers have read of the second input.
    pub(super) fn counted(&self, parts: Vec<Option<BucketRows>>) -> Result<CountedRight> {
        if !self.is_short.load(Ordering::Relaxed) {
            return Ok(CountedRight::InMemory);
        }
        // A worker may have added rows to the counts after another one had written them.
        let last = self.write_right(std::iter::empty())?;
        Ok(CountedRight::OnDisk(BucketRows::merge(parts.into_iter().flatten().chain([last]))))
    }

    /// Writes a worker's share of the first input to disk.
    pub(super) fn scatter_left(&self, right: &BucketRows) -> Result<BucketRows> {
        let memory = self.request.broker.spillable();
        let mut writer = self.bucket_writer(self.left.schema(), memory.broker());
        if !self.request.except {
            writer.drop_rows_of_other_buckets(right);
        }
        for batch in Arc::clone(&self.left).worker() {
            self.request.cancel.check()?;
            if self.scattering.is_over() {
                break;
            }
            let batch = batch?;
            writer.add(batch.columns().to_vec(), batch.num_rows())?;
        }
        writer.finish()
    }

    /// The buckets of both inputs. Each worker has written a part of the first one.
    pub(super) fn buckets(&self, left: Vec<BucketRows>, right: &BucketRows) -> SetBuckets {
        let bytes_max = self.request.broker.limit_bytes() / BUCKETS_SHARE / left.len().max(1) as u64;
        let pairs = BucketRows::merge(left).buckets.into_iter().zip(right.buckets.iter().cloned());
        let next = SetPart { depth: self.part.depth + 1, ..self.part };
        SetBuckets {
            left_schema: Arc::clone(self.left.schema()),
            right_schema: self.counted_schema(),
            pairs: pairs.filter(|(left, _)| !left.is_empty()).collect(),
            part: SetPart { may_spill: next.depth * next.sizes.bucket_bits < HASH_BITS_MAX, ..next },
            bytes_max: bytes_max.min(self.part.sizes.stage_bytes_max),
            next: AtomicUsize::new(0),
        }
    }
}

/// All buckets of a set operation.
#[derive(Debug)]
pub(super) struct SetBuckets {
    left_schema: SchemaRef,
    right_schema: SchemaRef,
    /// The rows of each bucket of the first input and of the second one.
    pairs: Vec<(Vec<SpilledBatch>, Vec<SpilledBatch>)>,
    part: SetPart,
    /// Buckets with counts of at most this many bytes stay in memory.
    bytes_max: u64,
    next: AtomicUsize,
}

/// A worker's share of all buckets.
pub(super) struct SetBucketShare {
    buckets: Arc<SetBuckets>,
    running: Option<Batches>,
}

impl SetBucketShare {
    pub(super) fn new(buckets: Arc<SetBuckets>) -> SetBucketShare {
        SetBucketShare { buckets, running: None }
    }

    /// The next batch of the result of `request`. `None` if no bucket is left.
    pub(super) fn next_batch(&mut self, request: &SetRequest) -> Result<Option<RecordBatch>> {
        loop {
            if let Some(batch) = self.running.as_mut().and_then(Iterator::next) {
                return batch.map(Some);
            }
            request.cancel.check()?;
            let SetBuckets { left_schema, right_schema, pairs, part, bytes_max, next } = &*self.buckets;
            let Some((left, right)) = pairs.get(next.fetch_add(1, Ordering::Relaxed)) else { return Ok(None) };
            let bytes = right.iter().map(|batch| batch.bytes).sum::<u64>() + row_count(right) * BYTES_OF_COUNT;
            let part = SetPart { may_spill: part.may_spill && bytes > *bytes_max, ..*part };
            let rows = |schema: &SchemaRef, batches: &Vec<SpilledBatch>| -> Arc<dyn BatchSource> {
                SpilledRows::new(request.owner(), schema, batches.clone(), SpilledRowsForm::Passing)
            };
            let (left, right) = (rows(left_schema, left), rows(right_schema, right));
            let bucket = SetAll::of_part(left, right, request.clone(), part)?;
            self.running = Some((bucket as Arc<dyn BatchSource>).worker());
        }
    }
}
