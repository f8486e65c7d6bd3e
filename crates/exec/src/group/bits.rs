//! Values of fixed size as their bits, and hashes of bits.

use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, LazyLock};

use arrow::array::{Array, ArrayData, ArrayRef, AsArray, BooleanArray, make_array};
use arrow::buffer::{Buffer, NullBuffer};
use arrow::datatypes::DataType;
use rowmill_base::{Error, Result};

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

/// A hash of bytes and of a hash of what belongs to them. Keyed, so that no data can be made whose keys all meet.
#[inline]
pub(super) fn hash_of_bytes(bytes: &[u8], of_rest: u64) -> u64 {
    static SECRET: LazyLock<u64> = LazyLock::new(|| RandomState::new().hash_one(0_u8) | 1);
    let secret = *SECRET;
    let word = |at: usize| bytes[at..].first_chunk().map_or(0, |word| u64::from_le_bytes(*word));
    let short = |at: usize| bytes[at..].first_chunk().map_or(0, |word| u64::from(u32::from_le_bytes(*word)));
    let len = bytes.len();
    // The last words overlap with those before, so that no byte is left over.
    let (first, last) = match len {
        0 => (0, 0),
        1..=3 => (u64::from(bytes[0]) << 16 | u64::from(bytes[len / 2]) << 8 | u64::from(bytes[len - 1]), 0),
        4..=7 => (short(0), short(len - 4)),
        _ => (word(len.saturating_sub(16)), word(len - 8)),
    };
    let mut hash = of_rest ^ (len as u64).wrapping_mul(secret);
    if len > 16 {
        for pair in bytes[..len - 1].as_chunks::<16>().0 {
            let (low, high) = pair.split_at(8);
            let of = |half: &[u8]| half.first_chunk().map_or(0, |word| u64::from_le_bytes(*word));
            hash = fold(of(low) ^ secret, of(high) ^ hash);
        }
    }
    mix(fold(first ^ secret, last ^ hash) ^ hash)
}

/// Both halves of a product as one.
#[inline]
fn fold(left: u64, right: u64) -> u64 {
    let product = u128::from(left) * u128::from(right);
    product as u64 ^ (product >> 64) as u64
}

/// A hash of 64 bits, of which every part is as good as any other.
#[inline]
pub(super) fn mix(bits: u64) -> u64 {
    let folded = fold(bits ^ 0x9e37_79b9_7f4a_7c15, 0xa076_1d64_78bd_642f);
    folded ^ (folded >> 32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_and_the_length_are_in_the_hash() {
        let mut met = std::collections::HashSet::new();
        for len in 0..70 {
            let mut bytes = vec![0; len];
            assert!(met.insert(hash_of_bytes(&bytes, 0)), "{len} zeros");
            for at in 0..len {
                bytes[at] = 1;
                assert!(met.insert(hash_of_bytes(&bytes, 0)), "byte {at} of {len}");
                bytes[at] = 0;
            }
        }
        assert!(met.insert(hash_of_bytes(&[], 1)));
    }
}
