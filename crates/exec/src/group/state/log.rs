//! Aggregates that need the values themselves: distinct aggregates, lists, quantiles, and ordered aggregates.
//!
//! A log has one row for each value that counts. The row starts with the number of the value's group. The rows go into
//! partitions together with their groups, in storage of their own. When a partition is merged, the rows of all workers
//! are put together: either each value once per group, or all values in the order of the groups. The aggregates are
//! then computed from slices of the result.
//!
//! ```text
//!   ┌─────────────────┬─────────┬────────────────────────────────────────────────────────────────┐
//!   │ number of group │ repeats │ the value, and those by which it is ordered, laid out as a key │
//!   │     32 bits     │ 32 bits │                          words of 64 bits                      │
//!   └─────────────────┴─────────┴────────────────────────────────────────────────────────────────┘
//! ```
//!
//! A log of distinct values drops a repeated value at once if a small table still remembers it. A log of counted values
//! adds a repeated value to the repeats of the row that the table remembers. All other logs have no repeats. A log that
//! needs only the first value of an order writes only one row per group of a block or batch. A log of sketches has rows
//! only for groups with few values (sketches.rs).

use std::mem::size_of;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, RecordBatch, UInt32Array, new_empty_array};
use arrow::buffer::BooleanBuffer;
use arrow::datatypes::{DataType, Field, Int64Type, Schema};
use arrow::error::ArrowError;
use rowmill_base::{Error, Reservation, Result};
use rowmill_expr::sketch::SketchFunction;
use rowmill_plan::{Aggregate, AggregateOrder, AggregateOrdering, Expr, GroupKey, SortKey};

use super::add::{Grouped, Groups, ROWS_AT_ONCE};
use super::first::{Direction, Firsts, OrderColumn};
use super::registers::{self, FewRegisters, SLOT_BITS, STRIDE, estimates, put, registers};
use super::sketches::{self, ItemRows, LiveSketches, SketchRecipe};
use super::{Finished, States};
use crate::aggregate::{AggregateState, GroupValues, KeptValues, ValuesState, state_of};
use crate::cache::L2_BYTES;
use crate::group::facts::Facts;
use crate::group::index::Index;
use crate::group::key_values::KeyValues;
use crate::group::layout::{GroupLayout, KeyShape, with_shape};
use crate::group::rows::{PartRows, PartValues, take};
use crate::group::texts::{TextStore, is_long};
use crate::hash::mix;
use crate::sort::places_in_groups;

/// Rows that the table of recently met rows remembers: few enough for the second-level cache, because a row and its
/// slots take about 64 bytes. A forgotten row is only written once more.
const ROWS_REMEMBERED: usize = L2_BYTES / 64;

/// Registers that the table of used registers remembers: enough for all those of 16 groups.
const REGISTERS_REMEMBERED: usize = 16 << SLOT_BITS;

/// Rows that skip the lookup once the remembered rows turned out to repeat rarely: sixteen times the remembered ones,
/// so that at most one lookup in seventeen is in vain.
const ROWS_PAST_TABLE: usize = 16 * ROWS_REMEMBERED;

/// A result that is computed from a log.
#[derive(Debug)]
enum LogOutput {
    /// The number of values.
    Count,
    /// The aggregate with this number among the aggregates of distinct values.
    Cells(usize),
    /// The aggregate that a function computes from the values.
    Values { finish: fn(GroupValues<'_>) -> Result<ArrayRef>, parameter: Option<ArrayRef>, kind: DataType },
    /// An estimate of the number of distinct values.
    Estimate,
    /// The sketch of the values.
    Sketch(SketchRecipe),
}

/// Selects the values that stay in a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kept {
    All,
    /// All values; equal ones may share a row, which counts them.
    Counted,
    /// Each distinct value once.
    Distinct,
    /// The first value of each group in the log's order. Of equal values, the one that comes first stays.
    First,
    /// The first value of each group in the log's order. Of equal values, the one that comes last stays.
    LastOfFirst,
    /// No values: the log keeps their HyperLogLog registers (registers.rs).
    Registers,
    /// No values: the log keeps their sketches, or what sketches take (sketches.rs).
    Sketch(SketchRecipe),
}

/// The input of a log. Aggregates with equal `LogReads` share one log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LogReads {
    pub(super) argument: usize,
    /// The arguments by which the values are ordered.
    pub(super) order: Vec<(usize, Direction)>,
    pub(super) mask: Option<usize>,
    pub(super) kept: Kept,
    /// Whether NULLs are values.
    pub(super) takes_nulls: bool,
}

