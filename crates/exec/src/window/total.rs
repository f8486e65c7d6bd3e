//! Counts, totals and averages of frames, and other folds of numbers.
//!
//! We compute exact totals as differences of running totals. For example, the total of rows 3 to 7 is the running
//! total up to row 7 minus the running total before row 3, which takes two reads for a frame of any size. Totals of
//! floats are folded instead (tree.rs): a float that lost digits to a large neighbour does not get them back when we
//! subtract the neighbour.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Float64Array, Int64Array, UInt32Array};
use arrow::buffer::{BooleanBuffer, NullBuffer};
use arrow::compute::{cast, take};
use arrow::datatypes::{DataType, Decimal128Type, Float64Type, Int64Type};
use rowmill_base::{Error, ErrorKind, Result, quotient};
use rowmill_plan::{Aggregate, AggregateRole, SortKey};

use super::OWNER;
use super::evaluate::{Evaluation, argument, column_of};
use super::failed;
use super::fixed::{narrow_array, validity, wide_array};
use super::frame::{FrameShape, FrameSide, Frames, ends_of};
use super::sorted::{SortedRows, boundaries};
use super::tree::{CellFrame, FrameFold, fold_frames};
use crate::aggregate::{Fold, FoldState, SumFloat, shown};
use crate::group::StateNumbers;
use crate::sort::{canonical, places_in_order};

/// The most digits of a total.
const TOTAL_DIGITS: u32 = 38;

/// The rows that an aggregate counts: rows with a value where the filter is true. With DISTINCT, only the first such
/// row of each value in each partition. `None` if all rows count.
pub(super) fn mask_of(
    aggregate: &Aggregate,
    values: Option<&ArrayRef>,
    frames: &Frames<'_>,
    evaluation: &Evaluation<'_>,
) -> Result<Option<BooleanBuffer>> {
    let mut mask = plain_mask(aggregate, values, evaluation)?;
    if aggregate.distinct
        && !aggregate.function.ignores_duplicates
        && let Some(values) = values
    {
        mask = Some(first_of_values(values, mask.as_ref(), frames.rows, evaluation)?);
    }
    Ok(mask)
}

/// The rows with a value where the filter of an aggregate is true. `None` if these are all rows.
pub(super) fn plain_mask(
    aggregate: &Aggregate,
    values: Option<&ArrayRef>,
    evaluation: &Evaluation<'_>,
) -> Result<Option<BooleanBuffer>> {
    let nulls = values.and_then(|values| values.logical_nulls()).filter(|nulls| nulls.null_count() > 0);
    let mut mask = nulls.map(|nulls| nulls.inner().clone());
    if let Some(filter) = aggregate.filter {
        let filter = evaluation.column(column_of(filter)?)?;
        let filter = filter.as_boolean();
        let holds = match filter.nulls() {
            Some(nulls) => filter.values() & nulls.inner(),
            None => filter.values().clone(),
        };
        mask = Some(match mask {
            Some(valid) => &valid & &holds,
            None => holds,
        });
    }
    Ok(mask)
}

/// Whether [`mask_of`] can handle DISTINCT for these frames. It can if every frame starts with its partition, because
/// such a frame contains a value exactly if it contains the first row with that value.
pub(super) fn can_mask_distinct(frames: &Frames<'_>) -> bool {
    matches!(frames.shape, FrameShape::Whole | FrameShape::Growing)
}

