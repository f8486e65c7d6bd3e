//! Rounding of integers, decimals and floats.
//!
//! A decimal is an integer `unscaled` with a scale: `unscaled / 10^scale`. Rounding it to `places` digits after the
//! point divides by `10^(scale - places)`, which is exact. The result's type has `places` digits after the point if
//! that is a literal, and otherwise the digits of the argument. It must have one more digit before the point because,
//! for example, 9.99 becomes 10.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, ArrowPrimitiveType};
use arrow::datatypes::{
    DataType, Decimal128Type, Decimal256Type, DecimalType, Float32Type, Float64Type, Int32Type, i256,
};
use rowmill_base::{Result, decimal_arrow};
use rowmill_plan::Operand;
use rowmill_plan::function::{ArgumentKind, CallKinds};

use super::float::{apply, canonical, repeated};
use super::{for_integer, not_a_number, whole};
use crate::functions::rowwise::{NumberArgument, bigints, numbers};
use crate::functions::signatures::{BIGINT, number, stands_for};
use crate::kinds::{digits_and_scale, digits_max_of, is_decimal, is_wide_decimal, out_of_range};
use crate::unscaled::Unscaled;

/// The side that a number is rounded to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    HalfAwayFromZero,
    HalfToEven,
    TowardZero,
    Up,
    Down,
}

impl Direction {
    /// Returns `value / 10^digits`, rounded.
    fn divide<N: Unscaled>(self, value: N, digits: u32) -> N {
        let (zero, one) = (N::of(0), N::of(1));
        let Some(divisor) = N::checked_power_of_ten(digits) else {
            // The divisor is larger than every decimal, so the quotient is less than one half.
            return match self {
                Direction::Up if value > zero => one,
                Direction::Down if value < zero => one.opposite(),
                _ => zero,
            };
        };
        if self == Direction::HalfAwayFromZero && divisor > one {
            return value.divide_rounding(divisor);
        }
        let quotient = value.quotient(divisor).expect("a power of ten is not zero");
        let rest = value.remainder(divisor).expect("a power of ten is not zero");
        match self {
            Direction::HalfToEven => {
                // We compare the rest with its distance to the divisor, because twice the rest may not fit.
                let (rest, is_odd) = (rest.absolute(), quotient.remainder(N::of(2)) != Some(zero));
                let missing = divisor.difference_in_range(rest);
                let is_away = rest > missing || rest == missing && is_odd;
                match is_away {
                    true if value < zero => quotient.difference_in_range(one),
                    true => quotient.sum_in_range(one),
                    false => quotient,
                }
            }
            Direction::Up if rest > zero => quotient.sum_in_range(one),
            Direction::Down if rest < zero => quotient.difference_in_range(one),
            _ => quotient,
        }
    }

    #[inline]
    fn float(self, value: f64) -> f64 {
        match self {
            Direction::HalfAwayFromZero => whole::round(value),
            Direction::HalfToEven => whole::round_ties_even(value),
            Direction::TowardZero => whole::trunc(value),
            Direction::Up => whole::ceil(value),
            Direction::Down => whole::floor(value),
        }
    }
}

/// Returns the type of a decimal rounded to whole numbers. Every other type stays.
pub(super) fn whole_kind(kind: &DataType) -> DataType {
    rounded_kind(kind, Some(0), 1)
}

/// Returns the type of a number rounded to `places`, with room for `carry` more digits. `places` is `None` if it is not
/// a literal.
fn rounded_kind(kind: &DataType, places: Option<i64>, carry: u8) -> DataType {
    let Some((precision, scale)) = digits_and_scale(kind).filter(|_| is_decimal(kind)) else { return kind.clone() };
    let kept = places.map_or(scale, |places| places.clamp(0, i64::from(scale.max(0))) as i8);
    // Nothing is cut off, so the type does not change.
    if kept == scale && places.is_some_and(|places| places >= i64::from(scale)) {
        return kind.clone();
    }
    let precision = i16::from(precision) - i16::from(scale) + i16::from(kept) + i16::from(carry);
    decimal_arrow(precision.clamp(1, digits_max_of([kind, kind]).into()) as u8, kept)
}

