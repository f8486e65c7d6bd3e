//! Values of fixed size as numbers that are equal exactly if the values are equal.
//!
//! Numbers of up to 64 bits, and numbers of decimals, also sort like the values. All NaNs are one value above all
//! others, and both zeros are one value. Join keys and their filters only see these numbers, so hardly any of their
//! code is compiled per type.

use arrow::array::{Array, ArrayData, ArrayRef, AsArray};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{ArrowNativeType, DataType, IntervalUnit};
use rowmill_base::{Error, Result};
use rowmill_storage::canonical_floats;

/// The number of bits of a type's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Width {
    /// 64 bits: [`extend_narrow`].
    Narrow,
    /// 128 bits: [`extend_wide`].
    Wide,
}

/// The width of a type's numbers. `None` if its values have no numbers.
pub(crate) fn width_of(kind: &DataType) -> Option<Width> {
    match kind {
        DataType::Boolean => Some(Width::Narrow),
        DataType::FixedSizeBinary(16) => Some(Width::Wide),
        DataType::Float16 => None,
        kind => match kind.primitive_width()? {
            1..=8 => Some(Width::Narrow),
            16 => Some(Width::Wide),
            _ => None,
        },
    }
}

/// Whether the numbers of a type sort like its values in SQL.
pub(crate) fn are_ordered(kind: &DataType) -> bool {
    width_of(kind) == Some(Width::Narrow) && !matches!(kind, DataType::Interval(_))
}

/// Whether the numbers of values of two types are equal exactly if the values are. Signed integers have the same
/// numbers in all widths.
pub(crate) fn have_same_numbers(one: &DataType, other: &DataType) -> bool {
    one == other || (one.is_signed_integer() && other.is_signed_integer())
}

/// The sign bit. Flipping it makes signed integers sort like unsigned ones.
const SIGN: u64 = 1 << 63;

/// Appends the numbers of values of up to 64 bits. The number of a NULL is arbitrary.
pub(crate) fn extend_narrow(values: &ArrayRef, out: &mut Vec<u64>) -> Result<()> {
    let kind = values.data_type();
    if let Some(values) = values.as_boolean_opt() {
        out.extend(values.values().iter().map(u64::from));
        return Ok(());
    }
    let values = canonical_floats(values);
    let data = values.to_data();
    match (kind, kind.primitive_width()) {
        (DataType::Float32, _) => extend(&data, out, |value: f32| of_float(value.into())),
        (DataType::Float64, _) => extend(&data, out, of_float),
        (DataType::UInt8, _) => extend(&data, out, |value: u8| u64::from(value)),
        (DataType::UInt16, _) => extend(&data, out, |value: u16| u64::from(value)),
        (DataType::UInt32, _) => extend(&data, out, |value: u32| u64::from(value)),
        (DataType::UInt64, _) => extend(&data, out, |value: u64| value),
        // The value is two numbers side by side: the days and the milliseconds.
        (DataType::Interval(IntervalUnit::DayTime), _) => extend_bytes(&data, out, u64::from_ne_bytes),
        (_, Some(1)) => extend(&data, out, |value: i8| value as u64 ^ SIGN),
        (_, Some(2)) => extend(&data, out, |value: i16| value as u64 ^ SIGN),
        (_, Some(4)) => extend(&data, out, |value: i32| value as u64 ^ SIGN),
        (_, Some(8)) => extend(&data, out, |value: i64| value as u64 ^ SIGN),
        _ => return Err(Error::internal(format!("values of {kind} are no numbers of 64 bits"))),
    }
    Ok(())
}

/// Appends the numbers of values of 128 bits. The number of a NULL is arbitrary.
pub(crate) fn extend_wide(values: &ArrayRef, out: &mut Vec<u128>) -> Result<()> {
    let data = values.to_data();
    match values.data_type() {
        DataType::Decimal128(..) => extend(&data, out, |value: i128| value as u128 ^ 1 << 127),
        DataType::FixedSizeBinary(16) => extend_bytes(&data, out, u128::from_be_bytes),
        kind if kind.primitive_width() == Some(16) => extend_bytes(&data, out, u128::from_ne_bytes),
        kind => return Err(Error::internal(format!("values of {kind} are no numbers of 128 bits"))),
    }
    Ok(())
}

fn extend<T: ArrowNativeType, N>(data: &ArrayData, out: &mut Vec<N>, number: impl Fn(T) -> N) {
    // A slice shares the buffer of its array and begins at its offset.
    let values: &[T] = &data.buffers()[0].typed_data()[data.offset()..][..data.len()];
    out.extend(values.iter().map(|value| number(*value)));
}

