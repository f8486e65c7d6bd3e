//! Aggregates of frames as groups, for aggregates without an algorithm of their own.
//!
//! We copy the rows of each frame, with the number of the frame as their first column, and group by that number. Every
//! aggregate that GROUP BY can compute therefore works here, too. Neighbouring frames that are equal become one group.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, RecordBatch, UInt32Array, UInt64Array, new_null_array};
use arrow::compute::{interleave, take};
use arrow::datatypes::{DataType, Field, Schema, UInt64Type};
use rowmill_base::{Reservation, Result};
use rowmill_plan::{Aggregate, AggregateOrder, AggregateOrdering, Expr, Group, GroupKey};

use super::OWNER;
use super::evaluate::{Evaluation, column_of};
use super::failed;
use super::frame::Frames;
use crate::aggregate::PAIR;
use crate::batch::BatchSource;
use crate::group::{GroupRequest, group_batches};
use crate::scan::FRAME_ROWS_MAX;
use crate::share::batch_of;
use crate::values::ReadyBatches;

/// The rows of frames that are grouped at once, not counting the rest of the last frame. It bounds the memory of a
/// worker; fewer rows would start more groupings.
const ROWS_AT_ONCE: usize = FRAME_ROWS_MAX;

/// The columns of a row before the columns that the aggregate reads: the frame number, and the position of the row.
const COLUMNS_BEFORE: usize = 2;

/// Computes the results of an aggregate.
pub(super) fn regroup(aggregate: &Aggregate, frames: &Frames<'_>, evaluation: &Evaluation<'_>) -> Result<ArrayRef> {
    let regrouping = Regrouping::new(aggregate, evaluation)?;
    let (mut positions, mut numbers) = (Vec::new(), Vec::new());
    // The batch and the row of each frame's result. The first batch has the result for frames without rows.
    let mut results: Vec<(usize, usize)> = Vec::new();
    let mut batches = vec![empty_result(aggregate)];
    // Results may be far larger than the rows. For example, array_agg with a growing frame lists all rows before each
    // row.
    let mut memory = evaluation.broker.reservation(OWNER);
    let mut of_row = Vec::new();
    let mut last: Option<[Range<usize>; 3]> = None;
    let mut add = |position: usize, pieces: [Range<usize>; 3]| -> Result<()> {
        if last.as_ref() != Some(&pieces) {
            for piece in &pieces {
                numbers.extend(std::iter::repeat_n(results.len() as u64, piece.len()));
                positions.extend(piece.clone().map(|position| position as u32));
            }
            // Until the frame is grouped, its result is the one for no rows.
            results.push((0, 0));
            last = Some(pieces);
            if positions.len() >= ROWS_AT_ONCE {
                regrouping.group(&mut numbers, &mut positions, &mut results, &mut batches, &mut memory)?;
            }
        }
        debug_assert_eq!(of_row.len(), position, "rows must come in order");
        of_row.push(results.len() - 1);
        Ok(())
    };
    if frames.are_partitions() {
        for partition in evaluation.rows.each_partition() {
            let end = partition.end;
            partition.clone().try_for_each(|position| add(position, [partition.clone(), end..end, end..end]))?;
        }
    } else {
        (0..frames.len()).try_for_each(|position| add(position, frames.pieces(position)))?;
    }
    regrouping.group(&mut numbers, &mut positions, &mut results, &mut batches, &mut memory)?;
    let of_row: Vec<(usize, usize)> = of_row.into_iter().map(|frame| results[frame]).collect();
    // The final array is a copy of all results, so it needs about the same memory again.
    memory.grow(memory.bytes())?;
    let batches: Vec<&dyn Array> = batches.iter().map(|batch| &**batch).collect();
    interleave(&batches, &of_row).map_err(failed)
}

/// The result of an aggregate over no rows, as an array of one value.
fn empty_result(aggregate: &Aggregate) -> ArrayRef {
    match (aggregate.function.is_zero_of_nothing, &aggregate.kind) {
        (false, kind) => new_null_array(kind, 1),
        (true, DataType::UInt64) => Arc::new(UInt64Array::from(vec![0])),
        (true, _) => Arc::new(Int64Array::from(vec![0])),
    }
}

struct Regrouping<'a> {
    group: Group,
    /// The columns that the aggregate reads, in the order of the positions.
    columns: Vec<ArrayRef>,
    input: Arc<Schema>,
    output: Arc<Schema>,
    evaluation: &'a Evaluation<'a>,
}

