//! Connections: SQL in, outcomes out.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use rowmill_base::{Error, ErrorKind, Result, SqlType};
use rowmill_sql::{
    Admission, BackgroundJobs, CancelHandle, ClientInfo, ConnectionEnd, OpenConnection, Outcome, ProgressFn, Session,
    StatementShape, TransactionInfo, TransactionState,
};
use rowmill_storage::spill::NamedTempFile;
use rowmill_txn::MAIN_SCHEMA;

use crate::appender::converted_columns;
use crate::output::WriteOptions;
use crate::params::with_values;
use crate::rows::MappedRows;
use crate::{Appender, Database, FromRow, Param, Params, Row, Rows, Statement, TableColumn};

/// A connection to a database. It runs one statement at a time.
pub struct Connection {
    session: Session,
    /// Keeps the background jobs going while the connection is open.
    _jobs: Option<Arc<BackgroundJobs>>,
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("transaction", &self.transaction_state()).finish_non_exhaustive()
    }
}

impl Connection {
    pub(crate) fn new(session: Session, jobs: Option<Arc<BackgroundJobs>>) -> Result<Self> {
        Ok(Connection { session, _jobs: jobs })
    }

    /// Opens the directory at `path`, and makes it if it is absent. The database closes with this connection. A program
    /// that needs several connections should use [`Database::open`].
    pub fn open(path: impl AsRef<Path>) -> Result<Connection> {
        Database::open(path)?.connect()
    }

    /// Opens an empty database in memory, which lives as long as this connection.
    pub fn open_in_memory() -> Result<Connection> {
        Database::memory()?.connect()
    }

