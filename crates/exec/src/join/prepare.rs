//! The second and third step of a join: the gathered rows are brought into order and indexed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use arrow::array::ArrayRef;
use rowmill_base::{ErrorKind, Reservation, Result};

use super::columns::PartColumn;
use super::exact_words::ExactWords;
use super::gather::{BuildBatch, BuildBatches, GatheredBuild};
use super::index::{Index, PartitionIndex, PartitionPart, list_starts};
use super::keys::KeyForm;
use super::layout::PairColumnOrigin;
use super::list_bounds::{BoundNumbers, LIST_ROWS_MIN, ListBounds, PartNumbers};
use super::long_keys::LongKeys;
use super::marks::Marks;
use super::packing::{NO_KEY, PackScratch};
use super::range_rows::{ProbeLimits, RangeRows};
use super::spill::Stages;
use super::{HashJoin, OWNER};
use crate::key_filter::KeyFilter;
use crate::ordered_join::{KeyOrder, OrderedAggregates, OrderedPart, OrderedRows};
use crate::window::FrameColumns;

/// The rows that one worker brought into order.
#[derive(Debug)]
pub(super) struct Scattered {
    /// Stored columns, with their positions.
    columns: Vec<(usize, PartColumn)>,
    /// One part per partition.
    parts: Vec<PartitionPart>,
    /// The long keys of batches, with the positions of the batches.
    keys: Vec<(usize, LongKeys)>,
    /// Whether the words of an ordered join are exact.
    exact_words: ExactWords,
    null_rows: Vec<u32>,
    memory: Reservation,
}

/// The build side in order.
#[derive(Debug)]
pub(super) struct PreparedBuild {
    stored: Arc<StoredBuild>,
    /// The long keys by batch, if the words of all rows are exact. Otherwise the stored keys are those of all batches.
    batch_keys: Vec<LongKeys>,
    /// The parts of each worker, by partition.
    parts: Vec<Vec<PartitionPart>>,
    list_starts: Vec<u32>,
    /// The order of the rows of a key, if the join is an ordered one.
    order: Option<KeyOrder>,
    /// The numbers of the columns with bounds, if the join has keys and bounds.
    bound_numbers: Option<BoundNumbers>,
    /// The next piece of work.
    next: AtomicUsize,
    _memory: Vec<Reservation>,
}

/// The rows of the build side.
#[derive(Debug)]
pub(super) struct StoredBuild {
    pub(super) rows: usize,
    /// By [`super::layout::JoinLayout::stored`]. Columns that an ordered join no longer needs are empty.
    pub(super) columns: Vec<Arc<PartColumn>>,
    pub(super) form: KeyForm,
    /// The keys of all rows, if a word is only the hash of a key. Those of an ordered join are by their numbers.
    pub(super) keys: Option<LongKeys>,
    /// Rows with a NULL in their key; only if the join needs them.
    pub(super) null_rows: Vec<u32>,
    memory: Reservation,
}

/// The tables and filters that one worker made.
#[derive(Debug)]
pub(super) struct Indexed {
    /// Tables with the numbers of their partitions.
    tables: Vec<(usize, PartitionIndex)>,
    /// The rows of partitions in order, if the join is an ordered one.
    ordered: Vec<(usize, OrderedPart)>,
    /// The numbers of the bounds of partitions, if the join has keys and bounds.
    bounded: Vec<(usize, PartNumbers)>,
    /// Filters with the columns of the probe side.
    filters: Vec<(usize, Arc<KeyFilter>)>,
    memory: Reservation,
}

/// The build side, ready to be probed.
#[derive(Debug)]
pub(super) struct Built {
    pub(super) stored: Arc<StoredBuild>,
    /// `None` if all rows match by their keys.
    pub(super) index: Option<Index>,
    /// The rows in the order of a column, if the join has no keys but bounds.
    pub(super) range_rows: Option<RangeRows>,
    /// The bounds of the rows of each key, if the join has keys and bounds.
    pub(super) list_bounds: Option<ListBounds>,
    /// The rows in order, if the join is an ordered one.
    pub(super) ordered: Option<OrderedRows>,
    /// The marks of rows with a match, if the kind of the join needs them.
    pub(super) marks: Option<Marks>,
    /// Whether [`StoredBuild::null_rows`] are marked.
    pub(super) null_rows_marked: AtomicBool,
    _memory: Vec<Reservation>,
}

