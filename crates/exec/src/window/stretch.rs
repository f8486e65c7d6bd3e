//! A stretch: consecutive rows in the order of a window, which are computed at once.
//!
//! ```text
//! rows of a partition   ....|--------------------|....
//!                        ^    own rows: these are     ^
//!                        |    returned                |
//!                        near rows before             near rows after
//! ```
//!
//! A stretch has whole partitions, except that its first one may have begun before it and its last one may go on after
//! it. Calls then see more than the own rows: near rows, or the one row that was the last result so far. Aggregates
//! over all rows so far go on with their state, and ranks with a number. See [`CallReach`].

use std::cell::RefCell;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Int64Array, RecordBatch};
use arrow::compute::filter_record_batch;
use arrow::datatypes::Int64Type;
use rowmill_base::{Error, Result};

use super::cells::picked;
use super::evaluate::{CallResults, Evaluation, picked_columns};
use super::held::{HeldPlace, HeldRows};
use super::running::{CallReach, RunningState, RunningStates};
use super::sorted::{SortedRows, boundaries};
use super::{OWNER, WindowRequest, failed};
use crate::share::batch_of;
use crate::sort::{canonical, copied};

/// The facts about a partition that goes on after a stretch.
#[derive(Debug)]
pub(super) struct OpenPartition {
    /// The number of its rows so far, and of their groups of peers.
    rows: u64,
    groups: u64,
    /// Its last rows, up to the number of rows that calls reach back.
    last: RecordBatch,
    /// For each call, the state of its aggregate.
    states: Vec<RunningState>,
    /// For each call, the row that was its last result.
    results: Vec<Option<RecordBatch>>,
}

impl OpenPartition {
    /// Counts the memory of its rows.
    pub(super) fn each_batch(&self, each: impl FnMut(&RecordBatch)) {
        std::iter::once(&self.last).chain(self.results.iter().flatten()).for_each(each);
    }
}

/// The rows of a stretch, and how its calls reach beyond them.
pub(super) struct StretchRows<'a> {
    pub(super) own: Vec<RecordBatch>,
    /// The next rows of the last partition, up to the number of rows that calls reach ahead.
    pub(super) ahead: Vec<RecordBatch>,
    /// The partition that the first row goes on with.
    pub(super) open: Option<OpenPartition>,
    /// The reach of each call. `None` if the stretch has whole partitions only.
    pub(super) reaches: Option<&'a [CallReach]>,
    /// Whether the last partition goes on after the stretch.
    pub(super) goes_on: bool,
    pub(super) needs_peers: bool,
}

/// Computes the own rows of a stretch. Returns them with the results of all calls, and the facts about the partition
/// that goes on.
pub(super) fn compute_stretch(
    rows: StretchRows<'_>,
    request: &WindowRequest,
) -> Result<(Vec<RecordBatch>, Option<OpenPartition>)> {
    let StretchRows { own, ahead, open, reaches, goes_on, needs_peers } = rows;
    let own_batches = own.len();
    let mut batches = own;
    let ahead = add_batches(&mut batches, ahead);
    let last = add_batches(&mut batches, open.iter().map(|open| open.last.clone()));
    let results: Vec<Vec<HeldPlace>> = (0..request.calls.len())
        .map(|call| add_batches(&mut batches, open.iter().filter_map(|open| open.results[call].clone())))
        .collect();
    let held = HeldRows::new(batches)?;
    let own = own_rows(&held, own_batches, request, needs_peers)?;
    let stretch = Stretch { request, held: &held, own, ahead, last, results, open: open.as_ref() };
    let mut next = OpenCalls::default();
    let mut columns = Vec::with_capacity(request.calls.len());
    for call in 0..request.calls.len() {
        request.cancel.check()?;
        let reach = reaches.map_or(CallReach::Partition, |reaches| reaches[call]);
        columns.push(stretch.column(call, reach, &mut next)?);
    }
    let goes_on = goes_on.then(|| stretch.open_partition(reaches.unwrap_or_default(), next)).transpose()?;
    Ok((stretch.batches(own_batches, &columns)?, goes_on))
}

/// Adds `more` to `batches`. Returns the places of their rows.
fn add_batches(batches: &mut Vec<RecordBatch>, more: impl IntoIterator<Item = RecordBatch>) -> Vec<HeldPlace> {
    let first = batches.len();
    batches.extend(more);
    batches[first..].iter().zip(first..).flat_map(|(batch, number)| places_of(number, batch)).collect()
}

