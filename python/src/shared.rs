//! The database connection that a `Connection` and its cursors share, and how a statement runs beside Python.
//!
//! While a statement runs, other threads of Python go on. The thread that waits for the statement asks Python for
//! signals now and then; if one raises an exception, as Ctrl-C does, the statement is cancelled.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pyo3::prelude::*;
use rowmill::{CancelHandle, ErrorKind};

use crate::errors::{misuse, raised};

/// A database connection.
pub(crate) struct SharedConnection {
    /// `None` after it was closed.
    connection: Mutex<Option<rowmill::Connection>>,
    cancel: CancelHandle,
    /// The exception that a signal has raised during a statement.
    interruption: Arc<Mutex<Option<PyErr>>>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic becomes an exception of Python, and the connection is usable after it.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl SharedConnection {
    pub(crate) fn new(mut connection: rowmill::Connection) -> SharedConnection {
        let cancel = connection.cancel_handle();
        let interruption = Arc::new(Mutex::new(None));
        let (signalled, canceller) = (Arc::clone(&interruption), cancel.clone());
        connection.set_progress(Some(Arc::new(move |_| {
            let raised = Python::attach(|py| py.check_signals());
            if let Err(exception) = raised {
                *locked(&signalled) = Some(exception);
                canceller.cancel();
            }
        })));
        SharedConnection { connection: Mutex::new(Some(connection)), cancel, interruption }
    }

    /// Runs `work` with the connection, without Python's lock.
    pub(crate) fn run<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut rowmill::Connection) -> rowmill::Result<T> + Send,
    ) -> PyResult<T> {
        let result = py.detach(|| locked(&self.connection).as_mut().map(work));
        let result = result.ok_or_else(|| misuse("the connection is closed"))?;
        self.translated(py, result)
    }

    /// Runs `work`, which takes rows of an earlier statement, without Python's lock.
    pub(crate) fn pull<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce() -> rowmill::Result<T> + Send,
    ) -> PyResult<T> {
        let result = py.detach(work);
        self.translated(py, result)
    }

    fn translated<T>(&self, py: Python<'_>, result: rowmill::Result<T>) -> PyResult<T> {
        let interruption = locked(&self.interruption).take();
        result.map_err(|error| match interruption {
            Some(exception) if error.kind() == ErrorKind::Cancelled => exception,
            _ => raised(py, &error),
        })
    }

    /// Cancels the statement that runs, from any thread.
    pub(crate) fn interrupt(&self) {
        self.cancel.cancel();
    }

    /// Closes the connection. An open transaction is rolled back.
    pub(crate) fn close(&self, py: Python<'_>) {
        py.detach(|| drop(locked(&self.connection).take()));
    }
}
