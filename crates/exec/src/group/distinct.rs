//! COUNT(DISTINCT) of one column over a table whose blocks list its values, for at most as many groups as fit a cache.
//!
//! ```text
//!   pairs    a worker takes a block and notes for each value of its list in which groups it occurs (pairs.rs); groups
//!            have numbers (groups.rs)
//!   ranges   lists are sorted, so that any range of values is a slice of each; a sample gives ranges with about equal
//!            numbers of values (ranges.rs)
//!   count    a worker takes a range and counts for each group the distinct values of all slices (counter.rs)
//! ```
//!
//! A value is hashed once per block and not once per row, into a table that fits a cache, and nothing is moved into
//! partitions. Without keys, no pairs are needed and no row is read. A general grouping would hash each row's value
//! within the block, write the values to partitions, and read them again.

mod counter;
mod groups;
mod pairs;
mod ranges;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use arrow::array::{ArrayRef, Int64Array, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{DataType, SchemaRef};
use rowmill_base::{Error, Reservation, Result};
use rowmill_plan::{Aggregate, Expr};
use rowmill_storage::chunk::{Chunk, ReadMeter, Verdict};
use rowmill_storage::{Block, TableDef, TableSource};

use self::counter::Counter;
use self::groups::{AllGroups, Numbering};
use self::pairs::{DistinctPairs, Ranks};
use self::ranges::DistinctRanges;
use super::bits::width_of;
use super::layout::GroupLayout;
use super::rows::PartRows;
use super::{GroupRequest, OWNER};
use crate::batch::{BatchSource, Batches};
use crate::phase::Phase;
use crate::scan::ScanMetrics;
use crate::scan::block_state::verdict;
use crate::scan::filter::Filter;
use crate::scan::offered::{BlockFilters, OfferedFilters};
use crate::share::share;

/// Greatest number of groups of one block, judged by value lists. More groups would not fit a cache. With
/// 1,024, ClickBench's Q9 and Q10 take 163 and 187 ms instead of 46 and 80.
const GROUPS_PER_BLOCK_MAX: usize = 1 << 15;

/// One count, shared by its workers.
pub struct DistinctCounts {
    source: Arc<dyn TableSource>,
    request: GroupRequest,
    filter: Filter,
    layout: GroupLayout,
    /// The column whose values are counted.
    column: usize,
    /// All columns that are read.
    columns: Vec<usize>,
    next_part: AtomicUsize,
    gathering: Arc<Phase<Noted, GatheredPairs>>,
    next_range: AtomicUsize,
    counting: Arc<Phase<CountedGroups, CountedGroups>>,
    next_group: AtomicUsize,
}

/// The pairs that one worker noted of its blocks.
struct Noted {
    pairs: Vec<DistinctPairs>,
    groups: groups::Numbered,
    memory: Reservation,
}

/// The pairs that all workers noted.
struct GatheredPairs {
    /// By worker.
    pairs: Vec<Vec<DistinctPairs>>,
    groups: AllGroups,
    ranges: DistinctRanges,
    _memory: Vec<Reservation>,
}

/// The number of values of each group.
struct CountedGroups {
    counts: Vec<u64>,
    _memory: Reservation,
}

impl fmt::Debug for DistinctCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DistinctCounts").field("request", &self.request).finish_non_exhaustive()
    }
}

