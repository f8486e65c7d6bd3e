//! GROUP BY one column that blocks list: range by range of its values, from the least to the greatest.
//!
//! ```text
//!             range 0   range 1     range 2
//!   block 0   a c     | f g h     | p q         sorted lists, cut at the same values
//!   block 1   b c d   | h         | n p r
//!   block 2   d       | e f m     | n o
//! ```
//!
//! The lists of all blocks are sorted, so the values between two borders are one slice of each list, and all groups of
//! a range come from these slices alone. A worker takes a range, decodes its slices, finds the groups and returns them,
//! in memory that fits its cache and serves the next range again. No partition is written, no worker waits for another,
//! and no group must be kept until all blocks have been read. The borders are values of a sample that has some values
//! of each list, so that ranges have about the same size. Rows outside of lists, such as recent rows, are put into
//! ranges by binary search; they must be few.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use arrow::array::{ArrayRef, AsArray};
use parking_lot::Mutex;
use rowmill_base::{Broker, Error, Reservation, Result, SqlType};

use super::OWNER;
use super::borders::Borders;
use super::rows::{concat, take};
use super::value_list::ValueList;
use crate::sort::SAMPLES_PER_RANGE;

/// Up to this many ranges are made even if fewer would be small enough, so that several workers can share them. With 4,
/// 8, 16 and 64, two workers need 0.44, 0.61, 0.70 and 0.87 ms for ClickBench's groups by RegionID, and equally long
/// for columns with more values. Fewer ranges would leave workers of a larger machine without one.
const SHARED_RANGES: usize = 16;
/// The least number of values of such a range. With 1,024 to 16,384, the groups of small columns take equally long.
const SHARED_VALUES: usize = 1 << 12;

/// The values of all blocks in ranges.
pub(super) struct GroupRanges {
    pub(super) column: usize,
    lists: Vec<ValueList>,
    loose: Vec<LooseRows>,
    borders: Borders,
    /// For each border, the number of values below it in each list; `None` until a worker has searched them.
    ends: Vec<Mutex<Option<Arc<[usize]>>>>,
    /// Bytes of a range, approximately.
    range_bytes: usize,
    next: AtomicUsize,
    /// Rows that were not met yet, of the lists whose counts must add up to their rows; and the number of ranges that
    /// were read.
    rows_left: AtomicU64,
    read: AtomicUsize,
    /// The memory of the lists.
    _memory: Reservation,
}

/// A part of a column that one worker takes.
pub(super) enum ColumnPart {
    List(ValueList),
    /// The values of rows outside of lists.
    Loose(ArrayRef),
}

/// The parts of a column that one worker found.
#[derive(Default)]
pub(super) struct ColumnParts {
    lists: Vec<ValueList>,
    loose: Vec<ArrayRef>,
}

impl ColumnParts {
    pub(super) fn add(&mut self, part: ColumnPart) {
        match part {
            ColumnPart::List(list) => self.lists.push(list),
            ColumnPart::Loose(values) => self.loose.push(values),
        }
    }
}

/// The values of rows outside of lists, range by range.
struct LooseRows {
    values: ArrayRef,
    /// Where the rows of each range end.
    ends: Vec<u32>,
}

/// The values of one range.
pub(super) struct RangeValues {
    pub(super) values: ArrayRef,
    /// The number of rows that each value represents.
    pub(super) weights: Vec<u64>,
}

impl GroupRanges {
    /// Cuts the values of all `parts`, which are of one column, into ranges of about `range_bytes` bytes. Each value is
    /// expected to take `row_bytes` in addition to its own bytes.
    pub(super) fn new(
        parts: Vec<ColumnParts>,
        (column, kind): (usize, &SqlType),
        row_bytes: usize,
        range_bytes: usize,
        broker: &Broker,
    ) -> Result<GroupRanges> {
        let (mut lists, mut loose) = (Vec::new(), Vec::new());
        for part in parts {
            lists.extend(part.lists);
            loose.extend(part.loose);
        }
        let mut memory = broker.reservation(OWNER);
        let loose_rows: usize = loose.iter().map(|values| values.len()).sum();
        memory.grow(lists.iter().map(ValueList::bytes).sum::<u64>() + (loose_rows * size_of::<u128>()) as u64)?;
        let (mut values, mut bytes) = (0, 0);
        for list in &lists {
            values += list.len();
            bytes += list.value_bytes(list.len())? + list.len() * row_bytes;
        }
        // More ranges than memory needs, so that several workers have something to do.
        let shared = (values / SHARED_VALUES).min(SHARED_RANGES);
        let ranges = (bytes / range_bytes).max(shared).clamp(1, values.max(1));
        let borders = match ranges {
            1 => Borders::none(),
            _ => borders(&lists, kind, values / (ranges * SAMPLES_PER_RANGE))?,
        };
        let loose = loose.iter().map(|values| LooseRows::new(values, &borders)).collect::<Result<_>>()?;
        Ok(GroupRanges {
            column,
            range_bytes: bytes / ranges,
            rows_left: AtomicU64::new(lists.iter().filter_map(ValueList::rows).sum()),
            lists,
            loose,
            ends: (0..borders.len()).map(|_| Mutex::default()).collect(),
            borders,
            next: AtomicUsize::new(0),
            read: AtomicUsize::new(0),
            _memory: memory,
        })
    }

