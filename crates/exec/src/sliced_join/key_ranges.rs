//! The right rows that a group of neighbouring left rows may meet, key by key, and the rows that each left row meets.
//!
//! ```text
//! right rows   place  0   1   2   3   4   5          in the order of time
//!              key    a   b   a   c   a   b
//! by key       place  0   2   4 | 1   5 | 3          one counting sort, which keeps the order of time
//!                     a           b       c
//! left rows    each moves the two cursors of its key forward, because its bounds are not before those of the left
//!              row before it
//! ```
//!
//! This is the way for windows with many rows: a row is placed once for all windows of the group that it is in. A group
//! is so small that all of this stays in the second-level cache. Its cost depends on its rows only, not on the
//! number of keys.

use std::ops::Range;

use super::key_numbers::NO_NUMBER;
use super::met_rows::MetRows;
use super::slice_rows::SliceRows;

/// The rows of a key in the order by key, and the cursors of its bounds.
#[derive(Clone, Copy, Debug, Default)]
struct RowsOfKey {
    first: u32,
    end: u32,
    lower: u32,
    upper: u32,
}

/// The right rows of a group by key. Kept from group to group, so that its memory is allocated once.
#[derive(Debug, Default)]
pub(super) struct KeyRanges {
    /// By the number of the key. Zero for keys that the group does not have.
    ranges: Vec<RowsOfKey>,
    /// The keys of the group.
    met: Vec<u32>,
    /// Rows before those of the group that prevail at its beginning.
    prevailing: Vec<u32>,
    /// The times of the right rows by key.
    times: Vec<i64>,
}

impl KeyRanges {
    /// Bytes of memory.
    pub(super) fn bytes(&self) -> u64 {
        let numbers = [&self.met, &self.prevailing];
        let numbers = numbers.iter().map(|numbers| numbers.capacity() * size_of::<u32>()).sum::<usize>();
        let others = self.ranges.capacity() * size_of::<RowsOfKey>() + self.times.capacity() * size_of::<i64>();
        (numbers + others) as u64
    }

    /// Finds what the left rows at `group` meet among the right rows at `rows`. `last` has the last row of each key
    /// before `rows`, if it may prevail. Keys have numbers below `keys`.
    pub(super) fn find(
        &mut self,
        (left, group): (&SliceRows, Range<usize>),
        (right, rows): (&SliceRows, Range<usize>),
        last: Option<&[u32]>,
        (reach, keys): ((i64, i64), usize),
        met: &mut MetRows,
    ) {
        let left_keys = &left.keys[group.clone()];
        self.ranges.resize(keys, RowsOfKey::default());
        self.prevailing.clear();
        self.count(&right.keys[rows.clone()]);
        if let Some(last) = last {
            self.add_prevailing(left_keys, last);
        }
        met.clear();
        self.sort(right, rows, &mut met.order);
        let with_prevailing = last.is_some();
        for (key, time) in left_keys.iter().zip(&left.times[group]) {
            let (start, end) = match self.ranges.get_mut(*key as usize) {
                Some(range) if range.first < range.end => range.meets(&self.times, *time, reach, with_prevailing),
                _ => (0, 0),
            };
            met.push(start, end);
        }
        self.met.iter().for_each(|key| self.ranges[*key as usize] = RowsOfKey::default());
        self.met.clear();
    }

    /// Counts the rows of each key, in the end of its range.
    fn count(&mut self, keys: &[u32]) {
        for key in keys.iter().filter(|key| **key != NO_NUMBER) {
            let range = &mut self.ranges[*key as usize];
            if range.end == 0 {
                self.met.push(*key);
            }
            range.end += 1;
        }
    }

    /// Adds the row of each left key that prevails at the beginning of the group.
    fn add_prevailing(&mut self, left_keys: &[u32], last: &[u32]) {
        for key in left_keys {
            let Some(row) = last.get(*key as usize).filter(|row| **row != NO_NUMBER) else { continue };
            let range = &mut self.ranges[*key as usize];
            // A cursor is not needed before the sort, so it tells that the row was added.
            if range.upper == 0 {
                range.upper = 1;
                self.prevailing.push(*row);
                if range.end == 0 {
                    self.met.push(*key);
                }
                range.end += 1;
            }
        }
    }

