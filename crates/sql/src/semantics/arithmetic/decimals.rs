//! Exact decimal arithmetic.
//!
//! | operation | digits behind the point | digits in front of it |
//! | --- | --- | --- |
//! | `+ -` | the larger of both | one more than the larger of both |
//! | `*` | the sum of both | the sum of both |
//! | `%` | the larger of both | the smaller of both |
//! | `/` | a DOUBLE | |
//!
//! More than 38 digits in all are capped to 38: digits in front of the point may then be missing, and a result that
//! needs them is out of range. Results that are not capped cannot be out of range, and the loops do not check them.

use std::sync::Arc;

use arrow::array::{ArrayRef, Decimal128Array, Float64Array};
use arrow::datatypes::{DataType, Decimal128Type, DecimalType};
use datafusion::logical_expr::{ColumnarValue, Operator};
use rowmill_base::{Error, ErrorKind, Result};

use super::operands::Operands;
use super::{DIGITS_MAX, division_by_zero, out_of_range};

/// Digits that every value of an integer type fits in.
pub(crate) fn digits_of_integer(kind: &DataType) -> Option<u8> {
    Some(match kind {
        DataType::Int8 | DataType::UInt8 => 3,
        DataType::Int16 | DataType::UInt16 => 5,
        DataType::Int32 | DataType::UInt32 => 10,
        DataType::Int64 => 19,
        DataType::UInt64 => 20,
        _ => return None,
    })
}

/// Digits of `value`, at least one.
pub(crate) fn digits_of(value: i128) -> u8 {
    value.unsigned_abs().checked_ilog10().map_or(1, |digits| digits as u8 + 1)
}

/// The type of `op` on `DECIMAL(p1,s1)` and `DECIMAL(p2,s2)`, by the table above.
pub(crate) fn result_type(op: Operator, (p1, s1): (u8, i8), (p2, s2): (u8, i8)) -> Result<DataType> {
    let (whole1, whole2) = (i16::from(p1) - i16::from(s1), i16::from(p2) - i16::from(s2));
    let (whole, scale) = match op {
        Operator::Plus | Operator::Minus => (whole1.max(whole2) + 1, s1.max(s2)),
        Operator::Multiply => (whole1 + whole2, s1.saturating_add(s2)),
        Operator::Modulo => (whole1.min(whole2), s1.max(s2)),
        _ => return Ok(DataType::Float64),
    };
    if scale > DIGITS_MAX as i8 {
        return Err(Error::new(
            ErrorKind::NumericOutOfRange,
            format!(
                "number out of range: DECIMAL({p1},{s1}) {op} DECIMAL({p2},{s2}) needs {scale} digits behind the point"
            ),
        )
        .hint("a DECIMAL has at most 38 digits: CAST one side to fewer, or to DOUBLE"));
    }
    let digits = (whole + i16::from(scale)).clamp(1, i16::from(DIGITS_MAX)) as u8;
    Ok(DataType::Decimal128(digits, scale))
}

/// Whether the table asks for more digits than `kind` has.
fn is_capped(op: Operator, (p1, s1): (u8, i8), (p2, s2): (u8, i8), digits: u8) -> bool {
    let (whole1, whole2) = (i16::from(p1) - i16::from(s1), i16::from(p2) - i16::from(s2));
    let wanted = match op {
        Operator::Multiply => whole1 + whole2 + i16::from(s1) + i16::from(s2),
        // The operands themselves are brought to the larger scale first.
        _ => whole1.max(whole2) + 1 + i16::from(s1.max(s2)),
    };
    wanted > i16::from(digits)
}

fn parameters(kind: &DataType) -> Result<(u8, i8)> {
    match kind {
        DataType::Decimal128(precision, scale) => Ok((*precision, *scale)),
        other => Err(Error::internal(format!("decimal arithmetic on {other}"))),
    }
}

/// `left op right` for `+ - * %`, as `kind`.
pub(super) fn apply(
    op: Operator,
    left: &ColumnarValue,
    right: &ColumnarValue,
    kind: &DataType,
    rows: usize,
) -> Result<ArrayRef> {
    let (first, second) = (parameters(&left.data_type())?, parameters(&right.data_type())?);
    let (digits, scale) = parameters(kind)?;
    let operands = Operands::<Decimal128Type>::new(left, right, rows)?;
    let values = if op == Operator::Modulo || is_capped(op, first, second, digits) {
        checked(op, &operands, (first, second), kind)?
    } else {
        unchecked(op, &operands, first.1, second.1)
    };
    let array = Decimal128Array::new(values.into(), operands.nulls());
    array
        .with_precision_and_scale(digits, scale)
        .map(|array| Arc::new(array) as ArrayRef)
        .map_err(|error| Error::internal(format!("a decimal of {digits} digits, {scale} behind the point: {error}")))
}