    /// Runs one statement with values for its parameters, `?`, `?1`, `$1` or `:name`. Returns the number of rows that
    /// it changed. [`Params`] lists the forms that the values may have.
    ///
    /// ```
    /// # use rowmill::{Connection, Result, named_params, params};
    /// # fn main() -> Result<()> {
    /// let mut connection = Connection::open_in_memory()?;
    /// connection.execute("CREATE TABLE stock (item TEXT, pieces BIGINT)", ())?;
    /// let added = connection.execute("INSERT INTO stock VALUES (?, ?), ('nut', 7)", params!["bolt", 200])?;
    /// assert_eq!(added, 2);
    /// let sold = "UPDATE stock SET pieces = pieces - :sold WHERE item = :item";
    /// assert_eq!(connection.execute(sold, named_params! { ":item": "bolt", ":sold": 20 })?, 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn execute(&mut self, sql: &str, params: impl Params) -> Result<u64> {
        count(self.run_values(sql, params)?)
    }

    /// Runs one or several statements and returns the total number of rows that they changed. Stops at the first
    /// statement that fails. Statements that belong together should be in a transaction, because those before the
    /// failed one have committed otherwise.
    pub fn execute_batch(&mut self, sql: &str) -> Result<u64> {
        let mut changed = 0;
        self.run(sql, |outcome| {
            changed += count(outcome)?;
            Ok(())
        })?;
        Ok(changed)
    }

    /// Runs the only statement of a text with values for its parameters, and returns its outcome.
    pub fn run_values<P: Params>(&mut self, sql: &str, params: P) -> Result<Outcome> {
        if !P::IS_NAMED {
            return with_values(&params, &[], |values| self.run_one(sql, values));
        }
        let statement = self.session.parse_one(sql)?;
        with_values(&params, statement.parameter_names(), |values| self.run_one(sql, values))
    }

    /// Runs one statement and returns its rows. A statement without a result returns no rows. Values from outside
    /// should not be put into the text: [`Connection::query_with`] takes them as parameters.
    pub fn query(&mut self, sql: &str) -> Result<Rows> {
        self.query_with(sql, ())
    }

    /// Runs one statement with values for its parameters, and returns its rows.
    ///
    /// ```
    /// # use rowmill::{Database, Result};
    /// # fn main() -> Result<()> {
    /// let mut connection = Database::memory()?.connect()?;
    /// let rows = connection.query_with("SELECT $1 + 1, upper($2)", (41, "mill"))?.rows()?;
    /// assert_eq!(rows[0].get::<i64>(0)?, 42);
    /// assert_eq!(rows[0].get::<String>(1)?, "MILL");
    /// # Ok(())
    /// # }
    /// ```
    pub fn query_with(&mut self, sql: &str, params: impl Params) -> Result<Rows> {
        Ok(Rows::from(self.run_values(sql, params)?))
    }

    /// Runs one statement and returns its rows as tuples, or as values of the only column. A large result should be
    /// read by [`Connection::query_map`], which does not hold all of it in memory.
    ///
    /// ```
    /// # use rowmill::{Database, Result};
    /// # fn main() -> Result<()> {
    /// # let mut connection = Database::memory()?.connect()?;
    /// let sql = "SELECT value, 'n' || value FROM generate_series(1, ?)";
    /// let rows: Vec<(i64, String)> = connection.query_as(sql, [2])?;
    /// assert_eq!(rows, [(1, "n1".to_owned()), (2, "n2".to_owned())]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn query_as<T: for<'r> FromRow<'r>>(&mut self, sql: &str, params: impl Params) -> Result<Vec<T>> {
        self.query_with(sql, params)?.collect_as()
    }

    /// Runs one statement and returns what `read` makes of each row, as the rows are computed.
    pub fn query_map<T, F: FnMut(&Row) -> Result<T>>(
        &mut self,
        sql: &str,
        params: impl Params,
        read: F,
    ) -> Result<MappedRows<F>> {
        Ok(self.query_with(sql, params)?.map_rows(read))
    }

    /// Runs one statement and returns what `read` makes of its first row. It is an error if there is no row. If the row
    /// may be absent, callers should use [`Connection::query_optional`].
    ///
    /// ```
    /// # use rowmill::{Database, Result};
    /// # fn main() -> Result<()> {
    /// # let mut connection = Database::memory()?.connect()?;
    /// let sum: i64 = connection.query_row("SELECT ?1 + ?2", [40, 2], |row| row.get(0))?;
    /// assert_eq!(sum, 42);
    /// # Ok(())
    /// # }
    /// ```
    pub fn query_row<T>(&mut self, sql: &str, params: impl Params, read: impl FnOnce(&Row) -> Result<T>) -> Result<T> {
        let row = self.query_with(sql, params)?.next_row()?.ok_or_else(no_row)?;
        read(&row)
    }

    /// Runs one statement and returns what `read` makes of its first row, or `None` if there is no row.
    pub fn query_optional<T>(
        &mut self,
        sql: &str,
        params: impl Params,
        read: impl FnOnce(&Row) -> Result<T>,
    ) -> Result<Option<T>> {
        self.query_with(sql, params)?.next_row()?.map(|row| read(&row)).transpose()
    }

    /// Runs one statement and returns its only row. It is an error if there is none, or more than one.
    pub fn query_one(&mut self, sql: &str, params: impl Params) -> Result<Row> {
        let mut rows = self.query_with(sql, params)?;
        let row = rows.next_row()?.ok_or_else(no_row)?;
        match rows.next_row()? {
            None => Ok(row),
            Some(_) => {
                Err(Error::new(ErrorKind::CardinalityViolation, "the query returned several rows, but one is needed")
                    .hint("query_row() takes the first row"))
            }
        }
    }

    /// Runs one statement and returns its result as batches of Arrow. A large result should be read from
    /// [`Connection::query_with`] batch by batch, because this call holds all of it in memory.
    pub fn query_arrow(&mut self, sql: &str, params: impl Params) -> Result<Vec<RecordBatch>> {
        self.query_with(sql, params)?.batches()
    }

    /// Runs one or several statements, in order, and hands each outcome to `each`. If one of them cannot be parsed, we
    /// run none.
    pub fn run(&mut self, sql: &str, mut each: impl FnMut(Outcome) -> Result<()>) -> Result<()> {
        self.session.run_all(sql, |outcome, zone| each(outcome.outside(zone)))
    }

    /// Runs the only statement of a text and returns its outcome.
    pub fn run_one(&mut self, sql: &str, params: &[Param<'_>]) -> Result<Outcome> {
        let outcome = self.session.run_text(sql, params)?;
        Ok(outcome.outside(self.session.zone()))
    }

    /// Adds batches of Arrow as a table of this connection, until it closes. The batches are shared, not copied, if
    /// their types are those of the database. A table of that name is hidden, or replaced if it was registered, too.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use rowmill::{Database, Result};
    /// # use rowmill::arrow::array::{Int64Array, RecordBatch};
    /// # fn main() -> Result<()> {
    /// let mut connection = Database::memory()?.connect()?;
    /// let numbers = Arc::new(Int64Array::from(vec![1, 2, 3]));
    /// let batch = RecordBatch::try_from_iter([("n", numbers as _)]).expect("one column");
    /// connection.register("numbers", &[batch])?;
    /// assert_eq!(connection.query_as::<i64>("SELECT SUM(n) FROM numbers", ())?, [6]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn register(&mut self, table: &str, batches: &[RecordBatch]) -> Result<()> {
        let schema = batches.first().map(RecordBatch::schema).ok_or_else(|| {
            let what = format!("the table \"{table}\" has no batch, so its columns are not known");
            Error::new(ErrorKind::InvalidParameter, what).hint("register a batch without rows")
        })?;
        self.session.register_batches(table, &schema, batches)
    }

    /// Removes a registered table. Returns whether there was one.
    pub fn unregister(&mut self, table: &str) -> bool {
        self.session.unregister(table)
    }

    /// Drops the temporary tables of this connection, which end with it in any case.
    pub fn drop_temporary_tables(&mut self) -> Result<()> {
        self.session.drop_temporary_tables()
    }

    /// Forgets the secrets of this connection, which end with it in any case.
    pub fn drop_secrets(&mut self) {
        self.session.drop_secrets();
    }

    /// Returns the types of a statement's parameters and the columns of its result, without running the statement.
    /// `known` are the types that the caller gives to parameters, by number; the others follow from their places.
    ///
    /// ```
    /// # use rowmill::{Database, Result, SqlType};
    /// # fn main() -> Result<()> {
    /// let mut connection = Database::memory()?.connect()?;
    /// connection.execute("CREATE TABLE stock (item TEXT, pieces BIGINT)", ())?;
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

    /// Prepares one statement. Callers should prepare statements that they run several times. Names and types are
    /// checked at once, and the statement knows its parameters and columns. Where the types of the values decide which
    /// function is meant, they are only known in a run.
    ///
    /// ```
    /// # use rowmill::{Database, ErrorKind, Result, SqlType};
    /// # fn main() -> Result<()> {
    /// let mut connection = Database::memory()?.connect()?;
    /// connection.execute("CREATE TABLE stock (item TEXT, pieces BIGINT)", ())?;
    /// let insert = connection.prepare("INSERT INTO stock VALUES (?, ?)")?;
    /// assert_eq!(insert.parameters()[1].kind, Some(SqlType::Int64));
    /// for row in [("bolt", 200), ("nut", 350)] {
    ///     insert.execute(&mut connection, row)?;
    /// }
    /// let error = connection.prepare("SELECT price FROM stock").unwrap_err();
    /// assert_eq!(error.kind(), ErrorKind::UndefinedColumn);
    /// # Ok(())
    /// # }
    /// ```
    pub fn prepare(&mut self, sql: &str) -> Result<Statement> {
        match self.session.prepare(sql) {
            Ok(prepared) => Ok(Statement::new(&prepared)),
            // The types of the values may decide which function or operator is meant. Then only a run can tell.
            Err(error) if matches!(error.kind(), ErrorKind::DatatypeMismatch | ErrorKind::UndefinedFunction) => {
                let statement = self.parse(sql)?;
                if statement.parameter_count() > 0 { Ok(statement) } else { Err(error) }
            }
            Err(error) => Err(error),
        }
    }

    /// Ends a name of a prepared statement, as `DEALLOCATE` does. Returns whether there was one.
    pub fn end_statement_name(&mut self, name: &str) -> bool {
        self.session.end_statement_name(name)
    }

    /// Whether `PREPARE` or [`Statement::set_name`] has given a prepared statement this name.
    pub fn has_named_statement(&self, name: &str) -> bool {
        self.session.has_named_statement(name)
    }

    /// Parses one statement without looking at the tables that it names. [`Connection::shape`] does that later, with
    /// the types that a client gives to the parameters.
    pub fn parse(&mut self, sql: &str) -> Result<Statement> {
        self.session.parse_one(sql).map(Statement::parsed_only)
    }

    /// Begins a transaction, as `BEGIN` does, or as `BEGIN READ ONLY` does. Most programs should use
    /// [`Connection::transaction`], whose guard rolls back if an error ends the work early.
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

    /// Makes an appender for all columns of a table, given as `table` or `schema.table`. In an open transaction its
    /// rows belong to that transaction.
    pub fn appender(&mut self, table: &str) -> Result<Appender<'_>> {
        Appender::new(self, table, &[])
    }

    /// Makes an appender for some columns of a table. The others get their defaults.
    ///
    /// ```
    /// # use rowmill::{Database, Result};
    /// # fn main() -> Result<()> {
    /// # let mut connection = Database::memory()?.connect()?;
    /// let id = "id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY";
    /// connection.execute(&format!("CREATE TABLE stock ({id}, item TEXT, pieces INT DEFAULT 1)"), ())?;
    /// let mut appender = connection.appender_for("stock", &["item"])?;
    /// appender.append_rows([["bolt"], ["nut"]])?;
    /// appender.finish()?;
    /// let rows: Vec<(i64, i64)> = connection.query_as("SELECT id, pieces FROM stock", ())?;
    /// assert_eq!(rows, [(1, 1), (2, 1)]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn appender_for(&mut self, table: &str, columns: &[&str]) -> Result<Appender<'_>> {
        Appender::new(self, table, columns)
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
    /// connection.execute("CREATE TABLE numbers (n BIGINT)", ())?;
    /// assert_eq!(connection.append("numbers", &batch)?, 3);
    /// connection.commit()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn append(&mut self, table: &str, batch: &RecordBatch) -> Result<u64> {
        let plan = self.session.plan_append(None, table, &[])?;
        let columns = converted_columns(&plan, batch)?;
        self.session.append_rows(&plan, &columns, batch.num_rows(), 0)?;
        Ok(batch.num_rows() as u64)
    }

    /// Returns the columns of a table of the schema `main`, in order, as the open transaction sees it. Returns an error
    /// if the table cannot take rows from [`Connection::append`].
    pub fn columns(&mut self, table: &str) -> Result<Vec<TableColumn>> {
        let plan = self.session.plan_append(None, table, &[])?;
        Ok(TableColumn::of(plan.table()))
    }

    /// Returns a handle with which another thread can cancel the statement that is running when it does so.
    pub fn cancel_handle(&self) -> CancelHandle {
        self.session.cancel_handle()
    }

    /// Reports the progress of every later statement to `report`, about ten times a second at most.
    pub fn set_progress(&mut self, report: Option<ProgressFn>) {
        self.session.set_progress(report);
    }

    /// Notes who uses the connection, for [`Database::running_statements`](crate::Database::running_statements). A
    /// client with a number is also entered into the list of open connections (`pg_stat_activity`). The host then tells
    /// the entry when statements begin and end. `end` ends the connection from another thread.
    pub fn set_client(&mut self, client: ClientInfo, end: Option<ConnectionEnd>) -> Option<Arc<OpenConnection>> {
        self.session.set_client(client, end)
    }

    /// Facts about the open transaction. `None` without one.
    pub fn open_transaction(&self) -> Option<TransactionInfo> {
        self.session.open_transaction()
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

    /// Takes the notices that statements have given since the last call. A host should show them to its user.
    pub fn take_notices(&mut self) -> Vec<String> {
        self.session.take_notices()
    }

    /// Returns an error unless the role of the connection may add rows to a table, as far as that is known without the
    /// columns: it needs the right on at least one column. `table` may have its schema in front of it. A table that
    /// does not exist is no error here.
    pub fn check_append(&self, table: &str) -> Result<()> {
        let name = table.to_lowercase();
        let (schema, table) = name.split_once('.').unwrap_or((MAIN_SCHEMA, &name));
        self.session.check_append(schema, table, None)
    }

    /// Returns the columns that get values when rows are added to a table: those that `columns` names, or all of them
    /// if it is empty. Returns an error unless the role of the connection may add such rows. It need not be able to
    /// read them. `table` may have its schema in front of it.
    pub fn append_schema(&mut self, table: &str, columns: &[&str]) -> Result<SchemaRef> {
        let name = table.to_lowercase();
        let (schema, table) =
            name.split_once('.').map_or((None, name.as_str()), |(schema, table)| (Some(schema), table));
        self.session.append_schema(schema, table, columns)
    }

    /// Returns the query of the rows that `COPY table TO` writes: those of all columns except generated ones. `table`
    /// is the name as SQL has it.
    pub fn copied_rows(&mut self, table: &str) -> Result<String> {
        self.session.copied_rows(table)
    }

    /// Makes a temporary file that counts in `temp_disk_limit`, for rows from outside that COPY will load. COPY may
    /// read it whatever the role of the connection. `owner` names its purpose in errors and in `rowmill_spills()`.
    pub fn temporary_file(&mut self, owner: &'static str) -> Result<NamedTempFile> {
        self.session.temporary_file(owner)
    }

    /// Options for writing results to a stream with [`stream_writer`](crate::output::stream_writer). What a writer
    /// gathers, for example a row group of Parquet, then counts as memory of this database.
    pub fn write_options(&self) -> WriteOptions {
        let engine = self.session.engine();
        let (threads, memory) = (engine.threads(), Some(engine.broker().clone()));
        WriteOptions { threads, memory, ..WriteOptions::default() }
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

#[cold]
pub(crate) fn no_row() -> Error {
    Error::new(ErrorKind::CardinalityViolation, "the query returned no row, but one is needed")
        .hint("query_optional() returns None then")
}
