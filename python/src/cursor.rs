//! Cursors: statements and their rows.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arrow_schema::SchemaRef;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};
use rowmill::{Outcome, Row, Rows, SqlType, TransactionState};

use crate::capsule::{outside_schema, stream_of};
use crate::cells::tuple_of;
use crate::errors::misuse;
use crate::parameters::Parameters;
use crate::shared::SharedConnection;

/// The rows that `fetchall` pulls before it makes Python values of them.
const ROWS_AT_ONCE: usize = 4096;

/// A statement and its rows. Rows are computed while they are fetched.
#[pyclass(frozen, module = "rowmill")]
pub(crate) struct Cursor {
    shared: Arc<SharedConnection>,
    autocommit: bool,
    state: Mutex<CursorState>,
}

struct CursorState {
    rows: Option<Rows>,
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

    pub(crate) fn run(&self, py: Python<'_>, sql: &str, parameters: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        self.reset()?;
        let parameters = Parameters::read(parameters)?;
        let autocommit = self.autocommit;
        let outcome = self.shared.run(py, |connection| {
            begin_unless(autocommit, connection)?;
            parameters.run(connection, sql)
        })?;
        let mut state = self.state();
        match outcome {
            Outcome::Rows(stream) => {
                let rows = Rows::from(Outcome::Rows(stream));
                state.schema = Some(Arc::clone(rows.schema()));
                state.rows = Some(rows);
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
    fn taken(&self) -> PyResult<Rows> {
        let mut state = self.state();
        if state.is_closed {
            return Err(misuse("the cursor is closed"));
        }
        state.rows.take().ok_or_else(|| misuse("there are no rows to fetch: run a statement that returns rows"))
    }

    fn fetch(&self, py: Python<'_>, rows_max: usize) -> PyResult<Vec<Py<PyTuple>>> {
        let mut rows = self.taken()?;
        let mut fetched = Vec::new();
        loop {
            let wanted = ROWS_AT_ONCE.min(rows_max - fetched.len());
            let pulled = self.shared.pull(py, || {
                let mut pulled: Vec<Row> = Vec::new();
                while pulled.len() < wanted
                    && let Some(row) = rows.next_row()?
                {
                    pulled.push(row);
                }
                Ok(pulled)
            })?;
            for row in &pulled {
                fetched.push(tuple_of(py, row)?.unbind());
            }
            if pulled.len() < wanted || fetched.len() == rows_max {
                self.state().rows = Some(rows);
                return Ok(fetched);
            }
        }
    }
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
        this.run(this.py(), sql, parameters)?;
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
        let Some(schema) = self.state().schema.clone() else { return Ok(None) };
        let none = || py.None();
        let columns = schema.fields().iter().map(|field| {
            let kind = SqlType::from_arrow(field.data_type()).map_or_else(String::new, |kind| kind.to_string());
            (field.name().clone(), kind, none(), none(), none(), none(), none())
        });
        PyList::new(py, columns.collect::<Vec<_>>()).map(Some)
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

    /// The rows as a stream of Arrow, for pyarrow, pandas, polars and others.
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        // A producer may ignore the request, by the rules of the interface.
        let _ = requested_schema;
        let rows = self.taken()?;
        let batches = self.shared.pull(py, || rows.batches())?;
        let schema = self.state().schema.clone().ok_or_else(|| misuse("there is no result"))?;
        stream_of(py, &outside_schema(&schema), &batches)
    }

    /// The rows as a table of pyarrow.
    fn arrow<'py>(this: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        this.py().import("pyarrow")?.call_method1("table", (this,))
    }

    /// The rows as a frame of pandas.
    fn df<'py>(this: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        Self::arrow(this)?.call_method0("to_pandas")
    }

    /// The rows as a frame of polars.
    fn pl<'py>(this: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        this.py().import("polars")?.call_method1("from_arrow", (Self::arrow(this)?,))
    }

    /// The columns as a dict of NumPy's arrays, by name.
    fn fetchnumpy<'py>(this: &Bound<'py, Self>) -> PyResult<Bound<'py, PyDict>> {
        let py = this.py();
        let table = Self::arrow(this)?;
        let options = PyDict::new(py);
        options.set_item("zero_copy_only", false)?;
        let arrays = PyDict::new(py);
        for name in table.getattr("column_names")?.try_iter()? {
            let name = name?;
            let column = table.call_method1("column", (&name,))?.call_method0("combine_chunks")?;
            arrays.set_item(name, column.call_method("to_numpy", (), Some(&options))?)?;
        }
        Ok(arrays)
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
