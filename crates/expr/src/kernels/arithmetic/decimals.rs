//! Exact arithmetic of decimals with decimals and integers.
//!
//! A result has the digits of [`crate::typing::decimal_result`]. If these are not capped, no result can be out of
//! range, so the loop does not check. We compute in 128 bits, or in 256 bits if an operand or the result has them.

use std::borrow::Cow;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Float64Array, PrimitiveArray};
use arrow::datatypes::{
    DataType, Decimal128Type, Decimal256Type, DecimalType, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type,
    UInt16Type, UInt32Type, UInt64Type, i256,
};
use rowmill_base::{Error, Result};
use rowmill_plan::Operand;
use rowmill_plan::program::ArithmeticOp;

use crate::kernels::sides::{OperandSide, Sides, joint_nulls};
use crate::kinds::{arrow_failed, digits_and_scale, division_by_zero, is_wide_decimal, out_of_range};
use crate::unscaled::Unscaled;

/// Computes `left op right` of exact numbers; at least one must be a decimal. `kind` is DOUBLE for a quotient, or a
/// decimal without a fraction for the quotient of two whole numbers.
pub(super) fn apply(
    op: ArithmeticOp,
    left: &Operand,
    right: &Operand,
    kind: &DataType,
    rows: usize,
) -> Result<ArrayRef> {
    let is_wide = [left.values.data_type(), right.values.data_type(), kind].into_iter().any(is_wide_decimal);
    match is_wide {
        false => apply_as(op, left, right, kind, rows, narrow_values),
        true => apply_as(op, left, right, kind, rows, wide_values),
    }
}

/// The unscaled values of an operand.
type UnscaledValues<N> = fn(&Operand) -> Result<Cow<'_, [N]>>;

fn apply_as<N: Unscaled>(
    op: ArithmeticOp,
    left: &Operand,
    right: &Operand,
    kind: &DataType,
    rows: usize,
    exact_values: UnscaledValues<N>,
) -> Result<ArrayRef> {
    let formula = DecimalFormula::<N>::new(op, left.values.data_type(), right.values.data_type(), kind)?;
    let (left_values, right_values) = (exact_values(left)?, exact_values(right)?);
    let side = |values: &'_ Cow<'_, [N]>, operand: &Operand| -> Option<N> { operand.is_constant.then(|| values[0]) };
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
    decimals(PrimitiveArray::<N::Decimal>::new(values.into(), sides.nulls), kind)
}

/// One operator with the scales of its operands.
struct DecimalFormula<'a, N> {
    op: ArithmeticOp,
    kind: &'a DataType,
    scales: (i8, i8),
    /// The factors that bring the operands to one scale.
    factors: (N, N),
    /// Every result must be less than this.
    bound: N,
    /// Whether a result can be out of range, or a divisor zero.
    is_checked: bool,
}

