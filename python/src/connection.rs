//! Connections.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pyo3::exceptions::PyAttributeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use rowmill::{Database, TransactionState};

use crate::appender::Appender;
use crate::capsule::batches_of;
use crate::cursor::{Cursor, description};
use crate::errors::{misuse, raised};
use crate::frames::{FoundFrames, Variables};
use crate::functions::{PythonFunction, type_named};
use crate::open_databases::open_shared;
use crate::shared::SharedConnection;

/// The attributes of a connection that are those of the cursor of its last statement.
const OF_LATEST: [&str; 16] = [
    "arrow",
    "description",
    "df",
    "fetch_arrow_table",
    "fetch_df",
    "fetch_record_batch",
    "fetchall",
    "fetchdf",
    "fetchmany",
    "fetchnumpy",
    "fetchone",
    "pl",
    "rowcount",
    "to_arrow_reader",
    "to_arrow_table",
    "to_df",
];

/// Opens the database in a directory, or a new one in memory. Settings are given by name: `memory_limit="2GB"`.
#[pyfunction]
#[pyo3(signature = (path = None, *, read_only = false, autocommit = true, frames_by_name = true, **settings))]
pub(crate) fn connect(
    py: Python<'_>,
    path: Option<PathBuf>,
    read_only: bool,
    autocommit: bool,
    frames_by_name: bool,
    settings: Option<&Bound<'_, PyDict>>,
) -> PyResult<Connection> {
    let settings = settings.into_iter().flatten().map(|(name, value)| (name.to_string(), value.to_string())).collect();
    let opened = py.detach(|| open_shared(path.as_deref(), read_only, settings));
    let database = opened.map_err(|error| raised(py, &error))?;
    let connection = Connection::new(py, database, autocommit)?;
    connection.shared.set_finds_frames(frames_by_name);
    let display = py.import("rowmill.progress")?.call_method0("default_display")?;
    connection.shared.set_display((!display.is_none()).then(|| display.unbind()));
    Ok(connection)
}

/// A connection to a database. Threads may share it: their statements run one after the other.
#[pyclass(frozen, module = "rowmill")]
pub(crate) struct Connection {
    /// `None` after the connection was closed, because the database closes with its last connection.
    database: Mutex<Option<Arc<Database>>>,
    shared: Arc<SharedConnection>,
    autocommit: AtomicBool,
    /// The cursor of the last statement, whose rows the connection gives out as well.
    latest: Mutex<Option<Py<Cursor>>>,
}

impl Connection {
    fn new(py: Python<'_>, database: Arc<Database>, autocommit: bool) -> PyResult<Connection> {
        let connection = py.detach(|| database.connect()).map_err(|error| raised(py, &error))?;
        let shared = Arc::new(SharedConnection::new(connection));
        let database = Mutex::new(Some(database));
        Ok(Connection { database, shared, autocommit: AtomicBool::new(autocommit), latest: Mutex::new(None) })
    }

    fn database(&self) -> MutexGuard<'_, Option<Arc<Database>>> {
        self.database.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_autocommit(&self) -> bool {
        self.autocommit.load(Ordering::Relaxed)
    }

    fn files<'py>(
        this: &Bound<'py, Self>,
        function: &str,
        paths: &Bound<'py, PyAny>,
        options: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        this.py().import("rowmill.relation")?.getattr("of_files")?.call((this, function, paths), options)
    }

    fn set_latest(&self, cursor: Option<Py<Cursor>>) {
        let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        let before = std::mem::replace(&mut *latest, cursor);
        // The rows of a cursor may take time to drop, so that must not happen under the lock.
        drop(latest);
        drop(before);
    }
}

/// The columns of a query, and the data that it reads as tables.
type Description<'py> = (Option<Bound<'py, PyList>>, Bound<'py, PyDict>);

#[pymethods]
impl Connection {
    /// Whether each statement outside of a transaction is committed by itself. Otherwise a statement begins one.
    #[getter]
    fn autocommit(&self) -> bool {
        self.is_autocommit()
    }

