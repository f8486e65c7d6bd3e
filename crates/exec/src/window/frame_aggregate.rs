//! Aggregates that are prepared once and then computed over any frames.
//!
//! The frames of a window belong to the rows that they are over, so a window computes all of them at once. An ordered
//! join has frames over the rows of one side for the rows of the other side, which come batch by batch. So we keep
//! what makes a frame of any size cheap, and look it up for the frames of each batch:
//!
//! ```text
//! counts, exact totals     running counts and totals: two reads for a frame                       total.rs
//! totals of floats         running totals if these are exact, otherwise a tree              exact_floats.rs
//! other folds of numbers   a tree                                                                  tree.rs
//! min, max                 a tree of rows                                                       extreme.rs
//! first, last              nothing, or the rows with a value
//! all others               nothing: the rows of the frames of a batch are grouped              regroup.rs
//! ```

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, PrimitiveArray, UInt32Array, new_null_array};
use arrow::buffer::BooleanBuffer;
use arrow::compute::{cast, take};
use arrow::datatypes::{DataType, Float64Type};
use parking_lot::Mutex;
use rowmill_base::{Broker, Cancel, Error, Reservation, Result};
use rowmill_plan::logical::FrameRow;
use rowmill_plan::{Aggregate, SortKey};
use rowmill_storage::spill::TempSpace;

use super::evaluate::{AggregateRow, Evaluation, argument};
use super::exact_floats::ExactFloats;
use super::extreme::{ExtremeRows, extreme_rows};
use super::failed;
use super::fixed::validity;
use super::frame::Frames;
use super::held::HeldRows;
use super::nth::NthRow;
use super::regroup::regroup;
use super::shift::ValidRows;
use super::sorted::SortedRows;
use super::total::{ExactTotals, float_results, narrow_results, plain_mask, scale_of, wide_results};
use super::tree::{CellFrame, FoldedNumbers, PreparedTree};
use crate::aggregate::{AggregateState, FoldState, SumFloat, shown, state_of};
use crate::group::StateNumbers;
use crate::sort::canonical;

/// The columns that frames are over, by their numbers, in the order of the rows.
pub(crate) struct FrameColumns {
    columns: Mutex<BTreeMap<usize, ArrayRef>>,
    /// No rows: all columns are given.
    held: HeldRows,
    rows: SortedRows,
    broker: Broker,
    temp: TempSpace,
    cancel: Cancel,
}

/// An aggregate that is ready to be computed over frames.
pub(crate) struct FrameAggregate {
    aggregate: Aggregate,
    form: FrameForm,
}

enum FrameForm {
    /// Every result is NULL.
    Nothing,
    Count(RunningCounts),
    Exact {
        counts: RunningCounts,
        totals: ExactTotals,
        scale: i8,
    },
    ExactFloat {
        counts: RunningCounts,
        totals: ExactFloats,
    },
    Float {
        counts: RunningCounts,
        values: PrimitiveArray<Float64Type>,
        tree: PreparedTree<CellFrame<SumFloat>>,
    },
    Fold {
        counts: Option<RunningCounts>,
        state: FoldState,
        numbers: Box<dyn FoldedNumbers>,
    },
    Extreme {
        values: ArrayRef,
        rows: ExtremeRows,
    },
    End {
        values: ArrayRef,
        row: NthRow,
        valid: Option<ValidRows>,
    },
    Grouped,
}

/// The number of rows that count before each row. `None` if all rows count.
struct RunningCounts(Option<Vec<u32>>);

impl RunningCounts {
    fn new(mask: Option<&BooleanBuffer>, memory: &mut Reservation) -> Result<RunningCounts> {
        let Some(mask) = mask else { return Ok(RunningCounts(None)) };
        memory.grow(((mask.len() + 1) * size_of::<u32>()) as u64)?;
        let mut before = Vec::with_capacity(mask.len() + 1);
        let mut count = 0;
        before.push(0);
        before.extend(mask.iter().map(|counts| {
            count += u32::from(counts);
            count
        }));
        Ok(RunningCounts(Some(before)))
    }

    fn of(&self, ranges: impl Iterator<Item = Range<usize>>) -> Vec<u64> {
        match &self.0 {
            None => ranges.map(|range| range.len() as u64).collect(),
            Some(before) => ranges.map(|range| u64::from(before[range.end] - before[range.start])).collect(),
        }
    }
}

impl fmt::Debug for FrameColumns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FrameColumns").field("columns", &self.columns.lock().len()).finish_non_exhaustive()
    }
}

impl fmt::Debug for FrameAggregate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FrameAggregate").field("aggregate", &self.aggregate).finish_non_exhaustive()
    }
}

