//! Values of results as Python values.
//!
//! A column is prepared once for each batch ([`ColumnCells`]): its type is looked up, and numbers and times get the one
//! width in which they are read. A value then costs one match and one Python object.

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Date32Type, Decimal128Type, Decimal256Type, Float64Type, Int64Type, IntervalMonthDayNanoType,
    Time64MicrosecondType, UInt64Type,
};
use arrow_array::{Array, ArrayRef, PrimitiveArray, RecordBatch};
use arrow_buffer::IntervalMonthDayNano;
use arrow_cast::cast;
use arrow_schema::{ArrowError, DataType, TimeUnit};
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{
    PyBool, PyBytes, PyDate, PyDateTime, PyDelta, PyDict, PyFloat, PyList, PyString, PyTime, PyTuple, PyTzInfo,
};

use crate::calendar::{CivilDate, MICROS_PER_DAY, TimeOfDay};
use crate::errors::{out_of_range, unreadable};

/// The classes of Python that have no constructor in PyO3, looked up once.
static CLASSES: PyOnceLock<Classes> = PyOnceLock::new();

struct Classes {
    decimal: Py<PyAny>,
    uuid: Py<PyAny>,
}

impl Classes {
    fn find(py: Python<'_>) -> PyResult<Classes> {
        Ok(Classes {
            decimal: py.import("decimal")?.getattr("Decimal")?.unbind(),
            uuid: py.import("uuid")?.getattr("UUID")?.unbind(),
        })
    }
}

/// The rows of one batch, from which tuples are made.
pub(crate) struct BatchCells {
    columns: Vec<ColumnCells>,
}

impl BatchCells {
    pub(crate) fn new(py: Python<'_>, batch: &RecordBatch) -> PyResult<BatchCells> {
        let columns = batch.columns().iter().map(|column| ColumnCells::new(py, column));
        Ok(BatchCells { columns: columns.collect::<PyResult<_>>()? })
    }

    /// Makes a tuple of the values of a row.
    pub(crate) fn tuple<'py>(&self, py: Python<'py>, row: usize) -> PyResult<Bound<'py, PyTuple>> {
        let values = self.columns.iter().map(|column| column.value(py, row));
        PyTuple::new(py, values.collect::<PyResult<Vec<_>>>()?)
    }
}

/// One column of a batch, ready to be read.
pub(crate) struct ColumnCells {
    /// The column itself, which knows its NULLs.
    array: ArrayRef,
    values: CellValues,
}

/// The values of a column by the Python type that they become.
enum CellValues {
    Nothing,
    Boolean,
    Integer(PrimitiveArray<Int64Type>),
    Unsigned(PrimitiveArray<UInt64Type>),
    Double(PrimitiveArray<Float64Type>),
    Text,
    Bytes,
    Uuid,
    Decimal,
    WideDecimal,
    Date,
    Time,
    Timestamp { values: PrimitiveArray<Int64Type>, unit: TimeUnit, zone: Option<InstantZone> },
    Interval,
    List(Box<ColumnCells>),
    Struct(Vec<(Py<PyString>, ColumnCells)>),
    Map { keys: Box<ColumnCells>, values: Box<ColumnCells> },
}

/// The zone in which instants are shown.
enum InstantZone {
    Utc,
    Other(Py<PyAny>),
}

impl InstantZone {
    /// The zone of a name. Instants of a zone that Python does not know are shown in UTC.
    fn named(py: Python<'_>, name: &str) -> PyResult<InstantZone> {
        if matches!(name, "UTC" | "+00:00") {
            return Ok(InstantZone::Utc);
        }
        let found = py.import("zoneinfo")?.getattr("ZoneInfo")?.call1((name,));
        Ok(found.map_or(InstantZone::Utc, |zone| InstantZone::Other(zone.unbind())))
    }
}

/// The wrong type for a value of a column is a bug, which an exception reports.
fn unknown(kind: &DataType) -> PyErr {
    unreadable(&format!("a column of the type {kind} cannot be read as Python values"))
}

