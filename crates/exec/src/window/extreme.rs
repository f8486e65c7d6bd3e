//! `min` and `max`: the row with the extreme value.
//!
//! We turn values into numbers that sort like them: values of fixed size by their bits, others by their ranks. For
//! sliding frames we keep only the rows that can still become the extreme one. A row is dropped when a better row
//! comes after it, because every later frame that contains the first row also contains the better one.

use std::collections::VecDeque;
use std::ops::Range;

use arrow::array::{Array, ArrayRef};
use arrow::buffer::BooleanBuffer;
use rowmill_base::{Reservation, Result};
use rowmill_plan::{Aggregate, AggregateRole, SortKey};

use super::OWNER;
use super::evaluate::{Evaluation, ResultRow, argument};
use super::frame::{FrameShape, Frames};
use super::sorted::boundaries;
use super::total::mask_of;
use super::tree::{FrameFold, PreparedTree, fold_frames};
use crate::sort::{SortNumbers, canonical, numbers_of, places_in_order, width_of};

/// The number of a row's value. We look for the least one.
pub(super) trait LeastNumber: Copy + Ord {
    const GREATEST: Self;
}

impl LeastNumber for u64 {
    const GREATEST: u64 = u64::MAX;
}

impl LeastNumber for u128 {
    const GREATEST: u128 = u128::MAX;
}

/// Finds the row with the extreme value of each frame.
pub(super) fn extremes(
    aggregate: &Aggregate,
    frames: &Frames<'_>,
    evaluation: &Evaluation<'_>,
) -> Result<Vec<ResultRow>> {
    let values = evaluation.column(argument(aggregate)?)?;
    let mask = mask_of(aggregate, Some(&values), frames, evaluation)?;
    Ok(match least_numbers(aggregate, &values, evaluation)? {
        SortNumbers::Narrow(numbers) => least(numbers, mask.as_ref(), frames),
        SortNumbers::Wide(numbers) => least(numbers, mask.as_ref(), frames),
    })
}

/// Numbers of values. The least one is that of the extreme value.
fn least_numbers(aggregate: &Aggregate, values: &ArrayRef, evaluation: &Evaluation<'_>) -> Result<SortNumbers> {
    let mut numbers = match width_of(values.data_type()) {
        Some(_) => numbers_of(values)?,
        None => SortNumbers::Narrow(value_ranks(values, evaluation)?),
    };
    // Inverting all bits reverses the order, so the greatest number becomes the least.
    if aggregate.function.role == AggregateRole::Max {
        match &mut numbers {
            SortNumbers::Narrow(numbers) => numbers.iter_mut().for_each(|number| *number = !*number),
            SortNumbers::Wide(numbers) => numbers.iter_mut().for_each(|number| *number = !*number),
        }
    }
    Ok(numbers)
}

/// Finds the rows with the extreme values of any ranges.
pub(super) enum ExtremeRows {
    Narrow(LeastTree<u64>),
    Wide(LeastTree<u128>),
}

/// The numbers of rows, and a tree over them.
pub(super) struct LeastTree<N> {
    items: Vec<LeastRow<N>>,
    tree: PreparedTree<LeastRow<N>>,
}

/// Prepares to find the rows with the extreme values among those of `mask`. Grows `memory` by what is kept.
pub(super) fn extreme_rows(
    aggregate: &Aggregate,
    values: &ArrayRef,
    mask: Option<BooleanBuffer>,
    evaluation: &Evaluation<'_>,
    memory: &mut Reservation,
) -> Result<ExtremeRows> {
    Ok(match least_numbers(aggregate, values, evaluation)? {
        SortNumbers::Narrow(numbers) => ExtremeRows::Narrow(LeastTree::new(numbers, mask, memory)?),
        SortNumbers::Wide(numbers) => ExtremeRows::Wide(LeastTree::new(numbers, mask, memory)?),
    })
}

impl<N: LeastNumber> LeastTree<N> {
    fn new(numbers: Vec<N>, mask: Option<BooleanBuffer>, memory: &mut Reservation) -> Result<LeastTree<N>> {
        let of_items = (numbers.len() * size_of::<LeastRow<N>>()) as u64;
        memory.grow(of_items + PreparedTree::<LeastRow<N>>::bytes(numbers.len()))?;
        let items = least_rows(numbers);
        Ok(LeastTree { tree: PreparedTree::new(&items, mask), items })
    }

