//! One column of a batch, resolved once: how each of its values is written, as text and in binary.

use std::sync::Arc;

use bytes::BufMut;
use rowmill::arrow::array::{
    Array, ArrayRef, AsArray, BinaryViewArray, BooleanArray, FixedSizeBinaryArray, PrimitiveArray, StringViewArray,
    StringViewBuilder,
};
use rowmill::arrow::buffer::NullBuffer;
use rowmill::arrow::compute::cast;
use rowmill::arrow::datatypes::{
    DataType, Date32Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, IntervalMonthDayNano,
    IntervalMonthDayNanoType, IntervalUnit, Time64MicrosecondType, TimeUnit, TimestampMicrosecondType,
    TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType, UInt8Type, UInt16Type, UInt32Type,
};
use rowmill::pg_types::{PgScalar, PgType};
use rowmill::text::TextColumn;
use rowmill::{Error, Result, SqlType};

use super::array::ListColumn;
use super::numeric::put_numeric;
use super::{WireFormat, put_length};

/// Days from 1970-01-01 to 2000-01-01, from which PostgreSQL counts.
pub(crate) const EPOCH_DAYS: i32 = 10_957;
/// Microseconds from 1970-01-01 to 2000-01-01.
pub(crate) const EPOCH_MICROS: i64 = EPOCH_DAYS as i64 * 86_400_000_000;

/// The characters of numbers, times, booleans and UUIDs.
pub(super) fn is_plain_character(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"+-.: ".contains(&byte)
}

/// A column of a batch.
pub(super) struct CellColumn<'a> {
    nulls: Option<NullBuffer>,
    values: CellValues<'a>,
    /// Writes the texts of the types that have no short way.
    text: Option<TextColumn<'a>>,
}

