//! ORDER BY a count with a LIMIT above a grouping. Finds the groups of only those values of one key that enough rows
//! have.
//!
//! ```text
//!   count   a worker takes a block and finds the most frequent values of the key in it (list_counts.rs); the counts of
//!           all blocks are added up (row_counts.rs)
//!   first   the groups of the most frequent values, up to the limit; the smallest count among them is a bound
//!   narrow  the other values that may have enough rows, by the least and greatest count that each block allows: a
//!           worker takes the parts of lists that matter, and then a range of their values
//!   rest    the groups of these other values; mostly there are none
//! ```
//!
//! A group cannot count more rows than it has, nor have more rows than the value of any of its keys. So every value of
//! a group among the first must have at least as many rows as the last of the first groups counts. Where a few values
//! have many more rows than the others, we need not read anything of the others. Blocks list the values of the key with
//! their rows, so the counts are known without reading a row. If a filter on other columns selects the rows, the codes
//! of the selected rows are counted; we do that only if nothing but the key is read, because then the groups come from
//! these counts too.
//!
//! Groups that are left out are not computed, so their errors would be lost. We therefore use this only where no
//! computation can fail. It needs little memory; if even that is missing, all rows are grouped.

mod list_counts;
mod row_counts;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::{DataType, Field, Int64Type, Schema, SchemaRef};
use parking_lot::Mutex;
use rowmill_base::{Cancel, Error, ErrorKind, Result};
use rowmill_plan::{Aggregate, AggregateRole, Expr, Group, GroupKey};
use rowmill_storage::TableSource;

use self::list_counts::{CountedValues, PartCounts};
pub(super) use self::row_counts::these_values;
use self::row_counts::{CountBound, ValueRowCounts};
use super::facts::{Bounds, Facts};
use super::texts::is_text;
use super::value_list::ValueList;
use super::{GroupBy, GroupRequest, GroupSource, Lists};
use crate::aggregate::named;
use crate::batch::{BatchSource, Batches};
use crate::forced::forced;
use crate::phase::Phase;
use crate::share::share;

/// Limits that decide whether each step is worth its time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// With fewer rows than this, grouping them takes less time than counting their values.
    pub(super) rows_min: u64,
    /// The groups of the most frequent values must take at most one part in this number of the time that all groups
    /// take.
    pub(super) share: u64,
    /// With more groups than this, the smallest kept count is too low to prune anything, so we do not count.
    pub(super) groups_max: usize,
    /// Values of each list whose rows are added up to find the most frequent values of all lists: of numbers, and of
    /// texts.
    pub(super) numbers_frequent: usize,
    pub(super) texts_frequent: usize,
    /// A list with fewer values per wanted value than this is not read ahead, because most of it would be read. This
    /// holds only where rows need not be read.
    pub(super) values_per_frequent: usize,
    /// Places in lists whose values are read: as long as that costs next to nothing, and at most. For numbers and for
    /// texts, which take longer.
    pub(super) numbers_read: (usize, usize),
    pub(super) texts_read: (usize, usize),
    /// Above these limits, at most one place is read for this number of rows, because that takes less time than
    /// grouping the rows.
    pub(super) numbers_share: u64,
    /// Values that are searched in all lists.
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
    /// Finds the groups of some of the rows.
    group: GroupRows,
    limits: Limits,
    /// The column of the count that orders groups in the result, and the number of groups that matter.
    count: usize,
    groups: usize,
    /// Groups all rows by the key alone.
    counter: Arc<GroupBy>,
    /// Whether groups read nothing but the key.
    reads_key_alone: bool,
    counting: Arc<Phase<PartCounts, CountingResult>>,
    grouping_first: Arc<Phase<Vec<RecordBatch>, FirstGroups>>,
    next_list: AtomicUsize,
    selecting: Arc<Phase<Vec<ValueList>, Arc<GroupBy>>>,
    narrowing: Arc<Phase<Option<Vec<CountedValues>>, OtherValues>>,
}

/// Groups rows of a table.
type GroupRows = fn(&Arc<dyn TableSource>, GroupRequest) -> Result<Arc<dyn BatchSource>>;

/// The result of counting the values.
enum CountingResult {
    /// All groups, because too many rows have the most frequent values.
    All(Arc<dyn BatchSource>),
    /// The most frequent values.
    Values {
        values: ArrayRef,
        /// Their groups.
        source: Arc<dyn BatchSource>,
        counts: Box<ValueRowCounts>,
    },
}

/// The groups of the most frequent values.
struct FirstGroups {
    /// Taken by the first worker that asks.
    batches: Mutex<Vec<RecordBatch>>,
    /// Says how much of the lists must be read to find the other values that may have as many rows as the last of these
    /// groups counts.
    bound: Option<CountBound>,
}

/// The groups that remain after the first ones.
enum OtherValues {
    Nothing,
    /// The groups of other values.
    Others(Arc<dyn BatchSource>),
    /// All groups, including those of the most frequent values.
    All(Arc<dyn BatchSource>),
}

impl fmt::Debug for Frequent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Frequent").field("request", &self.request).finish_non_exhaustive()
    }
}

