//! Makes floats canonical before they are encoded: one NaN and one zero.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, PrimitiveArray};
use arrow::datatypes::{DataType, Float32Type, Float64Type};

/// Returns `values` with only the positive quiet NaN and without -0.0, as a chunk would give them back. Other types are
/// returned unchanged.
pub fn canonical_floats(values: &ArrayRef) -> ArrayRef {
    match values.data_type() {
        DataType::Float32 => {
            let is_other = |value: f32| value.is_nan() || value.to_bits() == (-0.0f32).to_bits();
            replace(values, values.as_primitive::<Float32Type>(), is_other, |value| {
                if value.is_nan() { f32::NAN } else { value + 0.0 }
            })
        }
        DataType::Float64 => {
            let is_other = |value: f64| value.is_nan() || value.to_bits() == (-0.0f64).to_bits();
            replace(values, values.as_primitive::<Float64Type>(), is_other, |value| {
                if value.is_nan() { f64::NAN } else { value + 0.0 }
            })
        }
        _ => Arc::clone(values),
    }
}

/// Replaces the values that are not canonical. Most columns have none, so we look first and do not copy them.
fn replace<T: ArrowPrimitiveType>(
    values: &ArrayRef,
    typed: &PrimitiveArray<T>,
    is_other: impl Fn(T::Native) -> bool,
    canonical: impl Fn(T::Native) -> T::Native,
) -> ArrayRef {
    // NULL rows may hold a NaN too. A copy is harmless then.
    match typed.values().iter().any(|value| is_other(*value)) {
        true => Arc::new(typed.unary::<_, T>(canonical).with_data_type(typed.data_type().clone())),
        false => Arc::clone(values),
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::Float64Array;

    use super::*;

    #[test]
    fn canonical_floats_have_one_nan_and_one_zero() {
        let mixed: ArrayRef = Arc::new(Float64Array::from(vec![Some(-0.0), Some(-f64::NAN), None, Some(5.0)]));
        let clean = canonical_floats(&mixed);
        let bits: Vec<_> = clean.as_primitive::<Float64Type>().iter().map(|value| value.map(f64::to_bits)).collect();
        assert_eq!(bits, [Some(0), Some(f64::NAN.to_bits()), None, Some(5_f64.to_bits())]);
    }
}
