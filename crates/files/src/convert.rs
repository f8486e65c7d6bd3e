//! Converts the Arrow arrays of files to arrays of SQL types.
//!
//! We convert only where a value keeps its meaning, and check each value. A value that does not fit is a [`Misfit`]
//! with its row. It must never become NULL or a nearby value. The exceptions are digits after the scale of a DECIMAL,
//! which are rounded like in an SQL assignment, and fractions below the unit of a TIMESTAMP, which are cut off because
//! the target cannot show them.
//!
//! | from | to |
//! | --- | --- |
//! | integer | any integer, REAL, DOUBLE, DECIMAL; BOOLEAN if 0 or 1 |
//! | float, DECIMAL | float, DECIMAL; an integer if whole |
//! | date | DATE, TIMESTAMP |
//! | timestamp | TIMESTAMP; DATE at midnight |
//! | text | every type, by its text form |
//! | bytes | BLOB; TEXT if UTF-8; UUID if 16; a numbered type if they have its length |
//! | numbered type | BLOB |
//! | list, struct | list, struct with convertible parts, fields by name |
//! | every type with a text form | TEXT |

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Decimal128Array, ListArray, PrimitiveArray, StringViewBuilder, StructArray,
    new_null_array,
};
use arrow::buffer::{BooleanBuffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{
    ArrowPrimitiveType, DataType, Date32Type, Decimal128Type, Decimal256Type, Field, Float32Type, Float64Type,
    Int64Type, IntervalUnit, TimeUnit as ArrowUnit, i256,
};
use rowmill_base::{NARROW_DIGITS_MAX, NumberedType, SqlType, WIDE_DIGITS_MAX};

use rowmill_expr::text::calendar::units_per_second;
use rowmill_expr::text::column_builder::{ColumnBuilder, fits, timestamps};
use rowmill_expr::text::reader::Problem;
use rowmill_expr::text::writer::TextColumn;

/// A value that its target type cannot hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Misfit {
    /// The row of the converted array.
    pub row: usize,
    /// The text of the value.
    pub text: String,
    /// The reason why the type cannot hold the value.
    pub problem: Problem,
}

/// The reason why an array was not converted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotConverted {
    /// One value does not fit.
    Value(Misfit),
    /// The types cannot be converted to each other. Callers should ask [`is_convertible`] first.
    Types,
}

/// The converted array, or the reason why there is none.
pub(crate) type Converted = Result<ArrayRef, NotConverted>;

/// Classes of Arrow types. The types of a class are converted in the same way.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Null,
    Boolean,
    Integer,
    Float,
    Decimal,
    Numbered,
    Date,
    Time,
    Timestamp,
    Interval,
    Text,
    Bytes,
    List,
    Map,
    Struct,
    Other,
}

fn class(kind: &DataType) -> Class {
    match kind {
        DataType::Null => Class::Null,
        DataType::Boolean => Class::Boolean,
        kind if kind.is_integer() => Class::Integer,
        DataType::Float16 | DataType::Float32 | DataType::Float64 => Class::Float,
        kind if NumberedType::of_arrow(kind).is_some() => Class::Numbered,
        DataType::Decimal32(..) | DataType::Decimal64(..) | DataType::Decimal128(..) | DataType::Decimal256(..) => {
            Class::Decimal
        }
        DataType::Date32 | DataType::Date64 => Class::Date,
        DataType::Time32(_) | DataType::Time64(_) => Class::Time,
        DataType::Timestamp(..) => Class::Timestamp,
        DataType::Interval(_) | DataType::Duration(_) => Class::Interval,
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Class::Text,
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => Class::Bytes,
        DataType::Map(..) => Class::Map,
        DataType::List(_)
        | DataType::LargeList(_)
        | DataType::ListView(_)
        | DataType::LargeListView(_)
        | DataType::FixedSizeList(..) => Class::List,
        DataType::Struct(_) => Class::Struct,
        _ => Class::Other,
    }
}

/// The value type of dictionaries and run-encoded arrays. Other types are returned unchanged.
fn unpacked(kind: &DataType) -> &DataType {
    match kind {
        DataType::Dictionary(_, values) => unpacked(values),
        DataType::RunEndEncoded(_, values) => unpacked(values.data_type()),
        other => other,
    }
}

/// Whether arrays of `from` can be converted to `to`, judged by the types alone. Single values may still not fit.
pub fn is_convertible(from: &DataType, to: &SqlType) -> bool {
    let from = unpacked(from);
    match (class(from), to) {
        (Class::Null, _) => true,
        (Class::Other, _) => false,
        (_, SqlType::Json) => true,
        (Class::Map, to) => match (to.as_map(), from) {
            (Some((key, value)), DataType::Map(entries, _)) => match entries.data_type() {
                DataType::Struct(fields) => {
                    is_convertible(fields[0].data_type(), key) && is_convertible(fields[1].data_type(), value)
                }
                _ => false,
            },
            _ => matches!(to, SqlType::Text { .. }),
        },
        (Class::List, SqlType::List(item)) => item_type(from).is_some_and(|from| is_convertible(from, item)),
        (Class::Struct, SqlType::Struct(to)) => {
            let DataType::Struct(from) = from else { return false };
            from.iter().all(|field| {
                place_of(field.name(), to).is_some_and(|place| is_convertible(field.data_type(), &to[place].1))
            })
        }
        (Class::Text, _) | (_, SqlType::Text { .. }) => true,
        (Class::Boolean, SqlType::Boolean) => true,
        (Class::Boolean | Class::Integer | Class::Float | Class::Decimal, to) if is_number(to) => true,
        (Class::Integer, SqlType::Boolean) => true,
        (Class::Date | Class::Timestamp, SqlType::Date | SqlType::Timestamp { .. }) => true,
        (Class::Time, SqlType::Time) | (Class::Interval, SqlType::Interval) => true,
        (Class::Bytes, SqlType::Blob | SqlType::Uuid) => true,
        (Class::Bytes, SqlType::Numbered(to)) => to.labels().is_none(),
        (Class::Numbered, SqlType::Blob) => NumberedType::of_arrow_with_bytes(from).is_some(),
        (Class::Numbered, SqlType::Numbered(to)) => *from == to.arrow(),
        _ => false,
    }
}