impl<'a> Regrouping<'a> {
    fn new(aggregate: &Aggregate, evaluation: &'a Evaluation<'a>) -> Result<Regrouping<'a>> {
        let mut aggregate = aggregate.clone();
        let mut columns = Vec::new();
        // The grouping takes two arguments as one column of pairs, which comes first.
        let takes_pairs = !aggregate.more.is_empty();
        if takes_pairs {
            columns.push(evaluation.argument_values(&aggregate)?);
            aggregate.more.clear();
            aggregate.argument = None;
        }
        for expr in aggregate.exprs_mut() {
            columns.push(evaluation.column(column_of(*expr)?)?);
            *expr = Expr::Column(COLUMNS_BEFORE + columns.len() - 1);
        }
        if takes_pairs {
            aggregate.argument = Some((Expr::Column(COLUMNS_BEFORE), PAIR));
        }
        // These aggregates depend on the order of rows. Without an ORDER BY of its own, the aggregate uses the
        // window's order, that is, the position.
        let keeps_order = aggregate.function.ordering == AggregateOrdering::OfRows;
        if keeps_order && aggregate.order.is_empty() && !aggregate.distinct {
            let (kind, expr) = (DataType::UInt32, Expr::Column(1));
            aggregate.order.push(AggregateOrder { expr, kind, descending: false, nulls_first: false });
        }
        let field = |kind: &DataType, nullable| Field::new("", kind.clone(), nullable);
        let mut fields = vec![field(&DataType::UInt64, false), field(&DataType::UInt32, false)];
        fields.extend(columns.iter().map(|column| field(column.data_type(), true)));
        let output = vec![field(&DataType::UInt64, false), field(&aggregate.kind, true)];
        let key = GroupKey { expr: Expr::Column(0), kind: DataType::UInt64, nullable: false };
        let group = Group { predicates: Vec::new(), keys: vec![key], aggregates: vec![aggregate], always: Vec::new() };
        let (input, output) = (Arc::new(Schema::new(fields)), Arc::new(Schema::new(output)));
        Ok(Regrouping { group, columns, input, output, evaluation })
    }

    /// Groups the rows of whole frames, which it takes from `numbers` and `positions`, and records where the results
    /// are.
    fn group(
        &self,
        numbers: &mut Vec<u64>,
        positions: &mut Vec<u32>,
        results: &mut [(usize, usize)],
        batches: &mut Vec<ArrayRef>,
        kept: &mut Reservation,
    ) -> Result<()> {
        self.evaluation.cancel.check()?;
        if positions.is_empty() {
            return Ok(());
        }
        let rows = positions.len();
        let mut memory = self.evaluation.broker.scratch(OWNER);
        memory.grow((rows * (16 + 16 * self.columns.len())) as u64)?;
        let positions = UInt32Array::from(std::mem::take(positions));
        let mut columns: Vec<ArrayRef> =
            vec![Arc::new(UInt64Array::from(std::mem::take(numbers))), Arc::new(positions.clone())];
        for column in &self.columns {
            columns.push(take(column, &positions, None).map_err(failed)?);
        }
        let batch: RecordBatch = batch_of(OWNER, &self.input, columns, rows)?;
        let input = ReadyBatches::new(Arc::clone(&self.input), vec![batch]);
        let request = GroupRequest {
            group: self.group.clone(),
            functions: Vec::new(),
            schema: Arc::clone(&self.output),
            top: None,
            limit: None,
            only_presence: false,
            batch_rows: ROWS_AT_ONCE,
            threads: 1,
            cancel: self.evaluation.cancel.clone(),
            broker: self.evaluation.broker.clone(),
            temp: self.evaluation.temp.clone(),
            metrics: Arc::default(),
            counts_workers: true,
        };
        let groups = group_batches(|_| Ok(input as Arc<dyn BatchSource>), request, |column| column >= COLUMNS_BEFORE)?;
        for batch in groups.worker() {
            let batch = batch?;
            for (row, frame) in batch.column(0).as_primitive::<UInt64Type>().values().iter().enumerate() {
                results[*frame as usize] = (batches.len(), row);
            }
            kept.grow(batch.column(1).get_array_memory_size() as u64)?;
            batches.push(Arc::clone(batch.column(1)));
        }
        Ok(())
    }
}