/// One log of a query.
#[derive(Debug)]
pub(in crate::group) struct Log {
    reads: LogReads,
    /// The arguments of the columns, each once.
    held: Vec<usize>,
    pub(in crate::group) layout: GroupLayout,
    kind: DataType,
    outputs: Vec<LogOutput>,
    /// The aggregates over the distinct values of this log.
    distinct_aggregates: Vec<Aggregate>,
    /// The cells of these aggregates; set by [`Log::prepare`].
    states: Option<Box<States>>,
}

/// How an aggregate keeps its values; `None` if cells are enough.
pub(super) fn kept_values(aggregate: &Aggregate) -> Result<Option<Kept>> {
    Ok(match state_of(aggregate.function)? {
        AggregateState::Values(ValuesState { kept: KeptValues::First, .. }) => Some(Kept::First),
        AggregateState::Values(ValuesState { kept: KeptValues::Last, .. }) => Some(Kept::LastOfFirst),
        AggregateState::Values(ValuesState { kept: KeptValues::Registers, .. }) => Some(Kept::Registers),
        AggregateState::Values(ValuesState { kept: KeptValues::All, .. }) if !aggregate.distinct => Some(Kept::All),
        AggregateState::Values(ValuesState { kept: KeptValues::Counted, .. }) if !aggregate.distinct => {
            Some(Kept::Counted)
        }
        AggregateState::Values(_) => Some(Kept::Distinct),
        AggregateState::Sketch(function) if aggregate.distinct && !function.ignores_duplicates => Some(Kept::Distinct),
        AggregateState::Sketch(function) => Some(Kept::Sketch(recipe(aggregate, function)?)),
        _ if aggregate.distinct && !aggregate.function.ignores_duplicates => Some(Kept::Distinct),
        _ => None,
    })
}

/// How an aggregate makes its sketches.
fn recipe(aggregate: &Aggregate, function: &'static SketchFunction) -> Result<SketchRecipe> {
    let size = match &aggregate.parameter {
        None => 0,
        Some(size) => {
            let size = size.as_primitive_opt::<Int64Type>();
            size.ok_or_else(|| Error::internal("the size of a sketch is no BIGINT"))?.value(0)
        }
    };
    Ok(SketchRecipe { function, size })
}

/// Returns the aggregate ordered by its own values, if that is what it needs.
pub(super) fn in_own_order(aggregate: &Aggregate) -> Aggregate {
    let mut aggregate = aggregate.clone();
    if let (AggregateOrdering::OfValues, Some((expr, kind))) = (aggregate.function.ordering, &aggregate.argument) {
        let kind = kind.clone();
        let descending = aggregate.order.first().is_some_and(|order| order.descending);
        aggregate.order = vec![AggregateOrder { expr: *expr, kind, descending, nulls_first: false }];
    }
    aggregate
}

/// The order of an aggregate's values. The last value of an order is the first one of the reversed order.
pub(super) fn order_of(aggregate: &Aggregate, kept: Kept) -> Vec<(Expr, Direction)> {
    if !matches!(aggregate.function.ordering, AggregateOrdering::OfRows | AggregateOrdering::OfValues) {
        return Vec::new();
    }
    let order = aggregate.order.iter().map(|order| {
        let direction = Direction { descending: order.descending, nulls_first: order.nulls_first };
        (order.expr, if kept == Kept::LastOfFirst { direction.reversed() } else { direction })
    });
    order.collect()
}

/// The bits of a row's first word that hold the number of the group. The repeats are above them.
const GROUP_BITS: u32 = u32::BITS;

/// The number of the group that a row of a log belongs to.
#[inline]
pub(in crate::group) fn group_of(row: &[u64]) -> usize {
    row[0] as u32 as usize
}

/// Gives a row of a log to another group.
#[inline]
pub(in crate::group) fn set_group(row: &mut [u64], group: u32) {
    row[0] = row[0] >> GROUP_BITS << GROUP_BITS | u64::from(group);
}

/// How often a row counts.
#[inline]
fn count_of(row: &[u64]) -> u64 {
    (row[0] >> GROUP_BITS) + 1
}

/// Adds the count of `row` to the row `known`, which must have the same value. Returns whether the sum fits.
#[inline]
fn count_in(known: &mut [u64], row: &[u64]) -> bool {
    let sum = count_of(known) + count_of(row);
    let fits = sum <= 1 << (u64::BITS - GROUP_BITS);
    if fits {
        known[0] += count_of(row) << GROUP_BITS;
    }
    fits
}