/// `10^(to - from)`
fn factor(from: i8, to: i8) -> i128 {
    10_i128.pow((to - from).max(0) as u32)
}

fn unchecked(op: Operator, operands: &Operands<Decimal128Type>, s1: i8, s2: i8) -> Vec<i128> {
    let scale = s1.max(s2);
    let (f1, f2) = (factor(s1, scale), factor(s2, scale));
    match op {
        Operator::Multiply => operands.map(i128::wrapping_mul),
        Operator::Plus if f1 == 1 && f2 == 1 => operands.map(i128::wrapping_add),
        Operator::Plus => operands.map(|l, r| l.wrapping_mul(f1).wrapping_add(r.wrapping_mul(f2))),
        _ if f1 == 1 && f2 == 1 => operands.map(i128::wrapping_sub),
        _ => operands.map(|l, r| l.wrapping_mul(f1).wrapping_sub(r.wrapping_mul(f2))),
    }
}

fn checked(
    op: Operator,
    operands: &Operands<Decimal128Type>,
    ((_, s1), (_, s2)): ((u8, i8), (u8, i8)),
    kind: &DataType,
) -> Result<Vec<i128>> {
    let scale = s1.max(s2);
    let (f1, f2) = (factor(s1, scale), factor(s2, scale));
    let (digits, _) = parameters(kind)?;
    let bound = 10_i128.pow(u32::from(digits));
    let in_bound = |value: &i128| value.unsigned_abs() < bound.unsigned_abs();
    let one = |l: i128, r: i128| -> Option<i128> {
        let value = match op {
            Operator::Multiply => multiply(l, r)?,
            Operator::Plus => multiply(l, f1)?.checked_add(multiply(r, f2)?)?,
            Operator::Minus => multiply(l, f1)?.checked_sub(multiply(r, f2)?)?,
            _ => multiply(l, f1)?.checked_rem(multiply(r, f2)?)?,
        };
        Some(value).filter(in_bound)
    };
    let mut failed = false;
    let values = operands.map(|l, r| {
        one(l, r).unwrap_or_else(|| {
            failed = true;
            0
        })
    });
    if failed && let Some((l, r)) = operands.find(|l, r| one(l, r).is_none()) {
        if op == Operator::Modulo && r == 0 {
            return Err(division_by_zero());
        }
        let text = |value, scale| Decimal128Type::format_decimal(value, DIGITS_MAX, scale);
        return Err(out_of_range(format!("{} {op} {}", text(l, s1), text(r, s2)), kind));
    }
    Ok(values)
}

/// Two factors of 64 bits, which is what nearly all are, need one instruction and no check.
#[inline]
fn multiply(l: i128, r: i128) -> Option<i128> {
    match (i64::try_from(l), i64::try_from(r)) {
        (Ok(l), Ok(r)) => Some(i128::from(l) * i128::from(r)),
        _ => l.checked_mul(r),
    }
}

/// `left / right` as DOUBLE: the quotient of the two nearest doubles.
pub(super) fn divide(left: &ColumnarValue, right: &ColumnarValue, rows: usize) -> Result<ArrayRef> {
    let ((_, s1), (_, s2)) = (parameters(&left.data_type())?, parameters(&right.data_type())?);
    let (unit1, unit2) = (10_f64.powi(i32::from(s1)), 10_f64.powi(i32::from(s2)));
    let operands = Operands::<Decimal128Type>::new(left, right, rows)?;
    let mut by_zero = false;
    let values = operands.map(|l, r| {
        by_zero |= r == 0;
        (to_double(l) / unit1) / (to_double(r) / unit2) + 0.0
    });
    if by_zero && operands.find(|_, r| r == 0).is_some() {
        return Err(division_by_zero());
    }
    Ok(Arc::new(Float64Array::new(values.into(), operands.nulls())))
}

/// The nearest double; 64 bits convert in one instruction.
#[inline]
fn to_double(value: i128) -> f64 {
    i64::try_from(value).map_or(value as f64, |value| value as f64)
}
