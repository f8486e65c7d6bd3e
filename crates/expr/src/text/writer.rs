//! Writes values as text: for CSV files, JSON lines and the shell's output.
//!
//! [`TextColumn`] looks at an Arrow array once and then writes any of its rows into the caller's `String`, without its
//! own allocation. [`super::reader`] must read every text back to the same value.
//!
//! | type | text |
//! | --- | --- |
//! | BOOLEAN | `true`, `false` |
//! | integers, DECIMAL | digits, all decimals of the scale |
//! | REAL, DOUBLE | the shortest digits that read back, with a point or an exponent: `1.0`, `1e300`, `NaN` |
//! | DATE, TIME, TIMESTAMP | `2013-07-31`, `12:30:45.5`, `2013-07-31 12:30:45.5`; with time zone followed by `+00` |
//! | INTERVAL | `1 year 2 mons -3 days 04:05:06.5` |
//! | BLOB, UUID | `\x00ff`, `550e8400-e29b-41d4-a716-446655440000` |
//! | numbered types | as their [`NumberedType`] writes them |
//! | JSON | the document as it was given, without white space around it |
//! | MAP | `{a=1, 'b,c'=NULL}` |
//! | lists, structs | JSON: `[1, null]`, `{"a": 1, "b": "x"}` |
//!
//! In JSON, numbers and booleans are written unchanged, and every other text is a string. The three floats for which
//! JSON has no number are strings too.

use std::fmt::Write;

use arrow::array::timezone::Tz;
use arrow::array::{
    Array, ArrayAccessor, AsArray, BinaryArray, BinaryViewArray, BooleanArray, FixedSizeBinaryArray,
    FixedSizeListArray, Float16Array, LargeBinaryArray, LargeStringArray, PrimitiveArray, StringArray, StringViewArray,
    StructArray,
};
use arrow::buffer::{NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow::datatypes::{
    ArrowPrimitiveType, DataType, Date32Type, Date64Type, Decimal32Type, Decimal64Type, Decimal128Type, Decimal256Type,
    DecimalType, Field, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, IntervalDayTimeType,
    IntervalMonthDayNano, IntervalMonthDayNanoType, IntervalUnit, IntervalYearMonthType, TimeUnit, UInt8Type,
    UInt16Type, UInt32Type, UInt64Type, i256,
};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use rowmill_base::{Error, NumberedNative, NumberedType, Result, WIDE_DIGITS_MAX, is_json, is_json_field, map_kinds};

use crate::functions::time::zone::{shown_at, zone_called};
use crate::text::calendar::{CivilDate, date_of_days, units_per_second};
use crate::text::map_text::write_part;
use crate::unscaled::{Unscaled, write_wide_digits};

/// Returns the text of the value in `row` of `array`, or `None` for NULL. [`TextColumn`] is faster for more than one
/// value of an array. Loops should use that.
pub fn format_value(array: &dyn Array, row: usize) -> Result<Option<String>> {
    let column = TextColumn::new(array)?;
    let mut text = String::new();
    Ok(column.write(row, &mut text).then_some(text))
}

/// An array whose values can be written as text, row by row.
pub struct TextColumn<'a> {
    nulls: Option<NullBuffer>,
    values: WrittenValues<'a>,
}

