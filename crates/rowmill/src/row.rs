//! Typed access to single rows of small results.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type, Int64Type};
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
        let values = self.batch.column(index).slice(self.row, 1);
        T::from_value(&values).map_err(|error| error.context(format_args!("column {}", schema.field(index).name())))
    }
}

/// A type into which a value of a result can be read.
pub trait FromValue: Sized {
    /// Reads the only row of `value`.
    fn from_value(value: &ArrayRef) -> Result<Self>;
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
}

impl FromValue for f64 {
    fn from_value(value: &ArrayRef) -> Result<Self> {
        Ok(converted(value, &DataType::Float64)?.as_primitive::<Float64Type>().value(0))
    }
}

impl FromValue for bool {
    fn from_value(value: &ArrayRef) -> Result<Self> {
        Ok(converted(value, &DataType::Boolean)?.as_boolean().value(0))
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
}

impl FromValue for Vec<u8> {
    fn from_value(value: &ArrayRef) -> Result<Self> {
        Ok(converted(value, &DataType::Binary)?.as_binary::<i32>().value(0).to_vec())
    }
}

impl<T: FromValue> FromValue for Option<T> {
    fn from_value(value: &ArrayRef) -> Result<Self> {
        if value.is_null(0) || value.data_type().is_null() {
            return Ok(None);
        }
        T::from_value(value).map(Some)
    }
}
