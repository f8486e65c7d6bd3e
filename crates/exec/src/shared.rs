//! Rows that are computed once and read in several places.
//!
//! The first reader starts the computation of all rows, and workers that come before it ends help. The rows are kept
//! until the last reader is dropped. A reader never waits for another reader. It waits only for workers that compute,
//! and these read the input to its end without interruption. Therefore one worker may read any number of readers one
//! after another.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use rowmill_base::{Broker, Cancel, Reservation, Result};

use crate::batch::{BatchSource, Batches};
use crate::phase::Phase;
use crate::share::share;
use crate::sort::HeldBuffers;

/// Rows that several readers share.
#[derive(Debug)]
pub(crate) struct SharedRows {
    input: Arc<dyn BatchSource>,
    phase: SharedPhase,
    cancel: Cancel,
    broker: Broker,
}

struct SharedPhase(Arc<Phase<KeptBatches, Vec<KeptBatches>>>);

impl std::fmt::Debug for SharedPhase {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SharedPhase")
    }
}

/// Batches, and the memory that they hold.
#[derive(Debug)]
pub(crate) struct KeptBatches {
    pub(crate) batches: Vec<RecordBatch>,
    pub(crate) memory: Reservation,
}

impl KeptBatches {
    /// Reads a share of `source` to its end, or until `is_over` returns true. Checks `cancel` once per batch.
    pub(crate) fn read(
        source: &Arc<dyn BatchSource>,
        memory: Reservation,
        cancel: &Cancel,
        is_over: impl Fn() -> bool,
    ) -> Result<KeptBatches> {
        let (mut kept, mut held) = (KeptBatches { batches: Vec::new(), memory }, HeldBuffers::default());
        for batch in Arc::clone(source).worker() {
            cancel.check()?;
            let batch = batch?;
            // Another worker has failed, so the rows will not be used.
            if is_over() {
                break;
            }
            if batch.num_rows() > 0 {
                held.add(&batch);
                // Buffers that several batches share are counted once.
                kept.memory.grow((held.bytes() as u64).saturating_sub(kept.memory.bytes()))?;
                kept.batches.push(batch);
            }
        }
        Ok(kept)
    }
}

impl SharedRows {
    /// Shares the rows of `input`. `broker` grants the memory that keeps them. Workers check `cancel` once per batch.
    pub(crate) fn new(input: Arc<dyn BatchSource>, cancel: Cancel, broker: Broker) -> Arc<SharedRows> {
        Arc::new(SharedRows { input, phase: SharedPhase(Arc::default()), cancel, broker })
    }

    /// Makes one more reader of all rows.
    pub(crate) fn reader(self: &Arc<SharedRows>) -> Arc<dyn BatchSource> {
        Arc::new(SharedReader { rows: Arc::clone(self), next: AtomicUsize::new(0) })
    }

    /// All batches, grouped by the worker that read them. `None` if another worker failed.
    fn batches(&self) -> Result<Option<Arc<Vec<KeptBatches>>>> {
        let phase = &self.phase.0;
        let read = || {
            let memory = self.broker.reservation("SHARED ROWS");
            KeptBatches::read(&self.input, memory, &self.cancel, || phase.is_over())
        };
        phase.run(&self.cancel, read, Ok)
    }
}

/// Returns all shared rows.
#[derive(Debug)]
struct SharedReader {
    rows: Arc<SharedRows>,
    next: AtomicUsize,
}

impl BatchSource for SharedReader {
    fn schema(&self) -> &SchemaRef {
        self.rows.input.schema()
    }

    fn parallelism(&self) -> usize {
        self.rows.input.parallelism()
    }

    fn worker(self: Arc<Self>) -> Batches {
        let mut kept: Option<Arc<Vec<KeptBatches>>> = None;
        share(move || {
            self.rows.cancel.check()?;
            if kept.is_none() {
                kept = self.rows.batches()?;
            }
            let Some(parts) = &kept else { return Ok(None) };
            // Batches are numbered across the parts of all workers.
            let mut place = self.next.fetch_add(1, Ordering::Relaxed);
            for part in parts.iter() {
                match part.batches.get(place) {
                    Some(batch) => return Ok(Some(batch.clone())),
                    None => place -= part.batches.len(),
                }
            }
            Ok(None)
        })
    }
}

#[cfg(test)]
mod tests {
    use rowmill_base::ErrorKind;

    use super::*;
    use crate::collect::collect;
    use crate::test_input::{Failing, number_schema, numbers, numbers_of};
    use crate::union::Union;

    fn shared(input: Arc<dyn BatchSource>, broker: &Broker) -> Arc<SharedRows> {
        SharedRows::new(input, Cancel::new(), broker.clone())
    }

    #[test]
    fn every_reader_has_all_rows() {
        for (workers, batch_rows) in [(1, 1), (4, 1), (4, 3), (1, 1024), (4, 1024)] {
            let broker = Broker::new(1 << 20);
            // `Values` returns each batch once, to any worker that asks.
            let rows = shared(numbers(0..300, batch_rows), &broker);
            let readers = (0..3).map(|_| rows.reader()).collect();
            drop(rows);
            let source: Arc<dyn BatchSource> = Union::new(readers, number_schema());
            let mut found = numbers_of(&collect(&source, workers).expect("nothing fails"));
            found.sort_unstable();
            assert_eq!(found, (0..900).map(|number| number / 3).collect::<Vec<_>>());
            assert!(broker.used_bytes() >= 300 * 8);
            drop(source);
            assert_eq!(broker.used_bytes(), 0);
        }
    }

    #[test]
    fn empty_input_can_be_shared_and_errors_are_returned() {
        let broker = Broker::new(1 << 20);
        let rows = shared(numbers(0..0, 1), &broker);
        for _ in 0..2 {
            assert!(collect(&rows.reader(), 2).expect("nothing fails").is_empty());
        }
        let failing = shared(Arc::new(Failing(numbers(0..100, 1))), &broker);
        assert_eq!(collect(&failing.reader(), 3).expect_err("a failure").kind(), ErrorKind::Io);
        let large = shared(numbers(0..100_000, 100), &Broker::new(1_000));
        assert_eq!(collect(&large.reader(), 1).expect_err("too much").kind(), ErrorKind::MemoryLimit);
    }
}
