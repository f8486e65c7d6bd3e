//! COUNT(DISTINCT) of columns whose blocks list their values, for at most as many groups as fit a cache.
//!
//! ```text
//!   pairs    a worker takes a block and notes for each value of a list in which groups it occurs (pairs.rs); groups
//!            have numbers, and keep the other aggregates of their rows (groups.rs)
//!   ranges   lists are sorted, so that any range of values is a slice of each; a sample gives ranges with about equal
//!            numbers of values (../cut_lists.rs)
//!   count    a worker takes a range, gives numbers to the values of all slices (value_numbers.rs), and counts for each
//!            group the distinct ones (counter.rs)
//! ```
//!
//! A value is hashed once per block and not once per row, into a table that fits a cache, and nothing is moved into
//! partitions. Until a range is counted, its values are not decoded, so a text takes no more memory than a number.
//! Without keys, no pairs are needed and no row is read. A general grouping would hash each row's value within the
//! block, write the values to partitions, and read them again.
//!
//! The pairs must fit memory. If they do not, a general grouping, which can spill, does all of the work instead.

mod counter;
mod groups;
mod pairs;
mod value_numbers;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use arrow::array::{Array, ArrayRef, Int64Array, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{DataType, SchemaRef};
use parking_lot::Mutex;
use rowmill_base::{Error, ErrorKind, Reservation, Result, SqlType};
use rowmill_plan::{Aggregate, Expr};
use rowmill_storage::chunk::Verdict;
use rowmill_storage::{Block, TableDef, TableSource};

use self::counter::Counter;
use self::groups::{AllGroups, Numbering, RowGroups};
use self::pairs::DistinctPairs;
use self::value_numbers::ValueNumbers;
use super::bits::width_of;
use super::cut_lists::CutLists;
use super::facts::Facts;
use super::layout::GroupLayout;
use super::rows::{PartRows, by_row, take};
use super::state::States;
use super::texts::is_text;
use super::value_list::ValueList;
use super::{GroupRequest, GroupSource, OWNER};
use crate::batch::{BatchSource, Batches};
use crate::cache::L2_BYTES;
use crate::phase::Phase;
use crate::scan::block_state::verdict;
use crate::scan::filter::Filter;
use crate::scan::offered::{BlockFilters, OfferedFilters};
use crate::share::share;

/// Greatest number of groups of one block, judged by value lists. More groups would not fit a cache. With
/// 1,024, ClickBench's Q9 and Q10 take 163 and 187 ms instead of 46 and 80.
const GROUPS_PER_BLOCK_MAX: usize = 1 << 15;

/// The size of the ranges that are counted one by one.
#[derive(Clone, Copy, Debug)]
pub(super) struct RangeSize {
    /// The pairs of a range at most. Their set has up to two slots of two words for each, and must fit the second-level
    /// cache.
    pub(super) pairs_max: usize,
    /// The pairs of a range if that is enough for the lists. The other columns of the range then fit the cache too.
    pub(super) pairs: usize,
    /// With many lists, a range has more values, because each list is unpacked 1,024 values at a time and fewer cost as
    /// much. With 256, 1,024 and 4,096, ClickBench's Q9 takes 51, 50 and 49 ms.
    pub(super) values_per_list: usize,
    /// The bytes of the values of a range. Texts of a range are compared with each other, so they should be near.
    pub(super) bytes: usize,
}

impl Default for RangeSize {
    fn default() -> RangeSize {
        let pairs_max = L2_BYTES / (2 * size_of::<u128>());
        RangeSize { pairs_max, pairs: pairs_max / 4, values_per_list: 1 << 10, bytes: 2 * L2_BYTES }
    }
}

/// A grouping of a table in another way.
type OtherGrouping = fn(&Arc<dyn TableSource>, GroupRequest) -> Result<Arc<dyn BatchSource>>;

/// Counts of distinct values, shared by their workers.
pub struct DistinctCounts {
    source: Arc<dyn TableSource>,
    request: GroupRequest,
    filter: Filter,
    layout: GroupLayout,
    /// The aggregates that are no distinct counts.
    states: States,
    /// The columns whose values are counted.
    counted: Vec<usize>,
    /// For each aggregate the number of its column among those that are counted; `None` for others.
    outputs: Vec<Option<usize>>,
    /// All columns that are read.
    columns: Vec<usize>,
    range_size: RangeSize,
    /// Does the work if the pairs do not fit memory.
    other: OtherGrouping,
    next_part: AtomicUsize,
    /// Whether memory was refused.
    is_refused: AtomicBool,
    /// The parts and the wholes of both phases are `None` if memory was refused.
    gathering: Arc<Phase<Option<Noted>, Option<Gathered>>>,
    next_range: AtomicUsize,
    counting: Arc<Phase<Option<Counts>, Option<Counts>>>,
    next_group: AtomicUsize,
    other_grouping: Mutex<Option<Arc<dyn BatchSource>>>,
}

/// What one worker noted of its blocks.
struct Noted {
    /// By counted column.
    columns: Vec<ColumnPairs>,
    groups: groups::Numbered,
    memory: Reservation,
}

/// The pairs of one column.
#[derive(Default)]
struct ColumnPairs {
    listed: Vec<DistinctPairs>,
    /// Values that no list has, none of them NULL, and the group of each.
    loose: Vec<(ArrayRef, Vec<u32>)>,
}

/// What all workers noted.
struct Gathered {
    /// By counted column.
    columns: Vec<CutPairs>,
    groups: AllGroups,
    _memory: Vec<Reservation>,
}

/// The pairs of one column that all workers noted, cut into ranges of values.
struct CutPairs {
    lists: CutLists,
    /// For each list the worker that noted it, and its pairs.
    listed: Vec<(usize, DistinctPairs)>,
    /// For each array of loose values the worker that noted it, and the groups.
    loose: Vec<(usize, Vec<u32>)>,
}

/// For each counted column the number of values of each group.
struct Counts {
    columns: Vec<Vec<u64>>,
    _memory: Vec<Reservation>,
}

impl fmt::Debug for DistinctCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DistinctCounts").field("request", &self.request).finish_non_exhaustive()
    }
}