/// The values of a block or batch in the form that a log takes.
pub(in crate::group) struct Logged<'a> {
    values: KeyValues<'a>,
    /// The columns that decide which value is first, if the log keeps only the first ones.
    order: Vec<OrderColumn>,
    /// The items of sketches, if the log keeps sketches.
    items: Option<PartValues>,
}

impl Log {
    /// Makes a log for `reads`. The `columns` are the value, followed by the expressions that order it.
    pub(super) fn new(reads: LogReads, columns: &[GroupKey]) -> Result<Log> {
        let mut held = vec![reads.argument];
        for (argument, _) in &reads.order {
            if !held.contains(argument) {
                held.push(*argument);
            }
        }
        // The type of the column that is kept in place of the values.
        let kind = match reads.kept {
            Kept::Registers => Some(registers::KIND),
            Kept::Sketch(_) => Some(sketches::KIND),
            _ => None,
        };
        let layout = match kind {
            Some(kind) => GroupLayout::of_values(&[GroupKey { kind, nullable: false, ..columns[0].clone() }])?,
            None => GroupLayout::of_values(columns)?,
        };
        Ok(Log {
            held,
            layout,
            kind: columns[0].kind.clone(),
            reads,
            outputs: Vec::new(),
            distinct_aggregates: Vec::new(),
            states: None,
        })
    }

    /// The input of the log.
    pub(super) fn reads(&self) -> &LogReads {
        &self.reads
    }

    /// The arguments that the log reads, each once.
    pub(super) fn held(&self) -> &[usize] {
        &self.held
    }

    /// Whether the log keeps one value per group.
    fn keeps_first(&self) -> bool {
        matches!(self.reads.kept, Kept::First | Kept::LastOfFirst)
    }

    fn is_distinct(&self) -> bool {
        self.reads.kept == Kept::Distinct
    }

    fn is_counted(&self) -> bool {
        self.reads.kept == Kept::Counted
    }

    /// Adds an aggregate to the results and returns its number.
    pub(super) fn add_output(&mut self, aggregate: &Aggregate) -> Result<usize> {
        self.outputs.push(match state_of(aggregate.function)? {
            AggregateState::Count => LogOutput::Count,
            AggregateState::Values(ValuesState { kept: KeptValues::Registers, .. }) => LogOutput::Estimate,
            AggregateState::Values(ValuesState { finish, .. }) => LogOutput::Values {
                finish: *finish,
                parameter: aggregate.parameter.clone(),
                kind: aggregate.kind.clone(),
            },
            AggregateState::Sketch(function) => LogOutput::Sketch(recipe(aggregate, function)?),
            _ => {
                let argument = Some((Expr::Column(0), self.kind.clone()));
                let of_values = Aggregate { argument, distinct: false, filter: None, ..aggregate.clone() };
                self.distinct_aggregates.push(of_values);
                LogOutput::Cells(self.distinct_aggregates.len() - 1)
            }
        });
        Ok(self.outputs.len() - 1)
    }

    /// The type of an aggregate's result.
    pub(super) fn kind_of(&self, number: usize) -> &DataType {
        match &self.outputs[number] {
            LogOutput::Count => &DataType::Int64,
            LogOutput::Estimate => &DataType::UInt64,
            LogOutput::Sketch(_) => &sketches::KIND,
            LogOutput::Cells(number) => &self.distinct_aggregates[*number].kind,
            LogOutput::Values { kind, .. } => kind,
        }
    }

    /// Makes the cells of the distinct values. The caller must have added all aggregates before.
    pub(super) fn prepare(&mut self) -> Result<()> {
        if !self.distinct_aggregates.is_empty() {
            self.states =
                Some(Box::new(States::new(&self.distinct_aggregates, Facts { source: None, functions: &[] }, false)?));
        }
        Ok(())
    }

