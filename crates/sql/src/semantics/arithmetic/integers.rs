//! `+ - *` on integers of every width.

use std::sync::Arc;

use arrow::array::{ArrayRef, ArrowPrimitiveType, PrimitiveArray};
use arrow::datatypes::{
    DataType, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use datafusion::logical_expr::{ColumnarValue, Operator};
use rowmill_base::{Error, Result};

use super::operands::Operands;
use super::out_of_range;

/// What the loops need of an integer: the wrapped result, and a value whose highest bit says that it wrapped.
trait Wrapping: Copy {
    fn add(self, other: Self) -> (Self, Self);
    fn sub(self, other: Self) -> (Self, Self);
    fn mul(self, other: Self) -> (Self, Self);
    const CLEAN: Self;
    fn gather(self, other: Self) -> Self;
    fn is_bad(self) -> bool;
}

macro_rules! wrapping {
    ($($kind:ty, $wide:ty, $add:expr, $sub:expr;)*) => {$(
        impl Wrapping for $kind {
            #[inline]
            fn add(self, other: Self) -> (Self, Self) {
                let sum = self.wrapping_add(other);
                let carry: fn(Self, Self, Self) -> Self = $add;
                (sum, carry(self, other, sum))
            }
            #[inline]
            fn sub(self, other: Self) -> (Self, Self) {
                let difference = self.wrapping_sub(other);
                let borrow: fn(Self, Self, Self) -> Self = $sub;
                (difference, borrow(self, other, difference))
            }
            #[inline]
            fn mul(self, other: Self) -> (Self, Self) {
                let product = <$wide>::from(self) * <$wide>::from(other);
                let wrapped = product as Self;
                let bad = <$wide>::from(wrapped) != product;
                (wrapped, Self::from(bad) << (Self::BITS - 1))
            }
            const CLEAN: Self = 0;
            #[inline]
            fn gather(self, other: Self) -> Self {
                self | other
            }
            #[inline]
            fn is_bad(self) -> bool {
                self >> (Self::BITS - 1) != 0
            }
        }
    )*};
}

// Two's complement: a signed sum wrapped if both operands have the other sign than it; an unsigned one if a carry left
// the highest bit.
wrapping! {
    i8, i32, |a, b, r| (a ^ r) & (b ^ r), |a, b, r| (a ^ b) & (a ^ r);
    i16, i32, |a, b, r| (a ^ r) & (b ^ r), |a, b, r| (a ^ b) & (a ^ r);
    i32, i64, |a, b, r| (a ^ r) & (b ^ r), |a, b, r| (a ^ b) & (a ^ r);
    i64, i128, |a, b, r| (a ^ r) & (b ^ r), |a, b, r| (a ^ b) & (a ^ r);
    u8, u32, |a, b, r| (a & b) | ((a | b) & !r), |a, b, r| (!a & b) | ((!a | b) & r);
    u16, u32, |a, b, r| (a & b) | ((a | b) & !r), |a, b, r| (!a & b) | ((!a | b) & r);
    u32, u64, |a, b, r| (a & b) | ((a | b) & !r), |a, b, r| (!a & b) | ((!a | b) & r);
    u64, u128, |a, b, r| (a & b) | ((a | b) & !r), |a, b, r| (!a & b) | ((!a | b) & r);
}

/// `left op right` of two operands of one integer type.
pub(super) fn apply(op: Operator, left: &ColumnarValue, right: &ColumnarValue, rows: usize) -> Result<ArrayRef> {
    match left.data_type() {
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

fn typed<T>(op: Operator, left: &ColumnarValue, right: &ColumnarValue, rows: usize) -> Result<ArrayRef>
where
    T: ArrowPrimitiveType,
    T::Native: Wrapping + std::fmt::Display,
{
    let operands = Operands::<T>::new(left, right, rows)?;
    match op {
        Operator::Plus => run(&operands, "+", Wrapping::add),
        Operator::Minus => run(&operands, "-", Wrapping::sub),
        Operator::Multiply => run(&operands, "*", Wrapping::mul),
        other => Err(Error::internal(format!("checked {other} on integers"))),
    }
}

fn run<T>(
    operands: &Operands<T>,
    symbol: &str,
    op: impl Fn(T::Native, T::Native) -> (T::Native, T::Native),
) -> Result<ArrayRef>
where
    T: ArrowPrimitiveType,
    T::Native: Wrapping + std::fmt::Display,
{
    let mut wrapped = T::Native::CLEAN;
    let values = operands.map(|left, right| {
        let (value, bad) = op(left, right);
        wrapped = wrapped.gather(bad);
        value
    });
    if wrapped.is_bad()
        && let Some((left, right)) = operands.find(|left, right| op(left, right).1.is_bad())
    {
        return Err(out_of_range(format!("{left} {symbol} {right}"), &T::DATA_TYPE));
    }
    Ok(Arc::new(PrimitiveArray::<T>::new(values.into(), operands.nulls())))
}
