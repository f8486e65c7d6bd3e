//! The bytes of numbers of 256 bits: of decimals of more than 38 digits, and of wide numbered types.
//!
//! Both forms have the order of the numbers, so code that compares, searches and sorts byte strings works on them.
//!
//! ```text
//!   ordered   32 bytes, big-endian, the highest bit flipped                             keys and rows of keyed tables
//!   compact   0 and greater   128 + n, and the last n bytes                             chunks
//!             less than 0     127 - n, and the last n bytes of the two's complement
//! ```
//!
//! A chunk whose numbers all have at most 38 digits stores them in 128 bits instead, like other decimals.
//!
//! In the compact form, n is the least number of bytes: those in front of them are all 0, or all 255 for a negative
//! number. So small numbers are short, and a value list compresses well.

use arrow::array::{Array, ArrayRef, AsArray, BinaryViewArray, BinaryViewBuilder, Decimal128Array, PrimitiveArray};
use arrow::datatypes::{DataType, Decimal128Type, Decimal256Type, i256};
use rowmill_base::{Error, NARROW_DIGITS_MAX, Result, SqlType};
use std::sync::Arc;

/// The bytes of a number.
pub const WIDE_BYTES: usize = 32;

/// The tag of 0. A positive number with `n` bytes has `ZERO + n`.
const ZERO: u8 = 128;

/// The tag of -1. A negative number with `n` bytes has `MINUS_ONE - n`.
const MINUS_ONE: u8 = 127;

/// Returns the bytes of a number in keys and rows of keyed tables.
#[inline]
pub(crate) fn ordered_bytes(value: i256) -> [u8; WIDE_BYTES] {
    let mut bytes = value.to_be_bytes();
    bytes[0] ^= 1 << 7;
    bytes
}

/// Returns the number that has these bytes in keys and rows of keyed tables.
#[inline]
pub fn of_ordered_bytes(mut bytes: [u8; WIDE_BYTES]) -> i256 {
    bytes[0] ^= 1 << 7;
    i256::from_be_bytes(bytes)
}

/// Appends the bytes of a number in chunks.
fn push_compact(value: i256, out: &mut Vec<u8>) {
    let bytes = value.to_be_bytes();
    let (padding, tag): (u8, fn(u8) -> u8) = match value.is_negative() {
        false => (0, |len| ZERO + len),
        true => (u8::MAX, |len| MINUS_ONE - len),
    };
    let start = bytes.iter().position(|byte| *byte != padding).unwrap_or(WIDE_BYTES);
    out.push(tag((WIDE_BYTES - start) as u8));
    out.extend_from_slice(&bytes[start..]);
}

/// Reads the bytes of a number in chunks. `None` if no number has them.
fn of_compact(bytes: &[u8]) -> Option<i256> {
    let (tag, bytes) = bytes.split_first()?;
    let (padding, len) = match tag.checked_sub(ZERO) {
        Some(len) => (0, len),
        None => (u8::MAX, MINUS_ONE - tag),
    };
    // Bytes of the padding in front would be a second form of the same number.
    let is_least = bytes.first().is_none_or(|first| *first != padding);
    if bytes.len() != usize::from(len) || bytes.len() > WIDE_BYTES || !is_least {
        return None;
    }
    let mut all = [padding; WIDE_BYTES];
    all[WIDE_BYTES - bytes.len()..].copy_from_slice(bytes);
    let value = i256::from_be_bytes(all);
    (value.is_negative() == (padding != 0)).then_some(value)
}

/// The values of `array`, which must be numbers of 256 bits, as the byte strings of chunks.
pub(crate) fn compact_strings(array: &dyn Array) -> Result<BinaryViewArray> {
    let values = array
        .as_primitive_opt::<Decimal256Type>()
        .ok_or_else(|| Error::internal(format!("{} has no numbers of 256 bits", array.data_type())))?;
    let mut strings = BinaryViewBuilder::with_capacity(values.len());
    let mut bytes = Vec::with_capacity(WIDE_BYTES + 1);
    for value in values {
        match value {
            Some(value) => {
                bytes.clear();
                push_compact(value, &mut bytes);
                strings.append_value(&bytes);
            }
            None => strings.append_null(),
        }
    }
    Ok(strings.finish())
}

/// The numbers of the byte strings of a chunk, as an array of the type `kind`.
pub(crate) fn numbers_of_compact(strings: &ArrayRef, kind: &DataType) -> Result<ArrayRef> {
    let strings = strings.as_binary_view();
    let mut is_damaged = false;
    let values = strings.iter().map(|bytes| {
        let value = bytes.map(of_compact);
        is_damaged |= value == Some(None);
        value.flatten().unwrap_or_default()
    });
    let values: Vec<i256> = values.collect();
    if is_damaged {
        return Err(Error::corrupt("a stored string is not a number of 256 bits"));
    }
    let values = PrimitiveArray::<Decimal256Type>::new(values.into(), strings.nulls().cloned());
    Ok(Arc::new(values.with_data_type(kind.clone())))
}

