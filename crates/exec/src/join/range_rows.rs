//! Finds the rows of a build side without keys that a row may match, by the order of a column.
//!
//! The rows are sorted by the column of the first bound. Bounds of this column leave a range of rows, which two
//! searches find. If the rows are ranges themselves, another column has their other ends:
//!
//! ```text
//! low    10  20  20  35  50       lows up to 30: the first three rows
//! high   15  60  22  40  55       the greatest high so far: 15 60 60 60 60; from 30 on: from the second row on
//! ```
//!
//! The condition of the join is still evaluated for all rows that are left.

use std::ops::Range;

use arrow::array::{Array, ArrayRef};
use arrow::datatypes::DataType;
use rowmill_base::{Reservation, Result};
use rowmill_plan::{CompareOp, JoinBound};

use crate::numbers::{self, Width, have_same_numbers};

/// The rows of a build side in the order of a column.
#[derive(Debug)]
pub(super) struct RangeRows {
    /// The rows whose value is not NULL, in order.
    rows: Vec<u32>,
    bounds: Vec<RowBound>,
}

/// What a bound says about rows in order.
#[derive(Debug)]
struct RowBound {
    bound: JoinBound,
    /// Numbers that do not fall from row to row: the values of the ordered column, or the greatest value so far, or the
    /// least value from a row on, of another column.
    numbers: RisingNumbers,
}

/// Numbers that do not fall.
#[derive(Debug)]
enum RisingNumbers {
    Narrow(NumberDirectory),
    Wide(Vec<u128>),
}

/// Numbers that do not fall, and where the numbers of equal steps between the first and the last one begin. A search
/// looks only at the numbers of one step, which are few unless most numbers are near each other.
#[derive(Debug)]
struct NumberDirectory {
    numbers: Vec<u64>,
    /// The first place at or after the beginning of each step, and the number of all places.
    starts: Vec<u32>,
    /// A step has `1 << step_bits` numbers.
    step_bits: u32,
}

impl NumberDirectory {
    fn new(numbers: Vec<u64>) -> NumberDirectory {
        let (first, last) = (numbers.first().copied().unwrap_or(0), numbers.last().copied().unwrap_or(0));
        // About as many steps as numbers.
        let span_bits = u64::BITS - (last - first).leading_zeros();
        let step_bits = span_bits.saturating_sub(numbers.len().max(1).ilog2());
        let mut starts = Vec::new();
        for (place, number) in numbers.iter().enumerate() {
            let step = ((number - first) >> step_bits) as usize;
            if starts.len() <= step {
                starts.resize(step + 1, place as u32);
            }
        }
        starts.push(numbers.len() as u32);
        NumberDirectory { numbers, starts, step_bits }
    }

    /// The number of numbers less than `number`.
    #[inline]
    fn less_than(&self, number: u64) -> u32 {
        let (Some(first), Some(last)) = (self.numbers.first(), self.numbers.last()) else { return 0 };
        if number <= *first {
            return 0;
        }
        if number > *last {
            return self.numbers.len() as u32;
        }
        let step = ((number - first) >> self.step_bits) as usize;
        let (start, end) = (self.starts[step], self.starts[step + 1]);
        start + self.numbers[start as usize..end as usize].partition_point(|other| *other < number) as u32
    }
}

impl RisingNumbers {
    /// Keeps numbers of 64 bits as such if `width` says that all of them are.
    fn new(numbers: Vec<u128>, width: Option<Width>) -> RisingNumbers {
        match width {
            Some(Width::Narrow) => {
                // The mark of NULL can be wider.
                let narrow = |number: u128| u64::try_from(number).unwrap_or(u64::MAX);
                RisingNumbers::Narrow(NumberDirectory::new(numbers.into_iter().map(narrow).collect()))
            }
            _ => RisingNumbers::Wide(numbers),
        }
    }
}

/// Whether bounds of columns of these types can be searched for.
pub(super) fn is_searchable(build: &DataType, probe: &DataType) -> bool {
    let is_ordered = numbers::are_ordered(build) || matches!(build, DataType::Decimal128(..));
    is_ordered && have_same_numbers(build, probe)
}

