//! Arithmetic of integers of every width.
//!
//! The loops of `+ - *` compute wrapped results with plain instructions. They collect in the highest bit of one
//! variable whether any result has wrapped.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, PrimitiveArray};
use arrow::datatypes::{
    ArrowPrimitiveType, DataType, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type,
    UInt64Type,
};
use rowmill_base::{Error, Result};
use rowmill_plan::Operand;
use rowmill_plan::program::ArithmeticOp;

use crate::kernels::sides::{OperandSide, Sides, sides};
use crate::kinds::{division_by_zero, out_of_range};

/// The operations on an integer that the loops need. The second value of a result has its highest bit set if the result
/// wrapped.
trait Wrapping: Copy + PartialEq {
    const ZERO: Self;
    fn plus(self, other: Self) -> (Self, Self);
    fn minus(self, other: Self) -> (Self, Self);
    fn times(self, other: Self) -> (Self, Self);
    fn or(self, other: Self) -> Self;
    fn has_highest_bit(self) -> bool;
    fn quotient(self, other: Self) -> Option<Self>;
    fn remainder(self, other: Self) -> Option<Self>;
}

macro_rules! wrapping {
    ($($kind:ty as $wide:ty: |$a:ident, $b:ident, $r:ident| $carry:expr, $borrow:expr;)*) => {$(
        impl Wrapping for $kind {
            const ZERO: Self = 0;
            #[inline(always)]
            fn plus(self, other: Self) -> (Self, Self) {
                let ($a, $b, $r) = (self, other, self.wrapping_add(other));
                ($r, $carry)
            }
            #[inline(always)]
            fn minus(self, other: Self) -> (Self, Self) {
                let ($a, $b, $r) = (self, other, self.wrapping_sub(other));
                ($r, $borrow)
            }
            #[inline(always)]
            fn times(self, other: Self) -> (Self, Self) {
                // The product is exact in twice the width, so a difference shows that it wrapped.
                let product = <$wide>::from(self) * <$wide>::from(other);
                let wrapped = product as Self;
                (wrapped, Self::from(<$wide>::from(wrapped) != product) << (Self::BITS - 1))
            }
            #[inline(always)]
            fn or(self, other: Self) -> Self {
                self | other
            }
            #[inline(always)]
            fn has_highest_bit(self) -> bool {
                self >> (Self::BITS - 1) != 0
            }
            #[inline(always)]
            fn quotient(self, other: Self) -> Option<Self> {
                self.checked_div(other)
            }
            #[inline(always)]
            fn remainder(self, other: Self) -> Option<Self> {
                // The least number modulo -1 is 0, although its quotient does not fit.
                if other == 0 { None } else { Some(self.wrapping_rem(other)) }
            }
        }
    )*};
}

// In two's complement, a signed sum has wrapped if its sign differs from the signs of both operands. An unsigned sum
// has wrapped if a carry left the highest bit.
wrapping! {
    i8 as i32: |a, b, r| (a ^ r) & (b ^ r), (a ^ b) & (a ^ r);
    i16 as i32: |a, b, r| (a ^ r) & (b ^ r), (a ^ b) & (a ^ r);
    i32 as i64: |a, b, r| (a ^ r) & (b ^ r), (a ^ b) & (a ^ r);
    i64 as i128: |a, b, r| (a ^ r) & (b ^ r), (a ^ b) & (a ^ r);
    u8 as u32: |a, b, r| (a & b) | ((a | b) & !r), (!a & b) | ((!a | b) & r);
    u16 as u32: |a, b, r| (a & b) | ((a | b) & !r), (!a & b) | ((!a | b) & r);
    u32 as u64: |a, b, r| (a & b) | ((a | b) & !r), (!a & b) | ((!a | b) & r);
    u64 as u128: |a, b, r| (a & b) | ((a | b) & !r), (!a & b) | ((!a | b) & r);
}

