//! Appenders: rows of Python values into one table, without SQL.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pyo3::prelude::*;
use pyo3::types::PyTuple;
use rowmill::TransactionState;

use crate::errors::misuse;
use crate::parameters::{PyParameter, row};
use crate::shared::SharedConnection;

/// The rows that wait in an appender before they move into the transaction.
const WAITING_ROWS_MAX: usize = 8192;

/// Appends rows to one table, all of them or none.
///
/// In an open transaction the rows belong to it. Otherwise the appender begins one, which `close` commits; until then,
/// other statements of the connection run in it.
#[pyclass(frozen, module = "rowmill")]
pub(crate) struct Appender {
    shared: Arc<SharedConnection>,
    table: String,
    columns: Vec<String>,
    state: Mutex<AppenderState>,
}

struct AppenderState {
    waiting: Vec<Vec<PyParameter>>,
    /// The rows that are in the transaction.
    rows: u64,
    /// Whether the transaction is the appender's own.
    owns_transaction: bool,
    is_closed: bool,
}

impl Appender {
    pub(crate) fn new(
        py: Python<'_>,
        shared: &Arc<SharedConnection>,
        table: String,
        columns: Vec<String>,
        autocommit: bool,
    ) -> PyResult<Appender> {
        let owns_transaction = shared.run(py, |connection| {
            let is_idle = connection.transaction_state() == TransactionState::Idle;
            if is_idle {
                connection.begin(false)?;
            }
            // A wrong name should be an error now, and not at the first full batch.
            let checked = appender(connection, &table, &columns).map(drop);
            if checked.is_err() && is_idle {
                connection.rollback()?;
            }
            checked.map(|()| is_idle && autocommit)
        })?;
        let state = AppenderState { waiting: Vec::new(), rows: 0, owns_transaction, is_closed: false };
        Ok(Appender { shared: Arc::clone(shared), table, columns, state: Mutex::new(state) })
    }

    /// The state. It must not be locked while Python's lock is given away.
    fn state(&self) -> PyResult<MutexGuard<'_, AppenderState>> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.is_closed { Err(misuse("the appender is closed")) } else { Ok(state) }
    }

    fn push(&self, py: Python<'_>, values: Vec<PyParameter>) -> PyResult<()> {
        let mut state = self.state()?;
        state.waiting.push(values);
        let is_full = state.waiting.len() >= WAITING_ROWS_MAX;
        drop(state);
        if is_full { self.flush(py) } else { Ok(()) }
    }

    fn end(&self, commits: bool, py: Python<'_>) -> PyResult<()> {
        let mut state = self.state()?;
        state.is_closed = true;
        let owns_transaction = state.owns_transaction;
        drop(state);
        self.shared.run(py, |connection| match (owns_transaction, commits) {
            (true, true) => connection.commit(),
            (true, false) if connection.transaction_state() != TransactionState::Idle => connection.rollback(),
            _ => Ok(()),
        })
    }
}

fn appender<'c>(
    connection: &'c mut rowmill::Connection,
    table: &str,
    columns: &[String],
) -> rowmill::Result<rowmill::Appender<'c>> {
    let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
    connection.appender_for(table, &columns)
}

#[pymethods]
impl Appender {
    /// Appends one row: a value for each column, in order.
    #[pyo3(signature = (*values))]
    fn append(&self, values: &Bound<'_, PyTuple>) -> PyResult<()> {
        self.push(values.py(), row(values)?)
    }

    /// Appends several rows: an iterable of sequences.
    fn append_rows(&self, rows: &Bound<'_, PyAny>) -> PyResult<()> {
        for values in rows.try_iter()? {
            self.push(rows.py(), row(&values?)?)?;
        }
        Ok(())
    }

    /// Moves the rows that wait into the transaction. An appender does this by itself, too. If a row is refused, the
    /// rows that waited with it are dropped.
    fn flush(&self, py: Python<'_>) -> PyResult<()> {
        let mut state = self.state()?;
        let (waiting, before) = (std::mem::take(&mut state.waiting), state.rows);
        drop(state);
        if waiting.is_empty() {
            return Ok(());
        }
        let added = self.shared.run(py, |connection| {
            let mut appender = appender(connection, &self.table, &self.columns)?;
            let appended = appender.append_rows(waiting.iter().map(Vec::as_slice)).and_then(|()| appender.finish());
            appended.map_err(|error| match before {
                0 => error,
                before => error.context(format_args!("after {before} rows")),
            })
        })?;
        self.state()?.rows += added;
        Ok(())
    }

    /// The number of rows that were appended.
    #[getter]
    fn rows(&self) -> u64 {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.rows + state.waiting.len() as u64
    }

    /// Commits the rows and ends the appender. Returns the number of rows. After an error none of them are stored.
    fn close(&self, py: Python<'_>) -> PyResult<u64> {
        if let Err(error) = self.flush(py) {
            self.end(false, py)?;
            return Err(error);
        }
        self.end(true, py)?;
        Ok(self.rows())
    }

    fn __enter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    /// Commits the rows, or drops them after an exception.
    #[pyo3(signature = (kind, _value, _traceback))]
    fn __exit__(
        &self,
        py: Python<'_>,
        kind: &Bound<'_, PyAny>,
        _value: &Bound<'_, PyAny>,
        _traceback: &Bound<'_, PyAny>,
    ) -> PyResult<bool> {
        let is_open = self.state().is_ok();
        match (is_open, kind.is_none()) {
            (false, _) => {}
            (true, true) => {
                self.close(py)?;
            }
            (true, false) => self.end(false, py)?,
        }
        Ok(false)
    }
}
