//! Hashes of bits and of bytes.

use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// An odd number without any pattern.
const ODD: u64 = 0xa076_1d64_78bd_642f;

/// What [`mix`] multiplies by. In memory and not in the code, so that a process can do without differences: reading it
/// costs nothing beside the product.
static FACTOR: AtomicU64 = AtomicU64::new(ODD);

/// Makes all hashes of the process equal.
pub(crate) fn make_all_equal() {
    FACTOR.store(0, Ordering::Relaxed);
}

/// A hash of bytes and of a hash of what belongs to them. Keyed, so that no data can be made whose keys all meet.
#[inline]
pub(crate) fn hash_of_bytes(bytes: &[u8], of_rest: u64) -> u64 {
    #[cfg(test)]
    if tests::all_hashes_meet() {
        return 0;
    }
    static SECRET: LazyLock<u64> = LazyLock::new(|| RandomState::new().hash_one(0_u8) | 1);
    mix(fold_bytes(*SECRET, bytes, of_rest))
}

/// A hash of bytes that is the same in every process: not for tables, whose keys others could have meet.
#[inline]
pub(crate) fn stable_hash_of_bytes(bytes: &[u8]) -> u64 {
    stable_hash(fold_bytes(ODD, bytes, 0))
}

/// A hash of 64 bits that is the same in every process. Numbers at even distances are spread like random ones, and not more
/// evenly, so that numbers can be estimated by it.
#[inline]
pub(crate) fn stable_hash(bits: u64) -> u64 {
    mix_with(ODD, mix_with(ODD, bits))
}

#[inline]
fn fold_bytes(secret: u64, bytes: &[u8], of_rest: u64) -> u64 {
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
    fold(first ^ secret, last ^ hash) ^ hash
}

/// Both halves of a product as one.
#[inline]
fn fold(left: u64, right: u64) -> u64 {
    let product = u128::from(left) * u128::from(right);
    product as u64 ^ (product >> 64) as u64
}

/// A hash of 64 bits, of which every part is as good as any other.
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

    /// Whether all hashes that this thread makes from now on are the same.
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
