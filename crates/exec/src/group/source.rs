//! The source of a grouping's rows, and how a worker takes them.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow::array::ArrayRef;
use arrow::compute::concat;
use rowmill_base::{Error, ErrorKind, Result};
use rowmill_plan::Expr;
use rowmill_storage::chunk::{Verdict, Zone};
use rowmill_storage::{Block, OpenRun, TableDef, TableSource};

use super::coded::{CODED_ROWS_MAX, CodedBatches, GATHERED_ROWS_MIN};
use super::gather::Gatherer;
use super::layout::KeyColumn;
use super::ranges::ColumnPart;
use super::rows::{PartRows, by_row, values_where};
use super::texts::is_text;
use super::value_list::ValueList;
use super::{GroupBy, KnownLists, Lists};
use crate::batch::BatchSource;
use crate::scan::block_state::{BlockState, verdict};
use crate::scan::cut;
use crate::scan::filter::Filter;
use crate::scan::offered::BlockFilters;
use crate::scan::part::{PartOrigin, ScanPart, SharedBlock};

/// If a column is grouped range by range, at most one row in this many may be outside of lists. Such rows are sorted
/// first. With a 64th, 16th and 8th of two million rows outside, ClickBench's groups by UserID take 8.5, 10.5 and 7.5
/// ms range by range and 18, 12 and 11 ms by rows; with a fifth outside, both take 10 ms.
const LOOSE_SHARE: usize = 16;

/// The rows of a grouping.
#[derive(Clone, Debug)]
pub enum GroupSource {
    /// The rows of a table. Columns are numbered by their positions in its definition.
    Table(Arc<dyn TableSource>),
    /// The rows of another operator. Columns are numbered by their positions in its batches.
    Batches(Arc<dyn BatchSource>),
}

/// Whether each block of a table may have rows of a grouping.
pub(super) struct ReadBlocks(Vec<bool>);

impl From<Arc<dyn TableSource>> for GroupSource {
    fn from(source: Arc<dyn TableSource>) -> GroupSource {
        GroupSource::Table(source)
    }
}

impl From<Arc<dyn BatchSource>> for GroupSource {
    fn from(source: Arc<dyn BatchSource>) -> GroupSource {
        GroupSource::Batches(source)
    }
}

impl GroupSource {
    /// The number of workers that find work.
    pub(super) fn parts(&self) -> usize {
        match self {
            GroupSource::Table(source) => source.blocks().len() + source.runs().len(),
            GroupSource::Batches(source) => source.parallelism(),
        }
    }

    /// The blocks of a table that may have rows in the filter, according to their zone maps.
    pub(super) fn read_blocks(&self, filter: &Filter) -> ReadBlocks {
        let GroupSource::Table(source) = self else { return ReadBlocks(Vec::new()) };
        let may_have = |block: &Arc<Block>| {
            // A block whose zone maps cannot be read is an error for its reader.
            block.live_rows() > 0 && verdict(block, source.table(), filter) != Ok(Verdict::Nothing)
        };
        ReadBlocks(source.blocks().iter().map(may_have).collect())
    }

    /// An upper bound of the rows, as far as they are known.
    pub(super) fn rows_max(&self, read_blocks: &ReadBlocks) -> usize {
        match self {
            GroupSource::Table(source) => {
                let blocks = source.blocks().iter().zip(&read_blocks.0).filter(|(_, is_read)| **is_read);
                let in_blocks: usize = blocks.map(|(block, _)| block.live_rows()).sum();
                in_blocks + source.runs().iter().map(|run| run.live_rows()).sum::<usize>()
            }
            GroupSource::Batches(_) => usize::MAX,
        }
    }
}

impl GroupBy {
    /// Lets `gatherer` take rows until none are left.
    pub(super) fn read(&self, gatherer: &mut Gatherer<'_>) -> Result<()> {
        match &self.source {
            GroupSource::Table(source) => self.read_table(&**source, gatherer),
            GroupSource::Batches(source) => self.read_batches(Arc::clone(source), gatherer),
        }
    }