impl DistinctCounts {
    /// Prepares the counts that `request` asks for. Reads heads of chunks, but no rows. `None` if a [`super::GroupBy`]
    /// must do it. `other` does it if memory does not suffice for this way.
    pub fn new(
        source: &Arc<dyn TableSource>,
        request: &GroupRequest,
        other: OtherGrouping,
    ) -> Result<Option<Arc<DistinctCounts>>> {
        DistinctCounts::with_ranges(source, request, other, RangeSize::default())
    }

    pub(super) fn with_ranges(
        source: &Arc<dyn TableSource>,
        request: &GroupRequest,
        other: OtherGrouping,
        range_size: RangeSize,
    ) -> Result<Option<Arc<DistinctCounts>>> {
        let (group, table) = (&request.group, source.table());
        if !group.always.is_empty() {
            return Ok(None);
        }
        let (mut counted, mut outputs, mut others) = (Vec::new(), Vec::new(), Vec::new());
        for aggregate in &group.aggregates {
            let Some(column) = counted_column(aggregate, table) else {
                others.push(aggregate.clone());
                outputs.push(None);
                continue;
            };
            let place = counted.iter().position(|known| *known == column).unwrap_or(counted.len());
            if place == counted.len() {
                counted.push(column);
            }
            outputs.push(Some(place));
        }
        if counted.is_empty() {
            return Ok(None);
        }
        for column in &counted {
            if !has_lists(&**source, *column)? {
                return Ok(None);
            }
        }
        let of_table = GroupSource::Table(Arc::clone(source));
        let facts = Facts { source: Some(&of_table), functions: &request.functions };
        let states = States::new(&others, facts, !group.keys.is_empty())?;
        // Aggregates that keep values would need memory for them, so a grouping that can spill computes them.
        if !states.logs().is_empty() {
            return Ok(None);
        }
        let columns_of = |function: usize| request.functions[function].columns();
        let layout = GroupLayout::new(&group.keys, columns_of, states.initial().len())?;
        let exprs = group.keys.iter().map(|key| key.expr).chain(states.exprs());
        let mut columns: Vec<usize> = exprs.flat_map(|expr| columns_read(&expr, request)).collect();
        columns.extend_from_slice(&counted);
        group.predicates.iter().for_each(|predicate| predicate.collect_columns(&mut columns));
        columns.sort_unstable();
        columns.dedup();
        Ok(Some(Arc::new(DistinctCounts {
            filter: Filter::new(&**source, group.predicates.clone())?,
            source: Arc::clone(source),
            request: request.clone(),
            layout,
            states,
            counted,
            outputs,
            columns,
            range_size,
            other,
            next_part: AtomicUsize::new(0),
            is_refused: AtomicBool::new(false),
            gathering: Arc::default(),
            next_range: AtomicUsize::new(0),
            counting: Arc::default(),
            next_group: AtomicUsize::new(0),
            other_grouping: Mutex::default(),
        })))
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
            numbering: Numbering::new(&self.layout, &self.states, || self.memory()),
            columns: self.counted.iter().map(|_| ColumnPairs::default()).collect(),
            memory: self.memory(),
        };
        loop {
            self.request.cancel.check()?;
            let part = self.next_part.fetch_add(1, Ordering::AcqRel);
            if self.is_refused.load(Ordering::Relaxed) {
                return Ok(noted.finish());
            }
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
    fn join(&self, workers: Vec<Noted>) -> Result<Gathered> {
        let (mut columns, mut memory, mut groups) = (Vec::new(), Vec::new(), Vec::new());
        for worker in workers {
            columns.push(worker.columns);
            memory.push(worker.memory);
            groups.push(worker.groups);
        }
        // Workers have numbered their groups on their own; give the same group one number.
        let groups = AllGroups::new(&self.layout, &self.states, groups, self.memory())?;
        let cut = self.counted.iter().enumerate().map(|(place, column)| {
            let of_workers = columns.iter_mut().map(|columns| std::mem::take(&mut columns[place]));
            let kind = &self.source.table().columns[*column].kind;
            CutPairs::new(of_workers, kind, self.range_size)
        });
        Ok(Gathered { columns: cut.collect::<Result<_>>()?, groups, _memory: memory })
    }

    /// Counts the values of ranges until none are left.
    fn count(&self, gathered: &Gathered) -> Result<Counts> {
        let mut counts = Counts { columns: Vec::new(), _memory: Vec::new() };
        // Ranges are numbered through all columns.
        let (mut next, mut first) = (self.next_range.fetch_add(1, Ordering::Relaxed), 0);
        for (pairs, column) in gathered.columns.iter().zip(&self.counted) {
            let mut numbers =
                ValueNumbers::new(&self.source.table().columns[*column].kind.arrow(), &self.request.broker)?;
            let has_small_numbers = numbers.met().is_some();
            let mut counter = Counter::new(gathered.groups.len(), has_small_numbers, self.memory())?;
            while next < first + pairs.lists.ranges() && !self.is_refused.load(Ordering::Relaxed) {
                self.request.cancel.check()?;
                pairs.count(next - first, &gathered.groups, &mut numbers, &mut counter)?;
                next = self.next_range.fetch_add(1, Ordering::Relaxed);
            }
            first += pairs.lists.ranges();
            let (of_column, memory) = counter.finish();
            counts.columns.push(of_column);
            counts._memory.push(memory);
        }
        Ok(counts)
    }

    /// The next groups with their aggregates; `None` when none are left.
    fn next_batch(&self, gathered: &Gathered, counted: &Counts) -> Result<Option<RecordBatch>> {
        let (batch_rows, groups) = (self.request.batch_rows.max(1), &gathered.groups);
        let start = self.next_group.fetch_add(batch_rows, Ordering::Relaxed);
        let end = groups.len().min(start.saturating_add(batch_rows));
        if start >= end {
            return Ok(None);
        }
        let mut columns = groups.keys(&self.layout, start..end, &self.request.functions)?;
        let mut others = groups.aggregates(&self.layout, &self.states, start..end)?.into_iter();
        for output in &self.outputs {
            columns.push(match output {
                Some(column) => {
                    let counts = counted.columns[*column][start..end].iter().map(|count| *count as i64);
                    Arc::new(Int64Array::from_iter_values(counts)) as ArrayRef
                }
                None => others.next().ok_or_else(|| Error::internal("an aggregate without a column"))?,
            });
        }
        let options = RecordBatchOptions::new().with_row_count(Some(end - start));
        RecordBatch::try_new_with_options(Arc::clone(&self.request.schema), columns, &options)
            .map(Some)
            .map_err(|error| Error::internal(format!("the groups of table {}: {error}", self.source.table().name)))
    }

    /// Does a worker's share of both phases and returns where it takes groups from. `None` if another worker failed.
    fn share(&self) -> Result<Option<GroupOrigin>> {
        let cancel = &self.request.cancel;
        let note = || self.unless_refused(|| self.note());
        let join =
            |workers: Vec<Option<Noted>>| self.unless_refused(|| self.join(workers.into_iter().flatten().collect()));
        let Some(gathered) = self.gathering.run(cancel, note, join)? else { return self.other_groups() };
        let Some(pairs) = &*gathered else { return self.other_groups() };
        let count = || self.unless_refused(|| self.count(pairs));
        let sum = |workers: Vec<Option<Counts>>| self.unless_refused(|| sum(workers.into_iter().flatten().collect()));
        let Some(counted) = self.counting.run(cancel, count, sum)? else { return self.other_groups() };
        match &*counted {
            Some(_) => Ok(Some(GroupOrigin::Counted(gathered, counted))),
            None => self.other_groups(),
        }
    }

    /// The result of `work`. `None` if memory was refused, to this worker or to another one.
    fn unless_refused<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<Option<T>> {
        if self.is_refused.load(Ordering::Acquire) {
            // The parts that `work` would join may be gone.
            return Ok(None);
        }
        match work() {
            Err(error) if error.kind() == ErrorKind::MemoryLimit => self.is_refused.store(true, Ordering::Release),
            result if !self.is_refused.load(Ordering::Acquire) => return result.map(Some),
            result => drop(result?),
        }
        Ok(None)
    }

    /// The share of a worker in the other grouping, if memory was refused. Otherwise `None`.
    fn other_groups(&self) -> Result<Option<GroupOrigin>> {
        if !self.is_refused.load(Ordering::Acquire) {
            return Ok(None);
        }
        let mut grouping = self.other_grouping.lock();
        if grouping.is_none() {
            // The other grouping needs the memory of what was noted.
            self.gathering.end();
            self.counting.end();
            *grouping = Some((self.other)(&self.source, self.request.clone())?);
        }
        Ok(grouping.clone().map(|grouping| GroupOrigin::Other(grouping.worker())))
    }
}

/// The sums of the counts of all workers. Ranges do not overlap, so the counts can be added.
fn sum(workers: Vec<Counts>) -> Result<Counts> {
    let mut workers = workers.into_iter();
    let mut all = workers.next().ok_or_else(|| Error::internal("no worker has counted"))?;
    for worker in workers {
        for (all, counts) in all.columns.iter_mut().zip(&worker.columns) {
            all.iter_mut().zip(counts).for_each(|(all, count)| *all += count);
        }
    }
    Ok(all)
}

impl CutPairs {
    /// Cuts the pairs of all workers, whose values are of type `kind`, into ranges.
    fn new(workers: impl Iterator<Item = ColumnPairs>, kind: &SqlType, size: RangeSize) -> Result<CutPairs> {
        let (mut listed, mut loose, mut values) = (Vec::new(), Vec::new(), Vec::new());
        for (worker, pairs) in workers.enumerate() {
            listed.extend(pairs.listed.into_iter().map(|pairs| (worker, pairs)));
            for (of_rows, groups) in pairs.loose {
                values.push(of_rows);
                loose.push((worker, groups));
            }
        }
        let lists: Vec<ValueList> = listed.iter().map(|(_, pairs): &(_, DistinctPairs)| pairs.list().clone()).collect();
        let mut bytes = 0;
        for list in &lists {
            bytes += list.value_bytes(list.len())?;
        }
        let pairs = listed.iter().map(|(_, pairs)| pairs.len()).sum::<usize>()
            + values.iter().map(|values: &ArrayRef| values.len()).sum::<usize>();
        // Each list costs some allocations for each range of texts, so such ranges are as large as the cache allows.
        let is_narrow = width_of(&kind.arrow()).is_some_and(|width| width <= u64::BITS);
        let pairs_min = if is_narrow { size.pairs } else { size.pairs_max };
        let per_range = (lists.len() * size.values_per_list).clamp(pairs_min, size.pairs_max);
        let ranges = (pairs / per_range).max(bytes / size.bytes).max(1);
        Ok(CutPairs { lists: CutLists::new(lists, &values, kind, ranges)?, listed, loose })
    }

