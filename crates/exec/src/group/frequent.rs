//! ORDER BY a count with a LIMIT above a grouping: the groups of those values of one key alone that enough rows have.
//!
//! ```text
//!   count   a worker takes a block and finds the values of the key that most of its rows have (list_counts.rs); what all blocks
//!           have of them is added up (row_counts.rs)
//!   first   the groups of the best of them, as many as are asked for; the last of so many groups is a bound
//!   narrow  the other values that may have as many rows, by how many each block has of them at least and at most: a worker takes
//!           the parts of lists that matter, and then a range of their values
//!   rest    the groups of those; mostly there are none
//! ```
//!
//! A group counts at most its rows, and has at most as many as the value of any of its keys. So all values of a group that is
//! among the first have as many rows as the last of the first counts, and where a few values have many more rows than others,
//! nothing has to be read of those others. Blocks list the values of the key with their rows: none is touched to know them. Where
//! other columns decide which rows are in, the codes of those are counted; that is done where nothing but the key is read, for
//! then the groups come from these counts too.
//!
//! What is left out is not computed, and its errors would be lost. So this is only done where nothing that is computed can fail.
//! It is done in little memory, and where there is not even that, all rows are grouped.

mod list_counts;
mod row_counts;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::{DataType, Field, Int64Type, Schema, SchemaRef};
use parking_lot::Mutex;
use rowmill_base::{Cancel, Error, ErrorKind, Result};
use rowmill_plan::{Aggregate, AggregateFunction, Expr, Group, Key};
use rowmill_storage::TableSource;

use self::list_counts::{Counted, PartCounts};
use self::row_counts::{Bound, RowCounts, these_values};
use super::facts::{Bounds, Facts};
use super::texts::is_text;
use super::value_list::ValueList;
use super::{GroupBy, GroupRequest, GroupSource, Lists};
use crate::batch::{BatchSource, Batches};
use crate::forced::forced;
use crate::phase::Phase;
use crate::share::share;

/// What is worth its time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Fewer rows are grouped before their values are counted.
    pub(super) rows_min: u64,
    /// The groups of the most frequent values are found in one of so many parts of the time that all take, at most.
    pub(super) share: u64,
    /// Of more groups the last one is no high bound.
    pub(super) groups_max: usize,
    /// Values of each list of which the rows are put together to find the most frequent ones of all.
    pub(super) numbers_frequent: usize,
    pub(super) texts_frequent: usize,
    /// Of a list with fewer values for each that is wanted none is read before others: it would be most of them. That is, where
    /// rows do not matter.
    pub(super) values_per_frequent: usize,
    /// Places in lists whose values are read, as long as that is next to nothing, and at most: of numbers, and of texts, which
    /// take longer.
    pub(super) numbers_read: (usize, usize),
    pub(super) texts_read: (usize, usize),
    /// Where there are more, one is read for so many rows at most: that takes less time than to group the rows.
    pub(super) numbers_share: u64,
    /// Values that are looked for in all lists.
    pub(super) values_max: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            rows_min: if forced().group.is_some() { 1 } else { 1 << 12 },
            share: 4,
            groups_max: 1 << 10,
            numbers_frequent: 1 << 10,
            texts_frequent: 1 << 6,
            values_per_frequent: 4,
            numbers_read: (1 << 13, 1 << 20),
            texts_read: (1 << 11, 1 << 13),
            numbers_share: 4,
            values_max: 1 << 16,
        }
    }
}

/// One grouping, shared by its workers.
pub(crate) struct Frequent {
    table: Arc<dyn TableSource>,
    request: GroupRequest,
    /// How groups of some of the rows are found.
    group: GroupRows,
    limits: Limits,
    /// The count that orders groups, by its place in the result, and how many groups matter.
    count: usize,
    groups: usize,
    /// Groups all rows by the key alone.
    counter: Arc<GroupBy>,
    /// Whether nothing but the key is read to make groups.
    reads_key_alone: bool,
    counting: Arc<Phase<PartCounts, First>>,
    grouping_first: Arc<Phase<Vec<RecordBatch>, FirstGroups>>,
    next_list: AtomicUsize,
    selecting: Arc<Phase<Vec<ValueList>, Arc<GroupBy>>>,
    narrowing: Arc<Phase<Option<Vec<Counted>>, Rest>>,
}

/// Groups rows of a table.
type GroupRows = fn(&Arc<dyn TableSource>, GroupRequest) -> Result<Arc<dyn BatchSource>>;

