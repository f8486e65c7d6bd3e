//! Sorted runs on disk, and their merge.
//!
//! A worker that is short of memory sorts all rows that it holds and writes them as one run. A run on disk is a
//! sequence of blocks of rows. The merge reads all runs at the same time, one block of each:
//!
//! ```text
//! run 0   ...|-----a==|       the last rows of the blocks are a, b and c. If b is the least of them, all rows up to b
//! run 1   ...|==b|            are in these blocks: they are the next piece of the result. Then run 1 needs its next
//! run 2   ...|-------c===|    block
//! ```
//!
//! So a step needs one search per run, and the rows of a step are sorted together like those of a range in memory.
//! Steps are cut one after the other, but workers sort and gather their rows at the same time.
//!
//! We bound the number of runs that are merged at once, because each takes memory for a block. If there are more, we
//! first merge some of them into longer ones.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::RecordBatch;
use rowmill_base::{Broker, Cancel, Result};
use rowmill_storage::spill::{BatchCodec, SectionReader, SpillSection, SpillWriter, TempSpace};

use super::OWNER;
use super::entry::Entry;
use super::ranges::{RunPiece, RunRanges, in_order};
use super::run::{RunFormat, SortedRun};

/// The bytes that a block should have. Smaller blocks take less memory in a merge, but cost more for each row.
const BLOCK_BYTES: usize = 1 << 17;

/// The fewest rows of a block, even if they are long.
const BLOCK_ROWS_MIN: usize = 8;

/// A part of this size of the memory limit is for the blocks of a merge.
const MERGE_SHARE: u64 = 4;

/// A sorted run on disk.
#[derive(Debug)]
pub(super) struct SpilledRun {
    section: SpillSection,
}

/// Writes runs to disk.
pub(super) struct RunSpiller<'a> {
    format: &'a RunFormat,
    temp: &'a TempSpace,
    codec: BatchCodec,
    /// The number of first rows of the result. No run needs more.
    rows_max: u64,
    batch_rows: usize,
}

impl<'a> RunSpiller<'a> {
    pub(super) fn new(format: &'a RunFormat, temp: &'a TempSpace, rows_max: u64, batch_rows: usize) -> RunSpiller<'a> {
        let codec = BatchCodec::new(Arc::clone(&format.schema));
        RunSpiller { format, temp, codec, rows_max, batch_rows }
    }

    /// Writes the rows of `runs` as one run. It can be read when the writer has finished.
    pub(super) fn spill<E: Entry>(
        &self,
        runs: Vec<SortedRun<E>>,
        writer: &mut SpillWriter,
        cancel: &Cancel,
    ) -> Result<SpilledRun> {
        let ranges = RunRanges::new(runs, self.format)?;
        let (window, block_rows) = (0..self.rows_max, self.block_rows(ranges.row_bytes()));
        for range in ranges.within(&window) {
            cancel.check()?;
            self.put(&ranges.batches(range, &window, block_rows, self.format)?, writer)?;
        }
        let section = writer.end_section();
        writer.end_flush()?;
        Ok(SpilledRun { section })
    }

    /// Merges runs until there are few enough for one merge.
    pub(super) fn reduce<E: Entry>(&self, runs: Vec<SpilledRun>, cancel: &Cancel) -> Result<Vec<SpilledRun>> {
        let runs_max = runs_max(&self.format.broker);
        let mut runs = VecDeque::from(runs);
        while runs.len() > runs_max {
            // The first runs are the shortest, because merged runs are appended. Merging no more than needed leaves
            // most rows where they are.
            let count = (runs.len() - runs_max + 1).min(runs_max);
            let merge = SpillMerge::<E>::new(runs.drain(..count).collect(), self.format)?;
            runs.push_back(self.merged(merge, cancel)?);
        }
        Ok(runs.into())
    }

    /// Writes the rows of a merge as one run.
    fn merged<E: Entry>(&self, mut merge: SpillMerge<E>, cancel: &Cancel) -> Result<SpilledRun> {
        let (window, block_rows, mut rows) = (0..self.rows_max, self.block_rows(merge.row_bytes), 0);
        let mut writer = self.temp.writer(OWNER, &self.format.broker);
        while rows < self.rows_max {
            cancel.check()?;
            let Some(pieces) = merge.next_step()? else { break };
            let batches = in_order(&pieces, block_rows, self.format)?;
            self.put(&within(batches, &mut rows, &window), &mut writer)?;
        }
        let section = writer.end_section();
        writer.finish()?;
        Ok(SpilledRun { section })
    }

    fn put(&self, batches: &[RecordBatch], writer: &mut SpillWriter) -> Result<()> {
        batches.iter().filter(|batch| batch.num_rows() > 0).try_for_each(|batch| self.codec.put(batch, writer))
    }

    /// The rows of a block.
    fn block_rows(&self, row_bytes: usize) -> usize {
        (BLOCK_BYTES / row_bytes.max(1)).clamp(BLOCK_ROWS_MIN, self.batch_rows.max(BLOCK_ROWS_MIN))
    }
}

/// The most runs that are merged at once.
fn runs_max(broker: &Broker) -> usize {
    // A block takes memory as it is read and as it is decoded.
    ((broker.limit_bytes() / MERGE_SHARE) as usize / (2 * BLOCK_BYTES)).max(2)
}

