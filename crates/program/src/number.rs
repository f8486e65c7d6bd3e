//! The numbers of SQL's types, and conversions between the types.
//!
//! Integers and decimals are exact: both are whole numbers of up to 128 bits, and a decimal is stored without its
//! point. For example, 1.50 with scale 2 is 150. [`Number::convert`] says how conversions round. They must round as the
//! general engine does.

use std::cmp::Ordering;
use std::fmt::{self, Write};

use rowmill_base::{Error, ErrorKind, Physical, SqlType};
use rowmill_storage::keyed::ValueRef;

/// The largest number of digits of a decimal.
const DIGITS_MAX: usize = 38;

/// The powers of ten, by exponent.
const TEN_TO: [i128; DIGITS_MAX + 1] = {
    let mut powers = [1; DIGITS_MAX + 1];
    let mut exponent = 1;
    while exponent <= DIGITS_MAX {
        powers[exponent] = powers[exponent - 1] * 10;
        exponent += 1;
    }
    powers
};

/// `10^exponent`. The exponent must be at most 38.
#[inline]
pub(crate) fn ten_to(exponent: u8) -> i128 {
    TEN_TO[usize::from(exponent)]
}

/// A numeric type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Number {
    Integer(Integer),
    Decimal(Digits),
    /// `REAL`
    Real,
    /// `DOUBLE`
    Double,
}

/// An integer type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Integer {
    pub(crate) bits: u8,
    pub(crate) signed: bool,
}

/// The digits of a decimal type: the number of all digits, and the number of digits after the point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Digits {
    pub(crate) all: u8,
    pub(crate) scale: u8,
}

impl Integer {
    pub(crate) fn of(kind: &SqlType) -> Option<Integer> {
        let (bits, signed) = match kind {
            SqlType::Int8 => (8, true),
            SqlType::Int16 => (16, true),
            SqlType::Int32 => (32, true),
            SqlType::Int64 => (64, true),
            SqlType::UInt8 => (8, false),
            SqlType::UInt16 => (16, false),
            SqlType::UInt32 => (32, false),
            SqlType::UInt64 => (64, false),
            _ => return None,
        };
        Some(Integer { bits, signed })
    }

    /// Whether this type has all values of `other` and keeps them in the same variant of [`ValueRef`].
    pub(crate) fn has_all_of(self, other: Integer) -> bool {
        self.signed == other.signed && self.bits >= other.bits
    }

    pub(crate) fn least(self) -> i128 {
        if self.signed { -(1 << (self.bits - 1)) } else { 0 }
    }

    pub(crate) fn greatest(self) -> i128 {
        if self.signed { (1 << (self.bits - 1)) - 1 } else { (1 << self.bits) - 1 }
    }

    /// The number as a value of this type, or `None` if it is out of range.
    #[inline]
    pub(crate) fn value(self, number: i128) -> Option<ValueRef<'static>> {
        if number < self.least() || number > self.greatest() {
            return None;
        }
        Some(if self.signed { ValueRef::Int(number as i64) } else { ValueRef::UInt(number as u64) })
    }
}

impl Digits {
    /// The number as a value of this type, or `None` if it has too many digits.
    #[inline]
    pub(crate) fn value(self, number: i128) -> Option<ValueRef<'static>> {
        (number.unsigned_abs() < ten_to(self.all).unsigned_abs()).then_some(ValueRef::Decimal(number))
    }
}

impl Number {
    pub(crate) fn of(kind: &SqlType) -> Option<Number> {
        Some(match kind {
            SqlType::Float32 => Number::Real,
            SqlType::Float64 => Number::Double,
            // Programs have no arithmetic on numbers of 256 bits. They evaluate it as a batch.
            kind if Physical::of(kind) == Physical::Wide => return None,
            SqlType::Decimal { precision, scale } => Number::Decimal(Digits { all: *precision, scale: *scale }),
            kind => Number::Integer(Integer::of(kind)?),
        })
    }