fn is_number(kind: &SqlType) -> bool {
    is_integer(kind) || matches!(kind, SqlType::Float32 | SqlType::Float64 | SqlType::Decimal { .. })
}

fn is_integer(kind: &SqlType) -> bool {
    kind.arrow().is_integer()
}

fn item_type(list: &DataType) -> Option<&DataType> {
    match list {
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::ListView(item)
        | DataType::LargeListView(item)
        | DataType::FixedSizeList(item, _) => Some(item.data_type()),
        _ => None,
    }
}

/// The field with that name. An exact match is preferred to one in another case.
fn place_of(name: &str, fields: &[(String, SqlType)]) -> Option<usize> {
    let exact = fields.iter().position(|(field, _)| field == name);
    exact.or_else(|| fields.iter().position(|(field, _)| field.to_lowercase() == name.to_lowercase()))
}

/// Converts `array` to the Arrow type of `to`.
pub fn convert(array: &ArrayRef, to: &SqlType) -> Converted {
    let from = array.data_type();
    // The types are equal, so there is nothing to do, unless the length of texts is limited.
    if *from == to.arrow() && !matches!(to, SqlType::Text { chars_max: Some(_) }) {
        return Ok(Arc::clone(array));
    }
    if unpacked(from) != from {
        return convert(&plain_cast(array, unpacked(from))?, to);
    }
    match (class(from), to) {
        (Class::Null, _) => Ok(new_null_array(&to.arrow(), array.len())),
        (Class::Text, SqlType::Json) => parse_texts(array, to),
        (_, SqlType::Json) => write_documents(array),
        (Class::Map, to) if let Some((key, value)) = to.as_map() => convert_map(array, key, value, to),
        (Class::List, SqlType::List(item)) => convert_list(array, item),
        (Class::Struct, SqlType::Struct(fields)) => convert_struct(array, fields),
        (Class::Text, SqlType::Text { chars_max }) => limited(plain_cast(array, &DataType::Utf8View)?, *chars_max),
        (Class::Text, _) => parse_texts(array, to),
        (Class::Bytes, SqlType::Text { chars_max }) => {
            limited(checked_cast(array, &DataType::BinaryView, &DataType::Utf8View)?, *chars_max)
        }
        (_, SqlType::Text { chars_max }) => limited(write_texts(array)?, *chars_max),
        (Class::Bytes, SqlType::Blob) => plain_cast(array, &DataType::BinaryView),
        (Class::Bytes, SqlType::Uuid) => bytes_to_uuid(array),
        (Class::Bytes, SqlType::Numbered(kind)) => bytes_to_numbered(array, kind),
        (Class::Numbered, SqlType::Blob) => {
            rowmill_expr::kernels::cast::cast(array, &DataType::BinaryView, false).map_err(|_| NotConverted::Types)
        }
        (Class::Integer, SqlType::Boolean) => integer_to_boolean(array),
        (Class::Float, to) if is_integer(to) => float_to_integer(array, to),
        (Class::Float, SqlType::Float32) => narrow_float(array),
        (Class::Float, SqlType::Decimal { precision, scale }) => float_to_decimal(array, *precision, *scale),
        (Class::Decimal, to) if is_integer(to) => decimal_to_integer(array, to),
        (Class::Integer | Class::Boolean | Class::Decimal, SqlType::Decimal { precision, .. })
            if *precision > NARROW_DIGITS_MAX || matches!(from, DataType::Decimal256(..)) =>
        {
            by_wide_decimal(array, &to.arrow())
        }
        (Class::Integer | Class::Boolean | Class::Decimal, SqlType::Decimal { precision, scale }) => {
            to_decimal(array, *precision, *scale)
        }
        (Class::Integer | Class::Boolean, to) if is_number(to) => checked_cast(array, from, &to.arrow()),
        (Class::Decimal, SqlType::Float32 | SqlType::Float64) if matches!(from, DataType::Decimal256(_, 0..)) => {
            by_wide_decimal(array, &to.arrow())
        }
        (Class::Float | Class::Decimal, SqlType::Float32 | SqlType::Float64) => plain_cast(array, &to.arrow()),
        (Class::Date | Class::Timestamp, SqlType::Date) => to_date(array),
        (Class::Date | Class::Timestamp, SqlType::Timestamp { .. }) => to_timestamp(array, to),
        (Class::Time, SqlType::Time) => plain_cast(array, &to.arrow()),
        (Class::Interval, SqlType::Interval) => to_interval(array),
        _ => Err(NotConverted::Types),
    }
}

