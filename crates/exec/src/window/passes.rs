//! Calls that need all rows of their partition, in two passes over a partition that is larger than memory.
//!
//! The first pass computes the partition in stretches, with another call in place of each of these, and writes the rows
//! with the results to disk. The second pass reads them and makes the results. For example, the total of a partition
//! is its running total in the last row, and a percent rank is a rank, divided when the number of rows is known.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Float64Array, Int64Array, RecordBatch, UInt32Array};
use arrow::compute::take;
use arrow::datatypes::{DataType, Field, Int64Type, Schema, SchemaRef};
use rowmill_base::{Error, Result};
use rowmill_plan::logical::{
    FrameBound, FrameExclude, FrameRow, FrameUnit, RankFunction, WindowFrame, share_of_rank, tile_of_row,
};
use rowmill_plan::{FrameOffset, WindowCall, WindowFunction};

use super::running::{CallReach, constant};
use super::{OWNER, WindowRequest, failed};
use crate::batch::{BatchSource, Batches};
use crate::share::batch_of;
use crate::sort::copied;
use crate::spill_buckets::{BucketRequest, BucketWriter, SpillSizes, SpilledRows, SpilledRowsForm};

/// How the second pass makes the result of a call from that of the first pass.
#[derive(Clone, Copy, Debug)]
pub(super) enum SecondPass {
    /// It is the same.
    Same,
    /// The result of the last row is that of all rows.
    Last,
    /// A rank becomes a percent rank.
    PercentRank,
    /// The number of a row becomes the number of its part.
    Tile { parts: i64 },
}

/// The calls of a window, for two passes.
#[derive(Debug)]
pub(super) struct TwoPasses {
    /// The request of the first pass.
    pub(super) request: WindowRequest,
    pub(super) reaches: Vec<CallReach>,
    second: Vec<SecondPass>,
}

impl TwoPasses {
    /// The passes over the rows of `schema`. `None` if a call cannot be computed in this way.
    pub(super) fn of(request: &WindowRequest, schema: &SchemaRef) -> Result<Option<TwoPasses>> {
        // A limit leaves out rows by the first call, and the last row of a partition must stay.
        if request.limit.is_some() {
            return Ok(None);
        }
        let (mut calls, mut reaches, mut second) = (Vec::new(), Vec::new(), Vec::new());
        for call in &request.calls {
            let (call, pass) = first_call(call, request.order.is_empty());
            reaches.push(CallReach::of(&call)?);
            second.push(pass);
            calls.push(call);
        }
        if reaches.contains(&CallReach::Partition) {
            return Ok(None);
        }
        let results = calls.iter().map(|call| Arc::new(Field::new("", call.kind.clone(), true)));
        let schema = Arc::new(Schema::new(schema.fields().iter().cloned().chain(results).collect::<Vec<_>>()));
        Ok(Some(TwoPasses { request: WindowRequest { calls, schema, ..request.clone() }, reaches, second }))
    }
}

/// The call of the first pass in place of `call`.
pub(super) fn first_call(call: &WindowCall, are_peers: bool) -> (WindowCall, SecondPass) {
    let rank = |function: RankFunction| WindowCall {
        function: WindowFunction::Rank(function),
        kind: DataType::Int64,
        ..call.clone()
    };
    match &call.function {
        WindowFunction::Rank(RankFunction::PercentRank) => (rank(RankFunction::Rank), SecondPass::PercentRank),
        WindowFunction::Ntile(parts) => match constant(parts) {
            // Other numbers of parts are an error or NULL.
            Some(parts @ 1..) => (rank(RankFunction::RowNumber), SecondPass::Tile { parts }),
            _ => (call.clone(), SecondPass::Same),
        },
        WindowFunction::Aggregate(_) | WindowFunction::Nth { nth: FrameRow::First | FrameRow::Last, .. }
            if is_partition(&call.frame, are_peers) =>
        {
            (WindowCall { frame: WindowFrame::up_to_current(FrameUnit::Rows), ..call.clone() }, SecondPass::Last)
        }
        _ => (call.clone(), SecondPass::Same),
    }
}