    pub(crate) fn is_float(self) -> bool {
        matches!(self, Number::Real | Number::Double)
    }

    /// Number of digits after the point; 0 for types other than decimals.
    pub(crate) fn scale(self) -> u8 {
        match self {
            Number::Decimal(digits) => digits.scale,
            _ => 0,
        }
    }

    /// The smallest decimal type that holds every value of this type, or `None` for floats.
    pub(crate) fn digits(self) -> Option<Digits> {
        let all = match self {
            Number::Decimal(digits) => return Some(digits),
            Number::Integer(Integer { bits: 8, .. }) => 3,
            Number::Integer(Integer { bits: 16, .. }) => 5,
            Number::Integer(Integer { bits: 32, .. }) => 10,
            Number::Integer(Integer { signed: true, .. }) => 19,
            Number::Integer(_) => 20,
            Number::Real | Number::Double => return None,
        };
        Some(Digits { all, scale: 0 })
    }

    /// An exact number as a value of this type, or `None` if the type does not have it.
    pub(crate) fn exact_value(self, number: i128) -> Option<ValueRef<'static>> {
        match self {
            Number::Integer(integer) => integer.value(number),
            Number::Decimal(digits) => digits.value(number),
            Number::Real | Number::Double => unreachable!("a float is not exact"),
        }
    }

    /// The least and the greatest value of this type, which must be exact.
    pub(crate) fn bounds(self) -> (i128, i128) {
        match self {
            Number::Integer(integer) => (integer.least(), integer.greatest()),
            Number::Decimal(digits) => (1 - ten_to(digits.all), ten_to(digits.all) - 1),
            Number::Real | Number::Double => unreachable!("a float is not exact"),
        }
    }

    /// Converts `value` to the type `to`. Returns `None` if that type does not have it.
    ///
    /// Decimals round half away from zero. Floats that become integers round half to even. A float becomes the decimal
    /// that is nearest to its shortest text, so 0.1 becomes 0.1 and not the exact binary fraction.
    pub(crate) fn convert(self, value: ValueRef<'_>, to: Number) -> Option<ValueRef<'static>> {
        match (self, to) {
            (Number::Real | Number::Double, Number::Real | Number::Double) => {
                let value = float(value);
                // A finite double that overflows REAL is an error; infinities stay as they are.
                let narrow = if to == Number::Real { f64::from(value as f32) } else { value };
                (narrow.is_finite() || !value.is_finite()).then(|| ValueRef::Float(canonical(narrow)))
            }
            (Number::Real | Number::Double, Number::Integer(to)) => to.value(whole(float(value).round_ties_even())?),
            (Number::Real | Number::Double, Number::Decimal(to)) => {
                to.value(decimal_of_text(float(value), self, to.scale)?)
            }
            (_, Number::Double) => Some(ValueRef::Float(self.double(value))),
            (Number::Integer(_), Number::Real) => Some(ValueRef::Float(match value {
                ValueRef::UInt(value) => f64::from(value as f32),
                value => f64::from(exact(value) as i64 as f32),
            })),
            (_, Number::Real) => Some(ValueRef::Float(f64::from(self.double(value) as f32))),
            (_, to) => to.exact_value(rescaled(exact(value), self.scale(), to.scale())?),
        }
    }

    /// The double that is nearest to an exact number or to a float.
    #[inline]
    pub(crate) fn double(self, value: ValueRef<'_>) -> f64 {
        match (self, value) {
            (_, ValueRef::Float(value)) => value,
            (Number::Decimal(digits), value) => nearest_double(exact(value)) / 10_f64.powi(digits.scale.into()),
            (_, value) => nearest_double(exact(value)),
        }
    }
}

/// The double that is nearest to a whole number. Most numbers fit 64 bits, and those convert in one instruction.
#[inline]
pub(crate) fn nearest_double(number: i128) -> f64 {
    i64::try_from(number).map_or(number as f64, |number| number as f64)
}

