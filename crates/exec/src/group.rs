//! GROUP BY over one table or over batches, in two steps that any number of workers share.
//!
//! ```text
//! gather   a worker takes a block or a batch, finds the groups in it (local.rs, table.rs), adds its rows to them
//!          (state.rs) and puts the groups into its partitions, by the hash of their keys (gather.rs, partition.rs)
//! merge    when nothing is left to take, a worker takes a partition and merges the groups that all workers gathered
//!          for it (merge.rs)
//! ```
//!
//! A key value is therefore hashed once per block, not once per row. If a query reads only one column of a block, we
//! touch no row at all, because the value list of the column says how many rows have each value (rows.rs).

mod bits;
mod borders;
mod case_values;
mod choice;
mod coded;
mod complete;
mod cut_lists;
mod distinct;
mod facts;
mod frequent;
mod gather;
mod index;
mod key_values;
mod layout;
mod limited;
mod local;
mod merge;
mod partition;
mod pieces;
mod ranges;
mod rank;
mod rows;
mod source;
mod spilled;
mod state;
mod steps;
mod table;
#[cfg(test)]
mod tests;
mod texts;
mod top;
mod value_list;

use std::collections::VecDeque;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use arrow::array::{Array, ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::datatypes::SchemaRef;
use parking_lot::Mutex;
use rowmill_base::{Broker, Cancel, Error, Reservation, Result};
use rowmill_plan::{Expr, Group, Predicate};
use rowmill_storage::TableSource;
use rowmill_storage::spill::TempSpace;

pub(crate) use self::bits::{Bits, array_of, bits_of, width_of};
pub(crate) use self::choice::{group_batches, group_table};
use self::complete::CompleteGroups;
pub(crate) use self::cut_lists::CutLists;
pub use self::distinct::DistinctCounts;
use self::facts::Facts;
use self::gather::{Gatherer, Policy, Recipe};
use self::layout::GroupLayout;
use self::merge::{Merged, Merger};
use self::partition::Partition;
use self::ranges::{ColumnParts, GroupRanges, RangeValues};
pub(crate) use self::rank::{Rank, float_rank};
use self::rows::{PartRows, PartValues};
pub(crate) use self::rows::{concat, evaluate_in_pieces, take};
pub use self::source::GroupSource;
use self::source::add;
use self::spilled::{MergePass, SpilledPiece};
pub(crate) use self::state::{
    BitOrder, Grouped, Groups, NumberForm, StateNumbers, ValuePlaces, integers, signed_array, wide_array,
};
use self::state::{Finished, States};
use self::texts::TextStore;
pub(crate) use self::texts::len_of;
pub use self::top::GroupTop;
use self::top::{TopGroups, rows_at};
pub(crate) use self::value_list::ValueList;
use crate::batch::{BatchSource, Batches};
use crate::cache::L2_BYTES;
use crate::forced::rows_per_partition;
pub use crate::function::VectorFunction;
use crate::key_filter::KeyFilter;
use crate::phase::Phase;
use crate::scan::ScanMetrics;
use crate::scan::filter::Filter;
use crate::scan::offered::OfferedFilters;
use crate::scan::part::Parts;

/// The name of the operator in errors.
const OWNER: &str = "GROUP BY";

/// The most partitions, a power of two. The groups of one partition should fit a core's caches. With 1,024,
/// ClickBench's Q19 and Q33 take 1.1 times as long at 30 million rows, because writing to more places costs more than
/// smaller tables save.
const PARTITIONS_MAX: usize = 256;
/// The number of rows that a partition should have: with four words for a row and its slot, half of the second-level
/// cache. With more rows we make more partitions, and we merge neighbouring partitions as one up to this many rows.
const ROWS_PER_PARTITION: usize = L2_BYTES / 2 / (4 * size_of::<u64>());

/// Describes a grouping: its keys and aggregates, its result, and its resources.
#[derive(Clone, Debug)]
pub struct GroupRequest {
    /// The keys, aggregates and predicates. A grouping of batches must have no predicates.
    pub group: Group,
    /// The functions that the expressions of the group refer to by number.
    pub functions: Vec<Arc<dyn VectorFunction>>,
    /// The schema of the result: keys, then aggregates.
    pub schema: SchemaRef,
    /// An order and a number of groups: only the first groups of that order are needed. The operator may leave out
    /// others and returns the groups in any order.
    pub top: Option<GroupTop>,
    /// A number of groups that is enough. The caller accepts any groups.
    pub limit: Option<usize>,
    /// Whether the caller only counts the groups. Then only whether a text key is NULL matters, not its value.
    pub only_presence: bool,
    /// The most rows of a batch.
    pub batch_rows: usize,
    /// The expected number of workers.
    pub threads: usize,
    /// Ends the work early. Workers check it once per block, batch and partition.
    pub cancel: Cancel,
    /// Grants the memory.
    pub broker: Broker,
    /// The place of temporary files.
    pub temp: TempSpace,
    /// Counts the blocks and rows that are read.
    pub metrics: Arc<ScanMetrics>,
    /// Whether the grouping counts its workers in `metrics`. A grouping of a slice of time does not, because the
    /// workers of all slices are the same.
    pub counts_workers: bool,
}

/// One grouping, shared by its workers.
pub struct GroupBy {
    source: GroupSource,
    request: GroupRequest,
    /// The predicates of the group, as a filter of the table.
    filter: Filter,
    /// An empty filter, for blocks in which every row satisfies the predicates.
    no_filter: Filter,
    recipe: Recipe,
    /// The parts of a table (blocks and open runs), for a grouping that reads rows. Empty for batches.
    parts: Parts,
    /// The number of the next open run or value list to read, for a grouping by ranges of values.
    next_part: AtomicUsize,
    /// Whether a worker has gathered enough groups for the whole result.
    has_enough: AtomicBool,
    /// Whether a worker has added the groups that exist even without rows.
    has_empty: AtomicBool,
    gathering: Arc<Phase<gather::WorkerGroups, GatheredGroups>>,
    /// The value lists to group by ranges of values, if the grouping can be computed from them alone.
    lists: Option<Lists>,
    next_merge: AtomicUsize,
    top: Option<TopGroups>,
    /// The number of groups that may still be returned.
    groups_left: AtomicUsize,
    /// Key filters that operators above have offered.
    offered: OfferedFilters,
}

/// The value lists of one column.
struct Lists {
    source: Arc<dyn TableSource>,
    column: usize,
    /// Lists that were read before, to use instead of the lists of the blocks.
    known: Option<KnownLists>,
    reading: Arc<Phase<ColumnParts, GroupRanges>>,
}

/// Value lists that were read before, and the condition on the values to group.
struct KnownLists {
    lists: Vec<ValueList>,
    /// The values of rows that are in no list.
    loose: Option<ArrayRef>,
    condition: Option<(Predicate, Filter)>,
}

/// The groups of all workers, ready to be merged.
enum GatheredGroups {
    /// The groups of the only part, until a worker takes them.
    Complete(Mutex<Option<CompleteGroups>>),
    InMemory(HeldGroups),
    OnDisk(SpilledGroups),
}

/// The partitions of all workers on disk.
struct SpilledGroups {
    /// For each partition its pieces. They are removed after the last merge.
    partitions: Vec<Vec<SpilledPiece>>,
    /// The partitions to merge together, and the part of them to merge.
    merges: Vec<(Range<usize>, MergePass)>,
}

/// The partitions of all workers in memory.
struct HeldGroups {
    /// For each partition its parts, and by how much the text views in each part are shifted. The worker that merges a
    /// partition takes its parts out.
    partitions: Vec<Mutex<Vec<(Partition, u32)>>>,
    /// Ranges of partitions that are merged together because they are small.
    merges: Vec<Range<usize>>,
    texts: TextStore,
    /// The memory of the partitions that are not merged yet.
    memory: Mutex<Vec<Reservation>>,
}

impl fmt::Debug for GroupBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GroupBy").field("request", &self.request).finish_non_exhaustive()
    }
}

