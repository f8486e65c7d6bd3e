//! One sort and its workers.
//!
//! ```text
//! gather   every worker makes runs of its share of the input, or of the best rows of it
//! give     when all have, the runs are cut into ranges; one worker gives the result, and all put ranges in order for it
//! ```
//!
//! Ranges are taken in the order of the result. Who gives waits for nobody as long as there are ranges to be taken; the
//! others may be a few ranges ahead, which bounds what is ready and not given yet. The first error ends the sort for all,
//! and every worker returns it. A worker that panics or is dropped while it works ends it as well.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::RecordBatch;
use parking_lot::{Condvar, Mutex, MutexGuard};
use rowmill_base::{Cancel, Error, Result, Scratch};

use super::entry::Entry;
use super::ranges::Ranges;
use super::run::{RUN_ROWS, Run, RunBuilder, RunFormat};
use super::top::{SharedBound, Top};
use super::{OWNER, SortRequest};
use crate::batch::{BatchSource, Batches};
use crate::share::share;

/// How often who waits asks whether the statement was cancelled.
const CANCEL_INTERVAL: Duration = Duration::from_millis(10);

/// Ranges that may be taken for each worker before the first of them is given.
const AHEAD_PER_WORKER: usize = 2;

/// One sort, shared by its workers.
pub(super) struct Sorting<E> {
    input: Arc<dyn BatchSource>,
    format: RunFormat,
    /// Which rows are given, by their positions in the order.
    window: Range<u64>,
    /// How many of the first rows are gathered, if not all are.
    top_rows: Option<usize>,
    batch_rows: usize,
    cancel: Cancel,
    bound: SharedBound<E>,
    state: Mutex<State<E>>,
    changed: Condvar,
}

/// How far a sort is.
struct State<E> {
    stage: Stage<E>,
    /// Workers that gather.
    gathering: usize,
    /// What those gathered that are done.
    runs: Vec<Run<E>>,
    /// Workers that put ranges in order, with the one that gives the result.
    ordering: usize,
    /// A worker gives the result.
    is_given: bool,
    /// The next range to be put in order, and the first that never is.
    next: usize,
    end: usize,
    /// The next range to be given.
    given: usize,
    /// Ranges in order.
    ready: BTreeMap<usize, Ready>,
}

enum Stage<E> {
    Gathering,
    Giving(Arc<Ranges<E>>),
    Failed(Error),
    Over,
}

/// The rows of a range in order.
struct Ready {
    batches: Vec<RecordBatch>,
    memory: Scratch,
}

impl<E> State<E> {
    /// What is put in order; `None` if that is over.
    fn ranges(&self) -> Result<Option<&Arc<Ranges<E>>>> {
        match &self.stage {
            Stage::Failed(error) => Err(error.clone()),
            Stage::Giving(ranges) => Ok(Some(ranges)),
            Stage::Gathering | Stage::Over => Ok(None),
        }
    }

    /// Takes the next range, unless too many are taken already.
    fn take_range(&mut self) -> Option<usize> {
        let range = self.next;
        let is_free = range < self.end && range < self.given + AHEAD_PER_WORKER * self.ordering;
        self.next += usize::from(is_free);
        is_free.then_some(range)
    }
}

impl<E: Entry> Sorting<E> {
    /// A sort that has read nothing yet.
    pub(super) fn new(input: Arc<dyn BatchSource>, format: RunFormat, request: &SortRequest) -> Arc<Sorting<E>> {
        let end = request.rows.map_or(u64::MAX, |rows| (request.skip as u64).saturating_add(rows as u64));
        let state = State {
            stage: Stage::Gathering,
            gathering: 0,
            runs: Vec::new(),
            ordering: 0,
            is_given: false,
            next: 0,
            end: 0,
            given: 0,
            ready: BTreeMap::new(),
        };
        Arc::new(Sorting {
            input,
            format,
            window: request.skip as u64..end,
            top_rows: request.top_rows(),
            batch_rows: request.batch_rows.max(1),
            cancel: request.cancel.clone(),
            bound: SharedBound::default(),
            state: Mutex::new(state),
            changed: Condvar::new(),
        })
    }

    /// A worker's share.
    pub(super) fn share(self: Arc<Self>) -> Batches {
        let mut worker = Worker { sorting: self, giving: None, batches: VecDeque::new(), memory: None };
        share(move || worker.next_batch())
    }

    /// Gathers, and waits for the others that do. `None` if nothing is left to do.
    fn gather(&self) -> Result<Option<Arc<Ranges<E>>>> {
        let mut state = self.state.lock();
        if !matches!(state.stage, Stage::Gathering) {
            return Ok(state.ranges()?.cloned());
        }
        state.gathering += 1;
        drop(state);
        let runs = self.gather_runs()?;
        let mut state = self.state.lock();
        state.gathering -= 1;
        if !matches!(state.stage, Stage::Gathering) {
            return Ok(state.ranges()?.cloned());
        }
        state.runs.extend(runs);
        if state.gathering == 0 {
            let ranges = Ranges::new(std::mem::take(&mut state.runs), &self.format)?;
            let taken = ranges.within(&self.window);
            (state.next, state.given, state.end) = (taken.start, taken.start, taken.end);
            state.stage = Stage::Giving(Arc::new(ranges));
            self.changed.notify_all();
        }
        while matches!(state.stage, Stage::Gathering) {
            self.wait(&mut state)?;
        }
        Ok(state.ranges()?.cloned())
    }

