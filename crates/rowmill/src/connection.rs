//! Connections: SQL in, outcomes out.

use std::sync::Arc;

use arrow::array::RecordBatch;
use rowmill_base::{Result, SqlType};
use rowmill_sql::{
    Admission, CancelHandle, ClientInfo, Outcome, ProgressFn, Session, StatementShape, TransactionState,
};
use rowmill_storage::spill::NamedTempFile;
use rowmill_txn::MAIN_SCHEMA;

use crate::append_target::AppendTarget;
use crate::background_jobs::BackgroundJobs;
use crate::output::WriteOptions;
use crate::{Appender, Param, Rows, Statement, TableColumn, Value};

/// A connection to a database. It runs one statement at a time.
pub struct Connection {
    session: Session,
    /// Keeps the background jobs going while the connection is open.
    _jobs: Option<Arc<BackgroundJobs>>,
}

impl Connection {
    pub(crate) fn new(session: Session, jobs: Option<Arc<BackgroundJobs>>) -> Result<Self> {
        Ok(Connection { session, _jobs: jobs })
    }

    /// Runs one statement and returns its rows. A statement without a result returns no rows.
    pub fn query(&mut self, sql: &str) -> Result<Rows> {
        self.query_with(sql, &[])
    }

    /// Runs one statement with values for its parameters, `$1`, `?1` or `?`.
    ///
    /// ```
    /// # use rowmill::{Database, Result};
    /// # fn main() -> Result<()> {
    /// let mut connection = Database::memory()?.connect()?;
    /// let rows = connection.query_with("SELECT $1 + 1, upper($2)", &[41.into(), "mill".into()])?.rows()?;
    /// assert_eq!(rows[0].get::<i64>(0)?, 42);
    /// assert_eq!(rows[0].get::<String>(1)?, "MILL");
    /// # Ok(())
    /// # }
    /// ```
    pub fn query_with(&mut self, sql: &str, params: &[Value]) -> Result<Rows> {
        let params: Vec<Param<'_>> = params.iter().map(Param::from).collect();
        Rows::of(self.session.run_text(sql, &params)?.outside())
    }

    /// Runs one or several statements and returns the total number of rows that they changed. Stops at the first
    /// statement that fails.
    pub fn execute(&mut self, sql: &str) -> Result<u64> {
        let mut changed = 0;
        self.run(sql, |outcome| {
            changed += count(outcome)?;
            Ok(())
        })?;
        Ok(changed)
    }

    /// Runs one or several statements, in order, and hands each outcome to `each`. If one of them cannot be parsed, we
    /// run none.
    pub fn run(&mut self, sql: &str, mut each: impl FnMut(Outcome) -> Result<()>) -> Result<()> {
        self.session.run_all(sql, |outcome| each(outcome.outside()))
    }

    /// Runs the only statement of a text and returns its outcome.
    pub fn run_one(&mut self, sql: &str, params: &[Param<'_>]) -> Result<Outcome> {
        Ok(self.session.run_text(sql, params)?.outside())
    }

    /// Returns the types of a statement's parameters and the columns of its result, without running the statement.
    /// `known` are the types that the caller gives to parameters, by number; the others follow from their places.
    ///
    /// ```
    /// # use rowmill::{Database, Result, SqlType};
    /// # fn main() -> Result<()> {
    /// let mut connection = Database::memory()?.connect()?;
    /// connection.execute("CREATE TABLE stock (item TEXT, pieces BIGINT)")?;
    /// let insert = connection.prepare("INSERT INTO stock VALUES ($1, $2) RETURNING item")?;
    /// let shape = connection.shape(&insert, &[])?;
    /// assert_eq!(shape.parameters, [Some(SqlType::TEXT), Some(SqlType::Int64)]);
    /// assert_eq!(shape.columns.map(|columns| columns.field(0).name().clone()).as_deref(), Some("item"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn shape(&mut self, statement: &Statement, known: &[Option<SqlType>]) -> Result<StatementShape> {
        self.session.shape(statement.parsed(), known)
    }

