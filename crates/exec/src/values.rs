//! Batches that already exist, as an operator.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;

use crate::batch::{BatchSource, Batches};
use crate::share::share;

/// Returns batches that already exist. Each batch goes to one worker.
#[derive(Debug)]
pub struct ReadyBatches {
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
    next: AtomicUsize,
}

impl ReadyBatches {
    /// Makes a source of `batches`. Their columns must have the types of `schema`.
    pub fn new(schema: SchemaRef, batches: Vec<RecordBatch>) -> Arc<ReadyBatches> {
        Arc::new(ReadyBatches { schema, batches, next: AtomicUsize::new(0) })
    }

    /// Makes a source of the rows of `rows`, in batches of `batch_rows`.
    pub(crate) fn of_rows(rows: &RecordBatch, batch_rows: usize) -> Arc<ReadyBatches> {
        let starts = (0..rows.num_rows()).step_by(batch_rows.max(1));
        let batches = starts.map(|start| rows.slice(start, batch_rows.max(1).min(rows.num_rows() - start)));
        ReadyBatches::new(rows.schema(), batches.collect())
    }
}

impl BatchSource for ReadyBatches {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn parallelism(&self) -> usize {
        self.batches.len()
    }

    fn worker(self: Arc<Self>) -> Batches {
        share(move || Ok(self.batches.get(self.next.fetch_add(1, Ordering::Relaxed)).cloned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collect::collect;
    use crate::test_input::{number_batch, numbers_of};

    #[test]
    fn rows_are_returned_in_batches() {
        for (rows, batch_rows) in [(0, 1), (1, 1), (7, 3), (9, 3), (5, 1024), (4, 0)] {
            for workers in [1, 4] {
                let values: Arc<dyn BatchSource> = ReadyBatches::of_rows(&number_batch(0..rows), batch_rows);
                let batches = collect(&values, workers).expect("nothing fails");
                let mut found = numbers_of(&batches);
                found.sort_unstable();
                assert_eq!(found, (0..rows).collect::<Vec<_>>());
                assert!(batches.iter().all(|batch| (1..=batch_rows.max(1)).contains(&batch.num_rows())));
            }
        }
    }

    #[test]
    fn rows_without_columns_keep_their_number() {
        let options = arrow::array::RecordBatchOptions::new().with_row_count(Some(1));
        let rows = RecordBatch::try_new_with_options(Arc::new(arrow::datatypes::Schema::empty()), vec![], &options);
        let values: Arc<dyn BatchSource> = ReadyBatches::of_rows(&rows.expect("one row"), 10);
        let batches = collect(&values, 1).expect("nothing fails");
        assert_eq!(batches.iter().map(RecordBatch::num_rows).collect::<Vec<_>>(), [1]);
    }
}
