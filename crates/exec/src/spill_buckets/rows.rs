//! Rows of buckets on disk, as a source of batches.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow::array::{ArrayRef, RecordBatch, UInt64Array};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use rowmill_base::Result;
use rowmill_storage::spill::{BatchCodec, SpillSection};

use crate::batch::{BatchSource, Batches};
use crate::join::with_own_buffers;
use crate::share::{batch_of, share};

/// A batch of rows on disk: a section with one frame.
#[derive(Clone, Debug)]
pub(crate) struct SpilledBatch {
    pub(crate) section: SpillSection,
    pub(crate) rows: usize,
    /// The bytes that the rows take in memory.
    pub(crate) bytes: u64,
}

/// The form in which the rows are returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SpilledRowsForm {
    /// The rows are kept by the reader, so a column must not keep the others in memory.
    Kept,
    /// The rows are dropped soon.
    Passing,
    /// As above, with the number of each row in an additional last column.
    Numbered,
}

/// Returns batches from disk.
pub(crate) struct SpilledRows {
    /// The name of the operator in errors.
    owner: &'static str,
    schema: SchemaRef,
    codec: BatchCodec,
    batches: Vec<SpilledBatch>,
    /// The number of the first row of each batch.
    first_rows: Vec<u64>,
    form: SpilledRowsForm,
    next: AtomicUsize,
}

impl fmt::Debug for SpilledRows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SpilledRows").field("batches", &self.batches.len()).field("form", &self.form).finish()
    }
}

/// The number of rows of batches.
pub(crate) fn row_count(batches: &[SpilledBatch]) -> u64 {
    batches.iter().map(|batch| batch.rows as u64).sum()
}

impl SpilledRows {
    /// A source of `batches`, which were written with `schema`.
    pub(crate) fn new(
        owner: &'static str,
        schema: &SchemaRef,
        batches: Vec<SpilledBatch>,
        form: SpilledRowsForm,
    ) -> Arc<SpilledRows> {
        let mut next = 0;
        let first = |batch: &SpilledBatch| {
            next += batch.rows as u64;
            next - batch.rows as u64
        };
        let first_rows = batches.iter().map(first).collect();
        let codec = BatchCodec::new(Arc::clone(schema));
        let schema = match form {
            SpilledRowsForm::Numbered => with_number(schema),
            SpilledRowsForm::Kept | SpilledRowsForm::Passing => Arc::clone(schema),
        };
        Arc::new(SpilledRows { owner, schema, codec, batches, first_rows, form, next: AtomicUsize::new(0) })
    }

    fn next_batch(&self) -> Result<Option<RecordBatch>> {
        let next = self.next.fetch_add(1, Ordering::Relaxed);
        let Some(batch) = self.batches.get(next) else { return Ok(None) };
        let Some(rows) = self.codec.next(&mut batch.section.reader())? else { return Ok(None) };
        let mut columns: Vec<ArrayRef> = rows.columns().to_vec();
        match self.form {
            SpilledRowsForm::Passing => return Ok(Some(rows)),
            SpilledRowsForm::Kept => with_own_buffers(&mut columns)?,
            SpilledRowsForm::Numbered => {
                let first = self.first_rows[next];
                columns.push(Arc::new(UInt64Array::from_iter_values(first..first + rows.num_rows() as u64)));
            }
        }
        batch_of(self.owner, &self.schema, columns, rows.num_rows()).map(Some)
    }
}

fn with_number(schema: &SchemaRef) -> SchemaRef {
    let number = Arc::new(Field::new("row", DataType::UInt64, true));
    Arc::new(Schema::new(schema.fields().iter().cloned().chain([number]).collect::<Vec<_>>()))
}

impl BatchSource for SpilledRows {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn parallelism(&self) -> usize {
        self.batches.len()
    }

    fn worker(self: Arc<Self>) -> Batches {
        share(move || self.next_batch())
    }
}
