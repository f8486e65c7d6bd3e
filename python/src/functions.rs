//! Functions of Python as scalar functions of SQL.
//!
//! The threads of a statement take Python's lock once for each batch of rows. The statement itself runs without the
//! lock, so they can have it. A function must not run statements on its own connection, which waits for the function.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_cast::cast;
use arrow_schema::{Field, Schema};
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use rowmill::{CellBuilder, Connection, Error, ErrorKind, SqlType, ToParam, Volatility};

use crate::capsule::{ArrowBatches, batches_of, outside_schema};
use crate::cells::ColumnCells;
use crate::parameters::parameter;

/// A function of Python.
pub(crate) struct PythonFunction {
    pub(crate) function: Py<PyAny>,
    /// Whether it is called for a row with a NULL. Otherwise the result of such a row is NULL.
    pub(crate) takes_null: bool,
}

impl PythonFunction {
    /// Makes it a function of SQL.
    pub(crate) fn register(
        self,
        connection: &mut Connection,
        name: &str,
        arguments: &[SqlType],
        result: SqlType,
        is_arrow: bool,
        is_volatile: bool,
    ) -> rowmill::Result<()> {
        let own_name = name.to_owned();
        if is_arrow {
            let kind = result.clone();
            return connection.register_vector_function(name, arguments, result, move |columns, rows| {
                let called = Python::attach(|py| {
                    self.call_columns(py, columns, rows, &kind).map_err(|error| error.to_string())
                });
                called.map_err(|error| failed(&own_name, &error))
            });
        }
        let volatility = if is_volatile { Volatility::Volatile } else { Volatility::Immutable };
        connection.register_untyped(name, arguments, result, volatility, move |columns, rows, values| {
            Python::attach(|py| self.call_rows(py, &own_name, columns, rows, values))
        })
    }

    fn call_rows(
        &self,
        py: Python<'_>,
        name: &str,
        columns: &[ArrayRef],
        rows: usize,
        values: &mut CellBuilder,
    ) -> rowmill::Result<()> {
        let raised = |error: PyErr| failed(name, &error.to_string());
        let cells = columns.iter().map(|column| ColumnCells::new(py, column));
        let cells = cells.collect::<PyResult<Vec<_>>>().map_err(raised)?;
        for row in 0..rows {
            if !self.takes_null && cells.iter().any(|column| column.is_null(row)) {
                values.append_null()?;
                continue;
            }
            let arguments = cells.iter().map(|column| column.value(py, row)).collect::<PyResult<Vec<_>>>();
            let arguments = arguments.and_then(|arguments| PyTuple::new(py, arguments));
            let called = arguments.and_then(|arguments| self.function.bind(py).call1(arguments));
            let value = called.and_then(|value| parameter(&value)).map_err(raised)?;
            values
                .append(value.to_param().as_param())
                .map_err(|error| error.context(format_args!("function {name}")))?;
        }
        Ok(())
    }

    fn call_columns(&self, py: Python<'_>, columns: &[ArrayRef], rows: usize, kind: &SqlType) -> PyResult<ArrayRef> {
        let given = columns.iter().enumerate();
        let fields: Vec<Field> =
            given.map(|(place, column)| Field::new(format!("c{place}"), column.data_type().clone(), true)).collect();
        let schema = Arc::new(Schema::new(fields));
        let batches = match RecordBatch::try_new(Arc::clone(&schema), columns.to_vec()) {
            Ok(batch) if !columns.is_empty() => vec![batch],
            _ => Vec::new(),
        };
        let given = ArrowBatches::new(outside_schema(&schema), batches);
        let batches = batches_of(&self.function.bind(py).call1((given, rows))?)?;
        let arrays =
            batches.iter().filter(|batch| batch.num_rows() > 0).map(|batch| cast(batch.column(0), &kind.arrow()));
        let arrays = arrays.collect::<Result<Vec<_>, _>>().map_err(wrong)?;
        match arrays.as_slice() {
            [] => Ok(arrow_array::new_empty_array(&kind.arrow())),
            [one] => Ok(Arc::clone(one)),
            several => {
                let several: Vec<&dyn Array> = several.iter().map(|array| &**array).collect();
                rowmill::arrow::compute::concat(&several).map_err(wrong)
            }
        }
    }
}

fn wrong(error: arrow_schema::ArrowError) -> PyErr {
    crate::errors::unreadable(&format!("the result of a function: {error}"))
}

/// The error of a statement whose function has raised an exception.
fn failed(name: &str, exception: &str) -> Error {
    Error::new(ErrorKind::InvalidParameter, format!("function {name}: {exception}"))
}

/// The type with a name of SQL.
pub(crate) fn type_named(connection: &mut Connection, name: &str) -> rowmill::Result<SqlType> {
    let statement = connection.prepare(&format!("SELECT CAST(NULL AS {name})"))?;
    let kind = statement.schema().and_then(|schema| SqlType::from_arrow(schema.field(0).data_type()));
    kind.ok_or_else(|| Error::new(ErrorKind::Unsupported, format!("a function cannot have the type {name}")))
}
