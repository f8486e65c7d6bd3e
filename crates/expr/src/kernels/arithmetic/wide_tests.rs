//! Arithmetic, casts and texts of decimals of up to 76 digits, compared with numbers that are lists of decimal digits.

#![allow(clippy::unwrap_used)]

use std::cmp::Ordering;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Decimal128Array, Decimal256Array, Int64Array};
use arrow::datatypes::{DataType, i256};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use rowmill_base::{ErrorKind, decimal_arrow};
use rowmill_plan::Operand;
use rowmill_plan::program::ArithmeticOp;

use super::arithmetic;
use crate::kernels::cast::cast;
use crate::kinds::digits_and_scale;
use crate::text;
use crate::typing::decimal_result;

/// A whole number as its decimal digits, the lowest first, without zeros at the end.
#[derive(Clone, Debug, PartialEq, Eq)]
struct LongNumber {
    is_negative: bool,
    digits: Vec<u8>,
}

impl LongNumber {
    fn new(is_negative: bool, mut digits: Vec<u8>) -> LongNumber {
        while digits.last() == Some(&0) {
            digits.pop();
        }
        LongNumber { is_negative: is_negative && !digits.is_empty(), digits }
    }

    /// A random number with up to `digits` digits; often with the most.
    fn random(rng: &mut SmallRng, digits: u8) -> LongNumber {
        let count = if rng.random() { digits } else { rng.random_range(0..=digits) };
        let all_nines = rng.random_range(0..8) == 0;
        let digits = (0..count).map(|_| if all_nines { 9 } else { rng.random_range(0..10) }).collect();
        LongNumber::new(rng.random(), digits)
    }

    fn text(&self) -> String {
        let digits: String = self.digits.iter().rev().map(|digit| char::from(b'0' + digit)).collect();
        match (self.is_negative, digits.is_empty()) {
            (_, true) => "0".to_owned(),
            (true, _) => format!("-{digits}"),
            (false, _) => digits,
        }
    }

    /// The number of digits after `shift` zeros are appended.
    fn shifted(&self, shift: i8) -> LongNumber {
        let mut digits = vec![0; usize::from(shift.unsigned_abs())];
        digits.extend(&self.digits);
        LongNumber::new(self.is_negative, digits)
    }

    /// Cuts digits off and rounds half away from zero.
    fn cut(&self, count: u8) -> LongNumber {
        let count = usize::from(count);
        let rest = self.digits.get(count..).unwrap_or_default().to_vec();
        let is_up = count > 0 && self.digits.get(count - 1).is_some_and(|digit| *digit >= 5);
        let kept = LongNumber::new(false, rest);
        let size = if is_up { size_sum(&kept.digits, &[1]) } else { kept.digits };
        LongNumber::new(self.is_negative, size)
    }

    fn plus(&self, other: &LongNumber) -> LongNumber {
        if self.is_negative == other.is_negative {
            return LongNumber::new(self.is_negative, size_sum(&self.digits, &other.digits));
        }
        match size_order(&self.digits, &other.digits) {
            Ordering::Less => LongNumber::new(other.is_negative, size_difference(&other.digits, &self.digits)),
            _ => LongNumber::new(self.is_negative, size_difference(&self.digits, &other.digits)),
        }
    }

    fn opposite(&self) -> LongNumber {
        LongNumber::new(!self.is_negative, self.digits.clone())
    }

    fn times(&self, other: &LongNumber) -> LongNumber {
        let mut columns = vec![0_u32; self.digits.len() + other.digits.len() + 1];
        for (i, a) in self.digits.iter().enumerate() {
            for (j, b) in other.digits.iter().enumerate() {
                columns[i + j] += u32::from(*a) * u32::from(*b);
            }
        }
        let mut carry = 0;
        let digits = columns.into_iter().map(|column| {
            let sum = column + carry;
            carry = sum / 10;
            (sum % 10) as u8
        });
        LongNumber::new(self.is_negative != other.is_negative, digits.collect())
    }