/// A cast that cannot fail because of a value.
fn plain_cast(array: &ArrayRef, to: &DataType) -> Converted {
    let options = CastOptions { safe: false, ..CastOptions::default() };
    cast_with_options(array, to, &options).map_err(|_| NotConverted::Types)
}

/// Casts through `via` in a mode that turns a value that does not fit into NULL, and reports the first such value as
/// the misfit.
fn checked_cast(array: &ArrayRef, via: &DataType, to: &DataType) -> Converted {
    let array = if array.data_type() == via { Arc::clone(array) } else { plain_cast(array, via)? };
    let options = CastOptions { safe: true, ..CastOptions::default() };
    let cast = cast_with_options(&array, to, &options).map_err(|_| NotConverted::Types)?;
    // More NULLs than before mean that some value did not fit.
    if cast.null_count() == array.null_count() {
        return Ok(cast);
    }
    let lost = (0..array.len()).find(|row| cast.is_null(*row) && array.is_valid(*row));
    Err(misfit(&array, lost.unwrap_or_default(), Problem::OutOfRange))
}

fn misfit(array: &dyn Array, row: usize, problem: Problem) -> NotConverted {
    let text = rowmill_expr::text::writer::format_value(array, row).ok().flatten().unwrap_or_default();
    NotConverted::Value(Misfit { row, text, problem })
}

/// Applies `convert` to every value that is not NULL. If it returns `None`, the value is a misfit.
fn map_values<A, T>(
    array: &ArrayRef,
    values: &[A],
    problem: Problem,
    convert: impl Fn(A) -> Option<T::Native>,
) -> Result<PrimitiveArray<T>, NotConverted>
where
    A: Copy,
    T: ArrowPrimitiveType,
{
    let nulls = array.nulls();
    let mut converted = Vec::with_capacity(values.len());
    for (row, value) in values.iter().enumerate() {
        if nulls.is_some_and(|nulls| nulls.is_null(row)) {
            converted.push(T::Native::default());
            continue;
        }
        converted.push(convert(*value).ok_or_else(|| misfit(array, row, problem))?);
    }
    Ok(PrimitiveArray::new(converted.into(), nulls.cloned()))
}

fn limited(texts: ArrayRef, chars_max: Option<u32>) -> Converted {
    if chars_max.is_some() {
        let views = texts.as_string_view();
        for (row, text) in views.iter().enumerate() {
            if text.is_some_and(|text| !fits(text, chars_max)) {
                return Err(misfit(views, row, Problem::TooLong));
            }
        }
    }
    Ok(texts)
}

fn parse_texts(array: &ArrayRef, to: &SqlType) -> Converted {
    let texts = plain_cast(array, &DataType::Utf8View)?;
    let mut builder = ColumnBuilder::new(to, texts.len());
    let mut first = None;
    let mut found = |row: usize, problem: Problem| {
        first.get_or_insert((row, problem));
    };
    builder.append_all(&mut texts.as_string_view(), texts.len(), &mut found);
    match first {
        Some((row, problem)) => Err(misfit(&texts, row, problem)),
        None => Ok(builder.finish()),
    }
}

fn write_documents(array: &ArrayRef) -> Converted {
    rowmill_expr::kernels::cast::cast(array, &SqlType::Json.arrow(), false).map_err(|_| NotConverted::Types)
}

fn write_texts(array: &ArrayRef) -> Converted {
    let column = TextColumn::new(array).map_err(|_| NotConverted::Types)?;
    let mut builder = StringViewBuilder::with_capacity(array.len());
    let mut text = String::new();
    for row in 0..array.len() {
        text.clear();
        builder.append_option(column.write(row, &mut text).then_some(&text));
    }
    Ok(Arc::new(builder.finish()))
}

/// Converts a map of Arrow, whose keys are not NULL and, as we trust, distinct.
fn convert_map(array: &ArrayRef, key: &SqlType, value: &SqlType, to: &SqlType) -> Converted {
    let (_, offsets, entries, nulls, _) = array.as_map().clone().into_parts();
    let columns = vec![convert(entries.column(0), key)?, convert(entries.column(1), value)?];
    let DataType::List(item) = to.arrow() else { return Err(NotConverted::Types) };
    let DataType::Struct(fields) = item.data_type() else { return Err(NotConverted::Types) };
    let entries = StructArray::try_new(fields.clone(), columns, None).map_err(|_| NotConverted::Types)?;
    let list = ListArray::try_new(item, offsets, Arc::new(entries), nulls).map_err(|_| NotConverted::Types)?;
    Ok(Arc::new(list))
}

fn bytes_to_uuid(array: &ArrayRef) -> Converted {
    let bytes = plain_cast(array, &DataType::BinaryView)?;
    let views = bytes.as_binary_view();
    if let Some(row) = views.iter().position(|value| value.is_some_and(|value| value.len() != 16)) {
        return Err(misfit(views, row, Problem::Malformed));
    }
    let mut builder = arrow::array::FixedSizeBinaryBuilder::with_capacity(views.len(), 16);
    for value in views {
        match value {
            Some(value) => builder.append_value(value).map_err(|_| NotConverted::Types)?,
            None => builder.append_null(),
        }
    }
    Ok(Arc::new(builder.finish()))
}