    /// Takes the values of a block or batch from its arguments.
    pub(super) fn values(&self, arguments: &[Option<PartValues>], rows: usize) -> Result<Logged<'_>> {
        let of = |argument: usize| {
            arguments[argument].as_ref().ok_or_else(|| Error::internal("a log reads an argument that was not prepared"))
        };
        let held = self.held.iter().map(|argument| match self.reads.kept {
            Kept::Registers => registers(of(*argument)?),
            Kept::Sketch(recipe) => {
                let values = of(*argument)?;
                Ok(PartValues { values: recipe.items(&values.values)?, codes: values.codes.clone(), is_list: false })
            }
            _ => of(*argument).cloned(),
        });
        let held: Vec<PartValues> = held.collect::<Result<_>>()?;
        let items = matches!(self.reads.kept, Kept::Sketch(_)).then(|| held[0].clone());
        let order = self.reads.order.iter().filter(|_| self.keeps_first());
        let order = order.map(|(argument, direction)| OrderColumn::new(of(*argument)?, *direction));
        Ok(Logged {
            values: KeyValues::of_some(&self.layout, &held, rows)?,
            order: order.collect::<Result<_>>()?,
            items,
        })
    }

    /// Whether two rows have the same group and value.
    #[inline]
    fn is_same<S: KeyShape>(
        shape: S,
        left: &[u64],
        right: &[u64],
        is_same_text: impl Fn(usize, u128, u128) -> bool,
    ) -> bool {
        group_of(left) == group_of(right) && shape.is_same(&left[1..], &right[1..], is_same_text)
    }

    /// The hash of a row's group and value.
    #[inline]
    fn hash<S: KeyShape>(shape: S, row: &[u64]) -> u64 {
        mix(shape.hash(&row[1..]) ^ group_of(row) as u64)
    }

    /// Computes the columns of the aggregates for `groups` groups from the rows in `pages`.
    pub(in crate::group) fn finish(
        &self,
        pages: Vec<Vec<u64>>,
        groups: usize,
        texts: &TextStore,
        memory: &mut Reservation,
    ) -> Result<Vec<ArrayRef>> {
        let words: usize = pages.iter().map(Vec::len).sum();
        let rows = words / self.layout.stride;
        memory.grow((words * size_of::<u64>()) as u64)?;
        let values = if self.is_counted() { values_in(&pages, self.layout.stride) } else { rows as u64 };
        // A look-up in a table takes about as long as sorting two rows, so rows are merged if values repeat often.
        let pages = match self.is_distinct() || values >= 2 * (rows as u64).max(1) {
            true => {
                memory.grow(Index::bytes_for(rows))?;
                vec![with_shape!(self.layout.shape, shape => self.each_once(shape, pages, texts))]
            }
            false if self.reads.kept == Kept::Registers => {
                memory.grow(Index::bytes_for(rows))?;
                let (mut index, mut once) = (Index::with_room_for(rows), Vec::with_capacity(words));
                for page in pages {
                    page.chunks_exact(STRIDE).for_each(|row| put(row, &mut once, 0, &mut index));
                }
                vec![once]
            }
            false => pages,
        };
        if self.keeps_first() {
            let column = self.first(&in_one(pages), groups, texts, memory)?;
            return Ok(self.outputs.iter().map(|_| Arc::clone(&column)).collect());
        }
        let starts = self.starts(&pages, groups);
        let is_of = |is: fn(&LogOutput) -> bool| self.outputs.iter().any(is);
        // Counts do not depend on the order of the rows within a group.
        let rows = match is_of(|output| !matches!(output, LogOutput::Count | LogOutput::Cells(_))) {
            true => self.in_order(pages, &starts),
            false => in_one(pages),
        };
        let (column, counts) = match is_of(|output| !matches!(output, LogOutput::Count | LogOutput::Estimate)) {
            true => self.column(&rows, values, &starts, texts, memory)?,
            false => (new_empty_array(&self.kind), None),
        };
        let cells = match &self.states {
            Some(states) => finish_cells(states, &column, &rows, self.layout.stride, (groups, texts))?,
            None => Vec::new(),
        };
        let of = |output: &LogOutput| match output {
            LogOutput::Count => {
                let counts = starts.windows(2).map(|ends| (ends[1] - ends[0]) as i64);
                Ok(Arc::new(Int64Array::from_iter_values(counts)) as ArrayRef)
            }
            LogOutput::Cells(number) => Ok(Arc::clone(&cells[*number])),
            LogOutput::Values { finish, parameter, kind } => {
                let (parameter, counts) = (parameter.as_ref(), counts.as_deref());
                finish(GroupValues { column: &column, counts, starts: &starts, parameter, kind, memory: &mut *memory })
            }
            LogOutput::Estimate => Ok(estimates(&rows, &starts)),
            LogOutput::Sketch(recipe) => {
                // Distinct values are kept as they are.
                let items = if self.is_distinct() { recipe.items(&column)? } else { Arc::clone(&column) };
                recipe.sketches(&items, &starts, memory)
            }
        };
        self.outputs.iter().map(of).collect()
    }

    /// The values of the rows, ordered by group and within a group by the log's order, and how often each of them
    /// counts if that is not once for all. The rows stand for `values` values together.
    fn column(
        &self,
        rows: &[u64],
        values: u64,
        starts: &[usize],
        texts: &TextStore,
        memory: &mut Reservation,
    ) -> Result<(ArrayRef, Option<Vec<u64>>)> {
        let mut columns = self.layout.keys(rows, texts, &[])?;
        let rows_of = || rows.chunks_exact(self.layout.stride);
        let has_repeats = self.is_counted() && values > rows_of().len() as u64;
        if has_repeats {
            memory.grow((columns[0].len() * size_of::<u64>()) as u64)?;
        }
        let counts: Option<Vec<u64>> = has_repeats.then(|| rows_of().map(count_of).collect());
        if self.reads.order.is_empty() {
            return Ok((columns.swap_remove(0), counts));
        }
        let sort_key = |(column, (_, direction)): (usize, &(usize, Direction))| SortKey {
            column: column + 1,
            descending: direction.descending,
            nulls_first: direction.nulls_first,
        };
        let keys: Vec<SortKey> = self.reads.order.iter().enumerate().map(sort_key).collect();
        let places = places_in_groups(&columns, &keys, starts, memory)?;
        let counts = counts.map(|counts| places.iter().map(|place| counts[*place as usize]).collect());
        Ok((take(&columns[0], &places)?, counts))
    }

    /// The value of each group that comes first in the log's order.
    fn first(&self, rows: &[u64], groups: usize, texts: &TextStore, memory: &mut Reservation) -> Result<ArrayRef> {
        let columns = self.layout.keys(rows, texts, &[])?;
        let of = |((_, direction), values): (&(usize, Direction), &ArrayRef)| {
            OrderColumn::new(&PartValues { values: Arc::clone(values), codes: None, is_list: false }, *direction)
        };
        let order = self.reads.order.iter().zip(&columns[1..]).map(of).collect::<Result<Vec<_>>>()?;
        let rows = rows.chunks_exact(self.layout.stride).enumerate();
        let rows = rows.map(|(place, row)| (place as u32, group_of(row) as u32));
        memory.grow(Firsts::bytes_for(order.len(), rows.len(), groups))?;
        let mut places = vec![None; groups];
        for (place, group) in Firsts::default().find(&order, self.reads.kept == Kept::LastOfFirst, rows, groups) {
            places[group as usize] = Some(place);
        }
        arrow::compute::take(&columns[0], &UInt32Array::from(places), None).map_err(failed)
    }

    /// The rows without duplicates: each group and value once. Rows that count add up.
    fn each_once<S: KeyShape>(&self, shape: S, pages: Vec<Vec<u64>>, texts: &TextStore) -> Vec<u64> {
        let stride = self.layout.stride;
        let words = pages.iter().map(Vec::len).sum();
        let mut index = Index::with_room_for(words / stride);
        let mut once: Vec<u64> = Vec::with_capacity(words);
        // Rows whose count does not fit in the row with the same value. The index does not number them.
        let mut beyond: Vec<u64> = Vec::new();
        for page in pages {
            for row in page.chunks_exact(stride) {
                let found = index.find(Log::hash(shape, row), |number| {
                    let other = &once[number as usize * stride..];
                    Log::is_same(shape, other, row, |_, held, view| texts.is_same(held, view))
                });
                match found {
                    None => once.extend_from_slice(row),
                    Some(number) if self.is_counted() && !count_in(&mut once[number as usize * stride..], row) => {
                        beyond.extend_from_slice(row);
                    }
                    Some(_) => {}
                }
            }
        }
        once.append(&mut beyond);
        once
    }

    /// The rows of all pages in the order of their groups. This is a counting sort: `starts` says where each group
    /// begins.
    fn in_order(&self, pages: Vec<Vec<u64>>, starts: &[usize]) -> Vec<u64> {
        let stride = self.layout.stride;
        if pages.iter().flat_map(|page| page.chunks_exact(stride)).is_sorted_by_key(group_of) {
            return in_one(pages);
        }
        let mut places = starts.to_vec();
        let mut sorted = vec![0; pages.iter().map(Vec::len).sum()];
        // Each page is freed as soon as its rows are in their places.
        for page in pages {
            for row in page.chunks_exact(stride) {
                let place = &mut places[group_of(row)];
                sorted[*place * stride..][..stride].copy_from_slice(row);
                *place += 1;
            }
        }
        sorted
    }

    /// Where the rows of each group start once they are in order. The last entry is the end of the last group.
    fn starts(&self, pages: &[Vec<u64>], groups: usize) -> Vec<usize> {
        let mut starts = vec![0; groups + 1];
        let rows = pages.iter().flat_map(|page| page.chunks_exact(self.layout.stride));
        rows.for_each(|row| starts[group_of(row) + 1] += 1);
        (0..groups).for_each(|group| starts[group + 1] += starts[group]);
        starts
    }
}

