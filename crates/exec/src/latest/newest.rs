//! The newest row of each key that was met so far.

use rowmill_base::{Reservation, Result};

use crate::row_set::RowSet;

/// The place of a row in a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct RowPlace {
    /// Whether it is in an open run and not in a block.
    pub(super) is_recent: bool,
    /// The run or the block, by its place in the list of the table.
    pub(super) part: u32,
    /// The position in the part.
    pub(super) row: u32,
}

/// The newest row of a key.
#[derive(Clone, Copy, Debug)]
struct NewestRow {
    time: i64,
    number: u64,
    place: RowPlace,
}

/// The newest row of each key that was met so far.
pub(super) struct NewestRows {
    keys: RowSet,
    /// The newest row of each key, by the number of the key.
    rows: Vec<NewestRow>,
}

impl NewestRows {
    pub(super) fn new(memory: Reservation) -> NewestRows {
        NewestRows { keys: RowSet::new(memory), rows: Vec::new() }
    }

    /// Whether the newest row of a key is newer than all rows up to `time`.
    pub(super) fn is_newer(&self, key: &[u8], time: i64) -> bool {
        self.keys.find(key).is_some_and(|key| self.rows[key].time > time)
    }

    /// The time of the oldest newest row of some keys. `None` if one of them has no row.
    pub(super) fn oldest_of<'k>(&self, keys: impl Iterator<Item = &'k [u8]>) -> Option<i64> {
        let mut oldest = i64::MAX;
        for key in keys {
            oldest = oldest.min(self.rows[self.keys.find(key)?].time);
        }
        Some(oldest)
    }

    /// Adds a row.
    pub(super) fn add(&mut self, key: &[u8], time: i64, number: u64, place: RowPlace) {
        let row = NewestRow { time, number, place };
        let (key, is_new) = self.keys.insert(key);
        if is_new {
            self.rows.push(row);
        } else if (time, number) > (self.rows[key].time, self.rows[key].number) {
            self.rows[key] = row;
        }
    }

    /// Asks for the memory of the keys that were added.
    pub(super) fn account(&mut self) -> Result<()> {
        self.keys.account(self.rows.capacity() * size_of::<NewestRow>())
    }

    /// The places of all rows, in the order of the table.
    pub(super) fn into_places(self) -> Vec<RowPlace> {
        let mut places: Vec<RowPlace> = self.rows.into_iter().map(|row| row.place).collect();
        places.sort_unstable();
        places
    }
}
