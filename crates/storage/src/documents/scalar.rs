//! Scalars of documents as values of a column, and back.
//!
//! A scalar may be taken out of a document only if its value is written in exactly one way: `1.50` and `1.5` are the
//! same DOUBLE, so we take only the text that [`ScalarValues::write`] makes.

use std::fmt::Write;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanBuilder, Float64Array, Float64Builder, Int64Array, Int64Builder, StringViewArray,
    StringViewBuilder,
};
use arrow::datatypes::{Float64Type, Int64Type};
use rowmill_base::{Error, Result, SqlType};

use super::walk::ValueClass;

/// The type of the values of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum PartType {
    /// Truth values.
    Boolean = 1,
    /// Whole numbers of 64 bits.
    Integer = 2,
    /// Numbers.
    Double = 3,
    /// Strings.
    Text = 4,
}

impl PartType {
    /// All types, in the order of their numbers.
    pub(crate) const ALL: [PartType; 4] = [PartType::Boolean, PartType::Integer, PartType::Double, PartType::Text];

    /// The type of a stored number.
    pub(super) fn from_number(number: u8) -> Option<PartType> {
        PartType::ALL.into_iter().find(|kind| *kind as u8 == number)
    }

    /// The type of the column.
    pub fn sql(self) -> SqlType {
        match self {
            PartType::Boolean => SqlType::Boolean,
            PartType::Integer => SqlType::Int64,
            PartType::Double => SqlType::Float64,
            PartType::Text => SqlType::TEXT,
        }
    }

    /// The narrowest type of a scalar. `None` for `null`, objects, arrays, and scalars that no type takes.
    pub(super) fn of(class: ValueClass, token: &str, scratch: &mut String) -> Option<PartType> {
        match class {
            ValueClass::Boolean => Some(PartType::Boolean),
            ValueClass::String => Some(PartType::Text),
            ValueClass::Number if integer_of(token).is_some() => Some(PartType::Integer),
            ValueClass::Number => double_of(token, scratch).map(|_| PartType::Double),
            ValueClass::Null | ValueClass::Nested => None,
        }
    }
}

/// The whole number that is written as `token`, if we would write it so.
fn integer_of(token: &str) -> Option<i64> {
    let digits = token.strip_prefix('-').unwrap_or(token);
    let is_plain = digits.bytes().all(|byte| byte.is_ascii_digit()) && (!digits.starts_with('0') || token == "0");
    if is_plain { token.parse().ok() } else { None }
}

/// The number that is written as `token`, if we would write it so.
fn double_of(token: &str, scratch: &mut String) -> Option<f64> {
    let value: f64 = token.parse().ok()?;
    // Columns of floats have one zero.
    if value == 0.0 && value.is_sign_negative() {
        return None;
    }
    scratch.clear();
    write_double(value, scratch);
    (*scratch == *token).then_some(value)
}

fn write_double(value: f64, out: &mut String) {
    // Writing to a String does not fail.
    let _ = write!(out, "{value}");
}

/// The meaning of the inside of a string with escapes. `None` if an escape is wrong or half of a character.
pub(super) fn unescaped(inside: &str) -> Option<String> {
    let mut out = String::with_capacity(inside.len());
    let mut rest = inside;
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        let kind = *rest.as_bytes().get(at + 1)?;
        rest = rest.get(at + 2..)?;
        out.push(match kind {
            b'"' | b'\\' | b'/' => char::from(kind),
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => {
                let (unit, after) = unit_of(rest)?;
                rest = after;
                match unit {
                    0xd800..0xdc00 => {
                        let (low, after) = unit_of(rest.strip_prefix("\\u")?)?;
                        rest = after;
                        char::decode_utf16([unit, low]).next()?.ok()?
                    }
                    unit => char::from_u32(u32::from(unit))?,
                }
            }
            _ => return None,
        });
    }
    out.push_str(rest);
    Some(out)
}

/// The number that the first four hexadecimal digits make, and the text after them.
fn unit_of(text: &str) -> Option<(u16, &str)> {
    let digits = text.get(..4)?;
    let unit = digits.bytes().all(|byte| byte.is_ascii_hexdigit()).then(|| u16::from_str_radix(digits, 16).ok())??;
    Some((unit, &text[4..]))
}

/// Writes a string with the escapes that JSON demands and no others.
fn write_escaped(value: &str, out: &mut String) {
    let mut start = 0;
    for (at, byte) in value.bytes().enumerate() {
        let escape = match byte {
            b'"' => "\\\"",
            b'\\' => "\\\\",
            0x8 => "\\b",
            0xc => "\\f",
            b'\n' => "\\n",
            b'\r' => "\\r",
            b'\t' => "\\t",
            0..0x20 => "\\u",
            _ => continue,
        };
        // These bytes are characters of their own, so the text may be cut before and after them.
        out.push_str(&value[start..at]);
        out.push_str(escape);
        if escape == "\\u" {
            let _ = write!(out, "{byte:04x}");
        }
        start = at + 1;
    }
    out.push_str(&value[start..]);
}