fn places_of(number: usize, batch: &RecordBatch) -> impl Iterator<Item = HeldPlace> + use<> {
    (0..batch.num_rows()).map(move |row| (number, row))
}

/// The own rows of a stretch: those of the first `batches` batches.
fn own_rows(held: &HeldRows, batches: usize, request: &WindowRequest, needs_peers: bool) -> Result<SortedRows> {
    let own = &held.batches[..batches];
    let places: Vec<HeldPlace> = own.iter().enumerate().flat_map(|(number, batch)| places_of(number, batch)).collect();
    let partitions = borders(own, &request.partition)?;
    let peers = match needs_peers {
        true => {
            let order = request.order.iter().map(|key| key.column);
            borders(own, &request.partition.iter().copied().chain(order).collect::<Vec<_>>())?
        }
        false => Vec::new(),
    };
    Ok(SortedRows { places, partitions, peers })
}

/// The positions at which rows of batches differ in `columns` from the row before, with both ends.
pub(super) fn borders(batches: &[RecordBatch], columns: &[usize]) -> Result<Vec<usize>> {
    let rows = batches.iter().map(RecordBatch::num_rows).sum();
    let whole = columns.iter().map(|column| {
        let parts: Vec<&dyn Array> = batches.iter().map(|batch| &**batch.column(*column)).collect();
        // Zeros of both signs are in one partition, and so are all NaNs.
        canonical(&arrow::compute::concat(&parts).map_err(failed)?)
    });
    boundaries(&whole.collect::<Result<Vec<_>>>()?, rows)
}

/// What the calls leave for the next stretch.
#[derive(Default)]
struct OpenCalls {
    states: Vec<RunningState>,
    results: Vec<Option<HeldPlace>>,
}

struct Stretch<'a> {
    request: &'a WindowRequest,
    held: &'a HeldRows,
    own: SortedRows,
    ahead: Vec<HeldPlace>,
    last: Vec<HeldPlace>,
    /// For each call, the row that was its last result, if there is one.
    results: Vec<Vec<HeldPlace>>,
    open: Option<&'a OpenPartition>,
}

