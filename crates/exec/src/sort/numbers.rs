//! Values of fixed size as numbers that sort like the values.

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::buffer::ScalarBuffer;
use arrow::datatypes::{ArrowNativeType, DataType, IntervalUnit};
use rowmill_base::{Error, Result};

/// Decimals with up to this many digits fit 64 bits.
const NARROW_DIGITS: u8 = 18;

/// One number per value. The number of a NULL is arbitrary.
pub(crate) enum SortNumbers {
    Narrow(Vec<u64>),
    Wide(Vec<u128>),
}

/// The number of bits of the numbers of `kind`. `None` if its values have no fixed size, or more than 128 bits.
pub(crate) fn width_of(kind: &DataType) -> Option<u32> {
    use DataType::{
        Boolean, Date32, Date64, Decimal32, Decimal64, Decimal128, Duration, FixedSizeBinary, Float32, Float64, Int8,
        Int16, Int32, Int64, Interval, Time32, Time64, Timestamp, UInt8, UInt16, UInt32, UInt64,
    };
    Some(match kind {
        Boolean => 1,
        Int8 | UInt8 => 8,
        Int16 | UInt16 => 16,
        Int32 | UInt32 | Float32 | Date32 | Time32(_) | Decimal32(..) | Interval(IntervalUnit::YearMonth) => 32,
        Int64 | UInt64 | Float64 | Date64 | Time64(_) | Timestamp(..) | Duration(_) | Decimal64(..) => 64,
        Decimal128(0..=NARROW_DIGITS, _) => 64,
        Decimal128(..) => 128,
        FixedSizeBinary(bytes @ 1..=16) => *bytes as u32 * 8,
        _ => return None,
    })
}

/// Turns values into numbers. Their type must have a width.
pub(crate) fn numbers_of(values: &ArrayRef) -> Result<SortNumbers> {
    use DataType::{Boolean, Decimal128, FixedSizeBinary, Float32, Float64, UInt8, UInt16, UInt32, UInt64};
    let kind = values.data_type();
    Ok(match (kind, width_of(kind)) {
        (Boolean, _) => SortNumbers::Narrow(values.as_boolean().values().iter().map(u64::from).collect()),
        (UInt8, _) => narrow(values, |value: u8| value.into()),
        (UInt16, _) => narrow(values, |value: u16| value.into()),
        (UInt32, _) => narrow(values, |value: u32| value.into()),
        (UInt64, _) => narrow(values, |value: u64| value),
        (Float32, _) => narrow(values, number_of_f32),
        (Float64, _) => narrow(values, number_of_f64),
        (Decimal128(..), Some(64)) => SortNumbers::Narrow(narrow_decimals(values)?),
        (FixedSizeBinary(_), Some(_)) => SortNumbers::Wide(numbers_of_bytes(values)),
        (_, Some(8)) => narrow(values, |value: i8| (value as u8 ^ 1 << 7).into()),
        (_, Some(16)) => narrow(values, |value: i16| (value as u16 ^ 1 << 15).into()),
        (_, Some(32)) => narrow(values, |value: i32| (value as u32 ^ 1 << 31).into()),
        (_, Some(64)) => narrow(values, |value: i64| value as u64 ^ 1 << 63),
        (_, Some(128)) => SortNumbers::Wide(map(values, |value: i128| value as u128 ^ 1 << 127)),
        _ => return Err(Error::internal(format!("values of {kind} have no numbers to sort by"))),
    })
}

fn narrow<T: ArrowNativeType>(values: &ArrayRef, number: impl Fn(T) -> u64) -> SortNumbers {
    SortNumbers::Narrow(map(values, number))
}

fn map<T: ArrowNativeType, N>(values: &ArrayRef, number: impl Fn(T) -> N) -> Vec<N> {
    let data = values.to_data();
    let natives = ScalarBuffer::<T>::new(data.buffers()[0].clone(), data.offset(), data.len());
    natives.iter().map(|value| number(*value)).collect()
}

/// The bits of a float that sort like floats: negative floats are inverted, the others moved above them. There is one
/// zero, and one NaN above all others.
fn number_of_f64(value: f64) -> u64 {
    let bits = if value.is_nan() { f64::NAN } else { value + 0.0 }.to_bits();
    if bits >> 63 == 1 { !bits } else { bits ^ 1 << 63 }
}

