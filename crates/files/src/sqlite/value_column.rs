//! One column of converted values.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BinaryViewBuilder, BooleanBuilder, Date32Builder, Float64Builder, Int64Builder, StringViewBuilder,
    TimestampMicrosecondBuilder,
};
use arrow::datatypes::DataType;
use rowmill_expr::text::reader::{parse_date, parse_timestamp};
use rusqlite::types::ValueRef;

/// Microseconds of a second and seconds of a day.
const SECOND_US: i64 = 1_000_000;
const DAY_SECONDS: i64 = 86_400;

/// Converts values of SQLite to the type of a column.
pub(super) enum ValueColumn {
    Boolean(BooleanBuilder),
    Integer(Int64Builder),
    Double(Float64Builder),
    Text(StringViewBuilder),
    Blob(BinaryViewBuilder),
    Date(Date32Builder),
    Timestamp(TimestampMicrosecondBuilder),
}

/// A value does not fit the type of its column.
pub(super) struct SqliteMisfit;

impl ValueColumn {
    /// A column of a type of [`column_type`](super::column_type::column_type).
    pub(super) fn new(kind: &DataType) -> ValueColumn {
        match kind {
            DataType::Boolean => ValueColumn::Boolean(BooleanBuilder::new()),
            DataType::Int64 => ValueColumn::Integer(Int64Builder::new()),
            DataType::Float64 => ValueColumn::Double(Float64Builder::new()),
            DataType::BinaryView => ValueColumn::Blob(BinaryViewBuilder::new()),
            DataType::Date32 => ValueColumn::Date(Date32Builder::new()),
            DataType::Timestamp(..) => ValueColumn::Timestamp(TimestampMicrosecondBuilder::new()),
            _ => ValueColumn::Text(StringViewBuilder::new()),
        }
    }

    pub(super) fn push(&mut self, value: ValueRef<'_>) -> Result<(), SqliteMisfit> {
        match self {
            ValueColumn::Boolean(column) => column.append_option(boolean(value)?),
            ValueColumn::Integer(column) => column.append_option(integer(value)?),
            ValueColumn::Double(column) => column.append_option(double(value)?),
            ValueColumn::Text(column) => match value {
                ValueRef::Text(text) | ValueRef::Blob(text) => column.append_value(utf8(text)?),
                ValueRef::Integer(number) => column.append_value(number.to_string()),
                ValueRef::Real(number) => column.append_value(real_text(number)),
                ValueRef::Null => column.append_null(),
            },
            ValueColumn::Blob(column) => match value {
                ValueRef::Text(bytes) | ValueRef::Blob(bytes) => column.append_value(bytes),
                ValueRef::Null => column.append_null(),
                ValueRef::Integer(_) | ValueRef::Real(_) => return Err(SqliteMisfit),
            },
            ValueColumn::Date(column) => column.append_option(date(value)?),
            ValueColumn::Timestamp(column) => column.append_option(timestamp(value)?),
        }
        Ok(())
    }

    pub(super) fn finish(self) -> ArrayRef {
        match self {
            ValueColumn::Boolean(mut column) => Arc::new(column.finish()),
            ValueColumn::Integer(mut column) => Arc::new(column.finish()),
            ValueColumn::Double(mut column) => Arc::new(column.finish()),
            ValueColumn::Text(mut column) => Arc::new(column.finish()),
            ValueColumn::Blob(mut column) => Arc::new(column.finish()),
            ValueColumn::Date(mut column) => Arc::new(column.finish()),
            ValueColumn::Timestamp(mut column) => Arc::new(column.finish()),
        }
    }
}

fn utf8(bytes: &[u8]) -> Result<&str, SqliteMisfit> {
    std::str::from_utf8(bytes).map_err(|_| SqliteMisfit)
}

fn boolean(value: ValueRef<'_>) -> Result<Option<bool>, SqliteMisfit> {
    match value {
        ValueRef::Null => Ok(None),
        ValueRef::Integer(number @ (0 | 1)) => Ok(Some(number == 1)),
        ValueRef::Text(text) => rowmill_expr::text::reader::parse_bool(utf8(text)?).map(Some).map_err(|_| SqliteMisfit),
        _ => Err(SqliteMisfit),
    }
}

fn integer(value: ValueRef<'_>) -> Result<Option<i64>, SqliteMisfit> {
    match value {
        ValueRef::Null => Ok(None),
        ValueRef::Integer(number) => Ok(Some(number)),
        _ => Err(SqliteMisfit),
    }
}

fn double(value: ValueRef<'_>) -> Result<Option<f64>, SqliteMisfit> {
    match value {
        ValueRef::Null => Ok(None),
        // SQLite stores a number of such a column as an integer if it is one.
        ValueRef::Integer(number) => Ok(Some(number as f64)),
        ValueRef::Real(number) => Ok(Some(number)),
        ValueRef::Text(_) | ValueRef::Blob(_) => Err(SqliteMisfit),
    }
}

/// A date is a text, or a number of seconds since 1970, as SQLite's own functions take it.
fn date(value: ValueRef<'_>) -> Result<Option<i32>, SqliteMisfit> {
    match value {
        ValueRef::Null => Ok(None),
        ValueRef::Text(text) => parse_date(utf8(text)?).map(Some).map_err(|_| SqliteMisfit),
        ValueRef::Integer(seconds) => {
            i32::try_from(seconds.div_euclid(DAY_SECONDS)).map(Some).map_err(|_| SqliteMisfit)
        }
        ValueRef::Real(_) | ValueRef::Blob(_) => Err(SqliteMisfit),
    }
}

fn timestamp(value: ValueRef<'_>) -> Result<Option<i64>, SqliteMisfit> {
    match value {
        ValueRef::Null => Ok(None),
        ValueRef::Text(text) => parse_timestamp(utf8(text)?, SECOND_US).map(Some).map_err(|_| SqliteMisfit),
        ValueRef::Integer(seconds) => seconds.checked_mul(SECOND_US).map(Some).ok_or(SqliteMisfit),
        ValueRef::Real(_) | ValueRef::Blob(_) => Err(SqliteMisfit),
    }
}

/// A number as SQLite shows it: always with a point.
fn real_text(number: f64) -> String {
    let text = number.to_string();
    if number.is_finite() && !text.contains('.') { format!("{text}.0") } else { text }
}

/// A value as an error shows it.
pub(super) fn shown(value: ValueRef<'_>) -> String {
    match value {
        ValueRef::Null => "NULL".to_owned(),
        ValueRef::Integer(number) => number.to_string(),
        ValueRef::Real(number) => real_text(number),
        ValueRef::Text(text) => format!("'{}'", String::from_utf8_lossy(text)),
        ValueRef::Blob(bytes) => format!("a BLOB of {} bytes", bytes.len()),
    }
}
