//! What a call needs to know of a partition's rows before and after a stretch of them.
//!
//! A partition that is larger than memory is computed in stretches of its sorted rows, one after the other. Most calls
//! can go on from stretch to stretch with very little: a number, the state of an aggregate, one row, or the rows at a
//! bounded distance.

use arrow::array::AsArray;
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type};
use rowmill_base::Result;
use rowmill_plan::logical::{FrameBound, FrameExclude, FrameRow, FrameUnit, RankFunction, WindowFrame};
use rowmill_plan::{FrameOffset, WindowCall, WindowFunction};

use super::evaluate::AggregateRow;
use super::sorted::SortedRows;
use super::total::LongTotal;
use crate::aggregate::{AggregateState, state_of};

/// The most rows before or after a row that a stretch is extended by. Frames that reach farther need their partition.
const REACH_MAX: usize = 1 << 12;

/// What a call needs of the rows around a stretch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallReach {
    /// The number of rows before, or of groups of peers.
    Count { of_groups: bool },
    /// The state of an aggregate over all rows before.
    State,
    /// The row before that was the result of the last row.
    Row,
    /// The values of this number of rows before and after.
    Near { before: usize, after: usize },
    /// All rows of the partition.
    Partition,
}

impl CallReach {
    pub(super) fn of(call: &WindowCall) -> Result<CallReach> {
        let frame = &call.frame;
        Ok(match &call.function {
            WindowFunction::Rank(RankFunction::RowNumber | RankFunction::Rank) => CallReach::Count { of_groups: false },
            WindowFunction::Rank(RankFunction::DenseRank) => CallReach::Count { of_groups: true },
            WindowFunction::Rank(RankFunction::PercentRank | RankFunction::CumulativeShare) => CallReach::Partition,
            WindowFunction::Ntile(_) => CallReach::Partition,
            WindowFunction::Shift { offset, forward, skips_nulls, .. } => match offset {
                _ if *skips_nulls => CallReach::Partition,
                None => CallReach::near(if *forward { 1 } else { -1 }, 0),
                Some(offset) => match constant(offset) {
                    Some(offset) => CallReach::near(if *forward { offset } else { offset.saturating_neg() }, 0),
                    None => CallReach::Partition,
                },
            },
            WindowFunction::Nth { nth, .. } => match nth {
                FrameRow::First | FrameRow::Last if is_growing(frame) => CallReach::Row,
                _ => CallReach::of_frame(frame),
            },
            WindowFunction::Aggregate(aggregate) if is_growing(frame) => {
                let is_plain = aggregate.order.is_empty()
                    && (!aggregate.distinct || aggregate.function.ignores_duplicates)
                    && call.kind != DataType::Null;
                match (AggregateRow::of(aggregate, &call.kind)?, state_of(aggregate.function)?) {
                    (Some(_), _) => CallReach::Row,
                    (None, AggregateState::Count | AggregateState::Total | AggregateState::Fold(_)) if is_plain => {
                        CallReach::State
                    }
                    _ => CallReach::Partition,
                }
            }
            WindowFunction::Aggregate(_) => CallReach::of_frame(frame),
        })
    }

    fn of_frame(frame: &WindowFrame<FrameOffset>) -> CallReach {
        let is_simple = matches!(frame.exclude, FrameExclude::NoOthers | FrameExclude::CurrentRow);
        match (distance(&frame.start), distance(&frame.end)) {
            (Some(start), Some(end)) if is_simple && frame.unit == FrameUnit::Rows => CallReach::near(start, end),
            _ => CallReach::Partition,
        }
    }

    /// The reach to rows at two distances. Negative distances go back.
    fn near(first: i64, second: i64) -> CallReach {
        let (least, most) = (first.min(second).min(0).unsigned_abs(), first.max(second).max(0).unsigned_abs());
        match (usize::try_from(least), usize::try_from(most)) {
            (Ok(before @ ..=REACH_MAX), Ok(after @ ..=REACH_MAX)) => CallReach::Near { before, after },
            _ => CallReach::Partition,
        }
    }
}

/// Whether a frame grows from the first row of the partition up to each row.
fn is_growing(frame: &WindowFrame<FrameOffset>) -> bool {
    frame.start == FrameBound::Unbounded
        && frame.end == FrameBound::CurrentRow
        && frame.exclude == FrameExclude::NoOthers
}

/// The distance of a bound by rows. `None` if rows may have different ones.
fn distance(bound: &FrameBound<FrameOffset>) -> Option<i64> {
    match bound {
        FrameBound::Unbounded => None,
        FrameBound::CurrentRow => Some(0),
        FrameBound::Preceding(offset) => constant(offset).map(i64::saturating_neg),
        FrameBound::Following(offset) => constant(offset),
    }
}

/// The constant of an offset. NULL reaches nowhere.
pub(super) fn constant(offset: &FrameOffset) -> Option<i64> {
    let FrameOffset::Constant(constant) = offset else { return None };
    let value = cast(constant.array(), &DataType::Int64).ok()?;
    Some(value.as_primitive::<Int64Type>().iter().next().flatten().unwrap_or_default())
}

/// The state of an aggregate over the rows of a partition up to some row.
#[derive(Clone, Debug, Default)]
pub(super) struct RunningState {
    count: u64,
    total: LongTotal,
    /// The words of its cell, if it has one.
    words: Option<Vec<u64>>,
}

/// The states before the first row and after the last row of a stretch. If the frames grow, the frame of the last row
/// has all rows of its partition so far.
#[derive(Debug, Default)]
pub(super) struct RunningStates {
    /// All rows before the stretch that are in the partition of its first row.
    before: RunningState,
    pub(super) after: RunningState,
}

impl RunningStates {
    pub(super) fn new(before: RunningState) -> RunningStates {
        RunningStates { before, after: RunningState::default() }
    }

    /// Adds the count of the rows before to the counts of frames.
    pub(super) fn carry_counts(&mut self, counts: &mut [u64], rows: &SortedRows) {
        counts[..rows.partitions[1]].iter_mut().for_each(|count| *count += self.before.count);
        self.after.count = counts.last().copied().unwrap_or_default();
    }

    /// Adds the total of the rows before to the totals of frames.
    pub(super) fn carry_totals(&mut self, totals: &mut [LongTotal], rows: &SortedRows) {
        totals[..rows.partitions[1]].iter_mut().for_each(|total| *total = total.plus(self.before.total));
        self.after.total = totals.last().copied().unwrap_or_default();
    }

    /// The words of the cell that has taken the rows before.
    pub(super) fn words(&self) -> Option<&[u64]> {
        self.before.words.as_deref()
    }

    /// Notes the words of the last frame's cell.
    pub(super) fn set_words(&mut self, words: &[u64]) {
        self.after.words = Some(words.to_vec());
    }
}
