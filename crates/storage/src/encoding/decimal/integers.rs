//! Floats that are short decimal numbers, stored as integers.
//!
//! The idea comes from ALP (Afroozeh, Kuffó and Boncz, "ALP: Adaptive Lossless floating-Point Compression", SIGMOD
//! 2024): most measured and entered numbers have a few digits after the point. So `value = integer / 10^digits` with
//! one number of digits per chunk, and the integers pack well. For example, 12.5 and 3.75 with two digits become 1250
//! and 375. If the division does not give back the same bits, the value is an exception and is stored separately with
//! its row. We replace ALP's two multiplications by one correctly rounded division by an exact power. It gives back
//! every decimal of up to 15 digits. Trailing zeros are left to the common factor, which divides all integers anyway.

use arrow::array::Array;
use arrow::buffer::NullBuffer;

use crate::chunk::FloatKind;
use crate::sequence::Word;

/// The maximum number of digits after the point. 10^22 is the last power of ten that a double holds exactly, but values
/// that need more digits than this are not short decimals.
pub(super) const DIGITS_MAX: u8 = 15;
/// The largest magnitude of an integer: 51 bits. Adding 1.5 * 2^52 to such a number rounds it to the nearest integer,
/// and subtracting it again leaves that integer. This needs no function call on processors without a rounding
/// instruction.
const INTEGER_MAX: f64 = 2_251_799_813_685_248.0;
const ROUNDER: f64 = 6_755_399_441_055_744.0;
/// Values that are tried to find the number of digits.
const SAMPLE: usize = 512;
/// A prime that is larger than the number of rows of a chunk, so that its multiples visit different rows.
const SCATTER: usize = 2_654_435_761;
/// At most one value in this many may be an exception.
const EXCEPTIONS_ONE_IN: usize = 8;

/// The power 10^`digits`.
pub(super) fn power(digits: u8) -> f64 {
    10f64.powi(i32::from(digits))
}

/// A column as decimals.
pub(super) struct Decimals<W> {
    pub(super) digits: u8,
    /// The integers as keys of 64-bit signed integers. An exception repeats the integer of the row before.
    pub(super) keys: Vec<u64>,
    /// The exception rows, ascending, and the keys of their values.
    pub(super) exception_rows: Vec<u32>,
    pub(super) exception_keys: Vec<W>,
}

#[inline]
fn to_integer<K: FloatKind>(value: K::Native, power: f64) -> Option<i64> {
    let scaled = K::double(value) * power;
    let rounded = scaled + ROUNDER - ROUNDER;
    // An integer is right only if decoding it gives back the same key, so we run the decoder here.
    let same = scaled.abs() <= INTEGER_MAX && K::key(K::nearest(rounded / power)) == K::key(value);
    same.then_some(rounded as i64)
}

/// Converts `array` to decimals if most of its values are short decimals. With `forced`, any number of exceptions is
/// allowed.
pub(super) fn find<K: FloatKind>(
    array: &dyn Array,
    nulls: Option<&NullBuffer>,
    forced: bool,
) -> Option<Decimals<K::Key>> {
    let data = array.to_data();
    let values = &data.buffer::<K::Native>(0)[..array.len()];
    // The sample is scattered, because a column often counts up and then every tenth value has one digit less than the
    // others.
    let sample: Vec<K::Native> = (0..SAMPLE.min(values.len()))
        .map(|pick| pick * SCATTER % values.len())
        .filter(|row| nulls.is_none_or(|nulls| nulls.is_valid(*row)))
        .map(|row| values[row])
        .collect();
    let hits = |digits: u8| sample.iter().filter(|value| to_integer::<K>(**value, power(digits)).is_some()).count();
    // Of the numbers of digits that fit the most values, we take the smallest. `max_by_key` returns the last maximum,
    // so we go downwards.
    let (digits, hits) = (0..=DIGITS_MAX).map(|digits| (digits, hits(digits))).rev().max_by_key(|(_, hits)| *hits)?;
    if !forced && (sample.len() - hits) * EXCEPTIONS_ONE_IN > sample.len() {
        return None;
    }
    convert::<K>(values, nulls, digits, forced)
}

