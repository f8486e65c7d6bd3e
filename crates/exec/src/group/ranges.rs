//! GROUP BY one column that blocks list: range by range of its values, from the least to the greatest.
//!
//! ```text
//!             range 0   range 1     range 2
//!   block 0   a c     | f g h     | p q         sorted lists, cut at the same values
//!   block 1   b c d   | h         | n p r
//!   block 2   d       | e f m     | n o
//! ```
//!
//! The lists of all blocks are sorted. So what they have between two values lies together in each of them, and all groups
//! of a range come from these slices and from nothing else: a worker that takes a range decodes them, finds their groups
//! and gives those, in memory that fits its cache and serves for the next range again. No partition is written, no worker
//! waits for another, and no group has to be kept until all blocks were read. The borders are values of a sample that has
//! some of each list, so that ranges are about as large. Rows that no list has, such as recent ones, are put into ranges by
//! binary search; they have to be few.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use arrow::array::{ArrayRef, AsArray};
use parking_lot::Mutex;
use rowmill_base::{Broker, Error, Reservation, Result, SqlType};

use super::OWNER;
use super::borders::Borders;
use super::rows::{concat, take};
use super::value_list::ValueList;

/// Ranges that several workers share even where one would be small enough, if it has so many values for each.
const SHARED_RANGES: usize = 16;
const SHARED_VALUES: usize = 1 << 12;

/// Values of a sample for each range.
const SAMPLES_PER_RANGE: usize = 4;

/// The values of all blocks in ranges.
pub(super) struct Ranges {
    pub(super) column: usize,
    lists: Vec<ValueList>,
    loose: Vec<LooseRows>,
    borders: Borders,
    /// Where the values below each border end in each list, once somebody has searched for them.
    ends: Vec<Mutex<Option<Arc<[usize]>>>>,
    /// Bytes of a range, about.
    range_bytes: usize,
    next: AtomicUsize,
    /// Of the lists whose counts tell their rows: rows that were not met yet, and ranges that were read.
    rows_left: AtomicU64,
    read: AtomicUsize,
    /// What the lists hold.
    _memory: Reservation,
}

/// A part of a column that one worker takes.
pub(super) enum ColumnPart {
    List(ValueList),
    /// The values of rows that no list has.
    Loose(ArrayRef),
}

/// What one worker found of a column.
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

/// The values of rows that no list has, range by range.
struct LooseRows {
    values: ArrayRef,
    /// Where the rows of each range end.
    ends: Vec<u32>,
}

/// What there is in one range.
pub(super) struct RangeValues {
    pub(super) values: ArrayRef,
    /// How many rows each stands for.
    pub(super) weights: Vec<u64>,
}

impl Ranges {
    /// Cuts the values of all `parts`, which are of a column of some type, into ranges of about so many bytes, with `row_bytes`
    /// for each value.
    pub(super) fn new(
        parts: Vec<ColumnParts>,
        (column, kind): (usize, &SqlType),
        row_bytes: usize,
        range_bytes: usize,
        broker: &Broker,
    ) -> Result<Ranges> {
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
        let shared = (values / SHARED_VALUES).min(SHARED_RANGES);
        let ranges = (bytes / range_bytes).max(shared).clamp(1, values.max(1));
        let borders = match ranges {
            1 => Borders::none(),
            _ => borders(&lists, kind, values / (ranges * SAMPLES_PER_RANGE))?,
        };
        let loose = loose.iter().map(|values| LooseRows::new(values, &borders)).collect::<Result<_>>()?;
        Ok(Ranges {
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

    /// The values of the next range; `None` when there are no more. Their memory is taken from `memory`.
    pub(super) fn next(&self, memory: &mut Reservation) -> Result<Option<RangeValues>> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        if number > self.borders.len() {
            return Ok(None);
        }
        memory.grow(self.range_bytes as u64)?;
        let (mut parts, mut weights) = (Vec::with_capacity(self.lists.len()), Vec::new());
        let ends = self.ends(number)?;
        let starts = number.checked_sub(1).map(|before| self.ends(before)).transpose()?;
        for (place, list) in self.lists.iter().enumerate() {
            let places = starts.as_ref().map_or(0, |starts| starts[place])..ends[place];
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
        if self.read.fetch_add(1, Ordering::AcqRel) == self.borders.len() {
            self.check_rows()?;
        }
        let values = match &*parts {
            [] => self.lists.first().map(|list| list.values(0..0)).transpose()?,
            _ => Some(concat(&parts)?),
        };
        Ok(values.map(|values| RangeValues { values, weights }))
    }

    /// Where the values of a range end in each list.
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

    /// When all was read: the counts are those of all rows.
    fn check_rows(&self) -> Result<()> {
        match self.rows_left.load(Ordering::Relaxed) {
            0 => Ok(()),
            left => Err(Error::corrupt(format!("the values of a column are not those of {} rows", left as i64))),
        }
    }
}

/// The values at which ranges end, by a sample of one value of each `step`.
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
            // For now the place of the range's next row.
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
            (Some(texts), _) => Arc::new(texts.gc()),
            (_, Some(blobs)) => Arc::new(blobs.gc()),
            _ => values,
        }
    }
}
