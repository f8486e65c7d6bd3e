//! Builds a column of values that come one by one: of rows of an appender (`crate::row_builder`), and of results of
//! functions in Rust.
//!
//! A value goes directly into the Arrow builder of its column if it has the column's type. Any other value must mean
//! the same as in SQL. So we convert it as an array of one row, by the conversion that the caller chose.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayBuilder, ArrayRef, AsArray, BinaryViewBuilder, BooleanBuilder, FixedSizeBinaryBuilder,
    PrimitiveBuilder, StringViewBuilder, new_empty_array, new_null_array,
};
use arrow::compute::concat;
use arrow::datatypes::{
    Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    Time64MicrosecondType, TimestampMicrosecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use rowmill_base::{Error, ErrorKind, NARROW_DIGITS_MAX, Result, SqlType, TimeUnit};
use rowmill_files::convert::{NotConverted, convert};

use crate::assign::assign;
use crate::param::Param;

/// Whole numbers up to this size are doubles without loss.
const EXACT_DOUBLE_MAX: u64 = 1 << 53;

/// How a value of another type becomes a value of the column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Conversion {
    /// As an INSERT does it: a number is rounded to the digits of its column.
    Assign,
    /// Only if the value keeps its meaning. For example, 3.5 is no BIGINT.
    Exact,
}

/// Collects the values of one column.
#[derive(Debug)]
pub struct CellBuilder {
    name: String,
    kind: SqlType,
    is_nullable: bool,
    conversion: Conversion,
    values: CellValues,
}

#[derive(Debug)]
enum CellValues {
    Boolean(BooleanBuilder),
    Int8(PrimitiveBuilder<Int8Type>),
    Int16(PrimitiveBuilder<Int16Type>),
    Int32(PrimitiveBuilder<Int32Type>),
    Int64(PrimitiveBuilder<Int64Type>),
    UInt8(PrimitiveBuilder<UInt8Type>),
    UInt16(PrimitiveBuilder<UInt16Type>),
    UInt32(PrimitiveBuilder<UInt32Type>),
    UInt64(PrimitiveBuilder<UInt64Type>),
    Float32(PrimitiveBuilder<Float32Type>),
    Float64(PrimitiveBuilder<Float64Type>),
    /// Decimals, their digits, and how many of them come after the point.
    Decimal(PrimitiveBuilder<Decimal128Type>, u8, u8),
    Date(PrimitiveBuilder<Date32Type>),
    Time(PrimitiveBuilder<Time64MicrosecondType>),
    /// Timestamps of microseconds, and whether they have a time zone.
    Timestamp(PrimitiveBuilder<TimestampMicrosecondType>, bool),
    Text(StringViewBuilder, Option<u32>),
    Blob(BinaryViewBuilder),
    Uuid(FixedSizeBinaryBuilder),
    /// Values of other types, each an array.
    Other(Vec<ArrayRef>),
}

impl CellValues {
    fn new(kind: &SqlType) -> CellValues {
        match kind {
            SqlType::Boolean => CellValues::Boolean(BooleanBuilder::new()),
            SqlType::Int8 => CellValues::Int8(PrimitiveBuilder::new()),
            SqlType::Int16 => CellValues::Int16(PrimitiveBuilder::new()),
            SqlType::Int32 => CellValues::Int32(PrimitiveBuilder::new()),
            SqlType::Int64 => CellValues::Int64(PrimitiveBuilder::new()),
            SqlType::UInt8 => CellValues::UInt8(PrimitiveBuilder::new()),
            SqlType::UInt16 => CellValues::UInt16(PrimitiveBuilder::new()),
            SqlType::UInt32 => CellValues::UInt32(PrimitiveBuilder::new()),
            SqlType::UInt64 => CellValues::UInt64(PrimitiveBuilder::new()),
            SqlType::Float32 => CellValues::Float32(PrimitiveBuilder::new()),
            SqlType::Float64 => CellValues::Float64(PrimitiveBuilder::new()),
            SqlType::Decimal { precision: precision @ ..=NARROW_DIGITS_MAX, scale } => {
                CellValues::Decimal(PrimitiveBuilder::new().with_data_type(kind.arrow()), *precision, *scale)
            }
            SqlType::Date => CellValues::Date(PrimitiveBuilder::new()),
            SqlType::Time => CellValues::Time(PrimitiveBuilder::new()),
            SqlType::Timestamp { unit: TimeUnit::Microsecond, zoned } => {
                CellValues::Timestamp(PrimitiveBuilder::new().with_data_type(kind.arrow()), *zoned)
            }
            SqlType::Text { chars_max } => CellValues::Text(StringViewBuilder::new(), *chars_max),
            SqlType::Blob => CellValues::Blob(BinaryViewBuilder::new()),
            SqlType::Uuid => CellValues::Uuid(FixedSizeBinaryBuilder::new(16)),
            _ => CellValues::Other(Vec::new()),
        }
    }
}