    fn read_batches(&self, source: Arc<dyn BatchSource>, gatherer: &mut Gatherer<'_>) -> Result<()> {
        let columns = self.coded_columns(&source);
        let mut coded: Option<CodedBatches> = None;
        let mut may_code = !self.recipe.layout.columns.is_empty() && self.recipe.enough.is_none();
        for batch in source.worker() {
            self.request.cancel.check()?;
            if self.has_enough(gatherer) {
                break;
            }
            let batch = batch?;
            add(&self.request.metrics.rows_read, batch.num_rows());
            add(&self.request.metrics.rows_selected, batch.num_rows());
            // Rows of few groups are added to them at once, unless texts would be hashed for each row.
            let pays = || batch.num_rows() >= GATHERED_ROWS_MIN && (!columns.is_empty() || gatherer.is_past_table());
            if may_code && (coded.is_some() || pays()) {
                let pushed = match &mut coded {
                    Some(coded) => coded.push(&batch),
                    None => CodedBatches::new(&columns, &self.columns_grouped(), &batch, &self.request.broker)
                        .and_then(|new| coded.insert(new).push(&batch)),
                };
                match pushed {
                    Ok(()) => {
                        may_code = coded.as_ref().is_some_and(CodedBatches::is_useful);
                        self.add_coded(&mut coded, may_code, gatherer)?;
                        continue;
                    }
                    // Rows that are added one by one take less memory, and may go to disk.
                    Err(error) if error.kind() == ErrorKind::MemoryLimit => {
                        may_code = false;
                        self.add_coded(&mut coded, may_code, gatherer)?;
                    }
                    Err(error) => return Err(error),
                }
            }
            gatherer.add(&PartRows::of_batch(&self.request.functions, &batch))?;
        }
        self.add_coded(&mut coded, false, gatherer)
    }

    /// Adds the gathered rows of batches if there are enough of them, or if no more will be gathered.
    fn add_coded(
        &self,
        coded: &mut Option<CodedBatches>,
        may_gather_more: bool,
        gatherer: &mut Gatherer<'_>,
    ) -> Result<()> {
        let Some(batches) = coded else { return Ok(()) };
        if may_gather_more && batches.rows() < self.fitting_rows().min(CODED_ROWS_MAX) {
            return Ok(());
        }
        let rows = if batches.rows() > 0 { Some(batches.take()?) } else { None };
        if !may_gather_more {
            *coded = None;
        }
        match rows {
            Some(rows) => gatherer.add(&PartRows::of_coded(&self.request.functions, &rows)),
            None => Ok(()),
        }
    }

    /// The columns of texts that the keys read. Conditions on texts within aggregates are left to the rows: with seven
    /// of them, as in a pivot by the day of the week, codes make a query of 36 ms over 2.2 million rows take 52 ms.
    fn coded_columns(&self, source: &Arc<dyn BatchSource>) -> Vec<usize> {
        let mut columns = self.columns_of(self.recipe.layout.columns.iter().map(|key| key.expr));
        columns.retain(|column| is_text(source.schema().field(*column).data_type()));
        columns
    }

    fn read_table(&self, source: &dyn TableSource, gatherer: &mut Gatherer<'_>) -> Result<()> {
        let functions = &self.request.functions;
        let columns = self.columns_listed();
        let mut own = None;
        let mut has_read = false;
        loop {
            self.request.cancel.check()?;
            if self.has_enough(gatherer) {
                return Ok(());
            }
            let Some((part, frame)) = self.parts.next(&mut own) else { return Ok(()) };
            if self.request.counts_workers && !std::mem::replace(&mut has_read, true) {
                add(&self.request.metrics.workers, 1);
            }
            match part.origin {
                PartOrigin::Block(block) => {
                    self.read_block(source, &source.blocks()[block], part, frame, &columns, gatherer)?
                }
                PartOrigin::Run(run) => {
                    let run = &source.runs()[run];
                    add(&self.request.metrics.rows_read, run.live_rows());
                    let rows = PartRows::of_run(source.table(), functions, run, &self.filter, &self.offered)?;
                    add(&self.request.metrics.rows_selected, rows.len());
                    gatherer.add(&rows)?;
                }
            }
        }
    }

