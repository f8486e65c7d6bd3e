//! Tells which groups of a value list may contain a text. A gram is three consecutive bytes, and each gram has a bit
//! per group.
//!
//! ```text
//!   gram ──hash──► bit        groups of the list
//!                    0        0 1 1 0 0 0 1 0 ...     whether any value of the group has a gram with that bit
//!   "goo"            1        0 0 1 0 1 0 1 0 ...
//!   "oog"            2        1 0 1 0 0 0 0 1 ...
//!   "google": groups whose bits of "goo", "oog", "ogl" and "gle" are all set
//! ```
//!
//! The bits are stored by gram and not by group. So a search reads one row of bits for each gram of its text and
//! nothing else: for 17,000 groups a row has 2 KB. A group has [`BITS_PER_GRAM`] times as many bits as it has grams on
//! average, so that each bit is set for about half of the groups. For example, of the groups that lack a text of six
//! bytes, about one in ten remains. The bits add about a fifth to a list of addresses, and searching it for a rare text
//! becomes ten times as fast.

use rowmill_base::{Error, Result};

use super::groups::TextGroups;
use super::{GROUP_VALUES, front};

/// The number of bytes of a gram.
const GRAM_BYTES: usize = 3;

/// The number of bits for each gram of a group, as a fraction. With 1, four times as many groups would be decoded in
/// vain. With 2, half as many would be, for a third more bytes.
const BITS_PER_GRAM: (usize, usize) = (3, 2);

/// A list with fewer groups than this is decoded so fast that it needs no grams.
const GROUPS_MIN: usize = 64;

/// Groups of longer values get no bits, because one gram says little about so much text.
const BITS_MAX: usize = 1 << 13;

/// The number of groups whose grams are counted to choose the number of bits.
const GROUPS_COUNTED: usize = 64;

const WORD_BITS: usize = u64::BITS as usize;

/// The encoded grams of a list's groups.
pub(crate) struct EncodedGrams {
    /// The number of bits of a group.
    pub bits: usize,
    /// For each bit, the groups that have it: the first one in the lowest bit of the first word, in whole words.
    pub bytes: Vec<u8>,
}

/// Encodes the grams of ascending `values`, which are stored in groups of [`GROUP_VALUES`]. Returns `None` if they
/// would not help.
pub(crate) fn encode_grams(values: &[&[u8]]) -> Option<EncodedGrams> {
    let groups = values.len().div_ceil(GROUP_VALUES as usize);
    if groups < GROUPS_MIN {
        return None;
    }
    // The number of bits follows from the average group, so that about half of the bits are set.
    let bits = (grams_of_group(values, groups) * BITS_PER_GRAM.0 / BITS_PER_GRAM.1).next_multiple_of(8);
    if !(1..=BITS_MAX).contains(&bits) {
        return None;
    }
    let row_bytes = row_bytes(groups);
    let mut bytes = vec![0; bits * row_bytes];
    // We collect one word of each row at a time, for as many groups as a word has bits. Writing single bits of all rows
    // would touch far more memory.
    let mut words = vec![0_u64; bits];
    for (word, values) in values.chunks(GROUP_VALUES as usize * WORD_BITS).enumerate() {
        words.fill(0);
        for (group, values) in values.chunks(GROUP_VALUES as usize).enumerate() {
            for_each_gram(values, |gram| words[bit_of(gram, bits)] |= 1 << group);
        }
        for (bit, word_of_bit) in words.iter().enumerate() {
            bytes[bit * row_bytes + word * 8..][..8].copy_from_slice(&word_of_bit.to_le_bytes());
        }
    }
    Some(EncodedGrams { bits, bytes })
}

/// The average number of distinct grams of a group, measured on some groups.
fn grams_of_group(values: &[&[u8]], groups: usize) -> usize {
    let mut grams = Vec::new();
    let (mut counted, mut different) = (0, 0);
    for group in values.chunks(GROUP_VALUES as usize).step_by(groups.div_ceil(GROUPS_COUNTED)) {
        grams.clear();
        for_each_gram(group, |gram| grams.push(gram));
        grams.sort_unstable();
        grams.dedup();
        different += grams.len();
        counted += 1;
    }
    different / counted
}

/// Calls `each` with the grams of ascending values. Grams that are completely within the bytes shared with the value
/// before are skipped, because that value has them too.
fn for_each_gram(values: &[&[u8]], mut each: impl FnMut(u32)) {
    let mut before: &[u8] = &[];
    for value in values {
        // A gram that reaches beyond the shared bytes by one or two bytes is new, so we step back by that many.
        let first = front::common_prefix(before, value).saturating_sub(GRAM_BYTES - 1);
        value[first..].windows(GRAM_BYTES).for_each(|gram| each(gram_of(gram)));
        before = value;
    }
}

