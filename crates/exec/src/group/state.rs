//! What is kept of a group for each aggregate: a few words of 64 bits.
//!
//! | aggregate | words |
//! | --- | --- |
//! | count | rows, or values that are not NULL |
//! | sum, avg, min, max of what fits 64 bits | values that are not NULL; total or extreme |
//! | the same of more | values that are not NULL; total or extreme, lower and upper half |
//!
//! All words of a group without rows are zero, and the words of two parts of a group make those of the whole.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Decimal128Array, Float64Array, Int64Array};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{DataType, Decimal128Type, UInt64Type};
use rowmill_base::{Error, ErrorKind, Result};
use rowmill_plan::{Aggregate, AggregateFunction};

use super::bits::{Bits, array_of, bits_of};
use super::rows::Values;
use crate::quotient;

/// Decimals and sums have at most so many digits.
const DIGITS_MAX: u32 = 38;

/// What is done with values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fold {
    Count,
    Add,
    Least,
    Greatest,
}

/// One aggregate's part of the words of a group.
#[derive(Debug)]
pub(super) struct State {
    aggregate: Aggregate,
    fold: Fold,
    /// Whether a total or extreme takes two words.
    wide: bool,
    /// Words of the aggregates before.
    offset: usize,
}

/// The aggregates of a query.
#[derive(Debug)]
pub(super) struct States {
    states: Vec<State>,
    /// Words of a group.
    words: usize,
}

/// The rows that go into groups.
pub(super) struct Grouped<'a> {
    pub(super) rows: usize,
    /// The group of each row; all are in one without.
    pub(super) groups: Option<&'a [u32]>,
    /// How many rows each stands for.
    pub(super) weights: Option<&'a [u64]>,
}

impl Grouped<'_> {
    #[inline(always)]
    fn each(&self, mut take: impl FnMut(usize, usize, u64)) {
        match (self.groups, self.weights) {
            (None, None) => (0..self.rows).for_each(|row| take(row, 0, 1)),
            (None, Some(weights)) => (0..self.rows).for_each(|row| take(row, 0, weights[row])),
            (Some(groups), None) => (0..self.rows).for_each(|row| take(row, groups[row] as usize, 1)),
            (Some(groups), Some(weights)) => {
                (0..self.rows).for_each(|row| take(row, groups[row] as usize, weights[row]));
            }
        }
    }
}

impl States {
    pub(super) fn new(aggregates: &[Aggregate]) -> States {
        let mut words = 0;
        let states = aggregates.iter().map(|aggregate| {
            let state = State::new(aggregate, words);
            words += state.words();
            state
        });
        States { states: states.collect(), words }
    }

    /// Words of a group.
    pub(super) fn words(&self) -> usize {
        self.words
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &State> {
        self.states.iter()
    }

    /// Adds the words of entries to those of the groups they belong to. `groups` is the group of each entry; an entry
    /// without one is passed over.
    pub(super) fn merge(&self, groups: &[Option<u32>], entries: &[u64], totals: &mut [u64]) -> Result<()> {
        for state in &self.states {
            for (entry, group) in groups.iter().enumerate() {
                let Some(group) = group else { continue };
                let from = &entries[entry * self.words + state.offset..][..state.words()];
                state.merge(from, &mut totals[*group as usize * self.words + state.offset..][..state.words()])?;
            }
        }
        Ok(())
    }

    /// The columns of the aggregates of groups with these words.
    pub(super) fn finish(&self, words: &[u64], groups: usize) -> Result<Vec<ArrayRef>> {
        self.states.iter().map(|state| state.finish(words, self.words, groups)).collect()
    }
}

impl State {
    fn new(aggregate: &Aggregate, offset: usize) -> State {
        let fold = match aggregate.function {
            AggregateFunction::Count => Fold::Count,
            AggregateFunction::Sum | AggregateFunction::Average => Fold::Add,
            AggregateFunction::Min => Fold::Least,
            AggregateFunction::Max => Fold::Greatest,
        };
        let wide = match aggregate.argument.as_ref().map(|(_, kind)| kind) {
            Some(DataType::Decimal128(..)) => true,
            Some(DataType::Int64 | DataType::UInt64) => fold == Fold::Add,
            _ => false,
        };
        State { aggregate: aggregate.clone(), fold, wide, offset }
    }

