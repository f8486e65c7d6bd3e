//! Reading as jobs: a short step under a lock takes the next piece of a file, and a long step decodes it.
//!
//! Every format cuts its files into pieces (chunks of text, record batches, ranges of rows) and hands each one out as a
//! [`Job`]. A reader takes jobs and runs them. The workers of a scan run them side by side in any order. [`Batches`]
//! keeps the order of the files and can let its own threads read ahead.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;

use arrow::array::RecordBatch;
use parking_lot::{Condvar, Mutex};
use rowmill_base::{Error, Result};

/// One piece of a file, decoded by the thread that took it. The batch is empty if the piece has no rows.
pub(crate) type Job = Box<dyn FnOnce() -> Result<RecordBatch> + Send>;

/// Hands out the pieces of files in order.
pub(crate) trait Jobs: Send + Sync {
    /// The next piece. `None` if no piece is left.
    fn next_job(&self) -> Result<Option<Job>>;
}

/// The progress of reading. Clones share one counter.
#[derive(Clone, Debug, Default)]
pub struct ReadProgress {
    read: Arc<AtomicU64>,
}

impl ReadProgress {
    /// The number of bytes read so far. Compare it with [`crate::FileSet::bytes`].
    pub fn bytes_read(&self) -> u64 {
        self.read.load(Ordering::Relaxed)
    }

    pub(crate) fn add(&self, bytes: u64) {
        self.read.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn counter(&self) -> &Arc<AtomicU64> {
        &self.read
    }
}

/// Record batches of files, in the order of the files and their rows.
pub struct Batches {
    progress: ReadProgress,
    source: JobSource,
}

enum JobSource {
    /// The caller's thread decodes.
    Here(Arc<dyn Jobs>),
    /// Other threads decode ahead of the caller.
    Ahead(ReadAhead),
    /// An error or the last batch was returned.
    Ended,
}

impl Batches {
    /// Runs `jobs` on `threads` threads in addition to the caller's, or on the caller's own thread if that is 0.
    pub(crate) fn new(jobs: Arc<dyn Jobs>, progress: ReadProgress, threads: usize) -> Batches {
        let source =
            if threads == 0 { JobSource::Here(jobs) } else { JobSource::Ahead(ReadAhead::start(jobs, threads)) };
        Batches { progress, source }
    }

    /// The progress of reading. Another thread may watch it.
    pub fn progress(&self) -> ReadProgress {
        self.progress.clone()
    }

    fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        match &mut self.source {
            JobSource::Here(jobs) => match jobs.next_job()? {
                Some(job) => job().map(Some),
                None => Ok(None),
            },
            JobSource::Ahead(ahead) => ahead.next_batch(),
            JobSource::Ended => Ok(None),
        }
    }
}

impl Iterator for Batches {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Result<RecordBatch>> {
        loop {
            match self.next_batch() {
                Ok(Some(batch)) if batch.num_rows() == 0 => {}
                Ok(Some(batch)) => return Some(Ok(batch)),
                Ok(None) => {
                    self.source = JobSource::Ended;
                    return None;
                }
                Err(error) => {
                    self.source = JobSource::Ended;
                    return Some(Err(error));
                }
            }
        }
    }
}

impl std::fmt::Debug for Batches {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Batches").field("progress", &self.progress).finish_non_exhaustive()
    }
}

/// Threads that run jobs ahead of a reader. The reader gets the results in order. At most twice as many results as
/// threads are waiting or in work at any time.
struct ReadAhead {
    shared: Arc<SharedJobs>,
    threads: Vec<JoinHandle<()>>,
}

struct SharedJobs {
    jobs: Arc<dyn Jobs>,
    state: Mutex<JobState>,
    changed: Condvar,
    /// The number of jobs that may be taken beyond the one that the reader waits for.
    ahead_max: u64,
}

#[derive(Default)]
struct JobState {
    /// The number of jobs taken so far, and so the number of the next one.
    taken: u64,
    /// The number of the job whose result the reader needs next.
    wanted: u64,
    done: BTreeMap<u64, Result<RecordBatch>>,
    /// The number of all jobs, once it is known.
    end: Option<u64>,
    /// Whether the reader was dropped.
    stopped: bool,
}

impl ReadAhead {
    fn start(jobs: Arc<dyn Jobs>, threads: usize) -> ReadAhead {
        let shared = Arc::new(SharedJobs {
            jobs,
            state: Mutex::default(),
            changed: Condvar::new(),
            ahead_max: 2 * threads as u64,
        });
        // A thread that cannot be started is not an error: the others do the work.
        let spawn = |number| {
            let shared = Arc::clone(&shared);
            std::thread::Builder::new().name(format!("read-ahead {number}")).spawn(move || shared.work()).ok()
        };
        ReadAhead { threads: (0..threads).filter_map(spawn).collect(), shared }
    }

    fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        if self.threads.is_empty() {
            // The system refused every thread, so the caller decodes.
            return self.shared.jobs.next_job()?.map(|job| job()).transpose();
        }
        let mut state = self.shared.state.lock();
        loop {
            let wanted = state.wanted;
            if let Some(result) = state.done.remove(&wanted) {
                state.wanted += 1;
                self.shared.changed.notify_all();
                return result.map(Some);
            }
            if state.end == Some(wanted) {
                return Ok(None);
            }
            self.shared.changed.wait(&mut state);
        }
    }
}

impl Drop for ReadAhead {
    fn drop(&mut self) {
        self.shared.state.lock().stopped = true;
        self.shared.changed.notify_all();
        for thread in self.threads.drain(..) {
            // A worker catches its panics, so the result of the join tells nothing.
            let _ = thread.join();
        }
    }
}

impl SharedJobs {
    fn work(&self) {
        while let Some((number, job)) = self.take() {
            let result = contained(|| job.and_then(|job| job()));
            let mut state = self.state.lock();
            if result.is_err() {
                // The reader stops at an error, so later jobs need not run.
                state.end = Some(state.end.unwrap_or(u64::MAX).min(number + 1));
            }
            // Errors are results too: the reader gets them in their place in the order.
            state.done.insert(number, result);
            drop(state);
            self.changed.notify_all();
        }
    }

    /// Takes the next job with its number. Waits until the reader is near enough.
    fn take(&self) -> Option<(u64, Result<Job>)> {
        let mut state = self.state.lock();
        loop {
            if state.stopped || state.end.is_some_and(|end| state.taken >= end) {
                return None;
            }
            if state.taken < state.wanted + self.ahead_max {
                break;
            }
            self.changed.wait(&mut state);
        }
        // We hold the lock while the piece is cut off, so that the numbers follow the order of the pieces.
        let number = state.taken;
        match contained(|| self.jobs.next_job()) {
            Ok(None) => {
                state.end = Some(number);
                self.changed.notify_all();
                None
            }
            Ok(Some(job)) => {
                state.taken += 1;
                Some((number, Ok(job)))
            }
            Err(error) => {
                state.taken += 1;
                Some((number, Err(error)))
            }
        }
    }
}

/// Turns a panic into an error, because otherwise the reader would wait forever.
fn contained<T>(run: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|_| Err(Error::internal("a thread that reads files panicked")))
}

#[cfg(test)]
mod tests {
    use arrow::array::{ArrayRef, AsArray, Int64Array};
    use arrow::datatypes::Int64Type;
    use rowmill_base::ErrorKind;

    use super::*;

    /// Jobs that return the numbers up to `end`, each after a delay. One of them may fail or panic.
    struct NumberJobs {
        next: Mutex<i64>,
        end: i64,
        fails_at: Option<i64>,
        panics_at: Option<i64>,
    }

    impl Jobs for NumberJobs {
        fn next_job(&self) -> Result<Option<Job>> {
            let mut next = self.next.lock();
            if *next == self.end {
                return Ok(None);
            }
            let number = *next;
            *next += 1;
            let (fails, panics) = (self.fails_at == Some(number), self.panics_at == Some(number));
            Ok(Some(Box::new(move || {
                std::thread::sleep(std::time::Duration::from_micros((number as u64 * 7919) % 300));
                assert!(!panics, "asked to");
                if fails {
                    return Err(Error::new(ErrorKind::BadFileFormat, "asked to"));
                }
                let column: ArrayRef = Arc::new(Int64Array::from(vec![number]));
                RecordBatch::try_from_iter([("n", column)]).map_err(|error| Error::internal(error.to_string()))
            })))
        }
    }

    fn numbers(threads: usize, fails_at: Option<i64>, panics_at: Option<i64>) -> (Vec<i64>, Option<Error>) {
        let jobs = NumberJobs { next: Mutex::new(0), end: 300, fails_at, panics_at };
        let mut seen = Vec::new();
        for batch in Batches::new(Arc::new(jobs), ReadProgress::default(), threads) {
            match batch {
                Ok(batch) => seen.push(batch.column(0).as_primitive::<Int64Type>().value(0)),
                Err(error) => return (seen, Some(error)),
            }
        }
        (seen, None)
    }

    #[test]
    fn order_holds_on_any_number_of_threads() {
        for threads in [0, 1, 2, 5] {
            assert_eq!(numbers(threads, None, None), ((0..300).collect(), None), "{threads} threads");
        }
    }

    #[test]
    fn an_error_comes_after_all_batches_before_it() {
        for threads in [0, 1, 3] {
            let (seen, error) = numbers(threads, Some(123), None);
            assert_eq!(seen, (0..123).collect::<Vec<_>>());
            assert_eq!(error.map(|error| error.kind()), Some(ErrorKind::BadFileFormat));
        }
        let (seen, error) = numbers(2, None, Some(7));
        assert_eq!((seen.len(), error.map(|error| error.kind())), (7, Some(ErrorKind::Internal)));
    }

    #[test]
    fn a_reader_that_leaves_early_ends_its_threads() {
        let jobs = NumberJobs { next: Mutex::new(0), end: 300, fails_at: None, panics_at: None };
        let mut batches = Batches::new(Arc::new(jobs), ReadProgress::default(), 3);
        assert!(batches.next().is_some());
        drop(batches);
    }
}