/// What the counts of values lead to.
enum First {
    /// All groups: too many rows have the most frequent values.
    All(Arc<dyn BatchSource>),
    /// The most frequent values.
    Values {
        values: ArrayRef,
        /// Their groups.
        source: Arc<dyn BatchSource>,
        counts: Box<RowCounts>,
    },
}

/// The groups of the most frequent values.
struct FirstGroups {
    /// For the worker that comes first.
    batches: Mutex<Vec<RecordBatch>>,
    /// What has to be read of lists to know which values may have as many rows as the last of these groups counts.
    bound: Option<Bound>,
}

/// What else there is.
enum Rest {
    Nothing,
    /// The groups of other values.
    Others(Arc<dyn BatchSource>),
    /// All groups, those of the most frequent values among them.
    All(Arc<dyn BatchSource>),
}

impl fmt::Debug for Frequent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Frequent").field("request", &self.request).finish_non_exhaustive()
    }
}

impl Frequent {
    /// Prepares the grouping that `request` asks for; reads heads of chunks, but no rows. `None` where all groups have to be found.
    pub(crate) fn new(
        table: &Arc<dyn TableSource>,
        request: &GroupRequest,
        group: GroupRows,
        limits: Limits,
    ) -> Result<Option<Arc<Frequent>>> {
        let Some((count, groups)) = counted(request, limits.groups_max) else { return Ok(None) };
        if table.row_count() < limits.rows_min || !never_fails(table, request)? {
            return Ok(None);
        }
        let Some(key) = key_of_most_values(&**table, &request.group)? else { return Ok(None) };
        let Some(counter) = counter(table, key, request)? else { return Ok(None) };
        let all = GroupBy::of_all(GroupSource::Table(Arc::clone(table)), request.clone(), None)?;
        let reads_key_alone = all.lists.is_some();
        // Rows that other columns decide on are read for this, and again with other columns of theirs: they may be few.
        let decides_alone = counter.lists.as_ref().is_some_and(|lists| counter.filter.reads_only(lists.column));
        if !reads_key_alone && !decides_alone {
            return Ok(None);
        }
        Ok(Some(Arc::new(Frequent {
            table: Arc::clone(table),
            request: request.clone(),
            group,
            limits,
            count,
            groups,
            counter,
            reads_key_alone,
            counting: Arc::default(),
            grouping_first: Arc::default(),
            next_list: AtomicUsize::new(0),
            selecting: Arc::default(),
            narrowing: Arc::default(),
        })))
    }

    fn cancel(&self) -> &Cancel {
        &self.request.cancel
    }

    fn lists(&self) -> &Lists {
        self.counter.lists.as_ref().expect("a counter without lists was not taken")
    }

    /// The groups of the rows that have one of `values`; without those, all.
    fn groups_of(&self, counts: &RowCounts, values: Option<&ArrayRef>) -> Result<Arc<dyn BatchSource>> {
        let condition = values.map(|values| these_values(self.lists().column, values)).transpose()?;
        let mut request = self.request.clone();
        if self.reads_key_alone {
            let source = GroupSource::Table(Arc::clone(&self.table));
            return Ok(GroupBy::of_known(source, request, counts.lists(condition))?);
        }
        request.group.predicates.extend(condition);
        (self.group)(&self.table, request)
    }

    /// The values of the key that most rows have. `None` if a worker failed, which says why itself; below, too.
    fn first(&self) -> Result<Option<Arc<First>>> {
        let lists = self.lists();
        let kind = &self.table.table().columns[lists.column].kind;
        let more = if is_text(&kind.arrow()) { self.limits.texts_frequent } else { self.limits.numbers_frequent };
        let most = self.groups.max(more);
        let len_min = if self.reads_key_alone { most * self.limits.values_per_frequent } else { 0 };
        let read = || PartCounts::read(&self.counter, lists, most, len_min);
        self.counting.run(self.cancel(), read, |parts| {
            let Some(counts) = if_memory_lasts(RowCounts::new(&self.counter, !self.reads_key_alone, parts))? else {
                return Ok(First::All((self.group)(&self.table, self.request.clone())?));
            };
            Ok(match counts.most_frequent(self.groups, self.limits.share)? {
                Some(values) => {
                    let source = self.groups_of(&counts, Some(&values))?;
                    First::Values { values, source, counts: Box::new(counts) }
                }
                None => First::All(self.groups_of(&counts, None)?),
            })
        })
    }