/// Marks the first row of each value in each partition, among the rows of `mask`.
fn first_of_values(
    values: &ArrayRef,
    mask: Option<&BooleanBuffer>,
    rows: &SortedRows,
    evaluation: &Evaluation<'_>,
) -> Result<BooleanBuffer> {
    let values = canonical(values)?;
    let key = SortKey { column: 0, descending: false, nulls_first: true };
    let mut memory = evaluation.broker.reservation(OWNER);
    let order = places_in_order(std::slice::from_ref(&values), &[key], &mut memory)?;
    let sorted = take(&values, &UInt32Array::from(order.clone()), None).map_err(failed)?;
    let ends = boundaries(&[sorted], values.len())?;
    // The start of a position's partition identifies the partition.
    let starts = ends_of(&rows.partitions, FrameSide::Start, rows.len());
    let mut is_first = vec![false; rows.len()];
    for ends in ends.windows(2) {
        // `places_in_order` must keep equal values in the order of their positions, so that the first position of a
        // partition comes first here.
        let mut last = None;
        for position in order[ends[0]..ends[1]].iter().map(|position| *position as usize) {
            if mask.is_none_or(|mask| mask.value(position)) {
                is_first[position] = last.replace(starts[position]) != Some(starts[position]);
            }
        }
    }
    Ok(BooleanBuffer::from(is_first))
}

/// The number of rows that count in each frame.
fn counts_of(mask: Option<&BooleanBuffer>, frames: &Frames<'_>, evaluation: &Evaluation<'_>) -> Vec<u64> {
    let rows = frames.rows.len();
    let mut counts = match mask {
        None => of_frames(rows, frames, |range| range.len() as u64, |left, right| left + right),
        Some(mask) => {
            // before[i] is the number of rows that count among the first i rows.
            let mut before = Vec::with_capacity(rows + 1);
            let mut count = 0_u64;
            before.push(0);
            before.extend(mask.iter().map(|counts| {
                count += u64::from(counts);
                count
            }));
            of_frames(rows, frames, |range| before[range.end] - before[range.start], |left, right| left + right)
        }
    };
    if let Some(running) = &evaluation.running {
        running.borrow_mut().carry_counts(&mut counts, frames.rows);
    }
    counts
}

/// Computes a result for each frame from the results of its ranges. A frame with excluded rows has up to three ranges,
/// which `add` combines.
fn of_frames<T: Copy>(
    rows: usize,
    frames: &Frames<'_>,
    of_range: impl Fn(std::ops::Range<usize>) -> T,
    add: impl Fn(T, T) -> T,
) -> Vec<T> {
    let mut results = Vec::with_capacity(rows);
    if frames.are_partitions() {
        for partition in frames.rows.each_partition() {
            results.resize(partition.end, of_range(partition));
        }
    } else if frames.are_ranges() {
        results.extend(frames.ranges().map(|(start, end)| of_range(start..end)));
    } else {
        results.extend((0..rows).map(|position| {
            let [first, second, third] = frames.pieces(position);
            add(add(of_range(first), of_range(second)), of_range(third))
        }));
    }
    results
}

/// Computes `count`.
pub(super) fn counts(aggregate: &Aggregate, frames: &Frames<'_>, evaluation: &Evaluation<'_>) -> Result<ArrayRef> {
    let values = match aggregate.argument {
        Some(_) => Some(evaluation.column(argument(aggregate)?)?),
        None => None,
    };
    let mask = mask_of(aggregate, values.as_ref(), frames, evaluation)?;
    let counts = counts_of(mask.as_ref(), frames, evaluation);
    Ok(Arc::new(counts.into_iter().map(|count| Some(count as i64)).collect::<Int64Array>()))
}

/// Computes `sum` and `avg`.
pub(super) fn totals(aggregate: &Aggregate, frames: &Frames<'_>, evaluation: &Evaluation<'_>) -> Result<ArrayRef> {
    let values = evaluation.column(argument(aggregate)?)?;
    let mask = mask_of(aggregate, Some(&values), frames, evaluation)?;
    if matches!(values.data_type(), DataType::Float32 | DataType::Float64) {
        return float_totals(aggregate, &values, mask.as_ref(), frames, evaluation);
    }
    let counts = counts_of(mask.as_ref(), frames, evaluation);
    let scale = scale_of(&values);
    match ExactTotals::new(&values, mask.as_ref())? {
        ExactTotals::Narrow(before) if evaluation.running.is_none() => {
            let rows = frames.rows.len();
            let totals =
                of_frames(rows, frames, |range| before[range.end] - before[range.start], |left, right| left + right);
            narrow_results(aggregate, totals, &counts, scale)
        }
        exact => {
            let rows = frames.rows.len();
            let mut totals = of_frames(rows, frames, |range| exact.of(range), |left, right| left.plus(right));
            if let Some(running) = &evaluation.running {
                running.borrow_mut().carry_totals(&mut totals, frames.rows);
            }
            wide_results(aggregate, &totals, &counts, scale)
        }
    }
}

