//! The value lists of one column, cut at the same values.
//!
//! ```text
//!             range 0   range 1     range 2
//!   block 0   a c     | f g h     | p q         sorted lists
//!   block 1   b c d   | h         | n p r
//!   block 2   d       | e f m     | n o
//! ```
//!
//! The values between two borders are one slice of each list. The borders are values of a sample that has some values
//! of each list, so that ranges have about the same size. Rows outside of lists, such as recent rows, are put into
//! ranges by binary search.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray};
use parking_lot::Mutex;
use rowmill_base::{Error, Result, SqlType};

use super::borders::Borders;
use super::rows::{concat, take};
use super::value_list::ValueList;
use crate::sort::SAMPLES_PER_RANGE;

/// The lists of a column, and rows outside of them, in ranges of values.
pub(crate) struct CutLists {
    lists: Vec<ValueList>,
    loose: Vec<LooseRows>,
    borders: Borders,
    /// For each border, the number of values below it in each list; `None` until a worker has searched them.
    ends: Vec<Mutex<Option<Arc<[usize]>>>>,
}

/// The values of rows outside of lists, range by range.
struct LooseRows {
    values: ArrayRef,
    /// The index of each value among the rows as they came.
    rows: Vec<u32>,
    /// Where the rows of each range end.
    ends: Vec<u32>,
}

impl CutLists {
    /// Cuts the values of lists and the values of rows outside of them, all of type `kind`, into about `ranges` ranges.
    pub(crate) fn new(lists: Vec<ValueList>, loose: &[ArrayRef], kind: &SqlType, ranges: usize) -> Result<CutLists> {
        let borders = borders(&lists, loose, kind, ranges)?;
        let loose = loose.iter().map(|values| LooseRows::new(values, &borders)).collect::<Result<_>>()?;
        let ends = (0..borders.len()).map(|_| Mutex::default()).collect();
        Ok(CutLists { lists, loose, borders, ends })
    }

    /// The number of ranges.
    pub(crate) fn ranges(&self) -> usize {
        self.borders.len() + 1
    }

    /// The lists.
    pub(crate) fn lists(&self) -> &[ValueList] {
        &self.lists
    }

    /// The slice of each list that is in the range with a number.
    pub(crate) fn slices(&self, number: usize) -> Result<Vec<Range<usize>>> {
        let ends = self.ends(number)?;
        let starts = number.checked_sub(1).map(|before| self.ends(before)).transpose()?;
        let slice = |list: usize| {
            let places = starts.as_ref().map_or(0, |starts| starts[list])..ends[list];
            // Borders ascend, so ends that do not ascend show that the list in the file is not sorted.
            match places.start > places.end {
                true => Err(Error::corrupt("the values of a column are in no order")),
                false => Ok(places),
            }
        };
        (0..self.lists.len()).map(slice).collect()
    }

    /// The values of rows outside of lists that are in the range with a number: for each array of such rows its values
    /// there, with buffers of their own, and their indexes in the array.
    pub(crate) fn loose(&self, number: usize) -> impl Iterator<Item = (ArrayRef, &[u32])> {
        self.loose.iter().map(move |loose| loose.in_range(number))
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
}

/// Finds the values at which ranges end, by a sample of all values.
fn borders(lists: &[ValueList], loose: &[ArrayRef], kind: &SqlType, ranges: usize) -> Result<Borders> {
    if ranges <= 1 {
        return Ok(Borders::none());
    }
    let in_lists: usize = lists.iter().map(ValueList::len).sum();
    let outside: usize = loose.iter().map(|values| values.len()).sum();
    let step = ((in_lists + outside) / (ranges * SAMPLES_PER_RANGE)).max(1) as u32;
    let places = |len: usize| (step / 2..len as u32).step_by(step as usize).collect::<Vec<u32>>();
    let mut sample = Vec::with_capacity(lists.len() + loose.len());
    for list in lists {
        sample.push(list.values_at(&places(list.len()))?);
    }
    for values in loose {
        sample.push(take(values, &places(values.len()))?);
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
        Ok(LooseRows { values: take(values, &rows)?, rows, ends })
    }

    fn in_range(&self, number: usize) -> (ArrayRef, &[u32]) {
        let places = number.checked_sub(1).map_or(0, |before| self.ends[before] as usize)..self.ends[number] as usize;
        let values = self.values.slice(places.start, places.len());
        let values: ArrayRef = match (values.as_string_view_opt(), values.as_binary_view_opt()) {
            // A copy, so that a range does not keep the texts of all ranges alive.
            (Some(texts), _) => Arc::new(texts.gc()),
            (_, Some(blobs)) => Arc::new(blobs.gc()),
            _ => values,
        };
        (values, &self.rows[places])
    }
}
