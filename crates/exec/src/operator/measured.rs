//! What is measured of operators while they run: a few counters that are added to once a batch.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use arrow::datatypes::SchemaRef;
use rowmill_base::{Meter, allocations};

use crate::batch::{BatchSource, Batches};
use crate::join::JoinMetrics;
use crate::key_filter::KeyFilter;
use crate::scan::ScanMetrics;

/// What is measured of an operator and of those below it; the shape is the plan's.
#[derive(Clone, Debug, Default)]
pub struct Operator {
    /// What it gave and what that took; of a scan that the operator above took over, nothing.
    pub measured: Option<Arc<Measured>>,
    /// The memory that it was granted.
    pub memory: Arc<Meter>,
    /// What was read of a table.
    pub scan: Option<Arc<ScanMetrics>>,
    /// What a join did.
    pub join: Option<Arc<JoinMetrics>>,
    /// The operators that it works on.
    pub inputs: Vec<Operator>,
}

impl Operator {
    /// A scan that is measured where it reads.
    pub(super) fn of_scan(metrics: &Arc<ScanMetrics>) -> Operator {
        let memory = Arc::clone(metrics.reads.memory());
        Operator { memory, scan: Some(Arc::clone(metrics)), ..Operator::default() }
    }

    /// The same shape, of which nothing is measured. Scans stay, so that they can be counted.
    pub(super) fn unmeasured(&self) -> Operator {
        let inputs = self.inputs.iter().map(Operator::unmeasured).collect();
        Operator { scan: self.scan.clone(), inputs, ..Operator::default() }
    }

    /// Calls `each` with what is measured of the scans, in the order in which they stand in the plan.
    pub fn each_scan(&self, each: &mut dyn FnMut(&Arc<ScanMetrics>)) {
        self.scan.iter().for_each(&mut *each);
        self.inputs.iter().for_each(|input| input.each_scan(each));
    }

    /// Workers that brought it something to work on: a frame or a block of its table, or a batch of an input, of the one
    /// that had most. Of a plan that others run, workers that got something.
    pub fn workers(&self) -> u64 {
        match &self.scan {
            Some(scan) => scan.workers.load(Ordering::Relaxed),
            None => self.inputs.iter().map(Operator::workers_served).max().unwrap_or_else(|| self.workers_served()),
        }
    }

    /// Workers that it gave something.
    fn workers_served(&self) -> u64 {
        match (&self.measured, &self.scan) {
            (Some(measured), _) => measured.workers(),
            (None, Some(scan)) => scan.workers.load(Ordering::Relaxed),
            (None, None) => 0,
        }
    }
}

/// What an operator gave, and what its workers spent in it and in what is below it.
#[derive(Debug, Default)]
pub struct Measured {
    rows: AtomicU64,
    nanoseconds: AtomicU64,
    allocations: AtomicU64,
    workers: AtomicU64,
}

impl Measured {
    /// Rows given.
    pub fn rows(&self) -> u64 {
        self.rows.load(Ordering::Relaxed)
    }

    /// Seconds, added up over workers.
    pub fn seconds(&self) -> f64 {
        self.nanoseconds.load(Ordering::Relaxed) as f64 / 1e9
    }

    /// How often memory was asked of the heap; `None` where nobody counts.
    pub fn allocations(&self) -> Option<u64> {
        allocations::of_thread().map(|_| self.allocations.load(Ordering::Relaxed))
    }

    /// Workers that got at least one batch.
    pub fn workers(&self) -> u64 {
        self.workers.load(Ordering::Relaxed)
    }
}

/// A source that is measured.
#[derive(Debug)]
struct Watched {
    source: Arc<dyn BatchSource>,
    /// Whether it takes filters that operators above it offer.
    takes_filters: bool,
    measured: Arc<Measured>,
}

/// `source`, measured, and where.
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
            let batch = worker.next();
            let measured = &*self.measured;
            add(&measured.nanoseconds, started.elapsed().as_nanos() as u64);
            if let (Some(before), Some(now)) = (allocated, allocations::of_thread()) {
                add(&measured.allocations, now - before);
            }
            if let Some(Ok(batch)) = &batch {
                add(&measured.rows, batch.num_rows() as u64);
                if !std::mem::replace(&mut is_served, true) {
                    add(&measured.workers, 1);
                }
            }
            batch
        }))
    }

    fn accepts(&self, column: usize) -> bool {
        self.takes_filters && self.source.accepts(column)
    }

    fn offer(&self, column: usize, filter: &Arc<KeyFilter>) {
        self.source.offer(column, filter);
    }

    fn narrows(&self, column: usize) -> bool {
        self.takes_filters && self.source.narrows(column)
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
        // Every look at the count is an allocation, so that there is one to each batch and one to each end.
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
