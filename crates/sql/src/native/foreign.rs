//! Plans of DataFusion's below operators of the engine's.

use std::sync::mpsc::RecvTimeoutError;
use std::sync::{Arc, OnceLock};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::common::Result as PlanResult;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::execution::TaskContext;
use datafusion::logical_expr::LogicalPlan;
use datafusion::logical_expr::logical_plan::{FetchType, SkipType};
use datafusion::physical_plan::ExecutionPlan;
use parking_lot::Mutex;
use rowmill_base::{Cancel, Result, SqlType};
use rowmill_exec::batch::{BatchSource, Batches};
use rowmill_exec::share::{share, with_nulls};
use rowmill_plan::{self as plan, Node};

use super::lowering::{Lowered, Lowerer};
use super::rows::Rows;
use crate::operators::{Operators, POLL};
use crate::table_scan::conform;

/// Rows that a plan is believed to give of which nothing is known.
const ROWS_UNKNOWN: u64 = 100_000;

impl Lowerer<'_> {
    /// A plan that DataFusion runs as an operator; `None` if it gives columns of types that the engine does not know.
    pub(super) fn over_border(&mut self, plan: &LogicalPlan) -> PlanResult<Option<Rows>> {
        let schema = plan.schema();
        let is_ours = |kind| SqlType::from_arrow(kind).is_some_and(|ours| ours.arrow() == *kind);
        if !schema.fields().iter().all(|field| is_ours(field.data_type())) {
            return Ok(None);
        }
        let named = self.named(schema.fields())?;
        let rows = expected_rows(plan)?;
        let foreign = plan::Foreign { plan: self.foreign.len(), rows, schema: with_nulls(schema.inner()) };
        self.foreign.push(plan.clone());
        Ok(Some(Rows::new(Node::Foreign(foreign), named, true)))
    }
}

/// Whether the engine should run `plan` over inputs some of which are DataFusion's: what it keeps in memory it keeps
/// better, and other operators gain nothing from a border below them.
pub(super) fn is_worth_a_border(plan: &LogicalPlan, inputs: &[Lowered]) -> bool {
    let some_native = inputs.iter().any(|input| matches!(input, Lowered::Native(_)));
    match plan {
        LogicalPlan::Join(_) | LogicalPlan::Union(_) => some_native,
        LogicalPlan::Aggregate(aggregate) => !aggregate.group_expr.is_empty(),
        _ => false,
    }
}

/// A guess at the rows of a plan.
fn expected_rows(plan: &LogicalPlan) -> PlanResult<u64> {
    let mut rows = None;
    plan.apply(|node| {
        let of_node = match node {
            LogicalPlan::Values(values) => Some(values.values.len()),
            LogicalPlan::EmptyRelation(empty) => Some(usize::from(empty.produce_one_row)),
            LogicalPlan::Limit(limit) => match (limit.get_skip_type()?, limit.get_fetch_type()?) {
                (SkipType::Literal(_), FetchType::Literal(fetch)) => fetch,
                _ => None,
            },
            LogicalPlan::Aggregate(aggregate) if aggregate.group_expr.is_empty() => Some(1),
            _ => None,
        };
        rows = of_node.map(|rows| rows as u64);
        // Of several inputs nothing is known, and neither is of what is filtered.
        let goes_on = rows.is_none() && node.inputs().len() == 1;
        Ok(if goes_on { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
    })?;
    Ok(rows.unwrap_or(ROWS_UNKNOWN))
}

/// The batches of a plan of DataFusion's.
pub(super) struct ForeignSource {
    plan: Arc<dyn ExecutionPlan>,
    task: Arc<TaskContext>,
    schema: SchemaRef,
    cancel: Cancel,
    threads: usize,
    running: OnceLock<Mutex<Operators>>,
}

impl std::fmt::Debug for ForeignSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ForeignSource").field("plan", &self.plan.name()).finish_non_exhaustive()
    }
}

impl ForeignSource {
    /// The batches of `plan`, for `threads` workers.
    pub(super) fn new(
        plan: Arc<dyn ExecutionPlan>,
        task: Arc<TaskContext>,
        cancel: Cancel,
        threads: usize,
    ) -> ForeignSource {
        let schema = with_nulls(&plan.schema());
        ForeignSource { plan, task, schema, cancel, threads, running: OnceLock::new() }
    }

    /// The next batch for anybody.
    fn next_batch(&self) -> Result<Option<RecordBatch>> {
        let start = || Mutex::new(Operators::start(Arc::clone(&self.plan), Arc::clone(&self.task)));
        let running = self.running.get_or_init(start);
        loop {
            let received = running.lock().receive(POLL);
            match received {
                Ok(batch) => {
                    let batch = batch?;
                    if batch.num_rows() > 0 {
                        return conform(batch, &self.schema, None).map(Some);
                    }
                }
                Err(RecvTimeoutError::Timeout) => self.cancel.check()?,
                Err(RecvTimeoutError::Disconnected) => return Ok(None),
            }
        }
    }
}

impl BatchSource for ForeignSource {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn parallelism(&self) -> usize {
        self.threads
    }

    fn worker(self: Arc<Self>) -> Batches {
        // The worker may be a thread of the pool that the operators wait for.
        share(move || tokio::task::block_in_place(|| self.next_batch()))
    }
}
