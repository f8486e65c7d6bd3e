//! Conversions between booleans as bits and booleans as bytes, eight at a time.

use super::VECTOR;

/// Multiplying eight bytes that are 0 or 1 by this number gathers them in the highest byte, with the first one in the
/// lowest bit.
const GATHER: u64 = 0x0102_0408_1020_4080;

/// Packs one bit per value, least significant first. The bit is set if `is_set` is true.
pub(crate) fn pack_bits<T: Copy>(values: &[T], is_set: impl Fn(T) -> bool) -> Vec<u8> {
    let mut out = Vec::with_capacity(values.len().div_ceil(8));
    let (eights, rest) = values.as_chunks::<8>();
    out.extend(eights.iter().map(|eight| {
        let bytes = eight.map(|value| u8::from(is_set(value)));
        // Every product puts one of the eight bits into the highest byte, without carries.
        (u64::from_le_bytes(bytes).wrapping_mul(GATHER) >> 56) as u8
    }));
    if !rest.is_empty() {
        out.push(rest.iter().rev().fold(0, |byte, value| byte << 1 | u8::from(is_set(*value))));
    }
    out
}

/// Packs one bit for each flag of a vector. Flags must be 0 or 1.
pub(crate) fn pack_flags(flags: &[u8; VECTOR]) -> [u64; VECTOR / 64] {
    let mut words = [0; VECTOR / 64];
    let (eights, _) = flags.as_chunks::<8>();
    for (word, eights) in words.iter_mut().zip(eights.chunks_exact(8)) {
        for (byte, eight) in eights.iter().enumerate() {
            *word |= (u64::from_le_bytes(*eight).wrapping_mul(GATHER) >> 56) << (8 * byte);
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_of_a_vector_are_bits_in_their_order() {
        let mut flags = [0; VECTOR];
        flags.iter_mut().enumerate().for_each(|(row, flag)| *flag = u8::from(row % 7 == 2 || row > 1000));
        let words = pack_flags(&flags);
        assert!((0..VECTOR).all(|row| words[row / 64] >> (row % 64) & 1 == u64::from(flags[row])));
    }

    #[test]
    fn bits_are_in_the_order_of_the_values() {
        for len in 0..40 {
            let values: Vec<usize> = (0..len).collect();
            let bits = pack_bits(&values, |value| value % 3 == 1 || value > 29);
            assert_eq!(bits.len(), len.div_ceil(8));
            assert!(
                values.iter().all(|value| (bits[value / 8] >> (value % 8) & 1 == 1) == (value % 3 == 1 || *value > 29))
            );
        }
    }
}