/// Runs `$body` with the builder of a primitive type. The further arms are for the other types.
macro_rules! with_primitive {
    ($values:expr, $builder:ident => $body:expr, $($others:tt)*) => {
        match $values {
            CellValues::Int8($builder) => $body,
            CellValues::Int16($builder) => $body,
            CellValues::Int32($builder) => $body,
            CellValues::Int64($builder) => $body,
            CellValues::UInt8($builder) => $body,
            CellValues::UInt16($builder) => $body,
            CellValues::UInt32($builder) => $body,
            CellValues::UInt64($builder) => $body,
            CellValues::Float32($builder) => $body,
            CellValues::Float64($builder) => $body,
            CellValues::Decimal($builder, ..) => $body,
            CellValues::Date($builder) => $body,
            CellValues::Time($builder) => $body,
            CellValues::Timestamp($builder, _) => $body,
            $($others)*
        }
    };
}

impl CellBuilder {
    /// An empty builder of the column `name`.
    pub fn new(name: &str, kind: &SqlType, is_nullable: bool, conversion: Conversion) -> CellBuilder {
        let values = CellValues::new(kind);
        CellBuilder { name: name.to_owned(), kind: kind.clone(), is_nullable, conversion, values }
    }

    /// Appends a value. After an error the column is as it was before.
    #[inline]
    pub fn append(&mut self, value: Param<'_>) -> Result<()> {
        match (&mut self.values, value) {
            (_, Param::Null) => return self.append_null(),
            (CellValues::Int64(builder), Param::Integer(value)) => builder.append_value(value),
            (CellValues::Float64(builder), Param::Double(value)) => builder.append_value(value),
            (CellValues::Text(builder, None), Param::Text(value)) => builder.append_value(value),
            (CellValues::Int32(builder), Param::Integer(value)) if let Ok(value) = i32::try_from(value) => {
                builder.append_value(value);
            }
            (CellValues::Boolean(builder), Param::Boolean(value)) => builder.append_value(value),
            (CellValues::Timestamp(builder, false), Param::Timestamp(value))
            | (CellValues::Timestamp(builder, true), Param::Instant(value)) => builder.append_value(value),
            (CellValues::Date(builder), Param::Date(value)) => builder.append_value(value),
            (CellValues::Decimal(builder, precision, scale), Param::Decimal(digits, given))
                if given == *scale && digits.unsigned_abs() < 10_u128.pow((*precision).into()) =>
            {
                builder.append_value(digits);
            }
            (CellValues::Blob(builder), Param::Blob(value)) => builder.append_value(value),
            _ => return self.append_rare(value),
        }
        Ok(())
    }