    /// Counts the values of the range with a number.
    fn count(&self, range: usize, groups: &AllGroups, numbers: &mut ValueNumbers, counter: &mut Counter) -> Result<()> {
        // A range has values that no other range has, so those of the last range can be forgotten.
        numbers.begin();
        let mut of_values = Vec::new();
        for ((worker, pairs), places) in self.listed.iter().zip(self.lists.slices(range)?) {
            // NULL follows the values.
            let values = pairs.list().len_without_null();
            let places = places.start.min(values)..places.end.min(values);
            if places.is_empty() {
                continue;
            }
            numbers.number(pairs.list().values(places.clone())?, &mut of_values)?;
            counter.make_room(pairs.len_of(&places), numbers.met().unwrap_or_default())?;
            counter.add_pairs(pairs, &places, &of_values, &groups.of_workers()[*worker]);
        }
        for ((worker, groups_of_rows), (values, rows)) in self.loose.iter().zip(self.lists.loose(range)) {
            numbers.number(values, &mut of_values)?;
            counter.make_room(rows.len(), numbers.met().unwrap_or_default())?;
            let of_worker = &groups.of_workers()[*worker];
            let group = |row: &u32| of_worker[groups_of_rows[*row as usize] as usize];
            counter.add(of_values.iter().copied().zip(rows.iter().map(group)));
        }
        counter.end();
        Ok(())
    }
}

/// The notes of a worker while it makes them.
struct Notes<'a> {
    counts: &'a DistinctCounts,
    numbering: Numbering<'a>,
    /// By counted column.
    columns: Vec<ColumnPairs>,
    memory: Reservation,
}