impl DistinctCounts {
    /// Prepares the count that `request` asks for. Reads heads of chunks, but no rows. `None` if a [`super::GroupBy`]
    /// must do it.
    pub fn new(source: &Arc<dyn TableSource>, request: &GroupRequest) -> Result<Option<Arc<DistinctCounts>>> {
        let group = &request.group;
        let [aggregate] = &*group.aggregates else { return Ok(None) };
        if !group.always.is_empty() {
            return Ok(None);
        }
        let Some(column) = counted(aggregate, source.table()) else { return Ok(None) };
        if !has_lists(&**source, column)? {
            return Ok(None);
        }
        let mut columns = key_columns(request);
        columns.push(column);
        group.predicates.iter().for_each(|predicate| predicate.collect_columns(&mut columns));
        columns.sort_unstable();
        columns.dedup();
        let layout = GroupLayout::new(&group.keys, |function| request.functions[function].columns(), 0)?;
        Ok(Some(Arc::new(DistinctCounts {
            filter: Filter::new(source.table(), group.predicates.clone()),
            source: Arc::clone(source),
            request: request.clone(),
            layout,
            column,
            columns,
            next_part: AtomicUsize::new(0),
            gathering: Arc::default(),
            next_range: AtomicUsize::new(0),
            counting: Arc::default(),
            next_group: AtomicUsize::new(0),
        })))
    }

    /// Counts the reads so far.
    pub fn metrics(&self) -> &Arc<ScanMetrics> {
        &self.request.metrics
    }

    fn memory(&self) -> Reservation {
        self.request.broker.reservation(OWNER)
    }

    /// Notes the pairs of blocks and runs until none are left.
    fn note(&self) -> Result<Noted> {
        let (blocks, runs) = (self.source.blocks(), self.source.runs());
        let table = self.source.table();
        let mut noted = Notes {
            counts: self,
            numbering: Numbering::new(&self.layout, || self.memory()),
            pairs: Vec::new(),
            memory: self.memory(),
        };
        loop {
            self.request.cancel.check()?;
            let part = self.next_part.fetch_add(1, Ordering::AcqRel);
            if let Some(block) = blocks.get(part) {
                noted.add_block(table, block)?;
            } else if let Some(run) = runs.get(part - blocks.len()) {
                add(&self.request.metrics.rows_read, run.live_rows());
                let all = OfferedFilters::default();
                noted.add_rows(&PartRows::of_run(table, &self.request.functions, run, &self.filter, &all)?)?;
            } else {
                return Ok(noted.finish());
            }
        }
    }

    /// Joins the notes of all workers and cuts the values into ranges.
    fn join(&self, workers: Vec<Noted>) -> Result<GatheredPairs> {
        let (mut pairs, mut memory, mut groups) = (Vec::new(), Vec::new(), Vec::new());
        for worker in workers {
            pairs.push(worker.pairs);
            memory.push(worker.memory);
            groups.push(worker.groups);
        }
        // Workers have numbered their groups on their own; give the same group one number.
        let groups = AllGroups::new(&self.layout, groups, self.memory())?;
        let kind = &self.source.table().columns[self.column].kind;
        let ranges = DistinctRanges::new(pairs.iter().flatten(), kind)?;
        Ok(GatheredPairs { pairs, groups, ranges, _memory: memory })
    }

    /// Counts the values of ranges until none are left.
    fn count(&self, gathered: &GatheredPairs) -> Result<CountedGroups> {
        let mut counter = Counter::new(gathered.groups.len(), self.memory())?;
        let mut ranks = Vec::new();
        loop {
            self.request.cancel.check()?;
            let Some(range) = gathered.ranges.get(self.next_range.fetch_add(1, Ordering::Relaxed)) else {
                let (counts, memory) = counter.finish();
                return Ok(CountedGroups { counts, _memory: memory });
            };
            // A range has values that no other range has, so the set of the last range can be dropped.
            counter.begin();
            for (pairs, numbers) in gathered.pairs.iter().zip(gathered.groups.of_workers()) {
                for pairs in pairs {
                    // The values of the range are one slice of this list.
                    let places = pairs.places(range, &mut ranks)?;
                    counter.make_room(pairs.len_of(&places))?;
                    pairs.each(places, &ranks, |rank, group| counter.add(rank, numbers[group as usize]));
                }
            }
        }
    }