/// Whether each frame is the whole partition. `are_peers` says whether all rows of a partition are peers.
fn is_partition(frame: &WindowFrame<FrameOffset>, are_peers: bool) -> bool {
    let is_whole = |bound: &FrameBound<FrameOffset>| match bound {
        FrameBound::Unbounded => true,
        FrameBound::CurrentRow => are_peers && frame.unit != FrameUnit::Rows,
        FrameBound::Preceding(_) | FrameBound::Following(_) => false,
    };
    frame.exclude == FrameExclude::NoOthers && is_whole(&frame.start) && is_whole(&frame.end)
}

/// Writes the rows of a partition in the first pass.
pub(super) struct FirstPass {
    writer: BucketWriter,
    rows: usize,
    last: Option<RecordBatch>,
}

impl FirstPass {
    pub(super) fn new(passes: &TwoPasses) -> FirstPass {
        let request = &passes.request;
        let rows = BucketRequest {
            owner: OWNER,
            schema: &request.schema,
            used: &(0..request.schema.fields().len()).collect::<Vec<_>>(),
            keys: Vec::new(),
            nulls_equal: true,
            keeps_keyless: true,
            depth: 0,
            // One bucket keeps the rows in their order.
            sizes: SpillSizes { bucket_bits: 0, ..SpillSizes::usual() },
            all_equal: false,
        };
        FirstPass { writer: BucketWriter::new(rows, &request.broker, &request.temp), rows: 0, last: None }
    }

    /// Adds the next rows, with the results of the first pass.
    pub(super) fn add(&mut self, batch: &RecordBatch) -> Result<()> {
        self.rows += batch.num_rows();
        self.last = Some(batch.slice(batch.num_rows() - 1, 1));
        self.writer.add(batch.columns().to_vec(), batch.num_rows())
    }

    /// Begins the second pass, whose rows have the columns of `schema`.
    pub(super) fn finish(self, passes: &TwoPasses, schema: &SchemaRef) -> Result<PartitionPass> {
        let request = &passes.request;
        let written = self.writer.finish()?.buckets.into_iter().flatten().collect();
        let rows = SpilledRows::new(OWNER, &request.schema, written, SpilledRowsForm::Passing);
        let last = self.last.ok_or_else(|| Error::internal("a partition has rows"))?;
        let inputs = schema.fields().len() - request.calls.len();
        let last = last.columns()[inputs..].iter().map(copied).collect::<Result<_>>()?;
        Ok(PartitionPass {
            batches: rows.worker(),
            schema: Arc::clone(schema),
            rows: self.rows,
            last,
            second: passes.second.clone(),
        })
    }
}

/// The second pass over the rows of a partition.
pub(super) struct PartitionPass {
    batches: Batches,
    schema: SchemaRef,
    rows: usize,
    /// The results of the first pass for the last row, by call.
    last: Vec<ArrayRef>,
    second: Vec<SecondPass>,
}

impl PartitionPass {
    /// The next rows with their results.
    pub(super) fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        let Some(batch) = self.batches.next().transpose()? else { return Ok(None) };
        let (inputs, first) = batch.columns().split_at(batch.num_columns() - self.second.len());
        let mut columns = inputs.to_vec();
        for ((column, last), second) in first.iter().zip(&self.last).zip(&self.second) {
            columns.push(self.result(column, last, *second)?);
        }
        batch_of(OWNER, &self.schema, columns, batch.num_rows()).map(Some)
    }

    fn result(&self, first: &ArrayRef, last: &ArrayRef, second: SecondPass) -> Result<ArrayRef> {
        let ranks = || first.as_primitive::<Int64Type>().values().iter();
        Ok(match second {
            SecondPass::Same => Arc::clone(first),
            SecondPass::Last => take(last, &UInt32Array::from_value(0, first.len()), None).map_err(failed)?,
            SecondPass::PercentRank => {
                let share = |rank: &i64| share_of_rank((rank - 1) as usize, self.rows);
                Arc::new(Float64Array::from_iter_values(ranks().map(share)))
            }
            SecondPass::Tile { parts } => {
                let part = |row: &i64| tile_of_row(row - 1, self.rows as i64, parts);
                Arc::new(Int64Array::from_iter_values(ranks().map(part)))
            }
        })
    }
}
