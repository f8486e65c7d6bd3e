//! Finds out whether equal words of long keys mean equal keys.
//!
//! A word is the hash of a long key, so rows with equal words are compared by their keys. When all rows of a key are
//! brought together, each of them would be compared with the first one: two texts that are far apart in memory. An
//! ordered join mostly has many rows for each of few keys. So we compare each row while its batch is in the caches,
//! with the first row that its worker has seen with the same word. If no two keys have the same word, which is almost
//! always the case, words need no further comparison. With more keys than a table in the caches holds, we give up.

use std::collections::HashMap;

use super::long_keys::LongKeys;
use super::packing::NO_KEY;
use crate::cache::L2_BYTES;

/// The slots of the table, a power of two.
const SLOTS: usize = if cfg!(test) { 1 << 5 } else { L2_BYTES / size_of::<WordKey>() };
/// The most keys, so that the table is at most half full.
const KEYS_MAX: usize = SLOTS / 2;

/// The first row of a worker that has a word.
#[derive(Clone, Copy, Debug)]
struct WordKey {
    word: u64,
    /// The batch, among those of the worker. [`FREE`] if the slot is free.
    batch: u32,
    row: u32,
}

const FREE: u32 = u32::MAX;

/// The keys of the words that a worker has seen.
#[derive(Debug, Default)]
pub(super) struct ExactWords {
    slots: Vec<WordKey>,
    keys: usize,
    /// Whether two keys may have the same word.
    are_unsure: bool,
}

impl ExactWords {
    /// Most bytes of memory.
    pub(super) const BYTES_MAX: u64 = (SLOTS * size_of::<WordKey>()) as u64;

    /// Bytes of memory.
    pub(super) fn bytes(&self) -> u64 {
        (self.slots.capacity() * size_of::<WordKey>()) as u64
    }

    /// Adds the words of the last of the worker's `batches`.
    pub(super) fn add(&mut self, words: &[u64], batches: &[(usize, LongKeys)]) {
        let Some((_, keys)) = batches.last().filter(|_| !self.are_unsure) else { return };
        self.slots.resize(SLOTS, WordKey { word: 0, batch: FREE, row: 0 });
        for (row, word) in words.iter().enumerate().filter(|(_, word)| **word != NO_KEY) {
            let mut at = *word as usize % SLOTS;
            // The table is never full, so the search ends at a free slot at the latest.
            while self.slots[at].batch != FREE && self.slots[at].word != *word {
                at = (at + 1) % SLOTS;
            }
            let slot = &mut self.slots[at];
            if slot.batch == FREE {
                *slot = WordKey { word: *word, batch: batches.len() as u32 - 1, row: row as u32 };
                self.keys += 1;
                if self.keys > KEYS_MAX {
                    return self.give_up();
                }
            } else if !keys.is_same(row, &batches[slot.batch as usize].1, slot.row as usize) {
                return self.give_up();
            }
        }
    }

    fn give_up(&mut self) {
        *self = ExactWords { are_unsure: true, ..ExactWords::default() };
    }

    /// Whether no two keys of all workers have the same word. Takes the words of each worker and its batches.
    pub(super) fn are_exact<'a>(workers: impl Iterator<Item = (&'a ExactWords, &'a [(usize, LongKeys)])>) -> bool {
        let mut all: HashMap<u64, (&LongKeys, usize)> = HashMap::new();
        for (words, batches) in workers {
            if words.are_unsure {
                return false;
            }
            for slot in words.slots.iter().filter(|slot| slot.batch != FREE) {
                let (keys, row) = (&batches[slot.batch as usize].1, slot.row as usize);
                let (others, other) = *all.entry(slot.word).or_insert((keys, row));
                if !keys.is_same(row, others, other) {
                    return false;
                }
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, StringViewArray};

    use super::*;

    fn keys(texts: &[String]) -> LongKeys {
        let texts: ArrayRef = Arc::new(StringViewArray::from_iter_values(texts));
        LongKeys::of(std::slice::from_ref(&texts), texts.len(), false).expect("texts")
    }

    /// Adds batches of texts with these words to a worker each.
    fn are_exact(workers: &[Vec<Vec<(u64, &str)>>]) -> bool {
        let add = |batches: &Vec<Vec<(u64, &str)>>| {
            let (mut words, mut all) = (ExactWords::default(), Vec::new());
            for batch in batches {
                let texts: Vec<String> = batch.iter().map(|(_, text)| (*text).to_owned()).collect();
                all.push((all.len(), keys(&texts)));
                words.add(&batch.iter().map(|(word, _)| *word).collect::<Vec<_>>(), &all);
            }
            (words, all)
        };
        let all: Vec<_> = workers.iter().map(add).collect();
        ExactWords::are_exact(all.iter().map(|(words, batches)| (words, &batches[..])))
    }

    #[test]
    fn equal_words_of_different_keys_are_found_in_and_across_workers() {
        let a = || vec![vec![(1, "a"), (2, "b"), (NO_KEY, "c")], vec![(2, "b"), (1, "a")]];
        assert!(are_exact(&[a(), vec![], a()]));
        assert!(!are_exact(&[vec![vec![(1, "a")], vec![(1, "b")]]]));
        assert!(!are_exact(&[a(), vec![vec![(3, "d"), (2, "e")]]]));
        // Words that fall into the same slot are no problem.
        assert!(are_exact(&[vec![vec![(1, "a"), (1 + SLOTS as u64, "b"), (1, "a"), (1 + SLOTS as u64, "b")]]]));
    }

    #[test]
    fn more_keys_than_the_table_holds_are_unsure() {
        let texts: Vec<String> = (0..=KEYS_MAX).map(|key| key.to_string()).collect();
        let batch: Vec<(u64, &str)> = (0..).zip(texts.iter().map(String::as_str)).collect();
        assert!(are_exact(&[vec![batch[1..].to_vec()]]));
        assert!(!are_exact(&[vec![batch]]));
    }
}
