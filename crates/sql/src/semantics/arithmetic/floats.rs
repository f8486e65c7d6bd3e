//! `+ - * / %` on floats: IEEE, with one NaN and one zero.
//!
//! Processors disagree on the sign of the NaN that `0.0 / 0.0` makes, and a set sign bit would make it a second NaN that
//! sorts first. Every result that is NaN becomes the one NaN, and -0.0 becomes 0.0, so that grouping, joining and
//! sorting may look at bits.

use std::ops::Add;
use std::sync::Arc;

use arrow::array::{ArrayRef, ArrowPrimitiveType, PrimitiveArray};
use arrow::datatypes::{DataType, Float32Type, Float64Type};
use datafusion::logical_expr::{ColumnarValue, Operator};
use rowmill_base::{Error, Result};

use super::operands::Operands;

/// What the loops need of a float.
trait Float: Copy + Add<Output = Self> {
    const ZERO: Self;
    const NAN: Self;
    fn is_nan(self) -> bool;

    /// The one value that stands for all floats equal to this one.
    #[inline]
    fn canonical(self) -> Self {
        // Adding zero turns -0.0 into 0.0 and changes nothing else.
        if self.is_nan() { Self::NAN } else { self + Self::ZERO }
    }
}

impl Float for f32 {
    const ZERO: f32 = 0.0;
    const NAN: f32 = f32::NAN;
    #[inline]
    fn is_nan(self) -> bool {
        self.is_nan()
    }
}

impl Float for f64 {
    const ZERO: f64 = 0.0;
    const NAN: f64 = f64::NAN;
    #[inline]
    fn is_nan(self) -> bool {
        self.is_nan()
    }
}

/// `left op right` of two operands of one float type.
pub(super) fn apply(op: Operator, left: &ColumnarValue, right: &ColumnarValue, rows: usize) -> Result<ArrayRef> {
    match left.data_type() {
        DataType::Float32 => typed::<Float32Type>(op, left, right, rows),
        DataType::Float64 => typed::<Float64Type>(op, left, right, rows),
        other => Err(Error::internal(format!("float arithmetic on {other}"))),
    }
}

fn typed<T>(op: Operator, left: &ColumnarValue, right: &ColumnarValue, rows: usize) -> Result<ArrayRef>
where
    T: ArrowPrimitiveType,
    T::Native: Float
        + std::ops::Sub<Output = T::Native>
        + std::ops::Mul<Output = T::Native>
        + std::ops::Div<Output = T::Native>
        + std::ops::Rem<Output = T::Native>,
{
    let operands = Operands::<T>::new(left, right, rows)?;
    let values = match op {
        Operator::Plus => operands.map(|left, right| (left + right).canonical()),
        Operator::Minus => operands.map(|left, right| (left - right).canonical()),
        Operator::Multiply => operands.map(|left, right| (left * right).canonical()),
        Operator::Divide => operands.map(|left, right| (left / right).canonical()),
        Operator::Modulo => operands.map(|left, right| (left % right).canonical()),
        other => return Err(Error::internal(format!("{other} on floats"))),
    };
    Ok(Arc::new(PrimitiveArray::<T>::new(values.into(), operands.nulls())))
}