/// Merges runs that are on disk.
pub(super) struct SpillMerge<E> {
    codec: BatchCodec,
    format: RunFormat,
    cursors: Vec<RunCursor<E>>,
    /// The bytes of a row in the first blocks.
    row_bytes: usize,
}

/// A run that is being read.
struct RunCursor<E> {
    reader: SectionReader,
    block: Arc<SortedRun<E>>,
    /// The first row of the block that was not taken.
    at: usize,
}

impl<E: Entry> SpillMerge<E> {
    pub(super) fn new(runs: Vec<SpilledRun>, format: &RunFormat) -> Result<SpillMerge<E>> {
        let format = format.clone();
        let codec = BatchCodec::new(Arc::clone(&format.schema));
        let mut merge = SpillMerge { codec, format, cursors: Vec::with_capacity(runs.len()), row_bytes: 0 };
        for SpilledRun { section } in runs {
            let mut reader = section.reader();
            if let Some(block) = merge.next_block(&mut reader)? {
                merge.cursors.push(RunCursor { reader, block: Arc::new(block), at: 0 });
            }
        }
        let rows: usize = merge.cursors.iter().map(|cursor| cursor.block.entries.len()).sum();
        let bytes: u64 = merge.cursors.iter().map(|cursor| cursor.block.memory.bytes()).sum();
        merge.row_bytes = bytes as usize / rows.max(1);
        Ok(merge)
    }

    fn next_block(&self, reader: &mut SectionReader) -> Result<Option<SortedRun<E>>> {
        self.codec.next(reader)?.map(|batch| self.format.run_of_sorted(batch)).transpose()
    }

    /// The run whose block has the least last row.
    fn least_block(&self) -> Option<usize> {
        let is_less = |left: &RunCursor<E>, right: &RunCursor<E>| {
            let (left, right) = (&left.block, &right.block);
            let last = right.entries[right.entries.len() - 1];
            let rest = right.order(&self.format).rest(last);
            left.order(&self.format).compare_keys(left.entries[left.entries.len() - 1], last, rest).is_lt()
        };
        let cursors = &self.cursors;
        (0..cursors.len()).reduce(|least, other| if is_less(&cursors[other], &cursors[least]) { other } else { least })
    }

    /// The next rows of the result, as pieces of blocks. `None` at the end.
    pub(super) fn next_step(&mut self) -> Result<Option<Vec<RunPiece<E>>>> {
        let Some(least) = self.least_block() else { return Ok(None) };
        let bound = Arc::clone(&self.cursors[least].block);
        let bound_order = bound.order(&self.format);
        let last = bound.entries[bound.entries.len() - 1];
        let rest = bound_order.rest(last);
        let mut pieces = Vec::new();
        for cursor in &mut self.cursors {
            let order = cursor.block.order(&self.format);
            let rows = &cursor.block.entries[cursor.at..];
            // Rows with equal keys may come in any order, so all of them belong to this step.
            let taken = leading(rows, |entry| order.compare_keys(*entry, last, rest).is_le());
            if taken > 0 {
                let rows = cursor.at..cursor.at + taken;
                pieces.push(RunPiece { run: Arc::clone(&cursor.block), rows });
                cursor.at += taken;
            }
        }
        drop(bound_order);
        self.read_on()?;
        Ok(Some(pieces))
    }

    /// Reads the next blocks of the runs whose blocks were taken. Removes the runs that have ended.
    fn read_on(&mut self) -> Result<()> {
        let mut cursors = std::mem::take(&mut self.cursors);
        for mut cursor in cursors.drain(..) {
            if cursor.at == cursor.block.entries.len() {
                let Some(block) = self.next_block(&mut cursor.reader)? else { continue };
                (cursor.block, cursor.at) = (Arc::new(block), 0);
            }
            self.cursors.push(cursor);
        }
        Ok(())
    }
}

/// The number of items at the beginning of `items` for which `test` is true. It must be false for all items after them.
/// The steps of the search double, because a step of a merge takes few rows of most runs.
fn leading<T>(items: &[T], test: impl Fn(&T) -> bool) -> usize {
    let (mut start, mut step) = (0, 1);
    while let Some(item) = items.get(start + step - 1)
        && test(item)
    {
        (start, step) = (start + step, 2 * step);
    }
    let end = items.len().min(start + step - 1);
    start + items[start..end].partition_point(test)
}

/// The part of a batch sequence that is inside of `window`, if `given` rows came before it. Adds its rows to `given`.
pub(super) fn within(batches: Vec<RecordBatch>, given: &mut u64, window: &Range<u64>) -> Vec<RecordBatch> {
    let mut kept = Vec::with_capacity(batches.len());
    for batch in batches {
        let rows = *given..*given + batch.num_rows() as u64;
        *given = rows.end;
        let start = window.start.clamp(rows.start, rows.end) - rows.start;
        let end = window.end.clamp(rows.start, rows.end) - rows.start;
        if start < end {
            kept.push(batch.slice(start as usize, (end - start) as usize));
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::leading;

    #[test]
    fn leading_items_are_counted_at_every_border() {
        for len in 0..40 {
            let items: Vec<usize> = (0..len).collect();
            for border in 0..=len {
                assert_eq!(leading(&items, |item| *item < border), border, "{border} of {len}");
            }
        }
    }
}