    /// The next groups with their counts; `None` when none are left.
    fn next_batch(&self, gathered: &GatheredPairs, counted: &CountedGroups) -> Result<Option<RecordBatch>> {
        let batch_rows = self.request.batch_rows.max(1);
        let start = self.next_group.fetch_add(batch_rows, Ordering::Relaxed);
        let end = counted.counts.len().min(start.saturating_add(batch_rows));
        if start >= end {
            return Ok(None);
        }
        let mut columns = gathered.groups.keys(&self.layout, start..end, &self.request.functions)?;
        let counts = counted.counts[start..end].iter().map(|count| *count as i64);
        columns.push(Arc::new(Int64Array::from_iter_values(counts)) as ArrayRef);
        let options = RecordBatchOptions::new().with_row_count(Some(end - start));
        RecordBatch::try_new_with_options(Arc::clone(&self.request.schema), columns, &options)
            .map(Some)
            .map_err(|error| Error::internal(format!("the groups of table {}: {error}", self.source.table().name)))
    }

    /// Does a worker's share of both phases and returns their results. `None` if another worker failed.
    fn share(&self) -> Result<Option<(Arc<GatheredPairs>, Arc<CountedGroups>)>> {
        let cancel = &self.request.cancel;
        let Some(gathered) = self.gathering.run(cancel, || self.note(), |workers| self.join(workers))? else {
            return Ok(None);
        };
        let sum = |workers: Vec<CountedGroups>| {
            let mut workers = workers.into_iter();
            let mut all = workers.next().ok_or_else(|| Error::internal("no worker has counted"))?;
            for worker in workers {
                // Ranges do not overlap, so the counts of workers can be added.
                all.counts.iter_mut().zip(&worker.counts).for_each(|(all, count)| *all += count);
            }
            Ok(all)
        };
        let counted = self.counting.run(cancel, || self.count(&gathered), sum)?;
        Ok(counted.map(|counted| (gathered, counted)))
    }
}

/// The notes of a worker while it makes them.
struct Notes<'a> {
    counts: &'a DistinctCounts,
    numbering: Numbering<'a>,
    pairs: Vec<DistinctPairs>,
    memory: Reservation,
}

impl Notes<'_> {
    fn add_block(&mut self, table: &TableDef, block: &Arc<Block>) -> Result<()> {
        let DistinctCounts { filter, columns, column, request, .. } = self.counts;
        let metrics = &request.metrics;
        add(&metrics.rows_read, block.live_rows());
        let verdict = match block.live_rows() {
            0 => Verdict::Nothing,
            _ => verdict(block, table, filter)?,
        };
        if verdict == Verdict::Nothing {
            add(&metrics.blocks_skipped, 1);
            return Ok(());
        }
        add(&metrics.blocks_read, 1);
        // If the filter is true for every row, no row need be checked.
        let no_filter = Filter::default();
        let filter = if verdict == Verdict::Everything { &no_filter } else { filter };
        let is_whole = filter.is_empty() && block.live_rows() == block.rows();
        // Without keys and filters, the list itself has the distinct values of the block.
        if is_whole && self.counts.layout.columns.is_empty() {
            add(&metrics.rows_selected, block.rows());
            self.pairs.push(DistinctPairs::of_list(list_of(block, table, *column, &metrics.reads)?));
            return Ok(());
        }
        let all = BlockFilters::default();
        let rows = PartRows::of_block(table, &request.functions, block, (filter, all), columns, &metrics.reads)?;
        // The codes of a whole block refer to the list directly, so no value must be decoded.
        if is_whole && let Some(codes) = rows.codes(*column)? {
            add(&metrics.rows_selected, block.rows());
            return self.add_pairs(&rows, Ranks::List(list_of(block, table, *column, &metrics.reads)?), &codes);
        }
        self.add_rows(&rows)
    }

    fn add_rows(&mut self, rows: &PartRows<'_>) -> Result<()> {
        add(&self.counts.request.metrics.rows_selected, rows.len());
        if rows.len() == 0 {
            return Ok(());
        }
        let (ranks, codes) = pairs::ranked(rows.values(Expr::Column(self.counts.column))?, rows.len())?;
        self.add_pairs(rows, ranks, &codes)
    }

    fn add_pairs(&mut self, rows: &PartRows<'_>, ranks: Ranks, codes: &[u32]) -> Result<()> {
        let groups = self.numbering.number(rows)?;
        self.pairs.push(DistinctPairs::new(ranks, codes, groups, &mut self.memory)?);
        Ok(())
    }

    fn finish(self) -> Noted {
        Noted { pairs: self.pairs, groups: self.numbering.finish(), memory: self.memory }
    }
}

