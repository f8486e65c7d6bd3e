//! Python values as parameters.
//!
//! | Python | SQL |
//! | --- | --- |
//! | `None`, `bool`, `int`, `float`, `str`, `bytes` | NULL, BOOLEAN, BIGINT or DECIMAL, DOUBLE, TEXT, BLOB |
//! | `decimal.Decimal` | DECIMAL |
//! | `datetime.date`, `time`, `datetime` | DATE, TIME, TIMESTAMP, with a time zone TIMESTAMP WITH TIME ZONE |
//! | `datetime.timedelta` | a text that is read as an INTERVAL |
//! | `uuid.UUID` | UUID |
//! | lists and tuples of these | lists |
//! | objects with `item()`, such as NumPy's numbers | as the value that it returns |

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};
use rowmill::{Connection, Decimal, Outcome, Param, ParamValue, Statement, ToParam, Value};

/// One value.
pub(crate) enum PyParameter {
    Value(Value),
    Moment(Param<'static>),
}

impl ToParam for PyParameter {
    fn to_param(&self) -> ParamValue<'_> {
        match self {
            PyParameter::Value(value) => value.to_param(),
            PyParameter::Moment(moment) => (*moment).into(),
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
        if parameters.is_instance_of::<PyString>() {
            return Err(PyTypeError::new_err("parameters are a sequence or a dict, not a str: write [value]"));
        }
        let values = parameters.try_iter()?.map(|value| parameter(&value?));
        values.collect::<PyResult<_>>().map(Parameters::InOrder)
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

fn parameter(value: &Bound<'_, PyAny>) -> PyResult<PyParameter> {
    match moment(value)? {
        Some(moment) => Ok(PyParameter::Moment(moment)),
        None => plain(value).map(PyParameter::Value),
    }
}

fn plain(value: &Bound<'_, PyAny>) -> PyResult<Value> {
    if value.is_none() {
        return Ok(Value::Null);
    }
    if value.is_instance_of::<PyBool>() {
        return value.extract().map(Value::Boolean);
    }
    if value.is_instance_of::<PyInt>() {
        return Ok(match value.extract::<i64>() {
            Ok(value) => Value::Integer(value),
            // A number beyond BIGINT is read by its digits.
            Err(_) => number(value.str()?.to_string()),
        });
    }
    if value.is_instance_of::<PyFloat>() {
        return value.extract().map(Value::Double);
    }
    if value.is_instance_of::<PyString>() {
        return value.extract().map(Value::Text);
    }
    if let Ok(bytes) = value.cast::<PyBytes>() {
        return Ok(Value::Blob(bytes.as_bytes().to_vec()));
    }
    if value.is_instance_of::<PyList>() || value.is_instance_of::<PyTuple>() {
        let items = value.try_iter()?.map(|item| list_item(&item?));
        return items.collect::<PyResult<_>>().map(Value::List);
    }
    match value.get_type().name()?.to_string().as_str() {
        "Decimal" => Ok(number(format_fixed(value)?)),
        "UUID" => value.getattr("bytes")?.extract().map(Value::Uuid),
        "bytearray" | "memoryview" => {
            value.call_method0("__bytes__").and_then(|bytes| bytes.extract()).map(Value::Blob)
        }
        "timedelta" => interval(value).map(Value::Text),
        name => match value.call_method0("item") {
            Ok(item) if !item.is(value) => plain(&item),
            _ => Err(PyTypeError::new_err(format!("a value of the type {name} cannot be a parameter"))),
        },
    }
}

/// The value of an item of a list. Dates and times are texts there, because all items have one type.
fn list_item(item: &Bound<'_, PyAny>) -> PyResult<Value> {
    match moment(item)? {
        Some(_) => item.str().map(|text| Value::Text(text.to_string())),
        None => plain(item),
    }
}

fn format_fixed(value: &Bound<'_, PyAny>) -> PyResult<String> {
    // The format `f` never has an exponent.
    value.call_method1("__format__", ("f",))?.extract()
}

fn number(digits: String) -> Value {
    digits.parse::<Decimal>().map_or(Value::Text(digits), Value::Decimal)
}

fn interval(value: &Bound<'_, PyAny>) -> PyResult<String> {
    let part = |name: &str| value.getattr(name)?.extract::<i64>();
    let (days, seconds, micros) = (part("days")?, part("seconds")?, part("microseconds")?);
    Ok(format!("{days} days {seconds}.{micros:06} seconds"))
}

const MICROS_PER_SECOND: i64 = 1_000_000;
/// The ordinal of 1970-01-01 in Python's calendar.
const EPOCH_ORDINAL: i32 = 719_163;

/// Reads a date, a time or a datetime.
fn moment(value: &Bound<'_, PyAny>) -> PyResult<Option<Param<'static>>> {
    let datetime = value.py().import("datetime")?;
    let is_a = |name: &str| value.is_instance(&datetime.getattr(name)?);
    let part = |name: &str| value.getattr(name)?.extract::<i64>();
    let of_day = || -> PyResult<i64> {
        let seconds = (part("hour")? * 60 + part("minute")?) * 60 + part("second")?;
        Ok(seconds * MICROS_PER_SECOND + part("microsecond")?)
    };
    let days = || -> PyResult<i32> { Ok(value.call_method0("toordinal")?.extract::<i32>()? - EPOCH_ORDINAL) };
    if is_a("datetime")? {
        let local = i64::from(days()?) * 86_400 * MICROS_PER_SECOND + of_day()?;
        let offset = value.call_method0("utcoffset")?;
        if offset.is_none() {
            return Ok(Some(Param::Timestamp(local)));
        }
        let offset_part = |name: &str| offset.getattr(name)?.extract::<i64>();
        let seconds = offset_part("days")? * 86_400 + offset_part("seconds")?;
        return Ok(Some(Param::Instant(local - seconds * MICROS_PER_SECOND - offset_part("microseconds")?)));
    }
    if is_a("date")? {
        return Ok(Some(Param::Date(days()?)));
    }
    if is_a("time")? {
        return Ok(Some(Param::Time(of_day()?)));
    }
    Ok(None)
}
