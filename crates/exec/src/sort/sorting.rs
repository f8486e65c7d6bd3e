//! One sort and its workers.
//!
//! ```text
//! gather   every worker makes runs from its share of the input, or from the best rows of its share
//! give     after all workers have gathered, the runs are cut into ranges. One worker returns the result, and all
//!          workers sort ranges for it
//! ```
//!
//! Workers take ranges in the order of the result. The worker that returns the result waits for no other worker while
//! ranges are left to take. The others may be a few ranges ahead, so the number of ranges that are sorted but not yet
//! returned is bounded. The first error ends the sort for all workers, and every worker returns it. A worker that
//! panics or is dropped while it works also ends the sort.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;

use arrow::array::RecordBatch;
use parking_lot::{Condvar, Mutex, MutexGuard};
use rowmill_base::{Cancel, Error, Result, SpillableMemory, StepMemory};
use rowmill_storage::spill::{SpillWriter, TempSpace};

use super::entry::Entry;
use super::gather::{GatheredRuns, RunGatherer};
use super::held::HeldBuffers;
use super::ranges::{RunPiece, RunRanges, in_order};
use super::run::RunFormat;
use super::spilled::{RunSpiller, SpillMerge, within};
use super::top::SharedBound;
use super::{OWNER, SortRequest};
use crate::batch::{BatchSource, Batches};
use crate::late_sort::LateRows;
use crate::phase::CANCEL_INTERVAL;
use crate::share::share;

/// The number of ranges per worker that may be taken before the first of them is returned. One is being sorted and one
/// waits for its turn; more would only hold memory. With 1 to 8, two workers sort equally fast.
const AHEAD_PER_WORKER: usize = 2;

/// The least number of rows whose late columns are read together, unless fewer are left. With fewer, more values of a
/// list are decoded again and again.
const LATE_ROWS_MIN: usize = if cfg!(test) { 1 << 6 } else { 1 << 15 };

/// One sort, shared by its workers.
pub(super) struct Sorting<E> {
    input: Arc<dyn BatchSource>,
    pub(super) format: RunFormat,
    /// The memory of all runs.
    pub(super) held: SpillableMemory,
    temp: TempSpace,
    /// Reads the columns of the result that are not sorted.
    late: Option<Arc<LateRows>>,
    /// The positions in the order of the rows to return.
    window: Range<u64>,
    /// The number of first rows to gather, if not all rows are gathered.
    pub(super) top_rows: Option<usize>,
    batch_rows: usize,
    pub(super) cancel: Cancel,
    pub(super) bound: SharedBound<E>,
    state: Mutex<SortState<E>>,
    changed: Condvar,
}

/// The progress of a sort.
struct SortState<E> {
    stage: SortStage<E>,
    /// The number of workers that are gathering.
    gathering: usize,
    /// The runs of the workers that have finished gathering.
    runs: GatheredRuns<E>,
    /// The number of workers that sort ranges, including the worker that returns the result.
    ordering: usize,
    /// Whether a worker returns the result.
    is_given: bool,
    /// The next range to sort, and the end of the ranges to sort.
    next: usize,
    end: usize,
    /// The next range to return.
    given: usize,
    /// Sorted ranges that wait to be returned.
    ready: BTreeMap<usize, Ready>,
    /// The number of rows before the next range to return. Only counted for runs on disk.
    given_rows: u64,
}

enum SortStage<E> {
    Gathering,
    Giving(Arc<SortedInput<E>>),
    Failed(Error),
    Over,
}

/// All runs, ready to be sorted range by range.
enum SortedInput<E> {
    InMemory(RunRanges<E>),
    /// The merge, and the number of its next step. A step is a range.
    OnDisk(Mutex<(SpillMerge<E>, usize)>),
}

/// The sorted rows of a range.
struct Ready {
    batches: Vec<RecordBatch>,
    memory: StepMemory,
}

impl<E> SortState<E> {
    /// The ranges to sort. `None` if the sort is over.
    fn ranges(&self) -> Result<Option<&Arc<SortedInput<E>>>> {
        match &self.stage {
            SortStage::Failed(error) => Err(error.clone()),
            SortStage::Giving(ranges) => Ok(Some(ranges)),
            SortStage::Gathering | SortStage::Over => Ok(None),
        }
    }