    fn of(&self, ranges: impl Iterator<Item = Range<usize>>) -> Vec<Option<usize>> {
        self.tree.fold(&self.items, ranges, |fold| fold.row.position())
    }
}

impl ExtremeRows {
    /// The row with the extreme value of each range. `None` if no row of it counts.
    pub(super) fn of(&self, ranges: impl Iterator<Item = Range<usize>>) -> Vec<Option<usize>> {
        match self {
            ExtremeRows::Narrow(tree) => tree.of(ranges),
            ExtremeRows::Wide(tree) => tree.of(ranges),
        }
    }
}

fn least_rows<N>(numbers: Vec<N>) -> Vec<LeastRow<N>> {
    numbers
        .into_iter()
        .enumerate()
        .map(|(position, number)| LeastRow { number, row: ResultRow::at(position) })
        .collect()
}

/// Computes the ranks of values of any type that has an order. Equal values have equal ranks.
fn value_ranks(values: &ArrayRef, evaluation: &Evaluation<'_>) -> Result<Vec<u64>> {
    let values = canonical(values)?;
    let key = SortKey { column: 0, descending: false, nulls_first: true };
    let mut memory = evaluation.broker.reservation(OWNER);
    let order = places_in_order(std::slice::from_ref(&values), &[key], &mut memory)?;
    let taken = arrow::compute::take(&values, &arrow::array::UInt32Array::from(order.clone()), None);
    let ends = boundaries(&[taken.map_err(super::failed)?], values.len())?;
    let mut ranks = vec![0; values.len()];
    for (rank, ends) in (0..).zip(ends.windows(2)) {
        order[ends[0]..ends[1]].iter().for_each(|place| ranks[*place as usize] = rank);
    }
    Ok(ranks)
}

/// The least number and its row.
#[derive(Clone, Copy)]
pub(super) struct LeastRow<N> {
    number: N,
    row: ResultRow,
}

impl<N: LeastNumber> FrameFold for LeastRow<N> {
    type Item = LeastRow<N>;

    fn empty() -> LeastRow<N> {
        LeastRow { number: N::GREATEST, row: ResultRow::NONE }
    }

    #[inline(always)]
    fn take(&mut self, item: LeastRow<N>) {
        if item.number < self.number || self.row == ResultRow::NONE {
            *self = item;
        }
    }

    #[inline(always)]
    fn join(&mut self, other: &LeastRow<N>) {
        if other.row != ResultRow::NONE {
            self.take(*other);
        }
    }
}

fn least<N: LeastNumber>(numbers: Vec<N>, mask: Option<&BooleanBuffer>, frames: &Frames<'_>) -> Vec<ResultRow> {
    let items = least_rows(numbers);
    if frames.shape != FrameShape::Sliding {
        return fold_frames(&items, mask, frames, LeastRow::empty(), |fold: &LeastRow<N>| fold.row);
    }
    let mut results = Vec::with_capacity(items.len());
    let mut ranges = frames.ranges();
    // Positions that may still become the least, with ascending numbers. The first one is the least of the frame.
    let mut waiting: VecDeque<usize> = VecDeque::new();
    for partition in frames.rows.each_partition() {
        waiting.clear();
        let mut next = partition.start;
        for (start, end) in ranges.by_ref().take(partition.len()) {
            // Skip rows that no frame contains.
            next = next.max(start);
            for position in next..end {
                if mask.is_some_and(|mask| !mask.value(position)) {
                    continue;
                }
                // This row is at least as good as the waiting rows before it, and it stays in the frames for longer.
                while waiting.back().is_some_and(|last| items[*last].number >= items[position].number) {
                    waiting.pop_back();
                }
                waiting.push_back(position);
            }
            next = next.max(end);
            // The frame has moved past these rows.
            while waiting.front().is_some_and(|first| *first < start) {
                waiting.pop_front();
            }
            results.push(waiting.front().map_or(ResultRow::NONE, |first| ResultRow::at(*first)));
        }
    }
    results
}