fn bytes_to_numbered(array: &ArrayRef, kind: &NumberedType) -> Converted {
    let bytes = plain_cast(array, &DataType::BinaryView)?;
    let cast = rowmill_expr::kernels::cast::cast(&bytes, &kind.arrow(), true).map_err(|_| NotConverted::Types)?;
    match (0..cast.len()).find(|row| cast.is_null(*row) && bytes.is_valid(*row)) {
        Some(row) => Err(misfit(&bytes, row, Problem::Malformed)),
        None => Ok(cast),
    }
}

fn integer_to_boolean(array: &ArrayRef) -> Converted {
    let integers = checked_cast(array, array.data_type(), &DataType::Int64)?;
    let values = integers.as_primitive::<Int64Type>().values();
    // NULL rows may hold any number.
    let bad = (0..values.len()).find(|row| !matches!(values[*row], 0 | 1) && integers.is_valid(*row));
    match bad {
        Some(row) => Err(misfit(&integers, row, Problem::OutOfRange)),
        None => {
            let bits: BooleanBuffer = values.iter().map(|value| *value == 1).collect();
            Ok(Arc::new(BooleanArray::new(bits, integers.nulls().cloned())))
        }
    }
}

/// Converts whole floats to integers.
fn float_to_integer(array: &ArrayRef, to: &SqlType) -> Converted {
    let floats = plain_cast(array, &DataType::Float64)?;
    let values = floats.as_primitive::<Float64Type>().values();
    // We go through i128, because it holds the values of every integer type. The bound is a power of two, so it is
    // exact as a float.
    let bound = 2_f64.powi(100);
    let whole = |value: f64| (value.fract() == 0.0 && value.abs() < bound).then_some(value as i128);
    let wide: PrimitiveArray<Decimal128Type> = map_values(&floats, values, Problem::Malformed, whole)?;
    narrow(&floats, &wide, to)
}

/// Converts i128 values to integers of the type `to`. The text of a misfit is taken from `shown`.
fn narrow(shown: &ArrayRef, wide: &PrimitiveArray<Decimal128Type>, to: &SqlType) -> Converted {
    macro_rules! narrow_to {
        ($native:ty, $kind:ident) => {{
            let narrowed = |value: i128| <$native>::try_from(value).ok();
            let array: PrimitiveArray<arrow::datatypes::$kind> =
                map_values(shown, wide.values(), Problem::OutOfRange, narrowed)?;
            Ok(Arc::new(array))
        }};
    }
    match to {
        SqlType::Int8 => narrow_to!(i8, Int8Type),
        SqlType::Int16 => narrow_to!(i16, Int16Type),
        SqlType::Int32 => narrow_to!(i32, Int32Type),
        SqlType::Int64 => narrow_to!(i64, Int64Type),
        SqlType::UInt8 => narrow_to!(u8, UInt8Type),
        SqlType::UInt16 => narrow_to!(u16, UInt16Type),
        SqlType::UInt32 => narrow_to!(u32, UInt32Type),
        SqlType::UInt64 => narrow_to!(u64, UInt64Type),
        _ => Err(NotConverted::Types),
    }
}

fn narrow_float(array: &ArrayRef) -> Converted {
    let floats = plain_cast(array, &DataType::Float64)?;
    let narrowed = |value: f64| {
        // An infinity or NaN may stay one, but a finite value must not become infinite.
        let narrow = value as f32;
        (narrow.is_finite() || !value.is_finite()).then_some(narrow)
    };
    let values = floats.as_primitive::<Float64Type>().values();
    let array: PrimitiveArray<Float32Type> = map_values(&floats, values, Problem::OutOfRange, narrowed)?;
    Ok(Arc::new(array))
}

fn decimal_array(values: PrimitiveArray<Decimal128Type>, precision: u8, scale: u8) -> Converted {
    let array: Decimal128Array = values;
    let array = array.with_precision_and_scale(precision, scale as i8).map_err(|_| NotConverted::Types)?;
    Ok(Arc::new(array))
}

/// Converts each float to the decimal nearest to its shortest text, so that 0.1 becomes exactly 0.1.
fn float_to_decimal(array: &ArrayRef, precision: u8, scale: u8) -> Converted {
    let texts = write_texts(array)?;
    match parse_texts(&texts, &SqlType::Decimal { precision, scale }) {
        // NaN and the infinities are valid floats that DECIMAL lacks, so they are out of range and not malformed.
        Err(NotConverted::Value(misfit)) => Err(NotConverted::Value(Misfit { problem: Problem::OutOfRange, ..misfit })),
        other => other,
    }
}

/// The values of a decimal array as i128, and their scale.
fn wide_decimal(array: &ArrayRef) -> Result<(ArrayRef, i32), NotConverted> {
    let scale = match array.data_type() {
        DataType::Decimal32(_, scale) | DataType::Decimal64(_, scale) | DataType::Decimal128(_, scale) => *scale,
        DataType::Decimal256(_, scale) => *scale,
        _ => return Err(NotConverted::Types),
    };
    let wide = match array.data_type() {
        DataType::Decimal128(..) => Arc::clone(array),
        from => checked_cast(array, from, &DataType::Decimal128(38, scale))?,
    };
    Ok((wide, i32::from(scale)))
}

