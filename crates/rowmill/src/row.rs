//! Typed access to single rows of small results.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{
    DataType, Decimal128Type, Decimal256Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use rowmill_base::{Error, ErrorKind, Result};

/// One row of a result.
#[derive(Clone, Debug)]
pub struct Row {
    batch: Arc<RecordBatch>,
    row: usize,
}

/// A column of a row: by position or by name.
#[derive(Clone, Copy, Debug)]
pub enum ColumnRef<'a> {
    /// The position, counted from 0.
    Position(usize),
    /// The name, in any case.
    Name(&'a str),
}

impl From<usize> for ColumnRef<'_> {
    fn from(position: usize) -> Self {
        ColumnRef::Position(position)
    }
}

impl<'a> From<&'a str> for ColumnRef<'a> {
    fn from(name: &'a str) -> Self {
        ColumnRef::Name(name)
    }
}

impl Row {
    pub(crate) fn new(batch: &Arc<RecordBatch>, row: usize) -> Self {
        Row { batch: Arc::clone(batch), row }
    }

    /// The number of columns.
    pub fn len(&self) -> usize {
        self.batch.num_columns()
    }

    /// Whether the row has no columns.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Reads the value of a column. A column that may be NULL should be read as an `Option`; otherwise NULL is an
    /// error.
    pub fn get<'a, T: FromValue>(&self, column: impl Into<ColumnRef<'a>>) -> Result<T> {
        let schema = self.batch.schema_ref();
        let index = match column.into() {
            ColumnRef::Position(position) if position < self.len() => position,
            ColumnRef::Position(position) => {
                let message = format!("column {position} of a result with {} columns", self.len());
                return Err(Error::new(ErrorKind::UndefinedColumn, message));
            }
            ColumnRef::Name(name) => {
                let found = schema.fields().iter().position(|field| field.name().eq_ignore_ascii_case(name));
                found.ok_or_else(|| {
                    let names: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
                    Error::new(ErrorKind::UndefinedColumn, format!("the result has no column \"{name}\""))
                        .hint(format!("its columns are {}", names.join(", ")))
                })?
            }
        };
        let column = self.batch.column(index);
        if let Some(value) = T::in_place(column, self.row) {
            return Ok(value);
        }
        T::from_value(&column.slice(self.row, 1))
            .map_err(|error| error.context(format_args!("column {}", schema.field(index).name())))
    }
}

/// A type into which a value of a result can be read.
pub trait FromValue: Sized {
    /// Reads the only row of `value`.
    fn from_value(value: &ArrayRef) -> Result<Self>;

    /// Reads a row of `column` without an array of its own, if the type is one that a column keeps as it is. Returns
    /// `None` for all other values; [`from_value`](Self::from_value) then reads or refuses them.
    #[doc(hidden)]
    fn in_place(_column: &ArrayRef, _row: usize) -> Option<Self> {
        None
    }
}

/// The whole number in a row of a column of integers, if it is not NULL.
fn integer_in_place(column: &ArrayRef, row: usize) -> Option<i64> {
    if column.is_null(row) {
        return None;
    }
    Some(match column.data_type() {
        DataType::Int64 => column.as_primitive::<Int64Type>().value(row),
        DataType::Int32 => column.as_primitive::<Int32Type>().value(row).into(),
        DataType::Int16 => column.as_primitive::<Int16Type>().value(row).into(),
        DataType::Int8 => column.as_primitive::<Int8Type>().value(row).into(),
        _ => return None,
    })
}

fn converted(value: &ArrayRef, kind: &DataType) -> Result<ArrayRef> {
    if value.is_null(0) {
        return Err(Error::new(ErrorKind::DatatypeMismatch, "the value is NULL").hint("read it as an Option"));
    }
    let read = cast(value, kind).ok().filter(|read| read.is_valid(0));
    read.ok_or_else(|| {
        let message = format!("a value of type {} cannot be read as {kind}", value.data_type());
        Error::new(ErrorKind::DatatypeMismatch, message)
    })
}

impl FromValue for i64 {
    fn from_value(value: &ArrayRef) -> Result<Self> {
        Ok(converted(value, &DataType::Int64)?.as_primitive::<Int64Type>().value(0))
    }

    fn in_place(column: &ArrayRef, row: usize) -> Option<Self> {
        integer_in_place(column, row)
    }
}