    /// The parts that workers take one by one: blocks, or slices of them if there are few blocks.
    pub(super) fn cut(&self, read_blocks: &ReadBlocks) -> Vec<ScanPart> {
        let GroupSource::Table(source) = &self.source else { return Vec::new() };
        let (blocks, runs) = (source.blocks(), source.runs());
        let slice_rows_min = self.recipe.policy.slice_rows_min;
        // A value list of one column describes the block as a whole, so such a block is not cut.
        let has_keys = !self.request.group.keys.is_empty();
        let is_by_lists = self.columns_listed().len() == 1 || !has_keys && self.filter.is_empty();
        // Adding to one group takes less time, so slices should be larger.
        let slice_rows_min = if has_keys { slice_rows_min } else { 2 * slice_rows_min };
        let slices = if is_by_lists { vec![1; blocks.len()] } else { self.slices_of_blocks(read_blocks) };
        let fitting_rows = if is_by_lists { usize::MAX } else { self.fitting_rows() };
        let of_block = |(number, block): (usize, &Arc<Block>)| {
            let rows_max = block.rows().div_ceil(slices[number]).max(slice_rows_min).min(fitting_rows);
            ScanPart::new(PartOrigin::Block(number), cut(0..block.rows(), rows_max.next_multiple_of(1024)))
        };
        let of_run = |(number, run): (usize, &Arc<OpenRun>)| {
            ScanPart::new(PartOrigin::Run(number), std::iter::once(0..run.rows()))
        };
        blocks.iter().enumerate().map(of_block).chain(runs.iter().enumerate().map(of_run)).collect()
    }

    /// The number of slices of each block. If zone maps leave few of the blocks, the rows that pass are in a part of
    /// these, for example those of a day in a table of a year. So they are cut into more slices, for all workers.
    fn slices_of_blocks(&self, ReadBlocks(are_read): &ReadBlocks) -> Vec<usize> {
        let (blocks, threads) = (are_read.len(), self.request.threads);
        let even = slices(blocks, threads);
        let read = are_read.iter().filter(|is_read| **is_read).count();
        let wanted = SLICES_PER_WORKER * threads;
        let is_cut = threads > 1 && !self.filter.is_empty() && read < wanted.min(blocks);
        let of_read = if is_cut { even.max(wanted.div_ceil(read.max(1))) } else { even };
        are_read.iter().map(|is_read| if *is_read { of_read } else { 1 }).collect()
    }

    /// The rows whose decoded values and groups take a small share of the memory limit. The groups of a slice exist
    /// before the worker can spill, so a large slice would pass the limit.
    fn fitting_rows(&self) -> usize {
        /// One part in this many of the limit is for the slices of all workers.
        const SLICES_SHARE: u64 = 8;
        /// A value or its view, its code, and the packed number of the row.
        const COLUMN_BYTES: usize = 32;
        // The groups of a slice are made once, and then copied to their partitions.
        let group_bytes = 2 * self.recipe.layout.stride * size_of::<u64>();
        let row_bytes = group_bytes + self.columns_grouped().len() * COLUMN_BYTES;
        let share = self.request.broker.limit_bytes() / SLICES_SHARE / self.request.threads.max(1) as u64;
        (share as usize / row_bytes).max(FITTING_ROWS_MIN)
    }

    /// Whether any worker has gathered enough.
    fn has_enough(&self, gatherer: &Gatherer<'_>) -> bool {
        if gatherer.has_enough() {
            self.has_enough.store(true, Ordering::Relaxed);
        }
        self.has_enough.load(Ordering::Relaxed)
    }