/// 10 to the power of `exponent`, if it fits into an i128.
fn power_of_ten(exponent: u32) -> Option<i128> {
    10_i128.checked_pow(exponent)
}

fn decimal_to_integer(array: &ArrayRef, to: &SqlType) -> Converted {
    if let (DataType::Decimal256(digits, scale @ 0..), Some(decimals)) =
        (array.data_type(), array.as_primitive_opt::<Decimal256Type>())
    {
        let factor = i256::from_i128(10).wrapping_pow(u32::from(scale.unsigned_abs()));
        let is_whole = |value: i256| value.wrapping_rem(factor) == i256::ZERO;
        if let Some(row) = (0..array.len()).find(|row| array.is_valid(*row) && !is_whole(decimals.value(*row))) {
            return Err(misfit(array, row, Problem::Malformed));
        }
        // No integer has as many digits as the decimals with 128 bits.
        let digits = digits.saturating_sub(scale.unsigned_abs()).clamp(1, NARROW_DIGITS_MAX);
        return decimal_to_integer(&by_wide_decimal(array, &DataType::Decimal128(digits, 0))?, to);
    }
    let (wide, scale) = wide_decimal(array)?;
    let factor = power_of_ten(scale.unsigned_abs()).ok_or(NotConverted::Types)?;
    let whole = |value: i128| {
        if scale < 0 { value.checked_mul(factor) } else { (value % factor == 0).then_some(value / factor) }
    };
    let values = wide.as_primitive::<Decimal128Type>().values();
    let wide_whole: PrimitiveArray<Decimal128Type> = map_values(&wide, values, Problem::Malformed, whole)?;
    narrow(&wide, &wide_whole, to)
}

/// Converts integers and decimals to decimals, where one of the types has 256 bits, or decimals of 256 bits to floats.
/// Digits after the scale are rounded half away from zero.
fn by_wide_decimal(array: &ArrayRef, to: &DataType) -> Converted {
    let exact = match array.data_type() {
        // Decimals of other programs may count in tens, hundreds and so on.
        from @ (DataType::Decimal32(_, ..0)
        | DataType::Decimal64(_, ..0)
        | DataType::Decimal128(_, ..0)
        | DataType::Decimal256(_, ..0)) => checked_cast(array, from, &DataType::Decimal256(WIDE_DIGITS_MAX, 0))?,
        DataType::Decimal32(_, scale) | DataType::Decimal64(_, scale) => {
            plain_cast(array, &DataType::Decimal128(NARROW_DIGITS_MAX, *scale))?
        }
        _ => Arc::clone(array),
    };
    let cast = rowmill_expr::kernels::cast::cast(&exact, to, true).map_err(|_| NotConverted::Types)?;
    match (0..cast.len()).find(|row| cast.is_null(*row) && exact.is_valid(*row)) {
        Some(row) => Err(misfit(&exact, row, Problem::OutOfRange)),
        None => Ok(cast),
    }
}

/// Converts integers and decimals to decimals. Digits after the scale are rounded half away from zero.
fn to_decimal(array: &ArrayRef, precision: u8, scale: u8) -> Converted {
    let (wide, from_scale) = match class(array.data_type()) {
        Class::Decimal => wide_decimal(array)?,
        _ => {
            // We go through BIGINT UNSIGNED where BIGINT is too narrow. Both are exact.
            let via = if *array.data_type() == DataType::UInt64 { DataType::UInt64 } else { DataType::Int64 };
            let integers = plain_cast(array, &via)?;
            (plain_cast(&integers, &DataType::Decimal128(38, 0))?, 0)
        }
    };
    let shift = i32::from(scale) - from_scale;
    let factor = power_of_ten(shift.unsigned_abs()).ok_or(NotConverted::Types)?;
    let bound = power_of_ten(u32::from(precision)).ok_or(NotConverted::Types)?;
    let rescaled = |value: i128| {
        let value = if shift >= 0 { value.checked_mul(factor)? } else { divide_rounding(value, factor) };
        (value.abs() < bound).then_some(value)
    };
    let values = wide.as_primitive::<Decimal128Type>().values();
    let array: PrimitiveArray<Decimal128Type> = map_values(&wide, values, Problem::OutOfRange, rescaled)?;
    decimal_array(array, precision, scale)
}

/// Divides, and rounds half away from zero.
fn divide_rounding(value: i128, divisor: i128) -> i128 {
    let (quotient, rest) = (value / divisor, value % divisor);
    if rest.unsigned_abs() * 2 >= divisor.unsigned_abs() { quotient + value.signum() } else { quotient }
}

/// The numbers of a timestamp array, and how many of its units make a second.
fn counts(array: &ArrayRef) -> Result<(ScalarBuffer<i64>, i64), NotConverted> {
    let per_second = match array.data_type() {
        DataType::Timestamp(ArrowUnit::Second, _) => 1,
        DataType::Timestamp(ArrowUnit::Millisecond, _) | DataType::Date64 => 1_000,
        DataType::Timestamp(ArrowUnit::Microsecond, _) => 1_000_000,
        DataType::Timestamp(ArrowUnit::Nanosecond, _) => 1_000_000_000,
        _ => return Err(NotConverted::Types),
    };
    let data = array.to_data();
    Ok((ScalarBuffer::new(data.buffers()[0].clone(), data.offset(), data.len()), per_second))
}