    /// The remainder of a division that is cut toward zero.
    fn remainder(&self, divisor: &LongNumber) -> LongNumber {
        let mut rest: Vec<u8> = Vec::new();
        for digit in self.digits.iter().rev() {
            rest.insert(0, *digit);
            rest = LongNumber::new(false, rest).digits;
            while size_order(&rest, &divisor.digits).is_ge() {
                rest = LongNumber::new(false, size_difference(&rest, &divisor.digits)).digits;
            }
        }
        LongNumber::new(self.is_negative, rest)
    }

    fn is_zero(&self) -> bool {
        self.digits.is_empty()
    }

    fn fits(&self, digits: u8) -> bool {
        self.digits.len() <= usize::from(digits)
    }

    /// An array of one decimal.
    fn array(&self, digits: u8, scale: i8) -> ArrayRef {
        let kind = decimal_arrow(digits, scale);
        match kind {
            DataType::Decimal128(..) => {
                let value: i128 = self.text().parse().unwrap();
                Arc::new(Decimal128Array::from(vec![value]).with_data_type(kind))
            }
            _ => {
                let value: i256 = self.text().parse().unwrap();
                Arc::new(Decimal256Array::from(vec![value]).with_data_type(kind))
            }
        }
    }
}

fn size_order(left: &[u8], right: &[u8]) -> Ordering {
    left.len().cmp(&right.len()).then_with(|| left.iter().rev().cmp(right.iter().rev()))
}

fn size_sum(left: &[u8], right: &[u8]) -> Vec<u8> {
    let mut carry = 0;
    let digits = (0..left.len().max(right.len()) + 1).map(|place| {
        let sum = left.get(place).unwrap_or(&0) + right.get(place).unwrap_or(&0) + carry;
        carry = sum / 10;
        sum % 10
    });
    digits.collect()
}

/// `left - right`, which must not be greater.
fn size_difference(left: &[u8], right: &[u8]) -> Vec<u8> {
    let mut borrow = 0;
    let digits = left.iter().enumerate().map(|(place, digit)| {
        let taken = right.get(place).unwrap_or(&0) + borrow;
        borrow = u8::from(*digit < taken);
        digit + 10 * borrow - taken
    });
    digits.collect()
}

/// The one value of an array of decimals, without its point.
fn unscaled(array: &ArrayRef) -> String {
    match array.data_type() {
        DataType::Decimal256(..) => array.as_primitive::<arrow::datatypes::Decimal256Type>().value(0).to_string(),
        _ => array.as_primitive::<arrow::datatypes::Decimal128Type>().value(0).to_string(),
    }
}

fn random_kind(rng: &mut SmallRng, digits: std::ops::RangeInclusive<u8>) -> (u8, i8) {
    let digits = rng.random_range(digits);
    (digits, rng.random_range(0..=digits) as i8)
}

#[test]
fn wide_results_are_those_of_long_arithmetic() {
    let mut rng = SmallRng::seed_from_u64(7);
    let (mut exact, mut refused) = (0, 0);
    for round in 0..40_000 {
        let ((p1, s1), (p2, s2)) = (random_kind(&mut rng, 39..=76), random_kind(&mut rng, 1..=76));
        let (left, right) = (LongNumber::random(&mut rng, p1), LongNumber::random(&mut rng, p2));
        let op = [ArithmeticOp::Plus, ArithmeticOp::Minus, ArithmeticOp::Times, ArithmeticOp::Remainder][round % 4];
        let Ok(kind) = decimal_result(op, (p1, s1), (p2, s2)) else { continue };
        let (digits, scale) = digits_and_scale(&kind).unwrap();
        let common = s1.max(s2);
        let (a, b) = (left.shifted(common - s1), right.shifted(common - s2));
        let expected = match op {
            ArithmeticOp::Plus => a.plus(&b),
            ArithmeticOp::Minus => a.plus(&b.opposite()),
            ArithmeticOp::Times => left.times(&right),
            _ if b.is_zero() => LongNumber::new(false, vec![9; 90]),
            _ => a.remainder(&b),
        };
        assert_eq!(scale, if op == ArithmeticOp::Times { s1 + s2 } else { common });
        let sides = [Operand::rows(left.array(p1, s1)), Operand::rows(right.array(p2, s2))];
        match arithmetic(op, &sides[0], &sides[1], &kind, 1) {
            Ok(found) => {
                assert_eq!(*found.data_type(), kind);
                assert_eq!(unscaled(&found), expected.text(), "{} {op} {}", left.text(), right.text());
                assert!(expected.fits(digits));
                exact += 1;
            }
            Err(error) => {
                let is_by_zero = error.kind() == ErrorKind::DivisionByZero;
                assert!(is_by_zero || error.kind() == ErrorKind::NumericOutOfRange, "{error}");
                // Operands are brought to one scale first, so they must fit too.
                assert!(!expected.fits(digits) || !a.fits(76) || !b.fits(76), "{} {op} {}", left.text(), right.text());
                refused += 1;
            }
        }
    }
    assert!(exact > 10_000 && refused > 1_000, "{exact} results, {refused} errors");
}