/// The build side of a join with its index.
enum IndexedBuild {
    InMemory(Arc<Built>),
    OnDisk(Arc<Stages>),
}

/// The build side of a join that can be probed.
pub(super) enum FinishedBuild {
    InMemory(ReadyBuild),
    /// Both sides are on disk, and are joined in stages.
    OnDisk(Arc<Stages>),
}

/// A build side in memory, with the aggregates of an ordered join that returns them.
pub(super) struct ReadyBuild {
    pub(super) built: Arc<Built>,
    pub(super) aggregates: Option<Arc<OrderedAggregates>>,
}

impl HashJoin {
    /// The finished build side, after each worker has done its share. `None` if another worker failed or the join is
    /// done.
    pub(super) fn built(self: &Arc<Self>) -> Result<Option<FinishedBuild>> {
        let built = match self.indexed_build()? {
            Some(IndexedBuild::InMemory(built)) => built,
            Some(IndexedBuild::OnDisk(stages)) => return Ok(Some(FinishedBuild::OnDisk(stages))),
            None => return Ok(None),
        };
        let Some(ordered) = built.ordered.as_ref().filter(|_| self.gives_aggregates()) else {
            return Ok(Some(FinishedBuild::InMemory(ReadyBuild { built, aggregates: None })));
        };
        let work = || ordered.prepare_aggregates(self.broker().reservation(OWNER));
        let make = |parts| Ok(OrderedAggregates::join(parts));
        let aggregates = self.arranging.run(&self.request.cancel, work, make)?;
        let ready = |aggregates| FinishedBuild::InMemory(ReadyBuild { built, aggregates: Some(aggregates) });
        Ok(aggregates.map(ready))
    }

    /// Whether the join is an ordered one that returns aggregates.
    pub(super) fn gives_aggregates(&self) -> bool {
        self.request.ordered.as_ref().is_some_and(|ordered| ordered.aggregates.is_some())
    }

    /// The build side with its index. `None` if another worker failed or the join is done.
    fn indexed_build(self: &Arc<Self>) -> Result<Option<IndexedBuild>> {
        // Another worker may have finished all steps already.
        if let Some(indexed) = self.finished_index() {
            return Ok(Some(indexed));
        }
        let cancel = &self.request.cancel;
        let gathered = self.gathering.run(cancel, || self.gather(), |read| self.gathered(read))?;
        let gathered = match gathered.as_deref() {
            Some(GatheredBuild::InMemory(gathered)) => gathered,
            Some(GatheredBuild::OnDisk(build)) => return Ok(self.scattered(build)?.map(IndexedBuild::OnDisk)),
            None => return Ok(self.finished_index()),
        };
        let work = || self.prepare(gathered);
        let prepared = self.preparing.run(cancel, work, |scattered| self.prepared(gathered, scattered))?;
        let Some(prepared) = prepared else { return Ok(self.finished_index()) };
        let work = || self.index(gathered, &prepared);
        let built = self.indexing.run(cancel, work, |indexed| self.indexed(gathered, &prepared, indexed))?;
        // The index is finished, so we free the data that it was made from.
        self.gathering.end();
        self.preparing.end();
        Ok(built.map(IndexedBuild::InMemory))
    }

    /// The build side, if its index is finished and the join is not done.
    fn finished_index(&self) -> Option<IndexedBuild> {
        let in_memory = self.indexing.whole().map(IndexedBuild::InMemory);
        in_memory.or_else(|| self.scattering.whole().map(IndexedBuild::OnDisk))
    }

    /// Drops the shared build side. Workers that still use it keep it alive; a worker that asks from now on gets
    /// nothing.
    pub(super) fn let_go(&self) {
        self.gathering.end();
        self.preparing.end();
        self.indexing.end();
        self.arranging.end();
        self.scattering.end();
        self.memory.lock().take();
    }

