//! DataFusion's operators: planned, and at work on their own pool of threads, their batches in a short queue.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use arrow::array::RecordBatch;
use datafusion::common::Result as PlanResult;
use datafusion::execution::{SessionState, TaskContext};
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use futures::{FutureExt, StreamExt};
use rowmill_base::Result;
use tokio::sync::Semaphore;
use tokio::task::AbortHandle;

use crate::catalog::StatementContext;
use crate::errors::{NoCandidates, from_datafusion, from_panic};
use crate::guards::{guard_joins, guard_plan};
use crate::runtime;

/// Batches that are worked out before anybody asks for them.
pub(crate) const BATCHES_AHEAD: usize = 4;

/// How often who waits for a batch looks whether the statement has to end.
pub(crate) const POLL: Duration = Duration::from_millis(20);

/// The operators of a plan that DataFusion runs, with places where they look at the cancel flag.
pub(crate) async fn plan(
    plan: LogicalPlan,
    state: &SessionState,
    context: &StatementContext,
) -> PlanResult<Arc<dyn ExecutionPlan>> {
    let plan = guard_joins(plan, &context.cancel)?;
    let plan = state.query_planner().create_physical_plan(&plan, state).await?;
    guard_plan(plan, &context.cancel, context.settings.number("recursion_max"))
}

/// A plan of DataFusion's that runs. Dropping it ends the work.
#[derive(Debug)]
pub(crate) struct Operators {
    batches: Receiver<Result<RecordBatch>>,
    /// Given back for every batch that is taken.
    room: Arc<Semaphore>,
    task: AbortHandle,
}

impl Operators {
    /// Puts the operators of `plan` to work.
    pub(crate) fn start(plan: Arc<dyn ExecutionPlan>, task: Arc<TaskContext>) -> Operators {
        let (sender, batches) = channel();
        let room = Arc::new(Semaphore::new(BATCHES_AHEAD));
        let work = produce(plan, task, sender.clone(), Arc::clone(&room));
        let task = runtime::handle().spawn(async move {
            if let Err(panic) = AssertUnwindSafe(work).catch_unwind().await {
                // Nobody listens any more when this fails.
                let _ = sender.send(Err(from_panic(&*panic)));
            }
        });
        Operators { batches, room, task: task.abort_handle() }
    }

    /// Waits for the next batch, for so long at most. When all were taken the queue is disconnected.
    pub(crate) fn receive(&self, patience: Duration) -> Result<Result<RecordBatch>, RecvTimeoutError> {
        self.batches.recv_timeout(patience).inspect(|_| self.room.add_permits(1))
    }
}

impl Drop for Operators {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Runs the operators and queues their batches while there is room.
async fn produce(
    plan: Arc<dyn ExecutionPlan>,
    task: Arc<TaskContext>,
    sender: Sender<Result<RecordBatch>>,
    room: Arc<Semaphore>,
) {
    let mut stream = match execute_stream(plan, task) {
        Ok(stream) => stream,
        Err(error) => {
            let _ = sender.send(Err(from_datafusion(error, &NoCandidates)));
            return;
        }
    };
    loop {
        room.acquire().await.expect("the semaphore is never closed").forget();
        let Some(batch) = stream.next().await else { return };
        let failed = batch.is_err();
        if sender.send(batch.map_err(|error| from_datafusion(error, &NoCandidates))).is_err() || failed {
            return;
        }
    }
}
