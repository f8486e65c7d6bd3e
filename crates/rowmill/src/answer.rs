//! Small results that are read in place.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{Field, Schema, i256};
use rowmill_base::{Error, ErrorKind, NumberedType, Physical, Result, SqlType, UnsignedNumber};
use rowmill_expr::session_zone::SessionZone;
use rowmill_program::ResultRows;
use rowmill_sql::{Outcome, outside_batch};
use rowmill_storage::keyed::ValueRef;
use rowmill_storage::of_ordered_bytes;

/// The result of a statement. Values are read by row and column, both counted from 0. The values are stored in the
/// connection's memory, so the answer must be dropped before the connection runs its next statement.
#[derive(Clone, Copy, Debug)]
pub struct Answer<'c> {
    rows: &'c ResultRows,
    changed: u64,
    /// The time zone in which [`Answer::to_batch`] shows instants; `None` is UTC.
    zone: Option<SessionZone>,
}

/// The answer of a statement whose rows may be read in place.
#[derive(Debug)]
pub enum PlacedAnswer<'c> {
    /// Few rows, which are read in place.
    Rows(Answer<'c>),
    /// A stream of rows, or no rows.
    Other(Outcome),
}

impl<'c> Answer<'c> {
    pub(crate) fn new(rows: &'c ResultRows, changed: u64, zone: Option<SessionZone>) -> Self {
        Answer { rows, changed, zone }
    }

    /// The number of rows.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether the answer has no rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The number of columns of a row. An answer without rows may report 0.
    pub fn column_count(&self) -> usize {
        self.rows.kinds().len()
    }

    /// The type of a column. An answer without rows may have none.
    pub fn column_type(&self, column: usize) -> Option<&'c SqlType> {
        self.rows.kinds().get(column)
    }

    /// The number of rows that the statement changed.
    pub fn changed(&self) -> u64 {
        self.changed
    }

    /// Returns all rows as an Arrow batch. Only callers that do not know the types should use it. Its columns are named
    /// `0`, `1` and so on. Instants have the time zone of the session.
    ///
    /// ```
    /// # use rowmill::{Database, Param, Result};
    /// # fn main() -> Result<()> {
    /// let mut connection = Database::memory()?.connect()?;
    /// let double = connection.prepare("SELECT ? * 2")?;
    /// let batch = double.ask(&mut connection, &[Param::Integer(21)])?.to_batch()?;
    /// assert_eq!(rowmill::text::format_value(batch.column(0), 0)?.as_deref(), Some("42"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn to_batch(&self) -> Result<RecordBatch> {
        let kinds = self.rows.kinds().iter().enumerate();
        let fields: Vec<Field> = kinds.map(|(at, kind)| Field::new(at.to_string(), kind.arrow(), true)).collect();
        outside_batch(self.rows.to_batch(&Arc::new(Schema::new(fields)))?, self.zone)
    }

    fn value(&self, row: usize, column: usize) -> Result<ValueRef<'c>> {
        let columns = self.rows.kinds().len();
        if row < self.rows.len() && column < columns {
            return Ok(self.rows.get(row, column));
        }
        let what = format!("row {row} column {column} of a result with {} rows, {columns} columns", self.rows.len());
        Err(Error::new(ErrorKind::UndefinedColumn, what))
    }

    #[cold]
    fn wrong(&self, row: usize, column: usize, wanted: &str) -> Error {
        let kind = &self.rows.kinds()[column];
        let found = if self.rows.get(row, column).is_null() { "NULL".to_owned() } else { format!("of type {kind}") };
        Error::new(ErrorKind::DatatypeMismatch, format!("column {column} of row {row} is {found}, not {wanted}"))
    }

    /// Whether the value is NULL.
    pub fn is_null(&self, row: usize, column: usize) -> Result<bool> {
        Ok(self.value(row, column)?.is_null())
    }

    /// Reads a whole number. Also reads a date, in days since 1970, and a timestamp, in its unit since 1970.
    pub fn integer(&self, row: usize, column: usize) -> Result<i64> {
        let number = match self.value(row, column)? {
            ValueRef::Int(value) => Some(value),
            ValueRef::UInt(value) => i64::try_from(value).ok(),
            ValueRef::Bool(value) => Some(value.into()),
            _ => None,
        };
        number.ok_or_else(|| self.wrong(row, column, "a whole number"))
    }

    /// Reads a floating-point number.
    pub fn double(&self, row: usize, column: usize) -> Result<f64> {
        match self.value(row, column)? {
            ValueRef::Float(value) => Ok(value),
            _ => Err(self.wrong(row, column, "a floating-point number")),
        }
    }

    /// Reads a decimal number: all of its digits, without the point. For example, 1.50 is read as 150.
    pub fn decimal(&self, row: usize, column: usize) -> Result<i128> {
        match self.value(row, column)? {
            ValueRef::Decimal(value) if !matches!(self.rows.kinds()[column], SqlType::Numbered(_)) => Ok(value),
            _ => Err(self.wrong(row, column, "a decimal number")),
        }
    }

    /// Reads a decimal number of up to 76 digits: all of them, without the point.
    pub fn wide_decimal(&self, row: usize, column: usize) -> Result<i256> {
        match (self.value(row, column)?, &self.rows.kinds()[column]) {
            (ValueRef::Bytes(bytes), SqlType::Decimal { .. }) if let Ok(bytes) = bytes.try_into() => {
                Ok(of_ordered_bytes(bytes))
            }
            _ => self.decimal(row, column).map(i256::from_i128),
        }
    }

    /// Reads a value of up to 256 bits whose type is a number with a text form of its own.
    pub fn wide_number(&self, row: usize, column: usize) -> Result<UnsignedNumber> {
        match (self.value(row, column)?, &self.rows.kinds()[column]) {
            (ValueRef::Bytes(bytes), SqlType::Numbered(_)) if let Ok(bytes) = bytes.try_into() => {
                Ok(NumberedType::wide_number(of_ordered_bytes(bytes)))
            }
            _ => self.number(row, column).map(UnsignedNumber::from),
        }
    }

    /// Reads a value of at most 128 bits whose type is a number with a text form of its own. For example, an address is
    /// read as its bits.
    pub fn number(&self, row: usize, column: usize) -> Result<u128> {
        match (self.value(row, column)?, &self.rows.kinds()[column]) {
            (ValueRef::Decimal(value), SqlType::Numbered(_)) => Ok(NumberedType::number(value)),
            _ => Err(self.wrong(row, column, "of a numbered type")),
        }
    }

    /// Reads a text.
    pub fn text(&self, row: usize, column: usize) -> Result<&'c str> {
        match self.value(row, column)? {
            ValueRef::Text(value) => Ok(value),
            _ => Err(self.wrong(row, column, "a text")),
        }
    }

    /// Reads bytes.
    pub fn blob(&self, row: usize, column: usize) -> Result<&'c [u8]> {
        match self.value(row, column)? {
            ValueRef::Bytes(value) if Physical::of(&self.rows.kinds()[column]) != Physical::Wide => Ok(value),
            _ => Err(self.wrong(row, column, "bytes")),
        }
    }
}