    /// Joins columns into one array each, and puts the words of batches into partitions, until no work is left.
    fn prepare(&self, gathered: &BuildBatches) -> Result<Scattered> {
        let mut scattered = Scattered {
            columns: Vec::new(),
            parts: vec![PartitionPart::default(); gathered.partitioning.count()],
            keys: Vec::new(),
            exact_words: ExactWords::default(),
            null_rows: Vec::new(),
            memory: self.broker().reservation(OWNER),
        };
        let (mut words, mut scratch) = (Vec::new(), PackScratch::default());
        while !self.preparing.is_over() {
            self.request.cancel.check()?;
            // Tasks are numbered: first the stored columns, then the batches.
            let task = gathered.next.fetch_add(1, Ordering::Relaxed);
            if task < self.layout.stored.len() {
                scattered.columns.push((task, self.join_column(gathered, task)?));
                continue;
            }
            let batch = task - self.layout.stored.len();
            let Some(rows) = gathered.batches.get(batch).filter(|_| !matches!(gathered.form, KeyForm::Every)) else {
                break;
            };
            self.scatter(gathered, batch, rows, &mut words, &mut scratch, &mut scattered)?;
        }
        Ok(scattered)
    }

    fn join_column(&self, gathered: &BuildBatches, stored: usize) -> Result<PartColumn> {
        let column = self.layout.stored[stored];
        let mut parts = gathered.columns[column].lock();
        let (order, kind) = (gathered.order.as_deref(), &self.layout.stored_kinds[stored]);
        let mut joined = PartColumn::join(&parts, order, kind, &self.broker())?;
        // The parts of key columns must stay, because filters are made from them.
        if !self.layout.build_keys.contains(&column) {
            parts.clear();
            joined.recount();
        }
        Ok(joined)
    }

    fn scatter(
        &self,
        gathered: &BuildBatches,
        number: usize,
        batch: &BuildBatch,
        words: &mut Vec<u64>,
        scratch: &mut PackScratch,
        scattered: &mut Scattered,
    ) -> Result<()> {
        const LONG_COLUMN_BYTES_MAX: usize = size_of::<u128>();
        // Reserve for the worst case first, so that too little memory fails before anything is allocated.
        let needed = batch.rows * (PartitionPart::ROW_BYTES_MAX + batch.keys.len() * LONG_COLUMN_BYTES_MAX);
        scattered.memory.grow(needed as u64)?;
        let keys = gathered.form.words(&batch.keys, batch.rows, scratch, words)?;
        scattered.keys.extend(keys.map(|keys| (number, keys)));
        if let Some(has_position) = &batch.has_position {
            // A row without a position meets nothing, like a row without a key.
            words.iter_mut().zip(has_position).filter(|(_, has)| !has).for_each(|(word, _)| *word = NO_KEY);
        }
        if self.request.ordered.is_some() && matches!(gathered.form, KeyForm::Long { .. }) {
            if scattered.exact_words.bytes() == 0 {
                scattered.memory.grow(ExactWords::BYTES_MAX)?;
            }
            scattered.exact_words.add(words, &scattered.keys);
        }
        gathered.partitioning.scatter(words, batch.first_row, &mut scattered.parts);
        if self.request.is_uncertain() {
            // A value of the build side always has a word, so `NO_KEY` can only be a NULL.
            let nulls = (batch.first_row..).zip(&*words).filter(|(_, word)| **word == NO_KEY);
            scattered.null_rows.extend(nulls.map(|(row, _)| row));
        }
        let parts: u64 = scattered.parts.iter().map(PartitionPart::bytes).sum();
        let keys: u64 = scattered.keys.iter().map(|(_, keys)| keys.bytes()).sum();
        let keys = keys + scattered.exact_words.bytes();
        scattered.memory.recount(parts + keys + (scattered.null_rows.capacity() * size_of::<u32>()) as u64);
        Ok(())
    }