#[test]
fn casts_round_like_long_arithmetic_and_texts_read_back() {
    let mut rng = SmallRng::seed_from_u64(11);
    for _ in 0..20_000 {
        let ((p1, s1), (p2, s2)) = (random_kind(&mut rng, 1..=76), random_kind(&mut rng, 1..=76));
        let value = LongNumber::random(&mut rng, p1);
        let array = value.array(p1, s1);
        let expected = match s2 - s1 {
            shift @ 0.. => value.shifted(shift),
            shift => value.cut(shift.unsigned_abs()),
        };
        let kind = decimal_arrow(p2, s2);
        match cast(&array, &kind, false) {
            Ok(found) => assert_eq!(unscaled(&found), expected.text(), "{} from {s1} to {s2}", value.text()),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::NumericOutOfRange);
                assert!(!expected.fits(p2), "{} from {s1} to {s2}", value.text());
                assert!(cast(&array, &kind, true).unwrap().is_null(0));
            }
        }
        let text = text::format(&array, 0).unwrap();
        let digits: String = text.chars().filter(|char| *char != '.' && *char != '-').collect();
        assert_eq!(digits.trim_start_matches('0'), value.text().trim_start_matches(['-', '0']), "{text}");
        assert_eq!(text.split_once('.').map_or(0, |(_, fraction)| fraction.len()), s1 as usize);
        let read = text::parse(&text, &decimal_arrow(p1, s1)).unwrap();
        assert_eq!(unscaled(read.array()), value.text());
        // The double of the decimal is that of its text.
        let double = cast(&array, &DataType::Float64, false).unwrap();
        assert_eq!(double.as_primitive::<arrow::datatypes::Float64Type>().value(0), text.parse::<f64>().unwrap() + 0.0);
    }
}

#[test]
fn integers_and_constants_go_with_wide_decimals() {
    let bound = LongNumber::new(false, vec![9; 76]);
    let wide = Operand::constant(bound.array(76, 0));
    let integers: ArrayRef = Arc::new(Int64Array::from(vec![Some(-1), None, Some(0), Some(-7)]));
    let kind = DataType::Decimal256(76, 0);
    let sum = arithmetic(ArithmeticOp::Plus, &wide, &Operand::rows(Arc::clone(&integers)), &kind, 4).unwrap();
    let sum = sum.as_primitive::<arrow::datatypes::Decimal256Type>();
    assert!(sum.is_null(1) && sum.value(3).to_string().ends_with("92"));
    let one: ArrayRef = Arc::new(Int64Array::from(vec![Some(1)]));
    assert!(arithmetic(ArithmeticOp::Plus, &wide, &Operand::rows(one), &kind, 1).is_err());
    // A NULL beside a value that would overflow is no error.
    let nothing: ArrayRef = Arc::new(Int64Array::from(vec![None::<i64>]));
    assert!(arithmetic(ArithmeticOp::Times, &wide, &Operand::rows(nothing), &kind, 1).unwrap().is_null(0));
}