impl Notes<'_> {
    fn add_block(&mut self, table: &TableDef, block: &Arc<Block>) -> Result<()> {
        let DistinctCounts { filter, columns, counted, request, .. } = self.counts;
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
        // Without keys and other aggregates, the list itself has the distinct values of the block.
        if let [column] = **counted
            && self.counts.layout.columns.is_empty()
            && self.counts.states.parts() == 0
            && let Some(list) = ValueList::of_block(table, block, filter, column, &metrics.reads)?
        {
            add(&metrics.rows_selected, list.rows().unwrap_or_default() as usize);
            self.memory.grow(list.bytes())?;
            self.columns[0].listed.push(DistinctPairs::of_list(list));
            return Ok(());
        }
        let all = BlockFilters::default();
        self.add_rows(&PartRows::of_block(table, &request.functions, block, (filter, all), columns, &metrics.reads)?)
    }

    fn add_rows(&mut self, rows: &PartRows<'_>) -> Result<()> {
        let counts = self.counts;
        let selected = rows.weights().map_or(rows.len(), |weights| weights.iter().sum::<u64>() as usize);
        add(&counts.request.metrics.rows_selected, selected);
        if rows.len() == 0 {
            return Ok(());
        }
        let groups = self.numbering.number(rows)?;
        for (pairs, column) in self.columns.iter_mut().zip(&counts.counted) {
            match rows.listed(*column)? {
                Some((list, codes)) => {
                    pairs.listed.push(DistinctPairs::new(list, &codes, groups.as_ref(), &mut self.memory)?);
                }
                None => {
                    let loose = loose_values(rows, *column, groups.as_ref())?;
                    self.memory.grow((loose.1.len() * (size_of::<u128>() + size_of::<u32>())) as u64)?;
                    pairs.loose.push(loose);
                }
            }
        }
        Ok(())
    }

    fn finish(self) -> Noted {
        Noted { columns: self.columns, groups: self.numbering.finish(), memory: self.memory }
    }
}