impl FromValue for f64 {
    fn from_value(value: &ArrayRef) -> Result<Self> {
        Ok(converted(value, &DataType::Float64)?.as_primitive::<Float64Type>().value(0))
    }

    fn in_place(column: &ArrayRef, row: usize) -> Option<Self> {
        let doubles = column.as_primitive_opt::<Float64Type>()?;
        doubles.is_valid(row).then(|| doubles.value(row))
    }
}

impl FromValue for bool {
    fn from_value(value: &ArrayRef) -> Result<Self> {
        Ok(converted(value, &DataType::Boolean)?.as_boolean().value(0))
    }

    fn in_place(column: &ArrayRef, row: usize) -> Option<Self> {
        let truths = column.as_boolean_opt()?;
        truths.is_valid(row).then(|| truths.value(row))
    }
}

impl FromValue for String {
    fn from_value(value: &ArrayRef) -> Result<Self> {
        if value.is_null(0) {
            return converted(value, &DataType::Utf8).map(|_| unreachable!("NULL is an error"));
        }
        let formatter = ArrayFormatter::try_new(value, &FormatOptions::default());
        formatter.map(|formatter| formatter.value(0).to_string()).map_err(|error| Error::internal(error.to_string()))
    }

    fn in_place(column: &ArrayRef, row: usize) -> Option<Self> {
        if column.is_null(row) {
            return None;
        }
        match column.data_type() {
            DataType::Utf8View => Some(column.as_string_view().value(row).to_owned()),
            DataType::Decimal128(..) => Some(column.as_primitive::<Decimal128Type>().value_as_string(row)),
            DataType::Decimal256(..) => Some(column.as_primitive::<Decimal256Type>().value_as_string(row)),
            _ => integer_in_place(column, row).map(|number| number.to_string()),
        }
    }
}

impl FromValue for Vec<u8> {
    fn from_value(value: &ArrayRef) -> Result<Self> {
        Ok(converted(value, &DataType::Binary)?.as_binary::<i32>().value(0).to_vec())
    }

    fn in_place(column: &ArrayRef, row: usize) -> Option<Self> {
        let blobs = column.as_binary_view_opt()?;
        blobs.is_valid(row).then(|| blobs.value(row).to_vec())
    }
}

impl<T: FromValue> FromValue for Option<T> {
    fn from_value(value: &ArrayRef) -> Result<Self> {
        if value.is_null(0) || value.data_type().is_null() {
            return Ok(None);
        }
        T::from_value(value).map(Some)
    }

    fn in_place(column: &ArrayRef, row: usize) -> Option<Self> {
        T::in_place(column, row).map(Some)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::Database;

    /// Checks that both ways to read a value agree, for each value that can be read in place.
    fn agree<T: FromValue + PartialEq + std::fmt::Debug>(rows: &[Row]) {
        for row in rows {
            for column in row.batch.columns() {
                if let Some(value) = T::in_place(column, row.row) {
                    assert_eq!(T::from_value(&column.slice(row.row, 1)).unwrap(), value, "{}", column.data_type());
                }
            }
        }
    }

    #[test]
    fn values_are_read_in_place_as_they_are_read_otherwise() {
        let mut connection = Database::memory().unwrap().connect().unwrap();
        let sql = "SELECT * FROM (VALUES
            (CAST(-3 AS TINYINT), CAST(-300 AS SMALLINT), -70000, CAST(-1 AS BIGINT), CAST(9 AS UINTEGER),
                0.5::DOUBLE, 1.25::REAL, true, 'a text that is longer than a view', '\\x00ff'::BLOB, -12.30,
                DATE '2024-02-29', TIMESTAMP '2024-02-29 12:00:00', NULL),
            (NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)) AS t";
        let rows = connection.query(sql).unwrap().rows().unwrap();
        agree::<i64>(&rows);
        agree::<f64>(&rows);
        agree::<bool>(&rows);
        agree::<String>(&rows);
        agree::<Vec<u8>>(&rows);
        agree::<Option<i64>>(&rows);
        agree::<Option<String>>(&rows);
        assert_eq!(rows[0].get::<i64>(2).unwrap(), -70000);
        assert_eq!(rows[0].get::<String>(10).unwrap(), "-12.30");
        assert_eq!(rows[1].get::<Option<String>>(8).unwrap(), None);
        assert!(rows[1].get::<i64>(0).is_err());
    }
}
