//! GROUP BY one column that blocks list: range by range of its values, from the least to the greatest.
//!
//! The lists of all blocks are sorted and cut at the same values (cut_lists.rs), so all groups of a range come from one
//! slice of each list. A worker takes a range, decodes its slices, finds the groups and returns them, in memory that
//! fits its cache and serves the next range again. No partition is written, no worker waits for another, and no group
//! must be kept until all blocks have been read. Rows outside of lists, such as recent rows, must be few.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use arrow::array::ArrayRef;
use rowmill_base::{Broker, Error, Reservation, Result, SqlType};

use super::OWNER;
use super::cut_lists::CutLists;
use super::rows::concat;
use super::value_list::ValueList;

/// Up to this many ranges are made even if fewer would be small enough, so that several workers can share them. With 4,
/// 8, 16 and 64, two workers need 0.44, 0.61, 0.70 and 0.87 ms for ClickBench's groups by RegionID, and equally long
/// for columns with more values. Fewer ranges would leave workers of a larger machine without one.
const SHARED_RANGES: usize = 16;
/// The least number of values of such a range. With 1,024 to 16,384, the groups of small columns take equally long.
const SHARED_VALUES: usize = 1 << 12;

/// The values of all blocks in ranges.
pub(super) struct GroupRanges {
    pub(super) column: usize,
    lists: CutLists,
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
        Ok(GroupRanges {
            column,
            range_bytes: bytes / ranges,
            rows_left: AtomicU64::new(lists.iter().filter_map(ValueList::rows).sum()),
            lists: CutLists::new(lists, &loose, kind, ranges)?,
            next: AtomicUsize::new(0),
            read: AtomicUsize::new(0),
            _memory: memory,
        })
    }

    /// The values of the next range; `None` when none are left. Takes their memory from `memory`.
    pub(super) fn next(&self, memory: &mut Reservation) -> Result<Option<RangeValues>> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        if number >= self.lists.ranges() {
            return Ok(None);
        }
        // Ranges have about the same size, so we reserve the average.
        memory.grow(self.range_bytes as u64)?;
        let lists = self.lists.lists();
        let (mut parts, mut weights) = (Vec::with_capacity(lists.len()), Vec::new());
        for (list, places) in lists.iter().zip(self.lists.slices(number)?).filter(|(_, places)| !places.is_empty()) {
            let before = weights.len();
            parts.push(list.values(places.clone())?);
            list.weights(places, &mut weights)?;
            if list.rows().is_some() {
                self.rows_left.fetch_sub(weights[before..].iter().sum(), Ordering::Relaxed);
            }
        }
        for (values, _) in self.lists.loose(number) {
            weights.resize(weights.len() + values.len(), 1);
            parts.push(values);
        }
        // The worker that reads the last range checks the total of all counts.
        if self.read.fetch_add(1, Ordering::AcqRel) + 1 == self.lists.ranges() {
            self.check_rows()?;
        }
        let values = match &*parts {
            [] => lists.first().map(|list| list.values(0..0)).transpose()?,
            _ => Some(concat(&parts)?),
        };
        Ok(values.map(|values| RangeValues { values, weights }))
    }

    /// Checks, after the last range, that the counts of the lists add up to all rows.
    fn check_rows(&self) -> Result<()> {
        match self.rows_left.load(Ordering::Relaxed) {
            0 => Ok(()),
            left => Err(Error::corrupt(format!("the values of a column are not those of {} rows", left as i64))),
        }
    }
}