/// Converts timestamps at midnight to dates. Other timestamps are misfits.
fn to_date(array: &ArrayRef) -> Converted {
    let (values, per_second) = counts(array)?;
    let per_day = per_second * 86_400;
    let days = |value: i64| (value % per_day == 0).then(|| i32::try_from(value / per_day).ok()).flatten();
    let dates: PrimitiveArray<Date32Type> = map_values(array, &values, Problem::Malformed, days)?;
    Ok(Arc::new(dates))
}

fn to_timestamp(array: &ArrayRef, to: &SqlType) -> Converted {
    let SqlType::Timestamp { unit, zoned } = to else { return Err(NotConverted::Types) };
    let wanted = units_per_second(*unit);
    let converted: PrimitiveArray<Int64Type> = if *array.data_type() == DataType::Date32 {
        let values = array.as_primitive::<Date32Type>().values();
        map_values(array, values, Problem::OutOfRange, |days| i64::from(days).checked_mul(86_400 * wanted))?
    } else {
        let (values, per_second) = counts(array)?;
        map_values(array, &values, Problem::OutOfRange, |value: i64| {
            if wanted >= per_second {
                value.checked_mul(wanted / per_second)
            } else {
                // Rounds towards the past, so that fractions before 1970 are cut off like those after it.
                Some(value.div_euclid(per_second / wanted))
            }
        })?
    };
    let (_, values, nulls) = converted.into_parts();
    Ok(timestamps(values, nulls, *unit, *zoned))
}

fn to_interval(array: &ArrayRef) -> Converted {
    match array.data_type() {
        // We go through nanoseconds, the unit of intervals. A longer duration does not fit.
        DataType::Duration(_) => {
            let nanos = checked_cast(array, array.data_type(), &DataType::Duration(ArrowUnit::Nanosecond))?;
            plain_cast(&nanos, &SqlType::Interval.arrow())
        }
        DataType::Interval(IntervalUnit::YearMonth | IntervalUnit::DayTime) => {
            plain_cast(array, &SqlType::Interval.arrow())
        }
        _ => Err(NotConverted::Types),
    }
}

fn convert_list(array: &ArrayRef, item: &SqlType) -> Converted {
    let from = item_type(array.data_type()).ok_or(NotConverted::Types)?;
    let as_list = DataType::List(Arc::new(Field::new("item", from.clone(), true)));
    let list = plain_cast(array, &as_list)?;
    let list: &ListArray = list.as_list();
    // A slice of a list may not use all items. Items outside of it must not be checked.
    let (first, last) = (list.offsets()[0] as usize, list.offsets()[list.len()] as usize);
    let items = convert(&list.values().slice(first, last - first), item).map_err(|error| match error {
        // The misfit has the row of the item. We report the row of the list that contains it.
        NotConverted::Value(misfit) => {
            let at = (misfit.row + first) as i32;
            let row = list.offsets().partition_point(|offset| *offset <= at).saturating_sub(1);
            NotConverted::Value(Misfit { row, ..misfit })
        }
        other => other,
    })?;
    let offsets: Vec<i32> = list.offsets().iter().map(|offset| offset - first as i32).collect();
    let field = Arc::new(Field::new("item", item.arrow(), true));
    ListArray::try_new(field, OffsetBuffer::new(offsets.into()), items, list.nulls().cloned())
        .map(|list| Arc::new(list) as ArrayRef)
        .map_err(|_| NotConverted::Types)
}

fn convert_struct(array: &ArrayRef, to: &[(String, SqlType)]) -> Converted {
    let from = array.as_struct();
    let mut columns: Vec<Option<ArrayRef>> = vec![None; to.len()];
    for (field, column) in from.fields().iter().zip(from.columns()) {
        // Fields are matched by name. A field that the target lacks would be lost, so it is refused.
        let place = place_of(field.name(), to).ok_or(NotConverted::Types)?;
        columns[place] = Some(convert(&hidden(column, from.nulls())?, &to[place].1)?);
    }
    let fields = SqlType::Struct(to.to_vec()).arrow();
    let DataType::Struct(fields) = fields else { return Err(NotConverted::Types) };
    if fields.is_empty() {
        return Ok(Arc::new(StructArray::new_empty_fields(from.len(), from.nulls().cloned())));
    }
    let filled = columns.into_iter().zip(to);
    let columns =
        filled.map(|(column, (_, kind))| column.unwrap_or_else(|| new_null_array(&kind.arrow(), from.len()))).collect();
    StructArray::try_new(fields, columns, from.nulls().cloned())
        .map(|array| Arc::new(array) as ArrayRef)
        .map_err(|_| NotConverted::Types)
}

/// Returns a field of a struct with NULL wherever the struct is NULL, so that the values hidden there are not checked.
fn hidden(column: &ArrayRef, nulls: Option<&NullBuffer>) -> Converted {
    let Some(nulls) = nulls.filter(|nulls| nulls.null_count() > 0) else { return Ok(Arc::clone(column)) };
    let mask = BooleanArray::new(!nulls.inner(), None);
    arrow::compute::nullif(column, &mask).map_err(|_| NotConverted::Types)
}

