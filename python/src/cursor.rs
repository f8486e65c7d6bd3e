//! Cursors: statements and their rows.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arrow_schema::SchemaRef;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};
use rowmill::{Outcome, Rows, SqlType, TransactionState};

use crate::capsule::{ArrowBatches, Unlocked, stream_of};
use crate::errors::misuse;
use crate::frames::{FoundFrames, Variables};
use crate::parameters::Parameters;
use crate::result::ResultRows;
use crate::shared::SharedConnection;

/// A statement and its rows. Rows are computed while they are fetched.
#[pyclass(frozen, module = "rowmill")]
pub(crate) struct Cursor {
    shared: Arc<SharedConnection>,
    autocommit: bool,
    state: Mutex<CursorState>,
}

struct CursorState {
    rows: Option<ResultRows>,
    schema: Option<SchemaRef>,
    /// The number of changed rows, or -1.
    changed: i64,
    array_size: usize,
    is_closed: bool,
}

impl Cursor {
    pub(crate) fn new(shared: Arc<SharedConnection>, autocommit: bool) -> Cursor {
        let state = CursorState { rows: None, schema: None, changed: -1, array_size: 1, is_closed: false };
        Cursor { shared, autocommit, state: Mutex::new(state) }
    }

    /// The state. It must not be locked while Python's lock is given away.
    fn state(&self) -> MutexGuard<'_, CursorState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn reset(&self) -> PyResult<()> {
        let mut state = self.state();
        if state.is_closed {
            return Err(misuse("the cursor is closed"));
        }
        (state.rows, state.schema, state.changed) = (None, None, -1);
        Ok(())
    }

    pub(crate) fn run(
        &self,
        py: Python<'_>,
        sql: &str,
        parameters: Option<&Bound<'_, PyAny>>,
        variables: Variables<'_, '_>,
    ) -> PyResult<()> {
        self.reset()?;
        let parameters = Parameters::read(parameters)?;
        let autocommit = self.autocommit;
        let outcome = FoundFrames::new(py, &self.shared, variables).run(sql, |connection| {
            begin_unless(autocommit, connection)?;
            parameters.run(connection, sql)
        })?;
        let mut state = self.state();
        match outcome {
            Outcome::Rows(stream) => {
                let rows = Rows::from(Outcome::Rows(stream));
                state.schema = Some(Arc::clone(rows.schema()));
                state.rows = Some(ResultRows::new(rows));
            }
            Outcome::Changed { rows, .. } => state.changed = rows as i64,
            Outcome::Done { .. } => {}
        }
        Ok(())
    }

    pub(crate) fn run_many(&self, py: Python<'_>, sql: &str, parameters: &Bound<'_, PyAny>) -> PyResult<()> {
        self.reset()?;
        let all = parameters.try_iter()?.map(|one| Parameters::read(Some(&one?))).collect::<PyResult<Vec<_>>>()?;
        let autocommit = self.autocommit;
        let changed = self.shared.run(py, |connection| {
            begin_unless(autocommit, connection)?;
            let statement = connection.prepare(sql)?;
            // The rows of one call are stored together or not at all.
            if connection.transaction_state() == TransactionState::Idle {
                let mut transaction = connection.transaction()?;
                let changed = execute_all(&statement, &mut transaction, &all)?;
                transaction.commit()?;
                return Ok(changed);
            }
            execute_all(&statement, connection, &all)
        })?;
        self.state().changed = changed as i64;
        Ok(())
    }

    /// Takes the rows out, so that they can be pulled without Python's lock.
    fn taken(&self) -> PyResult<ResultRows> {
        let mut state = self.state();
        if state.is_closed {
            return Err(misuse("the cursor is closed"));
        }
        state.rows.take().ok_or_else(|| misuse("there are no rows to fetch: run a statement that returns rows"))
    }

    fn fetch(&self, py: Python<'_>, rows_max: usize) -> PyResult<Vec<Py<PyTuple>>> {
        let mut rows = self.taken()?;
        let fetched = rows.take(py, &self.shared, rows_max)?;
        self.state().rows = Some(rows);
        Ok(fetched)
    }
}

/// The columns of a result: a tuple for each, of its name, its type and five times `None`.
pub(crate) fn description<'py>(py: Python<'py>, schema: &SchemaRef) -> PyResult<Bound<'py, PyList>> {
    let none = || py.None();
    let columns = schema.fields().iter().map(|field| {
        let kind = SqlType::from_arrow(field.data_type()).map_or_else(String::new, |kind| kind.to_string());
        (field.name().clone(), kind, none(), none(), none(), none(), none())
    });
    PyList::new(py, columns.collect::<Vec<_>>())
}

fn begin_unless(autocommit: bool, connection: &mut rowmill::Connection) -> rowmill::Result<()> {
    if !autocommit && connection.transaction_state() == TransactionState::Idle {
        connection.begin(false)?;
    }
    Ok(())
}

fn execute_all(
    statement: &rowmill::Statement,
    connection: &mut rowmill::Connection,
    all: &[Parameters],
) -> rowmill::Result<u64> {
    all.iter().try_fold(0, |changed, parameters| Ok(changed + parameters.execute(connection, statement)?))
}

