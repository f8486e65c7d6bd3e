//! Rows that are in memory already: system views, results of table functions, VALUES.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{Schema, SchemaRef};
use rowmill_base::{Cancel, Error, Result};
use rowmill_exec::batch::BatchSource;
use rowmill_exec::values::Values;
use rowmill_plan::Predicate;

use crate::catalog::RowSource;

/// A batch as a source of rows.
#[derive(Debug)]
pub struct MemoryRows {
    name: String,
    batch: RecordBatch,
    schema: SchemaRef,
}

impl MemoryRows {
    /// The rows of `batch`, under a name that EXPLAIN shows.
    pub fn new(name: impl Into<String>, batch: RecordBatch) -> Arc<MemoryRows> {
        Arc::new(MemoryRows { name: name.into(), schema: batch.schema(), batch })
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
        Some(self.batch.num_rows() as u64)
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
        let batch = self.batch.project(columns).map_err(failed)?;
        let fields: Vec<_> =
            batch.schema().fields().iter().map(|field| field.as_ref().clone().with_nullable(true)).collect();
        let schema = Arc::new(Schema::new(fields));
        let batch = batch.with_schema(Arc::clone(&schema)).map_err(failed)?;
        let rows = batch_rows.max(1);
        let batches =
            (0..batch.num_rows()).step_by(rows).map(|start| batch.slice(start, rows.min(batch.num_rows() - start)));
        Ok(Values::new(schema, batches.collect()))
    }
}