/// The values of rows that are not NULL, and the group of each; without `groups` all rows are in group 0.
fn loose_values(rows: &PartRows<'_>, column: usize, groups: Option<&RowGroups>) -> Result<(ArrayRef, Vec<u32>)> {
    let values = by_row(rows.values(Expr::Column(column))?)?;
    let mut of_rows: Vec<u32> = match groups {
        Some(RowGroups { places, numbers }) => places.iter().map(|place| numbers[*place as usize]).collect(),
        None => vec![0; values.len()],
    };
    let Some(nulls) = values.logical_nulls().filter(|nulls| nulls.null_count() > 0) else {
        return Ok((values, of_rows));
    };
    let valid: Vec<u32> = nulls.valid_indices().map(|row| row as u32).collect();
    of_rows = valid.iter().map(|row| of_rows[*row as usize]).collect();
    Ok((take(&values, &valid)?, of_rows))
}

/// The column whose distinct values an aggregate counts, if the values are compared by their bits or bytes.
fn counted_column(aggregate: &Aggregate, table: &TableDef) -> Option<usize> {
    let is_count = aggregate.function.is_count() && aggregate.distinct && aggregate.filter.is_none();
    let Some((Expr::Column(column), kind)) = aggregate.argument.as_ref().filter(|_| is_count) else { return None };
    let is_ordered = table.columns[*column].kind.is_ordered() && !matches!(kind, DataType::Interval(_));
    (is_ordered && (width_of(kind).is_some() || is_text(kind))).then_some(*column)
}

