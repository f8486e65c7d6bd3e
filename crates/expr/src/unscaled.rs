//! The integers that hold decimals: 128 bits for up to 38 digits, 256 bits for up to 76.
//!
//! A decimal is an unscaled integer and a scale: `unscaled / 10^scale`. Kernels of decimals are generic over the
//! integer, so that narrow decimals pay nothing for wide ones.

use arrow::datatypes::{ArrowNativeType, Decimal128Type, Decimal256Type, DecimalType, i256};
use rowmill_base::{NARROW_DIGITS_MAX, WIDE_DIGITS_MAX};

/// An integer that holds decimals.
pub(crate) trait Unscaled: ArrowNativeType + Ord {
    /// The Arrow type of decimals of these integers.
    type Decimal: DecimalType<Native = Self>;
    /// The most digits of such a decimal.
    const DIGITS_MAX: u8;

    /// The integer with the value of `value`.
    fn of(value: i128) -> Self;
    /// The value in 128 bits, if they hold it.
    fn narrow(self) -> Option<i128>;
    /// The value in 256 bits.
    fn widen(self) -> i256;
    /// The integer of 256 bits in these bits, if they hold it.
    fn of_wide(value: i256) -> Option<Self>;
    /// `10^exponent`, or `None` if it is too large.
    fn checked_power_of_ten(exponent: u32) -> Option<Self>;
    /// The product, if it is in range.
    fn multiply(self, other: Self) -> Option<Self>;
    /// The sum, if it is in range.
    fn add(self, other: Self) -> Option<Self>;
    /// The difference, if it is in range.
    fn subtract(self, other: Self) -> Option<Self>;
    /// The quotient, cut toward zero. `None` if the divisor is zero.
    fn quotient(self, divisor: Self) -> Option<Self>;
    /// The remainder, with the sign of the dividend. `None` if the divisor is zero.
    fn remainder(self, divisor: Self) -> Option<Self>;
    /// The product, if the caller knows that it is in range.
    fn product_in_range(self, other: Self) -> Self;
    /// The sum, if the caller knows that it is in range.
    fn sum_in_range(self, other: Self) -> Self;
    /// The difference, if the caller knows that it is in range.
    fn difference_in_range(self, other: Self) -> Self;
    /// The integer with the other sign, if the caller knows that it is in range.
    fn opposite(self) -> Self;
    /// Whether the absolute value is less than `bound`, which must not be negative.
    fn is_within(self, bound: Self) -> bool;
    /// The nearest double.
    fn to_double(self) -> f64;
    /// Divides by a positive number and rounds half away from zero.
    fn divide_rounding(self, divisor: Self) -> Self;

    /// `10^exponent`. The exponent must be at most [`Unscaled::DIGITS_MAX`].
    fn power_of_ten(exponent: u32) -> Self {
        Self::checked_power_of_ten(exponent).expect("a power of ten of at most all digits")
    }

    /// The absolute value, if the caller knows that it is in range.
    fn absolute(self) -> Self {
        if self < Self::default() { self.opposite() } else { self }
    }
}

impl Unscaled for i128 {
    type Decimal = Decimal128Type;
    const DIGITS_MAX: u8 = NARROW_DIGITS_MAX;

