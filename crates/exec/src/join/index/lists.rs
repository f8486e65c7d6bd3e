//! Rows that have the same key.
//!
//! Keys are numbered in the order in which they are met. When all rows are in, each key gets its entry: its row if it
//! has only one, otherwise the place of its list. A list is its length followed by its rows.

use super::NONE;

/// Marks an entry that is the place of a list.
pub(super) const LIST: u32 = 1 << 31;

/// Most rows. The places of their lists must stay below [`LIST`], and a place with the mark must never be [`NONE`].
/// There are at most half as many lists as rows.
pub(super) const ROWS_MAX: usize = (LIST as usize / 3 - 1) * 2;

/// Most bytes of the lists of `rows` rows.
pub(super) fn bytes_max(rows: usize) -> usize {
    words_max(rows) * size_of::<u32>()
}

/// Most words of the lists of `rows` rows: the rows, and a length for every two of them.
pub(super) fn words_max(rows: usize) -> usize {
    rows + rows / 2
}

/// Keys, and the rows that have them.
#[derive(Debug)]
pub(super) struct Keys {
    /// The first row of each key.
    firsts: Vec<u32>,
    /// Further rows, with the numbers of their keys.
    repeats: Vec<(u32, u32)>,
}

/// The entries of keys by number, and the lists to which they refer.
#[derive(Debug)]
pub(super) struct Entries {
    pub(super) of_keys: Vec<u32>,
    pub(super) lists: Vec<u32>,
}

impl Keys {
    /// Makes room for the keys of `rows` rows.
    pub(super) fn new(rows: usize) -> Keys {
        Keys { firsts: Vec::with_capacity(rows), repeats: Vec::new() }
    }

    /// Most bytes for the keys of `rows` rows: first rows, and further rows in a vector that doubles.
    pub(super) fn bytes_max(rows: usize) -> usize {
        rows * (size_of::<u32>() + 2 * size_of::<(u32, u32)>())
    }

    /// The number of distinct keys.
    pub(super) fn len(&self) -> usize {
        self.firsts.len()
    }

    /// The first row of a key.
    pub(super) fn first(&self, number: u32) -> u32 {
        self.firsts[number as usize]
    }

    /// Adds a row to the key with this number. `NONE` is a new key, which gets the next number.
    #[inline]
    pub(super) fn add(&mut self, number: &mut u32, row: u32) {
        if *number == NONE {
            *number = self.firsts.len() as u32;
            self.firsts.push(row);
        } else {
            self.repeats.push((*number, row));
        }
    }

    /// The entries of all keys. The first list gets the place `start`.
    pub(super) fn finish(self, start: u32) -> Entries {
        let Keys { firsts: mut entries, repeats } = self;
        // Unique keys need no lists: their rows are the entries.
        if repeats.is_empty() {
            return Entries { of_keys: entries, lists: Vec::new() };
        }
        let mut counts = vec![0_u32; entries.len()];
        repeats.iter().for_each(|(number, _)| counts[*number as usize] += 1);
        let mut lists = Vec::with_capacity(words_max(2 * repeats.len()));
        for (entry, count) in entries.iter_mut().zip(&mut counts).filter(|(_, count)| **count > 0) {
            let place = start + lists.len() as u32;
            // The list starts with its length and the first row. The other rows are filled in below.
            lists.extend([*count + 1, *entry]);
            *entry = LIST | place;
            // From here on, the count is the index of the key's next row.
            let next = lists.len() as u32;
            lists.resize(lists.len() + *count as usize, 0);
            *count = next;
        }
        for (number, row) in repeats {
            let next = &mut counts[number as usize];
            lists[*next as usize] = row;
            *next += 1;
        }
        Entries { of_keys: entries, lists }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_its_row_or_its_list() {
        let mut keys = Keys::new(6);
        let mut numbers = [NONE; 3];
        for (key, row) in [(0, 10), (1, 11), (0, 12), (2, 13), (0, 14), (2, 15)] {
            keys.add(&mut numbers[key], row);
        }
        assert_eq!((numbers, keys.len(), keys.first(2)), ([0, 1, 2], 3, 13));
        let Entries { of_keys, lists } = keys.finish(100);
        assert_eq!(of_keys, [LIST | 100, 11, LIST | 104]);
        assert_eq!(lists, [3, 10, 12, 14, 2, 13, 15]);
    }

    #[test]
    fn entries_of_lists_are_never_the_missing_entry() {
        assert!((LIST | words_max(ROWS_MAX) as u32) < NONE && words_max(ROWS_MAX) < LIST as usize);
    }
}