    /// Commits the open transaction if it turns autocommit on.
    #[setter]
    fn set_autocommit(&self, py: Python<'_>, autocommit: bool) -> PyResult<()> {
        if self.autocommit.swap(autocommit, Ordering::Relaxed) || !autocommit {
            return Ok(());
        }
        self.commit(py)
    }

    /// Whether a name that is no table may be a variable of the caller: a frame, a table of Arrow or a relation.
    #[getter]
    fn frames_by_name(&self) -> bool {
        self.shared.finds_frames()
    }

    #[setter]
    fn set_frames_by_name(&self, frames_by_name: bool) {
        self.shared.set_finds_frames(frames_by_name);
    }

    /// The object that shows the progress of long statements, or `None`. It has the methods `update(share, seconds)`,
    /// where `share` may be `None`, and `finish()`.
    #[getter]
    fn progress(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        self.shared.display(py)
    }

    #[setter]
    fn set_progress(&self, display: Option<Py<PyAny>>) {
        self.shared.set_display(display);
    }

    /// Whether a transaction is open.
    #[getter]
    fn in_transaction(&self, py: Python<'_>) -> PyResult<bool> {
        self.shared.run(py, |connection| Ok(connection.transaction_state() != TransactionState::Idle))
    }

    /// Makes a cursor.
    fn cursor(&self) -> Cursor {
        Cursor::new(Arc::clone(&self.shared), self.is_autocommit())
    }

    /// Makes another connection to the same database, for another thread.
    fn duplicate(&self, py: Python<'_>) -> PyResult<Connection> {
        let database = self.database().clone().ok_or_else(|| misuse("the connection is closed"))?;
        let other = Connection::new(py, database, self.is_autocommit())?;
        other.shared.set_finds_frames(self.shared.finds_frames());
        other.shared.set_display(self.shared.display(py));
        Ok(other)
    }

    /// Runs a statement. Returns a cursor with its rows.
    #[pyo3(signature = (sql, parameters = None))]
    fn execute(&self, py: Python<'_>, sql: &str, parameters: Option<&Bound<'_, PyAny>>) -> PyResult<Py<Cursor>> {
        self.set_latest(None);
        let cursor = self.cursor();
        cursor.run(py, sql, parameters, self.shared.variables())?;
        let cursor = Py::new(py, cursor)?;
        self.set_latest(Some(cursor.clone_ref(py)));
        Ok(cursor)
    }