    /// Adds a sorted range, or notes that there are no more ranges from this number on.
    fn add(&mut self, (range, ready): (usize, Option<Ready>)) {
        match ready {
            Some(ready) => {
                self.ready.insert(range, ready);
            }
            None => self.end = self.end.min(range),
        }
    }

    /// Takes the next range. `None` if too many ranges are already taken and not yet returned.
    fn take_range(&mut self) -> Option<usize> {
        let range = self.next;
        let is_free = range < self.end && range < self.given + AHEAD_PER_WORKER * self.ordering;
        self.next += usize::from(is_free);
        is_free.then_some(range)
    }
}

impl<E: Entry> Sorting<E> {
    /// Prepares a sort. Reads nothing.
    pub(super) fn new(
        input: Arc<dyn BatchSource>,
        format: RunFormat,
        (held, late): (SpillableMemory, Option<Arc<LateRows>>),
        request: &SortRequest,
    ) -> Arc<Sorting<E>> {
        let end = request.rows.map_or(u64::MAX, |rows| (request.skip as u64).saturating_add(rows as u64));
        let state = SortState {
            stage: SortStage::Gathering,
            gathering: 0,
            runs: GatheredRuns::default(),
            ordering: 0,
            is_given: false,
            next: 0,
            end: 0,
            given: 0,
            ready: BTreeMap::new(),
            given_rows: 0,
        };
        Arc::new(Sorting {
            input,
            format,
            held,
            temp: request.temp.clone(),
            late,
            window: request.skip as u64..end,
            top_rows: request.top_rows(),
            batch_rows: request.batch_rows.max(1),
            cancel: request.cancel.clone(),
            bound: SharedBound::default(),
            state: Mutex::new(state),
            changed: Condvar::new(),
        })
    }

    /// Returns one worker's share.
    pub(super) fn share(self: Arc<Self>) -> Batches {
        let mut worker = SortWorker { sorting: self, giving: None, batches: VecDeque::new(), memory: None };
        share(move || worker.next_batch())
    }

    /// Gathers this worker's share and waits for the other gathering workers. `None` if nothing is left to do.
    fn gather(&self) -> Result<Option<Arc<SortedInput<E>>>> {
        let mut state = self.state.lock();
        if !matches!(state.stage, SortStage::Gathering) {
            return Ok(state.ranges()?.cloned());
        }
        // Counting before reading makes the other workers wait for this one.
        state.gathering += 1;
        drop(state);
        self.gather_share()?;
        let mut state = self.state.lock();
        state.gathering -= 1;
        if !matches!(state.stage, SortStage::Gathering) {
            return Ok(state.ranges()?.cloned());
        }
        // The last worker to finish cuts the runs into ranges, because only now all runs are known.
        if state.gathering == 0 {
            let runs = std::mem::take(&mut state.runs);
            let (input, taken) = self.sorted_input(runs)?;
            (state.next, state.given, state.end) = (taken.start, taken.start, taken.end);
            state.stage = SortStage::Giving(Arc::new(input));
            self.changed.notify_all();
        }
        while matches!(state.stage, SortStage::Gathering) {
            self.wait(&mut state)?;
        }
        Ok(state.ranges()?.cloned())
    }

    /// Makes the ranges of all runs, and says which of them have rows of the result.
    fn sorted_input(&self, mut runs: GatheredRuns<E>) -> Result<(SortedInput<E>, Range<usize>)> {
        if runs.on_disk.is_empty() {
            let ranges = RunRanges::new(runs.in_memory, &self.format)?;
            // Only ranges with rows between OFFSET and LIMIT are sorted.
            let taken = ranges.within(&self.window);
            return Ok((SortedInput::InMemory(ranges), taken));
        }
        // Some workers may have spilled nothing. The merge only reads runs on disk.
        let mut writer = self.writer();
        runs.spill(&self.spiller(), &mut writer, &self.cancel)?;
        writer.finish()?;
        let runs = self.spiller().reduce::<E>(runs.on_disk, &self.cancel)?;
        let merge = SpillMerge::new(runs, &self.format)?;
        // The number of steps is known only at their end.
        Ok((SortedInput::OnDisk(Mutex::new((merge, 0))), 0..usize::MAX))
    }