/// The digits after the point of values that are added exactly.
pub(super) fn scale_of(values: &ArrayRef) -> i8 {
    match values.data_type() {
        DataType::Decimal128(_, scale) => *scale,
        _ => 0,
    }
}

/// The validity of the totals of frames. A total is NULL if no row of the frame counts.
fn with_rows(counts: &[u64]) -> Option<NullBuffer> {
    validity(counts.iter().map(|count| *count > 0))
}

fn average(total: i128, count: u64, scale: i8) -> f64 {
    match count {
        0 => 0.0,
        count => quotient::average(total, count, scale),
    }
}

/// Makes sums or averages from totals of 64 bits and the numbers of rows that count.
pub(super) fn narrow_results(aggregate: &Aggregate, totals: Vec<i64>, counts: &[u64], scale: i8) -> Result<ArrayRef> {
    let nulls = with_rows(counts);
    if aggregate.function.role == AggregateRole::Average {
        let averages = totals.iter().zip(counts).map(|(total, count)| average((*total).into(), *count, scale));
        return Ok(Arc::new(Float64Array::new(averages.collect::<Vec<_>>().into(), nulls)));
    }
    match aggregate.kind {
        // The values already have the type of the result.
        DataType::Int64 => Ok(Arc::new(Int64Array::new(totals.into(), nulls))),
        _ => wide_array(&aggregate.kind, totals.iter().map(|total| i128::from(*total) as u128).collect(), nulls),
    }
}

/// Makes sums or averages from totals of any size and the numbers of rows that count.
pub(super) fn wide_results(aggregate: &Aggregate, totals: &[LongTotal], counts: &[u64], scale: i8) -> Result<ArrayRef> {
    let nulls = with_rows(counts);
    let all = totals.iter().map(|total| fitting(total.get().ok_or_else(|| out_of_range(aggregate))?, aggregate));
    if aggregate.function.role == AggregateRole::Average {
        let averages = all.zip(counts).map(|(total, count)| Ok(average(total?, *count, scale)));
        return Ok(Arc::new(Float64Array::new(averages.collect::<Result<Vec<_>>>()?.into(), nulls)));
    }
    match aggregate.kind {
        DataType::Int64 => {
            narrow_array(&DataType::Int64, all.map(|total| Ok(total? as u64)).collect::<Result<_>>()?, nulls)
        }
        _ => wide_array(&aggregate.kind, all.map(|total| Ok(total? as u128)).collect::<Result<_>>()?, nulls),
    }
}

/// Makes sums or averages from totals of floats and the numbers of rows that count.
pub(super) fn float_results(aggregate: &Aggregate, mut totals: Vec<f64>, counts: &[u64]) -> ArrayRef {
    if aggregate.function.role == AggregateRole::Average {
        totals.iter_mut().zip(counts).for_each(|(total, count)| *total = shown(*total / (*count).max(1) as f64));
    }
    Arc::new(Float64Array::new(totals.into(), with_rows(counts)))
}

/// Returns `total` if the result type can hold it. An average must also fit the digits of a total.
fn fitting(total: i128, aggregate: &Aggregate) -> Result<i128> {
    let fits = match aggregate.kind {
        DataType::Int64 => i64::try_from(total).is_ok(),
        _ => total.unsigned_abs() < 10_u128.pow(TOTAL_DIGITS),
    };
    if fits { Ok(total) } else { Err(out_of_range(aggregate)) }
}

fn out_of_range(aggregate: &Aggregate) -> Error {
    Error::new(ErrorKind::NumericOutOfRange, aggregate.total_error.clone())
}

