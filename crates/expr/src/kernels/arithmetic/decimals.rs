//! Exact arithmetic of decimals with decimals and integers.
//!
//! A result has the digits of [`crate::typing::decimal_result`]. If these are not capped to 38 digits, no result can be
//! out of range, so the loop does not check.

use std::borrow::Cow;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Decimal128Array, Float64Array, PrimitiveArray};
use arrow::datatypes::{
    ArrowPrimitiveType, DataType, Decimal128Type, DecimalType, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type,
    UInt16Type, UInt32Type, UInt64Type,
};
use rowmill_base::{Error, Result};
use rowmill_plan::Operand;
use rowmill_plan::program::ArithmeticOp;

use crate::kernels::sides::{OperandSide, Sides, joint_nulls};
use crate::kinds::{DIGITS_MAX, arrow_failed, digits_and_scale, division_by_zero, out_of_range, power_of_ten};

/// Computes `left op right` of exact numbers; at least one must be a decimal. `kind` is DOUBLE for a quotient, or a
/// decimal without a fraction for the quotient of two whole numbers.
pub(super) fn apply(
    op: ArithmeticOp,
    left: &Operand,
    right: &Operand,
    kind: &DataType,
    rows: usize,
) -> Result<ArrayRef> {
    let formula = DecimalFormula::new(op, left.values.data_type(), right.values.data_type(), kind)?;
    let (left_values, right_values) = (exact_values(left)?, exact_values(right)?);
    let side =
        |values: &'_ Cow<'_, [i128]>, operand: &Operand| -> Option<i128> { operand.is_constant.then(|| values[0]) };
    let sides = Sides {
        left: side(&left_values, left).map_or(OperandSide::Column(&left_values), OperandSide::Constant),
        right: side(&right_values, right).map_or(OperandSide::Column(&right_values), OperandSide::Constant),
        rows,
        nulls: joint_nulls(left, right, rows),
    };
    if let DataType::Float64 = kind {
        return divide(&formula, sides);
    }
    let values = if formula.is_checked { formula.checked(&sides)? } else { formula.unchecked(&sides) };
    decimals(Decimal128Array::new(values.into(), sides.nulls), kind)
}

/// One operator with the scales of its operands.
struct DecimalFormula<'a> {
    op: ArithmeticOp,
    kind: &'a DataType,
    scales: (i8, i8),
    /// The factors that bring the operands to one scale.
    factors: (i128, i128),
    /// Every result must be less than this.
    bound: i128,
    /// Whether a result can be out of range, or a divisor zero.
    is_checked: bool,
}

