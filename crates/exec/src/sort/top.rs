//! The best rows of one worker, for an ORDER BY with a small LIMIT.
//!
//! Of each batch we keep only the rows before the bound that all workers share, and no more than are needed. When
//! twice that number has been collected, we drop the worse half, and the last row that stays becomes a new bound. A
//! row is therefore moved only a few times, however large the limit is. We hold copies of the rows that stay, not
//! whole batches.

use std::sync::Arc;

use arrow::array::{Array, RecordBatch, UInt32Array};
use arrow::compute::take;
use arrow::error::ArrowError;
use parking_lot::Mutex;
use rowmill_base::{Error, Reservation, Result};

use super::bound::SortBound;
use super::entry::{Entry, RowPlace};
use super::long::LongKeys;
use super::order::EntryOrder;
use super::run::{RunFormat, SortedRun};

/// The bound that all workers share. No row after it can be in the result.
pub(super) struct SharedBound<E>(Mutex<Option<Arc<SortBound<E>>>>);

impl<E> Default for SharedBound<E> {
    fn default() -> SharedBound<E> {
        SharedBound(Mutex::new(None))
    }
}

impl<E: Entry> SharedBound<E> {
    fn get(&self) -> Option<Arc<SortBound<E>>> {
        self.0.lock().clone()
    }

    fn tighten(&self, bound: SortBound<E>, order: &EntryOrder<'_>) {
        let mut shared = self.0.lock();
        if shared.as_ref().is_none_or(|shared| bound.is_tighter(shared, order)) {
            *shared = Some(Arc::new(bound));
        }
    }
}

/// The best rows of one worker so far.
pub(super) struct TopOfSort<'a, E> {
    format: &'a RunFormat,
    bound: &'a SharedBound<E>,
    /// The number of rows that are needed, at least one.
    rows: usize,
    /// Rows that were among the best when they came. At most twice the number needed, plus the rows of one batch.
    parts: Vec<RecordBatch>,
    entries: Vec<E>,
    long: Vec<LongKeys>,
    /// Whether the number of rows needed was reached once.
    is_full: bool,
    /// The memory of the parts and their entries.
    memory: Vec<Reservation>,
}

impl<'a, E: Entry> TopOfSort<'a, E> {
    pub(super) fn new(format: &'a RunFormat, bound: &'a SharedBound<E>, rows: usize) -> TopOfSort<'a, E> {
        TopOfSort {
            format,
            bound,
            rows,
            parts: Vec::new(),
            entries: Vec::new(),
            long: Vec::new(),
            is_full: false,
            memory: Vec::new(),
        }
    }

    /// Adds the rows of a batch that are among the best. The batch must not have more rows than a place can number.
    pub(super) fn add(&mut self, batch: RecordBatch) -> Result<()> {
        let entries = self.best_of(&batch)?;
        if !entries.is_empty() {
            self.push(self.format.gather(vec![batch], entries, self.format.reservation())?);
            // The first cut comes as soon as possible, because it yields the first bound. Later ones wait for twice as
            // many.
            let full = if self.is_full { 2 * self.rows } else { self.rows };
            if self.entries.len() >= full {
                let best = self.cut()?;
                self.push(best);
                self.is_full = true;
            }
        }
        Ok(())
    }

    /// Appends the remaining best rows to `runs`.
    pub(super) fn finish(&mut self, runs: &mut Vec<SortedRun<E>>) -> Result<()> {
        if !self.entries.is_empty() {
            runs.push(self.cut()?);
        }
        Ok(())
    }

    fn push(&mut self, run: SortedRun<E>) {
        let part = self.parts.len();
        self.entries.extend(run.entries.iter().map(|entry| entry.moved(RowPlace { part, row: entry.place().row })));
        self.parts.push(run.batch);
        self.long.extend(run.long);
        self.memory.push(run.memory);
    }

    /// The entries of the best rows of a batch, with their places in the batch.
    fn best_of(&self, batch: &RecordBatch) -> Result<Vec<E>> {
        let bound = self.bound.get();
        let layout = &self.format.layout;
        let mut columns = layout.columns(batch);
        // First drop rows by the first key column alone, which is cheap. Only the other rows get entries.
        let passing = bound.as_ref().map(|bound| bound.passing(&columns[0])).transpose()?.flatten();
        let passing = passing.filter(|passing| passing.count_set_bits() < batch.num_rows());
        let kept = passing.map(|passing| UInt32Array::from_iter_values(passing.set_indices().map(|row| row as u32)));
        if let Some(kept) = &kept {
            if kept.is_empty() {
                return Ok(Vec::new());
            }
            columns =
                columns.iter().map(|column| take(column, kept, None)).collect::<Result<_, _>>().map_err(failed)?;
        }
        let mut entries = Vec::new();
        let long = layout.add_entries(&columns, 0, &mut entries)?;
        let order = self.format.order(&long);
        if let Some(bound) = bound {
            entries.retain(|entry| bound.admits(*entry, &order));
        }
        self.select(&mut entries, &order);
        // Entries refer to the filtered rows, so we translate their places back to the batch.
        if let Some(kept) = kept {
            for entry in &mut entries {
                *entry = entry.moved(RowPlace { part: 0, row: kept.value(entry.place().row) as usize });
            }
        }
        Ok(entries)
    }

    /// Drops all but the best entries. If enough entries are left, the last one is the worst of them.
    fn select(&self, entries: &mut Vec<E>, order: &EntryOrder<'_>) {
        if entries.len() >= self.rows {
            entries.select_nth_unstable_by(self.rows - 1, |left, right| order.compare(*left, *right));
            entries.truncate(self.rows);
        }
    }

    /// Takes the best rows as a run. If they are enough, the last of them becomes the new bound.
    fn cut(&mut self) -> Result<SortedRun<E>> {
        let mut entries = std::mem::take(&mut self.entries);
        let (parts, long) = (std::mem::take(&mut self.parts), std::mem::take(&mut self.long));
        let order = self.format.order(&long);
        self.select(&mut entries, &order);
        let mut memory = self.format.reservation();
        memory.grow((entries.len() * size_of::<E>()) as u64)?;
        order.sort(&mut entries, &mut Vec::new());
        if let Some(last) = entries.get(self.rows - 1) {
            let place = last.place();
            let keys = &self.format.layout.keys;
            // The first key column of the worst row that stays is what later batches are compared with.
            let value = parts[place.part].column(keys[0].column).slice(place.row, 1);
            self.bound.tighten(SortBound::new(*last, &order, value, keys), &order);
        }
        drop(long);
        let run = self.format.gather(parts, entries, memory);
        // The old parts are gone, and the run has its own reservation.
        self.memory.clear();
        run
    }
}

fn failed(error: ArrowError) -> Error {
    Error::internal(format!("cannot select the first rows of an order: {error}"))
}
