//! Python values as parameters.
//!
//! | Python | SQL |
//! | --- | --- |
//! | `None`, `bool`, `int`, `float`, `str`, `bytes` | NULL, BOOLEAN, BIGINT or DECIMAL, DOUBLE, TEXT, BLOB |
//! | `decimal.Decimal` | DECIMAL |
//! | `datetime.date`, `time`, `datetime` | DATE, TIME, TIMESTAMP, with a time zone TIMESTAMP WITH TIME ZONE |
//! | `datetime.timedelta` | INTERVAL |
//! | `uuid.UUID` | UUID |
//! | lists and tuples of these | lists |
//! | dicts of these, with texts as keys | structs |
//! | NumPy's numbers and `datetime64`, `NaT` and `NA` of pandas | as Python's values, NULL |

use std::sync::Arc;

use arrow_array::{ArrayRef, IntervalMonthDayNanoArray, StructArray};
use arrow_buffer::IntervalMonthDayNano;
use arrow_schema::Field;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{
    PyBool, PyBytes, PyDate, PyDateAccess, PyDateTime, PyDelta, PyDeltaAccess, PyDict, PyFloat, PyInt, PyList,
    PyString, PyTime, PyTimeAccess, PyTuple, PyTzInfoAccess,
};
use rowmill::{Connection, Decimal, Outcome, Param, ParamValue, Statement, ToParam, Value};

use crate::calendar::{CivilDate, MICROS_PER_DAY, MICROS_PER_SECOND, TimeOfDay};

/// One value.
pub(crate) enum PyParameter {
    Value(Value),
    Moment(Param<'static>),
    List(Vec<PyParameter>),
    /// An array of one row.
    Array(ArrayRef),
}

impl ToParam for PyParameter {
    fn to_param(&self) -> ParamValue<'_> {
        match self {
            PyParameter::Value(value) => value.to_param(),
            PyParameter::Moment(moment) => (*moment).into(),
            PyParameter::List(items) => items.to_param(),
            PyParameter::Array(array) => ParamValue::Array(Arc::clone(array)),
        }
    }
}

/// The values of one run of a statement.
pub(crate) enum Parameters {
    InOrder(Vec<PyParameter>),
    Named(Vec<(String, PyParameter)>),
}

impl Parameters {
    pub(crate) fn read(parameters: Option<&Bound<'_, PyAny>>) -> PyResult<Parameters> {
        let Some(parameters) = parameters.filter(|parameters| !parameters.is_none()) else {
            return Ok(Parameters::InOrder(Vec::new()));
        };
        if let Ok(named) = parameters.cast::<PyDict>() {
            let read = |(name, value): (Bound<'_, PyAny>, Bound<'_, PyAny>)| Ok((name.extract()?, parameter(&value)?));
            return named.iter().map(read).collect::<PyResult<_>>().map(Parameters::Named);
        }
        row(parameters).map(Parameters::InOrder)
    }

    pub(crate) fn run(&self, connection: &mut Connection, sql: &str) -> rowmill::Result<Outcome> {
        match self {
            Parameters::InOrder(values) => connection.run_values(sql, values),
            Parameters::Named(values) => connection.run_values(sql, borrowed(values).as_slice()),
        }
    }

    pub(crate) fn execute(&self, connection: &mut Connection, statement: &Statement) -> rowmill::Result<u64> {
        match self {
            Parameters::InOrder(values) => statement.execute(connection, values),
            Parameters::Named(values) => statement.execute(connection, borrowed(values).as_slice()),
        }
    }
}

fn borrowed(values: &[(String, PyParameter)]) -> Vec<(&str, &PyParameter)> {
    values.iter().map(|(name, value)| (name.as_str(), value)).collect()
}

/// Reads values that are given in order.
pub(crate) fn row(values: &Bound<'_, PyAny>) -> PyResult<Vec<PyParameter>> {
    if let Ok(tuple) = values.cast::<PyTuple>() {
        return tuple.iter().map(|value| parameter(&value)).collect();
    }
    if values.is_instance_of::<PyString>() {
        return Err(PyTypeError::new_err("parameters are a sequence or a dict, not a str: write [value]"));
    }
    values.try_iter()?.map(|value| parameter(&value?)).collect()
}

/// Reads one value. Types are tried in the order in which programs use them.
pub(crate) fn parameter(value: &Bound<'_, PyAny>) -> PyResult<PyParameter> {
    if let Some(value) = plain(value)? {
        return Ok(PyParameter::Value(value));
    }
    if let Some(moment) = moment(value)? {
        return Ok(moment);
    }
    if value.is_instance_of::<PyList>() || value.is_instance_of::<PyTuple>() {
        return row(value).map(PyParameter::List);
    }
    if let Ok(dict) = value.cast::<PyDict>() {
        return struct_of(dict).map(PyParameter::Array);
    }
    named(value)
}

fn plain(value: &Bound<'_, PyAny>) -> PyResult<Option<Value>> {
    if value.is_instance_of::<PyString>() {
        return value.extract().map(|text| Some(Value::Text(text)));
    }
    if value.is_none() {
        return Ok(Some(Value::Null));
    }
    if value.is_instance_of::<PyBool>() {
        return value.extract().map(|value| Some(Value::Boolean(value)));
    }
    if value.is_instance_of::<PyInt>() {
        return Ok(Some(match value.extract::<i64>() {
            Ok(value) => Value::Integer(value),
            // A number beyond BIGINT is read by its digits.
            Err(_) => number(value.str()?.to_string()),
        }));
    }
    if value.is_instance_of::<PyFloat>() {
        return value.extract().map(|value| Some(Value::Double(value)));
    }
    Ok(value.cast::<PyBytes>().ok().map(|bytes| Value::Blob(bytes.as_bytes().to_vec())))
}