    /// The lists of the only column that is grouped. `None` unless its values are the keys and nearly all rows are in
    /// blocks with lists.
    pub(super) fn lists(&self) -> Result<Option<Lists>> {
        let GroupSource::Table(source) = &self.source else { return Ok(None) };
        let [KeyColumn { expr: Expr::Column(column), .. }] = &*self.recipe.layout.columns else { return Ok(None) };
        let table = source.table();
        let is_alone = self.columns_grouped() == [*column] && table.columns[*column].kind.is_ordered();
        let keeps_nothing = self.recipe.enough.is_none() && self.recipe.states.logs().is_empty();
        let needs_rows = self.request.group.always.is_empty();
        if !is_alone || !keeps_nothing || !needs_rows || self.recipe.policy.range_bytes.is_none() {
            return Ok(None);
        }
        let mut loose: usize = source.runs().iter().map(|run| run.live_rows()).sum();
        let mut listed = 0;
        for block in source.blocks().iter().filter(|block| block.live_rows() > 0) {
            match block.chunk_head(table, *column)?.is_some_and(|chunk| chunk.has_values()) {
                true => listed += block.live_rows(),
                false => loose += block.live_rows(),
            }
        }
        let lists = Lists { source: Arc::clone(source), column: *column, known: None, reading: Arc::default() };
        Ok((loose * LOOSE_SHARE <= listed).then_some(lists))
    }

    /// Passes to `take` the parts of the column that no other worker takes.
    pub(super) fn read_lists(
        &self,
        Lists { source, column, known, .. }: &Lists,
        take: &mut dyn FnMut(ColumnPart) -> Result<()>,
    ) -> Result<()> {
        if let Some(known) = known {
            return self.read_known(known, take);
        }
        let table = &**source.table();
        let (functions, reads) = (&self.request.functions, &self.request.metrics.reads);
        let loose = |rows: &PartRows<'_>| by_row(rows.values(Expr::Column(*column))?).map(ColumnPart::Loose);
        let mut has_read = false;
        loop {
            self.request.cancel.check()?;
            let part = self.next_part.fetch_add(1, Ordering::AcqRel);
            let is_counted = self.request.counts_workers && part < source.blocks().len() + source.runs().len();
            if is_counted && !std::mem::replace(&mut has_read, true) {
                add(&self.request.metrics.workers, 1);
            }
            // Runs come first: a run takes longer than a list, and all workers must wait for the one with the last
            // part.
            if let Some(run) = source.runs().get(part) {
                add(&self.request.metrics.rows_read, run.live_rows());
                take(loose(&PartRows::of_run(table, functions, run, &self.filter, &self.offered)?)?)?;
            } else if let Some(block) = source.blocks().get(part - source.runs().len()) {
                let Some(filter) = self.filter_of(table, block, 0..block.rows())? else { continue };
                take(match ValueList::of_block(table, block, filter, *column, reads)? {
                    Some(list) => ColumnPart::List(list),
                    None => {
                        let all = BlockFilters::default();
                        loose(&PartRows::of_block(table, functions, block, (filter, all), &[*column], reads)?)?
                    }
                })?;
            } else {
                return Ok(());
            }
        }
    }

    fn read_known(
        &self,
        KnownLists { lists, loose, condition }: &KnownLists,
        take: &mut dyn FnMut(ColumnPart) -> Result<()>,
    ) -> Result<()> {
        loop {
            self.request.cancel.check()?;
            let part = self.next_part.fetch_add(1, Ordering::AcqRel);
            if part == 0 {
                let loose = loose.iter().map(|values| match condition {
                    Some((condition, _)) => values_where(values, condition),
                    None => Ok(Arc::clone(values)),
                });
                loose.map(|values| values.map(ColumnPart::Loose)).try_for_each(|part| take(part?))?;
                continue;
            }
            match (lists.get(part - 1), condition) {
                (Some(list), Some((_, filter))) => take(ColumnPart::List(list.only(filter)?))?,
                (Some(list), None) => take(ColumnPart::List(list.clone()))?,
                (None, _) => return Ok(()),
            }
        }
    }