impl GroupBy {
    /// Prepares the grouping. Reads no rows.
    pub fn new(source: impl Into<GroupSource>, request: GroupRequest) -> Result<Arc<GroupBy>> {
        GroupBy::with_policy(source.into(), request, None)
    }

    fn with_policy(source: GroupSource, request: GroupRequest, policy: Option<Policy>) -> Result<Arc<GroupBy>> {
        Ok(Arc::new(GroupBy::of_all(source, request, policy)?))
    }

    /// Prepares a grouping of one column that takes its values from lists that were read before.
    fn of_known(source: GroupSource, request: GroupRequest, known: KnownLists) -> Result<Arc<GroupBy>> {
        let mut group_by = GroupBy::of_all(source, request, None)?;
        let lists = group_by.lists.as_mut().ok_or_else(|| Error::internal("a grouping by rows got value lists"))?;
        lists.known = Some(known);
        Ok(Arc::new(group_by))
    }

    /// Prepares the grouping that looks at all rows.
    fn of_all(source: GroupSource, request: GroupRequest, policy: Option<Policy>) -> Result<GroupBy> {
        let Group { keys, aggregates, predicates, always } = &request.group;
        if !predicates.is_empty() && matches!(source, GroupSource::Batches(_)) {
            return Err(Error::internal("a grouping of batches must have no predicates"));
        }
        let facts = Facts { source: Some(&source), functions: &request.functions };
        let states = States::new(aggregates, facts, !keys.is_empty() && always.is_empty())?;
        let layout = GroupLayout::new(keys, |function| request.functions[function].columns(), states.initial().len())?;
        let filter = match &source {
            GroupSource::Table(table) => Filter::new(&**table, predicates.clone())?,
            GroupSource::Batches(_) => Filter::default(),
        };
        let read_blocks = source.read_blocks(&filter);
        let partitions = match keys.is_empty() {
            true => 1,
            // Each row may be a group.
            false => (source.rows_max(&read_blocks) / rows_per_partition(ROWS_PER_PARTITION))
                .clamp(1, PARTITIONS_MAX)
                .next_power_of_two(),
        };
        let policy = policy.unwrap_or_else(|| Policy::new(&layout));
        let top = request.top.as_ref().and_then(|top| TopGroups::new(top, &layout, &states));
        // Without aggregates a group is complete as soon as its key is found, so the limit applies while we gather.
        let is_known_when_met = aggregates.is_empty() && !keys.is_empty();
        let enough = request.limit.filter(|limit| is_known_when_met && *limit <= policy.groups_max);
        let mut group_by = GroupBy {
            filter,
            no_filter: Filter::default(),
            lists: None,
            groups_left: AtomicUsize::new(request.limit.unwrap_or(usize::MAX)),
            top,
            recipe: Recipe { layout, states, partitions, policy, enough },
            parts: Parts::default(),
            next_part: AtomicUsize::new(0),
            has_enough: AtomicBool::new(false),
            has_empty: AtomicBool::new(false),
            gathering: Arc::default(),
            next_merge: AtomicUsize::new(0),
            offered: OfferedFilters::default(),
            source,
            request,
        };
        group_by.lists = group_by.lists()?;
        group_by.parts = Parts::new(group_by.cut(&read_blocks));
        Ok(group_by)
    }