    pub(super) fn aggregate(&self) -> &Aggregate {
        &self.aggregate
    }

    fn words(&self) -> usize {
        match self.fold {
            Fold::Count => 1,
            _ if self.wide => 3,
            _ => 2,
        }
    }

    /// Adds rows to the words of their groups, `stride` words each; the values are those of the argument, if any.
    pub(super) fn add(
        &self,
        rows: &Grouped<'_>,
        values: Option<&Values>,
        stride: usize,
        words: &mut [u64],
    ) -> Result<()> {
        let at = self.offset;
        let Some(Values { values, codes, .. }) = values else {
            rows.each(|_, group, weight| words[group * stride + at] += weight);
            return Ok(());
        };
        let place = |row: usize| codes.as_ref().map_or(row, |codes| codes[row] as usize);
        let nulls = values.logical_nulls().filter(|nulls| nulls.null_count() > 0);
        let is_valid = |place: usize| nulls.as_ref().is_none_or(|nulls| nulls.is_valid(place));
        if self.fold == Fold::Count {
            rows.each(|row, group, weight| words[group * stride + at] += weight * u64::from(is_valid(place(row))));
            return Ok(());
        }
        let mut is_in_range = true;
        let each = |row: usize| Some(place(row)).filter(|place| is_valid(*place));
        if self.wide {
            let numbers = wide_numbers(values)?;
            rows.each(|row, group, weight| {
                if let Some(place) = each(row) {
                    is_in_range &= self.fold(&mut words[group * stride + at..][..3], weight, numbers[place], true);
                }
            });
        } else {
            let numbers = narrow_numbers(values)?;
            rows.each(|row, group, weight| {
                if let Some(place) = each(row) {
                    is_in_range &= self.fold(&mut words[group * stride + at..][..2], weight, numbers[place], true);
                }
            });
        }
        if is_in_range { Ok(()) } else { Err(self.total_out_of_range()) }
    }

    fn merge(&self, from: &[u64], into: &mut [u64]) -> Result<()> {
        let is_in_range = match self.fold {
            Fold::Count => {
                into[0] += from[0];
                true
            }
            _ if from[0] == 0 => true,
            _ if self.wide => self.fold(into, from[0], i128::of(from), false),
            _ => self.fold(into, from[0], i64::of(from), false),
        };
        if is_in_range { Ok(()) } else { Err(self.total_out_of_range()) }
    }

    /// Adds a value of `count` rows; a total of so many with `each` off. Whether the total stays in its type.
    #[inline(always)]
    fn fold<N: Number>(&self, words: &mut [u64], count: u64, value: N, each: bool) -> bool {
        let before = N::of(words);
        let is_first = words[0] == 0;
        words[0] += count;
        let next = match self.fold {
            Fold::Add => {
                let added = if each { value.times(count) } else { Some(value) };
                added.and_then(|added| before.plus(added))
            }
            Fold::Least if !is_first => Some(before.min(value)),
            Fold::Greatest if !is_first => Some(before.max(value)),
            _ => Some(value),
        };
        next.unwrap_or_default().put(words);
        next.is_some()
    }

