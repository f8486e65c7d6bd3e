//! Gathers the rows of one worker as runs, in memory or on disk.

use arrow::array::RecordBatch;
use rowmill_base::{Cancel, Result};
use rowmill_storage::spill::SpillWriter;

use super::entry::Entry;
use super::run::{RUN_ROWS, RunBuilder, SortedRun};
use super::sorting::Sorting;
use super::spilled::{RunSpiller, SpilledRun};
use super::top::TopOfSort;

/// The runs of some workers.
#[derive(Default)]
pub(super) struct GatheredRuns<E> {
    pub(super) in_memory: Vec<SortedRun<E>>,
    pub(super) on_disk: Vec<SpilledRun>,
}

impl<E: Entry> GatheredRuns<E> {
    /// Adds the runs of another worker.
    pub(super) fn extend(&mut self, other: GatheredRuns<E>) {
        self.in_memory.extend(other.in_memory);
        self.on_disk.extend(other.on_disk);
    }

    /// Writes the runs that are in memory to disk, as one run.
    pub(super) fn spill(&mut self, spiller: &RunSpiller<'_>, writer: &mut SpillWriter, cancel: &Cancel) -> Result<()> {
        if !self.in_memory.is_empty() {
            self.on_disk.push(spiller.spill(std::mem::take(&mut self.in_memory), writer, cancel)?);
        }
        Ok(())
    }
}

/// The rows of one worker that are not in runs yet.
enum RowCollector<'a, E> {
    All(RunBuilder<'a, E>),
    /// Only the first rows are needed.
    Top(TopOfSort<'a, E>),
}

/// Gathers the rows that one worker hands over.
pub(super) struct RunGatherer<'a, E> {
    sorting: &'a Sorting<E>,
    collector: RowCollector<'a, E>,
    runs: GatheredRuns<E>,
    /// It is kept from run to run, so that small runs share a file.
    writer: SpillWriter,
}

impl<'a, E: Entry> RunGatherer<'a, E> {
    pub(super) fn new(sorting: &'a Sorting<E>) -> RunGatherer<'a, E> {
        let collector = match sorting.top_rows {
            Some(rows) => RowCollector::Top(TopOfSort::new(&sorting.format, &sorting.bound, rows)),
            None => RowCollector::All(RunBuilder::new(&sorting.format)),
        };
        RunGatherer { sorting, collector, runs: GatheredRuns::default(), writer: sorting.writer() }
    }

    /// Adds the rows of a batch. Fails if the sort has failed in another worker.
    pub(super) fn add(&mut self, batch: &RecordBatch) -> Result<()> {
        self.sorting.check()?;
        // A run must not have more rows than a place can number.
        for start in (0..batch.num_rows()).step_by(RUN_ROWS) {
            let rows = batch.slice(start, RUN_ROWS.min(batch.num_rows() - start));
            match &mut self.collector {
                RowCollector::All(builder) => builder.add(rows, &mut self.runs.in_memory)?,
                RowCollector::Top(top) => top.add(rows)?,
            }
            if self.sorting.held.must_spill() {
                self.end_runs()?;
                self.spill()?;
            }
        }
        Ok(())
    }

    /// Puts the collected rows into runs.
    fn end_runs(&mut self) -> Result<()> {
        match &mut self.collector {
            RowCollector::All(builder) => builder.finish(&mut self.runs.in_memory),
            RowCollector::Top(top) => top.finish(&mut self.runs.in_memory),
        }
    }

    fn spill(&mut self) -> Result<()> {
        self.runs.spill(&self.sorting.spiller(), &mut self.writer, &self.sorting.cancel)
    }

    /// The runs of all rows. If some are on disk, all are.
    fn into_runs(mut self) -> Result<GatheredRuns<E>> {
        self.end_runs()?;
        if !self.runs.on_disk.is_empty() {
            self.spill()?;
        }
        self.writer.finish()?;
        Ok(self.runs)
    }

    /// Adds the runs to those of the sort.
    pub(super) fn finish(self) -> Result<()> {
        let sorting = self.sorting;
        sorting.add_runs(self.into_runs()?);
        Ok(())
    }
}