    fn prepared(&self, gathered: &BuildBatches, scattered: Vec<Scattered>) -> Result<PreparedBuild> {
        let are_exact = self.request.ordered.is_some()
            && ExactWords::are_exact(scattered.iter().map(|worker| (&worker.exact_words, &worker.keys[..])));
        let (mut columns, mut keys, mut null_rows) = (Vec::new(), Vec::new(), Vec::new());
        let (mut parts, mut memory) = (Vec::new(), Vec::new());
        for worker in scattered {
            columns.extend(worker.columns);
            keys.extend(worker.keys);
            null_rows.extend(worker.null_rows);
            parts.push(worker.parts);
            memory.push(worker.memory);
        }
        // Workers took columns and batches in any order; restore their order.
        columns.sort_unstable_by_key(|(position, _)| *position);
        keys.sort_unstable_by_key(|(batch, _)| *batch);
        let mut of_stored = self.broker().reservation(OWNER);
        of_stored.grow((null_rows.capacity() * size_of::<u32>()) as u64)?;
        let mut batch_keys: Vec<LongKeys> = keys.into_iter().map(|(_, keys)| keys).collect();
        let keys = match gathered.form {
            _ if are_exact => None,
            KeyForm::Long { nulls_equal } => Some(LongKeys::join(&batch_keys, nulls_equal, &mut of_stored)?),
            KeyForm::Every | KeyForm::One | KeyForm::Packed(_) => None,
        };
        let stored = StoredBuild {
            rows: gathered.rows,
            columns: columns.into_iter().map(|(_, column)| Arc::new(column)).collect(),
            form: gathered.form.clone(),
            keys,
            null_rows,
            memory: of_stored,
        };
        let rows_of = |partition: usize| parts.iter().map(|parts: &Vec<PartitionPart>| parts[partition].len()).sum();
        if !are_exact {
            batch_keys.clear();
        }
        let mut of_bounds = self.broker().reservation(OWNER);
        let bound_numbers = match self.request.on.is_empty() || self.layout.bounds.is_empty() {
            true => None,
            false => {
                let column = |place: usize| Arc::clone(&stored.columns[place].values);
                let numbers = BoundNumbers::new(&self.layout.bounds, column, stored.rows, &mut of_bounds);
                unless_short_of_memory(numbers)?
            }
        };
        memory.push(of_bounds);
        Ok(PreparedBuild {
            order: self.key_order(&stored)?,
            bound_numbers,
            stored: Arc::new(stored),
            batch_keys,
            // All partitions must know where their lists start before any is built.
            list_starts: list_starts((0..gathered.partitioning.count()).map(rows_of)),
            parts,
            next: AtomicUsize::new(0),
            _memory: memory,
        })
    }

    /// What orders the rows of a key, if the join is an ordered one.
    fn key_order(&self, stored: &StoredBuild) -> Result<Option<KeyOrder>> {
        let Some(ordered) = &self.layout.ordered else { return Ok(None) };
        let column = |place: usize| &stored.columns[place].values;
        let memory = self.broker().reservation(OWNER);
        KeyOrder::new(column(ordered.position), ordered.tie.map(column), memory).map(Some)
    }

