//! Values of parameters: from PostgreSQL's text and binary forms to values that the engine takes.
//!
//! Dates, times, intervals, UUIDs and lists go to the engine as texts: it gives a text the type of its place, with the
//! same errors as for a literal. Nothing here trusts a length or a digit that a client sent.

mod array_text;
mod binary;
mod numeric;

use bytes::Bytes;
use rowmill::Param;

use crate::encode::WireFormat;
use crate::wire_error::WireError;
use rowmill::pg_types::{PgScalar, PgType};

pub(crate) use binary::{bytea_text, decimal_text};

/// The value of a parameter.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum BoundValue {
    Null,
    Boolean(bool),
    Integer(i64),
    Double(f64),
    Decimal(i128, u8),
    Text(String),
    Blob(Bytes),
    /// Microseconds since 1970.
    Timestamp(i64),
}

impl BoundValue {
    /// The value as the engine takes it.
    pub(crate) fn param(&self) -> Param<'_> {
        match self {
            BoundValue::Null => Param::Null,
            BoundValue::Boolean(value) => Param::Boolean(*value),
            BoundValue::Integer(value) => Param::Integer(*value),
            BoundValue::Double(value) => Param::Double(*value),
            BoundValue::Decimal(digits, scale) => Param::Decimal(*digits, *scale),
            BoundValue::Text(value) => Param::Text(value),
            BoundValue::Blob(value) => Param::Blob(value),
            BoundValue::Timestamp(micros) => Param::Timestamp(*micros),
        }
    }
}

const INVALID_TEXT: &str = "22P02";
const OUT_OF_RANGE: &str = "22003";
const BAD_ENCODING: &str = "22021";

/// Decodes a value of the type `kind`.
pub(crate) fn decode(kind: PgType, format: WireFormat, bytes: &Bytes) -> Result<BoundValue, WireError> {
    match format {
        WireFormat::Binary => binary::decode(kind, bytes),
        WireFormat::Text => decode_text(kind, utf8(bytes)?),
    }
}

/// Checks that bytes are UTF-8.
pub(crate) fn utf8(bytes: &[u8]) -> Result<&str, WireError> {
    let text = std::str::from_utf8(bytes).map_err(|error| {
        WireError::new(BAD_ENCODING, format!("a text is not UTF-8 at byte {}", error.valid_up_to()))
    })?;
    match text.contains('\0') {
        true => Err(WireError::new(BAD_ENCODING, "a text contains a zero byte, which PostgreSQL's texts cannot")),
        false => Ok(text),
    }
}

fn decode_text(kind: PgType, text: &str) -> Result<BoundValue, WireError> {
    if kind.is_array {
        return array_text::to_json(kind.scalar, text).map(BoundValue::Text);
    }
    let number = text.trim();
    match kind.scalar {
        PgScalar::Bool => boolean(number).map(BoundValue::Boolean),
        PgScalar::Int2 => integer(number, i16::MIN.into(), i16::MAX.into(), "smallint"),
        PgScalar::Int4 => integer(number, i32::MIN.into(), i32::MAX.into(), "integer"),
        PgScalar::Int8 => integer(number, i64::MIN, i64::MAX, "bigint"),
        PgScalar::Float4 | PgScalar::Float8 => double(number).map(BoundValue::Double),
        PgScalar::Oid => integer(number, 0, u32::MAX.into(), "oid"),
        PgScalar::Numeric => numeric::decimal(number),
        // PostgreSQL takes a timestamp for a date, and some clients send one for every point in time.
        PgScalar::Date => Ok(BoundValue::Text(without_time(number).to_owned())),
        PgScalar::Int2vector | PgScalar::Oidvector => {
            let items: Vec<&str> = number.split_ascii_whitespace().collect();
            array_text::to_json(PgScalar::Int8, &format!("{{{}}}", items.join(","))).map(BoundValue::Text)
        }
        PgScalar::Bytea => bytea(text).map(BoundValue::Blob),
        _ => Ok(BoundValue::Text(text.to_owned())),
    }
}

/// The error for a text that is no value of its type.
fn invalid(kind: &str, text: &str) -> WireError {
    WireError::new(INVALID_TEXT, format!("invalid input syntax for type {kind}: \"{text}\""))
}

fn boolean(text: &str) -> Result<bool, WireError> {
    let lower = text.to_ascii_lowercase();
    let is_start = |word: &str, letters: usize| lower.len() >= letters && word.starts_with(&lower);
    if is_start("true", 1) || is_start("yes", 1) || lower == "on" || lower == "1" {
        return Ok(true);
    }
    if is_start("false", 1) || is_start("no", 1) || is_start("off", 2) || lower == "0" {
        return Ok(false);
    }
    Err(invalid("boolean", text))
}

fn integer(text: &str, min: i64, max: i64, kind: &str) -> Result<BoundValue, WireError> {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(invalid(kind, text));
    }
    match text.parse::<i64>() {
        Ok(value) if (min..=max).contains(&value) => Ok(BoundValue::Integer(value)),
        _ => Err(WireError::new(OUT_OF_RANGE, format!("value \"{text}\" is out of range for type {kind}"))),
    }
}

/// The date of a text that may have a time of day after it.
fn without_time(text: &str) -> &str {
    match text.split_once(['T', ' ']) {
        Some((date, time)) if time.starts_with(|digit: char| digit.is_ascii_digit()) && time.contains(':') => date,
        _ => text,
    }
}

fn double(text: &str) -> Result<f64, WireError> {
    text.parse().map_err(|_| invalid("double precision", text))
}

/// Reads `\x` and pairs of hexadecimal digits, or bytes with escapes: `\\` and `\ooo`, three octal digits.
fn bytea(text: &str) -> Result<Bytes, WireError> {
    let wrong = || invalid("bytea", text);
    if let Some(digits) = text.strip_prefix("\\x") {
        let digits: Vec<u8> = digits.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
        let nibble = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8).ok_or_else(wrong);
        let pairs = digits.chunks(2).map(|pair| match pair {
            [high, low] => Ok(nibble(*high)? << 4 | nibble(*low)?),
            _ => Err(wrong()),
        });
        return pairs.collect::<Result<Vec<u8>, _>>().map(Bytes::from);
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        rest = match (first, after) {
            (b'\\', [b'\\', after @ ..]) => {
                bytes.push(b'\\');
                after
            }
            (b'\\', [a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', after @ ..]) => {
                bytes.push((a - b'0') << 6 | (b - b'0') << 3 | (c - b'0'));
                after
            }
            (b'\\', _) => return Err(wrong()),
            (byte, after) => {
                bytes.push(*byte);
                after
            }
        };
    }
    Ok(Bytes::from(bytes))
}

#[cfg(test)]
mod tests;