/// The array of a column, by the way its values are written.
enum CellValues<'a> {
    Null,
    Bool(&'a BooleanArray),
    Int8(&'a [i8]),
    Int16(&'a [i16]),
    Int32(&'a [i32]),
    Int64(&'a [i64]),
    UInt8(&'a [u8]),
    UInt16(&'a [u16]),
    UInt32(&'a [u32]),
    Float32(&'a [f32]),
    Float64(&'a [f64]),
    /// Decimals, and whole numbers of 64 bits without a sign.
    Numeric,
    Date(&'a [i32]),
    Time(&'a [i64]),
    Timestamp(&'a [i64], TimeUnit),
    Interval(&'a [IntervalMonthDayNano]),
    /// Numbers of objects.
    Oid(&'a [i64]),
    Text(&'a StringViewArray),
    /// Texts of one byte.
    Char(&'a StringViewArray),
    Blob(&'a BinaryViewArray),
    Uuid(&'a FixedSizeBinaryArray),
    List(ListColumn<'a>),
    /// Values whose binary form is their text.
    Other,
}

/// The type in which [`CellColumn`] reads values of this type.
fn canonical_type(kind: &DataType) -> Option<DataType> {
    match (kind, SqlType::from_arrow(kind)) {
        (DataType::Null, _) | (_, None) | (DataType::List(_) | DataType::Struct(_) | DataType::Timestamp(..), _) => {
            None
        }
        (DataType::Map(..), _) => Some(DataType::Utf8View),
        (_, Some(own)) => Some(own.arrow()).filter(|wanted| wanted != kind),
    }
}

/// Whether [`CellColumn`] reads arrays of this type as they are.
pub(crate) fn is_canonical(kind: &DataType) -> bool {
    canonical_type(kind).is_none()
}

/// An array in the form in which [`CellColumn`] reads it.
pub(crate) fn canonical(array: &ArrayRef) -> Result<ArrayRef> {
    let Some(wanted) = canonical_type(array.data_type()) else { return Ok(array.clone()) };
    if let DataType::Map(..) = array.data_type() {
        return documents(array);
    }
    cast(array, &wanted).map_err(|error| Error::internal(format!("a result cannot be sent: {error}")))
}

/// Returns maps as JSON objects, because PostgreSQL has no maps.
fn documents(maps: &ArrayRef) -> Result<ArrayRef> {
    let column = TextColumn::new(maps)?;
    let mut texts = StringViewBuilder::with_capacity(maps.len());
    let mut text = String::new();
    for row in 0..maps.len() {
        text.clear();
        column.write_json(row, &mut text);
        texts.append_option(maps.is_valid(row).then_some(&text));
    }
    Ok(Arc::new(texts.finish()))
}

impl<'a> CellColumn<'a> {
    /// Resolves the type of `array`, which must be canonical.
    pub(super) fn new(array: &'a dyn Array) -> Result<CellColumn<'a>> {
        let values = CellValues::new(array)?;
        let text = match &values {
            CellValues::Null
            | CellValues::Bool(_)
            | CellValues::Int8(_)
            | CellValues::Int16(_)
            | CellValues::Int32(_)
            | CellValues::Int64(_)
            | CellValues::UInt8(_)
            | CellValues::UInt16(_)
            | CellValues::UInt32(_)
            | CellValues::Text(_)
            | CellValues::List(_) => None,
            _ => Some(TextColumn::new(array)?),
        };
        Ok(CellColumn { nulls: array.logical_nulls(), values, text })
    }

    /// The column with the type that the client was told, which the type of the array may not tell.
    pub(super) fn declared(mut self, kind: PgType) -> CellColumn<'a> {
        self.values = match (kind.scalar, kind.is_array, self.values) {
            (PgScalar::Oid, false, CellValues::Int64(values)) => CellValues::Oid(values),
            (PgScalar::Char, false, CellValues::Text(values)) => CellValues::Char(values),
            (PgScalar::Int2vector, false, CellValues::List(list)) => {
                CellValues::List(list.declared(PgScalar::Int2, true))
            }
            (PgScalar::Oidvector, false, CellValues::List(list)) => {
                CellValues::List(list.declared(PgScalar::Oid, true))
            }
            (item @ (PgScalar::Oid | PgScalar::Name), true, CellValues::List(list)) => {
                CellValues::List(list.declared(item, false))
            }
            (_, _, values) => values,
        };
        self
    }

    pub(super) fn is_null(&self, row: usize) -> bool {
        matches!(self.values, CellValues::Null) || self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row))
    }

    /// Whether the texts of the values have no other characters than [`is_plain_character`] takes.
    pub(super) fn is_plain(&self) -> bool {
        match &self.values {
            CellValues::Null
            | CellValues::Bool(_)
            | CellValues::Int8(_)
            | CellValues::Int16(_)
            | CellValues::Int32(_)
            | CellValues::Int64(_)
            | CellValues::UInt8(_)
            | CellValues::UInt16(_)
            | CellValues::UInt32(_)
            | CellValues::Float32(_)
            | CellValues::Float64(_)
            | CellValues::Numeric
            | CellValues::Date(_)
            | CellValues::Time(_)
            | CellValues::Timestamp(..)
            | CellValues::Oid(_)
            | CellValues::Uuid(_) => true,
            CellValues::Interval(_)
            | CellValues::Text(_)
            | CellValues::Char(_)
            | CellValues::Blob(_)
            | CellValues::List(_)
            | CellValues::Other => false,
        }
    }

    pub(super) fn has_nulls(&self) -> bool {
        matches!(self.values, CellValues::Null) || self.nulls.as_ref().is_some_and(|nulls| nulls.null_count() > 0)
    }

    /// Appends the value of a row after its length, or the mark of NULL.
    #[inline]
    pub(super) fn write_with_length(&self, row: usize, format: WireFormat, out: &mut Vec<u8>, scratch: &mut String) {
        if self.is_null(row) {
            out.put_i32(-1);
            return;
        }
        let length_at = out.len();
        out.put_u32(0);
        match format {
            WireFormat::Text => self.write_text(row, out, scratch),
            WireFormat::Binary => self.write_binary(row, out, scratch),
        }
        put_length(out, length_at, length_at + 4);
    }

    /// Appends the text of a value that is not NULL.
    pub(super) fn write_text(&self, row: usize, out: &mut Vec<u8>, scratch: &mut String) {
        match &self.values {
            CellValues::Null => {}
            CellValues::Bool(values) => out.put_u8(if values.value(row) { b't' } else { b'f' }),
            CellValues::Int8(values) => put_integer(values[row], out),
            CellValues::Int16(values) => put_integer(values[row], out),
            CellValues::Int32(values) => put_integer(values[row], out),
            CellValues::Int64(values) | CellValues::Oid(values) => put_integer(values[row], out),
            CellValues::UInt8(values) => put_integer(values[row], out),
            CellValues::UInt16(values) => put_integer(values[row], out),
            CellValues::UInt32(values) => put_integer(values[row], out),
            CellValues::Text(values) | CellValues::Char(values) => out.put_slice(values.value(row).as_bytes()),
            CellValues::List(list) => list.write_text(row, out, scratch),
            CellValues::Float32(values) => self.put_float_text(values[row].into(), row, out, scratch),
            CellValues::Float64(values) => self.put_float_text(values[row], row, out, scratch),
            _ => out.put_slice(self.text_of(row, scratch).as_bytes()),
        }
    }

    fn text_of<'s>(&self, row: usize, scratch: &'s mut String) -> &'s str {
        scratch.clear();
        let text = self.text.as_ref().expect("a type without a short way to its text has a writer");
        text.write(row, scratch);
        scratch
    }

    /// PostgreSQL writes whole floats without `.0`, and infinity as a word.
    fn put_float_text(&self, value: f64, row: usize, out: &mut Vec<u8>, scratch: &mut String) {
        if value.is_infinite() {
            return out.put_slice(if value > 0.0 { b"Infinity" } else { b"-Infinity" });
        }
        let text = self.text_of(row, scratch);
        out.put_slice(text.strip_suffix(".0").unwrap_or(text).as_bytes());
    }

    /// Appends the binary form of a value that is not NULL.
    pub(super) fn write_binary(&self, row: usize, out: &mut Vec<u8>, scratch: &mut String) {
        match &self.values {
            CellValues::Null => {}
            CellValues::Bool(values) => out.put_u8(u8::from(values.value(row))),
            CellValues::Int8(values) => out.put_i16(values[row].into()),
            CellValues::UInt8(values) => out.put_i16(values[row].into()),
            CellValues::Int16(values) => out.put_i16(values[row]),
            CellValues::Int32(values) => out.put_i32(values[row]),
            CellValues::UInt16(values) => out.put_i32(values[row].into()),
            CellValues::Int64(values) => out.put_i64(values[row]),
            CellValues::Oid(values) => out.put_u32(values[row] as u32),
            // An empty one is a zero byte.
            CellValues::Char(values) => out.put_u8(values.value(row).bytes().next().unwrap_or(0)),
            CellValues::UInt32(values) => out.put_i64(values[row].into()),
            CellValues::Float32(values) => out.put_f32(values[row]),
            CellValues::Float64(values) => out.put_f64(values[row]),
            CellValues::Numeric => put_numeric(self.text_of(row, scratch), out),
            CellValues::Date(values) => out.put_i32(values[row].saturating_sub(EPOCH_DAYS)),
            CellValues::Time(values) => out.put_i64(values[row]),
            CellValues::Timestamp(values, unit) => out.put_i64(micros_since_2000(values[row], *unit)),
            CellValues::Interval(values) => {
                let value = values[row];
                out.put_i64(value.nanoseconds / 1_000);
                out.put_i32(value.days);
                out.put_i32(value.months);
            }
            CellValues::Text(values) => out.put_slice(values.value(row).as_bytes()),
            CellValues::Blob(values) => out.put_slice(values.value(row)),
            CellValues::Uuid(values) => out.put_slice(values.value(row)),
            CellValues::List(list) => list.write_binary(row, out, scratch),
            CellValues::Other => out.put_slice(self.text_of(row, scratch).as_bytes()),
        }
    }
}

impl<'a> CellValues<'a> {
    fn new(array: &'a dyn Array) -> Result<CellValues<'a>> {
        Ok(match (array.data_type(), SqlType::from_arrow(array.data_type())) {
            (DataType::Null, _) => CellValues::Null,
            (DataType::Boolean, _) => CellValues::Bool(array.as_boolean()),
            (DataType::Int8, _) => CellValues::Int8(array.as_primitive::<Int8Type>().values()),
            (DataType::Int16, _) => CellValues::Int16(array.as_primitive::<Int16Type>().values()),
            (DataType::Int32, _) => CellValues::Int32(array.as_primitive::<Int32Type>().values()),
            (DataType::Int64, _) => CellValues::Int64(array.as_primitive::<Int64Type>().values()),
            (DataType::UInt8, _) => CellValues::UInt8(array.as_primitive::<UInt8Type>().values()),
            (DataType::UInt16, _) => CellValues::UInt16(array.as_primitive::<UInt16Type>().values()),
            (DataType::UInt32, _) => CellValues::UInt32(array.as_primitive::<UInt32Type>().values()),
            (DataType::Float32, _) => CellValues::Float32(array.as_primitive::<Float32Type>().values()),
            (DataType::Float64, _) => CellValues::Float64(array.as_primitive::<Float64Type>().values()),
            (DataType::UInt64, _) | (_, Some(SqlType::Decimal { .. })) => CellValues::Numeric,
            (DataType::Date32, _) => CellValues::Date(array.as_primitive::<Date32Type>().values()),
            (DataType::Time64(TimeUnit::Microsecond), _) => {
                CellValues::Time(array.as_primitive::<Time64MicrosecondType>().values())
            }
            (DataType::Timestamp(unit, _), _) => CellValues::Timestamp(timestamps(array, *unit), *unit),
            (DataType::Interval(IntervalUnit::MonthDayNano), _) => {
                let values: &PrimitiveArray<IntervalMonthDayNanoType> = array.as_primitive();
                CellValues::Interval(values.values())
            }
            (DataType::Utf8View, _) => CellValues::Text(array.as_string_view()),
            (DataType::BinaryView, _) => CellValues::Blob(array.as_binary_view()),
            (DataType::FixedSizeBinary(16), _) => CellValues::Uuid(array.as_fixed_size_binary()),
            (DataType::List(item), _) if !item.data_type().is_nested() => {
                CellValues::List(ListColumn::new(array.as_list())?)
            }
            _ => CellValues::Other,
        })
    }
}

fn timestamps(array: &dyn Array, unit: TimeUnit) -> &[i64] {
    match unit {
        TimeUnit::Second => array.as_primitive::<TimestampSecondType>().values(),
        TimeUnit::Millisecond => array.as_primitive::<TimestampMillisecondType>().values(),
        TimeUnit::Microsecond => array.as_primitive::<TimestampMicrosecondType>().values(),
        TimeUnit::Nanosecond => array.as_primitive::<TimestampNanosecondType>().values(),
    }
}

/// Converts a timestamp to microseconds since 2000. Nanoseconds are cut off. A value outside of PostgreSQL's range
/// becomes its first or last one, which PostgreSQL calls `-infinity` and `infinity`.
fn micros_since_2000(value: i64, unit: TimeUnit) -> i64 {
    let micros = match unit {
        TimeUnit::Second => value.saturating_mul(1_000_000),
        TimeUnit::Millisecond => value.saturating_mul(1_000),
        TimeUnit::Microsecond => value,
        TimeUnit::Nanosecond => value.div_euclid(1_000),
    };
    micros.saturating_sub(EPOCH_MICROS)
}

pub(super) fn put_integer(value: impl itoa::Integer, out: &mut impl BufMut) {
    out.put_slice(itoa::Buffer::new().format(value).as_bytes());
}