/// The number of values that the rows of all pages stand for.
fn values_in(pages: &[Vec<u64>], stride: usize) -> u64 {
    pages.iter().flat_map(|page| page.chunks_exact(stride)).map(count_of).sum()
}

/// The rows of all pages, one page after the other.
fn in_one(mut pages: Vec<Vec<u64>>) -> Vec<u64> {
    match pages.len() {
        1 => pages.swap_remove(0),
        _ => pages.concat(),
    }
}

/// Computes the aggregates over the distinct values, which are the rows of a log without duplicates.
fn finish_cells(
    states: &States,
    column: &ArrayRef,
    rows: &[u64],
    stride: usize,
    (groups, texts): (usize, &TextStore),
) -> Result<Vec<ArrayRef>> {
    let schema = Arc::new(Schema::new(vec![Field::new("value", column.data_type().clone(), true)]));
    let batch = RecordBatch::try_new(schema, vec![Arc::clone(column)]).map_err(failed)?;
    let inputs = states.inputs(&PartRows::of_batch(&[], &batch), 0..states.parts())?;
    let of_rows: Vec<u32> = rows.chunks_exact(stride).map(|row| group_of(row) as u32).collect();
    let grouped = Grouped { rows: 0..column.len(), groups: Some(&of_rows), weights: None };
    let stride = states.initial().len();
    let mut words: Vec<u64> = std::iter::repeat_n(states.initial(), groups).flatten().copied().collect();
    let mut groups = Groups { words: &mut words, stride, at: 0 };
    states.cells.iter().try_for_each(|cell| states.add_numbers(cell, &inputs, &grouped, &mut groups))?;
    states.finish(Finished { rows: &words, stride, at: 0 }, &[], texts)
}

