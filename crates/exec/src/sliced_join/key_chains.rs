//! The right rows of each key as a chain, from the last row back.
//!
//! ```text
//! right rows   place  0   1   2   3   4   5          in the order of time
//!              key    a   b   a   c   a   b
//! before              -   -   0   -   2   1          the row of the same key before each row
//! last                a: 4, b: 5, c: 3               the heads of the chains
//! ```
//!
//! A left row walks the chain of its key from the end of its window to the beginning. Nothing is sorted, and rows in no
//! window cost only their link, so this is the fastest way for windows with few rows. A window with many rows costs a
//! step for each, and each window gets a copy of its rows; such windows are found with key_ranges.rs.

use std::ops::Range;

use super::met_rows::MetRows;
use super::slice_rows::SliceRows;

/// A chain may be ahead of a left row by the right rows that come before the next few left rows. With this number of
/// keys for each of these left rows, the chains of most keys have none of them.
const KEYS_PER_ROW_AHEAD: usize = 32;
/// The most left rows whose right rows are linked at once. Links row by row would make the processor guess the number
/// of right rows for each left row, and it would often guess wrong.
const ROWS_AHEAD_MAX: usize = 16;

/// The place of no row.
const NO_ROW: u32 = u32::MAX;

/// The chains of a slice, and the next left row.
pub(super) struct KeyChains {
    /// The last linked row of each key.
    last: Vec<u32>,
    /// For each linked row the row of its key before it.
    before: Vec<u32>,
    /// The next left row.
    pub(super) next: usize,
}

impl KeyChains {
    /// The beginning of a slice. Keys have numbers below `keys`.
    pub(super) fn new(keys: usize) -> KeyChains {
        KeyChains { last: vec![NO_ROW; keys], before: Vec::new(), next: 0 }
    }

    /// Bytes of memory for a slice with `rows` right rows.
    pub(super) fn bytes(rows: usize, keys: usize) -> u64 {
        ((rows + keys) * size_of::<u32>()) as u64
    }

    /// Finds what the next left rows meet, and returns these rows. There are at most `rows_max`, and fewer if they meet
    /// `met_max` right rows in all.
    pub(super) fn group(
        &mut self,
        left: &SliceRows,
        right: &SliceRows,
        (reach, with_prevailing): ((i64, i64), bool),
        (rows_max, met_max): (usize, usize),
        met: &mut MetRows,
    ) -> Range<usize> {
        let start = self.next;
        let end = left.len().min(start + rows_max.max(1));
        let ahead = (self.last.len() / KEYS_PER_ROW_AHEAD).clamp(1, ROWS_AHEAD_MAX);
        self.before.reserve_exact(right.len() - self.before.len());
        met.clear();
        while self.next < end {
            let rows = self.next..end.min(self.next + ahead);
            self.link(right, left.times[rows.end - 1].saturating_add(reach.1));
            for (key, time) in left.keys[rows.clone()].iter().zip(&left.times[rows]) {
                let bounds = (time.saturating_add(reach.0), time.saturating_add(reach.1));
                self.walk(*key, &right.times, bounds, with_prevailing, met);
                self.next += 1;
                if met.order.len() >= met_max {
                    return start..self.next;
                }
            }
        }
        start..end
    }

    /// Links the right rows up to a time.
    fn link(&mut self, right: &SliceRows, to: i64) {
        let first = self.before.len();
        for (row, (key, time)) in (first..).zip(right.keys[first..].iter().zip(&right.times[first..])) {
            if *time > to {
                return;
            }
            // A row without a key is in no chain.
            let last = self.last.get_mut(*key as usize);
            self.before.push(last.map_or(NO_ROW, |last| std::mem::replace(last, row as u32)));
        }
    }

    /// Adds what a left row meets.
    #[inline(always)]
    fn walk(&self, key: u32, times: &[i64], (from, to): (i64, i64), with_prevailing: bool, met: &mut MetRows) {
        let start = met.order.len();
        let mut row = self.last.get(key as usize).copied().unwrap_or(NO_ROW);
        while row != NO_ROW && times[row as usize] > to {
            row = self.before[row as usize];
        }
        let mut first = i64::MAX;
        while row != NO_ROW && times[row as usize] >= from {
            met.order.push(row);
            first = times[row as usize];
            row = self.before[row as usize];
        }
        // This row is the last one before the lower bound. It prevails there unless a row is at the bound.
        if with_prevailing && row != NO_ROW && first != from {
            met.order.push(row);
        }
        met.order[start..].reverse();
        met.push(start as u32, met.order.len() as u32);
    }
}
