//! Finds the rows of a key that a row of the probe side may match, by the order of a column.
//!
//! The condition of a join with keys may compare further columns, for example `e.user = s.user AND e.moment BETWEEN
//! s.first AND s.last`. If a key has many rows, its list in the index is sorted by the column of the first bound. Two
//! searches in the list then find the rows within the bounds, as in a [join without keys](super::range_rows). The
//! numbers of a bound have the places of the lists:
//!
//! ```text
//! lists    3  r7 r2 r5   2  r1 r9   12  r4 r8 ...        a list is its length and its rows
//! numbers  -  -  -  -    -  -  -    -   10 10 ...        short lists are not sorted, and have no numbers
//! ```
//!
//! The condition of the join must still be evaluated for all rows that are left.

use std::ops::Range;

use arrow::array::ArrayRef;
use rowmill_base::{Reservation, Result};
use rowmill_plan::JoinBound;

use super::range_rows::{ProbeLimits, bound_ranges_by_halves, is_upper, make_rising, numbers_of, set_nulls};
use crate::numbers::{self, Width};

/// We do not sort a list with fewer rows, because comparing all of its rows should take no longer than a search.
pub(super) const LIST_ROWS_MIN: usize = if cfg!(test) { 2 } else { 8 };

/// The numbers of the columns with bounds, by row.
#[derive(Debug)]
pub(super) struct BoundNumbers {
    of_bounds: Vec<Numbers>,
    bounds: Vec<JoinBound>,
}

/// The numbers of each bound, by the places of the lists of one partition.
#[derive(Debug)]
pub(super) struct PartNumbers(Vec<Numbers>);

/// The bounds of the rows of each key.
#[derive(Debug)]
pub(super) struct ListBounds {
    /// The bounds, with numbers that do not fall within a list.
    bounds: Vec<(JoinBound, Numbers)>,
}

#[derive(Debug)]
enum Numbers {
    Narrow(Vec<u64>),
    Wide(Vec<u128>),
}

impl Numbers {
    fn with_capacity(is_wide: bool, capacity: usize) -> Numbers {
        match is_wide {
            true => Numbers::Wide(Vec::with_capacity(capacity)),
            false => Numbers::Narrow(Vec::with_capacity(capacity)),
        }
    }

    fn len(&self) -> usize {
        match self {
            Numbers::Narrow(numbers) => numbers.len(),
            Numbers::Wide(numbers) => numbers.len(),
        }
    }

    fn is_wide(&self) -> bool {
        matches!(self, Numbers::Wide(_))
    }
}

impl BoundNumbers {
    /// Bytes for each row of the build side and each word of the lists.
    fn bytes_per_row(bounds: usize) -> usize {
        bounds * size_of::<u128>()
    }

    /// The numbers of the build columns of `bounds`. `column` gives the values of a build column. The number of a NULL
    /// is outside of its bound.
    pub(super) fn new(
        bounds: &[JoinBound],
        column: impl Fn(usize) -> ArrayRef,
        rows: usize,
        memory: &mut Reservation,
    ) -> Result<BoundNumbers> {
        memory.grow((rows * BoundNumbers::bytes_per_row(bounds.len())) as u64)?;
        let mut of_bounds = Vec::with_capacity(bounds.len());
        for bound in bounds {
            let values = column(bound.build);
            // All bounds of the column that is sorted need the same order.
            let is_upper = if bound.build == bounds[0].build { is_upper(bounds[0].op) } else { is_upper(bound.op) };
            of_bounds.push(match numbers::width_of(values.data_type()) {
                Some(Width::Narrow) => {
                    let mut numbers = Vec::with_capacity(values.len());
                    numbers::extend_narrow(&values, &mut numbers)?;
                    set_nulls(&mut numbers, &values, if is_upper { u64::MAX } else { u64::MIN });
                    Numbers::Narrow(numbers)
                }
                _ => {
                    let mut numbers = numbers_of(&values)?;
                    set_nulls(&mut numbers, &values, if is_upper { u128::MAX } else { u128::MIN });
                    Numbers::Wide(numbers)
                }
            });
        }
        Ok(BoundNumbers { of_bounds, bounds: bounds.to_vec() })
    }

    /// Sorts the rows of each long list of a partition by the column of the first bound. Returns the numbers of all
    /// bounds by place.
    pub(super) fn sort(
        &self,
        lists: &mut [u32],
        long_lists: &[Range<usize>],
        memory: &mut Reservation,
    ) -> Result<PartNumbers> {
        if long_lists.is_empty() {
            let none = |numbers: &Numbers| Numbers::with_capacity(numbers.is_wide(), 0);
            return Ok(PartNumbers(self.of_bounds.iter().map(none).collect()));
        }
        memory.grow((lists.len() * BoundNumbers::bytes_per_row(self.bounds.len())) as u64)?;
        match &self.of_bounds[0] {
            Numbers::Narrow(numbers) => sort_lists(numbers, lists, long_lists),
            Numbers::Wide(numbers) => sort_lists(numbers, lists, long_lists),
        }
        let first = self.bounds[0].build;
        let of_bound = |(bound, numbers): (&JoinBound, &Numbers)| {
            let is_sorted = bound.build == first;
            match numbers {
                Numbers::Narrow(numbers) => Numbers::Narrow(placed(numbers, lists, long_lists, *bound, is_sorted)),
                Numbers::Wide(numbers) => Numbers::Wide(placed(numbers, lists, long_lists, *bound, is_sorted)),
            }
        };
        Ok(PartNumbers(self.bounds.iter().zip(&self.of_bounds).map(of_bound).collect()))
    }

