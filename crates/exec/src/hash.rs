//! Hashes of bits and of bytes.

use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// An odd number with an irregular pattern of bits.
const ODD: u64 = 0xa076_1d64_78bd_642f;

/// The factor of [`mix`]. It is a variable and not a constant, so that a test process can make all hashes equal.
/// Reading it costs nothing compared with the product.
static FACTOR: AtomicU64 = AtomicU64::new(ODD);

/// Makes all hashes of the process equal, for tests.
pub(crate) fn make_all_equal() {
    FACTOR.store(0, Ordering::Relaxed);
}

/// Hashes bytes, and mixes in `of_rest`, a hash of other values of the same key. The hash has a secret key, so that no
/// client can choose data whose keys all collide.
#[inline]
pub(crate) fn hash_of_bytes(bytes: &[u8], of_rest: u64) -> u64 {
    #[cfg(test)]
    if tests::all_hashes_meet() {
        return 0;
    }
    mix(fold_bytes(*SECRET, bytes, of_rest))
}

/// The secret key of the hashes of this process.
static SECRET: LazyLock<u64> = LazyLock::new(|| RandomState::new().hash_one(0_u8) | 1);

/// Hashes 128 bits as [`hash_of_bytes`] hashes bytes. Equal bits and bytes have different hashes.
#[inline]
pub(crate) fn hash_of_wide(bits: u128, of_rest: u64) -> u64 {
    // Without the secret in both factors, bits whose upper half is zero would all have one hash.
    mix(fold(bits as u64 ^ *SECRET, (bits >> 64) as u64 ^ SECRET.rotate_left(32) ^ of_rest) ^ of_rest)
}

/// Hashes bytes to a value that is the same in every process. Must not be used for hash tables, because a client could
/// make keys collide.
#[inline]
pub(crate) fn stable_hash_of_bytes(bytes: &[u8]) -> u64 {
    stable_hash(fold_bytes(ODD, bytes, 0))
}

/// Hashes 64 bits to a value that is the same in every process. Numbers at even distances are spread like random
/// numbers, not more evenly, so that the number of distinct values can be estimated from the hashes.
#[inline]
pub(crate) fn stable_hash(bits: u64) -> u64 {
    mix_with(ODD, mix_with(ODD, bits))
}

#[inline]
fn fold_bytes(secret: u64, bytes: &[u8], of_rest: u64) -> u64 {
    let word = |at: usize| bytes[at..].first_chunk().map_or(0, |word| u64::from_le_bytes(*word));
    let short = |at: usize| bytes[at..].first_chunk().map_or(0, |word| u64::from(u32::from_le_bytes(*word)));
    let len = bytes.len();
    // The last words may overlap with words before them, so that no byte is left over.
    let (first, last) = match len {
        0 => (0, 0),
        1..=3 => (u64::from(bytes[0]) << 16 | u64::from(bytes[len / 2]) << 8 | u64::from(bytes[len - 1]), 0),
        4..=7 => (short(0), short(len - 4)),
        _ => (word(len.saturating_sub(16)), word(len - 8)),
    };
    // The length must be part of the hash. Otherwise texts that differ only in trailing zeros would collide.
    let mut hash = of_rest ^ (len as u64).wrapping_mul(secret);
    if len > 16 {
        // Up to the last byte in steps of 16. The final words cover the bytes that remain.
        for pair in bytes[..len - 1].as_chunks::<16>().0 {
            let (low, high) = pair.split_at(8);
            let of = |half: &[u8]| half.first_chunk().map_or(0, |word| u64::from_le_bytes(*word));
            hash = fold(of(low) ^ secret, of(high) ^ hash);
        }
    }
    fold(first ^ secret, last ^ hash) ^ hash
}

/// Combines both halves of a product.
#[inline]
fn fold(left: u64, right: u64) -> u64 {
    let product = u128::from(left) * u128::from(right);
    product as u64 ^ (product >> 64) as u64
}

/// Hashes 64 bits. All bits of the hash are equally good.
#[inline]
pub(crate) fn mix(bits: u64) -> u64 {
    #[cfg(test)]
    if tests::all_hashes_meet() {
        return 0;
    }
    mix_with(FACTOR.load(Ordering::Relaxed), bits)
}

#[inline]
fn mix_with(factor: u64, bits: u64) -> u64 {
    let folded = fold(bits ^ 0x9e37_79b9_7f4a_7c15, factor);
    folded ^ (folded >> 32)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::cell::Cell;

    thread_local! {
        static ALL_MEET: Cell<bool> = const { Cell::new(false) };
    }

    pub(super) fn all_hashes_meet() -> bool {
        ALL_MEET.get()
    }

    /// Sets whether all hashes that this thread makes from now on are equal.
    pub(crate) fn let_all_hashes_meet(meet: bool) {
        ALL_MEET.set(meet);
    }

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
