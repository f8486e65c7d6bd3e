//! Computes the results of calls for the rows of some partitions.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, UInt32Array, new_empty_array};
use arrow::buffer::NullBuffer;
use arrow::compute::{interleave, take};
use arrow::datatypes::DataType;
use rowmill_base::{Broker, Cancel, Error, Result};
use rowmill_plan::logical::FrameRow;
use rowmill_plan::{Aggregate, Expr, FrameOffset, SortKey, WindowCall, WindowFunction};
use rowmill_storage::spill::TempSpace;

use super::WindowRequest;
use super::cells::{CellForm, Pick};
use super::extreme::extremes;
use super::failed;
use super::frame::{Frames, needs_peers};
use super::held::HeldRows;
use super::nth::{NthRow, nth_rows};
use super::rank::{ranks, tiles};
use super::regroup::regroup;
use super::running::RunningStates;
use super::shift::shifted;
use super::sorted::SortedRows;
use super::total::{can_mask_distinct, counts, folds, totals};
use crate::aggregate::{AggregateState, KeptValues, ValuesState, pairs_of, state_of};
use crate::sort::canonical;

/// The rows of some partitions, and everything that computing their results needs.
pub(super) struct Evaluation<'a> {
    pub(super) held: &'a HeldRows,
    pub(super) rows: &'a SortedRows,
    pub(super) order: &'a [SortKey],
    pub(super) broker: &'a Broker,
    pub(super) temp: &'a TempSpace,
    pub(super) cancel: &'a Cancel,
    /// The state that goes on from stretch to stretch of a partition, if the rows are such a stretch.
    pub(super) running: Option<RefCell<RunningStates>>,
    /// Columns in the order of the rows. Each is gathered when it is first needed.
    pub(super) columns: RefCell<BTreeMap<usize, ArrayRef>>,
}

/// The column whose values in other rows are the results of a call, and these rows.
pub(super) struct ResultRows {
    column: usize,
    default: Option<usize>,
    pub(super) rows: Vec<ResultRow>,
}

/// The results of a call by position.
pub(super) enum CallResults {
    Values(ArrayRef),
    /// Picks from the input. Array numbers count the batches of the column that the call reads, followed by the
    /// batches of its column of defaults.
    Picks(Vec<Pick>),
}

/// The row whose value is a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ResultRow(u32);

impl ResultRow {
    /// No row, so the result is NULL.
    pub(super) const NONE: ResultRow = ResultRow(u32::MAX);
    /// The row's own value in the column of defaults.
    pub(super) const DEFAULT: ResultRow = ResultRow(u32::MAX - 1);

    #[inline]
    pub(super) fn at(position: usize) -> ResultRow {
        ResultRow(position as u32)
    }

    /// The position of the row. `None` if the result is NULL or a default.
    pub(super) fn position(self) -> Option<usize> {
        (self != ResultRow::NONE && self != ResultRow::DEFAULT).then_some(self.0 as usize)
    }
}

/// The columns that a call's results are picked from: the column of values, and the column of defaults.
pub(super) fn picked_columns(call: &WindowCall) -> (Option<usize>, Option<usize>) {
    match &call.function {
        WindowFunction::Shift { value, default, .. } => (Some(*value), *default),
        WindowFunction::Nth { value, .. } => (Some(*value), None),
        WindowFunction::Aggregate(aggregate) => (argument(aggregate).ok(), None),
        WindowFunction::Rank(_) | WindowFunction::Ntile(_) => (None, None),
    }
}

/// Whether a call needs to know peers.
pub(super) fn call_needs_peers(call: &WindowCall) -> bool {
    match &call.function {
        WindowFunction::Rank(function) => *function != rowmill_plan::logical::RankFunction::RowNumber,
        WindowFunction::Ntile(_) | WindowFunction::Shift { .. } => false,
        WindowFunction::Aggregate(_) | WindowFunction::Nth { .. } => needs_peers(&call.frame),
    }
}

/// The column that is an aggregate's argument.
pub(super) fn argument(aggregate: &Aggregate) -> Result<usize> {
    match aggregate.argument {
        Some((expr, _)) => column_of(expr),
        None => Err(Error::internal(format!("{} must have an argument", aggregate.function.name))),
    }
}

