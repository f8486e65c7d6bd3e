//! Ranges: all runs cut at the same keys.
//!
//! ```text
//! run 0   |-----|---|------|-------|
//! run 1   |---|-------|----|--|          range 0 is the first piece of each run, and so on
//! ```
//!
//! The keys to cut at are chosen from a sample of all runs at even distances, so all ranges have about the same number
//! of rows. That holds even with many equal keys, because entries also contain places. Each range is sorted by itself,
//! inside a core's caches: its pieces are sorted together, and each of them is read from front to back.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::RecordBatch;
use rowmill_base::{Reservation, Result};

use super::OWNER;
use super::entry::{Entry, RowPlace};
use super::order::EntryOrder;
use super::run::{RunFormat, SortedRun, gather};
use crate::cache::L2_BYTES;
use crate::share::batch_of;

/// The number of rows that a range should have, so that its entries and the scratch memory that they are sorted into
/// fit the second-level cache. It is small in tests, so that they have many ranges.
const RANGE_ROWS: usize = if cfg!(test) { 1 << 7 } else { L2_BYTES / (2 * size_of::<u128>()) };
/// The most bytes of a range with long rows. Each worker gathers one range at a time, beside the runs.
const RANGE_BYTES_MAX: u64 = 8 << 20;

/// The number of keys in the sample for each range, also for ranges of GROUP BY. With more samples, ranges are more
/// even and fit their cache more often. With 1, 4, 8, 16 and 64, ClickBench's groups by UserID take 63, 32, 29, 27 and
/// 27 ms, and those by Title 262, 248, 230, 227 and 225 ms; sorts take equally long with 4 to 64.
pub(crate) const SAMPLES_PER_RANGE: usize = 16;

/// All runs, and the positions at which they are cut.
pub(super) struct RunRanges<E> {
    runs: Vec<SortedRun<E>>,
    /// For each run, the positions at which the ranges end.
    ends: Vec<Vec<u32>>,
    /// The positions in the result at which the ranges end.
    result_ends: Vec<u64>,
    /// The approximate bytes of a row of the result.
    row_bytes: usize,
    _memory: Reservation,
}

impl<E: Entry> RunRanges<E> {
    /// Cuts `runs` into ranges.
    pub(super) fn new(runs: Vec<SortedRun<E>>, format: &RunFormat) -> Result<RunRanges<E>> {
        let rows: usize = runs.iter().map(|run| run.entries.len()).sum();
        let bytes: u64 = runs.iter().map(|run| run.memory.bytes()).sum();
        let count = rows.div_ceil(RANGE_ROWS).max(bytes.div_ceil(RANGE_BYTES_MAX) as usize).min(rows);
        let mut memory = format.reservation();
        memory.grow(
            (count * (runs.len() * size_of::<u32>() + size_of::<u64>() + SAMPLES_PER_RANGE * size_of::<E>())) as u64,
        )?;
        let order = order_of(&runs, format);
        let splitters = splitters(&runs, count, rows, &order);
        let ends: Vec<Vec<u32>> = (0..runs.len()).map(|run| ends_in(&runs[run], run, &splitters, &order)).collect();
        let mut result_ends: Vec<u64> = vec![0; count];
        for ends in &ends {
            result_ends.iter_mut().zip(ends).for_each(|(sum, end)| *sum += u64::from(*end));
        }
        Ok(RunRanges { runs, ends, result_ends, row_bytes: bytes as usize / rows.max(1), _memory: memory })
    }
}

impl<E: Entry> RunRanges<E> {
    /// The ranges that contain rows of `window`, a range of positions in the result.
    pub(super) fn within(&self, window: &Range<u64>) -> Range<usize> {
        let first = self.result_ends.partition_point(|end| *end <= window.start);
        // The range that contains the end of the window is still needed.
        let end = self.result_ends.partition_point(|end| *end < window.end) + 1;
        first..end.clamp(first, self.result_ends.len())
    }

    /// The approximate bytes that the rows of a range take in the result, and that sorting them takes.
    pub(super) fn bytes_of(&self, range: usize) -> u64 {
        let rows = self.rows_of(range);
        (rows.end - rows.start) * (self.row_bytes + 2 * size_of::<E>()) as u64
    }

    /// Returns the rows of a range that are inside `window`, sorted, in batches of at most `batch_rows` rows.
    pub(super) fn batches(
        &self,
        range: usize,
        window: &Range<u64>,
        batch_rows: usize,
        format: &RunFormat,
    ) -> Result<Vec<RecordBatch>> {
        let rows = self.rows_of(range);
        let position = |row: u64| (row.clamp(rows.start, rows.end) - rows.start) as usize;
        let given = position(window.start)..position(window.end);
        let pieces = self.pieces(range).filter(|(_, rows)| !rows.is_empty()).map(|(run, rows)| (&self.runs[run], rows));
        let pieces: Vec<_> = pieces.collect();
        sorted_batches(&pieces, given, batch_rows, format)
    }

    /// The approximate bytes of a row of the result.
    pub(super) fn row_bytes(&self) -> usize {
        self.row_bytes
    }