    /// The number of parts of the source that workers take one by one. A caller should start no more workers than this.
    pub fn parts(&self) -> usize {
        match (&self.source, &self.lists) {
            (GroupSource::Table(_), None) => self.parts.frames(),
            _ => self.source.parts(),
        }
    }

    /// Returns one worker's share of the result. All workers together return every group once.
    pub fn worker(self: &Arc<Self>) -> GroupWorker {
        GroupWorker { group_by: Arc::clone(self), prepared: None, batches: VecDeque::new() }
    }

    /// Frees the ranges of values after all groups were returned.
    fn end(&self) {
        if let Some(lists) = &self.lists {
            lists.reading.end();
        }
    }

    /// Runs the steps that must end before groups can be returned, and says where this worker takes its groups from.
    /// `None` if another worker failed; that worker reports the error.
    fn prepare(&self) -> Result<Option<PreparedGroups>> {
        match &self.lists {
            // If a join has offered a filter, reading the few matching rows is faster than merging whole lists.
            Some(lists) if self.offered.is_empty() => Ok(self.ranges(lists)?.map(PreparedGroups::Ranges)),
            _ => Ok(self.gather()?.map(PreparedGroups::Partitions)),
        }
    }

    /// The column of the source by which rows can be filtered for a filter on result column `column`. `None` unless
    /// that is safe: the column must be a key, so that a filter removes whole groups, and no expression computed for a
    /// removed group may be able to fail, because its error would be lost.
    fn filtered_by(&self, column: usize) -> Option<usize> {
        let group = &self.request.group;
        let facts = Facts { source: Some(&self.source), functions: &self.request.functions };
        let mut exprs = group.keys.iter().map(|key| key.expr).chain(self.recipe.states.exprs());
        let are_safe = self.recipe.states.never_fail() && exprs.all(|expr| facts.never_fails(expr));
        let is_complete = self.request.limit.is_none() && self.request.top.is_none() && group.always.is_empty();
        let Expr::Column(column) = group.keys.get(column)?.expr else { return None };
        let has_filters = match &self.source {
            GroupSource::Table(source) => KeyFilter::is_for(&source.table().columns[column].kind.arrow()),
            GroupSource::Batches(source) => source.accepts(column),
        };
        (are_safe && is_complete && has_filters).then_some(column)
    }