fn number_of_f32(value: f32) -> u64 {
    let bits = if value.is_nan() { f32::NAN } else { value + 0.0 }.to_bits();
    u64::from(if bits >> 31 == 1 { !bits } else { bits ^ 1 << 31 })
}

fn narrow_decimals(values: &ArrayRef) -> Result<Vec<u64>> {
    let numbers = map(values, |value: i128| i64::try_from(value).map(|value| value as u64 ^ 1 << 63));
    let numbers = numbers.into_iter().enumerate().map(|(row, number)| match number {
        Ok(number) => Ok(number),
        Err(_) if values.is_null(row) => Ok(0),
        Err(_) => Err(Error::internal(format!("a {} has more digits than its type allows", values.data_type()))),
    });
    numbers.collect()
}

fn numbers_of_bytes(values: &ArrayRef) -> Vec<u128> {
    let values = values.as_fixed_size_binary();
    let number = |bytes: &[u8]| bytes.iter().fold(0, |number, byte| number << 8 | u128::from(*byte));
    (0..values.len()).map(|row| number(values.value(row))).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Decimal128Array, FixedSizeBinaryArray, Float32Array, Float64Array, Int8Array, Int64Array};
    use arrow::error::ArrowError;

    use super::*;

    fn numbers(values: ArrayRef) -> Vec<u128> {
        match numbers_of(&values).expect("a type with a width") {
            SortNumbers::Narrow(numbers) => numbers.into_iter().map(u128::from).collect(),
            SortNumbers::Wide(numbers) => numbers,
        }
    }

    #[test]
    fn numbers_sort_like_the_values() -> Result<(), ArrowError> {
        let decimals = |values: Vec<i128>, digits| Decimal128Array::from(values).with_precision_and_scale(digits, 2);
        let uuids = [[0; 16], [1; 16], [255; 16]];
        let ascending: Vec<ArrayRef> = vec![
            Arc::new(Int8Array::from(vec![-128, -1, 0, 1, 127])),
            Arc::new(Int64Array::from(vec![i64::MIN, -1, 0, 1, i64::MAX])),
            Arc::new(Int64Array::from(vec![5, i64::MIN, 7]).slice(1, 2)),
            Arc::new(Float64Array::from(vec![f64::NEG_INFINITY, -1.5, -1e-300, 0.0, 2.0, f64::INFINITY, f64::NAN])),
            Arc::new(Float32Array::from(vec![f32::NEG_INFINITY, -1.5, -1e-40, 0.0, 2.0, f32::INFINITY, f32::NAN])),
            Arc::new(decimals(vec![-10_i128.pow(18), -1, 0, 1, 10_i128.pow(18)], 18)?),
            Arc::new(decimals(vec![-10_i128.pow(37), -1, 0, 1, 10_i128.pow(37)], 38)?),
            Arc::new(FixedSizeBinaryArray::try_from_iter(uuids.iter())?),
        ];
        for values in ascending {
            let kind = values.data_type().clone();
            let numbers = numbers(values);
            assert!(numbers.is_sorted_by(|left, right| left < right), "{kind}: {numbers:?}");
            let width = width_of(&kind).expect("a type with a width");
            assert!(numbers.iter().all(|number| width == 128 || number >> width == 0), "{kind} fits its width");
        }
        Ok(())
    }

    #[test]
    fn zeros_are_equal_and_nans_are_equal() {
        let floats = numbers(Arc::new(Float64Array::from(vec![0.0, -0.0, f64::NAN, -f64::NAN])));
        assert!(floats[0] == floats[1] && floats[2] == floats[3]);
        let floats = numbers(Arc::new(Float32Array::from(vec![0.0, -0.0, f32::NAN, -f32::NAN])));
        assert!(floats[0] == floats[1] && floats[2] == floats[3]);
    }

    #[test]
    fn a_decimal_with_too_many_digits_is_an_error_unless_it_is_null() {
        let values = Decimal128Array::from(vec![1, i128::MAX]).with_data_type(DataType::Decimal128(9, 0));
        let nulls = Some(vec![true, false].into());
        let hidden = Decimal128Array::new(values.values().clone(), nulls).with_data_type(DataType::Decimal128(9, 0));
        assert!(numbers_of(&(Arc::new(values) as ArrayRef)).is_err());
        assert_eq!(numbers(Arc::new(hidden)), [1 << 63 | 1, 0]);
    }
}
