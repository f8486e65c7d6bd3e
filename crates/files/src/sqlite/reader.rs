//! Reads a table on a thread of its own, from which workers take batches.
//!
//! A statement of SQLite belongs to one thread, so one thread steps through the table and converts its values. The
//! channel is bounded: the thread waits for the workers, and ends when they are gone.

use std::fmt;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::SchemaRef;
use parking_lot::Mutex;
use rowmill_base::{Cancel, Error, ErrorKind, Result, SqlType};
use rowmill_exec::batch::{BatchSource, Batches};

use super::value_column::{ValueColumn, shown};
use super::{SqliteFile, quoted};

/// The number of batches that wait for workers at most.
const BATCHES_WAITING_MAX: usize = 4;

/// The batches of a table that a thread reads.
pub(super) struct SqliteBatches {
    schema: SchemaRef,
    batches: Mutex<Receiver<Result<RecordBatch>>>,
}

impl fmt::Debug for SqliteBatches {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteBatches").finish_non_exhaustive()
    }
}

impl SqliteBatches {
    /// Starts to read the columns of `schema` of a table.
    pub(super) fn start(
        file: SqliteFile,
        table: String,
        schema: SchemaRef,
        batch_rows: usize,
        cancel: &Cancel,
    ) -> Result<Arc<SqliteBatches>> {
        let (sender, receiver) = sync_channel(BATCHES_WAITING_MAX);
        let reader = TableReader { file, table, schema: Arc::clone(&schema), batch_rows, cancel: cancel.clone() };
        let run = move || {
            if let Err(error) = reader.read(&sender) {
                // Without a receiver the query has ended, so nothing needs the error.
                let _ = sender.send(Err(error));
            }
        };
        thread::Builder::new()
            .name("rowmill-sqlite".to_owned())
            .spawn(run)
            .map_err(|error| Error::io(format_args!("starting a thread"), &error))?;
        Ok(Arc::new(SqliteBatches { schema, batches: Mutex::new(receiver) }))
    }
}

impl BatchSource for SqliteBatches {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn parallelism(&self) -> usize {
        BATCHES_WAITING_MAX
    }

    fn worker(self: Arc<Self>) -> Batches {
        let next = move || {
            let batch = self.batches.lock().recv();
            batch.ok()
        };
        let mut is_ended = false;
        Box::new(std::iter::from_fn(move || {
            let batch = if is_ended { None } else { next() };
            is_ended = !matches!(batch, Some(Ok(_)));
            batch
        }))
    }
}

/// What the thread reads.
struct TableReader {
    file: SqliteFile,
    table: String,
    schema: SchemaRef,
    batch_rows: usize,
    cancel: Cancel,
}

impl TableReader {
    fn read(&self, sender: &SyncSender<Result<RecordBatch>>) -> Result<()> {
        let connection = self.file.connect()?;
        let names: Vec<String> = self.schema.fields().iter().map(|field| quoted(field.name())).collect();
        // A query that counts rows reads no column.
        let columns = if names.is_empty() { "1".to_owned() } else { names.join(", ") };
        let sql = format!("SELECT {columns} FROM {}", quoted(&self.table));
        let mut statement = connection.prepare(&sql).map_err(|error| self.file.failed(&error))?;
        let mut rows = statement.query([]).map_err(|error| self.file.failed(&error))?;
        loop {
            self.cancel.check()?;
            let mut columns: Vec<ValueColumn> =
                self.schema.fields().iter().map(|field| ValueColumn::new(field.data_type())).collect();
            let mut count = 0;
            while count < self.batch_rows.max(1) {
                let Some(row) = rows.next().map_err(|error| self.file.failed(&error))? else { break };
                for (place, column) in columns.iter_mut().enumerate() {
                    let value = row.get_ref(place).map_err(|error| self.file.failed(&error))?;
                    column.push(value).map_err(|_| self.misfit(place, &shown(value)))?;
                }
                count += 1;
            }
            let is_last = count < self.batch_rows.max(1);
            let arrays = columns.into_iter().map(ValueColumn::finish).collect();
            let options = RecordBatchOptions::new().with_row_count(Some(count));
            let batch = RecordBatch::try_new_with_options(Arc::clone(&self.schema), arrays, &options)
                .map_err(|error| Error::internal(format!("a batch of {}: {error}", self.table)))?;
            // Without a receiver the query has ended.
            if (count > 0 && sender.send(Ok(batch)).is_err()) || is_last {
                return Ok(());
            }
        }
    }

    fn misfit(&self, place: usize, value: &str) -> Error {
        let field = self.schema.field(place);
        let kind = SqlType::from_arrow(field.data_type()).map_or_else(String::new, |kind| kind.to_string());
        let what = format!("column {} of {}: {value} is not a value of type {kind}", field.name(), self.table);
        Error::new(ErrorKind::InvalidText, what)
            .hint("read all columns as TEXT: ATTACH ... (TYPE sqlite, all_text), or sqlite_scan(file, table, true)")
    }
}