/// The column whose distinct values an aggregate counts, if the values fit 64 bits.
fn counted(aggregate: &Aggregate, table: &TableDef) -> Option<usize> {
    let is_count = aggregate.function.is_count() && aggregate.distinct && aggregate.filter.is_none();
    let Some((Expr::Column(column), kind)) = aggregate.argument.as_ref().filter(|_| is_count) else { return None };
    let is_narrow = width_of(kind).is_some_and(|width| width <= 64);
    let is_ordered = table.columns[*column].kind.is_ordered() && !matches!(kind, DataType::Interval(_));
    (is_narrow && is_ordered).then_some(*column)
}

/// The columns that the keys read.
fn key_columns(request: &GroupRequest) -> Vec<usize> {
    let columns_of = |expr: &Expr| match *expr {
        Expr::Column(column) => vec![column],
        Expr::Function(function) => request.functions[function].columns().to_vec(),
    };
    request.group.keys.iter().flat_map(|key| columns_of(&key.expr)).collect()
}

/// Whether all blocks list the values of `column`.
fn has_lists(source: &dyn TableSource, column: usize) -> Result<bool> {
    for block in source.blocks() {
        if !block.chunk_head(source.table(), column)?.is_some_and(|head| head.has_values()) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether some block may have more groups than caches hold, judged by the number of values in its key columns.
pub(super) fn has_many_groups(source: &dyn TableSource, request: &GroupRequest) -> Result<bool> {
    let columns = key_columns(request);
    for block in source.blocks() {
        let mut groups = 1_usize;
        for column in &columns {
            let head = block.chunk_head(source.table(), *column)?;
            let values = head.and_then(|head| Some(head.distinct()? + usize::from(head.null_count() > 0)));
            // The product of distinct values is an upper bound for the number of groups.
            groups = groups.saturating_mul(values.unwrap_or(block.rows()));
        }
        if groups.min(block.rows()) > GROUPS_PER_BLOCK_MAX {
            return Ok(true);
        }
    }
    Ok(false)
}

fn list_of(block: &Block, table: &TableDef, column: usize, reads: &Arc<ReadMeter>) -> Result<Box<Chunk>> {
    block
        .chunk(table, column)?
        .map(|chunk| Box::new(chunk.metered(reads)))
        .ok_or_else(|| Error::internal("a chunk without a value list"))
}

fn add(counter: &AtomicU64, count: usize) {
    counter.fetch_add(count as u64, Ordering::Relaxed);
}

/// Does its share of the work, then returns groups.
struct DistinctWorker {
    counts: Arc<DistinctCounts>,
    done: Option<(Arc<GatheredPairs>, Arc<CountedGroups>)>,
}

impl DistinctWorker {
    fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        if self.done.is_none() {
            self.done = self.counts.share()?;
        }
        match &self.done {
            Some((gathered, counted)) => self.counts.next_batch(gathered, counted),
            None => Ok(None),
        }
    }
}

impl BatchSource for DistinctCounts {
    fn schema(&self) -> &SchemaRef {
        &self.request.schema
    }

    fn parallelism(&self) -> usize {
        (self.source.blocks().len() + self.source.runs().len()).max(1)
    }

    fn worker(self: Arc<Self>) -> Batches {
        let mut worker = DistinctWorker { counts: self, done: None };
        share(move || worker.next_batch())
    }
}