#[cfg(test)]
mod tests {
    use arrow::array::{
        BinaryArray, Date32Array, Date64Array, Decimal256Array, DictionaryArray, DurationSecondArray, Float64Array,
        Int8Array, Int32Array, Int64Array, LargeStringArray, StringArray, StringViewArray, Time32SecondArray,
        TimestampNanosecondArray, TimestampSecondArray, UInt64Array,
    };
    use arrow::datatypes::{Int32Type, i256};
    use rowmill_base::TimeUnit;

    use super::*;

    const MICROS: SqlType = SqlType::Timestamp { unit: TimeUnit::Microsecond, zoned: false };

    /// The texts after the conversion, or the row, text and problem of the misfit.
    fn converted(array: impl Array + 'static, to: &SqlType) -> Result<Vec<String>, (usize, String, Problem)> {
        let array: ArrayRef = Arc::new(array);
        assert!(is_convertible(array.data_type(), to), "{} to {to}", array.data_type());
        let converted = convert(&array, to).map_err(|error| match error {
            NotConverted::Value(misfit) => (misfit.row, misfit.text, misfit.problem),
            NotConverted::Types => panic!("{} to {to} should be convertible", array.data_type()),
        })?;
        assert_eq!(converted.data_type(), &to.arrow());
        let column = TextColumn::new(&converted).expect("text");
        Ok((0..converted.len())
            .map(|row| {
                let mut text = String::new();
                if column.write(row, &mut text) { text } else { "NULL".to_owned() }
            })
            .collect())
    }

    fn fine(texts: &[&str]) -> Result<Vec<String>, (usize, String, Problem)> {
        Ok(texts.iter().map(|text| (*text).to_owned()).collect())
    }

    fn bad(row: usize, text: &str, problem: Problem) -> Result<Vec<String>, (usize, String, Problem)> {
        Err((row, text.to_owned(), problem))
    }

    #[test]
    fn numbers_are_kept_or_refused() {
        use Problem::{Malformed, OutOfRange};
        let decimal = |precision, scale| SqlType::Decimal { precision, scale };
        let ints = Int64Array::from(vec![Some(1), None, Some(300)]);
        assert_eq!(converted(ints.clone(), &SqlType::Int16), fine(&["1", "NULL", "300"]));
        assert_eq!(converted(ints.clone(), &SqlType::Int8), bad(2, "300", OutOfRange));
        assert_eq!(converted(ints.clone(), &SqlType::Float64), fine(&["1.0", "NULL", "300.0"]));
        assert_eq!(converted(ints.clone(), &decimal(5, 2)), fine(&["1.00", "NULL", "300.00"]));
        assert_eq!(converted(ints.clone(), &decimal(4, 2)), bad(2, "300", OutOfRange));
        assert_eq!(converted(ints.clone(), &SqlType::Boolean), bad(2, "300", OutOfRange));
        assert_eq!(converted(ints, &SqlType::TEXT), fine(&["1", "NULL", "300"]));
        assert_eq!(converted(Int8Array::from(vec![-1]), &SqlType::UInt64), bad(0, "-1", OutOfRange));
        assert_eq!(converted(UInt64Array::from(vec![u64::MAX]), &decimal(20, 0)), fine(&["18446744073709551615"]));
        assert_eq!(converted(Int8Array::from(vec![0, 1]), &SqlType::Boolean), fine(&["false", "true"]));
        let floats = Float64Array::from(vec![0.1, 2.5, -2.5]);
        assert_eq!(converted(floats.clone(), &decimal(3, 1)), fine(&["0.1", "2.5", "-2.5"]));
        assert_eq!(converted(floats.clone(), &decimal(3, 0)), fine(&["0", "3", "-3"]));
        assert_eq!(converted(floats, &SqlType::Int64), bad(0, "0.1", Malformed));
        assert_eq!(converted(Float64Array::from(vec![-7.0]), &SqlType::Int8), fine(&["-7"]));
        assert_eq!(converted(Float64Array::from(vec![1e19]), &SqlType::Int64), bad(0, "1e19", OutOfRange));
        assert_eq!(converted(Float64Array::from(vec![f64::NAN]), &SqlType::Int64), bad(0, "NaN", Malformed));
        assert_eq!(converted(Float64Array::from(vec![f64::NAN]), &decimal(5, 0)), bad(0, "NaN", OutOfRange));
        assert_eq!(converted(Float64Array::from(vec![1e39]), &SqlType::Float32), bad(0, "1e39", OutOfRange));
        assert_eq!(converted(Float64Array::from(vec![f64::INFINITY]), &SqlType::Float32), fine(&["Infinity"]));
        let money = Decimal128Array::from(vec![12_345, -50]).with_precision_and_scale(10, 2).expect("valid");
        assert_eq!(converted(money.clone(), &decimal(10, 1)), fine(&["123.5", "-0.5"]));
        assert_eq!(converted(money.clone(), &decimal(10, 0)), fine(&["123", "-1"]));
        assert_eq!(converted(money.clone(), &SqlType::Int32), bad(0, "123.45", Malformed));
        assert_eq!(converted(money, &SqlType::Float64), fine(&["123.45", "-0.5"]));
        let wide = Decimal256Array::from(vec![i256::from_i128(700)]).with_precision_and_scale(50, 2).expect("valid");
        assert_eq!(converted(wide, &SqlType::Int8), fine(&["7"]));
    }