    /// Puts the rows into the order by key.
    fn sort(&mut self, right: &SliceRows, rows: Range<usize>, order: &mut Vec<u32>) {
        let mut first = 0;
        for key in &self.met {
            let range = &mut self.ranges[*key as usize];
            let count = range.end;
            // The end grows again with each row that gets its place.
            *range = RowsOfKey { first, end: first, lower: first, upper: first };
            first += count;
        }
        order.resize(first as usize, 0);
        self.times.clear();
        self.times.resize(first as usize, 0);
        // Rows that prevail come first, because they are before all others.
        for row in &self.prevailing {
            let row = *row as usize;
            place(&mut self.ranges[right.keys[row] as usize], order, &mut self.times, row, right.times[row]);
        }
        let of_rows = right.keys[rows.clone()].iter().zip(&right.times[rows.clone()]);
        for (row, (key, time)) in rows.zip(of_rows) {
            if *key != NO_NUMBER {
                place(&mut self.ranges[*key as usize], order, &mut self.times, row, *time);
            }
        }
    }
}

#[inline(always)]
fn place(range: &mut RowsOfKey, order: &mut [u32], times: &mut [i64], row: usize, time: i64) {
    let place = range.end as usize;
    order[place] = row as u32;
    times[place] = time;
    range.end += 1;
}

impl RowsOfKey {
    /// The rows that a left row meets. Moves the cursors there.
    #[inline(always)]
    fn meets(&mut self, times: &[i64], time: i64, reach: (i64, i64), with_prevailing: bool) -> (u32, u32) {
        let (from, to) = (time.saturating_add(reach.0), time.saturating_add(reach.1));
        while self.lower < self.end && times[self.lower as usize] < from {
            self.lower += 1;
        }
        self.upper = self.upper.max(self.lower);
        while self.upper < self.end && times[self.upper as usize] <= to {
            self.upper += 1;
        }
        let is_missing = with_prevailing
            && self.lower > self.first
            && (self.lower == self.end || times[self.lower as usize] != from);
        (self.lower - u32::from(is_missing), self.upper)
    }
}

/// The right rows that the left rows of a slice have passed.
pub(super) struct SliceCursor {
    /// The next left row.
    pub(super) next: usize,
    /// The first right row that a left row may still meet between its bounds.
    first: usize,
    /// The first right row after those that a left row has met.
    end: usize,
    /// The last row of each key before `first`, if it may prevail.
    last: Option<Vec<u32>>,
}

impl SliceCursor {
    /// A cursor at a left row.
    pub(super) fn new(next: usize, with_prevailing: bool, keys: usize) -> SliceCursor {
        SliceCursor { next, first: 0, end: 0, last: with_prevailing.then(|| vec![NO_NUMBER; keys]) }
    }

    /// Finds what the next group of left rows meets, and returns the group. It has at least `rows_min` rows, unless the
    /// slice ends.
    pub(super) fn group(
        &mut self,
        left: &SliceRows,
        right: &SliceRows,
        (reach, keys): ((i64, i64), usize),
        rows_min: usize,
        (ranges, met): (&mut KeyRanges, &mut MetRows),
    ) -> Range<usize> {
        let start = self.next;
        let from = left.times[start].saturating_add(reach.0);
        while self.first < right.len() && right.times[self.first] < from {
            if let (Some(last), key) = (&mut self.last, right.keys[self.first])
                && key != NO_NUMBER
            {
                last[key as usize] = self.first as u32;
            }
            self.first += 1;
        }
        let after = |row: usize| right.times.partition_point(|time| *time <= left.times[row].saturating_add(reach.1));
        // The rows between the bounds of a left row are sorted again in the next group, so a group needs more.
        let sorted_again = after(start).saturating_sub(self.first);
        let (mut end, mut rows) = (start, rows_min);
        loop {
            end = left.len().min(end + rows);
            self.end = after(end - 1).max(self.first);
            if end == left.len() || self.end - self.first >= 2 * sorted_again {
                break;
            }
            rows *= 2;
        }
        self.next = end;
        let rows = (right, self.first..self.end);
        ranges.find((left, start..end), rows, self.last.as_deref(), (reach, keys), met);
        start..end
    }
}