    /// The part of the filter that the rows of a block in `frame` must be checked against. `None` if no row passes.
    fn filter_of(&self, table: &TableDef, block: &Block, frame: Range<usize>) -> Result<Option<&Filter>> {
        let metrics = &self.request.metrics;
        let count = |counter: &AtomicU64, count: usize| {
            // Count a block only with its first frame.
            if frame.start == 0 {
                add(counter, count);
            }
        };
        count(&metrics.rows_read, block.live_rows());
        let verdict = match block.live_rows() {
            0 => Verdict::Nothing,
            _ => verdict(block, table, &self.filter)?,
        };
        if verdict == Verdict::Nothing {
            count(&metrics.blocks_skipped, 1);
            return Ok(None);
        }
        count(&metrics.blocks_read, 1);
        // If the filter is true for every row, no row need be checked.
        Ok(Some(if verdict == Verdict::Everything { &self.no_filter } else { &self.filter }))
    }

    fn read_block(
        &self,
        source: &dyn TableSource,
        block: &Arc<Block>,
        part: &ScanPart,
        frame: Range<usize>,
        columns: &[usize],
        gatherer: &mut Gatherer<'_>,
    ) -> Result<()> {
        let table = &**source.table();
        let (functions, reads) = (&self.request.functions, &self.request.metrics.reads);
        // Zone maps may settle the whole block before anything of it is read.
        let Some(filter) = self.filter_of(table, block, frame.clone())? else { return Ok(()) };
        let is_whole = frame == (0..block.rows());
        // Each part can then read its own column alone, often from a value list.
        if is_whole && self.request.group.keys.is_empty() && filter.is_empty() {
            add(&self.request.metrics.rows_selected, block.live_rows());
            return self.read_by_lists(source, block, gatherer);
        }
        let rows = match is_whole {
            true => PartRows::of_block(table, functions, block, (filter, self.offered.of_block()), columns, reads)?,
            false => {
                let begin = || SharedBlock {
                    state: BlockState::new(block, table, filter, reads),
                    filters: self.offered.of_block(),
                };
                PartRows::of_slice(table, functions, part.enter(begin).share(), filter, frame)?
            }
        };
        add(&self.request.metrics.rows_selected, rows.len());
        gatherer.add(&rows)
    }

    /// Adds all rows of a block to the only group. Extremes of a column are computed from its zone map if that has
    /// them. A part that reads only a column with a value list is computed from the list, and the others are computed
    /// together, so that each column is read once.
    fn read_by_lists(&self, source: &dyn TableSource, block: &Arc<Block>, gatherer: &mut Gatherer<'_>) -> Result<()> {
        let (table, states) = (source.table(), &self.recipe.states);
        let (functions, reads) = (&self.request.functions, &self.request.metrics.reads);
        let mut of_lists: Vec<(usize, Vec<usize>)> = Vec::new();
        let (mut of_rows, mut columns_of_rows) = (Vec::new(), Vec::new());
        for part in 0..states.parts() {
            let columns = self.columns_of(states.reads(part).into_iter());
            let bounds = match columns[..] {
                [column] if states.is_of_bounds(part) => bounds_of(table, block, column)?,
                _ => None,
            };
            match columns[..] {
                [column] if let Some((values, weights)) = bounds => {
                    gatherer
                        .add_to_one(&PartRows::of_values(functions, column, values, weights), [part].into_iter())?;
                }
                [column] if block.chunk_head(table, column)?.is_some_and(|head| head.has_values()) => {
                    match of_lists.iter_mut().find(|(known, _)| *known == column) {
                        Some((_, parts)) => parts.push(part),
                        None => of_lists.push((column, vec![part])),
                    }
                }
                _ => {
                    of_rows.push(part);
                    columns_of_rows.extend(columns);
                }
            }
        }
        columns_of_rows.sort_unstable();
        columns_of_rows.dedup();
        let mut add = |columns: &[usize], parts: &[usize]| {
            let all = (&Filter::default(), BlockFilters::default());
            let rows = PartRows::of_block(table, functions, block, all, columns, reads)?;
            gatherer.add_to_one(&rows, parts.iter().copied())
        };
        of_lists.iter().try_for_each(|(column, parts)| add(&[*column], parts))?;
        if of_rows.is_empty() { Ok(()) } else { add(&columns_of_rows, &of_rows) }
    }

