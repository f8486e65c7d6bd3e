//! The unsigned integers that can be stored, from one byte to sixteen.

use std::fmt::Debug;

/// An unsigned integer with wrapping arithmetic and little-endian bytes.
pub(crate) trait Word: Copy + Ord + Default + Debug + Send + Sync + 'static {
    /// The size in bytes.
    const BYTES: usize;
    /// The size in bits.
    const BITS: u32;
    /// The largest value.
    const MAX: Self;

    /// The low bits of `value`.
    fn truncate(value: u128) -> Self;
    /// The low bits of `value`. For decoders, whose values have at most 64 bits.
    fn from_u64(value: u64) -> Self;
    /// Converts to 128 bits.
    fn widen(self) -> u128;
    /// The low 64 bits.
    fn low(self) -> u64;
    /// Adds modulo 2^BITS.
    fn plus(self, other: Self) -> Self;
    /// Subtracts modulo 2^BITS.
    fn minus(self, other: Self) -> Self;
    /// Multiplies modulo 2^BITS.
    fn times(self, other: Self) -> Self;
    /// Keeps only the bits that are set in `mask`.
    fn masked(self, mask: Self) -> Self;
    /// Drops the lowest `bits` bits. The word must have more bits than that.
    fn shifted(self, bits: u32) -> Self;
    /// The position of the highest bit that is set, counted from 1; 0 for 0.
    fn bits(self) -> u32;
    /// Flips the highest bit. This turns the order of signed integers into the order of unsigned ones.
    fn flip_sign(self) -> Self;
    /// Reads the first [`Word::BYTES`] bytes, little-endian. Panics if there are fewer.
    fn read(bytes: &[u8]) -> Self;
    /// Writes to the first [`Word::BYTES`] bytes, little-endian. Panics if there are fewer.
    fn write(self, bytes: &mut [u8]);
}

macro_rules! word {
    ($($type:ty),*) => {$(
        impl Word for $type {
            const BYTES: usize = size_of::<$type>();
            const BITS: u32 = <$type>::BITS;
            const MAX: Self = <$type>::MAX;

            #[inline]
            fn truncate(value: u128) -> Self {
                value as $type
            }
            #[inline]
            fn from_u64(value: u64) -> Self {
                value as $type
            }
            #[inline]
            fn widen(self) -> u128 {
                self as u128
            }
            #[inline]
            fn low(self) -> u64 {
                self as u64
            }
            #[inline]
            fn plus(self, other: Self) -> Self {
                self.wrapping_add(other)
            }
            #[inline]
            fn minus(self, other: Self) -> Self {
                self.wrapping_sub(other)
            }
            #[inline]
            fn times(self, other: Self) -> Self {
                self.wrapping_mul(other)
            }
            #[inline]
            fn masked(self, mask: Self) -> Self {
                self & mask
            }
            #[inline]
            fn shifted(self, bits: u32) -> Self {
                self >> bits
            }
            #[inline]
            fn bits(self) -> u32 {
                <$type>::BITS - self.leading_zeros()
            }
            #[inline]
            fn flip_sign(self) -> Self {
                self ^ (1 << (<$type>::BITS - 1))
            }
            #[inline]
            fn read(bytes: &[u8]) -> Self {
                let mut array = [0; size_of::<$type>()];
                array.copy_from_slice(&bytes[..size_of::<$type>()]);
                <$type>::from_le_bytes(array)
            }
            #[inline]
            fn write(self, bytes: &mut [u8]) {
                bytes[..size_of::<$type>()].copy_from_slice(&self.to_le_bytes());
            }
        }
    )*};
}

word!(u8, u16, u32, u64, u128);

/// Appends `values`, little-endian.
pub(crate) fn append<W: Word>(out: &mut Vec<u8>, values: &[W]) {
    let start = out.len();
    out.resize(start + values.len() * W::BYTES, 0);
    for (bytes, value) in out[start..].chunks_exact_mut(W::BYTES).zip(values) {
        value.write(bytes);
    }
}