    /// Runs of a share of the input.
    fn gather_runs(&self) -> Result<Vec<Run<E>>> {
        let mut runs = Vec::new();
        let input = Arc::clone(&self.input).worker();
        match self.top_rows {
            Some(rows) => {
                let mut top = Top::new(&self.format, &self.bound, rows);
                self.each_batch(input, |batch| top.add(batch))?;
                top.finish(&mut runs)?;
            }
            None => {
                let mut builder = RunBuilder::new(&self.format);
                self.each_batch(input, |batch| builder.add(batch, &mut runs))?;
                builder.finish(&mut runs)?;
            }
        }
        Ok(runs)
    }

    /// Reads a share to its end. No batch that comes of it has more rows than a run.
    fn each_batch(&self, input: Batches, mut add: impl FnMut(RecordBatch) -> Result<()>) -> Result<()> {
        for batch in input {
            self.cancel.check()?;
            if let Stage::Failed(error) = &self.state.lock().stage {
                return Err(error.clone());
            }
            let batch = batch?;
            for start in (0..batch.num_rows()).step_by(RUN_ROWS) {
                add(batch.slice(start, RUN_ROWS.min(batch.num_rows() - start)))?;
            }
        }
        Ok(())
    }

    /// Joins those that put ranges in order; whether the result is to be given by this one.
    fn join(&self) -> bool {
        let mut state = self.state.lock();
        state.ordering += 1;
        !std::mem::replace(&mut state.is_given, true)
    }

    /// Puts ranges in order for the worker that gives the result, until all are taken.
    fn help(&self, ranges: &Ranges<E>) -> Result<()> {
        let mut state = self.state.lock();
        while state.ranges()?.is_some() && state.next < state.end {
            match state.take_range() {
                Some(range) => {
                    let ready = MutexGuard::unlocked(&mut state, || self.put_in_order(range, ranges))?;
                    if state.ranges()?.is_some() {
                        state.ready.insert(range, ready);
                        self.changed.notify_all();
                    }
                }
                None => self.wait(&mut state)?,
            }
        }
        Ok(())
    }

    /// The next range of the result.
    fn next_range(&self, ranges: &Ranges<E>) -> Result<Option<Ready>> {
        let mut state = self.state.lock();
        while state.ranges()?.is_some() && state.given < state.end {
            let given = state.given;
            if let Some(ready) = state.ready.remove(&given) {
                state.given += 1;
                self.changed.notify_all();
                return Ok(Some(ready));
            }
            match state.take_range() {
                Some(range) => {
                    let ready = MutexGuard::unlocked(&mut state, || self.put_in_order(range, ranges))?;
                    state.ready.insert(range, ready);
                }
                None => self.wait(&mut state)?,
            }
        }
        Ok(None)
    }

    fn put_in_order(&self, range: usize, ranges: &Ranges<E>) -> Result<Ready> {
        self.cancel.check()?;
        // Ranges are small and few at a time, and what waits for them holds much more.
        let mut memory = self.format.broker.scratch(OWNER);
        memory.grow(ranges.bytes_of(range))?;
        let batches = ranges.batches(range, &self.window, self.batch_rows, &self.format)?;
        Ok(Ready { batches, memory })
    }

    fn wait(&self, state: &mut MutexGuard<'_, State<E>>) -> Result<()> {
        self.cancel.check()?;
        self.changed.wait_for(state, CANCEL_INTERVAL);
        Ok(())
    }

    /// Ends the sort for all workers, who let go of what they hold.
    fn end(&self, error: Option<Error>) {
        let mut state = self.state.lock();
        if !matches!(state.stage, Stage::Failed(_)) {
            state.stage = error.map_or(Stage::Over, Stage::Failed);
        }
        state.ready.clear();
        state.runs.clear();
        self.changed.notify_all();
    }
}

/// A worker's share.
struct Worker<E: Entry> {
    sorting: Arc<Sorting<E>>,
    /// What it gives the rows of, if it gives the result.
    giving: Option<Arc<Ranges<E>>>,
    batches: VecDeque<RecordBatch>,
    memory: Option<Scratch>,
}

impl<E: Entry> Worker<E> {
    fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        let sorting = Arc::clone(&self.sorting);
        let _watch = EndOnPanic(&*sorting);
        self.advance().inspect_err(|error| sorting.end(Some(error.clone())))
    }

    fn advance(&mut self) -> Result<Option<RecordBatch>> {
        if self.giving.is_none() {
            let Some(ranges) = self.sorting.gather()? else { return Ok(None) };
            if !self.sorting.join() {
                self.sorting.help(&ranges)?;
                return Ok(None);
            }
            self.giving = Some(ranges);
        }
        let Some(ranges) = &self.giving else { return Ok(None) };
        while self.batches.is_empty() {
            self.memory = None;
            let Some(ready) = self.sorting.next_range(ranges)? else { return Ok(None) };
            self.batches.extend(ready.batches);
            self.memory = Some(ready.memory);
        }
        Ok(self.batches.pop_front())
    }
}

impl<E: Entry> Drop for Worker<E> {
    fn drop(&mut self) {
        if self.giving.is_some() {
            self.sorting.end(None);
        }
    }
}

/// Ends a sort on the way out of a panic.
struct EndOnPanic<'a, E: Entry>(&'a Sorting<E>);

impl<E: Entry> Drop for EndOnPanic<'_, E> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.end(Some(Error::internal(format!("a worker of {OWNER} panicked"))));
        }
    }
}
