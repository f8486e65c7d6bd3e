//! Reads values of results into Rust types.
//!
//! | Rust | SQL |
//! | --- | --- |
//! | `i8` to `i128`, `u8` to `u128` | whole numbers that fit; booleans; dates and times in their unit |
//! | `f32`, `f64` | REAL, DOUBLE; whole numbers that the type holds exactly; decimals of up to 6 or 15 digits |
//! | `bool` | BOOLEAN |
//! | `Decimal` | whole numbers and decimals |
//! | `String` | every type, as SQL writes it |
//! | `&str` | TEXT |
//! | `Vec<u8>`, `&[u8]` | BLOB, UUID, TEXT |
//! | `[u8; 16]` | UUID, and a BLOB of 16 bytes |
//! | `Vec<T>` | lists |
//! | `Option<T>` | a value that may be NULL |
//! | [`Value`] | every type |
//!
//! A value that the type cannot hold is an error. It never becomes another value.

use rowmill_base::{Result, SqlType};

use crate::cell::{AnyNumber, CellRef};
use crate::{Decimal, Value};

/// A type into which a value of a result can be read.
pub trait FromValue<'r>: Sized {
    /// Reads a value.
    fn from_value(cell: CellRef<'r>) -> Result<Self>;

    /// Reads the items of a list. Only bytes do this in another way.
    #[doc(hidden)]
    fn list_from_value(cell: CellRef<'r>) -> Result<Vec<Self>> {
        items(cell)
    }
}

fn items<'r, T: FromValue<'r>>(cell: CellRef<'r>) -> Result<Vec<T>> {
    match cell.items().filter(|_| !cell.is_null()) {
        Some(items) => items.map(T::from_value).collect(),
        None => Err(cell.refused("a list")),
    }
}

fn whole(cell: CellRef<'_>) -> Option<i128> {
    if cell.is_null() {
        return None;
    }
    match cell.number() {
        Some(AnyNumber::Whole(value)) => Some(value),
        Some(AnyNumber::Decimal(digits, scale)) => {
            let one = 10_i128.checked_pow(scale.into())?;
            (digits % one == 0).then_some(digits / one)
        }
        // Beyond 2^127 no double is an i128.
        Some(AnyNumber::Double(value)) => {
            let fits = value.fract() == 0.0 && value.abs() < 2_f64.powi(127);
            fits.then_some(value as i128)
        }
        Some(AnyNumber::WideDecimal(..)) => None,
        None => cell.boolean().map(i128::from).or_else(|| cell.time_units().map(i128::from)),
    }
}

macro_rules! integers {
    ($($kind:ident)*) => {$(
        impl FromValue<'_> for $kind {
            fn from_value(cell: CellRef<'_>) -> Result<Self> {
                let value = whole(cell).and_then(|value| $kind::try_from(value).ok());
                value.ok_or_else(|| cell.refused(stringify!($kind)))
            }
        }
    )*};
}

integers! { i8 i16 i32 i64 i128 isize u16 u32 u64 u128 usize }

impl<'r> FromValue<'r> for u8 {
    fn from_value(cell: CellRef<'r>) -> Result<Self> {
        let value = whole(cell).and_then(|value| u8::try_from(value).ok());
        value.ok_or_else(|| cell.refused("u8"))
    }

    fn list_from_value(cell: CellRef<'r>) -> Result<Vec<u8>> {
        match bytes(cell) {
            Some(bytes) => Ok(bytes.to_vec()),
            None if cell.items().is_some() => items(cell),
            None => Err(cell.refused("Vec<u8>")),
        }
    }
}

/// Decimals of at most this number of digits are read back from the nearest `f64`, or `f32`, without loss.
const F64_DIGITS: u32 = 15;
const F32_DIGITS: u32 = 6;

/// Reads a number as a double whose mantissa has `bits` bits.
fn double(cell: CellRef<'_>, bits: u32, digits_max: u32) -> Option<f64> {
    if cell.is_null() {
        return None;
    }
    match cell.number()? {
        AnyNumber::Double(value) => Some(value),
        AnyNumber::Whole(value) => (value.unsigned_abs() <= 1 << bits).then_some(value as f64),
        AnyNumber::Decimal(digits, scale) => {
            let fits = digits.unsigned_abs() < 10_u128.pow(digits_max);
            // Division of two exact doubles is rounded once, to the double that is nearest to the decimal.
            if fits && u32::from(scale) <= 22 {
                return Some(digits as f64 / 10_f64.powi(scale.into()));
            }
            fits.then(|| cell.to_text().ok().flatten()?.parse().ok()).flatten()
        }
        AnyNumber::WideDecimal(..) => None,
    }
}