    #[inline]
    fn of(value: i128) -> i128 {
        value
    }
    #[inline]
    fn narrow(self) -> Option<i128> {
        Some(self)
    }
    #[inline]
    fn widen(self) -> i256 {
        i256::from_i128(self)
    }
    #[inline]
    fn of_wide(value: i256) -> Option<i128> {
        value.to_i128()
    }
    #[inline]
    fn checked_power_of_ten(exponent: u32) -> Option<i128> {
        10_i128.checked_pow(exponent)
    }
    /// Nearly all factors fit 64 bits; then one instruction is enough and no check is needed.
    #[inline]
    fn multiply(self, other: i128) -> Option<i128> {
        match (i64::try_from(self), i64::try_from(other)) {
            (Ok(left), Ok(right)) => Some(i128::from(left) * i128::from(right)),
            _ => self.checked_mul(other),
        }
    }
    #[inline]
    fn add(self, other: i128) -> Option<i128> {
        self.checked_add(other)
    }
    #[inline]
    fn subtract(self, other: i128) -> Option<i128> {
        self.checked_sub(other)
    }
    #[inline]
    fn quotient(self, divisor: i128) -> Option<i128> {
        self.checked_div(divisor)
    }
    #[inline]
    fn remainder(self, divisor: i128) -> Option<i128> {
        self.checked_rem(divisor)
    }
    #[inline]
    fn product_in_range(self, other: i128) -> i128 {
        self.wrapping_mul(other)
    }
    #[inline]
    fn sum_in_range(self, other: i128) -> i128 {
        self.wrapping_add(other)
    }
    #[inline]
    fn difference_in_range(self, other: i128) -> i128 {
        self.wrapping_sub(other)
    }
    #[inline]
    fn opposite(self) -> i128 {
        self.wrapping_neg()
    }
    #[inline]
    fn is_within(self, bound: i128) -> bool {
        self.unsigned_abs() < bound.unsigned_abs()
    }
    /// A value of 64 bits converts in one instruction.
    #[inline]
    fn to_double(self) -> f64 {
        match i64::try_from(self) {
            Ok(value) => value as f64,
            Err(_) => self as f64,
        }
    }
    #[inline]
    fn divide_rounding(self, divisor: i128) -> i128 {
        let (quotient, rest) = match i64::try_from(self).ok().zip(i64::try_from(divisor).ok()) {
            // A division of 64 bits is many times faster than one of 128 bits.
            Some((value, divisor)) => (i128::from(value / divisor), i128::from(value % divisor)),
            None => (self / divisor, self % divisor),
        };
        if rest.unsigned_abs() * 2 >= divisor.unsigned_abs() { quotient + self.signum() } else { quotient }
    }
}

/// `10^38`, the largest power of ten of 128 bits.
const NARROW_UNIT: i128 = 10_i128.pow(NARROW_DIGITS_MAX as u32);

impl Unscaled for i256 {
    type Decimal = Decimal256Type;
    const DIGITS_MAX: u8 = WIDE_DIGITS_MAX;

    #[inline]
    fn of(value: i128) -> i256 {
        i256::from_i128(value)
    }
    #[inline]
    fn narrow(self) -> Option<i128> {
        self.to_i128()
    }
    #[inline]
    fn widen(self) -> i256 {
        self
    }
    #[inline]
    fn of_wide(value: i256) -> Option<i256> {
        Some(value)
    }
    fn checked_power_of_ten(exponent: u32) -> Option<i256> {
        let narrow = exponent.min(NARROW_DIGITS_MAX.into());
        let rest = exponent - narrow;
        match rest <= NARROW_DIGITS_MAX.into() {
            true => i256::from_i128(10_i128.pow(narrow)).checked_mul(i256::from_i128(10_i128.pow(rest))),
            false => None,
        }
    }
    /// Most factors fit 64 bits; then their product fits 128 bits.
    #[inline]
    fn multiply(self, other: i256) -> Option<i256> {
        let word = |value: i256| value.to_i128().and_then(|value| i64::try_from(value).ok());
        match (word(self), word(other)) {
            (Some(left), Some(right)) => Some(i256::from_i128(i128::from(left) * i128::from(right))),
            _ => self.checked_mul(other),
        }
    }
    #[inline]
    fn add(self, other: i256) -> Option<i256> {
        self.checked_add(other)
    }
    #[inline]
    fn subtract(self, other: i256) -> Option<i256> {
        self.checked_sub(other)
    }
    #[inline]
    fn quotient(self, divisor: i256) -> Option<i256> {
        match (self.to_i128(), divisor.to_i128()) {
            (Some(value), Some(divisor)) => value.checked_div(divisor).map(i256::from_i128),
            _ => self.checked_div(divisor),
        }
    }
    #[inline]
    fn remainder(self, divisor: i256) -> Option<i256> {
        match (self.to_i128(), divisor.to_i128()) {
            (Some(value), Some(divisor)) => value.checked_rem(divisor).map(i256::from_i128),
            _ => self.checked_rem(divisor),
        }
    }
    #[inline]
    fn product_in_range(self, other: i256) -> i256 {
        self.wrapping_mul(other)
    }
    #[inline]
    fn sum_in_range(self, other: i256) -> i256 {
        self.wrapping_add(other)
    }
    #[inline]
    fn difference_in_range(self, other: i256) -> i256 {
        self.wrapping_sub(other)
    }
    #[inline]
    fn opposite(self) -> i256 {
        self.wrapping_neg()
    }
    #[inline]
    fn is_within(self, bound: i256) -> bool {
        self < bound && self > bound.wrapping_neg()
    }
    fn to_double(self) -> f64 {
        let (low, high) = if self.is_negative() { self.wrapping_neg() } else { self }.to_parts();
        // The least integer is its own opposite. Its bits are those of the unsigned absolute value.
        let high = high as u128;
        let sign = if self.is_negative() { -1.0 } else { 1.0 };
        if high == 0 {
            return sign * low as f64;
        }
        // The 128 highest bits decide the rounding. The last of them also stands for all bits below.
        let shift = high.leading_zeros();
        let top = if shift == 0 { high } else { high << shift | low >> (128 - shift) };
        let is_cut = low << shift != 0;
        sign * ((top | u128::from(is_cut)) as f64) * 2_f64.powi(128 - shift as i32)
    }
    fn divide_rounding(self, divisor: i256) -> i256 {
        let (quotient, rest) = (self.quotient(divisor), self.remainder(divisor));
        let (quotient, rest) = quotient.zip(rest).expect("the divisor is positive");
        // The rest is less than 10^76, so its double is in range.
        let twice = rest.absolute().wrapping_add(rest.absolute());
        if twice >= divisor { quotient.wrapping_add(self.signum()) } else { quotient }
    }
}