/// Reads a value of a class that is known by its name, so that its module need not be loaded.
fn named(value: &Bound<'_, PyAny>) -> PyResult<PyParameter> {
    let value_of = |value| Ok(PyParameter::Value(value));
    match value.get_type().name()?.to_string().as_str() {
        // The format `f` never has an exponent.
        "Decimal" => value_of(number(value.call_method1("__format__", ("f",))?.extract()?)),
        "UUID" => value_of(Value::Uuid(value.getattr("bytes")?.extract()?)),
        "bytearray" | "memoryview" => value_of(Value::Blob(value.call_method0("__bytes__")?.extract()?)),
        "NAType" => value_of(Value::Null),
        // A finer unit than microseconds would come as a plain number.
        kind @ ("datetime64" | "timedelta64") => {
            parameter(&value.call_method1("astype", (format!("{kind}[us]"),))?.call_method0("item")?)
        }
        name => match value.call_method0("item") {
            Ok(item) if !item.is(value) => parameter(&item),
            _ => Err(PyTypeError::new_err(format!("a value of the type {name} cannot be a parameter"))),
        },
    }
}

fn struct_of(dict: &Bound<'_, PyDict>) -> PyResult<ArrayRef> {
    if dict.is_empty() {
        return Err(PyTypeError::new_err("a dict without keys cannot be a parameter: a struct has at least one field"));
    }
    let fields = dict.iter().map(|(name, value)| {
        let Ok(name) = name.extract::<String>() else {
            return Err(PyTypeError::new_err("a dict as a parameter is a struct, so its keys are of the type str"));
        };
        let array = Arc::clone(parameter(&value)?.to_param().as_param().to_constant().array());
        Ok((Arc::new(Field::new(name, array.data_type().clone(), true)), array))
    });
    Ok(Arc::new(StructArray::from(fields.collect::<PyResult<Vec<_>>>()?)))
}

fn number(digits: String) -> Value {
    digits.parse::<Decimal>().map_or(Value::Text(digits), Value::Decimal)
}

/// Reads a date, a time, a datetime or a timedelta.
fn moment(value: &Bound<'_, PyAny>) -> PyResult<Option<PyParameter>> {
    if let Ok(moment) = value.cast::<PyDateTime>() {
        return datetime(moment).map(Some);
    }
    if let Ok(date) = value.cast::<PyDate>() {
        return Ok(Some(PyParameter::Moment(Param::Date(days_of(date) as i32))));
    }
    if let Ok(time) = value.cast::<PyTime>() {
        if time.get_tzinfo().is_some() {
            return Err(PyTypeError::new_err("a time with a time zone cannot be a parameter: SQL's TIME has none"));
        }
        return Ok(Some(PyParameter::Moment(Param::Time(micros_of(time)))));
    }
    if let Ok(delta) = value.cast::<PyDelta>() {
        return Ok(Some(PyParameter::Array(interval_of(delta))));
    }
    Ok(None)
}

fn interval_of(delta: &Bound<'_, PyDelta>) -> ArrayRef {
    let micros = i64::from(delta.get_seconds()) * MICROS_PER_SECOND + i64::from(delta.get_microseconds());
    let interval = IntervalMonthDayNano::new(0, delta.get_days(), micros * 1_000);
    Arc::new(IntervalMonthDayNanoArray::from_iter_values([interval]))
}

/// Whether a value is the `NaT` of pandas, which is a datetime by its class and has no year.
fn is_not_a_time(value: &Bound<'_, PyAny>) -> PyResult<bool> {
    Ok(value.get_type().name()? == "NaTType")
}

fn datetime(moment: &Bound<'_, PyDateTime>) -> PyResult<PyParameter> {
    if is_not_a_time(moment)? {
        return Ok(PyParameter::Value(Value::Null));
    }
    let local = days_of(moment) * MICROS_PER_DAY + micros_of(moment);
    if moment.get_tzinfo().is_none() {
        return Ok(PyParameter::Moment(Param::Timestamp(local)));
    }
    let offset = moment.call_method0("utcoffset")?;
    let Ok(offset) = offset.cast::<PyDelta>() else { return Ok(PyParameter::Moment(Param::Timestamp(local))) };
    let seconds = i64::from(offset.get_days()) * 86_400 + i64::from(offset.get_seconds());
    let offset = seconds * MICROS_PER_SECOND + i64::from(offset.get_microseconds());
    Ok(PyParameter::Moment(Param::Instant(local - offset)))
}

fn days_of(date: &impl PyDateAccess) -> i64 {
    CivilDate { year: date.get_year(), month: date.get_month(), day: date.get_day() }.to_days()
}

fn micros_of(time: &impl PyTimeAccess) -> i64 {
    let (hour, minute, second) = (time.get_hour(), time.get_minute(), time.get_second());
    TimeOfDay { hour, minute, second, micros: time.get_microsecond() }.to_micros()
}
