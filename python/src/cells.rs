//! Values of results as Python values.

use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyDict, PyList, PyTuple};
use rowmill::{CellRef, FromValue, Row, SqlType};

use arrow_array::cast::AsArray;
use arrow_array::types::{Date32Type, IntervalMonthDayNanoType, Time64MicrosecondType};

use crate::errors::raised;

/// The ordinal of 1970-01-01 in Python's calendar.
const EPOCH_ORDINAL: i32 = 719_163;

/// The classes of Python that values become, looked up once.
static CLASSES: PyOnceLock<Classes> = PyOnceLock::new();

struct Classes {
    decimal: Py<PyAny>,
    date: Py<PyAny>,
    datetime: Py<PyAny>,
    timedelta: Py<PyAny>,
    uuid: Py<PyAny>,
    utc: Py<PyAny>,
}

impl Classes {
    fn find(py: Python<'_>) -> PyResult<Classes> {
        let datetime = py.import("datetime")?;
        Ok(Classes {
            decimal: py.import("decimal")?.getattr("Decimal")?.unbind(),
            date: datetime.getattr("date")?.unbind(),
            datetime: datetime.getattr("datetime")?.unbind(),
            timedelta: datetime.getattr("timedelta")?.unbind(),
            uuid: py.import("uuid")?.getattr("UUID")?.unbind(),
            utc: datetime.getattr("timezone")?.getattr("utc")?.unbind(),
        })
    }
}

/// Makes a tuple of the values of a row.
pub(crate) fn tuple_of<'py>(py: Python<'py>, row: &Row) -> PyResult<Bound<'py, PyTuple>> {
    let classes = CLASSES.get_or_try_init(py, || Classes::find(py))?;
    let cells = (0..row.len()).map(|column| {
        let cell = row.cell(column).map_err(|error| raised(py, &error))?;
        classes.value(py, cell)
    });
    PyTuple::new(py, cells.collect::<PyResult<Vec<_>>>()?)
}

fn read<'r, T: FromValue<'r>>(py: Python<'_>, cell: CellRef<'r>) -> PyResult<T> {
    T::from_value(cell).map_err(|error| raised(py, &error))
}

impl Classes {
    fn value<'py>(&self, py: Python<'py>, cell: CellRef<'_>) -> PyResult<Bound<'py, PyAny>> {
        if cell.is_null() {
            return py.None().into_bound_py_any(py);
        }
        match cell.kind() {
            SqlType::Boolean => read::<bool>(py, cell)?.into_bound_py_any(py),
            SqlType::Int8 | SqlType::Int16 | SqlType::Int32 | SqlType::Int64 => {
                read::<i64>(py, cell)?.into_bound_py_any(py)
            }
            SqlType::UInt8 | SqlType::UInt16 | SqlType::UInt32 | SqlType::UInt64 => {
                read::<u64>(py, cell)?.into_bound_py_any(py)
            }
            SqlType::Float32 | SqlType::Float64 => read::<f64>(py, cell)?.into_bound_py_any(py),
            SqlType::Text { .. } | SqlType::Json => read::<&str>(py, cell)?.into_bound_py_any(py),
            SqlType::Blob => Ok(PyBytes::new(py, read::<&[u8]>(py, cell)?).into_any()),
            SqlType::Decimal { .. } => self.decimal.bind(py).call1((read::<String>(py, cell)?,)),
            SqlType::Date => self.date(py, cell),
            SqlType::Time => self.time(py, cell),
            SqlType::Timestamp { zoned, .. } => self.timestamp(py, cell, zoned),
            SqlType::Interval => self.interval(py, cell),
            SqlType::Uuid => self.uuid.bind(py).call1((read::<String>(py, cell)?,)),
            SqlType::List(_) => {
                let items = read::<Vec<CellRef<'_>>>(py, cell)?.into_iter().map(|item| self.value(py, item));
                Ok(PyList::new(py, items.collect::<PyResult<Vec<_>>>()?)?.into_any())
            }
            SqlType::Struct(_) => self.dict(py, cell),
            SqlType::Numbered(_) => read::<String>(py, cell)?.into_bound_py_any(py),
        }
    }

    fn date<'py>(&self, py: Python<'py>, cell: CellRef<'_>) -> PyResult<Bound<'py, PyAny>> {
        let days = cell.column().as_primitive::<Date32Type>().value(cell.row());
        self.date.bind(py).call_method1("fromordinal", (days.saturating_add(EPOCH_ORDINAL),))
    }

    fn micros<'py>(&self, py: Python<'py>, micros: i64) -> PyResult<Bound<'py, PyAny>> {
        self.timedelta.bind(py).call1((0, 0, micros))
    }

    fn epoch<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.datetime.bind(py).call1((1970, 1, 1))
    }

    fn time<'py>(&self, py: Python<'py>, cell: CellRef<'_>) -> PyResult<Bound<'py, PyAny>> {
        let micros = cell.column().as_primitive::<Time64MicrosecondType>().value(cell.row());
        self.epoch(py)?.add(self.micros(py, micros)?)?.call_method0("time")
    }

    fn timestamp<'py>(&self, py: Python<'py>, cell: CellRef<'_>, zoned: bool) -> PyResult<Bound<'py, PyAny>> {
        // A finer part than microseconds is cut off, towards the past, as no datetime has it.
        let micros = read::<i64>(py, cell)?;
        let micros = match cell.kind() {
            SqlType::Timestamp { unit, .. } => match unit.digits() {
                digits @ 0..=6 => micros.checked_mul(10_i64.pow(6 - digits)),
                digits => Some(micros.div_euclid(10_i64.pow(digits - 6))),
            },
            _ => None,
        };
        let micros = micros.ok_or_else(|| crate::errors::misuse("a timestamp is beyond the years of a datetime"))?;
        let moment = self.epoch(py)?.add(self.micros(py, micros)?)?;
        if !zoned {
            return Ok(moment);
        }
        let zone = PyDict::new(py);
        zone.set_item("tzinfo", self.utc.bind(py))?;
        moment.call_method("replace", (), Some(&zone))
    }

    /// An interval without months is a timedelta. Months have no fixed length, so such an interval is a text.
    fn interval<'py>(&self, py: Python<'py>, cell: CellRef<'_>) -> PyResult<Bound<'py, PyAny>> {
        let interval = cell.column().as_primitive::<IntervalMonthDayNanoType>().value(cell.row());
        if interval.months != 0 {
            return read::<String>(py, cell)?.into_bound_py_any(py);
        }
        self.timedelta.bind(py).call1((interval.days, 0, interval.nanoseconds.div_euclid(1000)))
    }

    fn dict<'py>(&self, py: Python<'py>, cell: CellRef<'_>) -> PyResult<Bound<'py, PyAny>> {
        let fields = cell.column().as_struct();
        let dict = PyDict::new(py);
        for (name, column) in fields.column_names().into_iter().zip(fields.columns()) {
            dict.set_item(name, self.value(py, CellRef::new(column, cell.row()))?)?;
        }
        Ok(dict.into_any())
    }
}
