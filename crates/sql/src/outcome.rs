//! What a statement answers with.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::SchemaRef;
use rowmill_base::{Error, Result};

/// The answer of one statement.
#[derive(Debug)]
pub enum Outcome {
    /// A result with columns.
    Rows(RowStream),
    /// The statement changed rows.
    Changed {
        /// What it was, as drivers show it: `INSERT`, `UPDATE`, `DELETE`, `COPY`.
        tag: &'static str,
        /// How many rows.
        rows: u64,
    },
    /// The statement has nothing to count.
    Done {
        /// What it was, as drivers show it: `CREATE TABLE`, `BEGIN`.
        tag: &'static str,
    },
}

/// The batches of a result, pulled one by one; dropping it ends the work behind it.
pub struct RowStream {
    schema: SchemaRef,
    batches: Box<dyn Iterator<Item = Result<RecordBatch>> + Send>,
    failed: bool,
}

impl RowStream {
    /// A stream of `batches` under the names of `schema`. The batches have its types in its order.
    pub(crate) fn new(schema: SchemaRef, batches: impl Iterator<Item = Result<RecordBatch>> + Send + 'static) -> Self {
        RowStream { schema, batches: Box::new(batches), failed: false }
    }

    /// A result that is there already.
    pub fn ready(batch: RecordBatch) -> Self {
        RowStream::new(batch.schema(), std::iter::once(Ok(batch)))
    }

    /// Names as spelled and types of the columns.
    pub fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}

impl Iterator for RowStream {
    type Item = Result<RecordBatch>;

    /// The next batch; after an error, nothing.
    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        let batch = self.batches.next();
        self.failed = matches!(batch, Some(Err(_)));
        batch
    }
}

impl fmt::Debug for RowStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RowStream").field("schema", &self.schema).finish_non_exhaustive()
    }
}

/// A result of columns of one length, each of which may have NULLs.
pub(crate) fn nullable_batch<'a>(columns: impl IntoIterator<Item = (&'a str, ArrayRef)>) -> Result<RecordBatch> {
    let columns = columns.into_iter().map(|(name, values)| (name, values, true));
    RecordBatch::try_from_iter_with_nullable(columns).map_err(|error| Error::internal(error.to_string()))
}

/// How far a statement is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Progress {
    /// Rows read so far.
    pub rows_done: u64,
    /// Rows there are to read, where that is known.
    pub rows_total: Option<u64>,
    /// Time since the statement began.
    pub elapsed: Duration,
}

/// Told of the progress of a statement, at most about ten times a second, on the thread that waits for it.
pub type ProgressFn = Arc<dyn Fn(Progress) + Send + Sync>;

/// Whether a session is inside a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransactionState {
    /// Each statement is a transaction of its own.
    Idle,
    /// Between `BEGIN` and `COMMIT` or `ROLLBACK`.
    Active,
    /// In a transaction that can only be rolled back.
    Failed,
}