    fn finish(&self, words: &[u64], stride: usize, groups: usize) -> Result<ArrayRef> {
        let of = |group: usize| &words[group * stride + self.offset..][..self.words()];
        if self.fold == Fold::Count {
            return Ok(Arc::new(Int64Array::from_iter_values((0..groups).map(|group| of(group)[0] as i64))));
        }
        let nulls = NullBuffer::from_iter((0..groups).map(|group| of(group)[0] > 0));
        let total = |group: usize| if self.wide { i128::of(of(group)) } else { i64::of(of(group)).into() };
        let totals = (0..groups).map(total);
        let kind = &self.aggregate.kind;
        match self.aggregate.function {
            AggregateFunction::Average => {
                let scale = match self.aggregate.argument {
                    Some((_, DataType::Decimal128(_, scale))) => scale,
                    _ => 0,
                };
                if totals.clone().any(|total| !is_in_range(total)) {
                    return Err(self.total_out_of_range());
                }
                let average = |(group, total): (usize, i128)| match of(group)[0] {
                    0 => 0.0,
                    count => quotient::average(total, count, scale),
                };
                let averages: Vec<f64> = totals.enumerate().map(average).collect();
                Ok(Arc::new(Float64Array::new(averages.into(), Some(nulls))))
            }
            _ if matches!(kind, DataType::Decimal128(..)) => {
                if totals.clone().any(|total| !is_in_range(total)) {
                    return Err(self.total_out_of_range());
                }
                let totals = Decimal128Array::new(totals.collect::<Vec<_>>().into(), Some(nulls));
                Ok(Arc::new(totals.with_data_type(kind.clone())))
            }
            _ => narrow_array(totals.map(|total| total as i64), nulls, kind),
        }
    }

    fn total_out_of_range(&self) -> Error {
        Error::new(ErrorKind::NumericOutOfRange, self.aggregate.total_error.clone())
    }
}

fn is_in_range(total: i128) -> bool {
    total.unsigned_abs() < 10_u128.pow(DIGITS_MAX)
}

/// A total or extreme behind the count of its words.
trait Number: Copy + Default + Ord {
    fn of(words: &[u64]) -> Self;
    fn put(self, words: &mut [u64]);
    fn plus(self, other: Self) -> Option<Self>;
    fn times(self, count: u64) -> Option<Self>;
}

impl Number for i64 {
    #[inline(always)]
    fn of(words: &[u64]) -> i64 {
        words[1] as i64
    }

    #[inline(always)]
    fn put(self, words: &mut [u64]) {
        words[1] = self as u64;
    }

    #[inline(always)]
    fn plus(self, other: i64) -> Option<i64> {
        self.checked_add(other)
    }

    #[inline(always)]
    fn times(self, count: u64) -> Option<i64> {
        self.checked_mul(count as i64)
    }
}

impl Number for i128 {
    #[inline(always)]
    fn of(words: &[u64]) -> i128 {
        (u128::from(words[1]) | u128::from(words[2]) << 64) as i128
    }

    #[inline(always)]
    fn put(self, words: &mut [u64]) {
        (words[1], words[2]) = (self as u64, (self as u128 >> 64) as u64);
    }

    #[inline(always)]
    fn plus(self, other: i128) -> Option<i128> {
        self.checked_add(other)
    }

