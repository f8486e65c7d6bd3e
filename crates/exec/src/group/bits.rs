//! Values of fixed size as their bits.

use std::sync::Arc;

use arrow::array::{Array, ArrayData, ArrayRef, AsArray, BooleanArray, make_array};
use arrow::buffer::{Buffer, NullBuffer};
use arrow::datatypes::DataType;
use rowmill_base::{Error, Result};

pub(super) use crate::hash::{hash_of_bytes, mix};

/// Bits of values, zero for NULL; equal exactly for equal values.
pub(super) enum Bits {
    /// Of types up to 64 bits.
    Narrow {
        numbers: Vec<u64>,
        /// Bits that may be set.
        width: u32,
    },
    /// Of types of 128 bits.
    Wide(Vec<u128>),
}

/// Bits that a value of `kind` takes; `None` for a type of no fixed size.
pub(super) fn width_of(kind: &DataType) -> Option<u32> {
    match kind {
        DataType::Boolean => Some(1),
        DataType::FixedSizeBinary(16) => Some(128),
        kind => kind.primitive_width().map(|bytes| bytes as u32 * 8),
    }
}

/// The bits of values of a fixed size.
pub(super) fn bits_of(values: &ArrayRef) -> Result<Bits> {
    let kind = values.data_type();
    let Some(width) = width_of(kind) else {
        return Err(Error::internal(format!("values of {kind} have no fixed size")));
    };
    let data = values.to_data();
    let mut bits = match kind {
        DataType::Boolean => {
            let values = values.as_boolean().values();
            Bits::Narrow { numbers: values.iter().map(u64::from).collect(), width }
        }
        _ => {
            let bytes = width as usize / 8;
            let slice = &data.buffers()[0].as_slice()[data.offset() * bytes..(data.offset() + data.len()) * bytes];
            match bytes {
                1 => Bits::Narrow { numbers: slice.iter().map(|byte| u64::from(*byte)).collect(), width },
                2 => narrow(slice, width, |bytes| u64::from(u16::from_le_bytes(bytes))),
                4 => narrow(slice, width, |bytes| u64::from(u32::from_le_bytes(bytes))),
                8 => narrow(slice, width, u64::from_le_bytes),
                _ => Bits::Wide(slice.as_chunks().0.iter().map(|bytes| u128::from_le_bytes(*bytes)).collect()),
            }
        }
    };
    if let Some(nulls) = values.nulls().filter(|nulls| nulls.null_count() > 0) {
        for row in (0..values.len()).filter(|row| nulls.is_null(*row)) {
            match &mut bits {
                Bits::Narrow { numbers, .. } => numbers[row] = 0,
                Bits::Wide(numbers) => numbers[row] = 0,
            }
        }
    }
    Ok(bits)
}

fn narrow<const BYTES: usize>(slice: &[u8], width: u32, read: fn([u8; BYTES]) -> u64) -> Bits {
    Bits::Narrow { numbers: slice.as_chunks().0.iter().map(|bytes| read(*bytes)).collect(), width }
}

/// Values of `kind`, which has a fixed size, from their bits.
pub(super) fn array_of(
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
    let bytes = width as usize / 8;
    let mut buffer = Vec::with_capacity(bits.size_hint().0 * bytes);
    bits.for_each(|bits| buffer.extend_from_slice(&bits.to_le_bytes()[..bytes]));
    let rows = buffer.len() / bytes;
    let data = ArrayData::builder(kind.clone()).len(rows).add_buffer(Buffer::from_vec(buffer)).nulls(nulls);
    data.align_buffers(true).build().map(make_array).map_err(|error| Error::internal(error.to_string()))
}
