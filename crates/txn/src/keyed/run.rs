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
    pub(super) records: Arena,
    /// Its places, and those in the records, count from `end` on.
    pub(super) order: Order,
    /// Where the records of a table end, as far as is known.
    end: u32,
}

impl Run {
    /// Of entries with one version each.
    pub(super) fn new(records: Arena, order: Order) -> Run {
        Run { records, order, end: 0 }
    }

    /// Has places count from `end` on.
    pub(super) fn settle(&mut self, end: u32) {
        if end == self.end {
            return;
        }
        // To where the records are, and from there on.
        self.order.shift(0_u32.wrapping_sub(self.end));
        let moved = end.wrapping_sub(self.end);
        for place in self.order.entries() {
            let Place(newest) = entry::head(&self.records, place).next;
            entry::set_next(&mut self.records, place, Place(newest.wrapping_add(moved)));
        }
        self.order.shift(end);
        self.end = end;
    }
}
