//! The binary forms of parameters.

use bytes::Bytes;
use rowmill::arrow::array::{ArrayRef, Date32Array, Time64MicrosecondArray, TimestampMicrosecondArray};
use rowmill::text::format_value;
use std::fmt::Write;
use std::sync::Arc;

use super::array_text::push_item;
use super::{BoundValue, utf8};
use crate::encode::{EPOCH_DAYS, EPOCH_MICROS, NEGATIVE};
use crate::wire_error::{BAD_BINARY, WireError};
use rowmill::pg_types::{PgScalar, PgType};

/// Microseconds of a day.
const DAY_MICROS: i64 = 86_400_000_000;

/// The first byte of a value of the type `jsonb`.
const JSONB_VERSION: u8 = 1;

/// Decodes a value of the type `kind`.
pub(super) fn decode(kind: PgType, bytes: &Bytes) -> Result<BoundValue, WireError> {
    if kind.is_array {
        return array(bytes).map(BoundValue::Text);
    }
    scalar(kind.scalar, bytes)
}

fn scalar(kind: PgScalar, bytes: &Bytes) -> Result<BoundValue, WireError> {
    Ok(match kind {
        PgScalar::Bool => BoundValue::Boolean(fixed::<1>(bytes, "boolean")? != [0]),
        PgScalar::Int2 => BoundValue::Integer(i16::from_be_bytes(fixed(bytes, "smallint")?).into()),
        PgScalar::Int4 => BoundValue::Integer(i32::from_be_bytes(fixed(bytes, "integer")?).into()),
        PgScalar::Oid => BoundValue::Integer(u32::from_be_bytes(fixed(bytes, "oid")?).into()),
        PgScalar::Int8 => BoundValue::Integer(i64::from_be_bytes(fixed(bytes, "bigint")?)),
        PgScalar::Float4 => BoundValue::Double(f32::from_be_bytes(fixed(bytes, "real")?).into()),
        PgScalar::Float8 => BoundValue::Double(f64::from_be_bytes(fixed(bytes, "double precision")?)),
        PgScalar::Text | PgScalar::Json | PgScalar::Name => BoundValue::Text(utf8(bytes)?.to_owned()),
        // A zero byte is an empty text.
        PgScalar::Char => BoundValue::Text(utf8(bytes.strip_suffix(&[0]).unwrap_or(bytes))?.to_owned()),
        PgScalar::Jsonb => match bytes.strip_prefix(&[JSONB_VERSION]) {
            Some(text) => BoundValue::Text(utf8(text)?.to_owned()),
            None => return Err(wrong("jsonb", "its version is not 1")),
        },
        PgScalar::Int2vector | PgScalar::Oidvector => BoundValue::Text(array(bytes)?),
        PgScalar::Bytea => BoundValue::Blob(bytes.clone()),
        PgScalar::Uuid => BoundValue::Text(uuid(fixed(bytes, "uuid")?)),
        PgScalar::Date => BoundValue::Text(date(i32::from_be_bytes(fixed(bytes, "date")?))?),
        PgScalar::Time => {
            let micros = i64::from_be_bytes(fixed(bytes, "time")?);
            if !(0..DAY_MICROS).contains(&micros) {
                return Err(outside("time"));
            }
            BoundValue::Text(text_of(Arc::new(Time64MicrosecondArray::from(vec![micros])), "time")?)
        }
        PgScalar::Timestamp => BoundValue::Timestamp(micros(bytes, "timestamp")?),
        PgScalar::Timestamptz => {
            let micros = vec![micros(bytes, "timestamptz")?];
            let array = TimestampMicrosecondArray::from(micros).with_timezone("UTC");
            BoundValue::Text(text_of(Arc::new(array), "timestamptz")?)
        }
        PgScalar::Interval => BoundValue::Text(interval(fixed(bytes, "interval")?)),
        PgScalar::Numeric => DecimalValue::read(bytes)?.into_value()?,
    })
}

/// The error for a value that has a wrong length or contents.
fn wrong(kind: &str, what: impl std::fmt::Display) -> WireError {
    WireError::new(BAD_BINARY, format!("incorrect binary data for type {kind}: {what}"))
}

fn outside(kind: &str) -> WireError {
    WireError::new("22008", format!("a value of type {kind} is out of range"))
}

fn fixed<const N: usize>(bytes: &[u8], kind: &str) -> Result<[u8; N], WireError> {
    bytes.try_into().map_err(|_| wrong(kind, format_args!("{N} bytes are needed, {} were sent", bytes.len())))
}

