//! The rows of a statement, given out as tuples or as batches.

use arrow_array::RecordBatch;
use arrow_schema::{ArrowError, SchemaRef};
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use rowmill::Rows;

use crate::capsule::outside_schema;
use crate::cells::BatchCells;
use crate::shared::SharedConnection;

/// The rows of a statement that are left. Batches are computed while they are taken.
pub(crate) struct ResultRows {
    rows: Rows,
    /// The batch whose rows are given out one by one, and the next one of them.
    current: Option<(RecordBatch, BatchCells, usize)>,
}

impl ResultRows {
    pub(crate) fn new(rows: Rows) -> ResultRows {
        ResultRows { rows, current: None }
    }

    /// The columns, in the types in which they leave this module as Arrow.
    pub(crate) fn arrow_schema(&self) -> SchemaRef {
        outside_schema(self.rows.schema())
    }

    /// Takes at most `rows_max` rows as tuples.
    pub(crate) fn take(
        &mut self,
        py: Python<'_>,
        shared: &SharedConnection,
        rows_max: usize,
    ) -> PyResult<Vec<Py<PyTuple>>> {
        let mut taken = Vec::new();
        while taken.len() < rows_max {
            let Some((batch, cells, next)) = &mut self.current else {
                let Some(batch) = shared.pull(py, || self.rows.next().transpose())? else { break };
                let cells = BatchCells::new(py, &batch)?;
                self.current = Some((batch, cells, 0));
                continue;
            };
            let until = batch.num_rows().min(next.saturating_add(rows_max - taken.len()));
            for row in *next..until {
                taken.push(cells.tuple(py, row)?.unbind());
            }
            *next = until;
            if until == batch.num_rows() {
                self.current = None;
            }
        }
        Ok(taken)
    }

    /// Takes all batches.
    pub(crate) fn take_batches(mut self, py: Python<'_>, shared: &SharedConnection) -> PyResult<Vec<RecordBatch>> {
        let mut batches: Vec<RecordBatch> = self.rest_of_batch().into_iter().collect();
        batches.extend(shared.pull(py, || self.rows.batches())?);
        Ok(batches)
    }

    /// The batches as they are computed.
    pub(crate) fn into_stream(mut self) -> impl Iterator<Item = Result<RecordBatch, ArrowError>> + Send + 'static {
        let rest = self.rest_of_batch().map(Ok);
        let failed = |error: rowmill::Error| ArrowError::ExternalError(Box::new(error));
        rest.into_iter().chain(self.rows.map(move |batch| batch.map_err(failed)))
    }

    /// The rows of the current batch that were not given out.
    fn rest_of_batch(&mut self) -> Option<RecordBatch> {
        self.current.take().map(|(batch, _, next)| batch.slice(next, batch.num_rows() - next))
    }
}