    /// Makes filters and the tables of partitions until no work is left.
    fn index(&self, gathered: &BuildBatches, prepared: &PreparedBuild) -> Result<Indexed> {
        let memory = self.broker().reservation(OWNER);
        let (tables, ordered, bounded, filters) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let mut indexed = Indexed { tables, ordered, bounded, filters, memory };
        // Exact words need no comparison of keys.
        let keys = prepared.stored.keys.as_ref();
        let is_same = |row: u32, other: u32| keys.is_none_or(|keys| keys.is_same(row as usize, keys, other as usize));
        while !self.indexing.is_over() {
            self.request.cancel.check()?;
            // Tasks are numbered: first the filters, then the partitions.
            let task = prepared.next.fetch_add(1, Ordering::Relaxed);
            if let Some(key) = gathered.filtered.get(task) {
                let values: Vec<&ArrayRef> = gathered.batches.iter().map(|batch| &batch.keys[*key]).collect();
                let counts = Arc::clone(&self.metrics.filters);
                let filter = KeyFilter::new(
                    &self.layout.key_kinds[*key],
                    &values,
                    self.request.nulls_equal,
                    counts,
                    &mut indexed.memory,
                )?;
                indexed.filters.push((self.layout.probe_keys[*key], Arc::new(filter)));
                continue;
            }
            let partition = task - gathered.filtered.len();
            let Some(lists_start) = prepared.list_starts.get(partition) else { break };
            let parts: Vec<&PartitionPart> = prepared.parts.iter().map(|parts| &parts[partition]).collect();
            let partitioning = &gathered.partitioning;
            if let (Some(order), Some(layout)) = (&prepared.order, &self.layout.ordered) {
                let (table, groups) = partitioning.groups(partition, &parts, is_same, &mut indexed.memory)?;
                // The rows of the keys are counted with the part from here on.
                indexed.memory.recount(indexed.memory.bytes() - groups.bytes());
                let columns = layout.arguments.iter().map(|place| &prepared.stored.columns[*place].values);
                let part = order.order(groups, &columns.collect::<Vec<_>>(), self.broker().reservation(OWNER))?;
                indexed.ordered.push((partition, part));
                indexed.tables.push((partition, table));
                continue;
            }
            let mut table = partitioning.table(partition, &parts, *lists_start, is_same, &mut indexed.memory)?;
            if let Some(numbers) = &prepared.bound_numbers {
                let (lists, long_lists) = table.long_lists(LIST_ROWS_MIN);
                let sorted = unless_short_of_memory(numbers.sort(lists, &long_lists, &mut indexed.memory))?;
                indexed.bounded.extend(sorted.map(|numbers| (partition, numbers)));
            }
            indexed.tables.push((partition, table));
        }
        Ok(indexed)
    }

    /// The build side of an ordered join without what was only needed to order it. `firsts` has the first row of each
    /// key.
    fn ordered_stored(&self, gathered: &BuildBatches, prepared: &PreparedBuild, firsts: &[u32]) -> Result<StoredBuild> {
        let (all, broker) = (&prepared.stored, self.broker());
        let mut memory = broker.reservation(OWNER);
        let keys = match (&gathered.form, &all.keys) {
            (KeyForm::Long { nulls_equal }, Some(keys)) => {
                let places: Vec<(usize, usize)> = firsts.iter().map(|row| (0, *row as usize)).collect();
                Some(LongKeys::at_places(&[keys], &places, *nulls_equal, &mut memory)?)
            }
            (KeyForm::Long { nulls_equal }, None) => {
                let place = |row: &u32| {
                    let batch = gathered.batches.partition_point(|batch| batch.first_row <= *row) - 1;
                    (batch, (row - gathered.batches[batch].first_row) as usize)
                };
                let places: Vec<(usize, usize)> = firsts.iter().map(place).collect();
                let keys: Vec<&LongKeys> = prepared.batch_keys.iter().collect();
                Some(LongKeys::at_places(&keys, &places, *nulls_equal, &mut memory)?)
            }
            _ => None,
        };
        let is_given = |place: usize| {
            let mut origins = self.layout.output.iter().map(|(origin, _)| origin);
            origins.any(|origin| *origin == PairColumnOrigin::Build(place))
        };
        let column = |(place, column): (usize, &Arc<PartColumn>)| match is_given(place) {
            true => Ok(Arc::clone(column)),
            false => PartColumn::join(&[], None, &self.layout.stored_kinds[place], &broker).map(Arc::new),
        };
        let columns = all.columns.iter().enumerate().map(column).collect::<Result<_>>()?;
        let form = gathered.form.clone();
        Ok(StoredBuild { rows: all.rows, columns, form, keys, null_rows: Vec::new(), memory })
    }