/// The whole number of an exact value. Decimals keep their scale. The value must not be NULL or a float.
#[inline]
pub(crate) fn exact(value: ValueRef<'_>) -> i128 {
    match value {
        ValueRef::Int(value) => value.into(),
        ValueRef::UInt(value) => value.into(),
        ValueRef::Decimal(value) => value,
        _ => unreachable!("the caller must pass an exact number"),
    }
}

/// The float of a value, which must be one.
#[inline]
pub(crate) fn float(value: ValueRef<'_>) -> f64 {
    match value {
        ValueRef::Float(value) => value,
        _ => unreachable!("the caller must pass a float"),
    }
}

/// Normalises a float: every NaN becomes one NaN, and -0 becomes 0, so equal floats have equal bytes.
#[inline]
pub(crate) fn canonical(value: f64) -> f64 {
    if value.is_nan() { f64::NAN } else { value + 0.0 }
}

/// A float that has no fraction, as a whole number.
fn whole(value: f64) -> Option<i128> {
    // 2^127 is an exact float, and no type holds a number beyond it.
    (value.abs() < 2_f64.powi(127)).then_some(value as i128)
}

/// Changes the number of digits after the point of an exact number. Returns `None` on overflow.
#[inline]
pub(crate) fn rescaled(number: i128, from: u8, to: u8) -> Option<i128> {
    match from.cmp(&to) {
        Ordering::Equal => Some(number),
        Ordering::Less => product(number, ten_to(to - from)),
        Ordering::Greater => {
            let divisor = ten_to(from - to);
            let (quotient, rest) = (number / divisor, number % divisor);
            // Half away from zero: compare twice the remainder with the divisor.
            let is_away = rest.unsigned_abs() * 2 >= divisor.unsigned_abs();
            Some(if is_away { quotient + number.signum() } else { quotient })
        }
    }
}

/// Multiplies two numbers. Nearly all factors fit 64 bits; their product needs one instruction and no overflow check.
#[inline]
pub(crate) fn product(left: i128, right: i128) -> Option<i128> {
    match (i64::try_from(left), i64::try_from(right)) {
        (Ok(left), Ok(right)) => Some(i128::from(left) * i128::from(right)),
        _ => left.checked_mul(right),
    }
}

/// Compares two exact numbers that may have different numbers of digits after the point.
#[inline]
pub(crate) fn compare_exact((left, left_scale): (i128, u8), (right, right_scale): (i128, u8)) -> Ordering {
    match left_scale.cmp(&right_scale) {
        Ordering::Equal => left.cmp(&right),
        // A product that overflows 128 bits is farther from zero than any number with 128 bits, so its sign
        // decides.
        Ordering::Less => match product(left, ten_to(right_scale - left_scale)) {
            Some(left) => left.cmp(&right),
            None => left.cmp(&0),
        },
        Ordering::Greater => match product(right, ten_to(left_scale - right_scale)) {
            Some(right) => left.cmp(&right),
            None => 0.cmp(&right),
        },
    }
}

/// The decimal that is nearest to the shortest text of a float.
fn decimal_of_text(value: f64, number: Number, scale: u8) -> Option<i128> {
    let mut reader = DecimalReader::new(scale);
    let written = match number {
        Number::Real => write!(reader, "{}", value as f32),
        _ => write!(reader, "{value}"),
    };
    written.ok().and_then(|()| reader.finish())
}

/// Reads the digits of a number as they are written, without building its text.
struct DecimalReader {
    number: i128,
    negative: bool,
    /// Digits that are still expected after the point. Digits before the point are not counted.
    scale: u8,
    behind_point: bool,
    /// The first digit beyond the scale, which decides how to round.
    next: Option<u8>,
}

impl DecimalReader {
    fn new(scale: u8) -> Self {
        DecimalReader { number: 0, negative: false, scale, behind_point: false, next: None }
    }