impl Frequent {
    /// Prepares the grouping that `request` asks for. Reads heads of chunks, but no rows. `None` if all groups must be
    /// found.
    pub(crate) fn new(
        table: &Arc<dyn TableSource>,
        request: &GroupRequest,
        group: GroupRows,
        limits: Limits,
    ) -> Result<Option<Arc<Frequent>>> {
        let Some((count, groups)) = counted(request, limits.groups_max) else { return Ok(None) };
        // Groups that we skip could have failed, so nothing that is computed may fail.
        if table.row_count() < limits.rows_min || !never_fails(table, request)? {
            return Ok(None);
        }
        let Some(key) = key_of_most_values(&**table, &request.group)? else { return Ok(None) };
        let Some(counter) = counter(table, key, request)?.filter(|counter| !counter.filter.can_fail()) else {
            return Ok(None);
        };
        let all = GroupBy::of_all(GroupSource::Table(Arc::clone(table)), request.clone(), None)?;
        let reads_key_alone = all.lists.is_some();
        // A filter on other columns reads their rows here and again for the groups, and it may leave only few rows.
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

    /// The groups of the rows that have one of `values`, or of all rows if there are none.
    fn groups_of(&self, counts: &ValueRowCounts, values: Option<&ArrayRef>) -> Result<Arc<dyn BatchSource>> {
        let condition = values.map(|values| these_values(self.lists().column, values)).transpose()?;
        let mut request = self.request.clone();
        if self.reads_key_alone {
            let source = GroupSource::Table(Arc::clone(&self.table));
            return Ok(GroupBy::of_known(source, request, counts.lists(condition)?)?);
        }
        request.group.predicates.extend(condition);
        (self.group)(&self.table, request)
    }

    /// Counts the values of the key and finds the most frequent ones. `None` if another worker failed, which reports
    /// the error itself.
    fn first(&self) -> Result<Option<Arc<CountingResult>>> {
        let lists = self.lists();
        let kind = &self.table.table().columns[lists.column].kind;
        let more = if is_text(&kind.arrow()) { self.limits.texts_frequent } else { self.limits.numbers_frequent };
        let most = self.groups.max(more);
        let len_min = if self.reads_key_alone { most * self.limits.values_per_frequent } else { 0 };
        let read = || PartCounts::read(&self.counter, lists, most, len_min);
        self.counting.run(self.cancel(), read, |parts| {
            // Without memory for the counts, group all rows instead of failing.
            let Some(counts) = if_memory_lasts(ValueRowCounts::new(&self.counter, !self.reads_key_alone, parts))?
            else {
                return Ok(CountingResult::All((self.group)(&self.table, self.request.clone())?));
            };
            Ok(match counts.most_frequent(self.groups, self.limits.share)? {
                Some(values) => {
                    let source = self.groups_of(&counts, Some(&values))?;
                    CountingResult::Values { values, source, counts: Box::new(counts) }
                }
                None => CountingResult::All(self.groups_of(&counts, None)?),
            })
        })
    }

    /// The groups of the most frequent values. `None` if another worker failed.
    fn first_groups(&self, source: &Arc<dyn BatchSource>, counts: &ValueRowCounts) -> Result<Option<Arc<FirstGroups>>> {
        let group = || Arc::clone(source).worker().collect::<Result<Vec<_>>>();
        self.grouping_first.run(self.cancel(), group, |batches| {
            let batches: Vec<RecordBatch> = batches.into_iter().flatten().collect();
            let bound = self.bound(&batches)?.and_then(|rows| counts.bound(rows, self.limits));
            Ok(FirstGroups { batches: Mutex::new(batches), bound })
        })
    }

    /// Finds the groups that remain after those of the values `first`. `None` if another worker failed.
    fn rest(
        &self,
        first: &ArrayRef,
        counts: &ValueRowCounts,
        bound: Option<CountBound>,
    ) -> Result<Option<Arc<OtherValues>>> {
        let Some(bound) = bound else {
            return self.narrowing.run(
                self.cancel(),
                || Ok(None),
                |_| Ok(OtherValues::All(self.groups_of(counts, None)?)),
            );
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
            // All workers must be done with the shared grouping here, so we can free its memory before the next step.
            all.end();
            let others = match found.into_iter().collect::<Option<Vec<_>>>() {
                Some(found) => counts.others(found.concat(), bound, first, self.limits)?,
                None => None,
            };
            Ok(match others {
                Some(others) if others.is_empty() => OtherValues::Nothing,
                Some(others) => OtherValues::Others(self.groups_of(counts, Some(&others))?),
                // Reading all but a few values takes longer than reading all.
                None => OtherValues::All(self.groups_of(counts, None)?),
            })
        })
    }

