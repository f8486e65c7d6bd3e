//! Sums and averages of decimals of more than 38 digits, for which groups have no state of their own.
//!
//! The binder cuts each value into three parts that are sums of their own, and puts the sums of the parts together:
//!
//! ```text
//!   value = part 2 * 2^168 + part 1 * 2^84 + part 0        parts 0 and 1: 84 bits, not negative
//!                                                          part 2: the rest, with the sign
//!   sum(value)   wide_sum(sum(part 0), sum(part 1), sum(part 2), scale)   where part i is wide_sum_part(value, i)
//! ```
//!
//! A part has at most 85 bits, so 38 digits hold its sum over more rows than a table can have. Only the whole sum can
//! be too large. A sum of distinct values cannot be cut, because different values may have equal parts. Its values are
//! collected in a list instead.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanBufferBuilder, Decimal256Array, Float64Array};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{DataType, Decimal128Type, Decimal256Type, Float64Type, i256};
use rowmill_base::{Error, Result, WIDE_DIGITS_MAX};
use rowmill_plan::Operand;
use rowmill_plan::function::{ArgumentKind, CallKinds};

use crate::functions::rowwise::{NumberArgument, bigints, numbers};
use crate::functions::signatures::{BIGINT, DOUBLE};
use crate::kinds::{DIGITS_MAX, is_wide_decimal, out_of_range};
use crate::unscaled::{Unscaled, write_wide_digits};

/// The type of a part and of the sum of parts.
const PART: DataType = DataType::Decimal128(DIGITS_MAX, 0);

/// The bits of the lower parts.
const PART_BITS: u8 = 84;

/// Digits after the last one of a decimal that an average computes before it is rounded to a double.
///
/// A count has at most 19 digits, so at least 26 of these digits are significant.
const AVERAGE_DIGITS: u32 = 45;