/// Running totals: item `i` is the total of the first `i` values.
pub(super) enum ExactTotals {
    /// No total of any range exceeds 64 bits.
    Narrow(Vec<i64>),
    /// No total of any range exceeds 128 bits.
    Wide(Vec<i128>),
    /// The high and the low halves of the values are added separately. Neither total can overflow.
    Halves(Vec<LongTotal>),
}

/// A total as two numbers: the sum of the high halves and the sum of the low halves.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LongTotal {
    high: i128,
    low: i128,
}

impl LongTotal {
    const ZERO: LongTotal = LongTotal { high: 0, low: 0 };

    fn of(number: i128) -> LongTotal {
        LongTotal { high: number >> 64, low: i128::from(number as u64) }
    }

    pub(super) fn plus(self, other: LongTotal) -> LongTotal {
        LongTotal { high: self.high + other.high, low: self.low + other.low }
    }

    /// The total, if 128 bits can hold it.
    fn get(self) -> Option<i128> {
        self.high.checked_mul(1 << 64)?.checked_add(self.low)
    }
}

impl ExactTotals {
    /// The most bytes that a value takes, with a copy of it while the totals are made.
    pub(super) const BYTES_MAX: usize = size_of::<LongTotal>() + size_of::<i128>();

    /// Bytes of memory.
    pub(super) fn bytes(&self) -> u64 {
        (match self {
            ExactTotals::Narrow(before) => before.capacity() * size_of::<i64>(),
            ExactTotals::Wide(before) => before.capacity() * size_of::<i128>(),
            ExactTotals::Halves(before) => before.capacity() * size_of::<LongTotal>(),
        }) as u64
    }

    pub(super) fn new(values: &ArrayRef, mask: Option<&BooleanBuffer>) -> Result<ExactTotals> {
        let counts = |position: usize| mask.is_none_or(|mask| mask.value(position));
        let kind = values.data_type();
        if kind.is_integer() && *kind != DataType::UInt64 {
            let values = cast(values, &DataType::Int64).map_err(failed)?;
            let numbers = values.as_primitive::<Int64Type>().values();
            // A NULL slot may contain any number. Including it only makes the bound larger, which is safe.
            let most = numbers.iter().fold(0, |most, number| most.max(number.unsigned_abs()));
            let narrow = most.checked_mul(numbers.len() as u64).is_some_and(|most| i64::try_from(most).is_ok());
            return Ok(match (narrow, mask) {
                (true, None) => ExactTotals::Narrow(running(numbers.iter().copied())),
                (true, Some(mask)) => {
                    let numbers = numbers.iter().zip(mask.iter());
                    ExactTotals::Narrow(running(numbers.map(|(number, counts)| if counts { *number } else { 0 })))
                }
                (false, _) => {
                    let number =
                        |(position, number): (usize, &i64)| if counts(position) { (*number).into() } else { 0 };
                    ExactTotals::Wide(running_wide(numbers.iter().enumerate().map(number)))
                }
            });
        }
        let values = match kind {
            DataType::Decimal128(..) => ArrayRef::clone(values),
            DataType::UInt64 => cast(values, &DataType::Decimal128(TOTAL_DIGITS as u8, 0)).map_err(failed)?,
            kind => return Err(Error::internal(format!("a total of values of {kind}"))),
        };
        let numbers = values.as_primitive::<Decimal128Type>().values();
        let numbers = numbers.iter().enumerate().map(|(position, number)| if counts(position) { *number } else { 0 });
        let most = numbers.clone().fold(0, |most, number| most.max(number.unsigned_abs()));
        let most = most.checked_mul(numbers.len() as u128);
        // Choose the narrowest form that cannot overflow, judged by the largest value times the number of values.
        Ok(match most {
            Some(most) if i64::try_from(most).is_ok() => {
                ExactTotals::Narrow(running(numbers.map(|number| number as i64)))
            }
            Some(most) if i128::try_from(most).is_ok() => ExactTotals::Wide(running_wide(numbers)),
            _ => {
                let mut total = LongTotal::ZERO;
                let rest = numbers.map(|number| {
                    total = total.plus(LongTotal::of(number));
                    total
                });
                ExactTotals::Halves(std::iter::once(LongTotal::ZERO).chain(rest).collect())
            }
        })
    }

