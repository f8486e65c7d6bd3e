//! A running query: operators on a pool of threads, a short queue of batches, and a consumer that waits.
//!
//! ```text
//! pool:     operators -> batch -> [ queue of BATCHES_AHEAD ] -> consumer's thread
//! ```
//!
//! A query with hardly any work runs on the consumer's thread, batch by batch.
//!
//! The consumer wakes for every batch, and otherwise every [`POLL`] to check the cancel flag and the deadline. So it
//! notices both even when an operator does not check them. Dropping the consumer's side ends the work.

use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::SchemaRef;
use rowmill_base::{Cancel, Error, Result};
use rowmill_exec::batch::Batches;
use rowmill_query::PhysicalQuery;

use super::ReadyQuery;
use super::plan_work::{PlanWork, WorkDone};
use crate::catalog::StatementContext;
use crate::guards::catch_panics;
use crate::outcome::{Progress, ProgressFn};

/// The most batches that wait for the consumer. The consumer should not wait for the operators, and results should not
/// pile up.
const BATCHES_AHEAD: usize = 4;

/// How often the waiting consumer checks the cancel flag. A cancelled statement should end within a tenth of a second,
/// so this must be much less.
const POLL: Duration = Duration::from_millis(20);

/// The least time between two reports of progress.
const REPORT: Duration = Duration::from_millis(100);

/// How long a statement that ends early waits for its threads.
const END_MAX: Duration = Duration::from_millis(100);

/// The consumer's side of a running query.
pub(crate) struct RunningQuery {
    work: Producer,
    schema: SchemaRef,
    context: Arc<StatementContext>,
    report: Option<Report>,
    /// Whether all batches were taken, so that no work is left to end.
    finished: bool,
}

/// The source of the batches.
enum Producer {
    /// The engine's threads.
    Workers(Receiver<Result<RecordBatch>>),
    /// The consumer's thread.
    Here(Batches),
}

impl RunningQuery {
    /// Starts the operators of `query`.
    pub(super) fn start(query: ReadyQuery, progress: Option<ProgressFn>, started: Instant) -> Self {
        let ReadyQuery { context, query } = query;
        let begun = query.begin();
        // The report must not keep the operators and their memory after the workers have ended.
        let operators = begun.as_ref().map(Arc::downgrade).unwrap_or_default();
        let work = Producer::start(begun, &context);
        let schema = Arc::clone(query.schema());
        let plan = Arc::clone(query.physical());
        let report = progress.map(|tell| Report {
            tell,
            operators,
            plan,
            work: None,
            share: None,
            foreign_rows: 0,
            started,
            last: started,
        });
        RunningQuery { work, schema, context, report, finished: false }
    }

    fn cancel(&self) -> &Cancel {
        &self.context.cancel
    }

    /// Returns the next batch, with the names that the plan gives its columns.
    fn receive(&mut self) -> Option<Result<RecordBatch>> {
        loop {
            let received = match &mut self.work {
                Producer::Here(batches) => {
                    let batch = catch_panics(|| batches.next().transpose()).transpose();
                    self.finished = batch.is_none();
                    return batch;
                }
                Producer::Workers(batches) => batches.recv_timeout(POLL),
            };
            match received {
                Ok(batch) => return Some(batch),
                Err(RecvTimeoutError::Timeout) => {
                    if let Err(error) = self.cancel().check() {
                        return Some(Err(error));
                    }
                }
                Err(RecvTimeoutError::Disconnected) => {
                    self.finished = true;
                    return None;
                }
            }
            self.report_progress();
        }
    }

    fn report_progress(&mut self) {
        if let Some(report) = &mut self.report {
            report.make(&self.context);
        }
    }

    /// Returns the batch with the column names of the result.
    fn named(&self, batch: RecordBatch) -> Result<RecordBatch> {
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        RecordBatch::try_new_with_options(Arc::clone(&self.schema), batch.columns().to_vec(), &options)
            .map_err(|error| Error::internal(format!("the plan gave other columns than it announced: {error}")))
    }
}

impl Iterator for RunningQuery {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        self.report_progress();
        loop {
            match self.receive()?.and_then(|batch| self.named(batch)) {
                Ok(batch) if batch.num_rows() == 0 => {}
                // A cancel flag or deadline is the better explanation of why a scan or operator stopped.
                Err(error) => return Some(Err(self.cancel().check().err().unwrap_or(error))),
                batch => return Some(batch),
            }
        }
    }
}

