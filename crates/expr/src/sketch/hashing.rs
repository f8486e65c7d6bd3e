//! The hash of values, as DataSketches computes it: MurmurHash3 of 128 bits with one seed for all sketches.
//!
//! The hash of a number is that of its 64 bits, as Java's `update(long)` and `update(double)` compute it. The hash of a
//! text is that of its UTF-8 bytes, as Java's `update(String)` computes it. Java drops empty texts, and so do we. The
//! library has the same hash, but does not give it without a sketch, and we store hashes long before a sketch exists.
//!
//! Austin Appleby: MurmurHash3_x64_128, in the public domain.

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{
    DataType, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type,
    UInt64Type,
};
use rowmill_base::{Error, Result};

/// The seed of all sketches.
const SEED: u64 = 9001;

const C1: u64 = 0x87c3_7b91_1142_53d5;
const C2: u64 = 0x4cf5_ad43_2745_937f;

/// The two halves of the hash of some bytes.
#[inline]
pub(super) fn hash_of(bytes: &[u8]) -> (u64, u64) {
    murmur(bytes, SEED)
}

fn murmur(bytes: &[u8], seed: u64) -> (u64, u64) {
    let (mut h1, mut h2) = (seed, seed);
    let (blocks, tail) = bytes.as_chunks::<16>();
    for block in blocks {
        let (low, high) = halves(block);
        h1 = (h1 ^ mix_low(low)).rotate_left(27).wrapping_add(h2).wrapping_mul(5).wrapping_add(0x52dc_e729);
        h2 = (h2 ^ mix_high(high)).rotate_left(31).wrapping_add(h1).wrapping_mul(5).wrapping_add(0x3849_5ab5);
    }
    let mut last = [0; 16];
    last[..tail.len()].copy_from_slice(tail);
    // Mixing zero gives zero, so missing bytes change nothing.
    let (low, high) = halves(&last);
    h1 ^= mix_low(low);
    h2 ^= mix_high(high);
    h1 ^= bytes.len() as u64;
    h2 ^= bytes.len() as u64;
    h1 = h1.wrapping_add(h2);
    h2 = h2.wrapping_add(h1);
    h1 = finish(h1);
    h2 = finish(h2);
    h1 = h1.wrapping_add(h2);
    (h1, h2.wrapping_add(h1))
}

fn halves(block: &[u8; 16]) -> (u64, u64) {
    let block = u128::from_le_bytes(*block);
    (block as u64, (block >> 64) as u64)
}

fn mix_low(low: u64) -> u64 {
    low.wrapping_mul(C1).rotate_left(31).wrapping_mul(C2)
}

fn mix_high(high: u64) -> u64 {
    high.wrapping_mul(C2).rotate_left(33).wrapping_mul(C1)
}

fn finish(mut half: u64) -> u64 {
    half = (half ^ half >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
    half = (half ^ half >> 33).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    half ^ half >> 33
}

/// Calls `each` with the bytes of every value, as they are hashed. NULL has any bytes.
pub(super) fn for_each_value(values: &ArrayRef, mut each: impl FnMut(&[u8])) -> Result<()> {
    macro_rules! integers {
        ($kind:ty) => {
            values.as_primitive::<$kind>().values().iter().for_each(|value| each(&(*value as i64).to_le_bytes()))
        };
    }
    match values.data_type() {
        DataType::Utf8View => {
            let texts = values.as_string_view();
            (0..texts.len()).for_each(|row| each(texts.value(row).as_bytes()));
        }
        DataType::BinaryView => {
            let blobs = values.as_binary_view();
            (0..blobs.len()).for_each(|row| each(blobs.value(row)));
        }
        DataType::Boolean => values.as_boolean().values().iter().for_each(|bit| each(&i64::from(bit).to_le_bytes())),
        DataType::Int8 => integers!(Int8Type),
        DataType::Int16 => integers!(Int16Type),
        DataType::Int32 => integers!(Int32Type),
        DataType::Int64 => integers!(Int64Type),
        DataType::UInt8 => integers!(UInt8Type),
        DataType::UInt16 => integers!(UInt16Type),
        DataType::UInt32 => integers!(UInt32Type),
        DataType::UInt64 => integers!(UInt64Type),
        DataType::Float32 => {
            let floats = values.as_primitive::<Float32Type>().values();
            floats.iter().for_each(|value| each(&float_bits((*value).into()).to_le_bytes()));
        }
        DataType::Float64 => {
            let floats = values.as_primitive::<Float64Type>().values();
            floats.iter().for_each(|value| each(&float_bits(*value).to_le_bytes()));
        }
        kind => {
            // Dates, times and decimals are numbers, which are hashed without their unit or scale.
            let data = values.to_data();
            let of = |bytes: usize| {
                let all = data.buffers().first().map_or(&[][..], |buffer| buffer.as_slice());
                &all[data.offset() * bytes..(data.offset() + data.len()) * bytes]
            };
            match (kind.primitive_width(), kind) {
                (Some(4), _) => {
                    let numbers = of(4).as_chunks().0.iter();
                    numbers.for_each(|bytes| each(&i64::from(i32::from_le_bytes(*bytes)).to_le_bytes()));
                }
                (Some(8), _) => of(8).chunks_exact(8).for_each(each),
                (Some(16), _) | (_, DataType::FixedSizeBinary(16)) => of(16).chunks_exact(16).for_each(each),
                _ => return Err(Error::internal(format!("values of {kind} have no hash for a sketch"))),
            }
        }
    }
    Ok(())
}

/// The bits of a float. Both zeros have the bits of 0, and all NaNs those of one.
fn float_bits(value: f64) -> u64 {
    if value.is_nan() { f64::NAN.to_bits() } else { (value + 0.0).to_bits() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_those_of_the_reference() {
        let of = |text: &str| murmur(text.as_bytes(), 0);
        assert_eq!(of(""), (0, 0));
        let fox = "The quick brown fox jumps over the lazy dog";
        assert_eq!(of(fox), (0xe34b_bc7b_bc07_1b6c, 0x7a43_3ca9_c49a_9347));
        assert_eq!(of(&fox.replace("dog", "dogdogdog")), (0x9c82_0530_0e61_2fc4, 0xcbc0_af61_36aa_3df9));
        assert_eq!(
            of(&fox.replace("dog", "1").replace("lazy ", "lazy")),
            (0xe330_1a82_7e5c_dfe3, 0xbdbf_05f8_da0f_0392)
        );
        assert_eq!(of("The quick brown fox jumps over t"), (0xdf6a_f91b_b29b_dacf, 0x91a3_41c5_8df1_f3a6));
    }

    #[test]
    fn every_nan_has_the_bits_that_java_gives_it() {
        assert_eq!(float_bits(-f64::NAN), 0x7ff8_0000_0000_0000);
        assert_eq!(float_bits(-0.0), 0);
    }
}