    fn read(&mut self, byte: u8) -> Option<()> {
        match byte {
            b'-' => self.negative = true,
            b'.' => self.behind_point = true,
            b'0'..=b'9' => {
                let digit = byte - b'0';
                // Digits beyond the scale only matter for rounding, and only the first of them.
                if self.behind_point && self.scale == 0 {
                    self.next.get_or_insert(digit);
                    return Some(());
                }
                self.scale -= u8::from(self.behind_point);
                self.number = self.number.checked_mul(10)?.checked_add(digit.into())?;
            }
            // The text is NaN or an infinity.
            _ => return None,
        }
        Some(())
    }

    fn finish(self) -> Option<i128> {
        // The text had fewer digits than the scale, so we append zeros.
        let number = product(self.number, ten_to(self.scale))?;
        let number = number.checked_add(i128::from(self.next.is_some_and(|digit| digit >= 5)))?;
        Some(if self.negative { -number } else { number })
    }
}

impl Write for DecimalReader {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        text.bytes().try_for_each(|byte| self.read(byte)).ok_or(fmt::Error)
    }
}

/// A number as error messages show it. The second field is the number of digits after the point.
pub(crate) struct Said<'a>(pub(crate) ValueRef<'a>, pub(crate) u8);

impl fmt::Display for Said<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            ValueRef::Int(value) => write!(f, "{value}"),
            ValueRef::UInt(value) => write!(f, "{value}"),
            ValueRef::Float(value) if value.abs() >= 1e16 => write!(f, "{value:e}"),
            ValueRef::Float(value) => write!(f, "{value}"),
            ValueRef::Decimal(value) if self.1 > 0 => {
                let (sign, size) = (if value < 0 { "-" } else { "" }, value.unsigned_abs());
                let unit = ten_to(self.1).unsigned_abs();
                write!(f, "{sign}{}.{:0width$}", size / unit, size % unit, width = usize::from(self.1))
            }
            ValueRef::Decimal(value) => write!(f, "{value}"),
            value => write!(f, "{value:?}"),
        }
    }
}

