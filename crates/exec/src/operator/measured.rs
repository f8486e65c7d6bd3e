//! Measurements of operators while they run: a few counters that are updated once per batch.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use arrow::datatypes::SchemaRef;
use rowmill_base::{Meter, allocations};
use rowmill_storage::spill::SpillMeter;

use crate::batch::{BatchSource, Batches};
use crate::join::JoinMetrics;
use crate::scan::ScanMetrics;

/// The measurements of an operator and of the operators below it. The tree has the shape of the plan.
#[derive(Clone, Debug, Default)]
pub struct Operator {
    /// Its output and the cost of it. `None` for a scan that the operator above took over.
    pub measured: Option<Arc<Measured>>,
    /// The memory that was granted to it.
    pub memory: Arc<Meter>,
    /// The state that it spilled.
    pub spilled: Arc<SpillMeter>,
    /// The reads of a table, if it is a scan.
    pub scan: Option<Arc<ScanMetrics>>,
    /// The work of a join, if it is one.
    pub join: Option<Arc<JoinMetrics>>,
    /// The operators that are its inputs.
    pub inputs: Vec<Operator>,
}

impl Operator {
    /// A scan that is measured where it reads.
    pub(super) fn of_scan(metrics: &Arc<ScanMetrics>) -> Operator {
        let memory = Arc::clone(metrics.reads.memory());
        Operator { memory, scan: Some(Arc::clone(metrics)), ..Operator::default() }
    }

    /// A tree of the same shape without measurements. Scans stay, so that they can be counted.
    pub(super) fn unmeasured(&self) -> Operator {
        let inputs = self.inputs.iter().map(Operator::unmeasured).collect();
        Operator { scan: self.scan.clone(), inputs, ..Operator::default() }
    }

    /// Calls `each` with the metrics of all scans, in the order of the plan.
    pub fn each_scan(&self, each: &mut dyn FnMut(&Arc<ScanMetrics>)) {
        self.scan.iter().for_each(&mut *each);
        self.inputs.iter().for_each(|input| input.each_scan(each));
    }

    /// The bytes that this operator and those below it have spilled.
    pub fn spilled_bytes(&self) -> u64 {
        self.spilled.bytes() + self.inputs.iter().map(Operator::spilled_bytes).sum::<u64>()
    }

    /// The number of workers that had something to work on: a frame or a block of the operator's table, or a batch of
    /// the input that served most workers. For a plan that another engine runs, the number of workers that got a
    /// batch.
    pub fn workers(&self) -> u64 {
        match &self.scan {
            Some(scan) => scan.workers.load(Ordering::Relaxed),
            None => self.inputs.iter().map(Operator::workers_served).max().unwrap_or_else(|| self.workers_served()),
        }
    }

    /// The number of workers that got a batch from the operator.
    fn workers_served(&self) -> u64 {
        match (&self.measured, &self.scan) {
            (Some(measured), _) => measured.workers(),
            // The operator above took the scan over, so the scan counted its workers itself.
            (None, Some(scan)) => scan.workers.load(Ordering::Relaxed),
            (None, None) => 0,
        }
    }
}

/// The output of an operator, and what its workers spent in it and in the operators below it.
#[derive(Debug, Default)]
pub struct Measured {
    rows: AtomicU64,
    nanoseconds: AtomicU64,
    allocations: AtomicU64,
    workers: AtomicU64,
}

impl Measured {
    /// The number of rows returned.
    pub fn rows(&self) -> u64 {
        self.rows.load(Ordering::Relaxed)
    }

    /// The seconds spent, summed over all workers.
    pub fn seconds(&self) -> f64 {
        self.nanoseconds.load(Ordering::Relaxed) as f64 / 1e9
    }

    /// The number of heap allocations. `None` if the program's allocator does not count them.
    pub fn allocations(&self) -> Option<u64> {
        allocations::of_thread().map(|_| self.allocations.load(Ordering::Relaxed))
    }

    /// The number of workers that got at least one batch.
    pub fn workers(&self) -> u64 {
        self.workers.load(Ordering::Relaxed)
    }
}

/// A source that is measured.
#[derive(Debug)]
struct Watched {
    source: Arc<dyn BatchSource>,
    /// Whether it accepts filters that operators above offer.
    takes_filters: bool,
    measured: Arc<Measured>,
}

/// Wraps `source` so that it is measured. Returns the wrapped source and the measurements.
pub(super) fn watched(source: Arc<dyn BatchSource>, takes_filters: bool) -> (Arc<dyn BatchSource>, Arc<Measured>) {
    let measured = Arc::new(Measured::default());
    (Arc::new(Watched { source, takes_filters, measured: Arc::clone(&measured) }), measured)
}

impl BatchSource for Watched {
    fn schema(&self) -> &SchemaRef {
        self.source.schema()
    }

    fn parallelism(&self) -> usize {
        self.source.parallelism()
    }

    fn worker(self: Arc<Self>) -> Batches {
        let mut worker = Arc::clone(&self.source).worker();
        let mut is_served = false;
        Box::new(std::iter::from_fn(move || {
            let (started, allocated) = (Instant::now(), allocations::of_thread());
            // The time and the allocations include the operators below, because these run inside this call.
            let batch = worker.next();
            let measured = &*self.measured;
            add(&measured.nanoseconds, started.elapsed().as_nanos() as u64);
            if let (Some(before), Some(now)) = (allocated, allocations::of_thread()) {
                add(&measured.allocations, now - before);
            }
            if let Some(Ok(batch)) = &batch {
                add(&measured.rows, batch.num_rows() as u64);
                // A worker counts once, with its first batch.
                if !std::mem::replace(&mut is_served, true) {
                    add(&measured.workers, 1);
                }
            }
            batch
        }))
    }

    fn passes(&self, column: usize) -> Option<(&dyn BatchSource, usize)> {
        self.takes_filters.then_some((&*self.source, column))
    }
}

fn add(counter: &AtomicU64, count: u64) {
    counter.fetch_add(count, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::test_input::numbers;

    thread_local! {
        static READ: Cell<u64> = const { Cell::new(0) };
    }

    #[test]
    fn rows_workers_and_allocations_are_counted_by_the_batch() {
        // Every look at the counter counts as one allocation, so each batch and each end has one.
        allocations::count_with(|| {
            READ.with(|read| {
                read.set(read.get() + 1);
                read.get()
            })
        });
        let (source, measured) = watched(numbers(0..100, 10), true);
        assert_eq!(Arc::clone(&source).worker().count(), 10);
        assert_eq!(Arc::clone(&source).worker().count(), 0);
        assert_eq!((measured.rows(), measured.workers()), (100, 1));
        assert_eq!(measured.allocations(), Some(12));
        assert!(measured.seconds() > 0.0);
    }
}
