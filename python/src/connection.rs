//! Connections.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use rowmill::{Database, TransactionState};

use crate::appender::Appender;
use crate::capsule::batches_of;
use crate::cursor::{Cursor, description};
use crate::errors::{misuse, raised};
use crate::frames::{FoundFrames, Variables};
use crate::open_databases::open_shared;
use crate::shared::SharedConnection;

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
}

impl Connection {
    fn new(py: Python<'_>, database: Arc<Database>, autocommit: bool) -> PyResult<Connection> {
        let connection = py.detach(|| database.connect()).map_err(|error| raised(py, &error))?;
        let shared = Arc::new(SharedConnection::new(connection));
        let database = Mutex::new(Some(database));
        Ok(Connection { database, shared, autocommit: AtomicBool::new(autocommit) })
    }

    fn database(&self) -> MutexGuard<'_, Option<Arc<Database>>> {
        self.database.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_autocommit(&self) -> bool {
        self.autocommit.load(Ordering::Relaxed)
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
    fn execute(&self, py: Python<'_>, sql: &str, parameters: Option<&Bound<'_, PyAny>>) -> PyResult<Cursor> {
        let cursor = self.cursor();
        cursor.run(py, sql, parameters, self.shared.variables())?;
        Ok(cursor)
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
