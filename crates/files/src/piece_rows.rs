//! Reads files piece by piece as rows of a query: CSV, JSON and Arrow.

use std::fmt;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use rowmill_base::Cancel;
use rowmill_exec::batch::{BatchSource, Batches};

use crate::jobs::Jobs;
use crate::mapping::{TargetColumn, schema_of};
use crate::rows::{BYTES_PER_WORKER_MIN, RowsRequest};

/// The pieces of files, shared by workers.
pub(crate) struct PieceRows {
    jobs: Arc<dyn Jobs>,
    schema: SchemaRef,
    batch_rows: usize,
    parallelism: usize,
    cancel: Cancel,
}

impl PieceRows {
    /// Makes a source of the pieces of `jobs`, which are batches of the columns `target`. `bytes` is the size of the
    /// files and decides the number of workers.
    pub(crate) fn new(
        jobs: Arc<dyn Jobs>,
        target: &[TargetColumn],
        bytes: u64,
        request: &RowsRequest<'_>,
    ) -> PieceRows {
        PieceRows {
            jobs,
            schema: schema_of(target),
            batch_rows: request.batch_rows.max(1),
            parallelism: (bytes / BYTES_PER_WORKER_MIN).clamp(1, request.threads.max(1) as u64) as usize,
            cancel: request.cancel.clone(),
        }
    }
}

impl fmt::Debug for PieceRows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PieceRows").field("schema", &self.schema).finish_non_exhaustive()
    }
}

impl BatchSource for PieceRows {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn parallelism(&self) -> usize {
        self.parallelism
    }

    fn worker(self: Arc<Self>) -> Batches {
        let mut rest: Option<RecordBatch> = None;
        rowmill_exec::share::share(move || {
            loop {
                self.cancel.check()?;
                let batch = match rest.take() {
                    Some(batch) => batch,
                    None => match self.jobs.next_job()? {
                        Some(job) => job()?,
                        None => return Ok(None),
                    },
                };
                // A piece may be larger than a batch. The rest is returned by later calls.
                if batch.num_rows() > self.batch_rows {
                    rest = Some(batch.slice(self.batch_rows, batch.num_rows() - self.batch_rows));
                    return Ok(Some(batch.slice(0, self.batch_rows)));
                }
                if batch.num_rows() > 0 {
                    return Ok(Some(batch));
                }
            }
        })
    }
}