/// Whether an operator bounds the values of the build side from above.
pub(super) fn is_upper(op: CompareOp) -> bool {
    matches!(op, CompareOp::Less | CompareOp::LessOrEqual)
}

impl RangeRows {
    /// Bytes for each row of the build side.
    pub(super) fn bytes_per_row(bounds: usize) -> usize {
        // The numbers of a column exist once more while it is put in order.
        size_of::<u32>() + (bounds + 1) * size_of::<u128>()
    }

    /// Sorts the rows by the column of the first bound. `column` gives the values of a build column.
    pub(super) fn new(
        bounds: &[JoinBound],
        column: impl Fn(usize) -> ArrayRef,
        memory: &mut Reservation,
    ) -> Result<Option<RangeRows>> {
        let Some(first) = bounds.first() else { return Ok(None) };
        let values = column(first.build);
        memory.grow((values.len() * RangeRows::bytes_per_row(bounds.len())) as u64)?;
        let ordered = numbers_of(&values)?;
        let mut rows: Vec<u32> = (0..values.len() as u32).filter(|row| values.is_valid(*row as usize)).collect();
        rows.sort_unstable_by_key(|row| ordered[*row as usize]);
        let of_rows = |numbers: &[u128]| rows.iter().map(|row| numbers[*row as usize]).collect::<Vec<u128>>();
        let mut of_bounds = Vec::with_capacity(bounds.len());
        for bound in bounds {
            let numbers = match bound.build == first.build {
                true => of_rows(&ordered),
                false => {
                    let values = column(bound.build);
                    let mut numbers = numbers_of(&values)?;
                    // A NULL meets no bound, so it must not widen the range.
                    let none = if is_upper(bound.op) { u128::MAX } else { u128::MIN };
                    set_nulls(&mut numbers, &values, none);
                    let mut numbers = of_rows(&numbers);
                    make_rising(&mut numbers, bound.op);
                    numbers
                }
            };
            let numbers = RisingNumbers::new(numbers, numbers::width_of(column(bound.build).data_type()));
            of_bounds.push(RowBound { bound: *bound, numbers });
        }
        Ok(Some(RangeRows { rows, bounds: of_bounds }))
    }

    /// The places in order of the rows that each row of the probe side may match. `column` gives the values of a probe
    /// column.
    pub(super) fn ranges(&self, rows: usize, column: impl Fn(usize) -> ArrayRef) -> Result<Vec<Range<u32>>> {
        let mut ranges = vec![0..self.rows.len() as u32; rows];
        for RowBound { bound, numbers } in &self.bounds {
            let values = column(bound.probe);
            match numbers {
                RisingNumbers::Narrow(directory) => {
                    let mut sought = Vec::with_capacity(values.len());
                    numbers::extend_narrow(&values, &mut sought)?;
                    let not_greater = |number: u64| match number.checked_add(1) {
                        Some(next) => directory.less_than(next),
                        None => self.rows.len() as u32,
                    };
                    let less = |_: &Range<u32>, number: u64| directory.less_than(number);
                    bound_ranges(&mut ranges, bound.op, (&values, &sought), less, |_, number| not_greater(number));
                }
                RisingNumbers::Wide(numbers) => {
                    bound_ranges_by_halves(&mut ranges, bound.op, (&values, &numbers_of(&values)?), numbers);
                }
            }
        }
        ranges.iter_mut().for_each(|range| range.start = range.start.min(range.end));
        Ok(ranges)
    }

    /// The limits of probe columns with bounds of 64 bits.
    pub(super) fn probe_limits(&self) -> ProbeLimits {
        let mut limits = ProbeLimits::default();
        for RowBound { bound, numbers } in &self.bounds {
            if let RisingNumbers::Narrow(NumberDirectory { numbers, .. }) = numbers {
                limits.add(bound, numbers.first().copied().zip(numbers.last().copied()));
            }
        }
        limits
    }

    /// The rows at some places.
    pub(super) fn rows(&self, places: &Range<u32>) -> &[u32] {
        &self.rows[places.start as usize..places.end as usize]
    }
}