    /// Joins the tables into the index and offers the filters to the probe side.
    fn indexed(&self, gathered: &BuildBatches, prepared: &PreparedBuild, indexed: Vec<Indexed>) -> Result<Built> {
        let (mut tables, mut ordered, mut bounded, mut memory) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for worker in indexed {
            ordered.extend(worker.ordered);
            bounded.extend(worker.bounded);
            worker.filters.iter().for_each(|(column, filter)| self.probe.offer(*column, filter));
            tables.extend(worker.tables);
            memory.push(worker.memory);
        }
        tables.sort_unstable_by_key(|(partition, _)| *partition);
        let tables: Vec<PartitionIndex> = tables.into_iter().map(|(_, table)| table).collect();
        let mut rest = self.broker().reservation(OWNER);
        let ordered = match &self.request.ordered {
            None => None,
            Some(request) => {
                ordered.sort_unstable_by_key(|(partition, _)| *partition);
                let parts = ordered.into_iter().map(|(_, part)| part).collect();
                let columns = FrameColumns::new(self.broker(), self.request.temp.clone(), self.request.cancel.clone())?;
                Some(OrderedRows::new(request, parts, columns, self.broker().reservation(OWNER))?)
            }
        };
        let mut stored = Arc::clone(&prepared.stored);
        let index = match gathered.form {
            KeyForm::Every => None,
            _ if ordered.is_some() => {
                let (index, firsts) = Index::of_groups(gathered.partitioning, tables);
                stored = Arc::new(self.ordered_stored(gathered, prepared, &firsts)?);
                Some(index)
            }
            _ => Some(Index::new(gathered.partitioning, tables, &prepared.list_starts, &mut rest)?),
        };
        let column = |place: usize| Arc::clone(&stored.columns[place].values);
        let range_rows = match index {
            None => unless_short_of_memory(RangeRows::new(&self.layout.bounds, column, &mut rest))?.flatten(),
            Some(_) => None,
        };
        let list_bounds = match &prepared.bound_numbers {
            // Without the numbers of a partition, the rows of its keys are not in order.
            Some(numbers) if bounded.len() == prepared.list_starts.len() => {
                bounded.sort_unstable_by_key(|(partition, _)| *partition);
                let parts = bounded.into_iter().map(|(_, part)| part).collect();
                unless_short_of_memory(numbers.join(parts, &prepared.list_starts, &mut rest))?.flatten()
            }
            _ => None,
        };
        if self.may_leave_out() {
            let of_lists = || prepared.bound_numbers.as_ref().map(|numbers| numbers.probe_limits(column));
            let limits = range_rows.as_ref().map(RangeRows::probe_limits).or_else(of_lists);
            for (column, least, most) in limits.into_iter().flat_map(|ProbeLimits(limits)| limits) {
                if self.probe.accepts(column) {
                    let schema = self.probe.schema();
                    let counts = Arc::clone(&self.metrics.filters);
                    let filter = KeyFilter::between(schema.field(column).data_type(), least, most, counts);
                    self.probe.offer(column, &Arc::new(filter));
                }
            }
        }
        let marks = self.request.kind.marks_build().then(|| Marks::new(gathered.rows, &mut rest)).transpose()?;
        memory.push(rest);
        self.mark_by_whole(&stored, marks.as_ref());
        let columns: u64 = stored.columns.iter().map(|column| column.bytes()).sum();
        let of_order = ordered.as_ref().map_or(0, OrderedRows::bytes);
        let tables: u64 = memory.iter().map(Reservation::bytes).sum();
        // We count only memory that stays: the gathered parts are dropped after this step.
        self.metrics.build_bytes.store(columns + stored.memory.bytes() + tables + of_order, Ordering::Relaxed);
        Ok(Built {
            stored,
            index,
            range_rows,
            list_bounds,
            ordered,
            marks,
            null_rows_marked: AtomicBool::new(false),
            _memory: memory,
        })
    }
}

/// The result of work that only saves comparisons. `None` if there is too little memory for it, because comparing more
/// rows needs no memory and gives the same pairs.
fn unless_short_of_memory<T>(result: Result<T>) -> Result<Option<T>> {
    match result {
        Err(error) if error.kind() == ErrorKind::MemoryLimit => Ok(None),
        result => result.map(Some),
    }
}