/// Computes `left op right` of two operands of one integer type.
pub(super) fn apply(op: ArithmeticOp, left: &Operand, right: &Operand, rows: usize) -> Result<ArrayRef> {
    match left.values.data_type() {
        DataType::Int8 => typed::<Int8Type>(op, left, right, rows),
        DataType::Int16 => typed::<Int16Type>(op, left, right, rows),
        DataType::Int32 => typed::<Int32Type>(op, left, right, rows),
        DataType::Int64 => typed::<Int64Type>(op, left, right, rows),
        DataType::UInt8 => typed::<UInt8Type>(op, left, right, rows),
        DataType::UInt16 => typed::<UInt16Type>(op, left, right, rows),
        DataType::UInt32 => typed::<UInt32Type>(op, left, right, rows),
        DataType::UInt64 => typed::<UInt64Type>(op, left, right, rows),
        other => Err(Error::internal(format!("integer arithmetic on {other}"))),
    }
}

fn typed<T>(op: ArithmeticOp, left: &Operand, right: &Operand, rows: usize) -> Result<ArrayRef>
where
    T: ArrowPrimitiveType,
    T::Native: Wrapping + std::fmt::Display,
{
    let sides = sides::<T>(left, right, rows)?;
    let values = match op {
        ArithmeticOp::Plus => gathered::<T>(op, &sides, Wrapping::plus),
        ArithmeticOp::Minus => gathered::<T>(op, &sides, Wrapping::minus),
        ArithmeticOp::Times => gathered::<T>(op, &sides, Wrapping::times),
        ArithmeticOp::Divide => divided::<T>(op, &sides, Wrapping::quotient),
        ArithmeticOp::Remainder => divided::<T>(op, &sides, Wrapping::remainder),
    };
    Ok(Arc::new(PrimitiveArray::<T>::new(values?.into(), sides.nulls)))
}

fn gathered<T>(
    symbol: ArithmeticOp,
    sides: &Sides<'_, T::Native>,
    op: impl Fn(T::Native, T::Native) -> (T::Native, T::Native),
) -> Result<Vec<T::Native>>
where
    T: ArrowPrimitiveType,
    T::Native: Wrapping + std::fmt::Display,
{
    let mut wrapped = T::Native::ZERO;
    let values = sides.map(|left, right| {
        let (value, bad) = op(left, right);
        wrapped = wrapped.or(bad);
        value
    });
    // Only now do we look for the row, and only among valid rows, because a NULL row may have wrapped.
    if wrapped.has_highest_bit()
        && let Some((left, right)) = sides.find(|left, right| op(left, right).1.has_highest_bit())
    {
        return Err(out_of_range(format!("{left} {symbol} {right}"), &T::DATA_TYPE));
    }
    Ok(values)
}

/// Divides column by column or constant. A NULL row may contain a zero, which must not cause a panic.
fn divided<T>(
    symbol: ArithmeticOp,
    sides: &Sides<'_, T::Native>,
    op: impl Fn(T::Native, T::Native) -> Option<T::Native>,
) -> Result<Vec<T::Native>>
where
    T: ArrowPrimitiveType,
    T::Native: Wrapping + std::fmt::Display,
{
    let mut failed = false;
    let values = sides.map(|left, right| {
        let value = op(left, right);
        failed |= value.is_none();
        value.unwrap_or(T::Native::ZERO)
    });
    if failed && let Some((left, right)) = sides.find(|left, right| op(left, right).is_none()) {
        return Err(match right == T::Native::ZERO {
            true => division_by_zero(),
            false => out_of_range(format!("{left} {symbol} {right}"), &T::DATA_TYPE),
        });
    }
    Ok(values)
}

/// Computes `-value` of a signed integer.
pub(super) fn negate(value: &ArrayRef) -> Result<ArrayRef> {
    match value.data_type() {
        DataType::Int8 => negate_typed::<Int8Type>(value),
        DataType::Int16 => negate_typed::<Int16Type>(value),
        DataType::Int32 => negate_typed::<Int32Type>(value),
        _ => negate_typed::<Int64Type>(value),
    }
}

fn negate_typed<T>(value: &ArrayRef) -> Result<ArrayRef>
where
    T: ArrowPrimitiveType,
    T::Native: Wrapping + std::fmt::Display,
{
    let array = value.as_primitive::<T>();
    let zero = T::Native::ZERO;
    let sides = Sides {
        left: OperandSide::Constant(zero),
        right: OperandSide::Column(array.values()),
        rows: array.len(),
        nulls: array.nulls().cloned(),
    };
    let values = gathered::<T>(ArithmeticOp::Minus, &sides, Wrapping::minus)?;
    Ok(Arc::new(PrimitiveArray::<T>::new(values.into(), sides.nulls)))
}
