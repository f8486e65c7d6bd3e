//! The rows that the rows of a left batch meet.

use arrow::array::{Array, ArrayRef};
use rowmill_base::Result;
use rowmill_plan::{OrderBound, OrderedChoice};

use super::distance::{Distances, each_closer};
use super::no_distances;
use super::ordered_rows::{OrderedRows, PlaceRanges, RowsMet};
use super::places::{NO_KEY, PlaceCursors, are_equal, places_of};
use super::positions::Positions;

impl OrderedRows {
    /// The rows that the rows of a batch meet. `keys` are the keys of its rows, and `column` gives its columns.
    pub(crate) fn meet<'c>(
        &self,
        mut keys: Vec<u32>,
        column: impl Fn(usize) -> &'c ArrayRef,
        cursors: &mut PlaceCursors,
    ) -> Result<RowsMet> {
        let rules = &self.request.rules;
        for of_bound in self.request.left_columns() {
            without_keys_of_nulls(&mut keys, column(of_bound));
        }
        let positions = |bound: Option<OrderBound>| bound.map(|bound| Positions::of(column(bound.column))).transpose();
        let (lower, upper) = (positions(rules.lower)?, positions(rules.upper)?);
        let mut ranges = PlaceRanges {
            starts: match (&lower, rules.lower) {
                // Positions that equal an exclusive lower bound are before it.
                (Some(lower), Some(bound)) => {
                    places_of(&self.positions, lower, !bound.inclusive, &keys, &self.starts, &mut cursors.lower)
                }
                _ => keys.iter().map(|key| if *key == NO_KEY { 0 } else { self.starts[*key as usize] }).collect(),
            },
            ends: match (&upper, rules.upper) {
                (Some(upper), Some(bound)) => {
                    places_of(&self.positions, upper, bound.inclusive, &keys, &self.starts, &mut cursors.upper)
                }
                _ => keys.iter().map(|key| if *key == NO_KEY { 0 } else { self.starts[*key as usize + 1] }).collect(),
            },
        };
        // An upper bound below the lower one leaves nothing.
        ranges.ends.iter_mut().zip(&ranges.starts).for_each(|(end, start)| *end = (*end).max(*start));
        match rules.choice {
            OrderedChoice::Last => Ok(RowsMet::One(self.one_of(&ranges, |_, end| end - 1))),
            OrderedChoice::First => Ok(RowsMet::One(self.one_of(&ranges, |start, _| start))),
            OrderedChoice::Nearest { to } => self.nearest(&keys, column(to), &ranges, cursors).map(RowsMet::One),
            OrderedChoice::All => Ok(RowsMet::Ranges(ranges)),
            OrderedChoice::AllWithPrevailing => {
                if let (Some(lower), Some(bound)) = (&lower, rules.lower) {
                    self.add_prevailing(&keys, lower, bound, &mut ranges);
                }
                Ok(RowsMet::Ranges(ranges))
            }
        }
    }

    /// One row of each range, by its place. Empty ranges have none.
    fn one_of(&self, ranges: &PlaceRanges, place: impl Fn(u32, u32) -> u32) -> Vec<u32> {
        let row = |(start, end): (&u32, &u32)| match start < end {
            true => self.rows[place(*start, *end) as usize],
            false => NO_KEY,
        };
        ranges.starts.iter().zip(&ranges.ends).map(row).collect()
    }

    /// The row of each range that is closest to the value of the left row.
    fn nearest(
        &self,
        keys: &[u32],
        to: &ArrayRef,
        ranges: &PlaceRanges,
        cursors: &mut PlaceCursors,
    ) -> Result<Vec<u32>> {
        let distances = Distances::of(to.data_type()).ok_or_else(|| no_distances(to.data_type()))?;
        let values = Positions::of(to)?;
        let mut places = places_of(&self.positions, &values, true, keys, &self.starts, &mut cursors.to);
        // Of each range, the candidates are the last row that is not after the value, and the row after that.
        let mut both = Vec::new();
        for (row, (place, (start, end))) in places.iter_mut().zip(ranges.starts.iter().zip(&ranges.ends)).enumerate() {
            let next = *place;
            *place = match (next > *start, next < *end) {
                (true, true) => {
                    both.push((row, next as usize));
                    next - 1
                }
                (true, false) => (*end).max(1) - 1,
                (false, _) => *start,
            };
        }
        let pairs = both.into_iter();
        each_closer(distances, &self.positions, &values, pairs, |row, is_next| places[row] += u32::from(is_next));
        let row = |(place, (start, end)): (&u32, (&u32, &u32))| match start < end {
            true => self.rows[*place as usize],
            false => NO_KEY,
        };
        Ok(places.iter().zip(ranges.starts.iter().zip(&ranges.ends)).map(row).collect())
    }

    /// Adds the row before the lower bound to each range, unless a row of the key has the position of the bound.
    fn add_prevailing(&self, keys: &[u32], lower: &Positions, bound: OrderBound, ranges: &mut PlaceRanges) {
        let PlaceRanges { starts, ends } = ranges;
        // Where a row with the position of the bound is, if there is one.
        let equal = |row: usize| {
            let key = keys[row] as usize;
            let place = starts[row] as usize;
            match bound.inclusive {
                _ if keys[row] == NO_KEY => None,
                true => (place < self.starts[key + 1] as usize).then_some(place),
                false => (place > self.starts[key] as usize).then(|| place - 1),
            }
        };
        let has_equal = are_equal(&self.positions, lower, keys.len(), equal);
        for (row, key) in keys.iter().enumerate().filter(|(_, key)| **key != NO_KEY) {
            if !has_equal[row] && starts[row] > self.starts[*key as usize] {
                ends[row] = ends[row].max(starts[row]);
                starts[row] -= 1;
            }
        }
    }
}

/// Takes the keys from rows whose bound is NULL, so that they meet nothing.
fn without_keys_of_nulls(keys: &mut [u32], bounds: &ArrayRef) {
    if let Some(nulls) = bounds.logical_nulls().filter(|nulls| nulls.null_count() > 0) {
        keys.iter_mut().zip(&nulls).filter(|(_, is_valid)| !is_valid).for_each(|(key, _)| *key = NO_KEY);
    }
}