    /// The methods with which a cursor gives its rows: those of the last statement that `execute` ran.
    fn __getattr__<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
        if !OF_LATEST.contains(&name) {
            return Err(PyAttributeError::new_err(format!("a Connection has no attribute {name}")));
        }
        let latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        let latest = latest.as_ref().map(|cursor| cursor.clone_ref(py));
        match latest {
            Some(cursor) => cursor.into_bound(py).into_any().getattr(name),
            None if name == "description" => Ok(py.None().into_bound(py)),
            None => Err(misuse("there are no rows to fetch: run a statement that returns rows")),
        }
    }

    /// Adds a function of Python to the functions of SQL. `rowmill.functions` describes the arguments.
    #[pyo3(signature = (name, function, parameters = None, return_type = None, **options))]
    fn create_function<'py>(
        this: &Bound<'py, Self>,
        name: &str,
        function: &Bound<'py, PyAny>,
        parameters: Option<&Bound<'py, PyAny>>,
        return_type: Option<&Bound<'py, PyAny>>,
        options: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<()> {
        let arguments = (this, name, function, parameters, return_type);
        let module = this.py().import("rowmill.functions")?;
        module.getattr("create_function")?.call(arguments, options).map(drop)
    }

    /// Adds a function of Python by the names of the types of its arguments and its result. With `is_arrow` it gets and
    /// gives whole columns.
    #[pyo3(name = "_add_function")]
    #[expect(clippy::too_many_arguments, reason = "they are one list of options")]
    fn add_function(
        &self,
        py: Python<'_>,
        name: &str,
        function: Py<PyAny>,
        parameters: Vec<String>,
        return_type: &str,
        is_arrow: bool,
        takes_null: bool,
        is_volatile: bool,
    ) -> PyResult<()> {
        let function = PythonFunction { function, takes_null };
        self.shared.run(py, |connection| {
            let arguments = parameters.iter().map(|kind| type_named(connection, kind));
            let arguments = arguments.collect::<rowmill::Result<Vec<_>>>()?;
            let result = type_named(connection, return_type)?;
            function.register(connection, name, &arguments, result, is_arrow, is_volatile)
        })
    }

    /// Makes a relation of a query, which runs when its rows are fetched. Another statement runs at once, and its rows,
    /// if it has any, are the relation.
    #[pyo3(signature = (sql, parameters = None))]
    fn sql<'py>(
        this: &Bound<'py, Self>,
        sql: &str,
        parameters: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        this.py().import("rowmill.relation")?.call_method1("relation", (this, sql, parameters))
    }

    /// As `sql`.
    #[pyo3(signature = (sql, parameters = None))]
    fn query<'py>(
        this: &Bound<'py, Self>,
        sql: &str,
        parameters: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        Self::sql(this, sql, parameters)
    }

    /// The relation of a table or view: `con.table("visits")`.
    fn table<'py>(this: &Bound<'py, Self>, name: &str) -> PyResult<Bound<'py, PyAny>> {
        this.py().import("rowmill.relation")?.call_method1("table", (this, name))
    }

    /// The relation of a table or view.
    fn view<'py>(this: &Bound<'py, Self>, name: &str) -> PyResult<Bound<'py, PyAny>> {
        Self::table(this, name)
    }

    /// The relation of a frame of pandas or polars, or of Arrow data.
    fn from_df<'py>(this: &Bound<'py, Self>, data: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        this.py().import("rowmill.relation")?.call_method1("of_data", (this, data))
    }

    /// The relation of Arrow data.
    fn from_arrow<'py>(this: &Bound<'py, Self>, data: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        Self::from_df(this, data)
    }

    /// The relation of files of CSV. The options are those of `read_csv` in SQL.
    #[pyo3(signature = (paths, **options))]
    fn read_csv<'py>(
        this: &Bound<'py, Self>,
        paths: &Bound<'py, PyAny>,
        options: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        Self::files(this, "read_csv", paths, options)
    }

    /// The relation of files of JSON. The options are those of `read_json` in SQL.
    #[pyo3(signature = (paths, **options))]
    fn read_json<'py>(
        this: &Bound<'py, Self>,
        paths: &Bound<'py, PyAny>,
        options: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        Self::files(this, "read_json", paths, options)
    }

    /// The relation of files of Parquet. The options are those of `read_parquet` in SQL.
    #[pyo3(signature = (paths, **options))]
    fn read_parquet<'py>(
        this: &Bound<'py, Self>,
        paths: &Bound<'py, PyAny>,
        options: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        Self::files(this, "read_parquet", paths, options)
    }

    /// Returns the columns of a query, as `Cursor.description` has them, and the data that it reads as tables: out of
    /// a dict, or else the variables of the caller.
    #[pyo3(name = "_describe", signature = (sql, frames = None))]
    fn describe<'py>(
        &self,
        py: Python<'py>,
        sql: &str,
        frames: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Description<'py>> {
        let variables = frames.map_or_else(|| self.shared.variables(), Variables::Given);
        let mut frames = FoundFrames::new(py, &self.shared, variables);
        let statement = frames.run(sql, |connection| connection.prepare(sql))?;
        let found = PyDict::new(py);
        for (name, value) in frames.found() {
            found.set_item(name, value)?;
        }
        let columns = statement.schema().map(|schema| description(py, schema)).transpose()?;
        Ok((columns, found))
    }

    /// Runs a statement that may read the data of a dict as tables.
    #[pyo3(name = "_execute")]
    fn execute_over(
        &self,
        py: Python<'_>,
        sql: &str,
        parameters: Option<&Bound<'_, PyAny>>,
        frames: &Bound<'_, PyDict>,
    ) -> PyResult<Cursor> {
        let cursor = self.cursor();
        cursor.run(py, sql, parameters, Variables::Given(frames))?;
        Ok(cursor)
    }

    /// Makes an appender for a table, or for some columns of it: `with con.appender("t") as rows: rows.append(1, "x")`.
    #[pyo3(signature = (table, columns = None))]
    fn appender(&self, py: Python<'_>, table: String, columns: Option<Vec<String>>) -> PyResult<Appender> {
        Appender::new(py, &self.shared, table, columns.unwrap_or_default(), self.is_autocommit())
    }

    /// Runs a statement for each of several lists of parameters. Returns a cursor that knows the number of rows.
    fn executemany(&self, py: Python<'_>, sql: &str, parameters: &Bound<'_, PyAny>) -> PyResult<Cursor> {
        let cursor = self.cursor();
        cursor.run_many(py, sql, parameters)?;
        Ok(cursor)
    }

    /// Runs several statements. Returns the number of rows that they changed.
    fn executescript(&self, py: Python<'_>, sql: &str) -> PyResult<u64> {
        self.shared.run(py, |connection| connection.execute_batch(sql))
    }

    /// Begins a transaction.
    fn begin(&self, py: Python<'_>) -> PyResult<()> {
        self.shared.run(py, |connection| connection.begin(false))
    }

    /// Commits the open transaction, if any.
    fn commit(&self, py: Python<'_>) -> PyResult<()> {
        self.shared.run(py, |connection| match connection.transaction_state() {
            TransactionState::Idle => Ok(()),
            _ => connection.commit(),
        })
    }

    /// Rolls back the open transaction, if any.
    fn rollback(&self, py: Python<'_>) -> PyResult<()> {
        self.shared.run(py, |connection| match connection.transaction_state() {
            TransactionState::Idle => Ok(()),
            _ => connection.rollback(),
        })
    }

    /// Makes Arrow data a table of this connection: any object with `__arrow_c_stream__`, such as a table of pyarrow or
    /// a frame of pandas or polars.
    fn register(&self, py: Python<'_>, name: &str, data: &Bound<'_, PyAny>) -> PyResult<()> {
        let batches = batches_of(data)?;
        self.shared.run(py, |connection| connection.register(name, &batches))
    }

    /// Removes a table that was registered. Returns whether there was one.
    fn unregister(&self, py: Python<'_>, name: &str) -> PyResult<bool> {
        self.shared.run(py, |connection| Ok(connection.unregister(name)))
    }

    /// Appends Arrow data to a table. Returns the number of rows.
    fn append(&self, py: Python<'_>, table: &str, data: &Bound<'_, PyAny>) -> PyResult<u64> {
        let batches = batches_of(data)?;
        let begins = !self.is_autocommit();
        self.shared.run(py, |connection| {
            if begins && connection.transaction_state() == TransactionState::Idle {
                connection.begin(false)?;
            }
            let mut appender = connection.appender(table)?;
            batches.iter().try_for_each(|batch| appender.batch(batch))?;
            appender.finish()
        })
    }

    /// Cancels the statement that runs on this connection, from another thread.
    fn interrupt(&self) {
        self.shared.interrupt();
    }

    /// Closes the connection. An open transaction is rolled back.
    fn close(&self, py: Python<'_>) {
        self.set_latest(None);
        self.shared.close(py);
        let database = self.database().take();
        py.detach(|| drop(database));
    }

    /// `with connection:` is a transaction. It is committed at the end, or rolled back after an exception.
    fn __enter__(this: PyRef<'_, Self>) -> PyResult<PyRef<'_, Self>> {
        if !this.in_transaction(this.py())? {
            this.begin(this.py())?;
        }
        Ok(this)
    }

    #[pyo3(signature = (kind, _value, _traceback))]
    fn __exit__(
        &self,
        py: Python<'_>,
        kind: &Bound<'_, PyAny>,
        _value: &Bound<'_, PyAny>,
        _traceback: &Bound<'_, PyAny>,
    ) -> PyResult<bool> {
        if kind.is_none() {
            self.commit(py)?
        } else {
            self.rollback(py)?
        }
        Ok(false)
    }
}