    /// Gathers one share of the input.
    fn gather_share(&self) -> Result<()> {
        let mut gatherer = RunGatherer::new(self);
        for batch in Arc::clone(&self.input).worker() {
            gatherer.add(&batch?)?;
        }
        gatherer.finish()
    }

    /// Adds runs of rows that are not in the input, or of a share of it.
    pub(super) fn add_runs(&self, runs: GatheredRuns<E>) {
        self.state.lock().runs.extend(runs);
    }

    /// Fails if the statement has ended, or if another worker has failed.
    pub(super) fn check(&self) -> Result<()> {
        self.cancel.check()?;
        match &self.state.lock().stage {
            SortStage::Failed(error) => Err(error.clone()),
            _ => Ok(()),
        }
    }

    /// A writer for the runs of one worker.
    pub(super) fn writer(&self) -> SpillWriter {
        self.temp.writer(OWNER, &self.format.broker)
    }

    pub(super) fn spiller(&self) -> RunSpiller<'_> {
        RunSpiller::new(&self.format, &self.temp, self.window.end, self.batch_rows)
    }

    /// Joins the workers that sort ranges. Returns whether this worker must return the result.
    fn join(&self) -> bool {
        let mut state = self.state.lock();
        state.ordering += 1;
        !std::mem::replace(&mut state.is_given, true)
    }

    /// Sorts ranges for the worker that returns the result, until all ranges are taken.
    fn help(&self, ranges: &SortedInput<E>) -> Result<()> {
        let mut state = self.state.lock();
        while state.ranges()?.is_some() && state.next < state.end {
            match state.take_range() {
                // Sorting runs without the lock. The sort may end while we sort, and then the range is dropped.
                Some(range) => {
                    let ready = MutexGuard::unlocked(&mut state, || self.put_in_order(range, ranges))?;
                    if state.ranges()?.is_some() {
                        state.add(ready);
                        self.changed.notify_all();
                    }
                }
                None => self.wait(&mut state)?,
            }
        }
        Ok(())
    }

    /// Returns the next range of the result. Sorts ranges itself while the next one is not ready.
    fn next_range(&self, ranges: &SortedInput<E>) -> Result<Option<Ready>> {
        let mut state = self.state.lock();
        while state.ranges()?.is_some() && state.given < state.end {
            let given = state.given;
            if let Some(mut ready) = state.ready.remove(&given) {
                // This lets the helpers take further ranges.
                state.given += 1;
                if matches!(ranges, SortedInput::OnDisk(_)) {
                    ready.batches = within(ready.batches, &mut state.given_rows, &self.window);
                    if state.given_rows >= self.window.end {
                        state.end = state.given;
                    }
                }
                self.changed.notify_all();
                return Ok(Some(ready));
            }
            match state.take_range() {
                Some(range) => {
                    let ready = MutexGuard::unlocked(&mut state, || self.put_in_order(range, ranges))?;
                    state.add(ready);
                }
                None => self.wait(&mut state)?,
            }
        }
        Ok(None)
    }

    /// Sorts the rows of a range, and returns its number with them, or without rows if there are no more ranges.
    fn put_in_order(&self, range: usize, ranges: &SortedInput<E>) -> Result<(usize, Option<Ready>)> {
        self.cancel.check()?;
        let ranges = match ranges {
            SortedInput::InMemory(ranges) => ranges,
            SortedInput::OnDisk(merge) => {
                let mut merge = merge.lock();
                let pieces = self.next_step(&mut merge.0)?;
                let number = merge.1;
                merge.1 += 1;
                drop(merge);
                return Ok((number, pieces.map(|pieces| self.put_step_in_order(&pieces)).transpose()?));
            }
        };
        // We take scratch memory, because few ranges exist at a time and they are small. Refusing it would keep the
        // runs in memory, which are much larger.
        let mut memory = self.format.broker.scratch(OWNER);
        memory.grow(ranges.bytes_of(range))?;
        let batches = ranges.batches(range, &self.window, self.batch_rows, &self.format)?;
        Ok((range, Some(self.completed(batches, memory)?)))
    }

    /// The next rows of a merge. `None` at the end.
    fn next_step(&self, merge: &mut SpillMerge<E>) -> Result<Option<Vec<RunPiece<E>>>> {
        let Some(mut pieces) = merge.next_step()? else { return Ok(None) };
        // Rows that are read together share what a table must decode for them.
        let rows_min = if self.late.is_some() { LATE_ROWS_MIN } else { 0 };
        let mut rows: usize = pieces.iter().map(|piece| piece.rows.len()).sum();
        while rows < rows_min
            && let Some(more) = merge.next_step()?
        {
            rows += more.iter().map(|piece| piece.rows.len()).sum::<usize>();
            pieces.extend(more);
        }
        Ok(Some(pieces))
    }

    /// Adds the columns of the result that are not sorted.
    fn completed(&self, batches: Vec<RecordBatch>, mut memory: StepMemory) -> Result<Ready> {
        let Some(late) = &self.late else { return Ok(Ready { batches, memory }) };
        let batches = late.read(&batches)?;
        let mut held = HeldBuffers::default();
        batches.iter().for_each(|batch| held.add(batch));
        memory.clear();
        memory.grow(held.bytes() as u64)?;
        Ok(Ready { batches, memory })
    }

    fn put_step_in_order(&self, pieces: &[RunPiece<E>]) -> Result<Ready> {
        // Each piece takes its part of the bytes of its block.
        let bytes_of =
            |piece: &RunPiece<E>| piece.run.memory.bytes() * piece.rows.len() as u64 / piece.run.entries.len() as u64;
        let mut memory = self.format.broker.scratch(OWNER);
        memory.grow(pieces.iter().map(bytes_of).sum())?;
        self.completed(in_order(pieces, self.batch_rows, &self.format)?, memory)
    }

    fn wait(&self, state: &mut MutexGuard<'_, SortState<E>>) -> Result<()> {
        self.cancel.check()?;
        self.changed.wait_for(state, CANCEL_INTERVAL);
        Ok(())
    }

    /// Ends the sort for all workers and frees the ranges and runs that it holds.
    fn end(&self, error: Option<Error>) {
        let mut state = self.state.lock();
        if !matches!(state.stage, SortStage::Failed(_)) {
            state.stage = error.map_or(SortStage::Over, SortStage::Failed);
        }
        state.ready.clear();
        state.runs = GatheredRuns::default();
        self.changed.notify_all();
    }
}

