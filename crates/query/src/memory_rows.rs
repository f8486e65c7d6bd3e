//! Rows that are in memory already: system views, results of table functions, VALUES.

use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use rowmill_base::{Cancel, Error, Result, SqlType};
use rowmill_exec::batch::BatchSource;
use rowmill_exec::values::ReadyBatches;
use rowmill_plan::Predicate;

use crate::catalog::RowSource;

/// Batches as a source of rows.
#[derive(Debug)]
pub struct MemoryRows {
    name: String,
    batches: Vec<RecordBatch>,
    schema: SchemaRef,
}

impl MemoryRows {
    /// A source of the rows of `batch`, under a name that EXPLAIN shows. Columns are cast to the types that the engine
    /// uses.
    ///
    /// # Panics
    ///
    /// Panics if a column has a type that SQL does not have.
    pub fn new(name: impl Into<String>, batch: RecordBatch) -> Arc<MemoryRows> {
        let batch = with_engine_types(&batch);
        MemoryRows::of_batches(name, batch.schema(), vec![batch])
    }

    /// A source of the rows of batches, which must have the columns of `schema`, in the types that the engine uses.
    pub fn of_batches(name: impl Into<String>, schema: SchemaRef, batches: Vec<RecordBatch>) -> Arc<MemoryRows> {
        Arc::new(MemoryRows { name: name.into(), batches, schema })
    }
}

impl RowSource for MemoryRows {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn row_count(&self) -> Option<u64> {
        Some(self.batches.iter().map(|batch| batch.num_rows() as u64).sum())
    }

    fn open(
        &self,
        columns: &[usize],
        _predicates: &[Predicate],
        batch_rows: usize,
        _threads: usize,
        _cancel: &Cancel,
    ) -> Result<Arc<dyn BatchSource>> {
        let failed = |error| Error::internal(format!("columns of {}: {error}", self.name));
        let schema = Arc::new(self.schema.project(columns).map_err(failed)?);
        let rows = batch_rows.max(1);
        let mut pieces = Vec::new();
        for batch in &self.batches {
            let batch = batch.project(columns).map_err(failed)?;
            let starts = (0..batch.num_rows()).step_by(rows);
            pieces.extend(starts.map(|start| batch.slice(start, rows.min(batch.num_rows() - start))));
        }
        Ok(ReadyBatches::new(schema, pieces))
    }
}

/// Casts the columns of a batch to the types that the engine uses. For example, texts become views.
fn with_engine_types(batch: &RecordBatch) -> RecordBatch {
    let mut fields = Vec::with_capacity(batch.num_columns());
    let mut columns = Vec::with_capacity(batch.num_columns());
    for (field, column) in batch.schema().fields().iter().zip(batch.columns()) {
        let kind = match field.data_type() {
            DataType::Null => DataType::Null,
            kind => SqlType::from_arrow(kind).expect("rows in memory must have SQL types").arrow(),
        };
        columns.push(cast(column, &kind).expect("a type can be cast to its engine type"));
        fields.push(Field::new(field.name(), kind, true).with_metadata(field.metadata().clone()));
    }
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), columns, &options)
        .expect("the columns keep their length")
}
