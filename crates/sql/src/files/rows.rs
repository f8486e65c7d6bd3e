//! Files as rows of a query: `SELECT ... FROM 'events-*.csv'`.
//!
//! The files are cut into pieces, and every worker takes the next piece that no other has taken, so that none is left with
//! the slow part. Only the columns that the query asks for are parsed.

use std::fmt;
use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::{Field, Schema, SchemaRef};
use rowmill_base::{Cancel, Error, Result};
use rowmill_exec::batch::{BatchSource, Batches};
use rowmill_plan::Predicate;
use rowmill_query::catalog::RowSource;

use super::FileSet;
use super::jobs::{Jobs, Progress};
use super::options::FileFormat;

/// Bytes of files below which a second thread costs more than it saves.
const BYTES_PER_WORKER_MIN: u64 = 2 << 20;

/// The files of a path or pattern.
#[derive(Debug)]
pub(crate) struct FileRows {
    files: FileSet,
    schema: SchemaRef,
    name: String,
}

impl FileRows {
    /// Files that are open. Columns have the types that the files tell or their first rows suggest.
    pub(crate) fn new(files: FileSet) -> Result<Arc<FileRows>> {
        let columns = files.own_columns()?;
        let field = |column: &super::TargetColumn| Field::new(&column.name, column.kind.arrow(), column.nullable);
        let schema = Arc::new(Schema::new(columns.iter().map(field).collect::<Vec<_>>()));
        let name = files.describe();
        Ok(Arc::new(FileRows { files, schema, name }))
    }
}

impl RowSource for FileRows {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn row_count(&self) -> Option<u64> {
        self.files.rows()
    }

    fn open(
        &self,
        columns: &[usize],
        _predicates: &[Predicate],
        batch_rows: usize,
        threads: usize,
        cancel: &Cancel,
    ) -> Result<Arc<dyn BatchSource>> {
        let fields: Vec<_> = columns.iter().map(|column| Arc::clone(&self.schema.fields()[*column])).collect();
        let threads = match self.files.format() {
            // Its columns are streams that threads side by side would only pull back and forth.
            FileFormat::Parquet => 1,
            _ => threads as u64,
        };
        Ok(Arc::new(FileBatches {
            jobs: self.files.own_jobs(columns, &Progress::default())?,
            schema: Arc::new(Schema::new(fields)),
            batch_rows: batch_rows.max(1),
            parallelism: (self.files.bytes() / BYTES_PER_WORKER_MIN).clamp(1, threads.max(1)) as usize,
            cancel: cancel.clone(),
        }))
    }
}

/// The pieces of files, shared by workers.
struct FileBatches {
    jobs: Arc<dyn Jobs>,
    schema: SchemaRef,
    batch_rows: usize,
    parallelism: usize,
    cancel: Cancel,
}

impl fmt::Debug for FileBatches {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileBatches").field("schema", &self.schema).finish_non_exhaustive()
    }
}

impl BatchSource for FileBatches {
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
                        Some(job) => self.named(&job()?)?,
                        None => return Ok(None),
                    },
                };
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

impl FileBatches {
    /// The batch with the columns of the source.
    fn named(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        RecordBatch::try_new_with_options(Arc::clone(&self.schema), batch.columns().to_vec(), &options)
            .map_err(|error| Error::internal(format!("files gave other columns than they were asked for: {error}")))
    }
}