    #[test]
    fn dates_and_times_are_kept_or_refused() {
        use Problem::{Malformed, OutOfRange};
        let days = Date32Array::from(vec![Some(15_917), None]);
        assert_eq!(converted(days, &MICROS), fine(&["2013-07-31 00:00:00", "NULL"]));
        assert_eq!(converted(Date64Array::from(vec![86_400_000]), &SqlType::Date), fine(&["1970-01-02"]));
        let nanos = TimestampNanosecondArray::from(vec![-1, 1_999]);
        let expected = ["1969-12-31 23:59:59.999999", "1970-01-01 00:00:00.000001"];
        assert_eq!(converted(nanos.clone(), &MICROS), fine(&expected));
        assert_eq!(converted(nanos.slice(0, 1), &SqlType::Date), bad(0, "1969-12-31 23:59:59.999999999", Malformed));
        let zoned = SqlType::Timestamp { unit: TimeUnit::Second, zoned: true };
        let berlin = TimestampSecondArray::from(vec![0]).with_timezone("Europe/Berlin");
        assert_eq!(converted(berlin, &zoned), fine(&["1970-01-01 00:00:00+00"]));
        let far = TimestampSecondArray::from(vec![i64::MAX / 1_000]);
        assert!(matches!(converted(far, &MICROS), Err((0, _, OutOfRange))));
        assert_eq!(converted(Time32SecondArray::from(vec![3_600]), &SqlType::Time), fine(&["01:00:00"]));
        assert_eq!(converted(DurationSecondArray::from(vec![90]), &SqlType::Interval), fine(&["00:01:30"]));
        assert!(!is_convertible(&DataType::Int64, &MICROS), "a number does not have a unit");
        assert!(!is_convertible(&DataType::Float64, &SqlType::Date));
    }

    #[test]
    fn texts_and_bytes_are_kept_or_refused() {
        use Problem::{Malformed, OutOfRange, TooLong};
        let texts = StringArray::from(vec![Some("2013-07-31"), None]);
        assert_eq!(converted(texts.clone(), &SqlType::Date), fine(&["2013-07-31", "NULL"]));
        assert_eq!(converted(texts, &SqlType::Text { chars_max: Some(4) }), bad(0, "2013-07-31", TooLong));
        let views = StringViewArray::from(vec!["ab", "abc"]);
        assert_eq!(converted(views, &SqlType::Text { chars_max: Some(2) }), bad(1, "abc", TooLong));
        assert_eq!(converted(LargeStringArray::from(vec!["x"]), &SqlType::Int8), bad(0, "x", Malformed));
        let bytes = BinaryArray::from(vec![&b"ok"[..], &[0xff]]);
        assert_eq!(converted(bytes.clone(), &SqlType::Blob), fine(&["\\x6f6b", "\\xff"]));
        assert_eq!(converted(bytes.clone(), &SqlType::TEXT), bad(1, "\\xff", OutOfRange));
        assert_eq!(converted(bytes, &SqlType::Uuid), bad(0, "\\x6f6b", Malformed));
        assert_eq!(
            converted(BinaryArray::from(vec![&[0x11; 16][..]]), &SqlType::Uuid),
            fine(&["11111111-1111-1111-1111-111111111111"])
        );
        let dictionary: DictionaryArray<Int32Type> = vec![Some("7"), None, Some("7")].into_iter().collect();
        assert_eq!(converted(dictionary, &SqlType::Int8), fine(&["7", "NULL", "7"]));
    }

    #[test]
    fn nested_values_are_converted_by_their_parts() {
        let list = ListArray::from_iter_primitive::<Int32Type, _, _>(vec![
            Some(vec![Some(1)]),
            None,
            Some(vec![Some(2), Some(300)]),
        ]);
        let bytes = SqlType::List(Box::new(SqlType::UInt8));
        assert_eq!(converted(list.clone(), &bytes), bad(2, "300", Problem::OutOfRange));
        assert_eq!(converted(list.slice(0, 2), &bytes), fine(&["[1]", "NULL"]));
        assert_eq!(converted(list.slice(2, 1), &bytes), bad(0, "300", Problem::OutOfRange));
        assert_eq!(converted(list, &SqlType::TEXT), fine(&["[1]", "NULL", "[2, 300]"]));
        let fields = vec![Arc::new(Field::new("A", DataType::Int32, true))];
        let values: ArrayRef = Arc::new(Int32Array::from(vec![Some(1), Some(1_000)]));
        let hidden = NullBuffer::from(vec![true, false]);
        let array = StructArray::new(fields.into(), vec![values], Some(hidden));
        let to = SqlType::Struct(vec![("b".to_owned(), SqlType::TEXT), ("a".to_owned(), SqlType::Int8)]);
        assert_eq!(converted(array, &to), fine(&[r#"{"b": null, "a": 1}"#, "NULL"]));
        assert!(!is_convertible(&DataType::Struct(vec![Field::new("z", DataType::Int8, true)].into()), &to));
    }
}