impl ColumnCells {
    pub(crate) fn new(py: Python<'_>, column: &ArrayRef) -> PyResult<ColumnCells> {
        let wrong = |error: ArrowError| unreadable(&format!("a column of a result: {error}"));
        let as_type = |kind: &DataType| cast(column, kind).map_err(wrong);
        let mut array = std::sync::Arc::clone(column);
        let values = match column.data_type() {
            DataType::Null => CellValues::Nothing,
            DataType::Boolean => CellValues::Boolean,
            DataType::Int8 | DataType::Int16 | DataType::Int32 | DataType::Int64 => {
                CellValues::Integer(as_type(&DataType::Int64)?.as_primitive().clone())
            }
            DataType::UInt8 | DataType::UInt16 | DataType::UInt32 | DataType::UInt64 => {
                CellValues::Unsigned(as_type(&DataType::UInt64)?.as_primitive().clone())
            }
            DataType::Float32 | DataType::Float64 => {
                CellValues::Double(as_type(&DataType::Float64)?.as_primitive().clone())
            }
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => {
                array = as_type(&DataType::Utf8View)?;
                CellValues::Text
            }
            DataType::Binary | DataType::LargeBinary | DataType::BinaryView => {
                array = as_type(&DataType::BinaryView)?;
                CellValues::Bytes
            }
            DataType::FixedSizeBinary(16) => CellValues::Uuid,
            DataType::Decimal128(..) => CellValues::Decimal,
            DataType::Decimal256(..) => CellValues::WideDecimal,
            DataType::Date32 => CellValues::Date,
            DataType::Time64(TimeUnit::Microsecond) => CellValues::Time,
            DataType::Timestamp(unit, zone) => CellValues::Timestamp {
                values: as_type(&DataType::Int64)?.as_primitive().clone(),
                unit: *unit,
                zone: zone.as_deref().map(|name| InstantZone::named(py, name)).transpose()?,
            },
            DataType::Interval(_) => CellValues::Interval,
            DataType::List(_) => CellValues::List(Box::new(ColumnCells::new(py, column.as_list::<i32>().values())?)),
            DataType::Map(..) => CellValues::Map {
                keys: Box::new(ColumnCells::new(py, column.as_map().keys())?),
                values: Box::new(ColumnCells::new(py, column.as_map().values())?),
            },
            DataType::Struct(fields) => {
                let columns = fields.iter().zip(column.as_struct().columns());
                let read = columns.map(|(field, column)| {
                    Ok((PyString::new(py, field.name()).unbind(), ColumnCells::new(py, column)?))
                });
                CellValues::Struct(read.collect::<PyResult<_>>()?)
            }
            other => return Err(unknown(other)),
        };
        Ok(ColumnCells { array, values })
    }

    pub(crate) fn is_null(&self, row: usize) -> bool {
        self.array.is_null(row)
    }

    pub(crate) fn value<'py>(&self, py: Python<'py>, row: usize) -> PyResult<Bound<'py, PyAny>> {
        if self.array.is_null(row) {
            return Ok(py.None().into_bound(py));
        }
        Ok(match &self.values {
            CellValues::Nothing => py.None().into_bound(py),
            CellValues::Boolean => PyBool::new(py, self.array.as_boolean().value(row)).to_owned().into_any(),
            CellValues::Integer(values) => values.value(row).into_bound_py_any(py)?,
            CellValues::Unsigned(values) => values.value(row).into_bound_py_any(py)?,
            CellValues::Double(values) => PyFloat::new(py, values.value(row)).into_any(),
            CellValues::Text => PyString::new(py, self.array.as_string_view().value(row)).into_any(),
            CellValues::Bytes => PyBytes::new(py, self.array.as_binary_view().value(row)).into_any(),
            CellValues::Uuid => {
                let bytes = PyBytes::new(py, self.array.as_fixed_size_binary().value(row));
                classes(py)?.uuid.bind(py).call1((py.None(), bytes))?
            }
            CellValues::Decimal => decimal(py, &self.array.as_primitive::<Decimal128Type>().value_as_string(row))?,
            CellValues::WideDecimal => decimal(py, &self.array.as_primitive::<Decimal256Type>().value_as_string(row))?,
            CellValues::Date => {
                let CivilDate { year, month, day } = civil(self.array.as_primitive::<Date32Type>().value(row).into())?;
                PyDate::new(py, year, month, day)?.into_any()
            }
            CellValues::Time => {
                let micros = self.array.as_primitive::<Time64MicrosecondType>().value(row);
                let TimeOfDay { hour, minute, second, micros } = TimeOfDay::of_micros(micros);
                PyTime::new(py, hour, minute, second, micros, None)?.into_any()
            }
            CellValues::Timestamp { values, unit, zone } => timestamp(py, values.value(row), *unit, zone.as_ref())?,
            CellValues::Interval => interval(py, self.array.as_primitive::<IntervalMonthDayNanoType>().value(row))?,
            CellValues::List(items) => {
                let offsets = self.array.as_list::<i32>().value_offsets();
                let items = (offsets[row]..offsets[row + 1]).map(|item| items.value(py, item as usize));
                PyList::new(py, items.collect::<PyResult<Vec<_>>>()?)?.into_any()
            }
            CellValues::Map { keys, values } => {
                let offsets = self.array.as_map().value_offsets();
                let dict = PyDict::new(py);
                for entry in offsets[row] as usize..offsets[row + 1] as usize {
                    dict.set_item(keys.value(py, entry)?, values.value(py, entry)?)?;
                }
                dict.into_any()
            }
            CellValues::Struct(fields) => {
                let dict = PyDict::new(py);
                for (name, column) in fields {
                    dict.set_item(name, column.value(py, row)?)?;
                }
                dict.into_any()
            }
        })
    }
}