fn failed(error: ArrowError) -> Error {
    Error::internal(format!("the values of groups: {error}"))
}

/// The rows of a log that are not in partitions yet.
#[derive(Debug)]
pub(in crate::group) struct LogRows {
    rows: Vec<u64>,
    /// Finds the rows from `first_remembered` on.
    index: Index,
    first_remembered: usize,
    /// Rows that were looked up since then.
    looked_up: usize,
    /// Rows that should still skip the lookup.
    past_table: usize,
    chunk: Vec<u64>,
    firsts: Firsts,
    live: LiveSketches,
    /// The registers of a log that keeps them, if the groups are few.
    few_registers: FewRegisters,
    /// Whether there is room in them for the groups of the present rows.
    has_few_registers: bool,
    memory: Reservation,
}

impl LogRows {
    pub(super) fn new(memory: Reservation) -> LogRows {
        LogRows {
            rows: Vec::new(),
            index: Index::with_room_for(0),
            first_remembered: 0,
            looked_up: 0,
            past_table: 0,
            chunk: Vec::new(),
            firsts: Firsts::default(),
            live: LiveSketches::new(memory.another()),
            few_registers: FewRegisters::default(),
            has_few_registers: false,
            memory,
        }
    }

    /// The rows.
    pub(in crate::group) fn rows(&self) -> &[u64] {
        &self.rows
    }

    /// Takes the rows out of the log. Their memory stays with it.
    pub(in crate::group) fn take_rows(&mut self) -> Vec<u64> {
        let rows = std::mem::take(&mut self.rows);
        self.clear();
        rows
    }