/// The array, by the way its values are written.
enum WrittenValues<'a> {
    Null,
    Boolean(&'a BooleanArray),
    Int8(&'a [i8]),
    Int16(&'a [i16]),
    Int32(&'a [i32]),
    Int64(&'a [i64]),
    UInt8(&'a [u8]),
    UInt16(&'a [u16]),
    UInt32(&'a [u32]),
    UInt64(&'a [u64]),
    Float16(&'a Float16Array),
    Float32(&'a [f32]),
    Float64(&'a [f64]),
    Decimal32(&'a [i32], i8),
    Decimal64(&'a [i64], i8),
    Decimal128(&'a [i128], i8),
    Decimal256(&'a [i256], i8),
    Days(&'a [i32]),
    Millis(&'a [i64]),
    Clock32(&'a [i32], i64),
    Clock64(&'a [i64], i64),
    Timestamp {
        values: ScalarBuffer<i64>,
        units_per_second: i64,
        zone: ShownZone,
    },
    Months(&'a [i32]),
    DayTime(&'a PrimitiveArray<IntervalDayTimeType>),
    MonthDayNano(&'a [IntervalMonthDayNano]),
    Duration(ScalarBuffer<i64>, i64),
    Text(&'a StringArray),
    LargeText(&'a LargeStringArray),
    TextView(&'a StringViewArray),
    Bytes(&'a BinaryArray),
    LargeBytes(&'a LargeBinaryArray),
    BytesView(&'a BinaryViewArray),
    Uuid(&'a FixedSizeBinaryArray),
    Numbered(&'a [i128], &'static NumberedType),
    WideNumbered(&'a [i256], &'static NumberedType),
    FixedBytes(&'a FixedSizeBinaryArray),
    List(&'a OffsetBuffer<i32>, Box<TextColumn<'a>>),
    /// The entries of maps: keys and values.
    Map(&'a OffsetBuffer<i32>, Box<(TextColumn<'a>, TextColumn<'a>)>),
    LargeList(&'a OffsetBuffer<i64>, Box<TextColumn<'a>>),
    FixedList(&'a FixedSizeListArray, Box<TextColumn<'a>>),
    /// The texts of JSON documents.
    Json(&'a StringViewArray),
    Struct(Vec<(&'a str, TextColumn<'a>)>),
    Dictionary(Vec<usize>, Box<TextColumn<'a>>),
    /// Arrow types that no SQL type uses (maps, unions, run ends), written as Arrow's own text.
    Other(ArrayFormatter<'a>),
}

impl<'a> TextColumn<'a> {
    /// Prepares `array` for writing. Returns an error for a type that has no text.
    pub fn new(array: &'a dyn Array) -> Result<TextColumn<'a>> {
        Ok(TextColumn { nulls: array.logical_nulls(), values: WrittenValues::new(array)? })
    }

    /// Prepares a column of a result, whose field tells whether its texts are JSON documents.
    pub fn of_field(field: &Field, array: &'a dyn Array) -> Result<TextColumn<'a>> {
        let mut column = TextColumn::new(array)?;
        if let WrittenValues::TextView(texts) = column.values
            && is_json_field(field)
        {
            column.values = WrittenValues::Json(texts);
        }
        Ok(column)
    }

    /// Whether the value in `row` is NULL.
    #[inline]
    pub fn is_null(&self, row: usize) -> bool {
        matches!(self.values, WrittenValues::Null) || self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row))
    }

    /// Appends the text of the value in `row` to `out`. Returns `false`, and appends nothing, for NULL.
    #[inline]
    pub fn write(&self, row: usize, out: &mut String) -> bool {
        if self.is_null(row) {
            return false;
        }
        self.values.write(row, out);
        true
    }

    /// Appends the value in `row` as JSON to `out`, `null` for NULL.
    pub fn write_json(&self, row: usize, out: &mut String) {
        if self.is_null(row) {
            out.push_str("null");
        } else if let WrittenValues::Map(offsets, entries) = &self.values {
            write_map_json(offsets[row] as usize..offsets[row + 1] as usize, entries, out);
        } else if self.values.is_json(row) {
            self.values.write(row, out);
        } else if let Some(text) = self.values.as_text(row) {
            write_json_string(text, out);
        } else if let WrittenValues::Dictionary(keys, values) = &self.values {
            values.write_json(keys[row], out);
        } else {
            // Of the characters that JSON escapes, these texts contain at most the backslash of a blob.
            let mut text = String::new();
            self.values.write(row, &mut text);
            write_json_string(&text, out);
        }
    }

    /// Whether the texts are numbers, which tables align to the right.
    pub fn is_number(&self) -> bool {
        match &self.values {
            WrittenValues::Dictionary(_, values) => values.is_number(),
            values => values.is_number(),
        }
    }
}

impl<'a> WrittenValues<'a> {
    fn new(array: &'a dyn Array) -> Result<WrittenValues<'a>> {
        Ok(match array.data_type() {
            DataType::Null => WrittenValues::Null,
            DataType::Boolean => WrittenValues::Boolean(array.as_boolean()),
            DataType::Int8 => WrittenValues::Int8(slice::<Int8Type>(array)),
            DataType::Int16 => WrittenValues::Int16(slice::<Int16Type>(array)),
            DataType::Int32 => WrittenValues::Int32(slice::<Int32Type>(array)),
            DataType::Int64 => WrittenValues::Int64(slice::<Int64Type>(array)),
            DataType::UInt8 => WrittenValues::UInt8(slice::<UInt8Type>(array)),
            DataType::UInt16 => WrittenValues::UInt16(slice::<UInt16Type>(array)),
            DataType::UInt32 => WrittenValues::UInt32(slice::<UInt32Type>(array)),
            DataType::UInt64 => WrittenValues::UInt64(slice::<UInt64Type>(array)),
            DataType::Float16 => WrittenValues::Float16(array.as_primitive()),
            DataType::Float32 => WrittenValues::Float32(slice::<Float32Type>(array)),
            DataType::Float64 => WrittenValues::Float64(slice::<Float64Type>(array)),
            DataType::Decimal32(_, scale) => WrittenValues::Decimal32(slice::<Decimal32Type>(array), *scale),
            DataType::Decimal64(_, scale) => WrittenValues::Decimal64(slice::<Decimal64Type>(array), *scale),
            kind if let Some(kind) = NumberedType::of_arrow(kind) => match kind.is_wide() {
                true => WrittenValues::WideNumbered(slice::<Decimal256Type>(array), kind),
                false => WrittenValues::Numbered(slice::<Decimal128Type>(array), kind),
            },
            DataType::Decimal128(_, scale) => WrittenValues::Decimal128(slice::<Decimal128Type>(array), *scale),
            DataType::Decimal256(_, scale) => WrittenValues::Decimal256(slice::<Decimal256Type>(array), *scale),
            DataType::Date32 => WrittenValues::Days(slice::<Date32Type>(array)),
            DataType::Date64 => WrittenValues::Millis(slice::<Date64Type>(array)),
            DataType::Time32(TimeUnit::Second) => WrittenValues::Clock32(raw_i32(array), 1),
            DataType::Time32(_) => WrittenValues::Clock32(raw_i32(array), 1_000),
            DataType::Time64(TimeUnit::Microsecond) => WrittenValues::Clock64(raw_i64(array), 1_000_000),
            DataType::Time64(_) => WrittenValues::Clock64(raw_i64(array), 1_000_000_000),
            DataType::Timestamp(unit, zone) => WrittenValues::Timestamp {
                values: raw_buffer(array),
                units_per_second: units_per_second(*unit),
                zone: match zone.as_deref() {
                    None => ShownZone::Local,
                    Some(zone) => zone_called(zone).map_or(ShownZone::Utc, |named| ShownZone::of(zone, named)),
                },
            },
            DataType::Duration(unit) => WrittenValues::Duration(raw_buffer(array), units_per_second(*unit)),
            DataType::Interval(IntervalUnit::YearMonth) => WrittenValues::Months(slice::<IntervalYearMonthType>(array)),
            DataType::Interval(IntervalUnit::DayTime) => WrittenValues::DayTime(array.as_primitive()),
            DataType::Interval(IntervalUnit::MonthDayNano) => {
                WrittenValues::MonthDayNano(slice::<IntervalMonthDayNanoType>(array))
            }
            DataType::Utf8 => WrittenValues::Text(array.as_string()),
            DataType::LargeUtf8 => WrittenValues::LargeText(array.as_string()),
            DataType::Utf8View => WrittenValues::TextView(array.as_string_view()),
            DataType::Binary => WrittenValues::Bytes(array.as_binary()),
            DataType::LargeBinary => WrittenValues::LargeBytes(array.as_binary()),
            DataType::BinaryView => WrittenValues::BytesView(array.as_binary_view()),
            DataType::FixedSizeBinary(16) => WrittenValues::Uuid(array.as_fixed_size_binary()),
            DataType::FixedSizeBinary(_) => WrittenValues::FixedBytes(array.as_fixed_size_binary()),
            kind if map_kinds(kind).is_some() => {
                let list = array.as_list::<i32>();
                WrittenValues::map(list.offsets(), list.values().as_struct())?
            }
            DataType::Map(_, _) => {
                let map = array.as_map();
                WrittenValues::map(map.offsets(), map.entries())?
            }
            DataType::List(item) => {
                let list = array.as_list::<i32>();
                WrittenValues::List(list.offsets(), Box::new(TextColumn::of_field(item, list.values())?))
            }
            DataType::LargeList(_) => {
                let list = array.as_list::<i64>();
                WrittenValues::LargeList(list.offsets(), Box::new(TextColumn::new(list.values())?))
            }
            DataType::FixedSizeList(_, _) => {
                let list = array.as_fixed_size_list();
                WrittenValues::FixedList(list, Box::new(TextColumn::new(list.values())?))
            }
            kind if is_json(kind) => WrittenValues::Json(array.as_struct().column(0).as_string_view()),
            DataType::Struct(fields) => {
                let columns = array.as_struct().columns();
                let named = fields.iter().zip(columns);
                WrittenValues::Struct(
                    named
                        .map(|(field, column)| Ok((field.name().as_str(), TextColumn::of_field(field, column)?)))
                        .collect::<Result<_>>()?,
                )
            }
            DataType::Dictionary(_, _) => {
                let dictionary = array.as_any_dictionary();
                // Without values every row is NULL, so its key is never used.
                let keys = if dictionary.values().is_empty() {
                    vec![0; dictionary.len()]
                } else {
                    dictionary.normalized_keys()
                };
                WrittenValues::Dictionary(keys, Box::new(TextColumn::new(dictionary.values())?))
            }
            other => WrittenValues::Other(
                ArrayFormatter::try_new(array, &ARROW_TEXT)
                    .map_err(|error| Error::internal(format!("no text for values of the type {other}: {error}")))?,
            ),
        })
    }

    /// Maps as their entries.
    fn map(offsets: &'a OffsetBuffer<i32>, entries: &'a StructArray) -> Result<WrittenValues<'a>> {
        let column = |at: usize| TextColumn::of_field(&entries.fields()[at], entries.column(at));
        Ok(WrittenValues::Map(offsets, Box::new((column(0)?, column(1)?))))
    }

    fn write(&self, row: usize, out: &mut String) {
        match self {
            WrittenValues::Null => {}
            WrittenValues::Boolean(values) => out.push_str(if values.value(row) { "true" } else { "false" }),
            WrittenValues::Int8(values) => write_int(values[row], out),
            WrittenValues::Int16(values) => write_int(values[row], out),
            WrittenValues::Int32(values) => write_int(values[row], out),
            WrittenValues::Int64(values) => write_int(values[row], out),
            WrittenValues::UInt8(values) => write_int(values[row], out),
            WrittenValues::UInt16(values) => write_int(values[row], out),
            WrittenValues::UInt32(values) => write_int(values[row], out),
            WrittenValues::UInt64(values) => write_int(values[row], out),
            WrittenValues::Float16(values) => write_float(values.value(row).to_f32(), out),
            WrittenValues::Float32(values) => write_float(values[row], out),
            WrittenValues::Float64(values) => write_float(values[row], out),
            WrittenValues::Decimal32(values, scale) => write_decimal(values[row].into(), *scale, out),
            WrittenValues::Decimal64(values, scale) => write_decimal(values[row].into(), *scale, out),
            WrittenValues::Decimal128(values, scale) => write_decimal(values[row], *scale, out),
            WrittenValues::Decimal256(values, scale) => write_wide_decimal(values[row], *scale, out),
            WrittenValues::Days(values) => write_date(values[row].into(), out),
            WrittenValues::Millis(values) => write_date(values[row].div_euclid(86_400_000), out),
            WrittenValues::Clock32(values, per_second) => write_clock(values[row].into(), *per_second, out),
            WrittenValues::Clock64(values, per_second) => write_clock(values[row], *per_second, out),
            WrittenValues::Timestamp { values, units_per_second, zone } => match zone {
                ShownZone::Zone(zone) => write_instant(values[row], *units_per_second, *zone, out),
                zone => write_timestamp(values[row], *units_per_second, matches!(zone, ShownZone::Utc), out),
            },
            WrittenValues::Months(values) => write_interval(values[row], 0, 0, out),
            WrittenValues::DayTime(values) => {
                let value = values.value(row);
                write_interval(0, value.days, i128::from(value.milliseconds) * 1_000_000, out);
            }
            WrittenValues::MonthDayNano(values) => {
                let value = values[row];
                write_interval(value.months, value.days, value.nanoseconds.into(), out);
            }
            WrittenValues::Duration(values, per_second) => {
                let nanos = i128::from(values[row]) * i128::from(1_000_000_000 / per_second);
                write_interval(0, 0, nanos, out);
            }
            WrittenValues::Text(_) | WrittenValues::LargeText(_) | WrittenValues::TextView(_) => {
                out.push_str(self.as_text(row).unwrap_or_default());
            }
            WrittenValues::Bytes(values) => write_blob(values.value(row), out),
            WrittenValues::LargeBytes(values) => write_blob(values.value(row), out),
            WrittenValues::BytesView(values) => write_blob(values.value(row), out),
            WrittenValues::FixedBytes(values) => write_blob(values.value(row), out),
            WrittenValues::Uuid(values) => write_uuid(values.value(row), out),
            WrittenValues::Numbered(values, kind) => kind.write(values[row].to_number(), out),
            WrittenValues::WideNumbered(values, kind) => kind.write(values[row].to_number(), out),
            WrittenValues::List(offsets, items) => {
                write_list(offsets[row] as usize..offsets[row + 1] as usize, items, out)
            }
            WrittenValues::Map(offsets, entries) => {
                write_map(offsets[row] as usize..offsets[row + 1] as usize, entries, out);
            }
            WrittenValues::LargeList(offsets, items) => {
                write_list(offsets[row] as usize..offsets[row + 1] as usize, items, out);
            }
            WrittenValues::FixedList(list, items) => {
                let start = list.value_offset(row) as usize;
                write_list(start..start + list.value_length() as usize, items, out);
            }
            WrittenValues::Json(values) => out.push_str(ArrayAccessor::value(values, row)),
            WrittenValues::Struct(fields) => write_struct(fields, row, out),
            WrittenValues::Dictionary(keys, values) => {
                values.write(keys[row], out);
            }
            WrittenValues::Other(formatter) => {
                let start = out.len();
                if write!(out, "{}", formatter.value(row)).is_err() {
                    out.truncate(start);
                    out.push_str("<unprintable>");
                }
            }
        }
    }

    /// Whether the text of the value is valid JSON without quotes.
    fn is_json(&self, row: usize) -> bool {
        match self {
            WrittenValues::Float16(values) => values.value(row).is_finite(),
            WrittenValues::Float32(values) => values[row].is_finite(),
            WrittenValues::Float64(values) => values[row].is_finite(),
            WrittenValues::Boolean(_)
            | WrittenValues::List(..)
            | WrittenValues::LargeList(..)
            | WrittenValues::FixedList(..)
            | WrittenValues::Json(_)
            | WrittenValues::Struct(_) => true,
            other => other.is_number(),
        }
    }

    /// Whether the values have parts.
    fn is_nested(&self) -> bool {
        use WrittenValues::{FixedList, LargeList, List, Map, Struct};
        matches!(self, List(..) | LargeList(..) | FixedList(..) | Struct(_) | Map(..))
    }

    fn is_number(&self) -> bool {
        matches!(
            self,
            WrittenValues::Int8(_)
                | WrittenValues::Int16(_)
                | WrittenValues::Int32(_)
                | WrittenValues::Int64(_)
                | WrittenValues::UInt8(_)
                | WrittenValues::UInt16(_)
                | WrittenValues::UInt32(_)
                | WrittenValues::UInt64(_)
                | WrittenValues::Float16(_)
                | WrittenValues::Float32(_)
                | WrittenValues::Float64(_)
                | WrittenValues::Decimal32(..)
                | WrittenValues::Decimal64(..)
                | WrittenValues::Decimal128(..)
                | WrittenValues::Decimal256(..)
        )
    }

    fn as_text(&self, row: usize) -> Option<&str> {
        match self {
            WrittenValues::Text(values) => Some(values.value(row)),
            WrittenValues::LargeText(values) => Some(values.value(row)),
            WrittenValues::TextView(values) => Some(ArrayAccessor::value(values, row)),
            _ => None,
        }
    }
}

/// Arrow's options for the types that we do not write ourselves.
const ARROW_TEXT: FormatOptions<'static> = FormatOptions::new().with_null("null");

fn slice<T: ArrowPrimitiveType>(array: &dyn Array) -> &[T::Native] {
    array.as_primitive::<T>().values()
}

/// Returns the values of any 32-bit time as integers.
fn raw_i32(array: &dyn Array) -> &[i32] {
    use arrow::datatypes::{Time32MillisecondType, Time32SecondType};
    match array.data_type() {
        DataType::Time32(TimeUnit::Second) => slice::<Time32SecondType>(array),
        _ => slice::<Time32MillisecondType>(array),
    }
}

/// Returns the values of any 64-bit time as integers.
fn raw_i64(array: &dyn Array) -> &[i64] {
    use arrow::datatypes::{Time64MicrosecondType, Time64NanosecondType};
    match array.data_type() {
        DataType::Time64(TimeUnit::Microsecond) => slice::<Time64MicrosecondType>(array),
        _ => slice::<Time64NanosecondType>(array),
    }
}

/// Returns the values of a timestamp or duration of any unit.
fn raw_buffer(array: &dyn Array) -> ScalarBuffer<i64> {
    let data = array.to_data();
    ScalarBuffer::new(data.buffers()[0].clone(), data.offset(), data.len())
}

fn write_int(value: impl itoa::Integer, out: &mut String) {
    out.push_str(itoa::Buffer::new().format(value));
}

/// A float of 32 or 64 bits.
trait Float: ryu::Float {
    fn name(self) -> Option<&'static str>;
}

macro_rules! floats {
    ($($kind:ty),*) => {$(
        impl Float for $kind {
            /// Returns the name of a value that has no digits.
            fn name(self) -> Option<&'static str> {
                if self.is_nan() {
                    Some("NaN")
                } else if self == <$kind>::INFINITY {
                    Some("Infinity")
                } else if self == <$kind>::NEG_INFINITY {
                    Some("-Infinity")
                } else {
                    None
                }
            }
        }
    )*};
}
floats!(f32, f64);

fn write_float<T: Float>(value: T, out: &mut String) {
    match value.name() {
        Some(name) => out.push_str(name),
        None => out.push_str(ryu::Buffer::new().format_finite(value)),
    }
}

/// Writes `value` times 10^-`scale`.
/// Returns the text of `value * 10^-scale`.
pub(crate) fn decimal_text(value: i256, scale: i8) -> String {
    let mut text = String::new();
    write_wide_decimal(value, scale, &mut text);
    text
}

fn write_wide_decimal(value: i256, scale: i8, out: &mut String) {
    match value.to_i128() {
        Some(value) => write_decimal(value, scale, out),
        // Only an array from outside has a value with more digits.
        None if !value.is_within(i256::power_of_ten(WIDE_DIGITS_MAX.into())) => {
            out.push_str(&Decimal256Type::format_decimal(value, WIDE_DIGITS_MAX, scale));
        }
        None => {
            let mut digits = String::new();
            write_wide_digits(value, &mut digits);
            write_scaled(value.is_negative(), &digits, scale, out);
        }
    }
}

fn write_decimal(value: i128, scale: i8, out: &mut String) {
    let mut buffer = itoa::Buffer::new();
    write_scaled(value < 0, buffer.format(value.unsigned_abs()), scale, out);
}

/// Writes `digits`, which are `0` or have no zeros in front, with a point before the last `scale` of them.
fn write_scaled(is_negative: bool, digits: &str, scale: i8, out: &mut String) {
    if is_negative {
        out.push('-');
    }
    let decimals = usize::from(scale.max(0).unsigned_abs());
    let zeros = usize::from(scale.min(0).unsigned_abs());
    let whole = digits.len().saturating_sub(decimals);
    out.push_str(if whole == 0 { "0" } else { &digits[..whole] });
    if digits != "0" {
        out.extend(std::iter::repeat_n('0', zeros));
    }
    if decimals > 0 {
        out.push('.');
        out.extend(std::iter::repeat_n('0', decimals.saturating_sub(digits.len())));
        out.push_str(&digits[whole..]);
    }
}

fn write_date(days: i64, out: &mut String) {
    let CivilDate { year, month, day, .. } = date_of_days(days);
    if (0..=9_999).contains(&year) {
        write_two(year as u32 / 100, out);
        write_two(year as u32 % 100, out);
    } else {
        // A year outside of four digits is written with its sign and at least four digits.
        let _ = write!(out, "{}{:04}", if year < 0 { "-" } else { "" }, year.unsigned_abs());
    }
    out.push('-');
    write_two(month, out);
    out.push('-');
    write_two(day, out);
}

/// Writes two digits.
fn write_two(value: u32, out: &mut String) {
    out.push(char::from(b'0' + (value / 10 % 10) as u8));
    out.push(char::from(b'0' + (value % 10) as u8));
}

/// Writes a time of day that counts from midnight.
fn write_clock(value: i64, per_second: i64, out: &mut String) {
    let seconds = value.div_euclid(per_second);
    write_hours_minutes_seconds(seconds.unsigned_abs(), out);
    write_fraction(value.rem_euclid(per_second), per_second, out);
}

fn write_hours_minutes_seconds(seconds: u64, out: &mut String) {
    let hours = seconds / 3_600;
    if hours < 100 {
        write_two(hours as u32, out);
    } else {
        write_int(hours, out);
    }
    out.push(':');
    write_two((seconds / 60 % 60) as u32, out);
    out.push(':');
    write_two((seconds % 60) as u32, out);
}

/// Writes a point and the digits of `part` of a second, up to the last one that is not zero.
fn write_fraction(part: i64, per_second: i64, out: &mut String) {
    if part == 0 {
        return;
    }
    out.push('.');
    let mut rest = part;
    let mut unit = per_second / 10;
    while rest > 0 {
        out.push(char::from(b'0' + (rest / unit) as u8));
        rest %= unit;
        unit /= 10;
    }
}

/// The zone in which timestamps are shown.
#[derive(Clone, Copy)]
enum ShownZone {
    /// None: they are no instants.
    Local,
    Utc,
    Zone(Tz),
}

impl ShownZone {
    fn of(name: &str, zone: Tz) -> ShownZone {
        if name == "UTC" { ShownZone::Utc } else { ShownZone::Zone(zone) }
    }
}

/// Writes an instant as a clock in a zone shows it, with its offset: `2013-07-31 14:00:00+02`.
pub(crate) fn write_instant(value: i64, units_per_second: i64, zone: Tz, out: &mut String) {
    let Some(shown) = shown_at(value, units_per_second, zone) else {
        return write_timestamp(value, units_per_second, true, out);
    };
    write_timestamp(shown, units_per_second, false, out);
    let seconds = (shown - value) / units_per_second;
    let (sign, seconds) = (if seconds < 0 { '-' } else { '+' }, seconds.unsigned_abs());
    let _ = write!(out, "{sign}{:02}", seconds / 3_600);
    for (part, is_shown) in [(seconds % 3_600 / 60, seconds % 3_600 != 0), (seconds % 60, seconds % 60 != 0)] {
        if is_shown {
            let _ = write!(out, ":{part:02}");
        }
    }
}

fn write_timestamp(value: i64, units_per_second: i64, zoned: bool, out: &mut String) {
    let seconds = value.div_euclid(units_per_second);
    write_date(seconds.div_euclid(86_400), out);
    out.push(' ');
    write_hours_minutes_seconds(seconds.rem_euclid(86_400).unsigned_abs(), out);
    write_fraction(value.rem_euclid(units_per_second), units_per_second, out);
    if zoned {
        out.push_str("+00");
    }
}

/// Writes an interval. Each part has its own sign. The time is written only if it is not zero or no other part is.
fn write_interval(months: i32, days: i32, nanos: i128, out: &mut String) {
    let start = out.len();
    for (count, one, many) in [(months / 12, "year", "years"), (months % 12, "mon", "mons"), (days, "day", "days")] {
        if count != 0 {
            let blank = if out.len() > start { " " } else { "" };
            let _ = write!(out, "{blank}{count} {}", if count == 1 { one } else { many });
        }
    }
    if nanos == 0 && out.len() > start {
        return;
    }
    if out.len() > start {
        out.push(' ');
    }
    if nanos < 0 {
        out.push('-');
    }
    let nanos = nanos.unsigned_abs();
    write_hours_minutes_seconds((nanos / 1_000_000_000) as u64, out);
    write_fraction((nanos % 1_000_000_000) as i64, 1_000_000_000, out);
}

const HEX: &[u8; 16] = b"0123456789abcdef";

fn write_hex(bytes: &[u8], out: &mut String) {
    for byte in bytes {
        out.push(char::from(HEX[usize::from(byte >> 4)]));
        out.push(char::from(HEX[usize::from(byte & 15)]));
    }
}

fn write_blob(bytes: &[u8], out: &mut String) {
    out.push_str("\\x");
    write_hex(bytes, out);
}

fn write_uuid(bytes: &[u8], out: &mut String) {
    for (i, part) in [&bytes[..4], &bytes[4..6], &bytes[6..8], &bytes[8..10], &bytes[10..]].iter().enumerate() {
        if i > 0 {
            out.push('-');
        }
        write_hex(part, out);
    }
}

fn write_list(range: std::ops::Range<usize>, items: &TextColumn<'_>, out: &mut String) {
    out.push('[');
    for (i, item) in range.enumerate() {
        if i > 0 {
            out.push_str(", ");
        }
        items.write_json(item, out);
    }
    out.push(']');
}

/// Writes a map as its own text.
fn write_map(range: std::ops::Range<usize>, entries: &(TextColumn<'_>, TextColumn<'_>), out: &mut String) {
    let mut scratch = String::new();
    let mut write = |column: &TextColumn<'_>, row: usize, out: &mut String| {
        scratch.clear();
        if !column.write(row, &mut scratch) {
            out.push_str("NULL");
        } else if column.values.is_nested() {
            out.push_str(&scratch);
        } else {
            write_part(&scratch, out);
        }
    };
    out.push('{');
    for (place, entry) in range.enumerate() {
        out.push_str(if place > 0 { ", " } else { "" });
        write(&entries.0, entry, out);
        out.push('=');
        write(&entries.1, entry, out);
    }
    out.push('}');
}

/// Writes a map as a JSON object, whose keys are the texts of the keys.
fn write_map_json(range: std::ops::Range<usize>, entries: &(TextColumn<'_>, TextColumn<'_>), out: &mut String) {
    let mut key = String::new();
    out.push('{');
    for (place, entry) in range.enumerate() {
        out.push_str(if place > 0 { ", " } else { "" });
        key.clear();
        entries.0.write(entry, &mut key);
        write_json_string(&key, out);
        out.push_str(": ");
        entries.1.write_json(entry, out);
    }
    out.push('}');
}

fn write_struct(fields: &[(&str, TextColumn<'_>)], row: usize, out: &mut String) {
    out.push('{');
    for (i, (name, column)) in fields.iter().enumerate() {
        if i > 0 {
            out.push_str(", ");
        }
        // The fields of an entry of a map have a mark in front of their names.
        write_json_string(name.trim_start_matches('\0'), out);
        out.push_str(": ");
        column.write_json(row, out);
    }
    out.push('}');
}

/// Appends `text` as a JSON string with quotes, backslashes and control characters escaped.
pub fn write_json_string(text: &str, out: &mut String) {
    out.push('"');
    // Unescaped stretches are copied as a whole.
    let mut copied = 0;
    for (at, byte) in text.bytes().enumerate() {
        if byte >= 0x20 && byte != b'"' && byte != b'\\' {
            continue;
        }
        out.push_str(&text[copied..at]);
        copied = at + 1;
        match byte {
            b'"' => out.push_str("\\\""),
            b'\\' => out.push_str("\\\\"),
            b'\n' => out.push_str("\\n"),
            b'\r' => out.push_str("\\r"),
            b'\t' => out.push_str("\\t"),
            _ => {
                out.push_str("\\u00");
                write_hex(&[byte], out);
            }
        }
    }
    out.push_str(&text[copied..]);
    out.push('"');
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{
        ArrayRef, Decimal128Array, DictionaryArray, DurationMillisecondArray, IntervalMonthDayNanoArray, ListArray,
        StructArray, TimestampMicrosecondArray, TimestampSecondArray, UInt64Array,
    };
    use arrow::array::{Date32Array, Float32Array, Float64Array, Int64Array, Time64MicrosecondArray};
    use arrow::buffer::Buffer;
    use arrow::datatypes::Field;

    use super::*;

    fn texts(array: impl Array) -> Vec<String> {
        let column = TextColumn::new(&array).expect("a type with text");
        (0..array.len())
            .map(|row| {
                let mut text = String::new();
                if column.write(row, &mut text) { text } else { "NULL".to_owned() }
            })
            .collect()
    }

    #[test]
    fn numbers_are_written_with_their_digits() {
        assert_eq!(texts(Int64Array::from(vec![Some(i64::MIN), None])), ["-9223372036854775808", "NULL"]);
        assert_eq!(texts(UInt64Array::from(vec![u64::MAX])), ["18446744073709551615"]);
        let floats = Float64Array::from(vec![1.0, 0.1, 1e300, -0.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY]);
        assert_eq!(texts(floats), ["1.0", "0.1", "1e300", "-0.0", "NaN", "Infinity", "-Infinity"]);
        assert_eq!(texts(Float32Array::from(vec![0.1, 16_777_216.0])), ["0.1", "16777216.0"]);
        let decimals = |scale, values: Vec<i128>| {
            texts(Decimal128Array::from(values).with_precision_and_scale(38, scale).expect("38 digits"))
        };
        assert_eq!(decimals(2, vec![0, 5, -5, 12_345, -100]), ["0.00", "0.05", "-0.05", "123.45", "-1.00"]);
        assert_eq!(decimals(0, vec![7]), ["7"]);
        assert_eq!(decimals(-2, vec![7, 0]), ["700", "0"]);
    }

    #[test]
    fn dates_and_times_are_written_in_iso_form() {
        assert_eq!(
            texts(Date32Array::from(vec![15_917, -719_529, 2_932_897, i32::MIN])),
            ["2013-07-31", "-0001-12-31", "10000-01-01", "-5877641-06-23"]
        );
        assert_eq!(texts(Time64MicrosecondArray::from(vec![45_045_500_000])), ["12:30:45.5"]);
        let stamp = TimestampMicrosecondArray::from(vec![-1, 1_375_272_000_000_000]);
        assert_eq!(texts(stamp.clone()), ["1969-12-31 23:59:59.999999", "2013-07-31 12:00:00"]);
        assert_eq!(texts(stamp.with_timezone("UTC"))[1], "2013-07-31 12:00:00+00");
        assert_eq!(texts(TimestampSecondArray::from(vec![0]).slice(0, 1)), ["1970-01-01 00:00:00"]);
        assert_eq!(texts(stamp_slice()), ["1970-01-01 00:00:00.000002"]);
        assert_eq!(texts(DurationMillisecondArray::from(vec![-1_500])), ["-00:00:01.5"]);
    }

    fn stamp_slice() -> TimestampMicrosecondArray {
        TimestampMicrosecondArray::from(vec![0, 1, 2]).slice(2, 1)
    }

    #[test]
    fn intervals_are_written_by_their_parts() {
        let value = |months, days, nanoseconds| IntervalMonthDayNano { months, days, nanoseconds };
        let array = IntervalMonthDayNanoArray::from(vec![
            value(0, 0, 0),
            value(14, -3, 14_706_500_000_000),
            value(-13, 1, -360_000_000_000_000),
            value(0, 1, 0),
        ]);
        assert_eq!(
            texts(array),
            ["00:00:00", "1 year 2 mons -3 days 04:05:06.5", "-1 years -1 mons 1 day -100:00:00", "1 day"]
        );
    }

    #[test]
    fn bytes_and_nested_values_are_written() {
        assert_eq!(texts(BinaryViewArray::from(vec![&[0_u8, 255][..], b""])), ["\\x00ff", "\\x"]);
        let uuid = FixedSizeBinaryArray::new(16, Buffer::from(&[0x5a_u8; 16]), None);
        assert_eq!(texts(uuid), ["5a5a5a5a-5a5a-5a5a-5a5a-5a5a5a5a5a5a"]);
        let names = StringViewArray::from(vec![Some("a\"\\\n\u{1}é"), None]);
        let flags = BooleanArray::from(vec![Some(true), None]);
        let both = StructArray::from(vec![
            (Arc::new(Field::new("name", DataType::Utf8View, true)), Arc::new(names) as ArrayRef),
            (Arc::new(Field::new("flag", DataType::Boolean, true)), Arc::new(flags) as ArrayRef),
        ]);
        assert_eq!(texts(both), [r#"{"name": "a\"\\\n\u0001é", "flag": true}"#, r#"{"name": null, "flag": null}"#]);
        let lists = ListArray::from_iter_primitive::<Float64Type, _, _>(vec![
            Some(vec![Some(1.0), None, Some(f64::NAN)]),
            None,
            Some(vec![]),
        ]);
        assert_eq!(texts(lists), [r#"[1.0, null, "NaN"]"#, "NULL", "[]"]);
    }

    #[test]
    fn dictionaries_are_written_as_their_values() {
        let dictionary: DictionaryArray<Int32Type> = vec![Some("b"), None, Some("a"), Some("b")].into_iter().collect();
        assert_eq!(texts(dictionary.clone()), ["b", "NULL", "a", "b"]);
        let mut json = String::new();
        TextColumn::new(&dictionary).expect("text").write_json(0, &mut json);
        assert_eq!(json, "\"b\"");
        let empty: DictionaryArray<Int32Type> = vec![None::<&str>].into_iter().collect();
        assert_eq!(texts(empty), ["NULL"]);
    }
}