    /// Returns some groups, or `None` when there are no more.
    fn next_of(&self, prepared: &PreparedGroups) -> Result<Option<RecordBatch>> {
        self.request.cancel.check()?;
        match prepared {
            _ if self.groups_left.load(Ordering::Relaxed) == 0 => Ok(None),
            PreparedGroups::Ranges(ranges) => self.group_range(ranges),
            PreparedGroups::Partitions(gathered) => self.merge_next(gathered),
        }
    }

    /// Gathers until nothing is left to take, then waits for the other workers. `None` if another worker failed; that
    /// worker reports the error.
    fn gather(&self) -> Result<Option<Arc<GatheredGroups>>> {
        let gather = || {
            let mut gatherer = Gatherer::new(&self.recipe, &self.request.broker, &self.request.temp);
            self.add_empty(&mut gatherer)?;
            if self.has_only_part() {
                gatherer.expect_only_part();
            }
            self.read(&mut gatherer)?;
            gatherer.finish()
        };
        self.gathering.run(&self.request.cancel, gather, |gathered| self.join(gathered))
    }

    /// Whether the rows of the grouping are those of one frame of a table, and all groups are returned.
    fn has_only_part(&self) -> bool {
        let GroupRequest { group, top, limit, .. } = &self.request;
        let gives_all = top.is_none() && limit.is_none() && group.always.is_empty();
        gives_all && matches!(self.source, GroupSource::Table(_)) && self.parts.frames() == 1
    }

    /// Reads the value lists of a column and splits the values into ranges. Each range is grouped by itself.
    fn ranges(&self, lists: &Lists) -> Result<Option<Arc<GroupRanges>>> {
        let read = || {
            let mut parts = ColumnParts::default();
            self.read_lists(lists, &mut |part| {
                parts.add(part);
                Ok(())
            })?;
            Ok(parts)
        };
        lists.reading.run(&self.request.cancel, read, |parts| {
            let Recipe { layout, policy, .. } = &self.recipe;
            let row_bytes = (layout.stride + 1) * size_of::<u64>();
            let range_bytes = policy.range_bytes.unwrap_or(usize::MAX);
            let column = (lists.column, &lists.source.table().columns[lists.column].kind);
            GroupRanges::new(parts, column, row_bytes, range_bytes, &self.request.broker)
        })
    }

    /// Groups the next range of values. `None` when there are no more.
    fn group_range(&self, ranges: &GroupRanges) -> Result<Option<RecordBatch>> {
        let mut memory = self.request.broker.reservation(OWNER);
        let Some(RangeValues { values, weights }) = ranges.next(&mut memory)? else { return Ok(None) };
        add(&self.request.metrics.rows_selected, weights.iter().sum::<u64>() as usize);
        self.group_values(ranges.column, values, weights).map(Some)
    }

    /// Groups values of `column`, the only column that is read. All rows with these values must be among them, because
    /// the groups are returned at once and are not merged with others.
    fn group_values(&self, column: usize, values: ArrayRef, weights: Vec<u64>) -> Result<RecordBatch> {
        let rows = PartRows::of_values(&self.request.functions, column, values, weights);
        let (table, texts) = Gatherer::new(&self.recipe, &self.request.broker, &self.request.temp).group(&rows)?;
        let (rows, _memory) = table.into_rows();
        self.give(Merged { rows, logged: Vec::new() }, &texts)
    }

    /// Adds the groups that exist even without rows. Only the first gatherer to come does this.
    fn add_empty(&self, gatherer: &mut Gatherer<'_>) -> Result<()> {
        let Group { keys, always, .. } = &self.request.group;
        let Some(groups) = always.first().map(|column| column.len()) else { return Ok(()) };
        if self.has_empty.swap(true, Ordering::Relaxed) {
            return Ok(());
        }
        let of = |expr: Expr| {
            let column = keys.iter().zip(always).find(|(key, _)| key.expr == expr).map(|(_, column)| column);
            let values = Arc::clone(column.ok_or_else(|| Error::internal("a group without rows must have all keys"))?);
            Ok(PartValues { values, codes: None, is_list: false })
        };
        let values = self.recipe.layout.columns.iter().map(|column| of(column.expr)).collect::<Result<Vec<_>>>()?;
        gatherer.add_empty(&values, groups)
    }

