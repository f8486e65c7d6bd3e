//! Batches that are there already.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;

use crate::batch::{BatchSource, Batches};
use crate::share::share;

/// Gives ready batches.
#[derive(Debug)]
pub struct Values {
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
    next: AtomicUsize,
}

impl Values {
    /// `batches`, whose columns have the types of `schema`.
    pub fn new(schema: SchemaRef, batches: Vec<RecordBatch>) -> Arc<Values> {
        Arc::new(Values { schema, batches, next: AtomicUsize::new(0) })
    }
}

impl BatchSource for Values {
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
