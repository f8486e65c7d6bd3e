//! Some of the groups of a value list, a bit for each.

use std::ops::Range;

const WORD_BITS: usize = u64::BITS as usize;

/// Groups of one list.
#[derive(Clone, Debug)]
pub struct Groups {
    words: Vec<u64>,
}

impl Groups {
    /// All of a list that has so many.
    pub(super) fn all(groups: usize) -> Groups {
        let mut words = vec![u64::MAX; groups.div_ceil(WORD_BITS)];
        if let (Some(last), partial @ 1..) = (words.last_mut(), groups % WORD_BITS) {
            *last = (1 << partial) - 1;
        }
        Groups { words }
    }

    /// How many.
    pub(super) fn len(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }

    pub(super) fn has(&self, group: usize) -> bool {
        self.words[group / WORD_BITS] >> (group % WORD_BITS) & 1 == 1
    }

    /// Leaves those that `words` have, too, the first in the lowest bit of the first word.
    pub(super) fn retain(&mut self, words: impl Iterator<Item = u64>) {
        self.words.iter_mut().zip(words).for_each(|(word, other)| *word &= other);
    }

    /// The first of them from `from` on, and those that follow it without a gap.
    pub(super) fn run_from(&self, from: usize) -> Option<Range<usize>> {
        let start = self.find(from, 0)?;
        let end = self.find(start, u64::MAX).unwrap_or(self.words.len() * WORD_BITS);
        Some(start..end)
    }

    /// The first bit from `from` on that is not that of `of_others`.
    fn find(&self, from: usize, of_others: u64) -> Option<usize> {
        let mut from_on = u64::MAX << (from % WORD_BITS);
        for (index, word) in self.words.iter().enumerate().skip(from / WORD_BITS) {
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
        fn runs_are_those_of_the_bits(words in prop::collection::vec(prop_oneof![Just(0), Just(u64::MAX), any::<u64>()], 0..5), last in 1_usize..=64) {
            let count = (words.len() * WORD_BITS).saturating_sub(WORD_BITS - last);
            let mut groups = Groups::all(count);
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