    /// The least and the greatest number of a probe column whose rows may match, for each column with bounds of 64
    /// bits: see [`ProbeLimits`].
    pub(super) fn probe_limits(&self, column: impl Fn(usize) -> ArrayRef) -> ProbeLimits {
        let mut limits = ProbeLimits::default();
        for (bound, numbers) in self.bounds.iter().zip(&self.of_bounds) {
            if let Numbers::Narrow(numbers) = numbers {
                limits.add(bound, numbers::range(numbers, column(bound.build).nulls()));
            }
        }
        limits
    }

    /// Joins the numbers of all partitions. The lists of a partition begin at its place of `starts`. `None` if no list
    /// is long.
    pub(super) fn join(
        &self,
        parts: Vec<PartNumbers>,
        starts: &[u32],
        memory: &mut Reservation,
    ) -> Result<Option<ListBounds>> {
        if parts.iter().all(|PartNumbers(numbers)| numbers.iter().all(|numbers| numbers.len() == 0)) {
            return Ok(None);
        }
        let of_last = parts.last().and_then(|PartNumbers(numbers)| numbers.first()).map_or(0, Numbers::len);
        let words = starts.last().map_or(0, |start| *start as usize) + of_last;
        memory.grow((words * BoundNumbers::bytes_per_row(self.bounds.len())) as u64)?;
        let mut bounds: Vec<(JoinBound, Numbers)> = self
            .bounds
            .iter()
            .zip(&self.of_bounds)
            .map(|(bound, numbers)| (*bound, Numbers::with_capacity(numbers.is_wide(), words)))
            .collect();
        for (PartNumbers(part), start) in parts.into_iter().zip(starts) {
            for ((_, all), part) in bounds.iter_mut().zip(part) {
                match (all, part) {
                    (Numbers::Narrow(all), Numbers::Narrow(part)) => append(all, part, *start as usize),
                    (Numbers::Wide(all), Numbers::Wide(part)) => append(all, part, *start as usize),
                    _ => unreachable!("the numbers of a bound have one width"),
                }
            }
        }
        Ok(Some(ListBounds { bounds }))
    }
}

/// Sorts the rows of each long list by their numbers.
fn sort_lists<N: Copy + Ord>(numbers: &[N], lists: &mut [u32], long_lists: &[Range<usize>]) {
    // The numbers of a list are far apart in memory, so they are brought together before they are compared.
    let mut sorted: Vec<(N, u32)> = Vec::new();
    for list in long_lists {
        let rows = &mut lists[list.clone()];
        sorted.clear();
        sorted.extend(rows.iter().map(|row| (numbers[*row as usize], *row)));
        sorted.sort_unstable_by_key(|(number, _)| *number);
        rows.iter_mut().zip(&sorted).for_each(|(row, (_, of_place))| *row = *of_place);
    }
}

/// The numbers of the rows of long lists, by place. They do not fall within a list.
fn placed<N: Copy + Ord + Default>(
    numbers: &[N],
    lists: &[u32],
    long_lists: &[Range<usize>],
    bound: JoinBound,
    is_sorted: bool,
) -> Vec<N> {
    let end = long_lists.last().map_or(0, |list| list.end);
    let mut of_places = vec![N::default(); end];
    for list in long_lists {
        let of_list = &mut of_places[list.clone()];
        of_list.iter_mut().zip(&lists[list.clone()]).for_each(|(number, row)| *number = numbers[*row as usize]);
        if !is_sorted {
            make_rising(of_list, bound.op);
        }
    }
    of_places
}

/// Appends the numbers of a partition whose lists begin at `start`.
fn append<N: Copy + Default>(all: &mut Vec<N>, part: Vec<N>, start: usize) {
    if !part.is_empty() {
        // Shorter lists of the partition before it may have left a gap.
        all.resize(start, N::default());
        all.extend_from_slice(&part);
    }
}

impl ListBounds {
    /// Narrows the range of places of each row of the probe side to the rows within its bounds. A range must be a whole
    /// long list, or empty. `column` gives the values of a probe column.
    pub(super) fn narrow(&self, ranges: &mut [Range<u32>], column: impl Fn(usize) -> ArrayRef) -> Result<()> {
        for (bound, numbers) in &self.bounds {
            let values = column(bound.probe);
            match numbers {
                Numbers::Narrow(numbers) => {
                    let mut sought = Vec::with_capacity(values.len());
                    numbers::extend_narrow(&values, &mut sought)?;
                    bound_ranges_by_halves(ranges, bound.op, (&values, &sought), numbers);
                }
                Numbers::Wide(numbers) => {
                    bound_ranges_by_halves(ranges, bound.op, (&values, &numbers_of(&values)?), numbers);
                }
            }
        }
        ranges.iter_mut().for_each(|range| range.start = range.start.min(range.end));
        Ok(())
    }
}
