//! Converts values to numbers that cells add or compare, and back.

use arrow::array::{Array, ArrayRef, AsArray, BinaryViewArray};
use arrow::buffer::{NullBuffer, ScalarBuffer};
use arrow::datatypes::{DataType, Decimal128Type, Float32Type, Float64Type};
use rowmill_base::{Error, Result};

use crate::group::bits::{Bits, array_of, bits_of};
use crate::group::texts::texts_of;

/// The forms of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NumberForm {
    /// 64 bits with a sign: the value itself, or a number in the same order.
    Signed,
    /// 64 bits without a sign, or the bits of a signed value.
    Unsigned,
    /// 128 bits: the value itself, or a number in the same order.
    Wide,
    Float,
    Text,
    /// 64 bits with a sign, for values of a wider type that are known to fit.
    Small,
}

/// Values in one of the forms. The number of a NULL is arbitrary.
pub(crate) enum StateNumbers {
    Signed(ScalarBuffer<i64>),
    Unsigned(ScalarBuffer<u64>),
    Wide(ScalarBuffer<i128>),
    Float(ScalarBuffer<f64>),
    Text(BinaryViewArray),
}

impl StateNumbers {
    pub(crate) fn new(values: &ArrayRef, form: NumberForm) -> Result<StateNumbers> {
        let kind = values.data_type();
        let unlike = || Error::internal(format!("values of {kind} for an aggregate of another type"));
        Ok(match form {
            NumberForm::Signed => StateNumbers::Signed(signed(values)?),
            NumberForm::Unsigned => match bits_of(values)? {
                Bits::Narrow { numbers, .. } => StateNumbers::Unsigned(numbers),
                Bits::Wide(_) => return Err(unlike()),
            },
            NumberForm::Wide => StateNumbers::Wide(wide(values)?),
            NumberForm::Float => StateNumbers::Float(match kind {
                DataType::Float32 => {
                    values.as_primitive::<Float32Type>().values().iter().map(|x| (*x).into()).collect()
                }
                DataType::Float64 => values.as_primitive::<Float64Type>().values().clone(),
                _ => return Err(unlike()),
            }),
            NumberForm::Text => StateNumbers::Text(texts_of(values).ok_or_else(unlike)?),
            NumberForm::Small => StateNumbers::Signed(match kind {
                DataType::Decimal128(..) => {
                    values.as_primitive::<Decimal128Type>().values().iter().map(|value| *value as i64).collect()
                }
                _ => match bits_of(values)? {
                    Bits::Narrow { numbers, .. } => ScalarBuffer::from(numbers.into_inner()),
                    Bits::Wide(_) => return Err(unlike()),
                },
            }),
        })
    }
}

/// The integers or decimals in `values` that are not NULL; decimals lose their point. `None` for other types.
pub(crate) fn integers(values: &ArrayRef) -> Result<Option<Vec<i128>>> {
    let form = match values.data_type() {
        DataType::UInt64 => NumberForm::Unsigned,
        DataType::Decimal128(..) => NumberForm::Wide,
        kind if kind.is_integer() => NumberForm::Signed,
        _ => return Ok(None),
    };
    let mut integers: Vec<i128> = match StateNumbers::new(values, form)? {
        StateNumbers::Signed(numbers) => numbers.iter().map(|number| (*number).into()).collect(),
        StateNumbers::Unsigned(numbers) => numbers.iter().map(|number| (*number).into()).collect(),
        StateNumbers::Wide(numbers) => numbers.to_vec(),
        StateNumbers::Float(_) | StateNumbers::Text(_) => return Ok(None),
    };
    if let Some(nulls) = values.nulls() {
        let mut place = 0..;
        integers.retain(|_| place.next().is_some_and(|place| nulls.is_valid(place)));
    }
    Ok(Some(integers))
}

/// Converts the bits of values of up to 64 bits to numbers in the order of the values.
#[derive(Clone, Copy)]
pub(crate) struct BitOrder {
    /// High bits that do not belong to the values; the sign is the highest bit below them.
    unused: u32,
    has_sign: bool,
    is_float: bool,
}

impl BitOrder {
    pub(crate) fn of(kind: &DataType, width: u32) -> BitOrder {
        let is_float = matches!(kind, DataType::Float32 | DataType::Float64);
        let has_sign = !kind.is_unsigned_integer() && *kind != DataType::Boolean;
        BitOrder { unused: 64 - width, has_sign, is_float }
    }

    #[inline]
    pub(crate) fn number(self, bits: u64) -> i64 {
        // Shifting left and back right copies the sign bit into the unused bits.
        match self.has_sign {
            true if self.is_float => flip_negative((bits << self.unused) as i64 >> self.unused),
            true => (bits << self.unused) as i64 >> self.unused,
            false if self.unused == 0 => (bits ^ 1 << 63) as i64,
            false => bits as i64,
        }
    }
}

/// Values as numbers in the order of the values.
fn signed(values: &ArrayRef) -> Result<ScalarBuffer<i64>> {
    let kind = values.data_type();
    let Bits::Narrow { numbers, width } = bits_of(values)? else {
        return Err(Error::internal(format!("values of {kind} do not fit 64 bits")));
    };
    let order = BitOrder::of(kind, width);
    Ok(match order {
        BitOrder { unused: 0, has_sign: true, is_float: false } => ScalarBuffer::from(numbers.into_inner()),
        order => numbers.iter().map(|number| order.number(*number)).collect(),
    })
}