fn extend_bytes<N, const BYTES: usize>(data: &ArrayData, out: &mut Vec<N>, number: impl Fn([u8; BYTES]) -> N) {
    let bytes = &data.buffers()[0].as_slice()[data.offset() * BYTES..][..data.len() * BYTES];
    out.extend(bytes.as_chunks().0.iter().map(|value| number(*value)));
}

/// The bits of a canonical float, so that they sort like the floats. The bits of negative floats sort in reverse.
fn of_float(value: f64) -> u64 {
    let bits = value.to_bits();
    // Positive floats move above the negative ones, and negative ones are inverted because larger bits mean a smaller
    // value.
    if bits & SIGN == 0 { bits | SIGN } else { !bits }
}

/// The least and the greatest number, ignoring NULLs. `None` if no number is left.
pub(crate) fn range<N: Copy + Ord>(numbers: &[N], nulls: Option<&NullBuffer>) -> Option<(N, N)> {
    let Some(nulls) = nulls.filter(|nulls| nulls.null_count() > 0) else {
        let first = *numbers.first()?;
        return Some(numbers.iter().fold((first, first), |(min, max), number| (min.min(*number), max.max(*number))));
    };
    let mut valid = nulls.valid_indices().map(|row| numbers[row]);
    let first = valid.next()?;
    Some(valid.fold((first, first), |(min, max), number| (min.min(number), max.max(number))))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{
        BooleanArray, Date32Array, Decimal128Array, FixedSizeBinaryArray, Float32Array, Float64Array, Int8Array,
        Int64Array, UInt64Array,
    };

    use super::*;

    /// Asserts that ascending values have ascending numbers, also in a slice of the array.
    fn assert_ascending(values: ArrayRef) {
        for values in [Arc::clone(&values), values.slice(1, values.len() - 1)] {
            match width_of(values.data_type()).expect("numbers") {
                Width::Narrow => {
                    let mut numbers = Vec::new();
                    extend_narrow(&values, &mut numbers).expect("narrow");
                    assert!(numbers.len() == values.len() && numbers.is_sorted_by(|a, b| a < b), "{values:?}");
                }
                Width::Wide => {
                    let mut numbers = Vec::new();
                    extend_wide(&values, &mut numbers).expect("wide");
                    assert!(numbers.len() == values.len() && numbers.is_sorted_by(|a, b| a < b), "{values:?}");
                }
            }
        }
    }

    #[test]
    fn numbers_are_in_the_order_of_the_values() {
        assert_ascending(Arc::new(Int8Array::from(vec![-128, -1, 0, 127])));
        assert_ascending(Arc::new(Int64Array::from(vec![i64::MIN, -1, 0, i64::MAX])));
        assert_ascending(Arc::new(UInt64Array::from(vec![0, 1, u64::MAX])));
        assert_ascending(Arc::new(Date32Array::from(vec![-5, 0, 5])));
        assert_ascending(Arc::new(BooleanArray::from(vec![false, true])));
        assert_ascending(Arc::new(Decimal128Array::from(vec![i128::MIN, -1, 0, i128::MAX])));
        let floats = vec![f64::NEG_INFINITY, -1.5, -1e-300, 0.0, 1e-300, 2.0, f64::INFINITY, f64::NAN];
        assert_ascending(Arc::new(Float32Array::from(vec![-1.5, 0.0, 2.0, f32::INFINITY, f32::NAN])));
        assert_ascending(Arc::new(Float64Array::from(floats)));
        let ids = [[0; 16], [1; 16], [255; 16]];
        assert_ascending(Arc::new(FixedSizeBinaryArray::try_from_iter(ids.iter()).expect("sixteen bytes each")));
    }

    #[test]
    fn zeros_are_equal_and_nans_are_equal() {
        let odd: ArrayRef = Arc::new(Float64Array::from(vec![0.0, -0.0, f64::NAN, -f64::NAN]));
        let mut numbers = Vec::new();
        extend_narrow(&odd, &mut numbers).expect("narrow");
        assert!(numbers[0] == numbers[1] && numbers[2] == numbers[3]);
    }

    #[test]
    fn null_is_in_no_range() {
        let nulls = NullBuffer::from(vec![true, false, true]);
        assert_eq!(range(&[5, 0, 9], Some(&nulls)), Some((5, 9)));
        assert_eq!(range(&[5, 0, 9], None), Some((0, 9)));
        assert_eq!(range(&[1], Some(&NullBuffer::new_null(1))), None);
    }
}