    fn append_rare(&mut self, value: Param<'_>) -> Result<()> {
        match (&mut self.values, value) {
            (CellValues::Int8(builder), Param::Integer(value)) if let Ok(value) = i8::try_from(value) => {
                builder.append_value(value);
            }
            (CellValues::Int16(builder), Param::Integer(value)) if let Ok(value) = i16::try_from(value) => {
                builder.append_value(value);
            }
            (CellValues::UInt8(builder), Param::Integer(value)) if let Ok(value) = u8::try_from(value) => {
                builder.append_value(value);
            }
            (CellValues::UInt16(builder), Param::Integer(value)) if let Ok(value) = u16::try_from(value) => {
                builder.append_value(value);
            }
            (CellValues::UInt32(builder), Param::Integer(value)) if let Ok(value) = u32::try_from(value) => {
                builder.append_value(value);
            }
            (CellValues::UInt64(builder), Param::Integer(value)) if let Ok(value) = u64::try_from(value) => {
                builder.append_value(value);
            }
            (CellValues::UInt64(builder), Param::Decimal(value, 0)) if let Ok(value) = u64::try_from(value) => {
                builder.append_value(value);
            }
            (CellValues::Float32(builder), Param::Double(value)) if f64::from(value as f32) == value => {
                builder.append_value(value as f32);
            }
            (CellValues::Float64(builder), Param::Integer(value)) if value.unsigned_abs() <= EXACT_DOUBLE_MAX => {
                builder.append_value(value as f64);
            }
            (CellValues::Time(builder), Param::Time(value)) => builder.append_value(value),
            (CellValues::Uuid(builder), Param::Uuid(value)) => {
                builder.append_value(value).expect("a UUID has 16 bytes");
            }
            (CellValues::Text(builder, Some(chars_max)), Param::Text(value)) => {
                let chars = if value.len() <= *chars_max as usize { 0 } else { value.chars().count() };
                if chars > *chars_max as usize {
                    let what =
                        format!("a text of {chars} characters for column {}, which takes {chars_max}", self.name);
                    return Err(Error::new(ErrorKind::StringTooLong, what));
                }
                builder.append_value(value);
            }
            _ => return self.append_converted(value),
        }
        Ok(())
    }

    /// Appends a value of another type than the column's.
    fn append_converted(&mut self, value: Param<'_>) -> Result<()> {
        let constant = value.to_constant();
        if let (CellValues::Text(..), false) = (&self.values, matches!(value, Param::Text(_))) {
            let text = assign(constant.array(), &SqlType::TEXT, &self.name)?;
            return self.append(Param::Text(text.as_string_view().value(0)));
        }
        let array = converted(constant.array(), &self.kind, &self.name, self.conversion)?;
        if array.is_null(0) {
            return self.append_null();
        }
        with_primitive! {
            &mut self.values,
            builder => builder.append_array(array.as_primitive()),
            CellValues::Boolean(builder) => builder.append_value(array.as_boolean().value(0)),
            CellValues::Text(builder, _) => builder.append_value(array.as_string_view().value(0)),
            CellValues::Blob(builder) => builder.append_value(array.as_binary_view().value(0)),
            CellValues::Uuid(builder) => {
                builder.append_value(array.as_fixed_size_binary().value(0)).expect("a UUID has 16 bytes");
            }
            CellValues::Other(values) => values.push(array),
        }
        Ok(())
    }

    /// Appends NULL.
    pub fn append_null(&mut self) -> Result<()> {
        if !self.is_nullable {
            let what = format!("NULL in column \"{}\", which is NOT NULL", self.name);
            return Err(Error::new(ErrorKind::NotNullViolation, what));
        }
        with_primitive! {
            &mut self.values,
            builder => builder.append_null(),
            CellValues::Boolean(builder) => builder.append_null(),
            CellValues::Text(builder, _) => builder.append_null(),
            CellValues::Blob(builder) => builder.append_null(),
            CellValues::Uuid(builder) => builder.append_null(),
            CellValues::Other(values) => values.push(new_null_array(&self.kind.arrow(), 1)),
        }
        Ok(())
    }