/// One worker's share.
struct SortWorker<E: Entry> {
    sorting: Arc<Sorting<E>>,
    /// The ranges whose rows it returns, if this worker returns the result.
    giving: Option<Arc<SortedInput<E>>>,
    batches: VecDeque<RecordBatch>,
    memory: Option<StepMemory>,
}

impl<E: Entry> SortWorker<E> {
    fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        let sorting = Arc::clone(&self.sorting);
        // Without this, the other workers would wait forever for a worker that panicked.
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
            // The batches of the previous range have all been returned.
            self.memory = None;
            let Some(ready) = self.sorting.next_range(ranges)? else { return Ok(None) };
            self.batches.extend(ready.batches);
            self.memory = Some(ready.memory);
        }
        Ok(self.batches.pop_front())
    }
}

impl<E: Entry> Drop for SortWorker<E> {
    // A reader that stops early must also stop the helpers, which would otherwise wait for their ranges to be taken.
    fn drop(&mut self) {
        if self.giving.is_some() {
            self.sorting.end(None);
        }
    }
}

/// Ends a sort if its worker panics.
struct EndOnPanic<'a, E: Entry>(&'a Sorting<E>);

impl<E: Entry> Drop for EndOnPanic<'_, E> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.end(Some(Error::internal(format!("a worker of {OWNER} panicked"))));
        }
    }
}
