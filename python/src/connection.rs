//! Connections.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use pyo3::prelude::*;
use pyo3::types::PyDict;
use rowmill::{Database, Options, TransactionState};

use crate::capsule::batches_of;
use crate::cursor::Cursor;
use crate::errors::raised;
use crate::shared::SharedConnection;

/// Opens the database in a directory, or a new one in memory. Settings are given by name: `memory_limit="2GB"`.
#[pyfunction]
#[pyo3(signature = (path = None, *, read_only = false, autocommit = true, **settings))]
pub(crate) fn connect(
    py: Python<'_>,
    path: Option<PathBuf>,
    read_only: bool,
    autocommit: bool,
    settings: Option<&Bound<'_, PyDict>>,
) -> PyResult<Connection> {
    let mut options = Options::new().read_only(read_only);
    for (name, value) in settings.into_iter().flatten() {
        let set = options.set(&name.to_string(), &value.to_string());
        options = set.map_err(|error| raised(py, &error))?;
    }
    let opened = py.detach(|| match path.filter(|path| path.as_os_str() != ":memory:") {
        Some(path) => Database::open_with(path, options),
        None => Database::memory_with(options),
    });
    let database = opened.map_err(|error| raised(py, &error))?;
    Connection::new(py, database, autocommit)
}

/// A connection to a database. Threads may share it: their statements run one after the other.
#[pyclass(frozen, module = "rowmill")]
pub(crate) struct Connection {
    database: Database,
    shared: Arc<SharedConnection>,
    autocommit: AtomicBool,
}

impl Connection {
    fn new(py: Python<'_>, database: Database, autocommit: bool) -> PyResult<Connection> {
        let connection = py.detach(|| database.connect()).map_err(|error| raised(py, &error))?;
        let shared = Arc::new(SharedConnection::new(connection));
        Ok(Connection { database, shared, autocommit: AtomicBool::new(autocommit) })
    }

    fn is_autocommit(&self) -> bool {
        self.autocommit.load(Ordering::Relaxed)
    }
}

#[pymethods]
impl Connection {
    /// Whether each statement outside of a transaction is committed by itself. Otherwise a statement begins one.
    #[getter]
    fn autocommit(&self) -> bool {
        self.is_autocommit()
    }

    #[setter]
    fn set_autocommit(&self, autocommit: bool) {
        self.autocommit.store(autocommit, Ordering::Relaxed);
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
        Connection::new(py, self.database.clone(), self.is_autocommit())
    }

    /// Runs a statement. Returns a cursor with its rows.
    #[pyo3(signature = (sql, parameters = None))]
    fn execute(&self, py: Python<'_>, sql: &str, parameters: Option<&Bound<'_, PyAny>>) -> PyResult<Cursor> {
        let cursor = self.cursor();
        cursor.run(py, sql, parameters)?;
        Ok(cursor)
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
