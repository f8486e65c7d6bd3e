//! The database connection that a `Connection` and its cursors share, and how a statement runs beside Python.
//!
//! While a statement runs, other threads of Python go on. The thread that waits for the statement asks Python for
//! signals now and then; if one raises an exception, as Ctrl-C does, the statement is cancelled. At the same moments
//! it tells the progress to an object of Python, if there is one.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pyo3::prelude::*;
use rowmill::{CancelHandle, ErrorKind, Progress};

use crate::errors::{misuse, raised};
use crate::frames::Variables;

/// A database connection.
pub(crate) struct SharedConnection {
    /// `None` after it was closed.
    connection: Mutex<Option<rowmill::Connection>>,
    cancel: CancelHandle,
    beside: Arc<BesideStatement>,
    finds_frames: AtomicBool,
}

/// The part of Python that goes on while a statement runs.
#[derive(Default)]
struct BesideStatement {
    /// The exception that a signal or the report of progress has raised.
    interruption: Mutex<Option<PyErr>>,
    /// The object that shows progress, with the methods `update(share, seconds)` and `finish()`.
    display: Mutex<Option<Py<PyAny>>>,
    /// Whether the display has been told of the statement that runs.
    is_shown: Mutex<bool>,
}

impl BesideStatement {
    fn look(&self, py: Python<'_>, progress: Progress) -> PyResult<()> {
        py.check_signals()?;
        let display = locked(&self.display).as_ref().map(|display| display.clone_ref(py));
        if let Some(display) = display {
            *locked(&self.is_shown) = true;
            display.call_method1(py, "update", (progress.share, progress.elapsed.as_secs_f64()))?;
        }
        Ok(())
    }

    fn finish(&self, py: Python<'_>) -> PyResult<()> {
        if !std::mem::take(&mut *locked(&self.is_shown)) {
            return Ok(());
        }
        let display = locked(&self.display).as_ref().map(|display| display.clone_ref(py));
        display.map_or(Ok(()), |display| display.call_method0(py, "finish").map(drop))
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic becomes an exception of Python, and the connection is usable after it.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl SharedConnection {
    pub(crate) fn new(mut connection: rowmill::Connection) -> SharedConnection {
        let cancel = connection.cancel_handle();
        let beside = Arc::new(BesideStatement::default());
        let (watching, canceller) = (Arc::clone(&beside), cancel.clone());
        connection.set_progress(Some(Arc::new(move |progress| {
            if let Err(exception) = Python::attach(|py| watching.look(py, progress)) {
                *locked(&watching.interruption) = Some(exception);
                canceller.cancel();
            }
        })));
        let finds_frames = AtomicBool::new(true);
        SharedConnection { connection: Mutex::new(Some(connection)), cancel, beside, finds_frames }
    }

    /// Whether names that are no tables are looked for among the variables of the caller.
    pub(crate) fn finds_frames(&self) -> bool {
        self.finds_frames.load(Ordering::Relaxed)
    }

    /// Where a statement of the caller looks for names that are no tables.
    pub(crate) fn variables<'v, 'py>(&self) -> Variables<'v, 'py> {
        if self.finds_frames() { Variables::OfCaller } else { Variables::Off }
    }

    pub(crate) fn set_finds_frames(&self, finds_frames: bool) {
        self.finds_frames.store(finds_frames, Ordering::Relaxed);
    }

    /// Shows the progress of later statements in `display`.
    pub(crate) fn set_display(&self, display: Option<Py<PyAny>>) {
        *locked(&self.beside.display) = display;
    }

    /// The object that shows the progress of statements.
    pub(crate) fn display(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        locked(&self.beside.display).as_ref().map(|display| display.clone_ref(py))
    }

    /// Runs `work` with the connection, without Python's lock. The outer error is a connection that is closed.
    pub(crate) fn attempt<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut rowmill::Connection) -> rowmill::Result<T> + Send,
    ) -> PyResult<rowmill::Result<T>> {
        let result = py.detach(|| locked(&self.connection).as_mut().map(work));
        self.beside.finish(py)?;
        result.ok_or_else(|| misuse("the connection is closed"))
    }

    /// Runs `work` with the connection, without Python's lock.
    pub(crate) fn run<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut rowmill::Connection) -> rowmill::Result<T> + Send,
    ) -> PyResult<T> {
        self.attempt(py, work)?.map_err(|error| self.exception(py, &error))
    }

    /// Runs `work`, which takes rows of an earlier statement, without Python's lock.
    pub(crate) fn pull<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce() -> rowmill::Result<T> + Send,
    ) -> PyResult<T> {
        let result = py.detach(work);
        self.beside.finish(py)?;
        result.map_err(|error| self.exception(py, &error))
    }

    /// The exception for an error: that of a signal if it has cancelled the statement.
    pub(crate) fn exception(&self, py: Python<'_>, error: &rowmill::Error) -> PyErr {
        let interruption = locked(&self.beside.interruption).take();
        match interruption {
            Some(exception) if error.kind() == ErrorKind::Cancelled => exception,
            _ => raised(py, error),
        }
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