fn classes(py: Python<'_>) -> PyResult<&Classes> {
    CLASSES.get_or_try_init(py, || Classes::find(py))
}

fn decimal<'py>(py: Python<'py>, digits: &str) -> PyResult<Bound<'py, PyAny>> {
    classes(py)?.decimal.bind(py).call1((digits,))
}

fn civil(days: i64) -> PyResult<CivilDate> {
    CivilDate::of_days(days).ok_or_else(|| out_of_range("a date"))
}

fn timestamp<'py>(
    py: Python<'py>,
    value: i64,
    unit: TimeUnit,
    zone: Option<&InstantZone>,
) -> PyResult<Bound<'py, PyAny>> {
    // A finer part than microseconds is cut off, towards the past, as no datetime has it.
    let micros = match unit {
        TimeUnit::Second => value.checked_mul(1_000_000),
        TimeUnit::Millisecond => value.checked_mul(1_000),
        TimeUnit::Microsecond => Some(value),
        TimeUnit::Nanosecond => Some(value.div_euclid(1_000)),
    };
    let micros = micros.ok_or_else(|| out_of_range("a timestamp"))?;
    let CivilDate { year, month, day } = civil(micros.div_euclid(MICROS_PER_DAY))?;
    let TimeOfDay { hour, minute, second, micros } = TimeOfDay::of_micros(micros.rem_euclid(MICROS_PER_DAY));
    let utc = zone.map(|_| PyTzInfo::utc(py)).transpose()?;
    let moment = PyDateTime::new(py, year, month, day, hour, minute, second, micros, utc.as_deref())?.into_any();
    match zone {
        Some(InstantZone::Other(zone)) => moment.call_method1("astimezone", (zone,)),
        _ => Ok(moment),
    }
}

/// An interval without months is a timedelta. Months have no fixed length, so such an interval is a text.
fn interval(py: Python<'_>, interval: IntervalMonthDayNano) -> PyResult<Bound<'_, PyAny>> {
    if interval.months != 0 {
        let array: ArrayRef =
            std::sync::Arc::new(PrimitiveArray::<IntervalMonthDayNanoType>::from_iter_values([interval]));
        let text = rowmill::CellRef::new(&array, 0).to_text().map_err(|error| crate::errors::raised(py, &error))?;
        return text.into_bound_py_any(py);
    }
    let micros = interval.nanoseconds.div_euclid(1_000);
    let seconds = micros.div_euclid(1_000_000);
    let (days, seconds) = (i64::from(interval.days) + seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let days = i32::try_from(days).map_err(|_| out_of_range("an interval"))?;
    Ok(PyDelta::new(py, days, seconds as i32, micros.rem_euclid(1_000_000) as i32, true)?.into_any())
}