    /// The positions in the result of the rows of a range.
    fn rows_of(&self, range: usize) -> Range<u64> {
        let start = range.checked_sub(1).map_or(0, |before| self.result_ends[before]);
        start..self.result_ends[range]
    }

    /// For each run, the positions of the rows of a range.
    fn pieces(&self, range: usize) -> impl Iterator<Item = (usize, Range<usize>)> {
        self.ends.iter().enumerate().map(move |(run, ends)| {
            let start = range.checked_sub(1).map_or(0, |before| ends[before]);
            (run, start as usize..ends[range] as usize)
        })
    }
}

/// Rows of a run.
pub(super) struct RunPiece<E> {
    pub(super) run: Arc<SortedRun<E>>,
    pub(super) rows: Range<usize>,
}

/// Returns the rows of pieces, sorted, in batches of at most `batch_rows` rows.
pub(super) fn in_order<E: Entry>(
    pieces: &[RunPiece<E>],
    batch_rows: usize,
    format: &RunFormat,
) -> Result<Vec<RecordBatch>> {
    let pieces: Vec<_> = pieces.iter().map(|piece| (&*piece.run, piece.rows.clone())).collect();
    let rows = pieces.iter().map(|(_, rows)| rows.len()).sum();
    sorted_batches(&pieces, 0..rows, batch_rows, format)
}

/// Sorts the rows of pieces, which must not be empty. Returns those at the positions `given`, in batches of at most
/// `batch_rows` rows.
fn sorted_batches<E: Entry>(
    pieces: &[(&SortedRun<E>, Range<usize>)],
    given: Range<usize>,
    batch_rows: usize,
    format: &RunFormat,
) -> Result<Vec<RecordBatch>> {
    if let [(run, piece)] = pieces {
        // All rows come from one run, where they are already in order.
        let batch = run.batch.slice(piece.start + given.start, given.len());
        return Ok(even(given.len(), batch_rows).map(|part| batch.slice(part.start, part.len())).collect());
    }
    let mut entries = Vec::with_capacity(pieces.iter().map(|(_, piece)| piece.len()).sum());
    for (number, (run, piece)) in pieces.iter().enumerate() {
        entries.extend(run.entries[piece.clone()].iter().map(|entry| in_run(*entry, number)));
    }
    let order = format.order(pieces.iter().filter_map(|(run, _)| run.long.as_ref()));
    order.sort(&mut entries, &mut Vec::new());
    let parts: Vec<&RecordBatch> = pieces.iter().map(|(run, _)| &run.batch).collect();
    let entries = &entries[given];
    let batch = |part: Range<usize>| {
        let rows = part.len();
        batch_of(OWNER, &format.schema, gather(&parts, &entries[part])?, rows)
    };
    even(entries.len(), batch_rows).map(batch).collect()
}

/// The order of entries whose places refer to runs.
fn order_of<'a, E: Entry>(runs: &'a [SortedRun<E>], format: &RunFormat) -> EntryOrder<'a> {
    format.order(runs.iter().filter_map(|run| run.long.as_ref()))
}

/// Turns an entry of a run into an entry among all runs, by adding the run's number to its place.
fn in_run<E: Entry>(mut entry: E, run: usize) -> E {
    entry |= E::at(RowPlace { part: run, row: 0 });
    entry
}

/// Chooses the first entry of each range except the first one.
fn splitters<E: Entry>(runs: &[SortedRun<E>], ranges: usize, rows: usize, order: &EntryOrder<'_>) -> Vec<E> {
    let distance = (rows / (ranges * SAMPLES_PER_RANGE).max(1)).max(1);
    let mut samples = Vec::new();
    for (number, run) in runs.iter().enumerate() {
        let sampled = run.entries.iter().skip(distance / 2).step_by(distance);
        samples.extend(sampled.map(|entry| in_run(*entry, number)));
    }
    order.sort(&mut samples, &mut Vec::new());
    // Equal steps through the sorted sample divide the rows into about equal parts.
    (1..ranges).map(|range| samples[range * samples.len() / ranges]).collect()
}

/// Finds the positions at which the ranges end in a run.
fn ends_in<E: Entry>(run: &SortedRun<E>, number: usize, splitters: &[E], order: &EntryOrder<'_>) -> Vec<u32> {
    let mut end = 0;
    let is_before = |entry: &E, splitter: &E| order.compare(in_run(*entry, number), *splitter).is_lt();
    let ends = splitters.iter().map(|splitter| {
        // Splitters ascend, so each search starts at the end of the previous range.
        end += run.entries[end..].partition_point(|entry| is_before(entry, splitter));
        end as u32
    });
    let mut ends: Vec<u32> = ends.collect();
    ends.push(run.entries.len() as u32);
    ends
}

/// Cuts `rows` into as few parts of at most `most` rows as possible, all of about the same length.
fn even(rows: usize, most: usize) -> impl Iterator<Item = Range<usize>> {
    let parts = rows.div_ceil(most);
    (0..parts).map(move |part| part * rows / parts..(part + 1) * rows / parts)
}