impl<'a> DecimalFormula<'a> {
    fn new(op: ArithmeticOp, left: &DataType, right: &DataType, kind: &'a DataType) -> Result<DecimalFormula<'a>> {
        let untyped = || Error::internal(format!("decimal arithmetic on {left} and {right}"));
        let ((p1, s1), (p2, s2)) =
            (digits_and_scale(left).ok_or_else(untyped)?, digits_and_scale(right).ok_or_else(untyped)?);
        let digits = digits_and_scale(kind).map_or(DIGITS_MAX, |(digits, _)| digits);
        let scale = s1.max(s2);
        let (whole1, whole2) = (i16::from(p1) - i16::from(s1), i16::from(p2) - i16::from(s2));
        let wanted = match op {
            ArithmeticOp::Times => whole1 + whole2 + i16::from(s1) + i16::from(s2),
            // Both operands are brought to the larger scale first, so its digits count too.
            _ => whole1.max(whole2) + 1 + i16::from(scale),
        };
        // Only a result with capped digits, or a division, can fail. All other loops skip the check.
        let is_checked = matches!(op, ArithmeticOp::Divide | ArithmeticOp::Remainder) || wanted > i16::from(digits);
        let factor = |from: i8| power_of_ten((scale - from).max(0).unsigned_abs().into());
        let factors = if op == ArithmeticOp::Times { (1, 1) } else { (factor(s1), factor(s2)) };
        let bound = power_of_ten(digits.into());
        Ok(DecimalFormula { op, kind, scales: (s1, s2), factors, bound, is_checked })
    }

    /// Returns the result if it is within the bound.
    #[inline]
    fn one(&self, left: i128, right: i128) -> Option<i128> {
        let (f1, f2) = self.factors;
        let value = match self.op {
            ArithmeticOp::Times => multiply(left, right)?,
            ArithmeticOp::Plus => multiply(left, f1)?.checked_add(multiply(right, f2)?)?,
            ArithmeticOp::Minus => multiply(left, f1)?.checked_sub(multiply(right, f2)?)?,
            ArithmeticOp::Divide => multiply(left, f1)?.checked_div(multiply(right, f2)?)?,
            ArithmeticOp::Remainder => multiply(left, f1)?.checked_rem(multiply(right, f2)?)?,
        };
        Some(value).filter(|value| value.unsigned_abs() < self.bound.unsigned_abs())
    }

    fn failure(&self, left: i128, right: i128) -> Error {
        if right == 0 && matches!(self.op, ArithmeticOp::Divide | ArithmeticOp::Remainder) {
            return division_by_zero();
        }
        let text = |value, scale| Decimal128Type::format_decimal(value, DIGITS_MAX, scale);
        let (left, right) = (text(left, self.scales.0), text(right, self.scales.1));
        out_of_range(format!("{left} {} {right}", self.op), self.kind)
    }

    fn unchecked(&self, sides: &Sides<'_, i128>) -> Vec<i128> {
        let (f1, f2) = self.factors;
        match self.op {
            ArithmeticOp::Times => sides.map(i128::wrapping_mul),
            ArithmeticOp::Plus if f1 == 1 && f2 == 1 => sides.map(i128::wrapping_add),
            ArithmeticOp::Plus => sides.map(|l, r| l.wrapping_mul(f1).wrapping_add(r.wrapping_mul(f2))),
            _ if f1 == 1 && f2 == 1 => sides.map(i128::wrapping_sub),
            _ => sides.map(|l, r| l.wrapping_mul(f1).wrapping_sub(r.wrapping_mul(f2))),
        }
    }

    fn checked(&self, sides: &Sides<'_, i128>) -> Result<Vec<i128>> {
        let mut failed = false;
        let values = sides.map(|left, right| {
            let value = self.one(left, right);
            failed |= value.is_none();
            value.unwrap_or_default()
        });
        match failed.then(|| sides.find(|left, right| self.one(left, right).is_none())).flatten() {
            Some((left, right)) => Err(self.failure(left, right)),
            None => Ok(values),
        }
    }
}

/// Multiplies. Nearly all factors fit 64 bits; then one instruction is enough and no check is needed.
#[inline]
fn multiply(left: i128, right: i128) -> Option<i128> {
    match (i64::try_from(left), i64::try_from(right)) {
        (Ok(left), Ok(right)) => Some(i128::from(left) * i128::from(right)),
        _ => left.checked_mul(right),
    }
}

/// Divides the nearest doubles of the operands.
fn divide(formula: &DecimalFormula<'_>, sides: Sides<'_, i128>) -> Result<ArrayRef> {
    let (s1, s2) = formula.scales;
    let (unit1, unit2) = (10_f64.powi(i32::from(s1)), 10_f64.powi(i32::from(s2)));
    let mut by_zero = false;
    let values = sides.map(|left, right| {
        by_zero |= right == 0;
        (to_double(left) / unit1) / (to_double(right) / unit2) + 0.0
    });
    if by_zero && sides.find(|_, right| right == 0).is_some() {
        return Err(division_by_zero());
    }
    Ok(Arc::new(Float64Array::new(values.into(), sides.nulls)))
}

/// Returns the nearest double. A value of 64 bits converts in one instruction.
#[inline]
fn to_double(value: i128) -> f64 {
    i64::try_from(value).map_or(value as f64, |value| value as f64)
}

/// Computes `-value`.
pub(super) fn negate(value: &ArrayRef) -> Result<ArrayRef> {
    let array = value.as_primitive::<Decimal128Type>();
    decimals(array.unary(i128::wrapping_neg), value.data_type())
}

fn decimals(values: Decimal128Array, kind: &DataType) -> Result<ArrayRef> {
    let Some((digits, scale)) = digits_and_scale(kind) else {
        return Err(Error::internal(format!("decimals of type {kind}")));
    };
    Ok(Arc::new(values.with_precision_and_scale(digits, scale).map_err(arrow_failed)?))
}

/// Returns the values of an integer or decimal operand.
fn exact_values(operand: &Operand) -> Result<Cow<'_, [i128]>> {
    fn wide<T: ArrowPrimitiveType>(array: &PrimitiveArray<T>) -> Cow<'_, [i128]>
    where
        T::Native: Into<i128>,
    {
        Cow::Owned(array.values().iter().map(|value| (*value).into()).collect())
    }
    let array = &operand.values;
    Ok(match array.data_type() {
        DataType::Decimal128(..) => Cow::Borrowed(array.as_primitive::<Decimal128Type>().values()),
        DataType::Int8 => wide(array.as_primitive::<Int8Type>()),
        DataType::Int16 => wide(array.as_primitive::<Int16Type>()),
        DataType::Int32 => wide(array.as_primitive::<Int32Type>()),
        DataType::Int64 => wide(array.as_primitive::<Int64Type>()),
        DataType::UInt8 => wide(array.as_primitive::<UInt8Type>()),
        DataType::UInt16 => wide(array.as_primitive::<UInt16Type>()),
        DataType::UInt32 => wide(array.as_primitive::<UInt32Type>()),
        DataType::UInt64 => wide(array.as_primitive::<UInt64Type>()),
        other => return Err(Error::internal(format!("decimal arithmetic on {other}"))),
    })
}