    /// Puts the partitions of all workers side by side and plans which of them to merge together.
    fn join(&self, mut workers: Vec<gather::WorkerGroups>) -> Result<GatheredGroups> {
        if let Some(place) = workers.iter().position(|worker| worker.complete.is_some()) {
            return Ok(GatheredGroups::Complete(Mutex::new(workers.swap_remove(place).complete)));
        }
        match workers.iter().any(|worker| worker.spilled.is_some()) {
            true => self.join_spilled(workers).map(GatheredGroups::OnDisk),
            false => Ok(GatheredGroups::InMemory(self.join_held(workers))),
        }
    }

    fn join_spilled(&self, workers: Vec<gather::WorkerGroups>) -> Result<SpilledGroups> {
        let GroupRequest { broker, temp, .. } = &self.request;
        let mut partitions: Vec<Vec<SpilledPiece>> = vec![Vec::new(); self.recipe.partitions];
        for mut worker in workers {
            if worker.spilled.is_none() {
                worker.spill(&self.recipe, broker, temp)?;
            }
            for (all, pieces) in partitions.iter_mut().zip(worker.spilled.into_iter().flatten()) {
                all.extend(pieces);
            }
        }
        // All workers merge at the same time, each with the groups as they were gathered, the merged groups, and a
        // batch of results.
        let bytes_max = broker.limit_bytes() / 8 / self.request.threads.max(1) as u64;
        let bits = self.recipe.partitions.ilog2();
        let bytes: Vec<u64> = partitions.iter().map(|of| of.iter().map(|piece| piece.bytes).sum()).collect();
        let rows = partitions.iter().map(|of| of.iter().map(|piece| piece.groups).sum());
        let mut merges = Vec::new();
        for range in ranges(rows) {
            // Small partitions are merged together, unless that takes too much memory.
            match bytes[range.clone()].iter().sum::<u64>() <= bytes_max {
                true => merges.push((range, MergePass::ALL)),
                false => merges.extend(range.flat_map(|partition| {
                    MergePass::of(bits, bytes[partition], bytes_max).map(move |pass| (partition..partition + 1, pass))
                })),
            }
        }
        Ok(SpilledGroups { partitions, merges })
    }

    fn join_held(&self, workers: Vec<gather::WorkerGroups>) -> HeldGroups {
        let mut partitions: Vec<Vec<(Partition, u32)>> = (0..self.recipe.partitions).map(|_| Vec::new()).collect();
        let (mut memory, mut all) = (Vec::new(), Vec::new());
        let (mut stores, mut of_workers) = (Vec::new(), Vec::new());
        for worker in workers {
            stores.push(worker.texts);
            memory.push(worker.memory);
            of_workers.push(worker.partitions);
        }
        // The texts of all workers become one store. Each worker's views must be shifted by its base in that store.
        let (texts, bases) = TextStore::join(stores);
        for (of_worker, base) in of_workers.into_iter().zip(bases) {
            for (all, partition) in partitions.iter_mut().zip(of_worker) {
                if partition.groups.len() > 0 {
                    all.push((partition, base));
                }
            }
        }
        let rows = |parts: &Vec<(Partition, u32)>| parts.iter().map(|(part, _)| part.groups.len()).sum::<usize>();
        let merges = ranges(partitions.iter().map(rows));
        all.extend(partitions.into_iter().map(Mutex::new));
        HeldGroups { partitions: all, merges, texts, memory: Mutex::new(memory) }
    }

    /// Merges the next partitions and returns their groups. `None` when there are no more.
    fn merge_next(&self, gathered: &GatheredGroups) -> Result<Option<RecordBatch>> {
        let number = self.next_merge.fetch_add(1, Ordering::Relaxed);
        match gathered {
            GatheredGroups::Complete(groups) => {
                let groups = groups.lock().take();
                groups.map(|groups| groups.into_batch(&self.recipe, &self.request)).transpose()
            }
            GatheredGroups::InMemory(held) => self.merge_held(held, number),
            GatheredGroups::OnDisk(spilled) => self.merge_spilled(spilled, number),
        }
    }

