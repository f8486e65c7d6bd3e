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
    numbers: Vec<u128>,
}

/// Whether bounds of columns of these types can be searched for.
pub(super) fn is_searchable(build: &DataType, probe: &DataType) -> bool {
    let is_ordered = numbers::are_ordered(build) || matches!(build, DataType::Decimal128(..));
    is_ordered && have_same_numbers(build, probe)
}

/// Whether an operator bounds the values of the build side from above.
fn is_upper(op: CompareOp) -> bool {
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
            let mut numbers = match bound.build == first.build {
                true => of_rows(&ordered),
                false => {
                    let values = column(bound.build);
                    let numbers = numbers_of(&values)?;
                    // A NULL meets no bound, so it must not widen the range.
                    let none = if is_upper(bound.op) { u128::MAX } else { u128::MIN };
                    let or_none = |row: &u32| match values.is_valid(*row as usize) {
                        true => numbers[*row as usize],
                        false => none,
                    };
                    rows.iter().map(or_none).collect()
                }
            };
            if bound.build != first.build && is_upper(bound.op) {
                for place in (1..numbers.len()).rev() {
                    numbers[place - 1] = numbers[place - 1].min(numbers[place]);
                }
            } else if bound.build != first.build {
                for place in 1..numbers.len() {
                    numbers[place] = numbers[place].max(numbers[place - 1]);
                }
            }
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
            for ((row, range), value) in ranges.iter_mut().enumerate().zip(numbers_of(&values)?) {
                if values.is_null(row) {
                    *range = 0..0;
                    continue;
                }
                let until =
                    |is_before: &dyn Fn(u128) -> bool| numbers.partition_point(|number| is_before(*number)) as u32;
                match bound.op {
                    CompareOp::Less => range.end = range.end.min(until(&|number| number < value)),
                    CompareOp::LessOrEqual => range.end = range.end.min(until(&|number| number <= value)),
                    CompareOp::Greater => range.start = range.start.max(until(&|number| number <= value)),
                    CompareOp::GreaterOrEqual => range.start = range.start.max(until(&|number| number < value)),
                    CompareOp::Equal | CompareOp::NotEqual => {}
                }
            }
        }
        ranges.iter_mut().for_each(|range| range.start = range.start.min(range.end));
        Ok(ranges)
    }

    /// The rows at some places.
    pub(super) fn rows(&self, places: &Range<u32>) -> &[u32] {
        &self.rows[places.start as usize..places.end as usize]
    }
}

/// The numbers of values. Those of NULLs are arbitrary.
fn numbers_of(values: &ArrayRef) -> Result<Vec<u128>> {
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
            for (row, range) in ranges.iter().enumerate() {
                let candidates = found.rows(range);
                least = least.min(candidates.len());
                for other in 0..40_u32 {
                    let matches = bounds.iter().all(|bound| {
                        build[bound.build][other as usize]
                            .zip(probe[bound.probe][row])
                            .is_some_and(|(left, right)| holds(bound.op, left, right))
                    });
                    assert!(!matches || candidates.contains(&other), "{bounds:?}");
                }
            }
        }
        assert_eq!(least, 0);
    }
}