impl Drop for RunningQuery {
    fn drop(&mut self) {
        if self.finished {
            return;
        }
        // Threads that still work notice the flag at their next frame. We wait for them, so that a statement that has
        // ended reads no file and holds no memory. The bound is for a thread that the system does not run.
        self.cancel().cancel();
        if let Producer::Workers(batches) = &self.work {
            let until = Instant::now() + END_MAX;
            while !matches!(
                batches.recv_timeout(until.saturating_duration_since(Instant::now())),
                Err(RecvTimeoutError::Disconnected | RecvTimeoutError::Timeout)
            ) {}
        }
    }
}

impl Producer {
    fn start(running: Result<Arc<rowmill_exec::operator::RunningPlan>>, context: &StatementContext) -> Producer {
        let StatementContext { settings, workers, .. } = context;
        let spin = Duration::from_micros(settings.number("exec.steal_spin_us"));
        // The queue is bounded, so a slow consumer slows down the operators instead of filling the memory.
        let (sender, batches) = sync_channel(BATCHES_AHEAD);
        let started = running.and_then(|running| {
            let count = running.parallelism().min(settings.threads());
            // No parallelism means hardly any work: waking another thread would take longer than the query.
            if count == 0 {
                return Ok(Some(catch_panics(|| Ok(running.worker()))?));
            }
            for _ in 0..count {
                // The original sender is dropped at the end of this function. So the channel closes when the last
                // worker ends.
                let (running, sender) = (Arc::clone(&running), sender.clone());
                workers.start(spin, move || pass_on(&running, &sender))?;
            }
            Ok(None)
        });
        match started {
            Ok(None) => Producer::Workers(batches),
            Ok(Some(here)) => Producer::Here(here),
            Err(error) => Producer::Here(Box::new(std::iter::once(Err(error)))),
        }
    }
}

/// Runs one worker's share of a query and passes its batches on until the consumer stops taking them.
fn pass_on(running: &rowmill_exec::operator::RunningPlan, sender: &SyncSender<Result<RecordBatch>>) {
    let passed = catch_panics(|| {
        for batch in running.worker() {
            let failed = batch.is_err();
            // A closed channel means that the consumer is gone, so the rest of the work is useless.
            if sender.send(batch).is_err() || failed {
                break;
            }
        }
        Ok(())
    });
    if let Err(error) = passed {
        // The send fails only if the consumer is gone; then no one needs the error.
        let _ = sender.send(Err(error));
    }
}

/// Reports the progress of a query.
struct Report {
    tell: ProgressFn,
    operators: Weak<rowmill_exec::operator::RunningPlan>,
    plan: Arc<PhysicalQuery>,
    /// The expected work. Most statements end before their first report, so it is estimated only then.
    work: Option<PlanWork>,
    /// The share of the last report. The next one is never less.
    share: Option<f64>,
    /// The rows of files in the last report.
    foreign_rows: u64,
    started: Instant,
    last: Instant,
}

impl Report {
    fn make(&mut self, context: &StatementContext) {
        if self.last.elapsed() < REPORT {
            return;
        }
        self.last = Instant::now();
        let scans = context.scans.lock().clone();
        let rows_total = scans.iter().map(|scan| scan.rows_total()).sum();
        let rows_of_tables: u64 = scans.iter().map(|scan| scan.rows_done()).sum();
        let operators = self.operators.upgrade();
        let spilled_bytes = operators.as_ref().map_or(0, |running| running.operator.spilled_bytes());
        let work = operators.map(|running| self.work_done(&running)).unwrap_or_default();
        self.share = work.share().map(|share| share.max(self.share.unwrap_or(0.0))).or(self.share);
        self.foreign_rows = work.foreign_rows.max(self.foreign_rows);
        (self.tell)(Progress {
            rows_done: rows_of_tables + self.foreign_rows,
            // The rows of files are not known before they are read.
            rows_total: (self.foreign_rows == 0).then_some(rows_total),
            share: self.share,
            bytes_read: work.bytes_read,
            memory_bytes: context.broker.used_bytes(),
            spilled_bytes,
            elapsed: self.started.elapsed(),
        });
    }

    fn work_done(&mut self, running: &rowmill_exec::operator::RunningPlan) -> WorkDone {
        self.work.get_or_insert_with(|| PlanWork::of(&self.plan)).done(&running.operator)
    }
}