/// For each probe column with bounds, the least and the greatest number of its rows that may match. A row with a NULL
/// there matches nothing.
#[derive(Debug, Default)]
pub(super) struct ProbeLimits(pub(super) Vec<(usize, u64, u64)>);

impl ProbeLimits {
    /// Adds a bound whose build column has numbers from the first to the second of `range`; `None` without rows.
    pub(super) fn add(&mut self, bound: &JoinBound, range: Option<(u64, u64)>) {
        let limits = &mut self.0;
        let at = match limits.iter().position(|(column, ..)| *column == bound.probe) {
            Some(at) => at,
            None => {
                limits.push((bound.probe, 0, u64::MAX));
                limits.len() - 1
            }
        };
        let (_, least, most) = &mut limits[at];
        // Without rows, nothing matches.
        let (first, last) = range.unwrap_or((u64::MAX, 0));
        if is_upper(bound.op) {
            *least = (*least).max(first);
        } else {
            *most = (*most).min(last);
        }
    }
}

/// Narrows the range of each row to the build rows whose value is within its bound. `less` and `not_greater` give the
/// first place of a range after all values that are less than, or not greater than, a number.
#[inline]
fn bound_ranges<N: Copy>(
    ranges: &mut [Range<u32>],
    op: CompareOp,
    (values, numbers): (&ArrayRef, &[N]),
    less: impl Fn(&Range<u32>, N) -> u32,
    not_greater: impl Fn(&Range<u32>, N) -> u32,
) {
    let nulls = values.nulls();
    for (row, (range, number)) in ranges.iter_mut().zip(numbers).enumerate() {
        if nulls.is_some_and(|nulls| nulls.is_null(row)) {
            *range = 0..0;
        }
        if range.start >= range.end {
            continue;
        }
        match op {
            CompareOp::Less => range.end = range.end.min(less(range, *number)),
            CompareOp::LessOrEqual => range.end = range.end.min(not_greater(range, *number)),
            CompareOp::Greater => range.start = range.start.max(not_greater(range, *number)),
            CompareOp::GreaterOrEqual => range.start = range.start.max(less(range, *number)),
            CompareOp::Equal | CompareOp::NotEqual => {}
        }
    }
}

/// Narrows the range of each row as [`bound_ranges`] does. `of_places` has the number of each place. It does not fall
/// from place to place within a range.
pub(super) fn bound_ranges_by_halves<N: Copy + Ord>(
    ranges: &mut [Range<u32>],
    op: CompareOp,
    values: (&ArrayRef, &[N]),
    of_places: &[N],
) {
    let of_range = |range: &Range<u32>| &of_places[range.start as usize..range.end as usize];
    let less =
        |range: &Range<u32>, number: N| range.start + of_range(range).partition_point(|other| *other < number) as u32;
    let not_greater =
        |range: &Range<u32>, number: N| range.start + of_range(range).partition_point(|other| *other <= number) as u32;
    bound_ranges(ranges, op, values, less, not_greater);
}

/// Replaces the numbers of NULLs.
pub(super) fn set_nulls<N: Copy>(numbers: &mut [N], values: &ArrayRef, none: N) {
    if let Some(nulls) = values.nulls() {
        (0..numbers.len()).filter(|row| nulls.is_null(*row)).for_each(|row| numbers[row] = none);
    }
}

/// Turns the numbers of a column that has no order into numbers that do not fall: the least number from a row on if
/// they are bounded from above, otherwise the greatest number so far.
pub(super) fn make_rising<N: Copy + Ord>(numbers: &mut [N], op: CompareOp) {
    if is_upper(op) {
        for place in (1..numbers.len()).rev() {
            numbers[place - 1] = numbers[place - 1].min(numbers[place]);
        }
    } else {
        for place in 1..numbers.len() {
            numbers[place] = numbers[place].max(numbers[place - 1]);
        }
    }
}

