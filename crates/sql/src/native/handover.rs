//! Batches of the engine's workers on their way to DataFusion's operators.
//!
//! A worker may wait for the others: for their parts of a hash table, say. DataFusion asks a partition for its next
//! batch on a thread that may be the only one for all of them, so a worker that waited there would wait for ever. The
//! workers therefore run on threads of the engine's, and whichever partition is asked next takes what there is:
//!
//! ```text
//! workers -> [ queue of so many batches ] -> any partition that is asked
//! ```

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::common::Result as PlanResult;
use datafusion::physical_plan::metrics::BaselineMetrics;
use futures::Stream;
use parking_lot::{Condvar, Mutex};
use rowmill_base::{Cancel, Result};
use rowmill_exec::batch::Batches;
use rowmill_exec::operator::Running;

use crate::errors::to_datafusion;
use crate::guards::catch_panics;
use crate::operators::{BATCHES_AHEAD, POLL};
use crate::runtime;
use crate::table_scan::conform;

/// One pass over a plan of the engine's that operators of DataFusion's read. Dropping it ends the workers.
pub(super) struct Handover {
    /// The operators at work.
    pub(super) running: Arc<Running>,
    schema: SchemaRef,
    threads: usize,
    queue: Arc<Queue>,
}

impl Handover {
    /// A pass over `running` whose batches get the columns of `schema`, by so many workers and for as many partitions.
    pub(super) fn new(running: Running, schema: SchemaRef, threads: usize, cancel: Cancel) -> Handover {
        let progress = Mutex::new(Progress::default());
        let queue = Queue { progress, room: Condvar::new(), capacity: BATCHES_AHEAD.max(2 * threads), cancel };
        Handover { running: Arc::new(running), schema, threads, queue: Arc::new(queue) }
    }

    /// The stream of a partition. It reports its rows to `metrics`.
    pub(super) fn partition(self: Arc<Self>, metrics: BaselineMetrics) -> Partition {
        self.queue.progress.lock().opened += 1;
        Partition { handover: self, here: None, polled: false, metrics }
    }

    /// Puts the workers to work, the first time. When there is so little to do that none is worth calling, the share of
    /// the only one.
    fn start(&self) -> Option<Batches> {
        let workers = self.running.parallelism().min(self.threads);
        {
            let mut progress = self.queue.progress.lock();
            if std::mem::replace(&mut progress.started, true) {
                return None;
            }
            progress.working = workers;
        }
        if workers == 0 {
            return Some(self.running.worker());
        }
        for place in 0..workers {
            let (running, schema, queue) =
                (Arc::clone(&self.running), Arc::clone(&self.schema), Arc::clone(&self.queue));
            if let Err(error) = runtime::workers().start(move || work(&running, &schema, &queue)) {
                self.queue.add(Err(error));
                (place..workers).for_each(|_| self.queue.leave());
                break;
            }
        }
        None
    }
}

impl Drop for Handover {
    fn drop(&mut self) {
        self.queue.give_up();
    }
}

/// A worker's share of the batches, as long as somebody may take them.
fn work(running: &Running, schema: &SchemaRef, queue: &Queue) {
    let passed = catch_panics(|| {
        for batch in running.worker() {
            let batch = batch.and_then(|batch| conform(batch, schema, None));
            let failed = batch.is_err();
            if !queue.add_in_time(batch)? || failed {
                break;
            }
        }
        Ok(())
    });
    if let Err(error) = passed {
        queue.add(Err(error));
    }
    queue.leave();
}

/// What lies between the workers and the partitions.
struct Queue {
    progress: Mutex<Progress>,
    room: Condvar,
    capacity: usize,
    cancel: Cancel,
}

#[derive(Default)]
struct Progress {
    started: bool,
    batches: VecDeque<Result<RecordBatch>>,
    /// Workers that have not reached the end of their share.
    working: usize,
    /// Partitions that wait for a batch.
    wakers: Vec<Waker>,
    /// Partitions that were opened, and those of them that were dropped.
    opened: usize,
    closed: usize,
    /// Nobody takes batches any more.
    given_up: bool,
}

impl Progress {
    /// Tells every partition that waits to look again.
    fn wake_all(&mut self) {
        self.wakers.drain(..).for_each(Waker::wake);
    }
}

impl Queue {
    /// Adds a batch when there is room; false if nobody takes it.
    fn add_in_time(&self, batch: Result<RecordBatch>) -> Result<bool> {
        let mut progress = self.progress.lock();
        while progress.batches.len() >= self.capacity && !progress.given_up {
            self.cancel.check()?;
            self.room.wait_for(&mut progress, POLL);
        }
        let is_wanted = !progress.given_up;
        if is_wanted {
            progress.batches.push_back(batch);
            progress.wake_all();
        }
        Ok(is_wanted)
    }

    /// Adds a batch whether there is room or not.
    fn add(&self, batch: Result<RecordBatch>) {
        let mut progress = self.progress.lock();
        progress.batches.push_back(batch);
        progress.wake_all();
    }

    /// A worker has reached the end of its share.
    fn leave(&self) {
        let mut progress = self.progress.lock();
        progress.working -= 1;
        progress.wake_all();
    }

    fn give_up(&self) {
        let mut progress = self.progress.lock();
        progress.given_up = true;
        progress.batches.clear();
        self.room.notify_all();
    }
}

/// The batches that one partition is asked for.
pub(super) struct Partition {
    handover: Arc<Handover>,
    /// The whole of the work, when it is so little that the first partition does it.
    here: Option<Batches>,
    polled: bool,
    metrics: BaselineMetrics,
}

impl Partition {
    fn next_batch(&mut self, context: &Context<'_>) -> Poll<Option<Result<RecordBatch>>> {
        if !std::mem::replace(&mut self.polled, true) {
            self.here = self.handover.start();
        }
        if let Some(batches) = &mut self.here {
            let schema = &self.handover.schema;
            return Poll::Ready(batches.next().map(|batch| batch.and_then(|batch| conform(batch, schema, None))));
        }
        let queue = &self.handover.queue;
        let mut progress = queue.progress.lock();
        if let Some(batch) = progress.batches.pop_front() {
            queue.room.notify_one();
            return Poll::Ready(Some(batch));
        }
        if progress.working == 0 {
            return Poll::Ready(None);
        }
        let waker = context.waker();
        if !progress.wakers.iter().any(|other| other.will_wake(waker)) {
            progress.wakers.push(waker.clone());
        }
        Poll::Pending
    }
}

impl Stream for Partition {
    type Item = PlanResult<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let next = self.next_batch(context).map(|batch| batch.map(|batch| batch.map_err(to_datafusion)));
        self.metrics.record_poll(next)
    }
}

impl Drop for Partition {
    fn drop(&mut self) {
        let mut progress = self.handover.queue.progress.lock();
        progress.closed += 1;
        // Partitions that are opened later would find nothing, so all must have been.
        let is_over = progress.closed == progress.opened && progress.opened >= self.handover.threads;
        drop(progress);
        if is_over {
            self.handover.queue.give_up();
        }
    }
}
