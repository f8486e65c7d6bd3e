//! How values become a total: which type holds it, and how one more is added.

use arrow::array::{ArrayRef, ArrowPrimitiveType, PrimitiveArray};
use arrow::datatypes::{
    DataType, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type,
    UInt16Type, UInt32Type, UInt64Type,
};
use rowmill_base::{Error, Result};
use rowmill_exec::quotient::average;

use crate::errors::type_name;
use crate::semantics::arithmetic::DIGITS_MAX;

/// What is made of a total.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Finish {
    Sum,
    Average,
}

/// The type of the total of values of `kind`, if they can be added.
pub(super) fn total_type(kind: &DataType) -> Option<DataType> {
    Some(match kind {
        DataType::Int8 | DataType::Int16 | DataType::Int32 => DataType::Int64,
        DataType::UInt8 | DataType::UInt16 | DataType::UInt32 => DataType::Int64,
        DataType::Int64 | DataType::UInt64 => DataType::Decimal128(DIGITS_MAX, 0),
        DataType::Decimal128(_, scale) => DataType::Decimal128(DIGITS_MAX, *scale),
        DataType::Float32 | DataType::Float64 => DataType::Float64,
        _ => return None,
    })
}

/// A type of values that can be added up.
pub(super) trait Summand: ArrowPrimitiveType + std::fmt::Debug + Send + Sync {
    /// The Arrow type that holds the total.
    type Total: ArrowPrimitiveType<Native: Amount> + std::fmt::Debug + Send + Sync;

    fn widen(value: Self::Native) -> <Self::Total as ArrowPrimitiveType>::Native;
}

/// A total, or a value made as wide as one.
pub(super) trait Amount: Copy + Default + Send + Sync + PartialEq + std::fmt::Debug + 'static {
    /// Adds `value`; whether that left the type.
    #[must_use]
    fn add(&mut self, value: Self) -> bool;

    /// Takes `value` away again; whether that left the type.
    #[must_use]
    fn take(&mut self, value: Self) -> bool;

    /// Whether the result type holds this total.
    fn is_in_range(self) -> bool;

    /// This total as it is shown: floats with one NaN and one zero.
    fn shown(self) -> Self;

    /// `self / count` at `scale` digits behind the point, as the nearest double.
    fn divided(self, count: u64, scale: i8) -> f64;

    /// Bits that are equal exactly for equal values, and back.
    fn key(self) -> i128;
    fn from_key(key: i128) -> Self;
}

impl Amount for i64 {
    #[inline]
    fn add(&mut self, value: i64) -> bool {
        let (total, bad) = self.overflowing_add(value);
        *self = total;
        bad
    }

    #[inline]
    fn take(&mut self, value: i64) -> bool {
        let (total, bad) = self.overflowing_sub(value);
        *self = total;
        bad
    }

    fn is_in_range(self) -> bool {
        true
    }

    fn shown(self) -> i64 {
        self
    }

    fn divided(self, count: u64, _scale: i8) -> f64 {
        average(i128::from(self), count, 0)
    }

    fn key(self) -> i128 {
        i128::from(self)
    }

    fn from_key(key: i128) -> i64 {
        key as i64
    }
}

impl Amount for i128 {
    #[inline]
    fn add(&mut self, value: i128) -> bool {
        let (total, bad) = self.overflowing_add(value);
        *self = total;
        bad
    }

    #[inline]
    fn take(&mut self, value: i128) -> bool {
        let (total, bad) = self.overflowing_sub(value);
        *self = total;
        bad
    }

    fn is_in_range(self) -> bool {
        self.unsigned_abs() < 10_u128.pow(u32::from(DIGITS_MAX))
    }

    fn shown(self) -> i128 {
        self
    }

    fn divided(self, count: u64, scale: i8) -> f64 {
        average(self, count, scale)
    }

    fn key(self) -> i128 {
        self
    }

    fn from_key(key: i128) -> i128 {
        key
    }
}

impl Amount for f64 {
    #[inline]
    fn add(&mut self, value: f64) -> bool {
        *self += value;
        false
    }

    fn take(&mut self, value: f64) -> bool {
        *self -= value;
        false
    }

    fn is_in_range(self) -> bool {
        true
    }

    fn shown(self) -> f64 {
        if self.is_nan() { f64::NAN } else { self + 0.0 }
    }

    fn divided(self, count: u64, _scale: i8) -> f64 {
        (self / count as f64).shown()
    }

    fn key(self) -> i128 {
        i128::from(self.shown().to_bits())
    }

    fn from_key(key: i128) -> f64 {
        f64::from_bits(key as u64)
    }
}

macro_rules! summands {
    ($($kind:ty => $total:ty, $widen:expr;)*) => {$(
        impl Summand for $kind {
            type Total = $total;

            #[inline]
            fn widen(value: Self::Native) -> <Self::Total as ArrowPrimitiveType>::Native {
                let widen: fn(Self::Native) -> <Self::Total as ArrowPrimitiveType>::Native = $widen;
                widen(value)
            }
        }
    )*};
}

summands! {
    Int8Type => Int64Type, |value| i64::from(value);
    Int16Type => Int64Type, |value| i64::from(value);
    Int32Type => Int64Type, |value| i64::from(value);
    UInt8Type => Int64Type, |value| i64::from(value);
    UInt16Type => Int64Type, |value| i64::from(value);
    UInt32Type => Int64Type, |value| i64::from(value);
    Int64Type => Decimal128Type, |value| i128::from(value);
    UInt64Type => Decimal128Type, |value| i128::from(value);
    Decimal128Type => Decimal128Type, |value| value;
    Float32Type => Float64Type, |value| f64::from(value);
    Float64Type => Float64Type, |value| value;
}

/// The native type of a summand's total.
pub(super) type TotalOf<S> = <<S as Summand>::Total as ArrowPrimitiveType>::Native;

/// The error of a total that its type does not hold.
pub(super) fn total_out_of_range(finish: Finish, kind: &DataType) -> Error {
    let name = match finish {
        Finish::Sum => "sum",
        Finish::Average => "avg",
    };
    let total = total_type(kind).unwrap_or(DataType::Null);
    super::super::arithmetic::out_of_range(format!("the total of {name}({})", type_name(kind)), &total)
}

/// Totals as an array of their type.
pub(super) fn total_array<S: Summand>(
    totals: Vec<TotalOf<S>>,
    nulls: Option<arrow::buffer::NullBuffer>,
    finish: Finish,
    kind: &DataType,
) -> Result<ArrayRef> {
    let valid = |row: usize| nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row));
    if totals.iter().enumerate().any(|(row, total)| !total.is_in_range() && valid(row)) {
        return Err(total_out_of_range(finish, kind));
    }
    let Some(total) = total_type(kind) else {
        return Err(Error::internal(format!("a total of {kind}")));
    };
    Ok(std::sync::Arc::new(PrimitiveArray::<S::Total>::new(totals.into(), nulls).with_data_type(total)))
}

/// Digits behind the point of values of `kind`.
pub(super) fn scale_of(kind: &DataType) -> i8 {
    match kind {
        DataType::Decimal128(_, scale) => *scale,
        _ => 0,
    }
}