fn gram_of(bytes: &[u8]) -> u32 {
    u32::from(bytes[0]) | u32::from(bytes[1]) << 8 | u32::from(bytes[2]) << 16
}

/// The bit of a gram, out of `bits`.
fn bit_of(gram: u32, bits: usize) -> usize {
    const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
    let hash = u64::from(gram).wrapping_mul(ODD) >> 32;
    // Scales the hash to the number of bits without a division.
    ((hash * bits as u64) >> 32) as usize
}

/// The size in bytes of the row of one bit.
fn row_bytes(groups: usize) -> usize {
    groups.div_ceil(WORD_BITS) * (WORD_BITS / 8)
}

/// Stored grams, opened for searching.
#[derive(Clone, Copy, Debug)]
pub struct Grams<'a> {
    bits: usize,
    groups: usize,
    bytes: &'a [u8],
}

impl<'a> Grams<'a> {
    /// Opens `bits` rows of bits for `groups` groups. `bytes` must have exactly that size.
    pub fn open(bits: usize, groups: usize, bytes: &'a [u8]) -> Result<Grams<'a>> {
        match bits > 0 && bits.checked_mul(row_bytes(groups)) == Some(bytes.len()) {
            true => Ok(Grams { bits, groups, bytes }),
            false => {
                let found = bytes.len();
                Err(Error::corrupt(format!("{found} bytes do not fit {bits} gram bits of {groups} groups")))
            }
        }
    }

    /// The groups in which a value may contain `needle`: all groups if `needle` is shorter than a gram.
    pub(crate) fn groups_with(&self, needle: &[u8]) -> TextGroups {
        let row_bytes = row_bytes(self.groups);
        let mut found = TextGroups::all(self.groups);
        // A value can only contain the needle if it has all of its grams.
        for gram in needle.windows(GRAM_BYTES) {
            let row = &self.bytes[bit_of(gram_of(gram), self.bits) * row_bytes..][..row_bytes];
            found.retain(row.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().expect("eight bytes"))));
        }
        found
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use rand::rngs::SmallRng;
    use rand::{Rng, SeedableRng};

    use super::super::samples;
    use super::*;

    fn found(groups: &TextGroups) -> Vec<usize> {
        let mut all = Vec::new();
        while let Some(run) = groups.run_from(all.last().map_or(0, |last| last + 1)) {
            all.extend(run);
        }
        all
    }

    #[test]
    fn every_group_with_a_text_is_found_and_few_others() {
        let mut strings = samples::urls(40_000);
        strings.sort();
        strings.dedup();
        let values: Vec<&[u8]> = strings.iter().map(String::as_bytes).collect();
        let encoded = encode_grams(&values).unwrap();
        let groups: Vec<&[&[u8]]> = values.chunks(GROUP_VALUES as usize).collect();
        let grams = Grams::open(encoded.bits, groups.len(), &encoded.bytes).unwrap();
        let mut rng = SmallRng::seed_from_u64(4);
        let (mut with, mut candidates) = (0, 0);
        for _ in 0..300 {
            let value = values[rng.random_range(0..values.len())];
            let length = rng.random_range(1..12).min(value.len());
            let start = rng.random_range(0..=value.len() - length);
            let needle = &value[start..start + length];
            let found = found(&grams.groups_with(needle));
            assert!(needle.len() >= GRAM_BYTES || found.len() == groups.len());
            let has = |group: &usize| groups[*group].iter().any(|value| memchr::memmem::find(value, needle).is_some());
            let those: Vec<usize> = (0..groups.len()).filter(has).collect();
            assert!(those.iter().all(|group| found.binary_search(group).is_ok()), "{needle:?}");
            with += those.len();
            candidates += found.len();
        }
        let by_chance = grams.groups_with(b"~qzjx~wvkq~");
        assert!(by_chance.len() < groups.len() / 20, "{} groups where none has the text", by_chance.len());
        assert!(candidates < with * 2, "{candidates} groups where {with} have the text");
    }

    #[test]
    fn lists_without_a_gain_have_no_grams() {
        let few: Vec<Vec<u8>> = (0..1000_u32).map(|value| value.to_be_bytes().to_vec()).collect();
        let few: Vec<&[u8]> = few.iter().map(Vec::as_slice).collect();
        assert!(encode_grams(&few).is_none());
        let short: Vec<Vec<u8>> = (0..10_000_u16).map(|value| value.to_be_bytes().to_vec()).collect();
        let short: Vec<&[u8]> = short.iter().map(Vec::as_slice).collect();
        assert!(encode_grams(&short).is_none());
    }

    #[test]
    fn grams_of_a_wrong_size_are_refused() {
        for (bits, bytes) in [(0, 0), (3, 8), (1, 9), (usize::MAX, 8), (0, 8)] {
            assert!(Grams::open(bits, 64, &vec![0; bytes]).is_err(), "{bits} {bytes}");
        }
    }
}