    /// The total of a range of positions.
    #[inline]
    pub(super) fn of(&self, range: std::ops::Range<usize>) -> LongTotal {
        match self {
            ExactTotals::Narrow(before) => LongTotal::of((before[range.end] - before[range.start]).into()),
            ExactTotals::Wide(before) => LongTotal::of(before[range.end] - before[range.start]),
            ExactTotals::Halves(before) => {
                let (end, start) = (before[range.end], before[range.start]);
                LongTotal { high: end.high - start.high, low: end.low - start.low }
            }
        }
    }
}

fn running(numbers: impl ExactSizeIterator<Item = i64>) -> Vec<i64> {
    let mut totals = Vec::with_capacity(numbers.len() + 1);
    let mut total = 0;
    totals.push(0);
    totals.extend(numbers.map(|number| {
        total += number;
        total
    }));
    totals
}

fn running_wide(numbers: impl ExactSizeIterator<Item = i128>) -> Vec<i128> {
    let mut totals = Vec::with_capacity(numbers.len() + 1);
    let mut total = 0;
    totals.push(0);
    totals.extend(numbers.map(|number| {
        total += number;
        total
    }));
    totals
}

fn float_totals(
    aggregate: &Aggregate,
    values: &ArrayRef,
    mask: Option<&BooleanBuffer>,
    frames: &Frames<'_>,
    evaluation: &Evaluation<'_>,
) -> Result<ArrayRef> {
    let counts = counts_of(mask, frames, evaluation);
    let values = cast(values, &DataType::Float64).map_err(failed)?;
    let values = values.as_primitive::<Float64Type>().values();
    let of_fold = |fold: &CellFrame<SumFloat>| shown(fold.0.total());
    let totals = match &evaluation.running {
        None => fold_frames(values, mask, frames, CellFrame::empty(), of_fold),
        Some(running) => {
            let mut running = running.borrow_mut();
            let first = CellFrame(SumFloat::load(running.words().unwrap_or(SumFloat::INITIAL)));
            let folds = fold_frames(values, mask, frames, first, |fold: &CellFrame<SumFloat>| *fold);
            let mut words = SumFloat::INITIAL.to_vec();
            folds.last().inspect(|last| last.0.store(&mut words));
            running.set_words(&words);
            folds.iter().map(of_fold).collect()
        }
    };
    Ok(float_results(aggregate, totals, &counts))
}

/// Computes an aggregate that folds numbers into a few words.
pub(super) fn folds(
    aggregate: &Aggregate,
    state: &FoldState,
    frames: &Frames<'_>,
    evaluation: &Evaluation<'_>,
) -> Result<ArrayRef> {
    let values = evaluation.argument_values(aggregate)?;
    let mask = mask_of(aggregate, Some(&values), frames, evaluation)?;
    let Some(form) = state.fold.form(values.data_type()) else {
        return Err(Error::internal(format!("{} folds no numbers", aggregate.function.name)));
    };
    let numbers = StateNumbers::new(&values, form)?;
    let len = state.fold.initial().len();
    let mut words = Vec::with_capacity(frames.rows.len() * len);
    let running = evaluation.running.as_ref();
    let before = running.and_then(|running| running.borrow().words().map(<[u64]>::to_vec));
    let mut take = |cell: &[u64]| words.extend_from_slice(cell);
    state.fold.fold_frames(&numbers, mask.as_ref(), frames, before.as_deref(), &mut take)?;
    if let Some(running) = running {
        running.borrow_mut().set_words(&words[words.len() - len..]);
    }
    let nulls = match state.needs_count {
        true => validity(counts_of(mask.as_ref(), frames, evaluation).into_iter().map(|count| count > 0)),
        false => None,
    };
    state.result.column(words.chunks_exact(len), nulls, &aggregate.kind)
}