/// The type as which a chunk stores decimals of 256 bits that all have at most 38 digits: packed in few bits, as others
/// of 128 bits are.
pub(crate) const NARROW_KIND: SqlType = SqlType::Decimal { precision: NARROW_DIGITS_MAX, scale: 0 };

/// The values of `array` in 128 bits. `None` if one of them has more than 38 digits.
pub(crate) fn narrowed(array: &dyn Array) -> Option<Decimal128Array> {
    let bound = 10_i128.pow(NARROW_DIGITS_MAX.into());
    let mut fits = true;
    let values = array.as_primitive_opt::<Decimal256Type>()?.iter().map(|value| {
        let value = value.unwrap_or_default().to_i128().filter(|value| (-bound + 1..bound).contains(value));
        fits &= value.is_some();
        value.unwrap_or_default()
    });
    let values: Vec<i128> = values.collect();
    let nulls = array.nulls().cloned();
    fits.then(|| Decimal128Array::new(values.into(), nulls).with_data_type(NARROW_KIND.arrow()))
}

/// The values of an array of numbers of 128 bits as an array of the type `kind`.
pub(crate) fn widened(array: &ArrayRef, kind: &DataType) -> ArrayRef {
    let values = array.as_primitive::<Decimal128Type>();
    let wide = PrimitiveArray::<Decimal256Type>::from_unary(values, i256::from_i128);
    Arc::new(wide.with_data_type(kind.clone()))
}

/// The key of the least number of 128 bits that is not before `border`, a border between byte strings of chunks.
/// Numbers of a narrow chunk are less than 2^127 - 1, so the greatest key is the end of them.
pub(crate) fn narrow_key(border: &[u8]) -> u128 {
    let key = |value: i256| match value.to_i128() {
        Some(value) => value as u128 ^ 1 << 127,
        None if value.is_negative() => 0,
        None => u128::MAX,
    };
    match (of_compact(border), border.split_last()) {
        (Some(value), _) => key(value),
        // The border after a number is its string with a zero.
        (None, Some((0, number))) if let Some(value) = of_compact(number) => {
            // The key after the least number is right for all numbers below 128 bits too: none of them is stored.
            if value.to_i128().is_none() && value.is_negative() { 0 } else { key(value).saturating_add(1) }
        }
        // The border before all numbers.
        _ => 0,
    }
}

/// Makes an array of the type `kind` from one value of a chunk, a bound of its zone map.
pub(crate) fn number_of_compact(bytes: &[u8], kind: &DataType) -> Option<ArrayRef> {
    let value = of_compact(bytes)?;
    Some(Arc::new(PrimitiveArray::<Decimal256Type>::from(vec![value]).with_data_type(kind.clone())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples() -> Vec<i256> {
        let mut samples = vec![i256::MIN, i256::MAX, i256::ZERO];
        for bit in 0..255_u8 {
            let power: i256 = i256::ONE << bit;
            for value in [power, power.wrapping_sub(i256::ONE), power.wrapping_add(i256::ONE)] {
                samples.extend([value, value.wrapping_neg()]);
            }
        }
        samples.sort();
        samples.dedup();
        samples
    }

    #[test]
    fn bytes_have_the_order_of_the_numbers_and_read_back() {
        let compact: Vec<Vec<u8>> = samples()
            .into_iter()
            .map(|value| {
                let mut bytes = Vec::new();
                push_compact(value, &mut bytes);
                assert_eq!(of_compact(&bytes), Some(value));
                assert_eq!(of_ordered_bytes(ordered_bytes(value)), value);
                bytes
            })
            .collect();
        assert!(compact.is_sorted_by(|a, b| a < b));
        assert!(samples().is_sorted_by(|a, b| ordered_bytes(*a) < ordered_bytes(*b)));
    }

    #[test]
    fn bytes_that_no_number_has_are_refused() {
        let long = |tag: u8, byte: u8, len: usize| [vec![tag], vec![byte; len]].concat();
        for bytes in [
            vec![],
            vec![0],
            vec![128, 1],
            vec![129],
            vec![129, 0],
            vec![126],
            vec![126, 255],
            vec![130, 0, 1],
            long(255, 1, 127),
            long(0, 1, 127),
            long(161, 1, 33),
            // The highest bit says the other sign.
            long(160, 255, 32),
            long(95, 1, 32),
        ] {
            assert_eq!(of_compact(&bytes), None, "{bytes:?}");
            let strings: ArrayRef = Arc::new(BinaryViewArray::from(vec![Some(&bytes[..]), None]));
            assert!(numbers_of_compact(&strings, &DataType::Decimal256(76, 0)).is_err());
        }
    }
}
