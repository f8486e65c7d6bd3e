//! Rows that have the same key.
//!
//! Keys are numbered in the order in which they are met. When all rows are in, each key gets its entry: its row if it
//! has only one, otherwise the place of its list. A list is its length followed by its rows.
//!
//! If the rows of each key are ordered afterwards, the entry is the number of the key instead, and the rows of all keys
//! follow each other without gaps.

use super::NONE;

/// What the entries of keys refer to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::join) enum EntryForm {
    /// Rows, or lists of rows. The first list gets the place `start`.
    Lists { start: u32 },
    /// The numbers of the keys.
    Groups,
}

/// Rows by their keys.
#[derive(Debug, Default)]
pub(crate) struct KeyGroups {
    /// The rows of each key, one key after the other.
    pub(crate) rows: Vec<u32>,
    /// Where the rows of each key end.
    pub(crate) ends: Vec<u32>,
}

impl KeyGroups {
    /// Bytes of memory.
    pub(crate) fn bytes(&self) -> u64 {
        ((self.rows.capacity() + self.ends.capacity()) * size_of::<u32>()) as u64
    }
}

/// Marks an entry that is the place of a list.
pub(super) const LIST: u32 = 1 << 31;

/// Most rows. The places of their lists must stay below [`LIST`], and a place with the mark must never be [`NONE`].
/// There are at most half as many lists as rows.
pub(super) const ROWS_MAX: usize = (LIST as usize / 3 - 1) * 2;

/// Most bytes of what the entries of `rows` rows refer to.
pub(super) fn bytes_max(rows: usize, form: EntryForm) -> usize {
    let words = match form {
        EntryForm::Lists { .. } => words_max(rows),
        // A row, the end of its key, and the first row of its key.
        EntryForm::Groups => 3 * rows,
    };
    words * size_of::<u32>()
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

/// The entries of keys by number.
#[derive(Debug)]
pub(super) struct Entries {
    pub(super) of_keys: Vec<u32>,
    pub(super) rows: EntryRows,
}

/// What entries refer to.
#[derive(Debug, Default)]
pub(super) struct EntryRows {
    /// Lists of rows. If entries are the numbers of keys, the first row of each key.
    pub(super) lists: Vec<u32>,
    /// The rows of each key. Empty unless entries are the numbers of keys.
    pub(super) groups: KeyGroups,
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

    /// The entries of all keys.
    pub(super) fn finish(self, form: EntryForm) -> Entries {
        match form {
            EntryForm::Lists { start } => self.finish_lists(start),
            EntryForm::Groups => self.finish_groups(),
        }
    }

    fn finish_groups(self) -> Entries {
        let Keys { firsts, repeats } = self;
        let mut ends = vec![1_u32; firsts.len()];
        repeats.iter().for_each(|(number, _)| ends[*number as usize] += 1);
        let mut rows = vec![0; firsts.len() + repeats.len()];
        let mut start = 0;
        for (end, first) in ends.iter_mut().zip(&firsts) {
            rows[start as usize] = *first;
            // Until all rows are placed, this is the place of the key's next row.
            start += std::mem::replace(end, start + 1);
        }
        for (number, row) in repeats {
            let next = &mut ends[number as usize];
            rows[*next as usize] = row;
            *next += 1;
        }
        let groups = KeyGroups { rows, ends };
        Entries { of_keys: (0..firsts.len() as u32).collect(), rows: EntryRows { lists: firsts, groups } }
    }

    fn finish_lists(self, start: u32) -> Entries {
        let Keys { firsts: mut entries, repeats } = self;
        // Unique keys need no lists: their rows are the entries.
        if repeats.is_empty() {
            return Entries { of_keys: entries, rows: EntryRows::default() };
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
        Entries { of_keys: entries, rows: EntryRows { lists, groups: KeyGroups::default() } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_its_row_or_its_list() {
        let Entries { of_keys, rows } = keys().finish(EntryForm::Lists { start: 100 });
        assert_eq!(of_keys, [LIST | 100, 11, LIST | 104]);
        assert_eq!(rows.lists, [3, 10, 12, 14, 2, 13, 15]);
    }

    #[test]
    fn the_rows_of_keys_follow_each_other() {
        let Entries { of_keys, rows: EntryRows { lists, groups } } = keys().finish(EntryForm::Groups);
        assert_eq!((of_keys, lists), (vec![0, 1, 2], vec![10, 11, 13]));
        assert_eq!((groups.rows, groups.ends), (vec![10, 12, 14, 11, 13, 15], vec![3, 4, 6]));
        let Entries { of_keys, rows: EntryRows { groups, .. } } = Keys::new(0).finish(EntryForm::Groups);
        assert_eq!((of_keys.len(), groups.rows.len(), groups.ends.len()), (0, 0, 0));
    }

    fn keys() -> Keys {
        let mut keys = Keys::new(6);
        let mut numbers = [NONE; 3];
        for (key, row) in [(0, 10), (1, 11), (0, 12), (2, 13), (0, 14), (2, 15)] {
            keys.add(&mut numbers[key], row);
        }
        assert_eq!((numbers, keys.len(), keys.first(2)), ([0, 1, 2], 3, 13));
        keys
    }

    #[test]
    fn entries_of_lists_are_never_the_missing_entry() {
        assert!((LIST | words_max(ROWS_MAX) as u32) < NONE && words_max(ROWS_MAX) < LIST as usize);
    }
}