    #[inline(always)]
    fn times(self, count: u64) -> Option<i128> {
        self.checked_mul(i128::from(count))
    }
}

/// Values as numbers in the order of the values; anything for NULL.
fn narrow_numbers(values: &ArrayRef) -> Result<Vec<i64>> {
    let kind = values.data_type();
    let Bits::Narrow { mut numbers, width } = bits_of(values)? else {
        return Err(Error::internal(format!("values of {kind} do not fit 64 bits")));
    };
    match kind {
        DataType::UInt64 => numbers.iter_mut().for_each(|number| *number ^= 1 << 63),
        kind if kind.is_unsigned_integer() || *kind == DataType::Boolean => {}
        _ => {
            let unused = 64 - width;
            numbers.iter_mut().for_each(|number| *number = (((*number << unused) as i64) >> unused) as u64);
        }
    }
    Ok(numbers.into_iter().map(|number| number as i64).collect())
}

/// What [`narrow_numbers`] made of values, as those again.
fn narrow_array(numbers: impl Iterator<Item = i64>, nulls: NullBuffer, kind: &DataType) -> Result<ArrayRef> {
    let flip = if *kind == DataType::UInt64 { 1 << 63 } else { 0 };
    array_of(kind, numbers.map(|number| u128::from(number as u64 ^ flip)), Some(nulls))
}

fn wide_numbers(values: &ArrayRef) -> Result<Vec<i128>> {
    Ok(match values.data_type() {
        DataType::Decimal128(..) => values.as_primitive::<Decimal128Type>().values().to_vec(),
        DataType::UInt64 => values.as_primitive::<UInt64Type>().values().iter().map(|value| (*value).into()).collect(),
        _ => narrow_numbers(values)?.into_iter().map(i128::from).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Int16Array, UInt64Array};

    fn run(function: AggregateFunction, kind: DataType, result: DataType, values: ArrayRef) -> Result<ArrayRef> {
        let argument = Some((rowmill_plan::Expr::Column(0), kind));
        let aggregate = Aggregate { function, argument, kind: result, total_error: "the total is too large".into() };
        let states = States::new(&[aggregate]);
        let mut totals = vec![0; states.words() * 2];
        let rows = values.len();
        let groups: Vec<u32> = (0..rows as u32).map(|row| row % 2).collect();
        let values = Values { values, codes: None, distinct: false };
        // In two parts, which are put together.
        for weight in [1, 3] {
            let mut words = vec![0; states.words() * 2];
            let weights = vec![weight; rows];
            let grouped = Grouped { rows, groups: Some(&groups), weights: Some(&weights) };
            states.iter().next().expect("one").add(&grouped, Some(&values), states.words(), &mut words)?;
            states.merge(&[Some(0), Some(1)], &words, &mut totals)?;
        }
        states.finish(&totals, 2).map(|mut columns| columns.remove(0))
    }

    #[test]
    fn parts_make_the_whole() {
        let small: ArrayRef = Arc::new(Int16Array::from(vec![Some(-5), None, Some(300), None, Some(2), None]));
        let sums = run(AggregateFunction::Sum, DataType::Int16, DataType::Int64, Arc::clone(&small)).expect("small");
        assert_eq!(*sums, Int64Array::from(vec![Some(297 * 4), None]));
        let least = run(AggregateFunction::Min, DataType::Int16, DataType::Int16, Arc::clone(&small)).expect("small");
        assert_eq!(*least, Int16Array::from(vec![Some(-5), None]));
        let averages = run(AggregateFunction::Average, DataType::Int16, DataType::Float64, small).expect("small");
        assert_eq!(*averages, Float64Array::from(vec![Some(99.0), None]));

        let large: ArrayRef = Arc::new(UInt64Array::from(vec![u64::MAX, 1, 0, u64::MAX - 1]));
        let greatest = run(AggregateFunction::Max, DataType::UInt64, DataType::UInt64, Arc::clone(&large));
        assert_eq!(*greatest.expect("values"), UInt64Array::from(vec![u64::MAX, u64::MAX - 1]));
        let decimal = DataType::Decimal128(38, 0);
        let sums = run(AggregateFunction::Sum, DataType::UInt64, decimal.clone(), large).expect("wide");
        let expected = [i128::from(u64::MAX) * 4, i128::from(u64::MAX) * 4];
        assert_eq!(*sums, Decimal128Array::from(expected.to_vec()).with_data_type(decimal));
    }

    #[test]
    fn a_total_never_wraps() {
        let decimal = DataType::Decimal128(38, 0);
        let values = Decimal128Array::from(vec![10_i128.pow(38) - 1; 2]).with_data_type(decimal.clone());
        let error = run(AggregateFunction::Sum, decimal.clone(), decimal, Arc::new(values)).expect_err("too large");
        assert_eq!(error.kind(), ErrorKind::NumericOutOfRange);
    }
}