    /// The count of the last group that matters; `None` if fewer groups were found.
    fn bound(&self, batches: &[RecordBatch]) -> Result<Option<u64>> {
        let mut counts: Vec<i64> = Vec::new();
        for batch in batches {
            let column = batch.column(self.count).as_primitive_opt::<Int64Type>();
            counts.extend(column.ok_or_else(|| Error::internal("a count must be a 64-bit integer"))?.values());
        }
        if counts.len() < self.groups {
            return Ok(None);
        }
        // Another group must reach the count at this rank to be among the first.
        let (_, bound, _) = counts.select_nth_unstable_by(self.groups - 1, |a, b| b.cmp(a));
        Ok(Some(u64::try_from(*bound).unwrap_or_default()))
    }
}

/// Turns the error for lack of memory into `None`.
fn if_memory_lasts<T>(made: Result<T>) -> Result<Option<T>> {
    match made {
        Err(error) if error.kind() == ErrorKind::MemoryLimit => Ok(None),
        made => made.map(Some),
    }
}

/// The column of the count that orders the groups, and the number of groups that matter.
fn counted(request: &GroupRequest, groups_max: usize) -> Option<(usize, usize)> {
    let top = request.top.as_ref().filter(|top| (1..=groups_max).contains(&top.rows))?;
    let order = top.keys.first().filter(|key| key.descending)?;
    let aggregate = request.group.aggregates.get(order.column.checked_sub(request.group.keys.len())?)?;
    let counts = aggregate.function.is_count() && aggregate.of_parts.is_none();
    let is_alone = request.group.always.is_empty() && request.limit.is_none();
    (counts && is_alone).then_some((order.column, top.rows))
}

/// The key with the most values, judged by one block. `None` if blocks list no key column, or if some key column is not
/// worth a list: then nearly every row is a group, and the bound would be one row.
fn key_of_most_values<'a>(table: &dyn TableSource, group: &'a Group) -> Result<Option<&'a GroupKey>> {
    let Some(block) = table.blocks().iter().find(|block| block.live_rows() > 0) else { return Ok(None) };
    let mut most: Option<(usize, &GroupKey)> = None;
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

/// Makes the grouping that counts the rows of each value of a key. `None` if lists cannot tell.
fn counter(table: &Arc<dyn TableSource>, key: &GroupKey, request: &GroupRequest) -> Result<Option<Arc<GroupBy>>> {
    let predicates = request.group.predicates.clone();
    let count = Aggregate::new(named("count"), None, DataType::Int64);
    let group = Group { predicates, keys: vec![key.clone()], aggregates: vec![count], always: Vec::new() };
    let fields = [&key.kind, &DataType::Int64].map(|kind| Field::new("", kind.clone(), true));
    let schema = Arc::new(Schema::new(fields.to_vec()));
    let request = GroupRequest { group, functions: Vec::new(), schema, top: None, limit: None, ..request.clone() };
    let counter = GroupBy::of_all(GroupSource::Table(Arc::clone(table)), request, None)?;
    Ok(Some(Arc::new(counter)).filter(|counter| counter.lists.is_some()))
}

/// Whether no row and no group can cause an error.
fn never_fails(table: &Arc<dyn TableSource>, request: &GroupRequest) -> Result<bool> {
    let source = GroupSource::Table(Arc::clone(table));
    let facts = Facts { source: Some(&source), functions: &request.functions };
    let is_safe = |expr: Expr| facts.never_fails(expr);
    if !request.group.keys.iter().all(|key| is_safe(key.expr)) {
        return Ok(false);
    }
    for aggregate in &request.group.aggregates {
        let fits = match (aggregate.function.role, &aggregate.argument) {
            (AggregateRole::Count | AggregateRole::Min | AggregateRole::Max, _) => true,
            (AggregateRole::Sum | AggregateRole::Average, Some((_, kind))) if kind.is_floating() => true,
            (AggregateRole::Sum | AggregateRole::Average, Some((expr, _))) => match expr {
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
        let mut worker = FrequentWorker { frequent: self, is_prepared: false, first: None, rest: None };
        share(move || worker.next_batch())
    }
}

/// Takes part in each step, then returns groups.
struct FrequentWorker {
    frequent: Arc<Frequent>,
    /// Whether all earlier steps are done.
    is_prepared: bool,
    first: Option<Arc<FirstGroups>>,
    rest: Option<Batches>,
}

impl FrequentWorker {
    /// Takes part in all steps but the last. Leaves nothing to return if another worker failed.
    fn prepare(&mut self) -> Result<()> {
        let frequent = &self.frequent;
        let Some(first) = frequent.first()? else { return Ok(()) };
        let (values, source, counts) = match &*first {
            CountingResult::All(source) => {
                self.rest = Some(Arc::clone(source).worker());
                return Ok(());
            }
            CountingResult::Values { values, source, counts } => (values, source, counts),
        };
        let Some(first) = frequent.first_groups(source, counts)? else { return Ok(()) };
        let Some(rest) = frequent.rest(values, counts, first.bound)? else { return Ok(()) };
        self.rest = match &*rest {
            OtherValues::Nothing => None,
            OtherValues::Others(source) | OtherValues::All(source) => Some(Arc::clone(source).worker()),
        };
        // If all groups are found again, the first ones must not be returned twice.
        self.first = Some(first).filter(|_| !matches!(*rest, OtherValues::All(_)));
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