/// The error for a result that its type cannot hold.
#[cold]
pub(crate) fn out_of_range(what: impl fmt::Display, kind: impl fmt::Display) -> Error {
    Error::new(ErrorKind::NumericOutOfRange, format!("number out of range: {what} does not fit {kind}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOUBLE: Number = Number::Double;

    fn decimal(all: u8, scale: u8) -> Number {
        Number::Decimal(Digits { all, scale })
    }

    fn integer(kind: &SqlType) -> Number {
        Number::of(kind).expect("a number")
    }

    #[test]
    fn floats_become_integers_half_to_even_and_decimals_half_away_from_zero() {
        let big = integer(&SqlType::Int64);
        for (value, expected) in [(0.5, 0), (1.5, 2), (-2.5, -2), (1e18, 1_000_000_000_000_000_000)] {
            let found = DOUBLE.convert(ValueRef::Float(value), big);
            assert_eq!(found, Some(ValueRef::Int(expected)));
        }
        for value in [f64::NAN, f64::INFINITY, 1e30, -9.3e18] {
            assert_eq!(DOUBLE.convert(ValueRef::Float(value), big), None);
        }
        for (value, expected) in [(5, 1), (15, 2), (-25, -3), (14, 1), (-14, -1)] {
            let found = decimal(10, 1).convert(ValueRef::Decimal(value), integer(&SqlType::Int8));
            assert_eq!(found, Some(ValueRef::Int(expected)));
        }
        let tiny = integer(&SqlType::Int8);
        assert_eq!(big.convert(ValueRef::Int(128), tiny), None);
        assert_eq!(big.convert(ValueRef::Int(-128), tiny), Some(ValueRef::Int(-128)));
        let unsigned = integer(&SqlType::UInt64);
        assert_eq!(big.convert(ValueRef::Int(-1), unsigned), None);
        assert_eq!(unsigned.convert(ValueRef::UInt(u64::MAX), big), None);
    }

    #[test]
    fn digits_behind_the_point_are_rounded_and_digits_in_front_are_not_lost() {
        let money = decimal(6, 2);
        let of = |from: Number, value| from.convert(value, money);
        assert_eq!(of(decimal(10, 3), ValueRef::Decimal(1_005)), Some(ValueRef::Decimal(101)));
        assert_eq!(of(decimal(10, 3), ValueRef::Decimal(-1_005)), Some(ValueRef::Decimal(-101)));
        assert_eq!(of(decimal(10, 0), ValueRef::Decimal(9_999)), Some(ValueRef::Decimal(999_900)));
        assert_eq!(of(decimal(10, 0), ValueRef::Decimal(10_000)), None);
        assert_eq!(of(decimal(38, 0), ValueRef::Decimal(i128::MAX / 2)), None);
        assert_eq!(of(integer(&SqlType::Int32), ValueRef::Int(-7)), Some(ValueRef::Decimal(-700)));
        assert_eq!(of(DOUBLE, ValueRef::Float(f64::NAN)), None);
        assert_eq!(of(DOUBLE, ValueRef::Float(1.25)), Some(ValueRef::Decimal(125)));
    }

    #[test]
    fn an_assigned_float_is_its_shortest_text() {
        let assigned = |value: f64, all, scale| DOUBLE.convert(ValueRef::Float(value), decimal(all, scale));
        assert_eq!(assigned(0.1, 38, 30), Some(ValueRef::Decimal(10_i128.pow(29))));
        assert_eq!(assigned(1.005, 10, 2), Some(ValueRef::Decimal(101)));
        assert_eq!(assigned(-2.345, 10, 2), Some(ValueRef::Decimal(-235)));
        assert_eq!(assigned(1e-300, 10, 2), Some(ValueRef::Decimal(0)));
        assert_eq!(assigned(1e300, 38, 0), None);
        assert_eq!(assigned(f64::INFINITY, 38, 0), None);
        let real = Number::Real.convert(ValueRef::Float(0.1_f32.into()), decimal(10, 5));
        assert_eq!(real, Some(ValueRef::Decimal(10_000)));
    }

    #[test]
    fn numbers_become_floats_and_doubles_reals() {
        let of = |from: Number, value, to| from.convert(value, to);
        assert_eq!(of(decimal(5, 2), ValueRef::Decimal(12_345), DOUBLE), Some(ValueRef::Float(123.45)));
        assert_eq!(
            of(integer(&SqlType::Int64), ValueRef::Int(16_777_217), Number::Real),
            Some(ValueRef::Float(16_777_216.0))
        );
        assert_eq!(of(DOUBLE, ValueRef::Float(1e39), Number::Real), None);
        assert_eq!(of(DOUBLE, ValueRef::Float(f64::INFINITY), Number::Real), Some(ValueRef::Float(f64::INFINITY)));
    }

    #[test]
    fn exact_numbers_of_any_scale_are_compared_exactly() {
        assert_eq!(compare_exact((15, 1), (150, 2)), Ordering::Equal);
        assert_eq!(compare_exact((15, 1), (149, 2)), Ordering::Greater);
        assert_eq!(compare_exact((i128::MAX, 0), (1, 38)), Ordering::Greater);
        assert_eq!(compare_exact((1, 38), (i128::MIN, 0)), Ordering::Greater);
    }

    #[test]
    fn numbers_are_said_with_their_point() {
        assert_eq!(Said(ValueRef::Decimal(-5), 2).to_string(), "-0.05");
        assert_eq!(Said(ValueRef::Decimal(12_345), 2).to_string(), "123.45");
        assert_eq!(Said(ValueRef::Float(1e39), 0).to_string(), "1e39");
    }
}