/// The numbers of values. Those of NULLs are arbitrary.
pub(super) fn numbers_of(values: &ArrayRef) -> Result<Vec<u128>> {
    let mut wide = Vec::with_capacity(values.len());
    if numbers::width_of(values.data_type()) == Some(Width::Wide) {
        numbers::extend_wide(values, &mut wide)?;
    } else {
        let mut narrow = Vec::with_capacity(values.len());
        numbers::extend_narrow(values, &mut narrow)?;
        wide.extend(narrow.into_iter().map(u128::from));
    }
    Ok(wide)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Int32Array, Int64Array};
    use rand::rngs::SmallRng;
    use rand::{Rng, SeedableRng};
    use rowmill_base::Broker;

    use super::*;

    #[test]
    fn a_directory_finds_what_a_search_by_halves_finds() {
        let mut random = SmallRng::seed_from_u64(5);
        for round in 0..300 {
            let most = 1_u64 << random.random_range(0..64);
            let mut numbers: Vec<u64> = (0..round % 40).map(|_| random.random_range(0..most)).collect();
            numbers.extend((round % 7 == 0).then_some(u64::MAX));
            numbers.extend((round % 5 == 0).then_some(0));
            numbers.sort_unstable();
            let directory = NumberDirectory::new(numbers.clone());
            let near = |number: &u64| [number.saturating_sub(1), *number, number.saturating_add(1)];
            let sought = numbers.iter().flat_map(near).chain((0..50).map(|_| random.random_range(0..most)));
            for number in sought.chain([0, u64::MAX]) {
                let wanted = numbers.partition_point(|other| *other < number) as u32;
                assert_eq!(directory.less_than(number), wanted, "{number} in {numbers:?}");
            }
        }
    }

    #[test]
    fn no_row_that_matches_is_left_out() {
        let mut random = SmallRng::seed_from_u64(3);
        let ops = [CompareOp::Less, CompareOp::LessOrEqual, CompareOp::Greater, CompareOp::GreaterOrEqual];
        let holds = |op: CompareOp, left: i64, right: i64| match op {
            CompareOp::Less => left < right,
            CompareOp::LessOrEqual => left <= right,
            CompareOp::Greater => left > right,
            _ => left >= right,
        };
        let mut least = usize::MAX;
        for round in 0..200 {
            let mut values = |count: usize| -> Vec<Option<i64>> {
                (0..count).map(|_| random.random_bool(0.9).then(|| random.random_range(-20..20))).collect()
            };
            let (build, probe) = ([values(40), values(40)], [values(30), values(30)]);
            let bounds: Vec<JoinBound> = (0..round % 3 + 1)
                .map(|_| JoinBound {
                    build: random.random_range(0..2),
                    op: ops[random.random_range(0..4)],
                    probe: random.random_range(0..2),
                })
                .collect();
            let mut memory = Broker::new(1 << 20).reservation("test");
            let of_build = |column: usize| Arc::new(Int64Array::from(build[column].clone())) as ArrayRef;
            let of_probe = |column: usize| {
                Arc::new(probe[column].iter().map(|value| value.map(|value| value as i32)).collect::<Int32Array>())
                    as ArrayRef
            };
            let found = RangeRows::new(&bounds, of_build, &mut memory).expect("memory").expect("bounds");
            let ranges = found.ranges(30, of_probe).expect("numbers");
            let ProbeLimits(limits) = found.probe_limits();
            for (row, range) in ranges.iter().enumerate() {
                let candidates = found.rows(range);
                let is_left_out = limits.iter().any(|(column, least, most)| {
                    let number = probe[*column][row].map(|value| value as u64 ^ 1 << 63);
                    number.is_none_or(|number| number < *least || number > *most)
                });
                least = least.min(candidates.len());
                for other in 0..40_u32 {
                    let matches = bounds.iter().all(|bound| {
                        build[bound.build][other as usize]
                            .zip(probe[bound.probe][row])
                            .is_some_and(|(left, right)| holds(bound.op, left, right))
                    });
                    assert!(!matches || candidates.contains(&other), "{bounds:?}");
                    assert!(!matches || !is_left_out, "{bounds:?} {limits:?}");
                }
            }
        }
        assert_eq!(least, 0);
    }
}