/// The column that an expression of a call stands for. Other expressions must have been computed by a projection
/// below.
pub(super) fn column_of(expr: Expr) -> Result<usize> {
    match expr {
        Expr::Column(column) => Ok(column),
        Expr::Function(_) => Err(Error::internal("a window can only read columns, not expressions")),
    }
}

/// The row of a frame whose value an aggregate returns.
pub(super) enum AggregateRow {
    /// The row with the least or the greatest value.
    Extreme,
    /// The first or the last row.
    End(FrameRow<FrameOffset>),
}

impl AggregateRow {
    /// `None` if the aggregate's results, of type `kind`, are no values of the input.
    pub(super) fn of(aggregate: &Aggregate, kind: &DataType) -> Result<Option<AggregateRow>> {
        if aggregate.of_parts.is_some() {
            return Err(Error::internal("a window must not add up parts"));
        }
        let is_plain = aggregate.order.is_empty() && *kind != DataType::Null;
        Ok(match state_of(aggregate.function)? {
            AggregateState::Extreme { .. } if is_plain => Some(AggregateRow::Extreme),
            AggregateState::Values(ValuesState { kept: kept @ (KeptValues::First | KeptValues::Last), .. })
                if is_plain && !aggregate.distinct && aggregate.filter.is_none() =>
            {
                let is_first = *kept == KeptValues::First;
                Some(AggregateRow::End(if is_first { FrameRow::First } else { FrameRow::Last }))
            }
            _ => None,
        })
    }
}