/// Turns the sign-extended bits of a float into a number in the order of floats. Applied again, it restores the bits.
fn flip_negative(bits: i64) -> i64 {
    bits ^ (bits >> 63 & i64::MAX)
}

/// Restores the values from the numbers that [`BitOrder::number`] made.
pub(crate) fn signed_array(
    numbers: impl Iterator<Item = i64>,
    nulls: Option<NullBuffer>,
    kind: &DataType,
) -> Result<ArrayRef> {
    let bits: fn(i64) -> u64 = match kind {
        DataType::UInt64 => |number| number as u64 ^ 1 << 63,
        DataType::Float32 | DataType::Float64 => |number| flip_negative(number) as u64,
        _ => |number| number as u64,
    };
    array_of(kind, numbers.map(|number| bits(number).into()), nulls)
}

/// The bits of an interval that must be inverted so that one signed number has the order of intervals: months are the
/// highest with their sign, then days, then nanoseconds.
const INTERVAL_SIGNS: u128 = 1 << 95 | 1 << 63;

/// A value of 128 bits as a number in the order of its type.
#[inline]
pub(crate) fn wide_number(kind: &DataType, bits: u128) -> i128 {
    match kind {
        // The first byte is the most significant.
        DataType::FixedSizeBinary(_) => (bits.swap_bytes() ^ 1 << 127) as i128,
        DataType::Interval(_) => {
            let (months, days) = (bits as u32, (bits >> 32) as u32);
            ((u128::from(months) << 96 | u128::from(days) << 64 | bits >> 64) ^ INTERVAL_SIGNS) as i128
        }
        _ => bits as i128,
    }
}

/// Values of 128 bits as numbers in their order.
fn wide(values: &ArrayRef) -> Result<ScalarBuffer<i128>> {
    let kind = values.data_type();
    if let DataType::Decimal128(..) = kind {
        return Ok(values.as_primitive::<Decimal128Type>().values().clone());
    }
    let Bits::Wide(numbers) = bits_of(values)? else {
        return Err(Error::internal(format!("values of {kind} do not take 128 bits")));
    };
    Ok(numbers.iter().map(|bits| wide_number(kind, *bits)).collect())
}

/// Restores the values from the numbers that [`wide`] made.
pub(crate) fn wide_array(
    numbers: impl Iterator<Item = i128>,
    nulls: Option<NullBuffer>,
    kind: &DataType,
) -> Result<ArrayRef> {
    let bits: fn(i128) -> u128 = match kind {
        DataType::FixedSizeBinary(_) => |number| (number as u128 ^ 1 << 127).swap_bytes(),
        DataType::Interval(_) => |number| {
            let bits = number as u128 ^ INTERVAL_SIGNS;
            bits >> 96 | (bits >> 64 & u128::from(u32::MAX)) << 32 | bits << 64
        },
        _ => |number| number as u128,
    };
    array_of(kind, numbers.map(bits), nulls)
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{
        BooleanArray, FixedSizeBinaryArray, Float32Array, Float64Array, Int8Array, IntervalMonthDayNanoArray,
        TimestampMicrosecondArray, UInt32Array, UInt64Array,
    };
    use arrow::datatypes::IntervalMonthDayNano;
    use std::sync::Arc;

    use crate::group::width_of;

    #[test]
    fn numbers_are_in_the_order_of_values_and_come_back() {
        let intervals = [(-1, 5, 9), (0, -7, 0), (0, 0, -1), (0, 0, 0), (0, 0, 1), (0, 3, 0), (2, -9, -9)];
        let intervals = intervals.map(|(months, days, nanoseconds)| IntervalMonthDayNano { months, days, nanoseconds });
        let uuids = FixedSizeBinaryArray::try_from_iter([[0_u8; 16], [1; 16], [127; 16], [128; 16], [255; 16]].iter());
        let ascending: [ArrayRef; 9] = [
            Arc::new(Int8Array::from(vec![i8::MIN, -1, 0, 1, i8::MAX])),
            Arc::new(UInt32Array::from(vec![0, 1, u32::MAX])),
            Arc::new(UInt64Array::from(vec![0, 1, i64::MAX as u64, u64::MAX])),
            Arc::new(BooleanArray::from(vec![false, true])),
            Arc::new(TimestampMicrosecondArray::from(vec![i64::MIN, -1, 0, 1])),
            Arc::new(Float32Array::from(vec![f32::NEG_INFINITY, -1.5, 0.0, 1e-40, f32::INFINITY, f32::NAN])),
            Arc::new(Float64Array::from(vec![f64::NEG_INFINITY, -1.5, -1e-310, 0.0, 2.0, f64::INFINITY, f64::NAN])),
            Arc::new(uuids.expect("16 bytes each")),
            Arc::new(IntervalMonthDayNanoArray::from(intervals.to_vec())),
        ];
        for values in ascending {
            let kind = values.data_type();
            let back = if width_of(kind) == Some(128) {
                let numbers = wide(&values).expect("ordered");
                assert!(numbers.is_sorted_by(|a, b| a < b), "{kind}");
                wide_array(numbers.iter().copied(), None, kind)
            } else {
                let numbers = signed(&values).expect("ordered");
                assert!(numbers.is_sorted_by(|a, b| a < b), "{kind}");
                signed_array(numbers.iter().copied(), None, kind)
            };
            // We compare the debug output because NaN is not equal to itself.
            assert_eq!(format!("{values:?}"), format!("{:?}", back.expect("of its kind")));
        }
    }
}