fn convert<K: FloatKind>(
    values: &[K::Native],
    nulls: Option<&NullBuffer>,
    digits: u8,
    forced: bool,
) -> Option<Decimals<K::Key>> {
    let power = power(digits);
    let (mut rows, mut others) = (Vec::new(), Vec::new());
    let mut keys = Vec::with_capacity(values.len());
    // A row without an integer repeats the integer of the row before, which costs no bits. Such rows at the front
    // repeat the first integer.
    let mut last = values.iter().find_map(|value| to_integer::<K>(*value, power)).unwrap_or(0);
    for (row, value) in values.iter().enumerate() {
        if nulls.is_none_or(|nulls| nulls.is_valid(row)) {
            match to_integer::<K>(*value, power) {
                Some(integer) => last = integer,
                None => {
                    rows.push(row as u32);
                    others.push(K::key(*value));
                }
            }
        }
        keys.push((last as u64).flip_sign());
    }
    if !forced && rows.len() * EXCEPTIONS_ONE_IN > values.len() {
        return None;
    }
    Some(Decimals { digits, keys, exception_rows: rows, exception_keys: others })
}

/// The value of a stored integer.
#[inline]
pub(super) fn value<K: FloatKind>(key: u64, power: f64) -> K::Native {
    // For an integer of up to 51 bits, adding it to the bits of a double of this size adds it to the value of the
    // double.
    let integer = f64::from_bits(ROUNDER.to_bits().wrapping_add(key.flip_sign())) - ROUNDER;
    K::nearest(integer / power)
}

/// The key of the least integer whose value has a key of at least `key`. Returns `u128::MAX` if no integer is large
/// enough.
pub(super) fn integer_from<K: FloatKind>(key: u128, power: f64) -> u128 {
    // Values ascend with their integers, so we can search by halves.
    let (mut low, mut high) = (-(INTEGER_MAX as i64), INTEGER_MAX as i64 + 1);
    while low < high {
        // Compare by keys, because these have the order of the type, with NaN on top.
        let middle = low + (high - low) / 2;
        match K::key(value::<K>((middle as u64).flip_sign(), power)).widen() < key {
            true => low = middle + 1,
            false => high = middle,
        }
    }
    match low > INTEGER_MAX as i64 {
        true => u128::MAX,
        false => u128::from((low as u64).flip_sign()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use arrow::array::Float64Array;

    use super::*;
    use crate::chunk::{Kind, kinds::Float64};

    #[test]
    fn prices_become_cents_and_other_values_become_exceptions() {
        let mut values: Vec<f64> = (0..5000).map(|cents| f64::from(cents) / 100.0).collect();
        values[7] = f64::NAN;
        values[8] = 1e300;
        values[9] = std::f64::consts::PI;
        let found = find::<Float64>(&Float64Array::from(values.clone()), None, false).unwrap();
        assert_eq!((found.digits, found.exception_rows.len()), (2, 3));
        for (row, key) in found.keys.iter().enumerate() {
            let same = value::<Float64>(*key, power(2)).to_bits() == values[row].to_bits();
            assert_eq!(same, !(7..10).contains(&row));
        }
    }

    #[test]
    fn a_float_border_maps_to_the_least_integer_not_below_it() {
        for (border, integer) in
            [(0.07, 7), (0.070_000_000_1, 8), (-3.0, -300_i64), (0.0, 0), (1e-300, 1), (-1e-300, 0)]
        {
            let found = integer_from::<Float64>(u128::from(Float64::key(border)), power(2));
            assert_eq!(found, u128::from((integer as u64).flip_sign()), "{border}");
        }
        assert_eq!(integer_from::<Float64>(u128::from(Float64::key(f64::INFINITY)), power(2)), u128::MAX);
        let least = ((-(INTEGER_MAX as i64)) as u64).flip_sign();
        assert_eq!(integer_from::<Float64>(0, power(2)), u128::from(least));
    }

    #[test]
    fn values_that_are_no_short_decimals_are_not_converted() {
        let values: Vec<f64> = (1..5000).map(|row| f64::from(row).sqrt()).collect();
        assert!(find::<Float64>(&Float64Array::from(values), None, false).is_none());
    }
}