    /// The array of all values. Leaves the builder empty.
    pub fn finish(&mut self) -> Result<ArrayRef> {
        Ok(with_primitive! {
            &mut self.values,
            builder => Arc::new(builder.finish()),
            CellValues::Boolean(builder) => Arc::new(builder.finish()),
            CellValues::Text(builder, _) => Arc::new(builder.finish()),
            CellValues::Blob(builder) => Arc::new(builder.finish()),
            CellValues::Uuid(builder) => Arc::new(ArrayBuilder::finish(builder).as_fixed_size_binary().clone()),
            CellValues::Other(values) if values.is_empty() => new_empty_array(&self.kind.arrow()),
            CellValues::Other(values) => {
                let values = std::mem::take(values);
                let parts: Vec<&dyn Array> = values.iter().map(AsRef::as_ref).collect();
                concat(&parts).map_err(|error| Error::internal(format!("values have one type: {error}")))?
            }
        })
    }
}

/// Converts an array to the type of the column `name`.
pub fn converted(values: &ArrayRef, kind: &SqlType, name: &str, conversion: Conversion) -> Result<ArrayRef> {
    if conversion == Conversion::Assign {
        return assign(values, kind, name);
    }
    if *values.data_type() == kind.arrow() {
        return Ok(Arc::clone(values));
    }
    convert(values, kind).map_err(|error| {
        let (row, found) = match error {
            NotConverted::Value(misfit) => (Some(misfit.row), format!("'{}' is not such a value", misfit.text)),
            NotConverted::Types => (None, format!("it has no values of the type {}", values.data_type())),
        };
        let row = row.filter(|_| values.len() > 1).map(|row| format!("row {row}: ")).unwrap_or_default();
        let what = format!("{row}column \"{name}\" takes {kind}: {found}");
        Error::new(ErrorKind::DatatypeMismatch, what)
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use rowmill_expr::text::writer::format_value;

    use super::*;

    fn texts(kind: SqlType, conversion: Conversion, values: &[Param<'_>]) -> Result<Vec<String>> {
        let mut builder = CellBuilder::new("c", &kind, true, conversion);
        values.iter().try_for_each(|value| builder.append(*value))?;
        let array = builder.finish()?;
        assert_eq!((array.data_type(), array.len()), (&kind.arrow(), values.len()));
        (0..array.len()).map(|row| Ok(format_value(&array, row)?.unwrap_or("NULL".into()))).collect()
    }

    #[test]
    fn values_of_other_types_are_converted_between_those_of_the_column() {
        let day = [Param::Date(0), Param::Text("2024-02-29"), Param::Null, Param::Timestamp(86_400_000_000)];
        assert_eq!(
            texts(SqlType::Date, Conversion::Exact, &day).unwrap(),
            ["1970-01-01", "2024-02-29", "NULL", "1970-01-02"]
        );
        let money = SqlType::Decimal { precision: 5, scale: 2 };
        let values = [Param::Decimal(150, 2), Param::Integer(3), Param::Text("-1.25"), Param::Double(0.5)];
        assert_eq!(texts(money.clone(), Conversion::Exact, &values).unwrap(), ["1.50", "3.00", "-1.25", "0.50"]);
        assert!(texts(money, Conversion::Exact, &[Param::Decimal(100_000, 2)]).is_err());
        let list = SqlType::List(Box::new(SqlType::Int64));
        let values = [Param::Text("[1, null]"), Param::Null];
        assert_eq!(texts(list, Conversion::Exact, &values).unwrap(), ["[1, null]", "NULL"]);
        let name = SqlType::Text { chars_max: Some(3) };
        assert_eq!(texts(name.clone(), Conversion::Exact, &[Param::Integer(120)]).unwrap(), ["120"]);
        assert!(texts(name, Conversion::Exact, &[Param::Integer(1200)]).is_err());
    }

    #[test]
    fn only_assignment_rounds() {
        assert_eq!(texts(SqlType::Int64, Conversion::Assign, &[Param::Double(2.5)]).unwrap(), ["2"]);
        let error = texts(SqlType::Int64, Conversion::Exact, &[Param::Double(2.5)]).unwrap_err();
        assert!(error.message().contains("\"c\"") && error.message().contains("BIGINT"), "{error}");
        assert!(texts(SqlType::Int8, Conversion::Exact, &[Param::Integer(128)]).is_err());
    }
}
