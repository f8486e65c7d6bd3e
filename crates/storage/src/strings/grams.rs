//! Which groups of a value list may have a text in them: a bit for each gram, which is three bytes in a row.
//!
//! ```text
//!   gram ──hash──► bit        groups of the list
//!                    0        0 1 1 0 0 0 1 0 ...     whether any value of the group has a gram of that bit
//!   "goo"            1        0 0 1 0 1 0 1 0 ...
//!   "oog"            2        1 0 1 0 0 0 0 1 ...
//!   "google": groups whose bits of "goo", "oog", "ogl" and "gle" are all set
//! ```
//!
//! Bits lie by gram and not by group, so that whoever looks for a text reads as many rows of bits as it has grams and nothing
//! else: of 17,000 groups 2 KB each. There are [`BITS_PER_GRAM`] as many bits as a group has grams, on average, so that each is
//! set for about half of the groups; of a text of six bytes one group in ten is left that does not have it. They take about
//! as much as a fifth of a list of addresses, which is decoded ten times as fast for a text that is rare.

use rowmill_base::{Error, Result};

use super::groups::Groups;
use super::{GROUP_VALUES, front};

/// Bytes of a gram.
const GRAM_BYTES: usize = 3;

/// Bits for each gram of a group, as a fraction. With one there are four times as many groups for nothing, with two half as
/// many, and a third more bytes.
const BITS_PER_GRAM: (usize, usize) = (3, 2);

/// Lists of fewer groups are decoded in no time.
const GROUPS_MIN: usize = 64;

/// Groups of longer values have no bits: the row of one gram says little about so much text.
const BITS_MAX: usize = 1 << 13;

/// Groups whose grams are counted to choose the number of bits.
const GROUPS_COUNTED: usize = 64;

const WORD_BITS: usize = u64::BITS as usize;

/// The grams of a list's groups, as they are stored.
pub struct EncodedGrams {
    /// Bits of a group.
    pub bits: usize,
    /// For each bit the groups that have it, the first in the lowest bit of the first word, in whole words.
    pub bytes: Vec<u8>,
}

/// The grams of ascending `values`, which are stored in groups of [`GROUP_VALUES`]; `None` where they would not help.
pub fn encode_grams(values: &[&[u8]]) -> Option<EncodedGrams> {
    let groups = values.len().div_ceil(GROUP_VALUES as usize);
    if groups < GROUPS_MIN {
        return None;
    }
    let bits = (grams_of_group(values, groups) * BITS_PER_GRAM.0 / BITS_PER_GRAM.1).next_multiple_of(8);
    if !(1..=BITS_MAX).contains(&bits) {
        return None;
    }
    let row_bytes = row_bytes(groups);
    let mut bytes = vec![0; bits * row_bytes];
    // A word of each row, for as many groups as it has bits.
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

/// Different grams of a group, on average over some.
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

/// Calls `each` with the grams of ascending values: those of one that begin with its second but last shared byte or behind that, as
/// the value before has the others.
fn for_each_gram(values: &[&[u8]], mut each: impl FnMut(u32)) {
    let mut before: &[u8] = &[];
    for value in values {
        let first = front::common_prefix(before, value).saturating_sub(GRAM_BYTES - 1);
        value[first..].windows(GRAM_BYTES).for_each(|gram| each(gram_of(gram)));
        before = value;
    }
}

fn gram_of(bytes: &[u8]) -> u32 {
    u32::from(bytes[0]) | u32::from(bytes[1]) << 8 | u32::from(bytes[2]) << 16
}

/// The bit of a gram, of `bits`.
fn bit_of(gram: u32, bits: usize) -> usize {
    const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
    let hash = u64::from(gram).wrapping_mul(ODD) >> 32;
    ((hash * bits as u64) >> 32) as usize
}

/// Bytes of the row of a bit.
fn row_bytes(groups: usize) -> usize {
    groups.div_ceil(WORD_BITS) * (WORD_BITS / 8)
}

/// Stored grams.
#[derive(Clone, Copy, Debug)]
pub struct Grams<'a> {
    bits: usize,
    groups: usize,
    bytes: &'a [u8],
}

impl<'a> Grams<'a> {
    /// `bits` rows of bits of so many groups, which `bytes` must hold exactly.
    pub fn open(bits: usize, groups: usize, bytes: &'a [u8]) -> Result<Grams<'a>> {
        match bits > 0 && bits.checked_mul(row_bytes(groups)) == Some(bytes.len()) {
            true => Ok(Grams { bits, groups, bytes }),
            false => {
                let found = bytes.len();
                Err(Error::corrupt(format!("{found} bytes for {bits} bits of the grams of {groups} groups")))
            }
        }
    }

    /// The groups that may have `needle` in a value; all of them where that is shorter than a gram.
    pub fn groups_with(&self, needle: &[u8]) -> Groups {
        let row_bytes = row_bytes(self.groups);
        let mut found = Groups::all(self.groups);
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

    fn found(groups: &Groups) -> Vec<usize> {
        let mut all = Vec::new();
        while let Some(run) = groups.run_from(all.last().map_or(0, |last| last + 1)) {
            all.extend(run);
        }
        all
    }

    #[test]
    fn no_group_that_has_a_text_is_left_out_and_most_others_are() {
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
    fn lists_that_would_not_gain_have_none() {
        let few: Vec<Vec<u8>> = (0..1000_u32).map(|value| value.to_be_bytes().to_vec()).collect();
        let few: Vec<&[u8]> = few.iter().map(Vec::as_slice).collect();
        assert!(encode_grams(&few).is_none());
        let short: Vec<Vec<u8>> = (0..10_000_u16).map(|value| value.to_be_bytes().to_vec()).collect();
        let short: Vec<&[u8]> = short.iter().map(Vec::as_slice).collect();
        assert!(encode_grams(&short).is_none());
    }

    #[test]
    fn damaged_sizes_are_told() {
        for (bits, bytes) in [(0, 0), (3, 8), (1, 9), (usize::MAX, 8), (0, 8)] {
            assert!(Grams::open(bits, 64, &vec![0; bytes]).is_err(), "{bits} {bytes}");
        }
    }
}
