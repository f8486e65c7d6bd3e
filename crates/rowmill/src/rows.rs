//! Results: batches as they are computed, or all rows at once.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{Schema, SchemaRef};
use rowmill_base::Result;
use rowmill_sql::{Outcome, RowStream};

use crate::Row;

/// The result of a statement: an iterator of record batches. Dropping it stops the computation.
#[derive(Debug)]
pub struct Rows {
    schema: SchemaRef,
    stream: Option<RowStream>,
}

impl Rows {
    pub(crate) fn of(outcome: Outcome) -> Result<Self> {
        Ok(match outcome {
            Outcome::Rows(stream) => Rows { schema: stream.schema(), stream: Some(stream) },
            Outcome::Changed { .. } | Outcome::Done { .. } => Rows { schema: Arc::new(Schema::empty()), stream: None },
        })
    }

    /// The names and types of the columns.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Collects all batches.
    pub fn batches(self) -> Result<Vec<RecordBatch>> {
        self.collect()
    }

    /// Collects all rows. This should only be used for small results.
    pub fn rows(self) -> Result<Vec<Row>> {
        let mut rows = Vec::new();
        for batch in self {
            let batch = Arc::new(batch?);
            rows.extend((0..batch.num_rows()).map(|row| Row::new(&batch, row)));
        }
        Ok(rows)
    }
}

impl Iterator for Rows {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        self.stream.as_mut()?.next()
    }
}
