//! One value of a result, where it is stored.

use std::fmt;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Decimal256Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type,
    Int64Type, Time64MicrosecondType, TimeUnit as ArrowUnit, TimestampMicrosecondType, TimestampMillisecondType,
    TimestampNanosecondType, TimestampSecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type, i256,
};
use rowmill_base::{Error, ErrorKind, Result, SqlType, is_json};
use rowmill_expr::text::writer::format_value;

/// Texts in errors have at most this number of characters.
const SHOWN_CHARS_MAX: usize = 40;

/// A value of a result. It is read from the column of its batch without a copy.
#[derive(Clone, Copy, Debug)]
pub struct CellRef<'r> {
    column: &'r ArrayRef,
    row: usize,
}

/// A number of any type.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum AnyNumber {
    Whole(i128),
    Double(f64),
    /// All digits, and how many of them come after the point.
    Decimal(i128, u8),
    WideDecimal(i256, u8),
}

impl<'r> CellRef<'r> {
    /// The value in a row of a column.
    pub fn new(column: &'r ArrayRef, row: usize) -> CellRef<'r> {
        CellRef { column, row }
    }

    /// The column of the batch.
    pub fn column(self) -> &'r ArrayRef {
        self.column
    }

    /// The row in the column.
    pub fn row(self) -> usize {
        self.row
    }

    /// Whether the value is NULL.
    pub fn is_null(self) -> bool {
        self.column.is_null(self.row) || self.column.data_type().is_null()
    }

    /// The type of the column.
    pub fn kind(self) -> SqlType {
        SqlType::from_arrow(self.column.data_type()).unwrap_or(SqlType::TEXT)
    }

    /// The value as SQL writes it, or `None` for NULL.
    pub fn to_text(self) -> Result<Option<String>> {
        format_value(self.column, self.row)
    }

    pub(crate) fn number(self) -> Option<AnyNumber> {
        let (column, row) = (self.column, self.row);
        Some(match column.data_type() {
            DataType::Int64 => AnyNumber::Whole(column.as_primitive::<Int64Type>().value(row).into()),
            DataType::Int32 => AnyNumber::Whole(column.as_primitive::<Int32Type>().value(row).into()),
            DataType::Int16 => AnyNumber::Whole(column.as_primitive::<Int16Type>().value(row).into()),
            DataType::Int8 => AnyNumber::Whole(column.as_primitive::<Int8Type>().value(row).into()),
            DataType::UInt64 => AnyNumber::Whole(column.as_primitive::<UInt64Type>().value(row).into()),
            DataType::UInt32 => AnyNumber::Whole(column.as_primitive::<UInt32Type>().value(row).into()),
            DataType::UInt16 => AnyNumber::Whole(column.as_primitive::<UInt16Type>().value(row).into()),
            DataType::UInt8 => AnyNumber::Whole(column.as_primitive::<UInt8Type>().value(row).into()),
            DataType::Float64 => AnyNumber::Double(column.as_primitive::<Float64Type>().value(row)),
            DataType::Float32 => AnyNumber::Double(column.as_primitive::<Float32Type>().value(row).into()),
            DataType::Decimal128(_, scale @ 0..) => {
                AnyNumber::Decimal(column.as_primitive::<Decimal128Type>().value(row), *scale as u8)
            }
            DataType::Decimal256(_, scale @ 0..) => {
                let digits = column.as_primitive::<Decimal256Type>().value(row);
                match digits.to_i128() {
                    Some(digits) => AnyNumber::Decimal(digits, *scale as u8),
                    None => AnyNumber::WideDecimal(digits, *scale as u8),
                }
            }
            _ => return None,
        })
    }