#[pymethods]
impl Cursor {
    /// Runs a statement with values for its parameters: a sequence for `?` and `$1`, a dict for `:name`.
    #[pyo3(signature = (sql, parameters = None))]
    fn execute<'py>(
        this: PyRef<'py, Self>,
        sql: &str,
        parameters: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<PyRef<'py, Self>> {
        this.run(this.py(), sql, parameters, this.shared.variables())?;
        Ok(this)
    }

    /// Runs a statement for each of several lists of parameters, in one transaction.
    fn executemany<'py>(
        this: PyRef<'py, Self>,
        sql: &str,
        parameters: &Bound<'py, PyAny>,
    ) -> PyResult<PyRef<'py, Self>> {
        this.run_many(this.py(), sql, parameters)?;
        Ok(this)
    }

    /// The columns of the result: a tuple for each, of its name, its type and five times `None`.
    #[getter]
    fn description<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyList>>> {
        let schema = self.state().schema.clone();
        schema.map(|schema| description(py, &schema)).transpose()
    }

    /// The number of rows that the statement changed, or -1.
    #[getter]
    fn rowcount(&self) -> i64 {
        self.state().changed
    }

    /// The number of rows that `fetchmany` returns if it is called without a number.
    #[getter]
    fn arraysize(&self) -> usize {
        self.state().array_size
    }

    #[setter]
    fn set_arraysize(&self, rows: usize) {
        self.state().array_size = rows;
    }

    /// Returns the next row as a tuple, or `None` after the last one.
    fn fetchone(&self, py: Python<'_>) -> PyResult<Option<Py<PyTuple>>> {
        Ok(self.fetch(py, 1)?.pop())
    }

    /// Returns the next rows.
    #[pyo3(signature = (size = None))]
    fn fetchmany(&self, py: Python<'_>, size: Option<usize>) -> PyResult<Vec<Py<PyTuple>>> {
        let size = size.unwrap_or_else(|| self.arraysize());
        self.fetch(py, size)
    }

    /// Returns all rows that are left.
    fn fetchall(&self, py: Python<'_>) -> PyResult<Vec<Py<PyTuple>>> {
        self.fetch(py, usize::MAX)
    }

    /// The rows as a stream of Arrow, for pyarrow, pandas, polars and others. They are computed while the stream is
    /// read.
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        // A producer may ignore the request, by the rules of the interface.
        let _ = requested_schema;
        let rows = self.taken()?;
        stream_of(py, &rows.arrow_schema(), Unlocked(rows.into_stream()))
    }

    /// All rows that are left, as an object with `__arrow_c_stream__`. Ctrl-C ends it, other than a stream.
    #[pyo3(name = "_batches")]
    fn batches(&self, py: Python<'_>) -> PyResult<ArrowBatches> {
        let rows = self.taken()?;
        let schema = rows.arrow_schema();
        Ok(ArrowBatches::new(schema, rows.take_batches(py, &self.shared)?))
    }

    /// The rows as a table of pyarrow.
    fn arrow<'py>(this: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let py = this.py();
        py.import("pyarrow")?.call_method1("table", (this.get().batches(py)?,))
    }

    /// As `arrow`.
    fn to_arrow_table<'py>(this: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        Self::arrow(this)
    }

    /// As `fetch_record_batch`.
    fn to_arrow_reader<'py>(this: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        Self::fetch_record_batch(this)
    }

    /// As `arrow`.
    fn fetch_arrow_table<'py>(this: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        Self::arrow(this)
    }

    /// As `df`.
    fn to_df<'py>(this: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        Self::df(this)
    }

    /// As `df`.
    fn fetch_df<'py>(this: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        Self::df(this)
    }

    /// As `df`.
    fn fetchdf<'py>(this: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        Self::df(this)
    }

    /// The rows as a reader of pyarrow, which has them computed batch by batch.
    fn fetch_record_batch<'py>(this: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        this.py().import("pyarrow")?.getattr("RecordBatchReader")?.call_method1("from_stream", (this,))
    }

    /// The rows as a frame of pandas.
    fn df<'py>(this: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        this.py().import("rowmill.columns")?.call_method1("pandas_frame", (Self::arrow(this)?,))
    }

    /// The rows as a frame of polars.
    fn pl<'py>(this: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let py = this.py();
        py.import("polars")?.call_method1("DataFrame", (this.get().batches(py)?,))
    }

    /// The columns as a dict of NumPy's arrays, by name. A column with NULLs is a masked array.
    fn fetchnumpy<'py>(this: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        this.py().import("rowmill.columns")?.call_method1("numpy_arrays", (Self::arrow(this)?,))
    }

    /// PEP 249 asks for it; there is nothing to prepare.
    fn setinputsizes(&self, sizes: &Bound<'_, PyAny>) {
        let _ = sizes;
    }

    /// PEP 249 asks for it; there is nothing to prepare.
    #[pyo3(signature = (size, column = None))]
    fn setoutputsize(&self, size: &Bound<'_, PyAny>, column: Option<&Bound<'_, PyAny>>) {
        let _ = (size, column);
    }

    /// Closes the cursor. A statement that still computes rows ends.
    fn close(&self) {
        let mut state = self.state();
        state.is_closed = true;
        (state.rows, state.schema) = (None, None);
    }

    fn __iter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Py<PyTuple>>> {
        self.fetchone(py)
    }

    fn __enter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    #[pyo3(signature = (*_arguments))]
    fn __exit__(&self, _arguments: &Bound<'_, PyTuple>) -> bool {
        self.close();
        false
    }
}