    /// The groups of the most frequent values.
    fn first_groups(&self, source: &Arc<dyn BatchSource>, counts: &RowCounts) -> Result<Option<Arc<FirstGroups>>> {
        let group = || Arc::clone(source).worker().collect::<Result<Vec<_>>>();
        self.grouping_first.run(self.cancel(), group, |batches| {
            let batches: Vec<RecordBatch> = batches.into_iter().flatten().collect();
            let bound = self.bound(&batches)?.and_then(|rows| counts.bound(rows, self.limits));
            Ok(FirstGroups { batches: Mutex::new(batches), bound })
        })
    }

    /// What is left when the groups of the values `first` are there.
    fn rest(&self, first: &ArrayRef, counts: &RowCounts, bound: Option<Bound>) -> Result<Option<Arc<Rest>>> {
        let Some(bound) = bound else {
            return self.narrowing.run(self.cancel(), || Ok(None), |_| Ok(Rest::All(self.groups_of(counts, None)?)));
        };
        let select = || {
            let next_list = || self.next_list.fetch_add(1, Ordering::Relaxed);
            let lists = std::iter::from_fn(|| Some(next_list()).filter(|list| *list < counts.lists_read()));
            lists.map(|list| counts.to_read(list, bound)).collect()
        };
        let put_together = |lists: Vec<Vec<ValueList>>| counts.put_together(lists.into_iter().flatten().collect());
        let Some(all) = self.selecting.run(self.cancel(), select, put_together)? else { return Ok(None) };
        let find = || {
            let groups = GroupBy::worker(&all).map(|groups| counts.may_have_enough(&groups?, bound));
            if_memory_lasts(groups.collect::<Result<Vec<_>>>())
        };
        self.narrowing.run(self.cancel(), find, |found| {
            all.end();
            let others = match found.into_iter().collect::<Option<Vec<_>>>() {
                Some(found) => counts.others(found.concat(), bound, first, self.limits)?,
                None => None,
            };
            Ok(match others {
                Some(others) if others.is_empty() => Rest::Nothing,
                Some(others) => Rest::Others(self.groups_of(counts, Some(&others))?),
                // Reading all but a few values takes longer than reading all.
                None => Rest::All(self.groups_of(counts, None)?),
            })
        })
    }

    /// What the last group counts that matters, if there are as many.
    fn bound(&self, batches: &[RecordBatch]) -> Result<Option<u64>> {
        let mut counts: Vec<i64> = Vec::new();
        for batch in batches {
            let column = batch.column(self.count).as_primitive_opt::<Int64Type>();
            counts.extend(column.ok_or_else(|| Error::internal("a count that is no integer"))?.values());
        }
        if counts.len() < self.groups {
            return Ok(None);
        }
        let (_, bound, _) = counts.select_nth_unstable_by(self.groups - 1, |a, b| b.cmp(a));
        Ok(Some(u64::try_from(*bound).unwrap_or_default()))
    }
}

/// What was made; `None` if there was too little memory for it.
fn if_memory_lasts<T>(made: Result<T>) -> Result<Option<T>> {
    match made {
        Err(error) if error.kind() == ErrorKind::MemoryLimit => Ok(None),
        made => made.map(Some),
    }
}

/// The place of the count that the groups are ordered by, and how many of them matter.
fn counted(request: &GroupRequest, groups_max: usize) -> Option<(usize, usize)> {
    let top = request.top.as_ref().filter(|top| (1..=groups_max).contains(&top.rows))?;
    let order = top.keys.first().filter(|key| key.descending)?;
    let aggregate = request.group.aggregates.get(order.column.checked_sub(request.group.keys.len())?)?;
    let counts = aggregate.function == AggregateFunction::Count && aggregate.of_parts.is_none();
    let is_alone = request.group.always.is_empty() && request.limit.is_none();
    (counts && is_alone).then_some((order.column, top.rows))
}

/// The key with the most values, by one block. `None` if no key is a column that blocks list, or one is a column that is not
/// worth a list: then nearly every row is a group, and the bound is one row.
fn key_of_most_values<'a>(table: &dyn TableSource, group: &'a Group) -> Result<Option<&'a Key>> {
    let Some(block) = table.blocks().iter().find(|block| block.live_rows() > 0) else { return Ok(None) };
    let mut most: Option<(usize, &Key)> = None;
    for key in &group.keys {
        let Expr::Column(column) = key.expr else { continue };
        let head = block.chunk_head(table.table(), column)?.filter(|head| head.has_values());
        let Some(values) = head.and_then(|head| head.distinct()) else { return Ok(None) };
        // Floats that are equal may differ in their bits.
        if !key.kind.is_floating() && most.is_none_or(|(most, _)| most < values) {
            most = Some((values, key));
        }
    }
    Ok(most.map(|(_, key)| key))
}

