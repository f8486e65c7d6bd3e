//! Places of bounds among the ordered positions of keys.

use std::ops::Range;

use rowmill_base::{Reservation, Result};

use super::positions::Positions;

/// The key of a row that has none in the index.
pub(super) const NO_KEY: u32 = u32::MAX;

/// Keys with at least this many rows on average keep the place of their last search.
const CURSOR_ROWS_MIN: usize = 16;

/// The places where a worker's last searches ended, by key. Empty if keys have few rows, so that a search is short
/// anyway.
#[derive(Debug)]
pub(crate) struct PlaceCursors {
    pub(super) lower: Vec<u32>,
    pub(super) upper: Vec<u32>,
    pub(super) to: Vec<u32>,
    _memory: Reservation,
}

impl PlaceCursors {
    /// Cursors for `keys` keys with `rows` rows.
    pub(super) fn new(keys: usize, rows: usize, mut memory: Reservation) -> Result<PlaceCursors> {
        let keys = if rows >= keys * CURSOR_ROWS_MIN { keys } else { 0 };
        memory.grow((3 * keys * size_of::<u32>()) as u64)?;
        Ok(PlaceCursors { lower: vec![0; keys], upper: vec![0; keys], to: vec![0; keys], _memory: memory })
    }
}

/// Finds for each row the first place of its key whose position is not before the bound of the row. `keys` are the keys
/// of the rows, and `starts` the first places of all keys, followed by the end. With `after_equal`, positions that
/// equal the bound are before it. The place of a row without a key is 0.
pub(super) fn places_of(
    positions: &Positions,
    bounds: &Positions,
    after_equal: bool,
    keys: &[u32],
    starts: &[u32],
    cursors: &mut [u32],
) -> Vec<u32> {
    // Branch here, so that each loop is compiled for one type and one comparison.
    macro_rules! search {
        ($position:expr, $bound:expr) => {
            match after_equal {
                true => search(keys, starts, cursors, |row, place| $position(place) <= $bound(row)),
                false => search(keys, starts, cursors, |row, place| $position(place) < $bound(row)),
            }
        };
    }
    match (positions, bounds) {
        (Positions::Narrow(positions), Positions::Narrow(bounds)) => {
            search!(|place: usize| positions[place], |row: usize| bounds[row])
        }
        (Positions::Wide(positions), Positions::Wide(bounds)) => {
            search!(|place: usize| positions[place], |row: usize| bounds[row])
        }
        (Positions::Bytes(positions), Positions::Bytes(bounds)) => {
            search!(|place: usize| positions.value(place), |row: usize| bounds.value(row))
        }
        _ => unreachable!("positions and bounds have one type"),
    }
}

fn search(keys: &[u32], starts: &[u32], cursors: &mut [u32], is_before: impl Fn(usize, usize) -> bool) -> Vec<u32> {
    let mut places = Vec::with_capacity(keys.len());
    for (row, key) in keys.iter().enumerate() {
        if *key == NO_KEY {
            places.push(0);
            continue;
        }
        let key = *key as usize;
        let range = starts[key] as usize..starts[key + 1] as usize;
        let is_before = |place: usize| is_before(row, place);
        let place = match cursors.get_mut(key) {
            Some(cursor) => {
                let place = place_near(range, *cursor as usize, is_before);
                *cursor = place as u32;
                place
            }
            None => place_among(range, is_before),
        };
        places.push(place as u32);
    }
    places
}

/// The first place of `range` that is not before a bound. Places that are before it must come first.
#[inline]
fn place_among(range: Range<usize>, is_before: impl Fn(usize) -> bool) -> usize {
    let (mut start, mut end) = (range.start, range.end);
    while start < end {
        let middle = start + (end - start) / 2;
        match is_before(middle) {
            true => start = middle + 1,
            false => end = middle,
        }
    }
    start
}

/// The same as [`place_among`], for a place that is probably near `from`: steps away from there double.
#[inline]
fn place_near(range: Range<usize>, from: usize, is_before: impl Fn(usize) -> bool) -> usize {
    let from = from.clamp(range.start, range.end);
    let mut step = 1;
    if from < range.end && is_before(from) {
        let mut start = from + 1;
        while start + step <= range.end && is_before(start + step - 1) {
            start += step;
            step *= 2;
        }
        return place_among(start..range.end.min(start + step - 1), is_before);
    }
    let mut end = from;
    while end >= range.start + step && !is_before(end - step) {
        end -= step;
        step *= 2;
    }
    place_among(range.start.max((end + 1).saturating_sub(step))..end, is_before)
}

/// For each row, whether the position at its place equals its bound. `place` gives the place of a row, if it has one.
pub(super) fn are_equal(
    positions: &Positions,
    bounds: &Positions,
    rows: usize,
    place: impl Fn(usize) -> Option<usize>,
) -> Vec<bool> {
    let all = |is_equal: &dyn Fn(usize, usize) -> bool| {
        (0..rows).map(|row| place(row).is_some_and(|place| is_equal(row, place))).collect()
    };
    match (positions, bounds) {
        (Positions::Narrow(positions), Positions::Narrow(bounds)) => all(&|row, place| positions[place] == bounds[row]),
        (Positions::Wide(positions), Positions::Wide(bounds)) => all(&|row, place| positions[place] == bounds[row]),
        (Positions::Bytes(positions), Positions::Bytes(bounds)) => {
            all(&|row, place| positions.value(place) == bounds.value(row))
        }
        _ => unreachable!("positions and bounds have one type"),
    }
}

#[cfg(test)]
mod tests {
    use rand::rngs::SmallRng;
    use rand::{Rng, SeedableRng};

    use super::*;

    #[test]
    fn a_place_is_found_from_anywhere() {
        let random = &mut SmallRng::seed_from_u64(4);
        for rows in [0, 1, 2, 3, 7, 40, 300] {
            let mut positions: Vec<u64> = (0..rows).map(|_| random.random_range(0..rows)).collect();
            positions.sort_unstable();
            for bound in 0..=rows {
                let (start, end) = (random.random_range(0..=rows as usize), rows as usize);
                let expected = start.max(positions.partition_point(|position| *position < bound));
                let is_before = |place: usize| positions[place] < bound;
                assert_eq!(place_among(start..end, is_before), expected);
                for from in 0..=end + 1 {
                    assert_eq!(place_near(start..end, from, is_before), expected, "{rows} {bound} {start} {from}");
                }
            }
        }
    }
}
