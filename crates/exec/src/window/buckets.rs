//! Buckets of a window's rows on disk, and the windows over them.
//!
//! Each partition is in one bucket, so the windows over all buckets together give the result. A worker takes a bucket
//! that fits into its part of the memory and computes it alone: workers do not wait for each other, and the rows of a
//! bucket stay in the caches of one core. A bucket that is too large is a window of its own that all workers share. Its
//! rows go to disk again, into buckets by other bits of the hash, or through a sort if one partition has most of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use parking_lot::Mutex;
use rowmill_base::{Result, SpillableMemory};

use super::spilled::SpillWay;
use super::windowing::Windowing;
use super::{OWNER, WindowRequest};
use crate::batch::Batches;
use crate::spill_buckets::{BucketRows, SpilledBatch, SpilledRows, SpilledRowsForm, row_count};

/// The memory limit divided by the bytes that the rows of all workers' buckets may take, with their entries and
/// results. Computing them needs about half of that again.
const BUCKETS_SHARE: u64 = 4;

/// All buckets of a window.
pub(super) struct WindowBuckets {
    schema: SchemaRef,
    request: WindowRequest,
    /// Windows over buckets that are too large for one worker. `None` if a worker has seen the end of the window.
    large: Vec<Mutex<Option<Arc<Windowing>>>>,
    /// The buckets that one worker can compute.
    small: Vec<Vec<SpilledBatch>>,
    /// The next of the small buckets.
    next: AtomicUsize,
}

impl WindowBuckets {
    /// The buckets of `windowing`, which `workers` workers have filled with its rows. These were divided `depth` times
    /// before.
    pub(super) fn new(rows: BucketRows, windowing: &Windowing, depth: u32, workers: u64) -> WindowBuckets {
        let (schema, request) = (windowing.input().schema(), &windowing.request);
        let bytes_max = request.broker.limit_bytes() / BUCKETS_SHARE / workers.max(1);
        let bytes_max = bytes_max.min(windowing.sizes.stage_bytes_max);
        let (mut large, mut small) = (Vec::new(), Vec::new());
        for bucket in rows.buckets.into_iter().filter(|bucket| !bucket.is_empty()) {
            let of_bucket = row_count(&bucket);
            let bytes = bucket.iter().map(|batch| batch.bytes).sum::<u64>() + windowing.scattered_bytes(of_bucket);
            if bytes <= bytes_max {
                small.push(bucket);
                continue;
            }
            let way = match windowing.sizes.can_be_divided(of_bucket, rows.rows, depth + 1) {
                true => SpillWay::Buckets { depth: depth + 1 },
                false => SpillWay::Sort,
            };
            let input = SpilledRows::new(OWNER, schema, bucket, SpilledRowsForm::Passing);
            large.push(Mutex::new(Some(Arc::new(Windowing::of_large(input, request.clone(), way)))));
        }
        let (schema, request) = (Arc::clone(schema), request.clone());
        WindowBuckets { schema, request, large, small, next: AtomicUsize::new(0) }
    }

    /// The next small bucket. Each goes to one worker.
    fn take_small(&self) -> Option<Vec<SpilledBatch>> {
        self.small.get(self.next.fetch_add(1, Ordering::Relaxed)).cloned()
    }
}

/// A worker's share of all buckets.
pub(super) struct BucketShare {
    buckets: Arc<WindowBuckets>,
    /// The next of the large buckets.
    next_large: usize,
    /// The window over the bucket at hand, with its number if it is a large one.
    running: Option<(Option<usize>, Batches)>,
    /// The memory for computing. Its bytes are bounded by those of a bucket, so it is always granted.
    computing: SpillableMemory,
}

impl BucketShare {
    pub(super) fn new(buckets: Arc<WindowBuckets>) -> BucketShare {
        let computing = buckets.request.broker.spillable();
        BucketShare { buckets, next_large: 0, running: None, computing }
    }

    /// The next batch of the result. `None` if no bucket is left.
    pub(super) fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            if let Some((large, running)) = &mut self.running {
                if let Some(batch) = running.next() {
                    return batch.map(Some);
                }
                // No worker needs to begin a window whose end one worker has seen.
                large.inspect(|large| drop(self.buckets.large[*large].lock().take()));
                self.running = None;
            }
            self.buckets.request.cancel.check()?;
            if !self.begin_next() {
                return Ok(None);
            }
        }
    }

    /// Begins the next bucket. Large buckets come first, because all workers take part in them.
    fn begin_next(&mut self) -> bool {
        let buckets = &self.buckets;
        while let Some(large) = buckets.large.get(self.next_large) {
            let number = self.next_large;
            self.next_large += 1;
            if let Some(large) = &*large.lock() {
                self.running = Some((Some(number), Arc::clone(large).share()));
                return true;
            }
        }
        let Some(bucket) = buckets.take_small() else { return false };
        let input = SpilledRows::new(OWNER, &buckets.schema, bucket, SpilledRowsForm::Passing);
        let request = WindowRequest { broker: self.computing.broker().clone(), ..buckets.request.clone() };
        self.running = Some((None, Arc::new(Windowing::of_held(input, request)).share()));
        true
    }
}
