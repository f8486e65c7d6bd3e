//! The answers of statements.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::SchemaRef;
use rowmill_base::{Error, Result};
use rowmill_program::ResultRows;

use crate::running_statements::ListedGuard;

/// The answer of one statement.
#[derive(Debug)]
pub enum Outcome {
    /// A result with columns.
    Rows(RowStream),
    /// The statement changed rows.
    Changed {
        /// The kind of the statement, as drivers show it: `INSERT`, `UPDATE`, `DELETE`, `COPY`.
        tag: &'static str,
        /// The number of changed rows.
        rows: u64,
    },
    /// The statement has nothing to count.
    Done {
        /// The kind of the statement, as drivers show it: `CREATE TABLE`, `BEGIN`.
        tag: &'static str,
    },
}

/// The batches of a result, pulled one by one. Dropping the stream ends the work that produces them. A caller that
/// needs no more rows should drop it.
pub struct RowStream {
    schema: SchemaRef,
    source: RowSource,
    failed: bool,
    /// Lists the statement as running until its last row.
    listed: Option<ListedGuard>,
}

/// The source of a stream's batches.
enum RowSource {
    /// The rows of a program in its own form; `None` after they were taken. They become a batch only for callers that
    /// want one, because for one row the columns of a batch cost more than finding the row.
    Program(Option<ResultRows>),
    Batches(Box<dyn Iterator<Item = Result<RecordBatch>> + Send>),
}

impl RowStream {
    /// Creates a stream of `batches` with the names of `schema`. The batches must have its types in its order.
    pub(crate) fn new(schema: SchemaRef, batches: impl Iterator<Item = Result<RecordBatch>> + Send + 'static) -> Self {
        RowStream { schema, source: RowSource::Batches(Box::new(batches)), failed: false, listed: None }
    }

    /// Creates a stream of the rows of a program. The columns of `schema` must have the types of the rows.
    pub(crate) fn of_program(schema: SchemaRef, rows: ResultRows) -> Self {
        RowStream { schema, source: RowSource::Program(Some(rows)), failed: false, listed: None }
    }

    /// Takes all rows in the form in which a program has made them, so that values can be read without Arrow. Returns
    /// `None` if the rows have another form, or if they were taken before.
    pub fn take_rows(&mut self) -> Option<ResultRows> {
        match &mut self.source {
            RowSource::Program(rows) => rows.take(),
            RowSource::Batches(_) => None,
        }
    }

    /// Creates a stream of one batch that is already computed.
    pub fn ready(batch: RecordBatch) -> Self {
        RowStream::new(batch.schema(), std::iter::once(Ok(batch)))
    }

    /// Keeps the statement in the list of running statements as long as the stream has rows.
    pub(crate) fn listed(mut self, listed: ListedGuard) -> Self {
        self.listed = Some(listed);
        self
    }

    /// The names of the columns as spelled, and their types.
    pub fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}

impl Iterator for RowStream {
    type Item = Result<RecordBatch>;

    /// Returns the next batch. After an error it returns `None`.
    fn next(&mut self) -> Option<Self::Item> {
        // The source must not be asked again after an error.
        if self.failed {
            return None;
        }
        let batch = match &mut self.source {
            RowSource::Program(rows) => rows.take().map(|rows| rows.to_batch(&self.schema)),
            RowSource::Batches(batches) => batches.next(),
        };
        self.failed = matches!(batch, Some(Err(_)));
        if self.failed || batch.is_none() {
            self.listed = None;
        }
        batch
    }
}

impl fmt::Debug for RowStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RowStream").field("schema", &self.schema).finish_non_exhaustive()
    }
}

/// Makes a result of columns of equal length, each of which may hold NULLs.
pub(crate) fn nullable_batch<'a>(columns: impl IntoIterator<Item = (&'a str, ArrayRef)>) -> Result<RecordBatch> {
    let columns = columns.into_iter().map(|(name, values)| (name, values, true));
    RecordBatch::try_from_iter_with_nullable(columns).map_err(|error| Error::internal(error.to_string()))
}

/// The progress of a statement.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Progress {
    /// Rows read so far.
    pub rows_done: u64,
    /// The rows that the statement will read in total, if known.
    pub rows_total: Option<u64>,
    /// The share of the whole work that is done, from 0 to 1, as far as the plan lets us estimate it: also that of
    /// joins, sorts and groupings.
    pub share: Option<f64>,
    /// The bytes of tables that were read.
    pub bytes_read: u64,
    /// The memory that the operators of the statement hold.
    pub memory_bytes: u64,
    /// The bytes of state that the statement has written to temporary files because memory is short, compressed.
    pub spilled_bytes: u64,
    /// Time since the statement began.
    pub elapsed: Duration,
}

/// A callback for the progress of a statement. The thread that waits for the statement calls it, about ten times a
/// second at most.
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