    /// The columns that are grouped or, if rows are only counted, the columns of the filter. If there is only one, its
    /// value list says everything about a block.
    fn columns_listed(&self) -> Vec<usize> {
        Some(self.columns_grouped()).filter(|columns| !columns.is_empty()).unwrap_or_else(|| self.filter.columns())
    }

    /// All columns that keys and aggregates read.
    fn columns_grouped(&self) -> Vec<usize> {
        let keys = self.recipe.layout.columns.iter().map(|key| key.expr);
        self.columns_of(keys.chain(self.recipe.states.exprs()))
    }

    fn columns_of(&self, exprs: impl Iterator<Item = Expr>) -> Vec<usize> {
        let mut columns = Vec::new();
        for expr in exprs {
            let read = match &expr {
                Expr::Column(column) => std::slice::from_ref(column),
                Expr::Function(function) => self.request.functions[*function].columns(),
            };
            for column in read {
                if !columns.contains(column) {
                    columns.push(*column);
                }
            }
        }
        columns
    }
}

/// The slices for each worker of blocks that few rows of the table are in. The rows that pass are in some of them only.
const SLICES_PER_WORKER: usize = 8;

/// The least rows of a slice. Smaller ones would repeat the work that is done once per slice too often.
const FITTING_ROWS_MIN: usize = 1 << 14;

/// The number of slices per block that keeps all workers about equally busy. We take the smallest such number because
/// work that is done once per value of a block is repeated for each slice.
fn slices(blocks: usize, workers: usize) -> usize {
    /// The greatest accepted ratio of the rounds that the workers need to the rounds that they would need if all were
    /// busy in the last one. With 1.4, sums over the three blocks of TPC-H's orders take 2.6 ms with two workers
    /// instead of 1.9, because one of them reads two blocks.
    const IDLE_MAX: f64 = 1.15;
    let is_even = |slices: &usize| {
        let parts = slices * blocks;
        (parts.next_multiple_of(workers) as f64) < IDLE_MAX * parts as f64
    };
    match workers > 1 && blocks > 0 {
        true => (1..workers).find(is_even).unwrap_or(workers),
        false => 1,
    }
}

pub(super) fn add(counter: &AtomicU64, count: usize) {
    counter.fetch_add(count as u64, Ordering::Relaxed);
}

/// The least and the greatest value of a column of a block, and the numbers of rows that they stand for. `None` if the
/// zone map does not have both, or if rows were deleted.
fn bounds_of(table: &TableDef, block: &Block, column: usize) -> Result<Option<(ArrayRef, Vec<u64>)>> {
    if block.deleted().is_some() {
        return Ok(None);
    }
    let Some(chunk) = block.chunk(table, column)? else { return Ok(None) };
    let Some(Zone { min, max: Some(max) }) = chunk.zone().filter(|zone| zone.min.exact) else { return Ok(None) };
    let values = (block.rows() - chunk.null_count()) as u64;
    Ok(match values {
        1 => Some((min.value, vec![1])),
        2.. if max.exact => {
            let bounds = concat(&[min.value.as_ref(), max.value.as_ref()]);
            Some((bounds.map_err(|error| Error::internal(error.to_string()))?, vec![values - 1, 1]))
        }
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_cut_where_workers_would_wait() {
        let cases =
            [((0, 4), 1), ((1, 1), 1), ((1, 2), 2), ((1, 7), 7), ((2, 2), 1), ((3, 2), 2), ((19, 2), 1), ((19, 16), 3)];
        for ((blocks, workers), expected) in cases {
            assert_eq!(slices(blocks, workers), expected, "{blocks} blocks, {workers} workers");
        }
    }
}