/// The columns that an expression reads.
fn columns_read(expr: &Expr, request: &GroupRequest) -> Vec<usize> {
    match *expr {
        Expr::Column(column) => vec![column],
        Expr::Function(function) => request.functions[function].columns().to_vec(),
    }
}

/// The columns that the keys read.
fn key_columns(request: &GroupRequest) -> Vec<usize> {
    request.group.keys.iter().flat_map(|key| columns_read(&key.expr, request)).collect()
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

fn add(counter: &AtomicU64, count: usize) {
    counter.fetch_add(count as u64, Ordering::Relaxed);
}

/// The place where a worker takes groups from.
enum GroupOrigin {
    Counted(Arc<Option<Gathered>>, Arc<Option<Counts>>),
    Other(Batches),
}

/// Does its share of the work, then returns groups.
struct DistinctWorker {
    counts: Arc<DistinctCounts>,
    origin: Option<GroupOrigin>,
}

impl DistinctWorker {
    fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        if self.origin.is_none() {
            self.origin = self.counts.share()?;
        }
        match &mut self.origin {
            Some(GroupOrigin::Counted(gathered, counted)) => match (&**gathered, &**counted) {
                (Some(gathered), Some(counted)) => self.counts.next_batch(gathered, counted),
                _ => Err(Error::internal("distinct values were not counted")),
            },
            Some(GroupOrigin::Other(batches)) => batches.next().transpose(),
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
        let mut worker = DistinctWorker { counts: self, origin: None };
        share(move || worker.next_batch())
    }
}