fn text_of(array: ArrayRef, kind: &str) -> Result<String, WireError> {
    format_value(&array, 0).ok().flatten().ok_or_else(|| outside(kind))
}

fn date(days: i32) -> Result<String, WireError> {
    // The smallest and the largest number mean -infinity and infinity.
    let days = days.checked_add(EPOCH_DAYS).filter(|_| days != i32::MIN).ok_or_else(|| outside("date"))?;
    text_of(Arc::new(Date32Array::from(vec![days])), "date")
}

/// Reads a timestamp. Returns microseconds since 1970.
fn micros(bytes: &[u8], kind: &str) -> Result<i64, WireError> {
    let value = i64::from_be_bytes(fixed(bytes, kind)?);
    value.checked_add(EPOCH_MICROS).filter(|_| value != i64::MIN).ok_or_else(|| outside(kind))
}

fn uuid(bytes: [u8; 16]) -> String {
    let mut text = String::with_capacity(36);
    for (index, byte) in bytes.iter().enumerate() {
        if matches!(index, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// The text of an interval: `-3 mons 4 days -00:00:01.500000`.
fn interval(bytes: [u8; 16]) -> String {
    let (micros, rest) = bytes.split_at(8);
    let (days, months) = rest.split_at(4);
    let micros = i64::from_be_bytes(micros.try_into().expect("8 bytes"));
    let days = i32::from_be_bytes(days.try_into().expect("4 bytes"));
    let months = i32::from_be_bytes(months.try_into().expect("4 bytes"));
    let sign = if micros < 0 { "-" } else { "" };
    let (seconds, fraction) = (micros.unsigned_abs() / 1_000_000, micros.unsigned_abs() % 1_000_000);
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    format!("{months} mons {days} days {sign}{hours:02}:{minutes:02}:{seconds:02}.{fraction:06}")
}

/// Reads numbers from the front of bytes.
struct BinaryReader<'b> {
    rest: &'b [u8],
    kind: &'static str,
}

impl<'b> BinaryReader<'b> {
    fn take(&mut self, bytes: usize) -> Result<&'b [u8], WireError> {
        let (taken, rest) = self.rest.split_at_checked(bytes).ok_or_else(|| wrong(self.kind, "it ends too early"))?;
        self.rest = rest;
        Ok(taken)
    }

    fn i32(&mut self) -> Result<i32, WireError> {
        self.take(4).map(|bytes| i32::from_be_bytes(bytes.try_into().expect("4 bytes")))
    }

    fn u16(&mut self) -> Result<u16, WireError> {
        self.take(2).map(|bytes| u16::from_be_bytes(bytes.try_into().expect("2 bytes")))
    }

    fn end(&self) -> Result<(), WireError> {
        if self.rest.is_empty() { Ok(()) } else { Err(wrong(self.kind, "bytes follow its end")) }
    }
}

/// A decimal in digits of base 10,000.
struct DecimalValue {
    digits: Vec<u16>,
    weight: i16,
    is_negative: bool,
    scale: u16,
}

impl DecimalValue {
    fn read(bytes: &[u8]) -> Result<DecimalValue, WireError> {
        let mut reader = BinaryReader { rest: bytes, kind: "numeric" };
        let count = reader.u16()?;
        let weight = reader.u16()? as i16;
        let sign = reader.u16()?;
        let scale = reader.u16()?;
        if sign != 0 && sign != NEGATIVE {
            return Err(WireError::new("22003", "NaN and infinity are no values of a decimal type"));
        }
        let digits = (0..count).map(|_| reader.u16()).collect::<Result<Vec<u16>, _>>()?;
        reader.end()?;
        match digits.iter().all(|digit| *digit < 10_000) {
            true => Ok(DecimalValue { digits, weight, is_negative: sign == NEGATIVE, scale }),
            false => Err(wrong("numeric", "a digit is 10000 or more")),
        }
    }

    /// The text of the value.
    fn text(&self) -> String {
        let digit = |place: i32| {
            let index = i32::from(self.weight) - place;
            usize::try_from(index).ok().and_then(|index| self.digits.get(index)).copied().unwrap_or(0)
        };
        let mut text = String::from(if self.is_negative { "-" } else { "" });
        let first = i32::from(self.weight).max(0);
        let _ = write!(text, "{}", digit(first));
        for place in (0..first).rev() {
            let _ = write!(text, "{:04}", digit(place));
        }
        if self.scale > 0 {
            text.push('.');
            let end = text.len() + usize::from(self.scale);
            for place in 1..=i32::from(self.scale.div_ceil(4)) {
                let _ = write!(text, "{:04}", digit(-place));
            }
            text.truncate(end);
        }
        text
    }

    fn into_value(self) -> Result<BoundValue, WireError> {
        super::numeric::decimal(&self.text())
    }
}

/// The most dimensions of an array. PostgreSQL has the same limit.
const DIMENSIONS_MAX: i32 = 6;

/// Returns an array as a JSON list.
fn array(bytes: &Bytes) -> Result<String, WireError> {
    let mut reader = BinaryReader { rest: bytes, kind: "array" };
    let dimensions = reader.i32()?;
    let _has_nulls = reader.i32()?;
    let oid = reader.i32()? as u32;
    let item = PgType::of_oid(oid).filter(|item| !item.is_array);
    let item = item.ok_or_else(|| wrong("array", format_args!("its items have the unknown type {oid}")))?;
    if !(0..=DIMENSIONS_MAX).contains(&dimensions) {
        return Err(wrong("array", format_args!("it has {dimensions} dimensions")));
    }
    let mut lengths = Vec::new();
    for _ in 0..dimensions {
        let length = reader.i32()?;
        let _first_index = reader.i32()?;
        lengths.push(usize::try_from(length).map_err(|_| wrong("array", "a length is negative"))?);
    }
    let mut json = String::with_capacity(bytes.len());
    // Each item takes at least four bytes, so lengths that are too large end here and not in a long loop.
    let count = lengths.iter().try_fold(1_usize, |count, length| count.checked_mul(*length));
    let is_whole = count.and_then(|count| count.checked_mul(4)).is_some_and(|bytes| bytes <= reader.rest.len());
    if !lengths.is_empty() && !is_whole {
        return Err(wrong("array", "it ends too early"));
    }
    match lengths.as_slice() {
        // An array with a length of 0 is empty, whatever its other lengths.
        lengths if lengths.contains(&0) || lengths.is_empty() => json.push_str("[]"),
        lengths => items(&mut reader, bytes, item.scalar, lengths, &mut json)?,
    }
    reader.end()?;
    Ok(json)
}

fn items(
    reader: &mut BinaryReader<'_>,
    bytes: &Bytes,
    item: PgScalar,
    lengths: &[usize],
    json: &mut String,
) -> Result<(), WireError> {
    let Some((length, inner)) = lengths.split_first() else {
        let length = reader.i32()?;
        if length < 0 {
            json.push_str("null");
            return Ok(());
        }
        let value = reader.take(length as usize)?;
        return scalar(item, &bytes.slice_ref(value)).map(|value| push_value(item, &value, json));
    };
    json.push('[');
    for index in 0..*length {
        if index > 0 {
            json.push(',');
        }
        items(reader, bytes, item, inner, json)?;
    }
    json.push(']');
    Ok(())
}

fn push_value(item: PgScalar, value: &BoundValue, json: &mut String) {
    match value {
        BoundValue::Null => json.push_str("null"),
        BoundValue::Boolean(value) => json.push_str(if *value { "true" } else { "false" }),
        BoundValue::Integer(value) => json.push_str(itoa::Buffer::new().format(*value)),
        BoundValue::Double(value) => push_item(item, &format!("{value:?}"), json),
        BoundValue::Decimal(digits, scale) => push_item(item, &decimal_text(*digits, *scale), json),
        BoundValue::Text(text) => push_item(item, text, json),
        BoundValue::Blob(bytes) => push_item(item, &bytea_text(bytes), json),
        BoundValue::Timestamp(micros) => {
            let array: ArrayRef = Arc::new(TimestampMicrosecondArray::from(vec![*micros]));
            push_item(item, &format_value(&array, 0).ok().flatten().unwrap_or_default(), json);
        }
    }
}

/// The text of a decimal.
pub(crate) fn decimal_text(digits: i128, scale: u8) -> String {
    let scale = usize::from(scale);
    let unsigned = format!("{:0>1$}", digits.unsigned_abs(), scale + 1);
    let (whole, fraction) = unsigned.split_at(unsigned.len() - scale);
    let sign = if digits < 0 { "-" } else { "" };
    if scale == 0 { format!("{sign}{whole}") } else { format!("{sign}{whole}.{fraction}") }
}

/// The text of bytes: `\\x` and pairs of hexadecimal digits.
pub(crate) fn bytea_text(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 + 2 * bytes.len());
    text.push_str("\\x");
    for byte in bytes {
        let _ = write!(text, "{byte:02x}");
    }
    text
}
