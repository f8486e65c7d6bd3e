//! A set of groups of a value list, with one bit per group.

use std::ops::Range;

const WORD_BITS: usize = u64::BITS as usize;

/// Some of the groups of one list.
#[derive(Clone, Debug)]
pub struct TextGroups {
    words: Vec<u64>,
}

impl TextGroups {
    /// All groups of a list of `groups` groups.
    pub(super) fn all(groups: usize) -> TextGroups {
        let mut words = vec![u64::MAX; groups.div_ceil(WORD_BITS)];
        // Bits beyond the last group must never be set.
        if let (Some(last), partial @ 1..) = (words.last_mut(), groups % WORD_BITS) {
            *last = (1 << partial) - 1;
        }
        TextGroups { words }
    }

    /// The number of groups in the set.
    pub(super) fn len(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }

    pub(super) fn has(&self, group: usize) -> bool {
        self.words[group / WORD_BITS] >> (group % WORD_BITS) & 1 == 1
    }

    /// Keeps only the groups whose bit is set in `words` too. The first group is the lowest bit of the first word.
    pub(super) fn retain(&mut self, words: impl Iterator<Item = u64>) {
        self.words.iter_mut().zip(words).for_each(|(word, other)| *word &= other);
    }

    /// The first run of groups at or after `from`: a group in the set and those that follow without a gap.
    pub(super) fn run_from(&self, from: usize) -> Option<Range<usize>> {
        let start = self.find(from, 0)?;
        let end = self.find(start, u64::MAX).unwrap_or(self.words.len() * WORD_BITS);
        Some(start..end)
    }

    /// The first bit at or after `from` that differs from the bits of `of_others`.
    fn find(&self, from: usize, of_others: u64) -> Option<usize> {
        let mut from_on = u64::MAX << (from % WORD_BITS);
        for (index, word) in self.words.iter().enumerate().skip(from / WORD_BITS) {
            // After the XOR, the first set bit is the first that differs.
            let found = (word ^ of_others) & from_on;
            if found != 0 {
                return Some(index * WORD_BITS + found.trailing_zeros() as usize);
            }
            from_on = u64::MAX;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn runs_cover_the_set_bits(
            words in prop::collection::vec(prop_oneof![Just(0), Just(u64::MAX), any::<u64>()], 0..5),
            last in 1_usize..=64,
        ) {
            let count = (words.len() * WORD_BITS).saturating_sub(WORD_BITS - last);
            let mut groups = TextGroups::all(count);
            groups.retain(words.iter().copied());
            let has = |group: &usize| words[group / WORD_BITS] >> (group % WORD_BITS) & 1 == 1;
            let wanted: Vec<usize> = (0..count).filter(has).collect();
            let (mut found, mut from) = (Vec::new(), 0);
            while let Some(run) = groups.run_from(from) {
                prop_assert!(run.start > from || from == 0, "a run ends where a group is missing");
                from = run.end;
                found.extend(run);
            }
            prop_assert!((0..count).all(|group| groups.has(group) == has(&group)));
            prop_assert_eq!(groups.len(), wanted.len());
            prop_assert_eq!(found, wanted);
        }
    }
}
