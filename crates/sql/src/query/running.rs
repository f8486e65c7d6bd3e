//! A query at work: its operators on a pool of threads, its batches in a short queue, its consumer waiting.
//!
//! ```text
//! pool:     operators -> batch -> [ queue of BATCHES_AHEAD ] -> consumer's thread
//! ```
//!
//! A query with hardly any work is done by the consumer itself, batch by batch.
//!
//! The consumer wakes for every batch and otherwise every [`POLL`] to see whether the statement was cancelled or ran
//! into its deadline, so both are noticed even when an operator does not give way. Dropping the consumer's side ends
//! the work.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::SchemaRef;
use rowmill_base::{Cancel, Error, Result, Settings};
use rowmill_exec::batch::Batches;
use rowmill_exec::spin::set_spin_us;

use super::ReadyQuery;
use crate::catalog::StatementContext;
use crate::guards::catch_panics;
use crate::outcome::{Progress, ProgressFn};
use crate::workers::workers;

/// Batches that wait for the consumer at most.
const BATCHES_AHEAD: usize = 4;

/// How often the waiting consumer looks at the cancel flag.
const POLL: Duration = Duration::from_millis(20);

/// The least time between two reports of progress.
const REPORT: Duration = Duration::from_millis(100);

/// The consumer's side of a query at work.
pub(crate) struct Running {
    work: Producer,
    schema: SchemaRef,
    context: Arc<StatementContext>,
    report: Option<Report>,
    /// All batches were taken: there is no work left to end.
    finished: bool,
}

/// Where batches come from.
enum Producer {
    /// The engine's threads.
    Workers(Receiver<Result<RecordBatch>>),
    /// The consumer's thread.
    Here(Batches),
}

impl Running {
    /// Puts the operators of `query` to work.
    pub(super) fn start(query: ReadyQuery, progress: Option<ProgressFn>, started: Instant) -> Self {
        let ReadyQuery { context, query } = query;
        let work = Producer::start(query.begin(), &context.settings);
        let schema = Arc::clone(query.schema());
        let report = progress.map(|tell| Report { tell, started, last: started });
        Running { work, schema, context, report, finished: false }
    }

    fn cancel(&self) -> &Cancel {
        &self.context.cancel
    }

    /// The next batch as the pool gives it.
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

    /// A batch under the names of the result.
    fn named(&self, batch: RecordBatch) -> Result<RecordBatch> {
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        RecordBatch::try_new_with_options(Arc::clone(&self.schema), batch.columns().to_vec(), &options)
            .map_err(|error| Error::internal(format!("the plan gave other columns than it announced: {error}")))
    }
}

impl Iterator for Running {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        self.report_progress();
        loop {
            match self.receive()?.and_then(|batch| self.named(batch)) {
                Ok(batch) if batch.num_rows() == 0 => {}
                // The flag says better why a scan or an operator gave up.
                Err(error) => return Some(Err(self.cancel().check().err().unwrap_or(error))),
                batch => return Some(batch),
            }
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.finished {
            return;
        }
        // Work on other threads ends at its next frame.
        self.cancel().cancel();
    }
}

impl Producer {
    fn start(running: Result<Arc<rowmill_exec::operator::Running>>, settings: &Settings) -> Producer {
        let (threads, spin_us) = (settings.threads(), settings.number("exec.steal_spin_us"));
        let (sender, batches) = sync_channel(BATCHES_AHEAD);
        let started = running.and_then(|running| {
            let count = running.parallelism().min(threads);
            if count == 0 {
                return Ok(Some(catch_panics(|| Ok(running.worker()))?));
            }
            set_spin_us(spin_us);
            for _ in 0..count {
                let (running, sender) = (Arc::clone(&running), sender.clone());
                workers().start(move || pass_on(&running, &sender))?;
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

/// A worker's share of a query of the engine's, as long as somebody takes the batches.
fn pass_on(running: &rowmill_exec::operator::Running, sender: &SyncSender<Result<RecordBatch>>) {
    let passed = catch_panics(|| {
        for batch in running.worker() {
            let failed = batch.is_err();
            if sender.send(batch).is_err() || failed {
                break;
            }
        }
        Ok(())
    });
    if let Err(error) = passed {
        // Nobody listens any more when this fails.
        let _ = sender.send(Err(error));
    }
}

/// Tells of the progress of a query.
struct Report {
    tell: ProgressFn,
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
        let rows_done = scans.iter().map(|scan| scan.rows_done()).sum();
        (self.tell)(Progress { rows_done, rows_total: Some(rows_total), elapsed: self.started.elapsed() });
    }
}