pub(super) fn round_kinds(arguments: &[ArgumentKind<'_>]) -> Option<CallKinds> {
    rounding_kinds(arguments, 1)
}

pub(super) fn trunc_kinds(arguments: &[ArgumentKind<'_>]) -> Option<CallKinds> {
    rounding_kinds(arguments, 0)
}

fn rounding_kinds(arguments: &[ArgumentKind<'_>], carry: u8) -> Option<CallKinds> {
    let (value, places) = match arguments {
        [value] => (value, Some(0)),
        [value, places] if stands_for(places, &BIGINT) => (value, places.constant.and_then(literal_integer)),
        _ => return None,
    };
    let kind = number(value)?;
    let result = rounded_kind(&kind, places, carry);
    let kinds = [kind, BIGINT];
    Some(CallKinds { arguments: kinds[..arguments.len()].to_vec(), result })
}

/// Returns the value of a literal integer of any type.
fn literal_integer(constant: &rowmill_plan::Constant) -> Option<i64> {
    let value = arrow::compute::cast(constant.array(), &BIGINT).ok()?;
    rowmill_plan::Constant::new(value).as_bigint()
}

pub(super) fn round(arguments: &[Operand], kind: &DataType, rows: usize) -> Result<ArrayRef> {
    to_places(arguments, kind, rows, Direction::HalfAwayFromZero)
}

pub(super) fn trunc(arguments: &[Operand], kind: &DataType, rows: usize) -> Result<ArrayRef> {
    to_places(arguments, kind, rows, Direction::TowardZero)
}

/// Rounds a half to the even neighbour.
pub(super) fn round_even(arguments: &[Operand], kind: &DataType, rows: usize) -> Result<ArrayRef> {
    to_places(arguments, kind, rows, Direction::HalfToEven)
}

/// Returns the digits after the point without zeros at the end.
pub(super) fn min_scale(arguments: &[Operand], kind: &DataType, rows: usize) -> Result<ArrayRef> {
    fn of<N: Unscaled>(arguments: &[Operand], kind: &DataType, rows: usize, scale: i32) -> Result<ArrayRef> {
        let values = NumberArgument::new::<N::Decimal>(&arguments[0]);
        numbers::<Int32Type>(arguments, kind, rows, |row| {
            let (mut value, mut scale) = (values.at(row), scale);
            while scale > 0 && value.remainder(N::of(10)) == Some(N::of(0)) {
                value = value.quotient(N::of(10)).expect("ten is not zero");
                scale -= 1;
            }
            Ok(scale)
        })
    }
    let given = arguments[0].values.data_type();
    let scale = digits_and_scale(given).map_or(0, |(_, scale)| i32::from(scale));
    match given {
        given if is_wide_decimal(given) => of::<i256>(arguments, kind, rows, scale),
        given if is_decimal(given) => of::<i128>(arguments, kind, rows, scale),
        _ => numbers::<Int32Type>(arguments, kind, rows, |_| Ok(0)),
    }
}

pub(super) fn ceil(arguments: &[Operand], kind: &DataType, rows: usize) -> Result<ArrayRef> {
    to_whole(arguments, kind, rows, Direction::Up)
}

pub(super) fn floor(arguments: &[Operand], kind: &DataType, rows: usize) -> Result<ArrayRef> {
    to_whole(arguments, kind, rows, Direction::Down)
}

fn to_whole(arguments: &[Operand], kind: &DataType, rows: usize, direction: Direction) -> Result<ArrayRef> {
    let values = &arguments[0].values;
    let made: ArrayRef = match values.data_type() {
        DataType::Float32 | DataType::Float64 => {
            // Each direction has a loop of its own, which does not ask for the direction.
            return match direction {
                Direction::HalfAwayFromZero => apply(arguments, kind, rows, whole::round),
                Direction::HalfToEven => apply(arguments, kind, rows, whole::round_ties_even),
                Direction::TowardZero => apply(arguments, kind, rows, whole::trunc),
                Direction::Up => apply(arguments, kind, rows, whole::ceil),
                Direction::Down => apply(arguments, kind, rows, whole::floor),
            };
        }
        DataType::Decimal128(_, 1..) | DataType::Decimal256(_, 1..) => {
            return decimals(arguments, kind, rows, direction, |_| 0);
        }
        _ => Arc::clone(values),
    };
    Ok(if arguments[0].is_constant { repeated(&made, rows) } else { made })
}

fn to_places(arguments: &[Operand], kind: &DataType, rows: usize, direction: Direction) -> Result<ArrayRef> {
    let Some(places) = arguments.get(1) else {
        return match arguments[0].values.data_type() {
            kind_of_values if is_decimal(kind_of_values) => decimals(arguments, kind, rows, direction, |_| 0),
            _ => to_whole(arguments, kind, rows, direction),
        };
    };
    let places = bigints(places);
    match kind {
        kind if is_decimal(kind) => decimals(arguments, kind, rows, direction, |row| places.at(row)),
        DataType::Float64 => {
            let values = NumberArgument::new::<Float64Type>(&arguments[0]);
            numbers::<Float64Type>(arguments, kind, rows, |row| {
                Ok(float_to_places(values.at(row), places.at(row), direction))
            })
        }
        DataType::Float32 => {
            let values = NumberArgument::new::<Float32Type>(&arguments[0]);
            numbers::<Float32Type>(arguments, kind, rows, |row| {
                let value = values.at(row);
                // We cut the shortest text of the REAL, so that 8.2 is cut as 8.2 and not as 8.199999809.
                let value = match direction {
                    Direction::HalfAwayFromZero => f64::from(value),
                    _ => value.to_string().parse().unwrap_or(f64::from(value)),
                };
                Ok(float_to_places(value, places.at(row), direction) as f32)
            })
        }
        kind => for_integer!(kind, integers(arguments, kind, rows, direction), Err(not_a_number(kind))),
    }
}

/// Rounds integers to tens, hundreds and so on if the places are negative.
fn integers<T: ArrowPrimitiveType>(
    arguments: &[Operand],
    kind: &DataType,
    rows: usize,
    direction: Direction,
) -> Result<ArrayRef>
where
    T::Native: TryFrom<i128> + Into<i128>,
{
    let (values, places) = (NumberArgument::new::<T>(&arguments[0]), bigints(&arguments[1]));
    numbers::<T>(arguments, kind, rows, |row| {
        let (value, places) = (values.at(row), places.at(row));
        if places >= 0 {
            return Ok(value);
        }
        let digits = u32::try_from(places.unsigned_abs()).unwrap_or(u32::MAX);
        let quotient: i128 = direction.divide(value.into(), digits);
        let rounded = if quotient == 0 { 0 } else { quotient * 10_i128.pow(digits) };
        T::Native::try_from(rounded).map_err(|_| out_of_range(rounded, kind))
    })
}

/// Rounds decimals to places. The scale of `kind` must be at least the number of places that are kept.
fn decimals(
    arguments: &[Operand],
    kind: &DataType,
    rows: usize,
    direction: Direction,
    places: impl Fn(usize) -> i64,
) -> Result<ArrayRef> {
    let given = arguments[0].values.data_type();
    match (is_wide_decimal(given), is_wide_decimal(kind)) {
        (false, false) => decimals_as::<i128, Decimal128Type>(arguments, kind, rows, direction, places),
        (true, false) => decimals_as::<i256, Decimal128Type>(arguments, kind, rows, direction, places),
        (true, true) => decimals_as::<i256, Decimal256Type>(arguments, kind, rows, direction, places),
        // A rounded decimal has at most one more digit, and 38 of them stay 38.
        (false, true) => Err(not_a_number(kind)),
    }
}

/// Rounds decimals that `N` holds to decimals of the type `T`, which may be narrower.
fn decimals_as<N: Unscaled, T: DecimalType>(
    arguments: &[Operand],
    kind: &DataType,
    rows: usize,
    direction: Direction,
    places: impl Fn(usize) -> i64,
) -> Result<ArrayRef>
where
    T::Native: Unscaled,
{
    let ends = digits_and_scale(arguments[0].values.data_type()).zip(digits_and_scale(kind));
    let Some(((_, from), (precision, to))) = ends else { return Err(not_a_number(kind)) };
    let values = NumberArgument::new::<N::Decimal>(&arguments[0]);
    let limit = N::power_of_ten(precision.into());
    numbers::<T>(arguments, kind, rows, |row| {
        let value = values.at(row);
        // The upper bound keeps no more digits than the result has room for. The lower bound cuts at most all digits of
        // a number and one more.
        let kept = places(row).clamp(-i64::from(N::DIGITS_MAX) - 1, i64::from(from.min(to))) as i32;
        let quotient = direction.divide(value, (i32::from(from) - kept).unsigned_abs());
        let rounded = match (i32::from(to) - kept).unsigned_abs() {
            _ if quotient == N::default() => Some(quotient),
            digits => N::checked_power_of_ten(digits).and_then(|factor| quotient.multiply(factor)),
        };
        let rounded = rounded.filter(|rounded| rounded.is_within(limit));
        rounded
            .and_then(|rounded| T::Native::of_wide(rounded.widen()))
            .ok_or_else(|| out_of_range("a rounded decimal", kind))
    })
}

/// Rounds a float to places: returns the double nearest to the rounded decimal.
fn float_to_places(value: f64, places: i64, direction: Direction) -> f64 {
    // 10^308 is the largest power of ten that is a double. Only the tiniest numbers have digits after that place; they
    // stay unchanged.
    let places = places.clamp(-400, 400) as i32;
    if places > 308 || !value.is_finite() {
        return canonical(value);
    }
    if direction == Direction::HalfAwayFromZero && places.abs() <= EXACT_PLACES_MAX {
        return canonical(nearest(value, places));
    }
    let rounded = if places >= 0 {
        let factor = 10_f64.powi(places);
        let scaled = value * factor;
        // A number as large as this is whole already.
        if scaled.is_finite() { direction.float(scaled) / factor } else { value }
    } else {
        let factor = 10_f64.powi(-places);
        if factor.is_finite() { direction.float(value / factor) * factor } else { 0.0 }
    };
    canonical(rounded)
}

/// Powers of ten up to this one are doubles.
const EXACT_PLACES_MAX: i32 = 22;

/// Rounds a float to the nearest number with `places` digits, and a tie away from zero. The exact value of the float
/// decides, as in DuckDB. For example, the double 5.05 is a little less than 5.05 and becomes 5.0.
fn nearest(value: f64, places: i32) -> f64 {
    let factor = 10_f64.powi(places.abs());
    if places < 0 {
        let rest = value % factor;
        let away = if 2.0 * rest.abs() >= factor { factor.copysign(value) } else { 0.0 };
        return value - rest + away;
    }
    let scaled = value * factor;
    // The distance to the next double is then at least one unit of the last digit that is kept.
    if scaled.abs() >= (1_u64 << 53) as f64 {
        return value;
    }
    // `error` is what the product lost. It decides only if the product looks like a tie.
    let one = 1_f64.copysign(value);
    let (whole, error) = (whole::trunc(scaled), value.mul_add(factor, -scaled) * one);
    let is_away = (scaled - whole).abs() - 0.5 + error >= 0.0;
    (whole + if is_away { one } else { 0.0 }) / factor
}