    /// Parses one statement that the caller wants to run several times.
    ///
    /// ```
    /// # use rowmill::{Database, Result};
    /// # fn main() -> Result<()> {
    /// let mut connection = Database::memory()?.connect()?;
    /// connection.execute("CREATE TABLE stock (item TEXT, pieces BIGINT)")?;
    /// let insert = connection.prepare("INSERT INTO stock VALUES (?, ?)")?;
    /// for (item, pieces) in [("bolt", 200), ("nut", 350)] {
    ///     insert.execute(&mut connection, &[item.into(), pieces.into()])?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn prepare(&mut self, sql: &str) -> Result<Statement> {
        self.session.parse_one(sql).map(Statement::new)
    }

    /// Begins a transaction, as `BEGIN` does, or as `BEGIN READ ONLY` does.
    pub fn begin(&mut self, read_only: bool) -> Result<()> {
        self.session.begin(read_only)
    }

    /// Commits the open transaction, as `COMMIT` does.
    pub fn commit(&mut self) -> Result<()> {
        self.session.commit()
    }

    /// Rolls back the open transaction, as `ROLLBACK` does.
    pub fn rollback(&mut self) -> Result<()> {
        self.session.rollback()
    }

    pub(crate) fn session(&mut self) -> &mut Session {
        &mut self.session
    }

    /// Makes an appender for a table. The appended batches or rows are committed in a transaction of their own.
    pub fn appender(&mut self, table: &str) -> Result<Appender> {
        self.session.check_append(MAIN_SCHEMA, table)?;
        Appender::new(self.session.engine(), table)
    }

    /// Appends the rows of a batch to a table of the schema `main`, in the open transaction. The columns of the batch
    /// must be those of the table, in order; see [`Appender::batch`].
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use rowmill::{Database, Result};
    /// # use rowmill::arrow::array::{Int64Array, RecordBatch};
    /// # fn main() -> Result<()> {
    /// let mut connection = Database::memory()?.connect()?;
    /// let numbers = Arc::new(Int64Array::from(vec![1, 2, 3]));
    /// let batch = RecordBatch::try_from_iter([("n", numbers as _)]).expect("one column");
    /// connection.begin(false)?;
    /// connection.execute("CREATE TABLE numbers (n BIGINT)")?;
    /// assert_eq!(connection.append("numbers", &batch)?, 3);
    /// connection.commit()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn append(&mut self, table: &str, batch: &RecordBatch) -> Result<u64> {
        self.session.check_append(MAIN_SCHEMA, table)?;
        self.session.change(|transaction| {
            let target = AppendTarget::find(transaction.catalog(), MAIN_SCHEMA, table)?;
            let columns = target.convert_all(batch)?;
            target.insert(transaction, columns)
        })
    }

    /// Returns the columns of a table of the schema `main`, in order, as the open transaction sees it. Returns an error
    /// if the table cannot take rows from [`Connection::append`].
    pub fn columns(&mut self, table: &str) -> Result<Vec<TableColumn>> {
        self.session.change(|transaction| {
            AppendTarget::find(transaction.catalog(), MAIN_SCHEMA, table).map(|target| target.columns())
        })
    }

    /// Returns a handle with which another thread can cancel the statement that is running when it does so.
    pub fn cancel_handle(&self) -> CancelHandle {
        self.session.cancel_handle()
    }

    /// Reports the progress of every later statement to `report`, about ten times a second at most.
    pub fn set_progress(&mut self, report: Option<ProgressFn>) {
        self.session.set_progress(report);
    }

    /// Notes who uses the connection, for [`Database::running_statements`](crate::Database::running_statements).
    pub fn set_client(&mut self, client: ClientInfo) {
        self.session.set_client(client);
    }

    /// Lets `admission` decide when the engine runs the statements of this connection. Statements on keyed tables that
    /// run as programs do not ask it.
    pub fn set_admission(&mut self, admission: Arc<dyn Admission>) {
        self.session.set_admission(Some(admission));
    }

    /// Whether a transaction is open, and in which state.
    pub fn transaction_state(&self) -> TransactionState {
        self.session.transaction_state()
    }

    /// Takes the notices that statements have given since the last call.
    pub fn take_notices(&mut self) -> Vec<String> {
        self.session.take_notices()
    }

    /// Makes a temporary file that counts in `temp_disk_limit`, for rows from outside that COPY will load. `owner` names
    /// its purpose in errors and in `rowmill_spills()`.
    pub fn temporary_file(&self, owner: &'static str) -> Result<NamedTempFile> {
        self.session.engine().temp().named_file(owner)
    }

    /// Options for writing results to a stream with [`stream_writer`](crate::output::stream_writer). What a writer
    /// gathers, for example a row group of Parquet, then counts as memory of this database.
    pub fn write_options(&self) -> WriteOptions {
        WriteOptions { memory: Some(self.session.engine().broker().clone()), ..WriteOptions::default() }
    }

    /// The settings of this connection.
    pub fn settings(&self) -> rowmill_base::Settings {
        self.session.settings()
    }
}

/// Returns the number of rows that an outcome changed. A result must be drained, because an error may come with any
/// batch.
pub(crate) fn count(outcome: Outcome) -> Result<u64> {
    match outcome {
        Outcome::Changed { rows, .. } => Ok(rows),
        Outcome::Done { .. } => Ok(0),
        Outcome::Rows(stream) => {
            for batch in stream {
                batch?;
            }
            Ok(0)
        }
    }
}
