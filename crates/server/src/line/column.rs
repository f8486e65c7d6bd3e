//! One column of a table while lines are gathered: which values it takes, and its values so far.
//!
//! | in the line | a new column | other columns that take it |
//! | --- | --- | --- |
//! | tag | TEXT | VARCHAR(n) |
//! | float | DOUBLE | REAL |
//! | integer | BIGINT | other integers in their range, DOUBLE, REAL |
//! | unsigned integer | BIGINT UNSIGNED | other integers in their range, DOUBLE, REAL |
//! | timestamp | TIMESTAMP | TIMESTAMP of other precision or with time zone |
//! | string | TEXT | VARCHAR(n) |
//! | boolean | BOOLEAN | |

use std::sync::Arc;

use rowmill::arrow::array::types::{Float64Type, Int64Type, UInt64Type};
use rowmill::arrow::array::{
    ArrayBuilder, ArrayRef, ArrowPrimitiveType, BooleanBuilder, NullBufferBuilder, PrimitiveArray, StringViewBuilder,
    new_null_array,
};
use rowmill::arrow::compute::cast;
use rowmill::arrow::datatypes::{DataType, TimeUnit as ArrowUnit};
use rowmill::{Error, Result, SqlType, TableColumn, TimeUnit};

use super::point::{LineText, LineValue};
use super::precision::in_unit;
use crate::sql_words::quoted_name;

/// A column of a table, with its values so far.
pub(super) struct LineColumn {
    pub(super) name: String,
    kind: SqlType,
    is_nullable: bool,
    /// Whether the table must get the column before the next batch.
    pub(super) is_new: bool,
    /// The number of the last line that had a value for the column. It finds a column that a line names twice.
    pub(super) last_line: u64,
    values: GatheredValues,
}

/// The values of a column. It may have fewer values than the table has rows: we add NULLs when the next value comes, so
/// that a line costs nothing for columns that it does not name.
enum GatheredValues {
    Boolean(BooleanBuilder),
    /// Integers with a type of at most 64 bits with sign: the least and the greatest.
    Integer(GatheredNumbers<Int64Type>, i64, i64),
    Unsigned(GatheredNumbers<UInt64Type>),
    Float(GatheredNumbers<Float64Type>),
    Text(StringViewBuilder, Option<u32>),
    /// Times in a unit.
    Time(GatheredNumbers<Int64Type>, TimeUnit),
    /// A type that no value of a line has. The column gets NULL.
    None,
}

/// Numbers with NULLs. Arrow's builder is a call for each value.
struct GatheredNumbers<T: ArrowPrimitiveType> {
    values: Vec<T::Native>,
    nulls: NullBufferBuilder,
}

impl<T: ArrowPrimitiveType> GatheredNumbers<T> {
    /// Numbers without room, because a short line with many new columns must not take megabytes.
    fn new() -> Self {
        GatheredNumbers { values: Vec::new(), nulls: NullBufferBuilder::new(0) }
    }

    #[inline]
    fn push(&mut self, value: T::Native) {
        self.values.push(value);
        self.nulls.append_non_null();
    }

    fn push_option(&mut self, value: Option<T::Native>) {
        self.values.push(value.unwrap_or_default());
        self.nulls.append(value.is_some());
    }

    /// Adds NULLs up to the row `row`.
    #[inline]
    fn pad(&mut self, row: usize) {
        if self.values.len() < row {
            self.nulls.append_n_nulls(row - self.values.len());
            self.values.resize(row, T::Native::default());
        }
    }

    fn finish(&mut self) -> PrimitiveArray<T> {
        PrimitiveArray::new(std::mem::take(&mut self.values).into(), self.nulls.finish())
    }
}

impl LineColumn {
    /// A column of the table as it is.
    pub(super) fn existing(column: TableColumn) -> LineColumn {
        let TableColumn { name, kind, is_nullable, .. } = column;
        let values = GatheredValues::of(&kind);
        LineColumn { name, kind, is_nullable, is_new: false, last_line: 0, values }
    }

    /// A column that the table does not have yet.
    pub(super) fn new(name: String, kind: SqlType) -> LineColumn {
        let values = GatheredValues::of(&kind);
        LineColumn { name, kind, is_nullable: true, is_new: true, last_line: 0, values }
    }

    pub(super) fn is_required(&self) -> bool {
        !self.is_nullable
    }

