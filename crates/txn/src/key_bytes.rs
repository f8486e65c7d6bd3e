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
            }
        }
    }
}