    fn merge_spilled(&self, spilled: &SpilledGroups, number: usize) -> Result<Option<RecordBatch>> {
        let Some((partitions, pass)) = spilled.merges.get(number) else { return Ok(None) };
        // What was written to disk must be read back, even if others have taken the memory in between.
        let held = self.request.broker.spillable();
        let mut memory = held.broker().reservation(OWNER);
        let mut texts = TextStore::new(held.broker().reservation(OWNER));
        let mut merger = Merger::new(&self.recipe.layout, &self.recipe.states, 0, &mut memory)?;
        for piece in spilled.partitions[partitions.clone()].iter().flatten() {
            self.request.cancel.check()?;
            let partition = piece.read(&self.recipe, *pass, &mut texts)?;
            merger.expect(partition.groups.len(), &mut memory)?;
            memory.grow(partition.log_bytes())?;
            merger.add(partition, 0, &texts)?;
        }
        // Groupings without keys, which have a group even without rows, never spill.
        let groups = merger.finish(false, &texts, &mut memory)?;
        self.give(groups, &texts).map(Some)
    }

    fn merge_held(&self, gathered: &HeldGroups, number: usize) -> Result<Option<RecordBatch>> {
        let Some(partitions) = gathered.merges.get(number) else { return Ok(None) };
        let parts = gathered.partitions[partitions.clone()].iter().flat_map(|part| std::mem::take(&mut *part.lock()));
        let parts: Vec<(Partition, u32)> = parts.collect();
        let rows = parts.iter().map(|(part, _)| part.groups.len()).sum();
        let Recipe { layout, states, .. } = &self.recipe;
        let texts = &gathered.texts;
        // Several groups are merged a part at a time, each in about the memory that its rows had. So they are granted
        // what they need. A single group may need as much again as all its rows.
        let held = self.request.broker.spillable();
        let broker = if layout.columns.is_empty() { &self.request.broker } else { held.broker() };
        let mut memory = broker.reservation(OWNER);
        let mut merger = Merger::new(layout, states, rows, &mut memory)?;
        // We free each part as soon as it is merged, so that the merge does not hold two copies of all groups.
        for (part, base) in parts {
            let bytes = part.bytes();
            // The rows of logs stay in memory until all parts of the partition are merged, so they are counted again.
            memory.grow(part.log_bytes())?;
            merger.add(part, base, texts)?;
            gathered.give_back(bytes);
        }
        let groups = merger.finish(self.request.group.keys.is_empty(), texts, &mut memory)?;
        self.give(groups, texts).map(Some)
    }

    /// Returns complete groups as columns, without groups that cannot be among the first ones asked for.
    fn give(&self, mut groups: Merged, texts: &TextStore) -> Result<RecordBatch> {
        let Recipe { layout, states, .. } = &self.recipe;
        if let Some(top) = &self.top {
            // A group that we leave out must still raise its error, so we check the totals of all groups first.
            states.check_totals(Finished { rows: &groups.rows, stride: layout.stride, at: layout.key_words })?;
            if layout.computes() {
                layout.keys(&groups.rows, texts, &self.request.functions)?;
            }
            let kept = top.keep(&groups, layout, states, texts)?;
            groups.rows = rows_at(&groups.rows, &kept, layout.stride);
            for column in groups.logged.iter_mut().flatten() {
                *column = take(column, &kept)?;
            }
        }
        self.batch(&groups, texts)
    }

    /// Takes up to `groups` from the number of groups that may still be returned, and says how many it got.
    fn grant(&self, groups: usize) -> usize {
        if self.request.limit.is_none() {
            return groups;
        }
        // Several workers return groups at the same time, so each must take its share of the limit atomically.
        let left = self
            .groups_left
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| Some(left.saturating_sub(groups)));
        left.map_or(0, |left| left.min(groups))
    }

    /// Returns groups as columns.
    fn batch(&self, groups: &Merged, texts: &TextStore) -> Result<RecordBatch> {
        let Recipe { layout, states, .. } = &self.recipe;
        let given = self.grant(groups.rows.len() / layout.stride);
        let rows = &groups.rows[..given * layout.stride];
        let mut columns = match self.request.only_presence && !layout.computes() {
            true => layout.keys_without_texts(rows, texts)?,
            false => layout.keys(rows, texts, &self.request.functions)?,
        };
        let logged = groups.logged.iter().map(|of| of.iter().map(|column| column.slice(0, given)).collect());
        let logged: Vec<Vec<ArrayRef>> = logged.collect();
        columns.extend(states.finish(
            Finished { rows, stride: layout.stride, at: layout.key_words },
            &logged,
            texts,
        )?);
        batch_of(&self.request, columns, given)
    }
}