    pub(super) fn is_timestamp(&self) -> bool {
        matches!(self.values, GatheredValues::Time(..))
    }

    /// Checks that the column takes a value. Returns the reason if it does not.
    #[inline]
    pub(super) fn check(&self, value: &LineValue<'_>) -> Result<(), String> {
        let fits = match (&self.values, value) {
            (GatheredValues::Integer(_, least, greatest), LineValue::Integer(value)) => {
                (least..=greatest).contains(&value)
            }
            (GatheredValues::Integer(_, least, greatest), LineValue::Unsigned(value)) => {
                i64::try_from(*value).is_ok_and(|value| (*least..=*greatest).contains(&value))
            }
            (GatheredValues::Unsigned(_), LineValue::Integer(value)) => *value >= 0,
            (GatheredValues::Text(_, Some(chars_max)), LineValue::Text(text)) => {
                // Counting stops after the greatest length, because a text may be long.
                text.text().chars().nth(*chars_max as usize).is_none()
            }
            (GatheredValues::Time(_, unit), LineValue::Micros(value)) => {
                in_unit(i128::from(*value) * 1_000, *unit).is_some()
            }
            (GatheredValues::Boolean(_), LineValue::Boolean(_))
            | (GatheredValues::Unsigned(_), LineValue::Unsigned(_))
            | (GatheredValues::Text(..), LineValue::Text(_))
            | (GatheredValues::Float(_), LineValue::Float(_) | LineValue::Integer(_) | LineValue::Unsigned(_)) => {
                return Ok(());
            }
            _ => {
                let kind = value.kind_name();
                return Err(format!("column \"{}\" has the type {} and does not take {kind}", self.name, self.kind));
            }
        };
        match fits {
            true => Ok(()),
            false => Err(format!("the value of column \"{}\" is out of range for {}", self.name, self.kind)),
        }
    }

    /// Adds a value that [`LineColumn::check`] has passed, as the value of the row `row`.
    #[inline]
    pub(super) fn push(&mut self, row: usize, value: &LineValue<'_>) {
        self.values.pad(row);
        match (&mut self.values, value) {
            (GatheredValues::Boolean(values), LineValue::Boolean(value)) => values.append_value(*value),
            (GatheredValues::Integer(values, ..), LineValue::Integer(value)) => values.push(*value),
            (GatheredValues::Integer(values, ..), LineValue::Unsigned(value)) => {
                values.push_option(i64::try_from(*value).ok());
            }
            (GatheredValues::Unsigned(values), LineValue::Unsigned(value)) => values.push(*value),
            (GatheredValues::Unsigned(values), LineValue::Integer(value)) => {
                values.push_option(u64::try_from(*value).ok());
            }
            (GatheredValues::Float(values), LineValue::Float(value)) => values.push(*value),
            (GatheredValues::Float(values), LineValue::Integer(value)) => values.push(*value as f64),
            (GatheredValues::Float(values), LineValue::Unsigned(value)) => values.push(*value as f64),
            (GatheredValues::Text(values, _), LineValue::Text(text)) => push_text(values, *text),
            (GatheredValues::Time(values, unit), LineValue::Micros(value)) => {
                values.push_option(in_unit(i128::from(*value) * 1_000, *unit));
            }
            // `check` lets no other pair pass. The row would get NULL when the next value or the end of the batch
            // comes.
            _ => {}
        }
    }

    /// Checks that a text fits, as [`LineColumn::check`] does for the value of a tag.
    #[inline]
    pub(super) fn check_tag(&self, text: LineText<'_>) -> Result<(), String> {
        match &self.values {
            GatheredValues::Text(_, None) => Ok(()),
            GatheredValues::Text(_, Some(chars_max)) => match text.text().chars().nth(*chars_max as usize) {
                None => Ok(()),
                Some(_) => Err(format!("the value of column \"{}\" is too long for {}", self.name, self.kind)),
            },
            _ => Err(format!("column \"{}\" has the type {} and does not take a tag", self.name, self.kind)),
        }
    }

    /// Adds the value of a tag as the value of the row `row`.
    #[inline]
    pub(super) fn push_tag(&mut self, row: usize, text: LineText<'_>) {
        self.values.pad(row);
        if let GatheredValues::Text(values, _) = &mut self.values {
            push_text(values, text);
        }
    }

