//! The unsigned integers that are stored, from one byte to sixteen.

use std::fmt::Debug;

/// An unsigned integer with wrapping arithmetic and little-endian bytes.
pub(crate) trait Word: Copy + Ord + Default + Debug + Send + Sync + 'static {
    /// Bytes of one.
    const BYTES: usize;
    /// Bits of one.
    const BITS: u32;
    /// The largest.
    const MAX: Self;

    /// The low bits of `value`.
    fn truncate(value: u128) -> Self;
    /// The low bits of `value`: for decoders, where every value has 64 bits at most.
    fn from_u64(value: u64) -> Self;
    /// The same number.
    fn widen(self) -> u128;
    /// The low 64 bits.
    fn low(self) -> u64;
    /// Modulo 2^BITS.
    fn plus(self, other: Self) -> Self;
    /// Modulo 2^BITS.
    fn minus(self, other: Self) -> Self;
    /// Modulo 2^BITS.
    fn times(self, other: Self) -> Self;
    /// Only the bits that `mask` has too.
    fn masked(self, mask: Self) -> Self;
    /// Without its lowest `bits` bits, of which it must have more.
    fn shifted(self, bits: u32) -> Self;
    /// Bits up to the highest that is set; 0 for 0.
    fn bits(self) -> u32;
    /// The same bits with the highest one flipped: turns the order of signed integers into that of unsigned ones.
    fn flip_sign(self) -> Self;
    /// The first [`Word::BYTES`] bytes, little endian. A bug to call with fewer.
    fn read(bytes: &[u8]) -> Self;
    /// Writes to the first [`Word::BYTES`] bytes, little endian. A bug to call with fewer.
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

/// Appends `values`, little endian.
pub(crate) fn append<W: Word>(out: &mut Vec<u8>, values: &[W]) {
    let start = out.len();
    out.resize(start + values.len() * W::BYTES, 0);
    for (bytes, value) in out[start..].chunks_exact_mut(W::BYTES).zip(values) {
        value.write(bytes);
    }
}