impl FrameColumns {
    /// No columns yet.
    pub(crate) fn new(broker: Broker, temp: TempSpace, cancel: Cancel) -> Result<FrameColumns> {
        let held = HeldRows::new(Vec::new())?;
        Ok(FrameColumns { columns: Mutex::default(), held, rows: SortedRows::default(), broker, temp, cancel })
    }

    /// Adds a column.
    pub(crate) fn set(&self, column: usize, values: ArrayRef) {
        self.columns.lock().insert(column, values);
    }

    /// Fails if the statement was cancelled.
    pub(crate) fn check(&self) -> Result<()> {
        self.cancel.check()
    }

    fn evaluation(&self) -> Evaluation<'_> {
        const NO_ORDER: &[SortKey] = &[];
        Evaluation {
            held: &self.held,
            rows: &self.rows,
            order: NO_ORDER,
            broker: &self.broker,
            temp: &self.temp,
            cancel: &self.cancel,
            running: None,
            columns: RefCell::new(self.columns.lock().clone()),
        }
    }
}

impl FrameAggregate {
    /// Prepares an aggregate over `rows` rows of `columns`, which must have those that it reads. Grows `memory` by what
    /// is kept.
    pub(crate) fn new(
        aggregate: &Aggregate,
        columns: &FrameColumns,
        rows: usize,
        memory: &mut Reservation,
    ) -> Result<FrameAggregate> {
        let evaluation = columns.evaluation();
        let form = FrameForm::new(aggregate, &evaluation, rows, memory)?;
        Ok(FrameAggregate { aggregate: aggregate.clone(), form })
    }

    /// Computes the aggregate over the frames from `starts` to `ends`. `columns` must be those for which it was
    /// prepared.
    pub(crate) fn results(&self, columns: &FrameColumns, starts: &[u32], ends: &[u32]) -> Result<ArrayRef> {
        let frames = starts.len();
        let ranges = || starts.iter().zip(ends).map(|(start, end)| *start as usize..*end as usize);
        let aggregate = &self.aggregate;
        Ok(match &self.form {
            FrameForm::Nothing => new_null_array(&aggregate.kind, frames),
            FrameForm::Count(counts) => {
                Arc::new(Int64Array::from_iter_values(counts.of(ranges()).into_iter().map(|count| count as i64)))
            }
            FrameForm::Exact { counts, totals, scale } => {
                let counts = counts.of(ranges());
                match totals {
                    ExactTotals::Narrow(before) => {
                        let totals: Vec<i64> = ranges().map(|range| before[range.end] - before[range.start]).collect();
                        narrow_results(aggregate, totals, &counts, *scale)?
                    }
                    exact => {
                        let totals: Vec<_> = ranges().map(|range| exact.of(range)).collect();
                        wide_results(aggregate, &totals, &counts, *scale)?
                    }
                }
            }
            FrameForm::ExactFloat { counts, totals } => {
                let totals = ranges().map(|range| totals.of(range)).collect();
                float_results(aggregate, totals, &counts.of(ranges()))
            }
            FrameForm::Float { counts, values, tree } => {
                let of_fold = |fold: &CellFrame<SumFloat>| shown(fold.0.total());
                let totals = tree.fold(values.values(), ranges(), of_fold);
                float_results(aggregate, totals, &counts.of(ranges()))
            }
            FrameForm::Fold { counts, state, numbers } => {
                let len = state.fold.initial().len();
                let mut words = Vec::with_capacity(frames * len);
                numbers.fold_ranges(&mut ranges(), &mut |cell| words.extend_from_slice(cell));
                let counts = counts.as_ref().map(|counts| counts.of(ranges()));
                let nulls = counts.and_then(|counts| validity(counts.into_iter().map(|count| count > 0)));
                state.result.column(words.chunks_exact(len), nulls, &aggregate.kind)?
            }
            FrameForm::Extreme { values, rows } => values_at(values, rows.of(ranges()).into_iter())?,
            FrameForm::End { values, row, valid } => {
                let found = ranges().map(|range| match valid {
                    None => row.among(0, std::slice::from_ref(&range)),
                    Some(valid) => {
                        let number = |at: usize| valid.before[at] as usize;
                        let numbers = number(range.start)..number(range.end);
                        row.among(0, std::slice::from_ref(&numbers)).map(|number| valid.positions[number] as usize)
                    }
                });
                values_at(values, found)?
            }
            FrameForm::Grouped => {
                let evaluation = columns.evaluation();
                regroup(aggregate, &Frames::of_ranges(&columns.rows, starts, ends), &evaluation)?
            }
        })
    }
}

