//! Keys compared a word at a time.

/// The first eight bytes of `key`, with zeros after a shorter one, as a number in the order of bytes. Keys of equal numbers
/// may differ.
#[inline]
pub(crate) fn head_of(key: &[u8]) -> u64 {
    match key.first_chunk() {
        Some(bytes) => u64::from_be_bytes(*bytes),
        None => {
            let mut bytes = [0; 8];
            bytes[..key.len()].copy_from_slice(key);
            u64::from_be_bytes(bytes)
        }
    }
}

/// How many bytes two keys have in common at their beginning.
#[inline]
pub(crate) fn common_bytes(a: &[u8], b: &[u8]) -> usize {
    let (words_a, words_b) = (a.as_chunks::<8>().0, b.as_chunks::<8>().0);
    for (at, (word_a, word_b)) in words_a.iter().zip(words_b).enumerate() {
        let differing = u64::from_be_bytes(*word_a) ^ u64::from_be_bytes(*word_b);
        if differing != 0 {
            return at * 8 + differing.leading_zeros() as usize / 8;
        }
    }
    let words = words_a.len().min(words_b.len()) * 8;
    words + a[words..].iter().zip(&b[words..]).take_while(|(a, b)| a == b).count()
}

/// Whether `a` is before `b`. Of empty keys memory is not read: the C library's comparison of nothing at the address of an empty
/// `Vec`, which is no address of the process, takes 50 ns on processors with AVX-512.
#[inline]
pub(crate) fn is_before(a: &[u8], b: &[u8]) -> bool {
    !b.is_empty() && (a.is_empty() || a < b)
}

/// How many of some keys, which are in order, are before the searched one. The keys begin with `prefix`, and `heads` has the
/// eight bytes of each after it. `is_less` decides about a key whose eight bytes are those of `key`.
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
    fn heads_and_beginnings_agree_with_the_order_of_bytes() {
        let texts: Vec<Vec<u8>> = (0..40_u8)
            .flat_map(|len| [0, 1, 0x7F, 0xFF].map(|last| [vec![7; usize::from(len)], vec![last]].concat()))
            .chain([vec![]])
            .collect();
        for a in &texts {
            for b in &texts {
                let common = a.iter().zip(b).take_while(|(a, b)| a == b).count();
                assert_eq!(common_bytes(a, b), common, "{a:?} {b:?}");
                let (head_a, head_b) = (head_of(&a[common..]), head_of(&b[common..]));
                assert!(head_a == head_b || head_a.cmp(&head_b) == a.cmp(b), "{a:?} {b:?}");
                assert_eq!(is_before(a, b), a < b, "{a:?} {b:?}");
            }
        }
    }
}
