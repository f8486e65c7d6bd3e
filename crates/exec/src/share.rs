//! The form in which an operator gives a worker its share.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{Field, Schema, SchemaRef};
use rowmill_base::{Error, Result};

use crate::batch::Batches;

/// Makes a share that returns the batches of `next`. After an error or the end it drops `next`, and with it the shares
/// that `next` reads.
pub fn share(next: impl FnMut() -> Result<Option<RecordBatch>> + Send + 'static) -> Batches {
    Box::new(ShareBatches { next: Some(next) })
}

struct ShareBatches<N> {
    next: Option<N>,
}

impl<N: FnMut() -> Result<Option<RecordBatch>>> Iterator for ShareBatches<N> {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        let batch = self.next.as_mut()?().transpose();
        // Dropping here frees memory early, and guarantees that `next` is not called again after an error.
        if !matches!(batch, Some(Ok(_))) {
            self.next = None;
        }
        batch
    }
}

/// Makes all columns of a schema nullable, because batches need not follow what the plan knows about NULLs.
pub(crate) fn with_nulls(schema: &SchemaRef) -> SchemaRef {
    let fields: Vec<Field> = schema.fields().iter().map(|field| field.as_ref().clone().with_nullable(true)).collect();
    Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
}

/// Makes a batch of `rows` rows. Errors name `operator`. `schema` must allow NULLs.
pub(crate) fn batch_of(operator: &str, schema: &SchemaRef, columns: Vec<ArrayRef>, rows: usize) -> Result<RecordBatch> {
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)
        .map_err(|error| Error::internal(format!("{operator}: {error}")))
}