    /// The values of the next range; `None` when none are left. Takes their memory from `memory`.
    pub(super) fn next(&self, memory: &mut Reservation) -> Result<Option<RangeValues>> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        if number > self.borders.len() {
            return Ok(None);
        }
        // Ranges have about the same size, so we reserve the average.
        memory.grow(self.range_bytes as u64)?;
        let (mut parts, mut weights) = (Vec::with_capacity(self.lists.len()), Vec::new());
        let ends = self.ends(number)?;
        let starts = number.checked_sub(1).map(|before| self.ends(before)).transpose()?;
        for (place, list) in self.lists.iter().enumerate() {
            let places = starts.as_ref().map_or(0, |starts| starts[place])..ends[place];
            // Borders ascend, so ends that do not ascend show that the list in the file is not sorted.
            if places.start > places.end {
                return Err(Error::corrupt("the values of a column are in no order"));
            }
            if places.is_empty() {
                continue;
            }
            let before = weights.len();
            parts.push(list.values(places.clone())?);
            list.weights(places, &mut weights)?;
            if list.rows().is_some() {
                self.rows_left.fetch_sub(weights[before..].iter().sum(), Ordering::Relaxed);
            }
        }
        for loose in &self.loose {
            let values = loose.in_range(number);
            weights.resize(weights.len() + values.len(), 1);
            parts.push(values);
        }
        // The worker that reads the last range checks the total of all counts.
        if self.read.fetch_add(1, Ordering::AcqRel) == self.borders.len() {
            self.check_rows()?;
        }
        let values = match &*parts {
            [] => self.lists.first().map(|list| list.values(0..0)).transpose()?,
            _ => Some(concat(&parts)?),
        };
        Ok(values.map(|values| RangeValues { values, weights }))
    }

    /// The number of values up to the end of a range in each list. The next range needs the same numbers as its start,
    /// so we keep them.
    fn ends(&self, number: usize) -> Result<Arc<[usize]>> {
        let Some(border) = self.borders.below(number) else {
            return Ok(self.lists.iter().map(ValueList::len).collect());
        };
        let mut known = self.ends[number].lock();
        if let Some(ends) = &*known {
            return Ok(Arc::clone(ends));
        }
        let ends = self.lists.iter().map(|list| list.places_below(border)).collect::<Result<_>>()?;
        Ok(Arc::clone(known.insert(ends)))
    }

    /// Checks, after the last range, that the counts of the lists add up to all rows.
    fn check_rows(&self) -> Result<()> {
        match self.rows_left.load(Ordering::Relaxed) {
            0 => Ok(()),
            left => Err(Error::corrupt(format!("the values of a column are not those of {} rows", left as i64))),
        }
    }
}

/// Finds the values at which ranges end, by sampling one of each `step` values.
fn borders(lists: &[ValueList], kind: &SqlType, step: usize) -> Result<Borders> {
    let mut sample = Vec::with_capacity(lists.len());
    for list in lists {
        let places: Vec<u32> = (step as u32 / 2..list.len() as u32).step_by(step.max(1)).collect();
        sample.push(list.values_at(&places)?);
    }
    Borders::of_sample(&concat(&sample)?, kind, SAMPLES_PER_RANGE)
}

impl LooseRows {
    fn new(values: &ArrayRef, borders: &Borders) -> Result<LooseRows> {
        let ranges = borders.ranges_of(values)?;
        let mut ends = vec![0; borders.len() + 1];
        ranges.iter().for_each(|range| ends[*range as usize] += 1);
        let mut start = 0;
        for end in &mut ends {
            // Until the rows are placed, this is the index of the range's next row.
            start += std::mem::replace(end, start);
        }
        let mut rows = vec![0; values.len()];
        for (row, range) in (0..).zip(ranges) {
            let place = &mut ends[range as usize];
            rows[*place as usize] = row;
            *place += 1;
        }
        Ok(LooseRows { values: take(values, &rows)?, ends })
    }

    /// The values of the rows in a range, with buffers of their own.
    fn in_range(&self, number: usize) -> ArrayRef {
        let start = number.checked_sub(1).map_or(0, |before| self.ends[before] as usize);
        let values = self.values.slice(start, self.ends[number] as usize - start);
        match (values.as_string_view_opt(), values.as_binary_view_opt()) {
            // A copy, so that a range does not keep the texts of all ranges alive.
            (Some(texts), _) => Arc::new(texts.gc()),
            (_, Some(blobs)) => Arc::new(blobs.gc()),
            _ => values,
        }
    }
}