/// Collects the values of one part. Rows without a value are NULL.
#[derive(Debug)]
pub(super) enum PartBuilder {
    Boolean(BooleanBuilder),
    Integer(Int64Builder),
    Double(Float64Builder),
    Text(StringViewBuilder),
}

impl PartBuilder {
    pub(super) fn new(kind: PartType, rows: usize) -> PartBuilder {
        match kind {
            PartType::Boolean => PartBuilder::Boolean(BooleanBuilder::with_capacity(rows)),
            PartType::Integer => PartBuilder::Integer(Int64Builder::with_capacity(rows)),
            PartType::Double => PartBuilder::Double(Float64Builder::with_capacity(rows)),
            PartType::Text => PartBuilder::Text(StringViewBuilder::with_capacity(rows)),
        }
    }

    /// Appends NULLs up to row `row`, and then the value of `token`. Returns `false` and appends no value if the value
    /// would be written differently.
    pub(super) fn take(&mut self, row: usize, class: ValueClass, token: &str, scratch: &mut String) -> bool {
        self.fill(row);
        match (self, class) {
            (PartBuilder::Boolean(values), ValueClass::Boolean) if matches!(token, "true" | "false") => {
                values.append_value(token == "true");
                true
            }
            (PartBuilder::Integer(values), ValueClass::Number) => {
                integer_of(token).map(|value| values.append_value(value)).is_some()
            }
            (PartBuilder::Double(values), ValueClass::Number) => {
                double_of(token, scratch).map(|value| values.append_value(value)).is_some()
            }
            (PartBuilder::Text(values), ValueClass::String) => take_text(values, &token[1..token.len() - 1], scratch),
            _ => false,
        }
    }

    /// Appends NULLs up to row `row`.
    pub(super) fn fill(&mut self, row: usize) {
        match self {
            PartBuilder::Boolean(values) => values.append_nulls(row - arrow::array::ArrayBuilder::len(values)),
            PartBuilder::Integer(values) => values.append_nulls(row - arrow::array::ArrayBuilder::len(values)),
            PartBuilder::Double(values) => values.append_nulls(row - arrow::array::ArrayBuilder::len(values)),
            PartBuilder::Text(values) => {
                for _ in arrow::array::ArrayBuilder::len(values)..row {
                    values.append_null();
                }
            }
        }
    }

    /// The values.
    pub(super) fn finish(self) -> ArrayRef {
        match self {
            PartBuilder::Boolean(mut values) => Arc::new(values.finish()),
            PartBuilder::Integer(mut values) => Arc::new(values.finish()),
            PartBuilder::Double(mut values) => Arc::new(values.finish()),
            PartBuilder::Text(mut values) => Arc::new(values.finish()),
        }
    }
}

fn take_text(values: &mut StringViewBuilder, inside: &str, scratch: &mut String) -> bool {
    // Bytes below the space are no JSON, and we would write them differently.
    if !inside.bytes().any(|byte| byte == b'\\' || byte < b' ') {
        return values.try_append_value(inside).is_ok();
    }
    let Some(value) = unescaped(inside) else { return false };
    scratch.clear();
    write_escaped(&value, scratch);
    *scratch == *inside && values.try_append_value(&value).is_ok()
}

/// The values of one part for some rows.
#[derive(Debug)]
pub(super) enum ScalarValues<'a> {
    Boolean(&'a arrow::array::BooleanArray),
    Integer(&'a Int64Array),
    Double(&'a Float64Array),
    Text(&'a StringViewArray),
}

impl<'a> ScalarValues<'a> {
    /// The values of `array`, which must have the type of the part.
    pub(super) fn new(kind: PartType, array: &'a ArrayRef) -> Result<ScalarValues<'a>> {
        let values = match kind {
            PartType::Boolean => array.as_boolean_opt().map(ScalarValues::Boolean),
            PartType::Integer => array.as_primitive_opt::<Int64Type>().map(ScalarValues::Integer),
            PartType::Double => array.as_primitive_opt::<Float64Type>().map(ScalarValues::Double),
            PartType::Text => array.as_string_view_opt().map(ScalarValues::Text),
        };
        values.ok_or_else(|| Error::internal(format!("a part of {} was read as {}", kind.sql(), array.data_type())))
    }

    /// Writes the value of a row as JSON. Returns `false` if it is NULL.
    pub(super) fn write(&self, row: usize, out: &mut String) -> bool {
        match self {
            ScalarValues::Boolean(values) if values.is_valid(row) => {
                out.push_str(if values.value(row) { "true" } else { "false" });
            }
            ScalarValues::Integer(values) if values.is_valid(row) => {
                let _ = write!(out, "{}", values.value(row));
            }
            ScalarValues::Double(values) if values.is_valid(row) => write_double(values.value(row), out),
            ScalarValues::Text(values) if values.is_valid(row) => {
                out.push('"');
                write_escaped(values.value(row), out);
                out.push('"');
            }
            _ => return false,
        }
        true
    }
}