/// Appends the digits of the absolute value of `value`, which must have at most 76 digits.
pub(crate) fn write_wide_digits(value: i256, out: &mut String) {
    let mut buffer = itoa::Buffer::new();
    match value.to_i128() {
        Some(value) => out.push_str(buffer.format(value.unsigned_abs())),
        None => {
            let unit = i256::from_i128(NARROW_UNIT);
            let (high, low) = (value.wrapping_div(unit).as_i128(), value.wrapping_rem(unit).as_i128());
            out.push_str(buffer.format(high.unsigned_abs()));
            let digits = buffer.format(low.unsigned_abs());
            out.extend(std::iter::repeat_n('0', usize::from(NARROW_DIGITS_MAX) - digits.len()));
            out.push_str(digits);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_are_the_nearest_ones() {
        let texts = [
            "0",
            "1",
            "-1",
            "340282366920938463463374607431768211455",
            "340282366920938463463374607431768211456",
            "-340282366920938463463374607431768211457",
            "57896044618658097711785492504343953926634992332820282019728792003956564819967",
            "-57896044618658097711785492504343953926634992332820282019728792003956564819968",
            // Ties, and one unit beside them: 2^200 + 2^147 is in the middle of two doubles.
            "1606938044258990454157082434389150430374384113012387274948608",
            "1606938044258990632564066594084893117030154411541270110044160",
            "1606938044258990632564066594084893117030154411541270110044161",
            "1606938044258990632564066594084893117030154411541270110044159",
            "9999999999999999999999999999999999999999999999999999999999999999999999999999",
        ];
        for text in texts {
            let value: i256 = text.parse().expect("a number");
            assert_eq!(value.to_double(), text.parse::<f64>().expect("a number"), "{text}");
        }
    }

    #[test]
    fn powers_and_roundings_of_both_widths_agree() {
        for exponent in 0..=38 {
            assert_eq!(i256::power_of_ten(exponent).to_i128(), Some(i128::power_of_ten(exponent)));
        }
        assert_eq!(i256::power_of_ten(76).to_string(), format!("1{}", "0".repeat(76)));
        assert_eq!((i256::checked_power_of_ten(77), i256::checked_power_of_ten(1000)), (None, None));
        for (value, divisor) in [(5, 10), (-5, 10), (4, 10), (15, 10), (-149, 100), (-150, 100), (0, 1), (7, 1)] {
            let wide = i256::of(value).divide_rounding(i256::of(divisor));
            assert_eq!(wide.to_i128(), Some(value.divide_rounding(divisor)), "{value} / {divisor}");
        }
        let greatest = i256::power_of_ten(76).wrapping_sub(i256::ONE);
        assert_eq!(greatest.divide_rounding(i256::power_of_ten(76)), i256::ONE);
        assert_eq!(greatest.opposite().divide_rounding(i256::power_of_ten(76)), i256::MINUS_ONE);
    }

    #[test]
    fn digits_are_all_written() {
        for text in ["0", "7", "100000000000000000000000000000000000000", "123000000000000000000000000000000000000045"]
        {
            let mut out = String::new();
            write_wide_digits(text.parse().expect("a number"), &mut out);
            assert_eq!(out, text);
        }
    }
}