impl FromValue<'_> for f64 {
    fn from_value(cell: CellRef<'_>) -> Result<Self> {
        double(cell, 53, F64_DIGITS).ok_or_else(|| cell.refused("f64"))
    }
}

impl FromValue<'_> for f32 {
    fn from_value(cell: CellRef<'_>) -> Result<Self> {
        let value = double(cell, 24, F32_DIGITS);
        let is_decimal = matches!(cell.number(), Some(AnyNumber::Decimal(..)));
        let fits = |value: &f64| is_decimal || value.is_nan() || f64::from(*value as f32) == *value;
        value.filter(fits).map(|value| value as f32).ok_or_else(|| cell.refused("f32"))
    }
}

impl FromValue<'_> for bool {
    fn from_value(cell: CellRef<'_>) -> Result<Self> {
        cell.boolean().filter(|_| !cell.is_null()).ok_or_else(|| cell.refused("bool"))
    }
}

impl FromValue<'_> for Decimal {
    fn from_value(cell: CellRef<'_>) -> Result<Self> {
        match cell.number().filter(|_| !cell.is_null()) {
            Some(AnyNumber::Decimal(digits, scale)) => Decimal::new(digits, scale),
            Some(AnyNumber::Whole(value)) => Decimal::new(value, 0),
            _ => Err(cell.refused("Decimal")),
        }
    }
}

impl FromValue<'_> for String {
    fn from_value(cell: CellRef<'_>) -> Result<Self> {
        if let (Some(text), false) = (cell.text(), cell.is_null()) {
            return Ok(text.to_owned());
        }
        cell.to_text()?.ok_or_else(|| cell.refused("String"))
    }
}

impl<'r> FromValue<'r> for &'r str {
    fn from_value(cell: CellRef<'r>) -> Result<Self> {
        cell.text().filter(|_| !cell.is_null()).ok_or_else(|| cell.refused("&str"))
    }
}

fn bytes<'r>(cell: CellRef<'r>) -> Option<&'r [u8]> {
    let bytes = cell.bytes().or_else(|| cell.text().map(str::as_bytes));
    bytes.filter(|_| !cell.is_null())
}

impl<'r> FromValue<'r> for &'r [u8] {
    fn from_value(cell: CellRef<'r>) -> Result<Self> {
        bytes(cell).ok_or_else(|| cell.refused("&[u8]"))
    }
}

impl FromValue<'_> for [u8; 16] {
    fn from_value(cell: CellRef<'_>) -> Result<Self> {
        let bytes = cell.bytes().filter(|_| !cell.is_null());
        bytes.and_then(|bytes| bytes.try_into().ok()).ok_or_else(|| cell.refused("[u8; 16]"))
    }
}

impl<'r, T: FromValue<'r>> FromValue<'r> for Vec<T> {
    fn from_value(cell: CellRef<'r>) -> Result<Self> {
        T::list_from_value(cell)
    }
}

impl<'r, T: FromValue<'r>> FromValue<'r> for Option<T> {
    fn from_value(cell: CellRef<'r>) -> Result<Self> {
        if cell.is_null() { Ok(None) } else { T::from_value(cell).map(Some) }
    }
}

impl<'r> FromValue<'r> for CellRef<'r> {
    fn from_value(cell: CellRef<'r>) -> Result<Self> {
        Ok(cell)
    }
}

impl FromValue<'_> for Value {
    fn from_value(cell: CellRef<'_>) -> Result<Self> {
        if cell.is_null() {
            return Ok(Value::Null);
        }
        if let Some(value) = cell.boolean() {
            return Ok(Value::Boolean(value));
        }
        let text = || Ok(Value::Text(cell.to_text()?.unwrap_or_default()));
        match (cell.number(), cell.kind()) {
            (Some(AnyNumber::Whole(value)), _) => Ok(match i64::try_from(value) {
                Ok(value) => Value::Integer(value),
                Err(_) => Value::Decimal(Decimal::new(value, 0)?),
            }),
            (Some(AnyNumber::Double(value)), _) => Ok(Value::Double(value)),
            (Some(AnyNumber::Decimal(digits, scale)), _) => Ok(Value::Decimal(Decimal::new(digits, scale)?)),
            (None, SqlType::Uuid) => <[u8; 16]>::from_value(cell).map(Value::Uuid),
            (None, SqlType::Blob) => Vec::from_value(cell).map(Value::Blob),
            (None, SqlType::List(_)) => Vec::from_value(cell).map(Value::List),
            // Dates, times and structs have no Rust type without a feature of this crate.
            _ => text(),
        }
    }
}