pub(super) fn part_kinds(arguments: &[ArgumentKind<'_>]) -> Option<CallKinds> {
    match arguments {
        [value, part] if is_wide_decimal(value.kind) && part.kind.is_integer() => {
            Some(CallKinds { arguments: vec![value.kind.clone(), BIGINT], result: PART })
        }
        _ => None,
    }
}

pub(super) fn part(arguments: &[Operand], kind: &DataType, rows: usize) -> Result<ArrayRef> {
    let (values, parts) = (NumberArgument::new::<Decimal256Type>(&arguments[0]), bigints(&arguments[1]));
    let mask = (i256::ONE << PART_BITS).wrapping_sub(i256::ONE);
    numbers::<Decimal128Type>(arguments, kind, rows, |row| {
        // The shift keeps the sign.
        let part = match parts.at(row) {
            0 => values.at(row) & mask,
            1 => values.at(row) >> PART_BITS & mask,
            _ => values.at(row) >> (2 * PART_BITS),
        };
        Ok(part.as_i128())
    })
}

pub(super) fn sum_kinds(arguments: &[ArgumentKind<'_>]) -> Option<CallKinds> {
    let [a, b, c, scale] = arguments else { return None };
    let result = DataType::Decimal256(WIDE_DIGITS_MAX, scale_of(scale)?);
    let are_parts = [a, b, c].iter().all(|part| *part.kind == PART);
    are_parts.then(|| CallKinds { arguments: vec![PART, PART, PART, BIGINT], result })
}

/// The scale that a literal names.
fn scale_of(argument: &ArgumentKind<'_>) -> Option<i8> {
    let scale = argument.constant?.as_bigint()?;
    i8::try_from(scale).ok().filter(|scale| (0..=WIDE_DIGITS_MAX as i8).contains(scale))
}

pub(super) fn sum(arguments: &[Operand], kind: &DataType, rows: usize) -> Result<ArrayRef> {
    let parts = [0, 1, 2].map(|part| NumberArgument::new::<Decimal128Type>(&arguments[part]));
    numbers::<Decimal256Type>(arguments, kind, rows, |row| {
        joined(parts.map(|part| part.at(row))).ok_or_else(|| out_of_range("a sum", kind))
    })
}

/// Puts the sums of parts together. `None` if the sum has more than 76 digits.
fn joined(parts: [i128; 3]) -> Option<i256> {
    let unit = i256::ONE << PART_BITS;
    let [low, middle, high] = parts.map(i256::from_i128);
    let sum = high.checked_mul(unit)?.checked_add(middle)?.checked_mul(unit)?.checked_add(low)?;
    sum.is_within(i256::power_of_ten(WIDE_DIGITS_MAX.into())).then_some(sum)
}

pub(super) fn average_kinds(arguments: &[ArgumentKind<'_>]) -> Option<CallKinds> {
    let [a, b, c, count, scale] = arguments else { return None };
    scale_of(scale)?;
    let fits = [a, b, c].iter().all(|part| *part.kind == PART) && count.kind.is_integer();
    fits.then(|| CallKinds { arguments: vec![PART, PART, PART, BIGINT, BIGINT], result: DOUBLE })
}

pub(super) fn average(arguments: &[Operand], kind: &DataType, rows: usize) -> Result<ArrayRef> {
    let parts = [0, 1, 2].map(|part| NumberArgument::new::<Decimal128Type>(&arguments[part]));
    let (counts, scales) = (bigints(&arguments[3]), bigints(&arguments[4]));
    numbers::<Float64Type>(arguments, kind, rows, |row| {
        let scale = scales.at(row);
        let total = DataType::Decimal256(WIDE_DIGITS_MAX, scale as i8);
        let sum = joined(parts.map(|part| part.at(row))).ok_or_else(|| out_of_range("a sum", &total))?;
        Ok(quotient(sum, counts.at(row), scale))
    })
}

/// The double nearest to `sum * 10^-scale / count`. The count must be positive.
fn quotient(sum: i256, count: i64, scale: i64) -> f64 {
    let divisor = i256::from_i128(count.max(1).into());
    let (size, sign) = (sum.absolute(), if sum.is_negative() { -1.0 } else { 1.0 });
    let (whole, rest) = (size.wrapping_div(divisor), size.wrapping_rem(divisor));
    // The rest is less than 2^63, so its product with 10^45 has less than 213 bits.
    let scaled = rest.wrapping_mul(i256::power_of_ten(AVERAGE_DIGITS));
    let (digits, left) = (scaled.wrapping_div(divisor), scaled.wrapping_rem(divisor));
    let mut text = String::new();
    write_wide_digits(whole, &mut text);
    let start = text.len();
    write_wide_digits(digits, &mut text);
    let written = text.len() - start;
    text.insert_str(start, &"0".repeat(AVERAGE_DIGITS as usize - written));
    // One more digit says whether anything was cut off, so that a double in the middle is rounded the right way.
    text.push(if left == i256::ZERO { '0' } else { '1' });
    text.push_str(&format!("e-{}", scale + i64::from(AVERAGE_DIGITS) + 1));
    sign * text.parse::<f64>().expect("digits and an exponent are a number")
}

pub(super) fn list_kinds(arguments: &[ArgumentKind<'_>]) -> Option<(DataType, i8)> {
    match arguments {
        [list] => match list.kind {
            DataType::List(item) => match item.data_type() {
                DataType::Decimal256(_, scale @ 0..) => Some((list.kind.clone(), *scale)),
                _ => None,
            },
            _ => None,
        },
        _ => None,
    }
}

pub(super) fn list_sum_kinds(arguments: &[ArgumentKind<'_>]) -> Option<CallKinds> {
    let (list, scale) = list_kinds(arguments)?;
    Some(CallKinds { arguments: vec![list], result: DataType::Decimal256(WIDE_DIGITS_MAX, scale) })
}

pub(super) fn list_average_kinds(arguments: &[ArgumentKind<'_>]) -> Option<CallKinds> {
    let (list, _) = list_kinds(arguments)?;
    Some(CallKinds { arguments: vec![list], result: DOUBLE })
}

pub(super) fn list_sum(arguments: &[Operand], kind: &DataType, rows: usize) -> Result<ArrayRef> {
    let (sums, nulls) = list_sums(&arguments[0], rows)?;
    let sums: Vec<i256> = sums.into_iter().map(|(sum, _)| sum).collect();
    Ok(Arc::new(Decimal256Array::new(sums.into(), Some(nulls)).with_data_type(kind.clone())))
}

pub(super) fn list_average(arguments: &[Operand], _kind: &DataType, rows: usize) -> Result<ArrayRef> {
    let scale = match arguments[0].values.data_type() {
        DataType::List(item) => crate::kinds::digits_and_scale(item.data_type()).map_or(0, |(_, scale)| scale),
        other => return Err(super::not_a_number(other)),
    };
    let (sums, nulls) = list_sums(&arguments[0], rows)?;
    let averages =
        sums.into_iter().map(|(sum, count)| if count == 0 { 0.0 } else { quotient(sum, count, scale.into()) });
    Ok(Arc::new(Float64Array::new(averages.collect::<Vec<_>>().into(), Some(nulls))))
}

/// The sum of the items of each list, and how many are not NULL. Rows without such an item are NULL.
fn list_sums(operand: &Operand, rows: usize) -> Result<(Vec<(i256, i64)>, NullBuffer)> {
    let lists = operand.values.as_list::<i32>();
    let items = lists.values().as_primitive_opt::<Decimal256Type>();
    let items = items.ok_or_else(|| Error::internal("a list of other values than wide decimals"))?;
    let bound = i256::power_of_ten(WIDE_DIGITS_MAX.into());
    let (mut sums, mut valid) = (Vec::with_capacity(rows), BooleanBufferBuilder::new(rows));
    for row in 0..rows {
        let list = operand.at(row);
        let places = match lists.is_valid(list) {
            true => lists.value_offsets()[list] as usize..lists.value_offsets()[list + 1] as usize,
            false => 0..0,
        };
        // Parts of the items are added, because a sum may leave 256 bits on the way and come back.
        let (mut high, mut low, mut count) = (0_i128, i256::ZERO, 0);
        for place in places.filter(|place| items.is_valid(*place)) {
            let value = items.value(place);
            high += value.to_parts().1;
            low = low.wrapping_add(i256::from_parts(value.to_parts().0, 0));
            count += 1;
        }
        let sum = i256::from_i128(high).checked_mul(i256::ONE << 128).and_then(|high| high.checked_add(low));
        let sum = sum.filter(|sum| sum.is_within(bound));
        let kind = DataType::Decimal256(WIDE_DIGITS_MAX, 0);
        sums.push((sum.ok_or_else(|| out_of_range("a sum", &kind))?, count));
        valid.append(count > 0);
    }
    Ok((sums, NullBuffer::new(valid.finish())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn averages_are_the_nearest_doubles() {
        let number = |text: &str| text.parse::<i256>().expect("a number");
        for (sum, count, scale, average) in [
            ("0", 3, 5, 0.0),
            ("10", 4, 0, 2.5),
            ("-10", 4, 1, -0.25),
            ("1", 3, 0, 1.0 / 3.0),
            ("9007199254740993", 1, 0, 9_007_199_254_740_992.0),
            ("18014398509481987", 2, 0, 9_007_199_254_740_994.0),
            ("9999999999999999999999999999999999999999999999999999999999999999999999999999", 1, 76, 1.0),
            ("1", 9_223_372_036_854_775_807, 76, 1.084_202_172_485_504_4e-95),
        ] {
            assert_eq!(quotient(number(sum), count, scale), average, "{sum} / {count}");
        }
    }

    #[test]
    fn parts_are_put_together_again() {
        let bound = i256::power_of_ten(76);
        for value in [
            i256::ZERO,
            i256::ONE,
            i256::MINUS_ONE,
            bound.wrapping_sub(i256::ONE),
            bound.wrapping_sub(i256::ONE).opposite(),
            i256::ONE << 84_u8,
            (i256::ONE << 168_u8).opposite(),
        ] {
            let operand = Operand::constant(Arc::new(Decimal256Array::from(vec![value])));
            let parts = [0, 1, 2].map(|part| {
                let place = Operand::constant(Arc::new(arrow::array::Int64Array::from(vec![part])));
                let part = super::part(&[operand.clone(), place], &PART, 1).expect("a part");
                part.as_primitive::<Decimal128Type>().value(0)
            });
            assert_eq!(joined(parts), Some(value));
        }
        assert_eq!(joined([0, 0, i128::MAX]), None);
    }
}
