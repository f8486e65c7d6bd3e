//! The writes of a large commit to one index, in the memory of its transaction. They become part of the table of
//! versions without a copy.
//!
//! Entries and versions of a transaction have the same record format as those of the table, with one version per key.
//! Only two things are left to do: places must count from the end of the table's own records, and each chunk must
//! record the commit to which its records belong.

use super::arena::{Arena, ArenaOffset};
use super::entry;
use super::order::KeyTree;

/// The writes of a commit to one index. Has at least one key.
#[derive(Debug)]
pub(super) struct CommitRun {
    pub(super) records: Arena,
    /// The entries. Places here, and those in the records, count from `end` on.
    pub(super) order: KeyTree,
    /// The end of the table's records, as last seen.
    end: u32,
}

impl CommitRun {
    /// Makes a run of entries with one version each.
    pub(super) fn new(records: Arena, order: KeyTree) -> CommitRun {
        CommitRun { records, order, end: 0 }
    }

    /// Moves all places so that they count from `end` on.
    pub(super) fn settle(&mut self, end: u32) {
        if end == self.end {
            return;
        }
        // The arena still numbers its own records from 0. So shift the places there first, change the records, and then
        // shift the places to `end`.
        self.order.shift(0_u32.wrapping_sub(self.end));
        let moved = end.wrapping_sub(self.end);
        for place in self.order.entries() {
            let ArenaOffset(newest) = entry::head(&self.records, place).next;
            entry::set_next(&mut self.records, place, ArenaOffset(newest.wrapping_add(moved)));
        }
        self.order.shift(end);
        self.end = end;
    }
}