impl<'a, N: Unscaled> DecimalFormula<'a, N> {
    fn new(op: ArithmeticOp, left: &DataType, right: &DataType, kind: &'a DataType) -> Result<DecimalFormula<'a, N>> {
        let untyped = || Error::internal(format!("decimal arithmetic on {left} and {right}"));
        let ((p1, s1), (p2, s2)) =
            (digits_and_scale(left).ok_or_else(untyped)?, digits_and_scale(right).ok_or_else(untyped)?);
        let digits = digits_and_scale(kind).map_or(N::DIGITS_MAX, |(digits, _)| digits);
        let scale = s1.max(s2);
        let (whole1, whole2) = (i16::from(p1) - i16::from(s1), i16::from(p2) - i16::from(s2));
        let wanted = match op {
            ArithmeticOp::Times => whole1 + whole2 + i16::from(s1) + i16::from(s2),
            // Both operands are brought to the larger scale first, so its digits count too.
            _ => whole1.max(whole2) + 1 + i16::from(scale),
        };
        // Only a result with capped digits, or a division, can fail. All other loops skip the check.
        let is_checked = matches!(op, ArithmeticOp::Divide | ArithmeticOp::Remainder) || wanted > i16::from(digits);
        let factor = |from: i8| N::power_of_ten((scale - from).max(0).unsigned_abs().into());
        let factors = if op == ArithmeticOp::Times { (N::of(1), N::of(1)) } else { (factor(s1), factor(s2)) };
        let bound = N::power_of_ten(digits.into());
        Ok(DecimalFormula { op, kind, scales: (s1, s2), factors, bound, is_checked })
    }

    /// Returns the result if it is within the bound.
    #[inline]
    fn one(&self, left: N, right: N) -> Option<N> {
        let (f1, f2) = self.factors;
        let value = match self.op {
            ArithmeticOp::Times => left.multiply(right)?,
            ArithmeticOp::Plus => left.multiply(f1)?.add(right.multiply(f2)?)?,
            ArithmeticOp::Minus => left.multiply(f1)?.subtract(right.multiply(f2)?)?,
            ArithmeticOp::Divide => left.multiply(f1)?.quotient(right.multiply(f2)?)?,
            ArithmeticOp::Remainder => left.multiply(f1)?.remainder(right.multiply(f2)?)?,
        };
        Some(value).filter(|value| value.is_within(self.bound))
    }

    fn failure(&self, left: N, right: N) -> Error {
        if right == N::default() && matches!(self.op, ArithmeticOp::Divide | ArithmeticOp::Remainder) {
            return division_by_zero();
        }
        let text = |value, scale| N::Decimal::format_decimal(value, N::DIGITS_MAX, scale);
        let (left, right) = (text(left, self.scales.0), text(right, self.scales.1));
        out_of_range(format!("{left} {} {right}", self.op), self.kind)
    }

    fn unchecked(&self, sides: &Sides<'_, N>) -> Vec<N> {
        let (f1, f2) = self.factors;
        let have_one_scale = f1 == N::of(1) && f2 == N::of(1);
        match self.op {
            ArithmeticOp::Times => sides.map(N::product_in_range),
            ArithmeticOp::Plus if have_one_scale => sides.map(N::sum_in_range),
            ArithmeticOp::Plus => sides.map(|l, r| l.product_in_range(f1).sum_in_range(r.product_in_range(f2))),
            _ if have_one_scale => sides.map(N::difference_in_range),
            _ => sides.map(|l, r| l.product_in_range(f1).difference_in_range(r.product_in_range(f2))),
        }
    }

    fn checked(&self, sides: &Sides<'_, N>) -> Result<Vec<N>> {
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

/// Divides the nearest doubles of the operands.
fn divide<N: Unscaled>(formula: &DecimalFormula<'_, N>, sides: Sides<'_, N>) -> Result<ArrayRef> {
    let (s1, s2) = formula.scales;
    let (unit1, unit2) = (10_f64.powi(i32::from(s1)), 10_f64.powi(i32::from(s2)));
    let mut by_zero = false;
    let values = sides.map(|left, right| {
        by_zero |= right == N::default();
        (left.to_double() / unit1) / (right.to_double() / unit2) + 0.0
    });
    if by_zero && sides.find(|_, right| right == N::default()).is_some() {
        return Err(division_by_zero());
    }
    Ok(Arc::new(Float64Array::new(values.into(), sides.nulls)))
}

/// Computes `-value`.
pub(super) fn negate(value: &ArrayRef) -> Result<ArrayRef> {
    match value.data_type() {
        DataType::Decimal256(..) => decimals(
            value.as_primitive::<Decimal256Type>().unary::<_, Decimal256Type>(i256::wrapping_neg),
            value.data_type(),
        ),
        _ => decimals(
            value.as_primitive::<Decimal128Type>().unary::<_, Decimal128Type>(i128::wrapping_neg),
            value.data_type(),
        ),
    }
}

/// Gives unscaled values the type `kind`. A remainder of wide decimals may have a narrow type.
fn decimals<T: DecimalType>(values: PrimitiveArray<T>, kind: &DataType) -> Result<ArrayRef>
where
    T::Native: Unscaled,
{
    let Some((digits, scale)) = digits_and_scale(kind) else {
        return Err(Error::internal(format!("decimals of type {kind}")));
    };
    if let (DataType::Decimal128(..), true) = (kind, T::MAX_PRECISION > <i128 as Unscaled>::DIGITS_MAX) {
        // The caller has checked that all values have the digits of `kind`. Values under a NULL may have more.
        let narrow = values.unary::<_, Decimal128Type>(|value| value.narrow().unwrap_or_default());
        return decimals(narrow, kind);
    }
    Ok(Arc::new(values.with_precision_and_scale(digits, scale).map_err(arrow_failed)?))
}

/// Returns the values of an integer or decimal operand of at most 38 digits.
fn narrow_values(operand: &Operand) -> Result<Cow<'_, [i128]>> {
    match operand.values.data_type() {
        DataType::Decimal128(..) => Ok(Cow::Borrowed(operand.values.as_primitive::<Decimal128Type>().values())),
        _ => integer_values(operand, std::convert::identity).map(Cow::Owned),
    }
}

/// Returns the values of an integer or decimal operand.
fn wide_values(operand: &Operand) -> Result<Cow<'_, [i256]>> {
    match operand.values.data_type() {
        DataType::Decimal256(..) => Ok(Cow::Borrowed(operand.values.as_primitive::<Decimal256Type>().values())),
        DataType::Decimal128(..) => {
            let values = operand.values.as_primitive::<Decimal128Type>().values();
            Ok(Cow::Owned(values.iter().map(|value| i256::of(*value)).collect()))
        }
        _ => integer_values(operand, i256::of).map(Cow::Owned),
    }
}

/// Returns the values of an integer operand.
fn integer_values<N: Unscaled>(operand: &Operand, unscaled: impl Fn(i128) -> N) -> Result<Vec<N>> {
    macro_rules! wide {
        ($kind:ty) => {{
            let array: &PrimitiveArray<$kind> = operand.values.as_primitive::<$kind>();
            array.values().iter().map(|value| unscaled((*value).into())).collect()
        }};
    }
    Ok(match operand.values.data_type() {
        DataType::Int8 => wide!(Int8Type),
        DataType::Int16 => wide!(Int16Type),
        DataType::Int32 => wide!(Int32Type),
        DataType::Int64 => wide!(Int64Type),
        DataType::UInt8 => wide!(UInt8Type),
        DataType::UInt16 => wide!(UInt16Type),
        DataType::UInt32 => wide!(UInt32Type),
        DataType::UInt64 => wide!(UInt64Type),
        other => return Err(Error::internal(format!("decimal arithmetic on {other}"))),
    })
}