    /// Brings everything that the log keeps into its rows.
    pub(in crate::group) fn settle(&mut self, log: &Log, texts: &mut TextStore) -> Result<()> {
        match log.reads.kept {
            Kept::Sketch(recipe) => self.live.settle(&recipe, &log.layout, &mut self.rows, (texts, &mut self.memory)),
            Kept::Registers => {
                self.reserve(self.few_registers.used() * STRIDE)?;
                self.few_registers.drain_to(&mut self.rows);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Makes room for `words` more words. We reserve a power of two and account for it before allocating, so that the
    /// broker can refuse the memory.
    fn reserve(&mut self, words: usize) -> Result<()> {
        let needed = self.rows.len() + words;
        if needed > self.rows.capacity() {
            let room = needed.next_power_of_two();
            self.memory.grow(((room - self.rows.capacity()) * size_of::<u64>()) as u64)?;
            self.rows.reserve_exact(room - self.rows.len());
        }
        Ok(())
    }

    /// Removes all rows.
    pub(in crate::group) fn clear(&mut self) {
        self.rows.clear();
        self.live.clear();
        self.forget();
    }

    fn forget(&mut self) {
        self.index.clear();
        (self.first_remembered, self.looked_up) = (self.rows.len(), 0);
    }

    /// Adds the values of the rows in the mask, which belong to `groups` groups.
    pub(super) fn add(
        &mut self,
        log: &Log,
        Logged { values, order, items }: &Logged<'_>,
        mask: Option<&BooleanBuffer>,
        rows: &Grouped<'_>,
        groups: usize,
        texts: &mut TextStore,
    ) -> Result<()> {
        let start = rows.rows.start;
        let of_mask = |mask: &BooleanBuffer| -> Vec<usize> {
            mask.slice(start, rows.rows.len()).set_indices().map(|row| start + row).collect()
        };
        let places: Vec<usize> = match (mask, rows.weights) {
            (None, _) if log.keeps_first() => self.firsts(log, order, rows.rows.clone(), rows, groups)?,
            (Some(mask), _) if log.keeps_first() => self.firsts(log, order, of_mask(mask).into_iter(), rows, groups)?,
            // A value of a value list stays once for each row that it represents. Distinct values need no copies.
            (_, Some(weights)) if log.reads.kept == Kept::All => {
                let places = mask.map_or_else(|| rows.rows.clone().collect(), of_mask);
                let each = |place: usize| std::iter::repeat_n(place, weights[place] as usize);
                places.into_iter().flat_map(each).collect()
            }
            // A count of zero cannot be written, and a value without rows is none.
            (_, Some(weights)) if log.is_counted() => {
                let places = mask.map_or_else(|| rows.rows.clone().collect(), of_mask);
                places.into_iter().filter(|place| weights[*place] > 0).collect()
            }
            _ => mask.map_or_else(|| rows.rows.clone().collect(), of_mask),
        };
        if let (Kept::Sketch(recipe), Some(items)) = (log.reads.kept, items) {
            let items = ItemRows::new(items, rows, &recipe)?;
            return self.add_to_sketches(log, &recipe, (values, &items), &places, rows, texts);
        }
        if log.reads.kept == Kept::Registers {
            self.has_few_registers = self.few_registers.make_room(groups, places.len(), &mut self.memory)?;
        }
        places.chunks(ROWS_AT_ONCE).try_for_each(|places| self.write(log, values, places, rows, texts))
    }

    /// The first row of each group among those at `places`, which ascend.
    fn firsts(
        &mut self,
        log: &Log,
        order: &[OrderColumn],
        places: impl ExactSizeIterator<Item = usize> + Clone,
        rows: &Grouped<'_>,
        groups: usize,
    ) -> Result<Vec<usize>> {
        let needed = Firsts::bytes_for(order.len(), places.len(), groups);
        self.memory.grow(needed.saturating_sub(self.firsts.bytes()))?;
        let latest = log.reads.kept == Kept::LastOfFirst;
        let start = rows.rows.start;
        let taken = |(place, _): (u32, u32)| place as usize;
        Ok(match rows.groups {
            None => self.firsts.find(order, latest, places.map(|place| (place as u32, 0)), groups).map(taken).collect(),
            Some(of_rows) => {
                let all = places.map(|place| (place as u32, of_rows[place - start]));
                self.firsts.find(order, latest, all, groups).map(taken).collect()
            }
        })
    }

    /// Adds values to the sketches of their groups, or writes rows where groups have none yet.
    fn add_to_sketches(
        &mut self,
        log: &Log,
        recipe: &SketchRecipe,
        (values, items): (&KeyValues<'_>, &ItemRows<'_>),
        places: &[usize],
        rows: &Grouped<'_>,
        texts: &mut TextStore,
    ) -> Result<()> {
        if rows.groups.is_none() {
            return self.live.take_all(recipe, items, places);
        }
        for places in places.chunks(ROWS_AT_ONCE) {
            let left = self.live.take(recipe, items, places)?;
            self.write(log, values, &left, rows, texts)?;
            self.live.fold(recipe, &log.layout, &mut self.rows, texts)?;
        }
        Ok(())
    }

    /// Writes rows for the values at `places`.
    fn write(
        &mut self,
        log: &Log,
        values: &KeyValues<'_>,
        places: &[usize],
        rows: &Grouped<'_>,
        texts: &mut TextStore,
    ) -> Result<()> {
        if places.is_empty() {
            return Ok(());
        }
        let mut chunk = std::mem::take(&mut self.chunk);
        chunk.clear();
        chunk.resize(places.len() * log.layout.stride, 0);
        values.write(places.iter().copied(), &mut chunk);
        if let Some(groups) = rows.groups {
            for (row, place) in chunk.chunks_exact_mut(log.layout.stride).zip(places) {
                row[0] = groups[place - rows.rows.start].into();
            }
        }
        // A value of a value list is one row, which counts the rows of the block that have it.
        if let (Some(weights), true) = (rows.weights, log.is_counted()) {
            for (row, place) in chunk.chunks_exact_mut(log.layout.stride).zip(places) {
                row[0] |= (weights[*place] - 1) << GROUP_BITS;
            }
        }
        let taken = self.take(log, values, &mut chunk, texts);
        self.chunk = chunk;
        taken
    }

    fn take(&mut self, log: &Log, values: &KeyValues<'_>, chunk: &mut [u64], texts: &mut TextStore) -> Result<()> {
        let rows = chunk.len() / log.layout.stride;
        if log.reads.kept == Kept::Registers && self.has_few_registers {
            self.few_registers.put(chunk);
            return Ok(());
        }
        self.reserve(chunk.len())?;
        if log.reads.kept == Kept::Registers {
            return self.take_registers(chunk);
        }
        // Either all values stay, or the table did not pay lately. The merge drops duplicates later.
        if !(log.is_distinct() || log.is_counted()) || self.past_table > 0 {
            self.past_table = self.past_table.saturating_sub(rows);
            values.settle(chunk, texts)?;
            self.rows.extend_from_slice(chunk);
            return Ok(());
        }
        if self.index.room() < ROWS_REMEMBERED {
            self.memory.grow(Index::bytes_for(ROWS_REMEMBERED))?;
            self.index = Index::with_room_for(ROWS_REMEMBERED);
        }
        let remembered = (self.rows.len() - self.first_remembered) / log.layout.stride;
        if remembered + rows > self.index.room() {
            // Fewer than half of the lookups found a known value: the table does not pay, so skip it for a while.
            if self.looked_up < remembered * 2 {
                self.past_table = ROWS_PAST_TABLE;
            }
            self.forget();
        }
        self.looked_up += rows;
        with_shape!(log.layout.shape, shape => self.take_new(shape, log, values, chunk, texts))
    }

    /// Adds rows of registers. A row merges into the remembered row of its register, if there is one.
    fn take_registers(&mut self, chunk: &[u64]) -> Result<()> {
        let (rows, remembered) = (chunk.len() / STRIDE, (self.rows.len() - self.first_remembered) / STRIDE);
        let room = self.index.room();
        if remembered + rows > room && room >= REGISTERS_REMEMBERED {
            self.forget();
        } else if remembered + rows > room {
            let more = (room * 4).clamp(ROWS_REMEMBERED, REGISTERS_REMEMBERED);
            self.memory.grow(Index::bytes_for(more))?;
            let known = &self.rows[self.first_remembered..];
            self.index.grow(more, |number| registers::hash(&known[number as usize * STRIDE..]));
        }
        let (rows, index) = (&mut self.rows, &mut self.index);
        chunk.chunks_exact(STRIDE).for_each(|row| put(row, rows, self.first_remembered, index));
        Ok(())
    }

    /// Appends the rows of `chunk` that the table does not remember, and counts the others in a log that counts.
    fn take_new<S: KeyShape>(
        &mut self,
        shape: S,
        log: &Log,
        values: &KeyValues<'_>,
        chunk: &[u64],
        texts: &mut TextStore,
    ) -> Result<()> {
        let (stride, counts) = (log.layout.stride, log.is_counted());
        for row in chunk.chunks_exact(stride) {
            let remembered = &self.rows[self.first_remembered..];
            let hash = Log::hash(shape, row);
            let found = self.index.find(hash, |number| {
                Log::is_same(shape, &remembered[number as usize * stride..], row, |text, held, view| {
                    // The low halves have length and mark. If those differ or the text is inline, the views alone
                    // decide.
                    if held as u64 != view as u64 || !is_long(view) {
                        return held == view;
                    }
                    values.bytes(text, view, &mut [0; 16]) == texts.bytes(held, &mut [0; 16])
                })
            });
            let is_new = match found {
                Some(number) if counts => {
                    let known = &mut self.rows[self.first_remembered + number as usize * stride..];
                    // If the count of a row is full, another row of the value begins, which the table then remembers.
                    let is_full = !count_in(known, row);
                    if is_full {
                        self.forget();
                        self.index.find(hash, |_| false);
                    }
                    is_full
                }
                found => found.is_none(),
            };
            if is_new {
                let at = self.rows.len();
                self.rows.extend_from_slice(row);
                values.settle(&mut self.rows[at..], texts)?;
            }
        }
        Ok(())
    }
}
