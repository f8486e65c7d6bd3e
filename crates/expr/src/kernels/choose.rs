//! Takes each value from one of two operands.

use std::sync::Arc;

use arrow::array::downcast_primitive;
use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, BooleanArray, PrimitiveArray, Scalar};
use arrow::buffer::{BooleanBuffer, NullBuffer};
use arrow::compute::kernels::zip::zip;
use rowmill_base::Result;
use rowmill_plan::Operand;

use crate::kinds::arrow_failed;

/// The value of `first` where the bit of a row is set, otherwise that of `second`. Both have one type.
pub(crate) fn choose(mask: &BooleanBuffer, first: &Operand, second: &Operand) -> Result<ArrayRef> {
    macro_rules! of_numbers {
        ($kind:ty) => {
            Ok(Arc::new(numbers::<$kind>(mask, first, second)))
        };
    }
    let (one, other) = (&first.values, &second.values);
    let mask_array = || BooleanArray::new(mask.clone(), None);
    downcast_primitive! {
        one.data_type() => (of_numbers),
        _ => match (first.is_constant, second.is_constant) {
            (false, false) => zip(&mask_array(), one, other),
            (false, true) => zip(&mask_array(), one, &Scalar::new(other)),
            (true, false) => zip(&mask_array(), &Scalar::new(one), other),
            (true, true) => zip(&mask_array(), &Scalar::new(one), &Scalar::new(other)),
        }
        .map_err(arrow_failed)
    }
}

/// Does the work of [`choose`] for numbers. No branch depends on a bit, because the processor could not predict it.
fn numbers<T: ArrowPrimitiveType>(mask: &BooleanBuffer, first: &Operand, second: &Operand) -> PrimitiveArray<T> {
    let (one, other) = (first.values.as_primitive::<T>(), second.values.as_primitive::<T>());
    let chosen = |pair: (bool, (T::Native, T::Native))| if pair.0 { pair.1.0 } else { pair.1.1 };
    let of_one = || one.values().iter().copied();
    let of_other = || other.values().iter().copied();
    let values: Vec<T::Native> = match (first.is_constant, second.is_constant) {
        (false, false) => mask.iter().zip(of_one().zip(of_other())).map(chosen).collect(),
        (false, true) => mask.iter().zip(of_one().map(|one| (one, other.value(0)))).map(chosen).collect(),
        (true, false) => mask.iter().zip(of_other().map(|other| (one.value(0), other))).map(chosen).collect(),
        (true, true) => mask.iter().map(|bit| if bit { one.value(0) } else { other.value(0) }).collect(),
    };
    let nulls = (one.null_count() + other.null_count() > 0).then(|| {
        let valid = |operand: &Operand| match (operand.values.nulls(), operand.is_constant) {
            (None, _) => BooleanBuffer::new_set(mask.len()),
            (Some(nulls), false) => nulls.inner().clone(),
            (Some(nulls), true) if nulls.is_valid(0) => BooleanBuffer::new_set(mask.len()),
            (Some(_), true) => BooleanBuffer::new_unset(mask.len()),
        };
        NullBuffer::new(&(mask & &valid(first)) | &(&!mask & &valid(second)))
    });
    PrimitiveArray::new(values.into(), nulls).with_data_type(one.data_type().clone())
}

#[cfg(test)]
mod tests {
    use arrow::array::{Int32Array, StringViewArray};
    use rand::rngs::SmallRng;
    use rand::{Rng, SeedableRng};

    use super::*;

    #[test]
    fn each_row_takes_the_value_of_its_bit() {
        let random = &mut SmallRng::seed_from_u64(3);
        for rows in [0, 1, 9, 200] {
            for constants in 0..4 {
                let mut values = |is_constant: bool| -> Vec<Option<i32>> {
                    let count = if is_constant { 1 } else { rows };
                    (0..count).map(|_| random.random_bool(0.8).then(|| random.random_range(0..1_000))).collect()
                };
                let sides = [values(constants & 1 == 1), values(constants & 2 == 2)];
                let bits: Vec<bool> = (0..rows).map(|_| random.random()).collect();
                let mask = BooleanBuffer::from(bits.clone());
                let of =
                    |side: usize, array: ArrayRef| Operand { values: array, is_constant: constants >> side & 1 == 1 };
                let expected: Vec<Option<i32>> = (0..rows)
                    .map(|row| {
                        let values = &sides[usize::from(!bits[row])];
                        if values.len() == rows && rows != 1 { values[row] } else { values[0] }
                    })
                    .collect();
                let numbers = [0, 1].map(|side| of(side, Arc::new(Int32Array::from(sides[side].clone()))));
                let made = choose(&mask, &numbers[0], &numbers[1]).expect("one type");
                assert_eq!(made.as_primitive(), &Int32Array::from(expected.clone()), "{constants} {bits:?}");
                let text = |value: &Option<i32>| value.map(|value| value.to_string());
                let texts = [0, 1].map(|side| {
                    let texts: StringViewArray = sides[side].iter().map(text).collect();
                    of(side, Arc::new(texts))
                });
                let made = choose(&mask, &texts[0], &texts[1]).expect("one type");
                let expected: StringViewArray = expected.iter().map(text).collect();
                assert_eq!(made.as_string_view(), &expected, "{constants} {bits:?}");
            }
        }
    }
}