impl Stretch<'_> {
    /// The results of a call for the own rows.
    fn column(&self, number: usize, reach: CallReach, next: &mut OpenCalls) -> Result<ArrayRef> {
        let call = &self.request.calls[number];
        let front = match reach {
            CallReach::Row => &self.results[number][..],
            CallReach::Near { before, .. } => &self.last[self.last.len().saturating_sub(before)..],
            _ => &[],
        };
        let back = match reach {
            CallReach::Near { after, .. } => &self.ahead[..after.min(self.ahead.len())],
            _ => &[],
        };
        let rows = self.rows_between(front, back);
        let own = front.len()..front.len() + self.own.len();
        let mut evaluation = Evaluation::new(self.held, &rows, self.request);
        if reach == CallReach::State {
            let before = self.open.map(|open| open.states[number].clone()).unwrap_or_default();
            evaluation.running = Some(RefCell::new(RunningStates::new(before)));
        }
        let mut result = None;
        let results = match (reach, evaluation.rows_of(call)?) {
            (CallReach::Row, Some(of_rows)) => {
                let last = of_rows.rows[own.end - 1].position();
                result = last.map(|position| rows.places[position]);
                evaluation.values_of(&of_rows)?
            }
            (_, Some(of_rows)) => evaluation.values_of(&of_rows)?,
            (_, None) => evaluation.results(call)?,
        };
        next.results.push(result);
        let running = evaluation.running.take().map(RefCell::into_inner);
        next.states.push(running.map(|running| running.after).unwrap_or_default());
        let values = self.values(number, results, own)?;
        match (reach, self.open) {
            (CallReach::Count { of_groups }, Some(open)) => {
                self.counted_on(&values, if of_groups { open.groups } else { open.rows })
            }
            _ => Ok(values),
        }
    }

    /// The own rows with further rows of the first partition before them and of the last one after them.
    fn rows_between(&self, front: &[HeldPlace], back: &[HeldPlace]) -> SortedRows {
        let (own, moved) = (&self.own, front.len());
        let places: Vec<HeldPlace> = [front, &own.places, back].concat();
        let mut partitions: Vec<usize> = own.partitions.iter().map(|start| start + moved).collect();
        let last = partitions.len() - 1;
        (partitions[0], partitions[last]) = (0, places.len());
        // The rows before are no peers of the own rows, because a stretch begins with a group. Calls with rows after do
        // not ask for peers.
        let first = (moved > 0 && !own.peers.is_empty()).then_some(0);
        let peers = first.into_iter().chain(own.peers.iter().map(|start| start + moved)).collect();
        SortedRows { places, partitions, peers }
    }

    /// The results at positions as an array.
    fn values(&self, number: usize, results: CallResults, own: Range<usize>) -> Result<ArrayRef> {
        let call = &self.request.calls[number];
        let picks = match results {
            CallResults::Values(values) => return Ok(values.slice(own.start, own.len())),
            CallResults::Picks(picks) => picks,
        };
        let (values, defaults) = picked_columns(call);
        let batches = &self.held.batches;
        let arrays: Vec<&dyn Array> = (values.into_iter().chain(defaults))
            .flat_map(|column| batches.iter().map(move |batch| &**batch.column(column)))
            .collect();
        picked(&call.kind, &arrays, picks[own].iter().copied())
    }

    /// Adds the number `before` to the ranks of the rows of the first partition.
    fn counted_on(&self, ranks: &ArrayRef, before: u64) -> Result<ArrayRef> {
        let Some(ranks) = ranks.as_primitive_opt::<Int64Type>() else {
            return Err(Error::internal("a rank must be a number"));
        };
        let first = self.own.partitions[1];
        let ranks = ranks.values().iter().enumerate();
        let ranks = ranks.map(|(row, rank)| if row < first { rank + before as i64 } else { *rank });
        Ok(Arc::new(Int64Array::from_iter_values(ranks)))
    }

    /// What the next stretch needs to know of the last partition.
    fn open_partition(&self, reaches: &[CallReach], calls: OpenCalls) -> Result<OpenPartition> {
        let own = &self.own;
        let start = own.partitions[own.partitions.len() - 2];
        // The partition may have begun before this stretch.
        let open = self.open.filter(|_| start == 0);
        let groups = own.peers.iter().filter(|peers| (start..own.len()).contains(peers)).count();
        let before = |reach: &CallReach| if let CallReach::Near { before, .. } = reach { *before } else { 0 };
        let before = reaches.iter().map(before).max().unwrap_or_default();
        let earlier = if open.is_some() { &self.last[..] } else { &[] };
        let lacking = before.saturating_sub(own.len() - start).min(earlier.len());
        let mut last = earlier[earlier.len() - lacking..].to_vec();
        last.extend_from_slice(&own.places[start.max(own.len().saturating_sub(before))..]);
        let results = calls.results.iter().map(|place| place.map(|place| self.copied_rows(&[place])).transpose());
        Ok(OpenPartition {
            rows: open.map_or(0, |open| open.rows) + (own.len() - start) as u64,
            groups: open.map_or(0, |open| open.groups) + groups as u64,
            last: self.copied_rows(&last)?,
            states: calls.states,
            results: results.collect::<Result<_>>()?,
        })
    }

    /// Copies of rows, which keep nothing else in memory.
    fn copied_rows(&self, places: &[HeldPlace]) -> Result<RecordBatch> {
        let schema = self.held.batches[0].schema_ref();
        let columns = (0..schema.fields().len()).map(|column| copied(&self.held.gather(column, places)?));
        batch_of(OWNER, schema, columns.collect::<Result<_>>()?, places.len())
    }

    /// The own rows with their results, without those after the limit.
    fn batches(&self, own: usize, results: &[ArrayRef]) -> Result<Vec<RecordBatch>> {
        let mut given = Vec::with_capacity(own);
        let mut start = 0;
        for batch in &self.held.batches[..own] {
            let rows = batch.num_rows();
            let columns = batch.columns().iter().cloned();
            let columns = columns.chain(results.iter().map(|column| column.slice(start, rows))).collect();
            let batch = batch_of(OWNER, &self.request.schema, columns, rows)?;
            start += rows;
            let batch = match self.request.limit {
                Some(limit) => first_rows(&batch, batch.num_columns() - results.len(), limit)?,
                None => batch,
            };
            if batch.num_rows() > 0 {
                given.push(batch);
            }
        }
        Ok(given)
    }
}

/// The rows of a batch whose rank in `column` is at most `limit`.
fn first_rows(batch: &RecordBatch, column: usize, limit: usize) -> Result<RecordBatch> {
    let Some(ranks) = batch.column(column).as_primitive_opt::<Int64Type>() else {
        return Err(Error::internal("the first call of a window with a limit must be a rank"));
    };
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let is_first: BooleanArray = ranks.values().iter().map(|rank| Some(*rank <= limit)).collect();
    filter_record_batch(batch, &is_first).map_err(failed)
}
