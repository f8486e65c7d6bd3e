//! Inputs of joins in tests.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::compute::filter_record_batch;
use arrow::datatypes::SchemaRef;
use parking_lot::Mutex;
use rowmill_base::Result;

use crate::batch::{BatchSource, Batches};
use crate::key_filter::KeyFilter;

/// Batches that workers share, one at a time.
#[derive(Debug)]
pub(crate) struct TestSource {
    schema: SchemaRef,
    left: Mutex<VecDeque<Result<RecordBatch>>>,
    /// Whether filters are accepted.
    filters: bool,
    offered: Mutex<Vec<(usize, Arc<KeyFilter>)>>,
}

impl TestSource {
    pub(crate) fn new(schema: SchemaRef, batches: Vec<Result<RecordBatch>>, filters: bool) -> Arc<TestSource> {
        Arc::new(TestSource { schema, left: Mutex::new(batches.into()), filters, offered: Mutex::default() })
    }

    /// The number of batches that no worker has taken.
    pub(crate) fn left(&self) -> usize {
        self.left.lock().len()
    }

    /// The number of filters that were offered.
    pub(crate) fn offered(&self) -> usize {
        self.offered.lock().len()
    }

    fn next(&self) -> Option<Result<RecordBatch>> {
        let mut batch = self.left.lock().pop_front()?;
        for (column, filter) in &*self.offered.lock() {
            batch = batch.map(|batch| {
                let kept = filter.keep(batch.column(*column)).expect("a filter of the column's type");
                filter_record_batch(&batch, &kept.into()).expect("one bit per row")
            });
        }
        Some(batch)
    }
}

impl BatchSource for TestSource {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn parallelism(&self) -> usize {
        self.left()
    }

    fn worker(self: Arc<Self>) -> Batches {
        Box::new(std::iter::from_fn(move || self.next()))
    }

    fn accepts(&self, _: usize) -> bool {
        self.filters
    }

    fn offer(&self, column: usize, filter: &Arc<KeyFilter>) {
        self.offered.lock().push((column, Arc::clone(filter)));
    }
}