impl<'a> Evaluation<'a> {
    pub(super) fn new(
        held: &'a HeldRows,
        rows: &'a SortedRows,
        WindowRequest { order, broker, temp, cancel, .. }: &'a WindowRequest,
    ) -> Evaluation<'a> {
        Evaluation { held, rows, order, broker, temp, cancel, running: None, columns: RefCell::default() }
    }

    /// Returns a column in the order of the rows.
    pub(super) fn column(&self, column: usize) -> Result<ArrayRef> {
        if let Some(values) = self.columns.borrow().get(&column) {
            return Ok(Arc::clone(values));
        }
        let values = self.held.gather(column, &self.rows.places)?;
        self.columns.borrow_mut().insert(column, Arc::clone(&values));
        Ok(values)
    }

    /// The values that an aggregate takes, in the order of the rows. Two arguments become one column of pairs.
    pub(super) fn argument_values(&self, aggregate: &Aggregate) -> Result<ArrayRef> {
        let first = self.column(argument(aggregate)?)?;
        match aggregate.more[..] {
            [] => Ok(first),
            [(second, _)] => pairs_of(&first, &self.column(column_of(second)?)?),
            _ => Err(Error::internal(format!("{} has more than two arguments", aggregate.function.name))),
        }
    }

    /// Computes the results of a call.
    pub(super) fn results(&self, call: &WindowCall) -> Result<CallResults> {
        // The code below may assume that there is at least one row, and thus a batch.
        if self.rows.len() == 0 {
            return Ok(CallResults::Values(new_empty_array(&call.kind)));
        }
        if let Some(rows) = self.rows_of(call)? {
            return self.values_of(&rows);
        }
        let values = match &call.function {
            WindowFunction::Rank(function) => ranks(*function, self.rows),
            WindowFunction::Ntile(parts) => tiles(parts, self)?,
            WindowFunction::Aggregate(aggregate) => self.aggregates(aggregate, call)?,
            WindowFunction::Shift { .. } | WindowFunction::Nth { .. } => {
                return Err(Error::internal("the result of a shift is the value of a row"));
            }
        };
        Ok(CallResults::Values(values))
    }

    /// The rows whose values are the results of a call. `None` if the results are no values of the input. There must be
    /// at least one row.
    pub(super) fn rows_of(&self, call: &WindowCall) -> Result<Option<ResultRows>> {
        let frames = || Frames::new(&call.frame, self.order, self);
        let (column, default, rows) = match &call.function {
            WindowFunction::Rank(_) | WindowFunction::Ntile(_) => return Ok(None),
            WindowFunction::Shift { value, offset, default, forward, skips_nulls } => {
                let rows = shifted(*value, offset.as_ref(), *forward, default.is_some(), *skips_nulls, self)?;
                (*value, *default, rows)
            }
            WindowFunction::Nth { value, nth, skips_nulls } => {
                let rows = nth_rows(*value, &NthRow::new(nth, self)?, *skips_nulls, &frames()?, self)?;
                (*value, None, rows)
            }
            WindowFunction::Aggregate(aggregate) => match AggregateRow::of(aggregate, &call.kind)? {
                None => return Ok(None),
                Some(AggregateRow::Extreme) => (argument(aggregate)?, None, extremes(aggregate, &frames()?, self)?),
                Some(AggregateRow::End(row)) => {
                    let (column, nth) = (argument(aggregate)?, NthRow::new(&row, self)?);
                    (column, None, nth_rows(column, &nth, !aggregate.takes_nulls(), &frames()?, self)?)
                }
            },
        };
        Ok(Some(ResultRows { column, default, rows }))
    }

    /// The values of rows.
    pub(super) fn values_of(&self, rows: &ResultRows) -> Result<CallResults> {
        self.values_of_rows(rows.column, rows.default, &rows.rows)
    }

    fn aggregates(&self, aggregate: &Aggregate, call: &WindowCall) -> Result<ArrayRef> {
        let frames = Frames::new(&call.frame, self.order, self)?;
        let state = state_of(aggregate.function)?;
        let can_be_distinct = aggregate.function.ignores_duplicates || can_mask_distinct(&frames);
        let is_plain = aggregate.order.is_empty() && (!aggregate.distinct || can_be_distinct);
        Ok(match state {
            _ if call.kind == DataType::Null => arrow::array::new_null_array(&call.kind, self.rows.len()),
            AggregateState::Count if is_plain => counts(aggregate, &frames, self)?,
            AggregateState::Total if is_plain => totals(aggregate, &frames, self)?,
            AggregateState::Fold(state) if is_plain => folds(aggregate, state, &frames, self)?,
            // No algorithm of our own: group the rows of each frame.
            _ => regroup(aggregate, &frames, self)?,
        })
    }

    /// The values of `column` in other rows, or of `default` in the row itself. Values without a fixed size are
    /// returned as picks.
    fn values_of_rows(&self, column: usize, default: Option<usize>, rows: &[ResultRow]) -> Result<CallResults> {
        let batches = &self.held.batches;
        let kind = batches[0].column(column).data_type().clone();
        if CellForm::of(&kind) == CellForm::Picked {
            let place = |(position, row): (usize, &ResultRow)| match *row {
                ResultRow::NONE => Pick::NULL,
                ResultRow::DEFAULT => {
                    let (batch, row) = self.rows.places[position];
                    Pick::new(batches.len() + batch, row)
                }
                ResultRow(of) => {
                    // Arrays are numbered by batch, as in `picked_columns`: first the values, then the defaults.
                    let (batch, row) = self.rows.places[of as usize];
                    Pick::new(batch, row)
                }
            };
            return Ok(CallResults::Picks(rows.iter().enumerate().map(place).collect()));
        }
        let values = self.column(column)?;
        let values = match default {
            None => {
                let has_none = rows.contains(&ResultRow::NONE);
                let nulls = has_none.then(|| rows.iter().map(|row| *row != ResultRow::NONE).collect::<NullBuffer>());
                // A NULL takes row 0, because every index must exist. The validity hides it.
                let rows = rows.iter().map(|row| if *row == ResultRow::NONE { 0 } else { row.0 });
                take(&values, &UInt32Array::new(rows.collect::<Vec<_>>().into(), nulls), None).map_err(failed)?
            }
            Some(default) => {
                let default = self.column(default)?;
                let null = arrow::array::new_null_array(&kind, 1);
                let item = |(position, row): (usize, &ResultRow)| match *row {
                    ResultRow::NONE => (2, 0),
                    ResultRow::DEFAULT => (1, position),
                    ResultRow(of) => (0, of as usize),
                };
                let items: Vec<(usize, usize)> = rows.iter().enumerate().map(item).collect();
                interleave(&[&*values as &dyn Array, &*default, &*null], &items).map_err(failed)?
            }
        };
        canonical(&values).map(CallResults::Values)
    }
}