/// Puts the columns of `groups` groups together.
fn batch_of(request: &GroupRequest, columns: Vec<ArrayRef>, groups: usize) -> Result<RecordBatch> {
    // A grouping without keys and aggregates has groups, but no columns.
    let options = RecordBatchOptions::new().with_row_count(Some(groups));
    RecordBatch::try_new_with_options(Arc::clone(&request.schema), columns, &options)
        .map_err(|error| Error::internal(format!("the groups of {OWNER}: {error}")))
}

impl HeldGroups {
    /// Gives back `bytes` of memory. It does not matter which worker reserved them.
    fn give_back(&self, mut bytes: u64) {
        for memory in self.memory.lock().iter_mut() {
            let part = bytes.min(memory.bytes());
            memory.recount(memory.bytes() - part);
            bytes -= part;
        }
    }
}

/// Splits neighbouring partitions, given their numbers of rows, into ranges that are merged as one. The last range is
/// present even if it is empty, because a grouping without keys returns one group even if there are no rows.
fn ranges(rows: impl Iterator<Item = usize>) -> Vec<Range<usize>> {
    let (mut ranges, mut start, mut end, mut sum) = (Vec::new(), 0, 0, 0);
    for rows in rows {
        if sum > 0 && sum + rows > rows_per_partition(ROWS_PER_PARTITION) {
            ranges.push(start..end);
            // The range is large enough. The next partition begins a new one.
            (start, sum) = (end, 0);
        }
        end += 1;
        sum += rows;
    }
    ranges.push(start..end);
    ranges
}

/// The place where workers take groups from.
#[derive(Clone)]
enum PreparedGroups {
    Ranges(Arc<GroupRanges>),
    Partitions(Arc<GatheredGroups>),
}

/// Takes its share of the prepared groups and returns them in batches.
pub struct GroupWorker {
    group_by: Arc<GroupBy>,
    prepared: Option<PreparedGroups>,
    batches: VecDeque<RecordBatch>,
}

impl fmt::Debug for GroupWorker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GroupWorker").field("group_by", &self.group_by).finish_non_exhaustive()
    }
}

impl GroupWorker {
    fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        if self.prepared.is_none() {
            self.prepared = self.group_by.prepare()?;
        }
        let Some(prepared) = &self.prepared else { return Ok(None) };
        loop {
            if let Some(batch) = self.batches.pop_front() {
                return Ok(Some(batch));
            }
            let Some(groups) = self.group_by.next_of(prepared)? else { return Ok(None) };
            let batch_rows = self.group_by.request.batch_rows.max(1);
            self.batches.extend(
                (0..groups.num_rows())
                    .step_by(batch_rows)
                    .map(|start| groups.slice(start, batch_rows.min(groups.num_rows() - start))),
            );
        }
    }
}

impl Iterator for GroupWorker {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_batch().transpose()
    }
}

impl BatchSource for GroupBy {
    fn schema(&self) -> &SchemaRef {
        &self.request.schema
    }

    fn parallelism(&self) -> usize {
        match &self.source {
            GroupSource::Table(_) => self.parts().max(1),
            GroupSource::Batches(source) => source.parallelism(),
        }
    }

    fn worker(self: Arc<Self>) -> Batches {
        Box::new(GroupBy::worker(&self))
    }

    fn accepts(&self, column: usize) -> bool {
        self.filtered_by(column).is_some()
    }

    fn offer(&self, column: usize, filter: &Arc<KeyFilter>) {
        let Some(column) = self.filtered_by(column) else { return };
        match &self.source {
            GroupSource::Table(_) => self.offered.add(column, filter),
            GroupSource::Batches(source) => source.offer(column, filter),
        }
    }

    fn narrows(&self, column: usize) -> bool {
        let column = self.filtered_by(column);
        match &self.source {
            GroupSource::Table(_) => false,
            GroupSource::Batches(source) => column.is_some_and(|column| source.narrows(column)),
        }
    }
}
