//! What a large commit has written to one index, in the memory that its transaction has written it to: it becomes part of the
//! table of versions without a copy.
//!
//! Entries and versions of a transaction are the records that the table has, each key with one version. What is left to do is
//! to have places count from where the table's own records end; what commit they are of is said by chunk.

use super::arena::{Arena, Place};
use super::entry;
use super::order::Order;

/// See the module. It has keys.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) keys: Arena,
    pub(super) rows: Arena,
    /// Its places are those of [`Run::keys`] until it is settled.
    pub(super) order: Order,
    settled: Ends,
}

/// Where the records of a table end, in its two arenas.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Ends {
    pub(super) keys: u32,
    pub(super) rows: u32,
}

impl Ends {
    /// Whether there are places for as many records as end at `other` behind these, and again as many: numbers of chunks that have
    /// ended are taken again one by one, and not for a run.
    pub(super) fn has_room_for(self, other: Ends) -> bool {
        let is_free = |own: u32, other: u32| u64::from(own) + u64::from(other) <= u64::from(u32::MAX / 2);
        is_free(self.keys, other.keys) && is_free(self.rows, other.rows)
    }
}

impl Run {
    /// Of entries with one version each.
    pub(super) fn new(keys: Arena, rows: Arena, order: Order) -> Run {
        Run { keys, rows, order, settled: Ends::default() }
    }

    /// Has places count from `ends` on.
    pub(super) fn settle(&mut self, ends: Ends) {
        if ends.rows != self.settled.rows {
            self.order.shift(0_u32.wrapping_sub(self.settled.keys));
            let moved = ends.rows.wrapping_sub(self.settled.rows);
            for place in self.order.entries() {
                let Place(newest) = entry::head(&self.keys, place).next;
                entry::set_next(&mut self.keys, place, Place(newest.wrapping_add(moved)));
            }
            self.settled = Ends { keys: 0, rows: ends.rows };
        }
        if ends.keys != self.settled.keys {
            self.order.shift(ends.keys.wrapping_sub(self.settled.keys));
            self.settled.keys = ends.keys;
        }
    }
}