impl FrameForm {
    fn new(
        aggregate: &Aggregate,
        evaluation: &Evaluation<'_>,
        rows: usize,
        memory: &mut Reservation,
    ) -> Result<FrameForm> {
        if aggregate.kind == DataType::Null {
            return Ok(FrameForm::Nothing);
        }
        if let Some(row) = AggregateRow::of(aggregate, &aggregate.kind)? {
            return FrameForm::of_row(aggregate, row, evaluation, memory);
        }
        let is_plain = aggregate.order.is_empty() && (!aggregate.distinct || aggregate.function.ignores_duplicates);
        match state_of(aggregate.function)? {
            AggregateState::Count if is_plain => {
                let values = match aggregate.argument {
                    Some(_) => Some(evaluation.column(argument(aggregate)?)?),
                    None => None,
                };
                let mask = plain_mask(aggregate, values.as_ref(), evaluation)?;
                Ok(FrameForm::Count(RunningCounts::new(mask.as_ref(), memory)?))
            }
            AggregateState::Total if is_plain => FrameForm::of_total(aggregate, evaluation, rows, memory),
            AggregateState::Fold(state) if is_plain => {
                let values = evaluation.argument_values(aggregate)?;
                let mask = plain_mask(aggregate, Some(&values), evaluation)?;
                let Some(form) = state.fold.form(values.data_type()) else {
                    return Err(Error::internal(format!("{} folds no numbers", aggregate.function.name)));
                };
                let counts = state.needs_count.then(|| RunningCounts::new(mask.as_ref(), memory)).transpose()?;
                // The numbers, and a tree with a seventh as many cells as numbers.
                let of_tree = size_of_val(state.fold.initial()) / 4;
                memory.grow((rows * (size_of::<u128>() + of_tree)) as u64)?;
                let numbers = state.fold.folded(StateNumbers::new(&values, form)?, mask)?;
                Ok(FrameForm::Fold { counts, state: *state, numbers })
            }
            // No algorithm of our own.
            _ => Ok(FrameForm::Grouped),
        }
    }

    /// An aggregate whose results are values of rows.
    fn of_row(
        aggregate: &Aggregate,
        row: AggregateRow,
        evaluation: &Evaluation<'_>,
        memory: &mut Reservation,
    ) -> Result<FrameForm> {
        let values = evaluation.column(argument(aggregate)?)?;
        Ok(match row {
            AggregateRow::Extreme => {
                let mask = plain_mask(aggregate, Some(&values), evaluation)?;
                let rows = extreme_rows(aggregate, &values, mask, evaluation, memory)?;
                FrameForm::Extreme { values: canonical(&values)?, rows }
            }
            AggregateRow::End(end) => {
                let valid = match aggregate.takes_nulls() {
                    true => None,
                    false => {
                        memory.grow((2 * (values.len() + 1) * size_of::<u32>()) as u64)?;
                        Some(ValidRows::new(values.nulls(), values.len()))
                    }
                };
                let row = match end {
                    FrameRow::First => NthRow::First,
                    FrameRow::Last => NthRow::Last,
                    FrameRow::Nth(_) => return Err(Error::internal("an aggregate returns the first or the last row")),
                };
                FrameForm::End { values: canonical(&values)?, row, valid }
            }
        })
    }

    fn of_total(
        aggregate: &Aggregate,
        evaluation: &Evaluation<'_>,
        rows: usize,
        memory: &mut Reservation,
    ) -> Result<FrameForm> {
        let values = evaluation.column(argument(aggregate)?)?;
        let mask = plain_mask(aggregate, Some(&values), evaluation)?;
        let counts = RunningCounts::new(mask.as_ref(), memory)?;
        if matches!(values.data_type(), DataType::Float32 | DataType::Float64) {
            memory.grow((rows * ExactFloats::BYTES) as u64)?;
            let values = cast(&values, &DataType::Float64).map_err(failed)?;
            let values = values.as_primitive::<Float64Type>().clone();
            if let Some(totals) = ExactFloats::new(values.values(), mask.as_ref()) {
                return Ok(FrameForm::ExactFloat { counts, totals });
            }
            // The values take half of what the totals would.
            memory.grow(PreparedTree::<CellFrame<SumFloat>>::bytes(rows))?;
            let tree = PreparedTree::new(values.values(), mask);
            return Ok(FrameForm::Float { counts, values, tree });
        }
        let before = memory.bytes();
        memory.grow((rows * ExactTotals::BYTES_MAX) as u64)?;
        let totals = ExactTotals::new(&values, mask.as_ref())?;
        memory.recount(before + totals.bytes());
        Ok(FrameForm::Exact { counts, totals, scale: scale_of(&values) })
    }
}

/// The values at some rows; NULL for no row.
fn values_at(values: &ArrayRef, rows: impl Iterator<Item = Option<usize>>) -> Result<ArrayRef> {
    if values.is_empty() {
        return Ok(new_null_array(values.data_type(), rows.count()));
    }
    let rows: UInt32Array = rows.map(|row| row.map(|row| row as u32)).collect();
    take(values, &rows, None).map_err(failed)
}
