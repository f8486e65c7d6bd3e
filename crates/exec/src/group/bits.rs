//! Values of a fixed size as their bits.

use std::sync::Arc;

use arrow::array::{Array, ArrayData, ArrayRef, AsArray, BooleanArray, make_array};
use arrow::buffer::{Buffer, NullBuffer, ScalarBuffer};
use arrow::datatypes::DataType;
use rowmill_base::{Error, Result};

pub(super) use crate::hash::{hash_of_bytes, mix};

/// Bits of values. Equal values must have equal bits; NULL is zero.
pub(crate) enum Bits {
    /// Values of types of up to 64 bits.
    Narrow {
        numbers: ScalarBuffer<u64>,
        /// The number of low bits that may be set.
        width: u32,
    },
    /// Values of types of 128 bits.
    Wide(ScalarBuffer<u128>),
}

/// The number of bits of a value of `kind`; `None` for a type without a fixed size, or with more than 128 bits.
pub(crate) fn width_of(kind: &DataType) -> Option<u32> {
    match kind {
        DataType::Boolean => Some(1),
        DataType::FixedSizeBinary(16) => Some(128),
        kind => kind.primitive_width().map(|bytes| bytes as u32 * 8).filter(|bits| *bits <= 128),
    }
}

/// The bits of values of a fixed size. Values of 64 bits are not copied, unless some are NULL or floats.
pub(crate) fn bits_of(values: &ArrayRef) -> Result<Bits> {
    let kind = values.data_type();
    let Some(width) = width_of(kind) else {
        return Err(Error::internal(format!("values of {kind} have no fixed size")));
    };
    let nulls = values.nulls().filter(|nulls| nulls.null_count() > 0);
    if *kind == DataType::Boolean {
        let values = values.as_boolean().values();
        let numbers: Vec<u64> = values.iter().map(u64::from).collect();
        return Ok(Bits::Narrow { numbers: zero_nulls(numbers, nulls).into(), width });
    }
    let (data, bytes) = (values.to_data(), width as usize / 8);
    // The array may be a slice of a larger buffer.
    let slice = &data.buffers()[0].as_slice()[data.offset() * bytes..(data.offset() + data.len()) * bytes];
    Ok(match kind {
        DataType::Float32 => narrow(slice, nulls, width, |bytes| f32_bits(f32::from_le_bytes(bytes)).into()),
        DataType::Float64 => narrow(slice, nulls, width, |bytes| f64_bits(f64::from_le_bytes(bytes))),
        _ if bytes == 1 => narrow(slice, nulls, width, |[byte]| byte.into()),
        _ if bytes == 2 => narrow(slice, nulls, width, |bytes| u16::from_le_bytes(bytes).into()),
        _ if bytes == 4 => narrow(slice, nulls, width, |bytes| u32::from_le_bytes(bytes).into()),
        // Some types of 64 bits consist of two of 32 bits and are aligned only to these.
        _ if bytes == 8 && nulls.is_none() && slice.as_ptr().align_offset(align_of::<u64>()) == 0 => {
            Bits::Narrow { numbers: ScalarBuffer::new(data.buffers()[0].clone(), data.offset(), data.len()), width }
        }
        _ if bytes == 8 => narrow(slice, nulls, width, u64::from_le_bytes),
        _ => {
            let numbers: Vec<u128> = slice.as_chunks().0.iter().map(|bytes| u128::from_le_bytes(*bytes)).collect();
            Bits::Wide(zero_nulls(numbers, nulls).into())
        }
    })
}

fn narrow<const BYTES: usize>(
    slice: &[u8],
    nulls: Option<&NullBuffer>,
    width: u32,
    read: impl Fn([u8; BYTES]) -> u64,
) -> Bits {
    let numbers: Vec<u64> = slice.as_chunks().0.iter().map(|bytes| read(*bytes)).collect();
    Bits::Narrow { numbers: zero_nulls(numbers, nulls).into(), width }
}

fn zero_nulls<T: Default>(mut numbers: Vec<T>, nulls: Option<&NullBuffer>) -> Vec<T> {
    if let Some(nulls) = nulls {
        numbers.iter_mut().zip(nulls).filter(|(_, is_valid)| !is_valid).for_each(|(number, _)| *number = T::default());
    }
    numbers
}

/// The bits of a float. Both zeros have the same bits, and so have all NaNs.
pub(super) fn f64_bits(value: f64) -> u64 {
    if value.is_nan() { f64::NAN.to_bits() } else { (value + 0.0).to_bits() }
}

fn f32_bits(value: f32) -> u32 {
    if value.is_nan() { f32::NAN.to_bits() } else { (value + 0.0).to_bits() }
}

/// Makes an array of `kind`, which must have a fixed size, from bits.
pub(crate) fn array_of(
    kind: &DataType,
    bits: impl Iterator<Item = u128>,
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef> {
    let Some(width) = width_of(kind) else {
        return Err(Error::internal(format!("values of {kind} have no fixed size")));
    };
    if *kind == DataType::Boolean {
        return Ok(Arc::new(BooleanArray::new(bits.map(|bit| bit != 0).collect(), nulls)));
    }
    let buffer = match width {
        8 => Buffer::from_vec(bits.map(|bits| bits as i8).collect()),
        16 => Buffer::from_vec(bits.map(|bits| bits as i16).collect()),
        32 => Buffer::from_vec(bits.map(|bits| bits as i32).collect()),
        64 => Buffer::from_vec(bits.map(|bits| bits as i64).collect()),
        _ => Buffer::from_vec(bits.map(|bits| bits as i128).collect()),
    };
    let rows = buffer.len() * 8 / width as usize;
    let data = ArrayData::builder(kind.clone()).len(rows).add_buffer(buffer).nulls(nulls).build();
    data.map(make_array).map_err(|error| Error::internal(error.to_string()))
}
