//! Key comparisons that handle a word at a time.

use std::cmp::Ordering;

/// The first eight bytes of `key` as a number, so that numbers compare in the order of the bytes. A shorter key is
/// padded with zeros, so different keys can have equal numbers.
#[inline]
pub(crate) fn head_of(key: &[u8]) -> u64 {
    match key.first_chunk() {
        Some(bytes) => u64::from_be_bytes(*bytes),
        None => head_of_few(key),
    }
}

/// What [`head_of`] does for a key of fewer than eight bytes. Few loads that overlap take less time than a call that
/// copies the bytes.
#[inline]
pub(crate) fn head_of_few(key: &[u8]) -> u64 {
    let shifted = |value: u64, at: usize, bytes: usize| value << (8 * (8 - at - bytes));
    match (key.first_chunk::<4>(), key.last_chunk::<4>()) {
        (Some(first), Some(last)) => {
            let (first, last) = (u32::from_be_bytes(*first), u32::from_be_bytes(*last));
            shifted(first.into(), 0, 4) | shifted(last.into(), key.len() - 4, 4)
        }
        _ => key.iter().enumerate().fold(0, |head, (at, byte)| head | shifted((*byte).into(), at, 1)),
    }
}

/// The length of the common prefix of two keys.
#[inline]
pub(crate) fn common_bytes(a: &[u8], b: &[u8]) -> usize {
    let (words_a, words_b) = (a.as_chunks::<8>().0, b.as_chunks::<8>().0);
    for (at, (word_a, word_b)) in words_a.iter().zip(words_b).enumerate() {
        let differing = u64::from_be_bytes(*word_a) ^ u64::from_be_bytes(*word_b);
        if differing != 0 {
            // Big-endian words have their first byte on top, so the leading zeros count the equal bytes.
            return at * 8 + differing.leading_zeros() as usize / 8;
        }
    }
    let words = words_a.len().min(words_b.len()) * 8;
    words + a[words..].iter().zip(&b[words..]).take_while(|(a, b)| a == b).count()
}

/// Compares two keys byte by byte. Most keys are a few words long and differ early, so this is faster here than a call
/// of `memcmp`.
#[inline]
pub(crate) fn compare(a: &[u8], b: &[u8]) -> Ordering {
    let shorter = a.len().min(b.len());
    let (of_a, of_b) = (&a[..shorter], &b[..shorter]);
    for (word_a, word_b) in of_a.as_chunks::<8>().0.iter().zip(of_b.as_chunks::<8>().0) {
        if word_a != word_b {
            return u64::from_be_bytes(*word_a).cmp(&u64::from_be_bytes(*word_b));
        }
    }
    // The rest of less than eight bytes. The last eight bytes may begin in a word that is known to be equal.
    let (rest_a, rest_b) = match (of_a.last_chunk(), of_b.last_chunk()) {
        (Some(rest_a), Some(rest_b)) => (u64::from_be_bytes(*rest_a), u64::from_be_bytes(*rest_b)),
        _ => (head_of_few(of_a), head_of_few(of_b)),
    };
    rest_a.cmp(&rest_b).then(a.len().cmp(&b.len()))
}

/// Whether `a` comes before `b`. An empty key is handled without reading memory: comparing zero bytes at the dangling
/// address of an empty `Vec` takes 50 ns in the C library on processors with AVX-512.
#[inline]
pub(crate) fn is_before(a: &[u8], b: &[u8]) -> bool {
    !b.is_empty() && (a.is_empty() || a < b)
}

/// The number of sorted keys that come before `key`. All of them begin with `prefix`, and `heads` has the next eight
/// bytes of each. `is_less` compares one of them with `key` when the eight bytes are equal.
#[inline]
pub(crate) fn search_heads(prefix: &[u8], heads: &[u64], key: &[u8], mut is_less: impl FnMut(usize) -> bool) -> usize {
    let rest = match prefix.len() {
        0 => key,
        _ if heads.is_empty() => return 0,
        len => match key.strip_prefix(prefix) {
            Some(_) => &key[len..],
            None if key < prefix => return 0,
            None => return heads.len(),
        },
    };
    let head = head_of(rest);
    let (mut low, mut high) = (heads.partition_point(|other| *other < head), heads.len());
    if heads.get(low) != Some(&head) {
        // Only keys with the same head need a full comparison. They are neighbours, so we search between `low` and
        // `high`.
        return low;
    }
    high = low + heads[low..high].partition_point(|other| *other == head);
    while low < high {
        let middle = low.midpoint(high);
        if is_less(middle) { low = middle + 1 } else { high = middle }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_and_common_prefixes_agree_with_the_order_of_bytes() {
        let texts: Vec<Vec<u8>> = (0..40_u8)
            .flat_map(|len| [0, 1, 0x7F, 0xFF].map(|last| [vec![7; usize::from(len)], vec![last]].concat()))
            .chain([vec![], vec![1, 2, 3], vec![1, 2, 3, 4, 5], vec![1, 2, 3, 4, 5, 6, 7]])
            .collect();
        for text in &texts {
            let mut padded = [0; 8];
            let len = text.len().min(8);
            padded[..len].copy_from_slice(&text[..len]);
            assert_eq!(head_of(text), u64::from_be_bytes(padded), "{text:?}");
        }
        for a in &texts {
            for b in &texts {
                let common = a.iter().zip(b).take_while(|(a, b)| a == b).count();
                assert_eq!(common_bytes(a, b), common, "{a:?} {b:?}");
                let (head_a, head_b) = (head_of(&a[common..]), head_of(&b[common..]));
                assert!(head_a == head_b || head_a.cmp(&head_b) == a.cmp(b), "{a:?} {b:?}");
                assert_eq!(is_before(a, b), a < b, "{a:?} {b:?}");
                assert_eq!(compare(a, b), a.cmp(b), "{a:?} {b:?}");
            }
        }
    }
}
