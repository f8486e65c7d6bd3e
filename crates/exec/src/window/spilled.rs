//! Windows over more rows than memory holds.
//!
//! ```text
//! gather    memory is short: the rows so far and all others go to disk, into buckets by the hash of their partition
//! buckets   workers take buckets and compute each like a window in memory. All workers together divide a bucket
//!           that is too large for that, by further bits of the hash                                     buckets.rs
//! sort      most rows of a bucket are in one partition, or there is no PARTITION BY: a sort brings them into order,
//!           and one worker computes them in stretches                                 sorted_partitions.rs, stretch.rs
//! as is     there is neither PARTITION BY nor ORDER BY: one worker reads the rows as they are, in stretches too
//! ```
//!
//! Buckets take less time than a sort of all rows. The rows of a bucket are sorted only when they are in memory, and
//! only by their keys.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow::array::RecordBatch;
use rowmill_base::Result;

use super::WindowRequest;
use super::buckets::{BucketShare, WindowBuckets};
use super::sorted_partitions::SortedPartitions;
use crate::batch::BatchSource;
use crate::sort::SortFeeder;
use crate::spill_buckets::{BucketRows, BucketWriter};

/// The way of the rows of a window if memory is short.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SpillWay {
    /// The rows stay in memory.
    None,
    /// Into buckets by the hash of the partition. The rows were divided `depth` times before.
    Buckets { depth: u32 },
    /// Through a sort by partition and order.
    Sort,
    /// As they come: they are one partition without an order.
    AsTheyCome,
}

/// Takes the rows of one worker to disk.
pub(super) enum SpillSink<'a> {
    Buckets(Box<BucketWriter>),
    Sort(Box<SortFeeder<'a>>),
}

impl SpillSink<'_> {
    pub(super) fn add(&mut self, batch: &RecordBatch) -> Result<()> {
        match self {
            SpillSink::Buckets(writer) => writer.add(batch.columns().to_vec(), batch.num_rows()),
            SpillSink::Sort(feeder) => feeder.add(batch),
        }
    }

    /// Writes the last rows. Returns those that are in buckets.
    pub(super) fn finish(self) -> Result<Option<BucketRows>> {
        match self {
            SpillSink::Buckets(writer) => writer.finish().map(Some),
            SpillSink::Sort(feeder) => feeder.finish().map(|()| None),
        }
    }
}

/// A worker's share of the rows that went to disk.
pub(super) enum SpilledShare {
    Buckets(BucketShare),
    Sorted(Box<SortedPartitions>),
}

impl SpilledShare {
    pub(super) fn of_buckets(buckets: &Arc<WindowBuckets>) -> SpilledShare {
        SpilledShare::Buckets(BucketShare::new(Arc::clone(buckets)))
    }

    /// The share of rows that are in the order of the window.
    pub(super) fn of_sorted(rows: Arc<dyn BatchSource>, request: &WindowRequest) -> Result<SpilledShare> {
        Ok(SpilledShare::Sorted(Box::new(SortedPartitions::new(rows, request)?)))
    }

    /// The next batch of the result. `ready` holds batches that were computed with an earlier one.
    pub(super) fn next_batch(&mut self, ready: &mut VecDeque<RecordBatch>) -> Result<Option<RecordBatch>> {
        match self {
            SpilledShare::Buckets(buckets) => buckets.next_batch(),
            SpilledShare::Sorted(sorted) => {
                sorted.compute_next(ready)?;
                Ok(ready.pop_front())
            }
        }
    }
}