    /// The days of a date, the microseconds of a time, or the units of a timestamp, since 1970 or midnight.
    pub(crate) fn time_units(self) -> Option<i64> {
        let (column, row) = (self.column, self.row);
        Some(match column.data_type() {
            DataType::Date32 => column.as_primitive::<Date32Type>().value(row).into(),
            DataType::Time64(ArrowUnit::Microsecond) => column.as_primitive::<Time64MicrosecondType>().value(row),
            DataType::Timestamp(ArrowUnit::Second, _) => column.as_primitive::<TimestampSecondType>().value(row),
            DataType::Timestamp(ArrowUnit::Millisecond, _) => {
                column.as_primitive::<TimestampMillisecondType>().value(row)
            }
            DataType::Timestamp(ArrowUnit::Microsecond, _) => {
                column.as_primitive::<TimestampMicrosecondType>().value(row)
            }
            DataType::Timestamp(ArrowUnit::Nanosecond, _) => {
                column.as_primitive::<TimestampNanosecondType>().value(row)
            }
            _ => return None,
        })
    }

    /// The nanoseconds since 1970 of a timestamp with or without a time zone.
    #[cfg(any(feature = "chrono", test))]
    pub(crate) fn timestamp_nanos(self, zoned: bool) -> Option<i128> {
        let DataType::Timestamp(unit, zone) = self.column.data_type() else { return None };
        let nanos = match unit {
            ArrowUnit::Second => 1_000_000_000,
            ArrowUnit::Millisecond => 1_000_000,
            ArrowUnit::Microsecond => 1_000,
            ArrowUnit::Nanosecond => 1,
        };
        (zone.is_some() == zoned).then(|| self.time_units().map(|units| i128::from(units) * nanos)).flatten()
    }

    pub(crate) fn boolean(self) -> Option<bool> {
        self.column.as_boolean_opt().map(|values| values.value(self.row))
    }

    pub(crate) fn text(self) -> Option<&'r str> {
        match self.column.data_type() {
            DataType::Utf8View => Some(self.column.as_string_view().value(self.row)),
            DataType::Utf8 => Some(self.column.as_string::<i32>().value(self.row)),
            DataType::LargeUtf8 => Some(self.column.as_string::<i64>().value(self.row)),
            kind if is_json(kind) => Some(self.column.as_struct().column(0).as_string_view().value(self.row)),
            _ => None,
        }
    }

    pub(crate) fn bytes(self) -> Option<&'r [u8]> {
        match self.column.data_type() {
            DataType::BinaryView => Some(self.column.as_binary_view().value(self.row)),
            DataType::Binary => Some(self.column.as_binary::<i32>().value(self.row)),
            DataType::LargeBinary => Some(self.column.as_binary::<i64>().value(self.row)),
            DataType::FixedSizeBinary(_) => Some(self.column.as_fixed_size_binary().value(self.row)),
            _ => None,
        }
    }

    /// The items of a list.
    pub(crate) fn items(self) -> Option<impl ExactSizeIterator<Item = CellRef<'r>>> {
        let list = self.column.as_list_opt::<i32>()?;
        let (from, to) = (list.value_offsets()[self.row] as usize, list.value_offsets()[self.row + 1] as usize);
        Some((from..to).map(|row| CellRef::new(list.values(), row)))
    }

    /// The error for a value that cannot be read as `wanted`.
    #[cold]
    pub(crate) fn refused(self, wanted: impl fmt::Display) -> Error {
        if self.is_null() {
            return Error::new(ErrorKind::DatatypeMismatch, format!("NULL cannot be read as {wanted}"))
                .hint(format!("read it as Option<{wanted}>"));
        }
        let text = self.to_text().ok().flatten().unwrap_or_default();
        let mut shown: String = text.chars().take(SHOWN_CHARS_MAX).collect();
        if shown.len() < text.len() {
            shown.push_str("...");
        }
        let what = format!("the value {shown} of the type {} cannot be read as {wanted}", self.kind());
        let error = Error::new(ErrorKind::DatatypeMismatch, what);
        match self.number() {
            Some(AnyNumber::Decimal(..) | AnyNumber::WideDecimal(..)) => error.hint("read it as a Decimal or a String"),
            Some(AnyNumber::Whole(_)) => error.hint("read it as a larger type, such as i64 or i128"),
            _ => error,
        }
    }
}