    /// Returns a time in the unit of this column, or `None` if it does not fit.
    pub(super) fn time(&self, nanoseconds: i128) -> Option<i64> {
        match &self.values {
            GatheredValues::Time(_, unit) => in_unit(nanoseconds, *unit),
            _ => None,
        }
    }

    /// Adds a time that [`LineColumn::time`] returned.
    pub(super) fn push_time(&mut self, row: usize, time: i64) {
        self.values.pad(row);
        if let GatheredValues::Time(values, _) = &mut self.values {
            values.push(time);
        }
    }

    /// The column as a part of `CREATE TABLE` or `ALTER TABLE ADD COLUMN`.
    pub(super) fn definition(&self) -> String {
        format!("{} {}", quoted_name(&self.name), self.kind)
    }

    /// Takes the values of `rows` rows.
    pub(super) fn take(&mut self, rows: usize) -> Result<ArrayRef> {
        self.values.pad(rows);
        Ok(match &mut self.values {
            GatheredValues::Boolean(values) => Arc::new(values.finish()),
            GatheredValues::Integer(values, ..) => Arc::new(values.finish()),
            GatheredValues::Unsigned(values) => Arc::new(values.finish()),
            GatheredValues::Float(values) => Arc::new(values.finish()),
            GatheredValues::Text(values, _) => Arc::new(values.finish()),
            GatheredValues::Time(values, unit) => {
                let unit = match unit {
                    TimeUnit::Second => ArrowUnit::Second,
                    TimeUnit::Millisecond => ArrowUnit::Millisecond,
                    TimeUnit::Microsecond => ArrowUnit::Microsecond,
                    TimeUnit::Nanosecond => ArrowUnit::Nanosecond,
                };
                let times = cast(&values.finish(), &DataType::Timestamp(unit, None));
                times.map_err(|error| Error::internal(format!("times of lines: {error}")))?
            }
            GatheredValues::None => new_null_array(&self.kind.arrow(), rows),
        })
    }
}

impl GatheredValues {
    fn of(kind: &SqlType) -> GatheredValues {
        // The builders begin without room, because Arrow's default of 1,024 values would let a short line with many new
        // columns take megabytes.
        let integer = |least, greatest| GatheredValues::Integer(GatheredNumbers::new(), least, greatest);
        match kind {
            SqlType::Boolean => GatheredValues::Boolean(BooleanBuilder::with_capacity(0)),
            SqlType::Int8 => integer(i8::MIN.into(), i8::MAX.into()),
            SqlType::Int16 => integer(i16::MIN.into(), i16::MAX.into()),
            SqlType::Int32 => integer(i32::MIN.into(), i32::MAX.into()),
            SqlType::Int64 => integer(i64::MIN, i64::MAX),
            SqlType::UInt8 => integer(0, u8::MAX.into()),
            SqlType::UInt16 => integer(0, u16::MAX.into()),
            SqlType::UInt32 => integer(0, u32::MAX.into()),
            SqlType::UInt64 => GatheredValues::Unsigned(GatheredNumbers::new()),
            SqlType::Float32 | SqlType::Float64 => GatheredValues::Float(GatheredNumbers::new()),
            SqlType::Text { chars_max } => GatheredValues::Text(StringViewBuilder::with_capacity(0), *chars_max),
            SqlType::Timestamp { unit, .. } => GatheredValues::Time(GatheredNumbers::new(), *unit),
            SqlType::Date => GatheredValues::Time(GatheredNumbers::new(), TimeUnit::Microsecond),
            _ => GatheredValues::None,
        }
    }

    /// Adds NULLs up to the row `row`.
    #[inline]
    fn pad(&mut self, row: usize) {
        match self {
            GatheredValues::Boolean(values) => {
                let missing = row.saturating_sub(values.len());
                if missing > 0 {
                    values.append_nulls(missing);
                }
            }
            GatheredValues::Integer(values, ..) | GatheredValues::Time(values, _) => values.pad(row),
            GatheredValues::Unsigned(values) => values.pad(row),
            GatheredValues::Float(values) => values.pad(row),
            GatheredValues::Text(values, _) => (values.len()..row).for_each(|_| values.append_null()),
            GatheredValues::None => {}
        }
    }
}

#[inline]
fn push_text(values: &mut StringViewBuilder, text: LineText<'_>) {
    match text.plain() {
        Some(text) => values.append_value(text),
        None => values.append_value(text.text()),
    }
}
