//! Arithmetic of floats by IEEE 754, with one NaN and one zero.
//!
//! Processors disagree on the sign of the NaN of `0.0 / 0.0`, and a set sign bit would make it a second NaN that sorts
//! first. So every NaN result must become the same NaN, and -0.0 must become 0.0. Then grouping, joining and sorting
//! can compare bits.

use std::ops::{Add, Div, Mul, Neg, Rem, Sub};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, PrimitiveArray};
use arrow::datatypes::{ArrowPrimitiveType, DataType, Float32Type, Float64Type};
use rowmill_base::Result;
use rowmill_plan::Operand;
use rowmill_plan::program::ArithmeticOp;

use crate::kernels::sides::sides;

/// The operation on a float that the loops need.
pub(crate) trait CanonicalFloat: Copy {
    /// Returns the value that replaces all floats equal to this one.
    fn canonical(self) -> Self;
}

macro_rules! canonical {
    ($($kind:ty),*) => {$(
        impl CanonicalFloat for $kind {
            #[inline(always)]
            fn canonical(self) -> Self {
                // Adding zero turns -0.0 into 0.0 and changes nothing else.
                if self.is_nan() { <$kind>::NAN } else { self + 0.0 }
            }
        }
    )*};
}
canonical!(f32, f64);

/// Computes `left op right` of two operands of one float type.
pub(super) fn apply(op: ArithmeticOp, left: &Operand, right: &Operand, rows: usize) -> Result<ArrayRef> {
    match left.values.data_type() {
        DataType::Float32 => typed::<Float32Type>(op, left, right, rows),
        _ => typed::<Float64Type>(op, left, right, rows),
    }
}

fn typed<T>(op: ArithmeticOp, left: &Operand, right: &Operand, rows: usize) -> Result<ArrayRef>
where
    T: ArrowPrimitiveType,
    T::Native: CanonicalFloat
        + Add<Output = T::Native>
        + Sub<Output = T::Native>
        + Mul<Output = T::Native>
        + Div<Output = T::Native>
        + Rem<Output = T::Native>,
{
    let sides = sides::<T>(left, right, rows)?;
    let values = match op {
        ArithmeticOp::Plus => sides.map(|left, right| (left + right).canonical()),
        ArithmeticOp::Minus => sides.map(|left, right| (left - right).canonical()),
        ArithmeticOp::Times => sides.map(|left, right| (left * right).canonical()),
        ArithmeticOp::Divide => sides.map(|left, right| (left / right).canonical()),
        ArithmeticOp::Remainder => sides.map(|left, right| (left % right).canonical()),
    };
    Ok(Arc::new(PrimitiveArray::<T>::new(values.into(), sides.nulls)))
}

/// Computes `-value`.
pub(super) fn negate(value: &ArrayRef) -> Result<ArrayRef> {
    fn typed<T: ArrowPrimitiveType>(value: &ArrayRef) -> ArrayRef
    where
        T::Native: CanonicalFloat + Neg<Output = T::Native>,
    {
        let array = value.as_primitive::<T>();
        let values: Vec<T::Native> = array.values().iter().map(|value| (-*value).canonical()).collect();
        Arc::new(PrimitiveArray::<T>::new(values.into(), array.nulls().cloned()))
    }
    Ok(match value.data_type() {
        DataType::Float32 => typed::<Float32Type>(value),
        _ => typed::<Float64Type>(value),
    })
}