/// Counts the rows of each value of a key. `None` where lists do not tell.
fn counter(table: &Arc<dyn TableSource>, key: &Key, request: &GroupRequest) -> Result<Option<Arc<GroupBy>>> {
    let predicates = request.group.predicates.clone();
    let count = Aggregate::new(AggregateFunction::Count, None, DataType::Int64);
    let group = Group { predicates, keys: vec![key.clone()], aggregates: vec![count], always: Vec::new() };
    let fields = [&key.kind, &DataType::Int64].map(|kind| Field::new("", kind.clone(), true));
    let schema = Arc::new(Schema::new(fields.to_vec()));
    let request = GroupRequest { group, functions: Vec::new(), schema, top: None, limit: None, ..request.clone() };
    let counter = GroupBy::of_all(GroupSource::Table(Arc::clone(table)), request, None)?;
    Ok(Some(Arc::new(counter)).filter(|counter| counter.lists.is_some()))
}

/// Whether no row and no group can be the cause of an error.
fn never_fails(table: &Arc<dyn TableSource>, request: &GroupRequest) -> Result<bool> {
    let source = GroupSource::Table(Arc::clone(table));
    let facts = Facts { source: Some(&source), functions: &request.functions };
    let is_safe = |expr: Expr| facts.never_fails(expr);
    if !request.group.keys.iter().all(|key| is_safe(key.expr)) {
        return Ok(false);
    }
    for aggregate in &request.group.aggregates {
        let fits = match (aggregate.function, &aggregate.argument) {
            (AggregateFunction::Count | AggregateFunction::Min | AggregateFunction::Max, _) => true,
            (AggregateFunction::Sum | AggregateFunction::Average, Some((_, kind))) if kind.is_floating() => true,
            (AggregateFunction::Sum | AggregateFunction::Average, Some((expr, _))) => match expr {
                Expr::Column(column) => facts.bounds(*column)?.is_some_and(Bounds::total_fits),
                Expr::Function(_) => facts.bounds_of_words(*expr)?.is_some_and(Bounds::total_fits),
            },
            _ => false,
        };
        let reads = aggregate.argument.iter().map(|(expr, _)| *expr).chain(aggregate.filter);
        if !fits || !aggregate.order.is_empty() || !reads.into_iter().all(is_safe) {
            return Ok(false);
        }
    }
    Ok(true)
}

impl BatchSource for Frequent {
    fn schema(&self) -> &SchemaRef {
        &self.request.schema
    }

    fn parallelism(&self) -> usize {
        self.counter.parts().max(1)
    }

    fn worker(self: Arc<Self>) -> Batches {
        let mut worker = Worker { frequent: self, is_prepared: false, first: None, rest: None };
        share(move || worker.next_batch())
    }
}

/// Does its share of each step, then gives groups.
struct Worker {
    frequent: Arc<Frequent>,
    /// Whether all steps before are done.
    is_prepared: bool,
    first: Option<Arc<FirstGroups>>,
    rest: Option<Batches>,
}

impl Worker {
    /// Does its share of all steps but the last. Nothing is left where another worker failed.
    fn prepare(&mut self) -> Result<()> {
        let frequent = &self.frequent;
        let Some(first) = frequent.first()? else { return Ok(()) };
        let (values, source, counts) = match &*first {
            First::All(source) => {
                self.rest = Some(Arc::clone(source).worker());
                return Ok(());
            }
            First::Values { values, source, counts } => (values, source, counts),
        };
        let Some(first) = frequent.first_groups(source, counts)? else { return Ok(()) };
        let Some(rest) = frequent.rest(values, counts, first.bound)? else { return Ok(()) };
        self.rest = match &*rest {
            Rest::Nothing => None,
            Rest::Others(source) | Rest::All(source) => Some(Arc::clone(source).worker()),
        };
        self.first = Some(first).filter(|_| !matches!(*rest, Rest::All(_)));
        Ok(())
    }

    fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        if !self.is_prepared {
            self.prepare()?;
            self.is_prepared = true;
        }
        let first = self.first.as_ref().and_then(|first| first.batches.lock().pop());
        match (first, &mut self.rest) {
            (Some(batch), _) => Ok(Some(batch)),
            (None, Some(rest)) => rest.next().transpose(),
            (None, None) => Ok(None),
        }
    }
}
