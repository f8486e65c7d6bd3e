//! One value of a result, where it is stored.

use std::fmt;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Decimal256Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type,
    Int64Type, Time64MicrosecondType, TimeUnit as ArrowUnit, TimestampMicrosecondType, TimestampMillisecondType,
    TimestampNanosecondType, TimestampSecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type, i256,
};
use rowmill_base::{Error, ErrorKind, Physical, Result, SqlType, is_json};
use rowmill_expr::text::writer::format_value;
use rowmill_program::{ResultRows, array_of_value};
use rowmill_storage::keyed::ValueRef;

/// Texts in errors have at most this number of characters.
const SHOWN_CHARS_MAX: usize = 40;

/// A value of a result. It is read where it is stored, without a copy.
#[derive(Clone, Copy, Debug)]
pub struct CellRef<'r>(CellSource<'r>);

#[derive(Clone, Copy, Debug)]
enum CellSource<'r> {
    /// A row of a column of a batch.
    Column(&'r ArrayRef, usize),
    /// A value of a program, and the type of its column.
    Value(ValueRef<'r>, &'r SqlType),
}

/// Whether [`CellRef`] reads the values of a program of this type as they are. Values of all other types must become
/// columns of a batch first.
pub(crate) fn is_read_in_place(kind: &SqlType) -> bool {
    match kind {
        SqlType::Decimal { .. } => Physical::of(kind) == Physical::Decimal,
        SqlType::Interval | SqlType::Json | SqlType::Numbered(_) | SqlType::List(_) | SqlType::Struct(_) => false,
        _ => true,
    }
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
        CellRef(CellSource::Column(column, row))
    }

    /// The value in a row of a column of a program's rows. Both must exist, and the type must be
    /// [read in place](is_read_in_place).
    pub(crate) fn of_program(rows: &'r ResultRows, row: usize, column: usize) -> CellRef<'r> {
        CellRef(CellSource::Value(rows.get(row, column), &rows.kinds()[column]))
    }

    /// Whether the value is NULL.
    pub fn is_null(self) -> bool {
        match self.0 {
            CellSource::Column(column, row) => column.is_null(row) || column.data_type().is_null(),
            CellSource::Value(value, _) => value.is_null(),
        }
    }

    /// The type of the column.
    pub fn kind(self) -> SqlType {
        match self.0 {
            CellSource::Column(column, _) => SqlType::from_arrow(column.data_type()).unwrap_or(SqlType::TEXT),
            CellSource::Value(_, kind) => kind.clone(),
        }
    }

    /// The value as SQL writes it, or `None` for NULL.
    pub fn to_text(self) -> Result<Option<String>> {
        match self.0 {
            CellSource::Column(column, row) => format_value(column, row),
            CellSource::Value(ValueRef::Text(text), _) => Ok(Some(text.to_owned())),
            CellSource::Value(value, kind) => format_value(&array_of_value(kind, value)?, 0),
        }
    }

    pub(crate) fn number(self) -> Option<AnyNumber> {
        let (column, row) = match self.0 {
            CellSource::Column(column, row) => (column, row),
            CellSource::Value(value, kind) => {
                return match (value, kind) {
                    (ValueRef::Int(value), SqlType::Int8 | SqlType::Int16 | SqlType::Int32 | SqlType::Int64) => {
                        Some(AnyNumber::Whole(value.into()))
                    }
                    (ValueRef::UInt(value), _) => Some(AnyNumber::Whole(value.into())),
                    (ValueRef::Float(value), _) => Some(AnyNumber::Double(value)),
                    (ValueRef::Decimal(digits), SqlType::Decimal { scale, .. }) => {
                        Some(AnyNumber::Decimal(digits, *scale))
                    }
                    _ => None,
                };
            }
        };
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
        let (column, row) = match self.0 {
            CellSource::Column(column, row) => (column, row),
            CellSource::Value(ValueRef::Int(units), SqlType::Date | SqlType::Time | SqlType::Timestamp { .. }) => {
                return Some(units);
            }
            CellSource::Value(..) => return None,
        };
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
        let SqlType::Timestamp { unit, zoned: found } = self.kind() else { return None };
        (zoned == found)
            .then(|| self.time_units())
            .flatten()
            .map(|units| i128::from(units) * 10_i128.pow(9 - unit.digits()))
    }

    pub(crate) fn boolean(self) -> Option<bool> {
        match self.0 {
            CellSource::Column(column, row) => column.as_boolean_opt().map(|values| values.value(row)),
            CellSource::Value(ValueRef::Bool(value), _) => Some(value),
            CellSource::Value(..) => None,
        }
    }

    pub(crate) fn text(self) -> Option<&'r str> {
        let (column, row) = match self.0 {
            CellSource::Column(column, row) => (column, row),
            CellSource::Value(ValueRef::Text(text), _) => return Some(text),
            CellSource::Value(..) => return None,
        };
        match column.data_type() {
            DataType::Utf8View => Some(column.as_string_view().value(row)),
            DataType::Utf8 => Some(column.as_string::<i32>().value(row)),
            DataType::LargeUtf8 => Some(column.as_string::<i64>().value(row)),
            kind if is_json(kind) => Some(column.as_struct().column(0).as_string_view().value(row)),
            _ => None,
        }
    }

    pub(crate) fn bytes(self) -> Option<&'r [u8]> {
        let (column, row) = match self.0 {
            CellSource::Column(column, row) => (column, row),
            CellSource::Value(ValueRef::Bytes(bytes), _) => return Some(bytes),
            CellSource::Value(..) => return None,
        };
        match column.data_type() {
            DataType::BinaryView => Some(column.as_binary_view().value(row)),
            DataType::Binary => Some(column.as_binary::<i32>().value(row)),
            DataType::LargeBinary => Some(column.as_binary::<i64>().value(row)),
            DataType::FixedSizeBinary(_) => Some(column.as_fixed_size_binary().value(row)),
            _ => None,
        }
    }

    /// The items of a list.
    pub(crate) fn items(self) -> Option<impl ExactSizeIterator<Item = CellRef<'r>>> {
        let CellSource::Column(column, row) = self.0 else { return None };
        let list = column.as_list_opt::<i32>()?;
        let (from, to) = (list.value_offsets()[row] as usize, list.value_offsets()[row + 1] as usize);
        Some((from..to).map(|row| CellRef::new(list.values(), row)))
    }

    /// The fields of a struct, with their names.
    #[cfg(feature = "serde")]
    pub(crate) fn fields(self) -> Option<impl Iterator<Item = (&'r str, CellRef<'r>)>> {
        let CellSource::Column(column, row) = self.0 else { return None };
        let fields = column.as_struct_opt()?;
        let cells = fields.columns().iter().map(move |column| CellRef::new(column, row));
        Some(fields.column_names().into_iter().zip(cells))
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
