//! Aggregates that need the values themselves: distinct ones, lists, quantiles.
//!
//! A log has a row for each value that counts, behind the number of its group. The rows go into partitions with their
//! groups, in storage of their own. There, those of all workers are put together: each value once per group, or all of
//! them in the order of the groups; and the aggregates are computed of slices of that.
//!
//! ```text
//!   ┌─────────────────┬────────────────────────────────────┐
//!   │ number of group │ the value, laid out as a key is    │
//!   └─────────────────┴────────────────────────────────────┘
//! ```
//!
//! Distinct values that come again soon are left out at once, as far as a small table remembers them.

use std::mem::size_of;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, ListArray, RecordBatch, StringViewBuilder, new_empty_array};
use arrow::buffer::{BooleanBuffer, NullBuffer, OffsetBuffer};
use arrow::datatypes::{DataType, Field, Float64Type, Schema};
use arrow::error::ArrowError;
use rowmill_base::{Error, ErrorKind, Reservation, Result};
use rowmill_plan::{Aggregate, AggregateFunction, Expr};

use super::add::{Grouped, Groups};
use super::middle::{median, quantile};
use super::{Finished, States};
use crate::group::facts::Facts;
use crate::group::index::Index;
use crate::group::key_values::KeyValues;
use crate::group::layout::{KeyShape, Layout, with_shape};
use crate::group::rows::{Rows, Values};
use crate::group::texts::{TextStore, is_long};
use crate::hash::mix;

/// Rows that are written at once.
const ROWS_AT_ONCE: usize = 1 << 10;

/// Rows of which a small table remembers that they were met.
const ROWS_REMEMBERED: usize = 1 << 14;

/// Rows that are not looked up after those that were remembered were hardly met again.
const ROWS_PAST_TABLE: usize = 1 << 18;

/// What is computed of a log.
#[derive(Debug)]
enum LogOutput {
    /// How many values there are.
    Count,
    /// By its number among the aggregates of distinct values.
    Cells(usize),
    Median(DataType),
    Quantile(f64, DataType),
    Array(DataType),
    Text(String, DataType),
}

/// One log of a query.
#[derive(Debug)]
pub(in crate::group) struct Log {
    argument: usize,
    mask: Option<usize>,
    distinct: bool,
    takes_nulls: bool,
    pub(in crate::group) layout: Layout,
    kind: DataType,
    outputs: Vec<LogOutput>,
    /// The aggregates of each value once, and their cells.
    distinct_aggregates: Vec<Aggregate>,
    states: Option<Box<States>>,
}

/// Whether an aggregate needs the values themselves.
pub(super) fn needs_values(aggregate: &Aggregate) -> bool {
    use AggregateFunction::{Array, BitAnd, BitOr, Max, Median, Min, Quantile, Text};
    match aggregate.function {
        Median | Quantile | Array | Text => true,
        // A value that counts twice changes nothing.
        Min | Max | BitAnd | BitOr => false,
        _ => aggregate.distinct,
    }
}

impl Log {
    /// A log of an argument's values of the rows in a mask, each once or as often as they come.
    pub(super) fn new(
        (argument, mask, distinct): (usize, Option<usize>, bool),
        expr: Expr,
        kind: &DataType,
        takes_nulls: bool,
    ) -> Result<Log> {
        Ok(Log {
            argument,
            mask,
            distinct,
            takes_nulls,
            layout: Layout::of_values(expr, kind, takes_nulls)?,
            kind: kind.clone(),
            outputs: Vec::new(),
            distinct_aggregates: Vec::new(),
            states: None,
        })
    }

    /// The argument, the mask and whether each value counts once.
    pub(super) fn reads(&self) -> (usize, Option<usize>, bool) {
        (self.argument, self.mask, self.distinct)
    }

    /// Whether NULLs are values.
    pub(super) fn takes_nulls(&self) -> bool {
        self.takes_nulls
    }

    /// Adds an aggregate to what is computed; its number.
    pub(super) fn add_output(&mut self, aggregate: &Aggregate) -> Result<usize> {
        let parameter = aggregate.parameter.as_ref();
        let lacking = || Error::internal(format!("{} without its parameter", aggregate.function.name()));
        let kind = aggregate.kind.clone();
        self.outputs.push(match aggregate.function {
            AggregateFunction::Count => LogOutput::Count,
            AggregateFunction::Median => LogOutput::Median(kind),
            AggregateFunction::Quantile => {
                let share = parameter.and_then(|share| share.as_primitive_opt::<Float64Type>()).ok_or_else(lacking)?;
                LogOutput::Quantile(share.value(0), kind)
            }
            AggregateFunction::Array => LogOutput::Array(kind),
            AggregateFunction::Text => {
                let between = parameter.and_then(|text| text.as_string_view_opt()).ok_or_else(lacking)?;
                LogOutput::Text(between.value(0).to_owned(), kind)
            }
            _ => {
                let argument = Some((Expr::Column(0), self.kind.clone()));
                let of_values = Aggregate { argument, distinct: false, filter: None, ..aggregate.clone() };
                self.distinct_aggregates.push(of_values);
                LogOutput::Cells(self.distinct_aggregates.len() - 1)
            }
        });
        Ok(self.outputs.len() - 1)
    }

    /// The type of an aggregate.
    pub(super) fn kind_of(&self, number: usize) -> &DataType {
        match &self.outputs[number] {
            LogOutput::Count => &DataType::Int64,
            LogOutput::Cells(number) => &self.distinct_aggregates[*number].kind,
            LogOutput::Median(kind)
            | LogOutput::Quantile(_, kind)
            | LogOutput::Array(kind)
            | LogOutput::Text(_, kind) => kind,
        }
    }

    /// Makes the cells of distinct values, once all aggregates are known.
    pub(super) fn prepare(&mut self) -> Result<()> {
        if !self.distinct_aggregates.is_empty() {
            self.states =
                Some(Box::new(States::new(&self.distinct_aggregates, Facts { source: None, functions: &[] }, false)?));
        }
        Ok(())
    }

    /// The values of a block or batch.
    pub(super) fn values(&self, values: &Values, rows: usize) -> Result<KeyValues<'_>> {
        KeyValues::of_some(&self.layout, std::slice::from_ref(values), rows)
    }

    /// Whether two rows have the same group and value.
    #[inline]
    fn is_same<S: KeyShape>(
        shape: S,
        left: &[u64],
        right: &[u64],
        is_same_text: impl Fn(usize, u128, u128) -> bool,
    ) -> bool {
        left[0] == right[0] && shape.is_same(&left[1..], &right[1..], is_same_text)
    }

    /// The hash of a row's group and value.
    #[inline]
    fn hash<S: KeyShape>(shape: S, row: &[u64]) -> u64 {
        mix(shape.hash(&row[1..]) ^ row[0])
    }

    /// The columns of the aggregates for so many groups, of the rows in `pages`.
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
        let rows = match self.distinct {
            true => {
                memory.grow(Index::bytes_for(rows))?;
                with_shape!(self.layout.shape, shape => self.each_once(shape, pages, texts))
            }
            false => pages.concat(),
        };
        let starts = self.starts(&rows, groups);
        let is_of = |is: fn(&LogOutput) -> bool| self.outputs.iter().any(is);
        let rows = match is_of(|output| !matches!(output, LogOutput::Count | LogOutput::Cells(_))) {
            true => self.in_order(rows, &starts),
            false => rows,
        };
        let column = match is_of(|output| !matches!(output, LogOutput::Count)) {
            true => self.layout.keys(&rows, texts, &[])?.swap_remove(0),
            false => new_empty_array(&self.kind),
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
            LogOutput::Median(kind) => median(&column, &starts, kind),
            LogOutput::Quantile(share, kind) => quantile(&column, &starts, *share, kind),
            LogOutput::Array(kind) => list(&column, &starts, kind),
            LogOutput::Text(between, kind) => joined(&column, &starts, between, kind),
        };
        self.outputs.iter().map(of).collect()
    }

    /// The rows of which none is like one before.
    fn each_once<S: KeyShape>(&self, shape: S, pages: Vec<Vec<u64>>, texts: &TextStore) -> Vec<u64> {
        let stride = self.layout.stride;
        let words = pages.iter().map(Vec::len).sum();
        let mut index = Index::with_room_for(words / stride);
        let mut once: Vec<u64> = Vec::with_capacity(words);
        for page in pages {
            for row in page.chunks_exact(stride) {
                let found = index.find(Log::hash(shape, row), |number| {
                    let other = &once[number as usize * stride..];
                    Log::is_same(shape, other, row, |_, held, view| texts.is_same(held, view))
                });
                if found.is_none() {
                    once.extend_from_slice(row);
                }
            }
        }
        once
    }

    /// The rows in the order of their groups.
    fn in_order(&self, rows: Vec<u64>, starts: &[usize]) -> Vec<u64> {
        let stride = self.layout.stride;
        if rows.chunks_exact(stride).is_sorted_by_key(|row| row[0]) {
            return rows;
        }
        let mut places = starts.to_vec();
        let mut sorted = vec![0; rows.len()];
        for row in rows.chunks_exact(stride) {
            let place = &mut places[row[0] as usize];
            sorted[*place * stride..][..stride].copy_from_slice(row);
            *place += 1;
        }
        sorted
    }

    /// Where each group's rows start once they are in order, and where the last one's end.
    fn starts(&self, rows: &[u64], groups: usize) -> Vec<usize> {
        let mut starts = vec![0; groups + 1];
        rows.chunks_exact(self.layout.stride).for_each(|row| starts[row[0] as usize + 1] += 1);
        (0..groups).for_each(|group| starts[group + 1] += starts[group]);
        starts
    }
}

/// The aggregates of each value once.
fn finish_cells(
    states: &States,
    column: &ArrayRef,
    rows: &[u64],
    stride: usize,
    (groups, texts): (usize, &TextStore),
) -> Result<Vec<ArrayRef>> {
    let schema = Arc::new(Schema::new(vec![Field::new("value", column.data_type().clone(), true)]));
    let batch = RecordBatch::try_new(schema, vec![Arc::clone(column)]).map_err(failed)?;
    let inputs = states.inputs(&Rows::of_batch(&[], &batch), 0..states.parts())?;
    let of_rows: Vec<u32> = rows.chunks_exact(stride).map(|row| row[0] as u32).collect();
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

/// The values of each group as a list.
fn list(column: &ArrayRef, starts: &[usize], kind: &DataType) -> Result<ArrayRef> {
    let DataType::List(field) = kind else { return Err(Error::internal(format!("a list that is a {kind}"))) };
    let too_many =
        |_| Error::new(ErrorKind::ResultTooLarge, "lists of a result have more values than their type holds");
    let offsets = starts.iter().map(|start| i32::try_from(*start).map_err(too_many)).collect::<Result<Vec<_>>>()?;
    let nulls = NullBuffer::from_iter(starts.windows(2).map(|ends| ends[0] < ends[1]));
    let list =
        ListArray::try_new(Arc::clone(field), OffsetBuffer::new(offsets.into()), Arc::clone(column), Some(nulls));
    Ok(Arc::new(list.map_err(failed)?))
}

/// The texts of each group, one behind the other.
fn joined(column: &ArrayRef, starts: &[usize], between: &str, kind: &DataType) -> Result<ArrayRef> {
    let Some(texts) = column.as_string_view_opt() else {
        return Err(Error::internal(format!("texts of {}", column.data_type())));
    };
    let mut joined = StringViewBuilder::with_capacity(starts.len() - 1);
    let mut text = String::new();
    for ends in starts.windows(2) {
        if ends[0] == ends[1] {
            joined.append_null();
            continue;
        }
        text.clear();
        for place in ends[0]..ends[1] {
            if place > ends[0] {
                text += between;
            }
            text += texts.value(place);
        }
        joined.append_value(&text);
    }
    arrow::compute::cast(&joined.finish(), kind).map_err(failed)
}

/// The rows of a log that are not in partitions yet.
#[derive(Debug)]
pub(in crate::group) struct LogRows {
    rows: Vec<u64>,
    /// Of the rows from `first_remembered` on.
    index: Index,
    first_remembered: usize,
    /// Rows that were looked up since then.
    looked_up: usize,
    /// Rows that are not to be looked up.
    past_table: usize,
    chunk: Vec<u64>,
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
            memory,
        }
    }

    /// The rows.
    pub(in crate::group) fn rows(&self) -> &[u64] {
        &self.rows
    }

    /// Forgets all rows.
    pub(in crate::group) fn clear(&mut self) {
        self.rows.clear();
        self.forget();
    }

    fn forget(&mut self) {
        self.index.clear();
        (self.first_remembered, self.looked_up) = (self.rows.len(), 0);
    }

    /// Adds the values of the rows that are in the mask.
    pub(super) fn add(
        &mut self,
        log: &Log,
        values: &KeyValues<'_>,
        mask: Option<&BooleanBuffer>,
        rows: &Grouped<'_>,
        texts: &mut TextStore,
    ) -> Result<()> {
        let start = rows.rows.start;
        let mut places: Vec<usize> = match mask {
            None => rows.rows.clone().collect(),
            Some(mask) => mask.slice(start, rows.rows.len()).set_indices().map(|row| start + row).collect(),
        };
        if let Some(weights) = rows.weights
            && !log.distinct
        {
            let each = |place: usize| std::iter::repeat_n(place, weights[place] as usize);
            places = places.into_iter().flat_map(each).collect();
        }
        for places in places.chunks(ROWS_AT_ONCE) {
            let mut chunk = std::mem::take(&mut self.chunk);
            chunk.clear();
            chunk.resize(places.len() * log.layout.stride, 0);
            values.write(places.iter().copied(), &mut chunk);
            if let Some(groups) = rows.groups {
                for (row, place) in chunk.chunks_exact_mut(log.layout.stride).zip(places) {
                    row[0] = groups[place - start].into();
                }
            }
            let taken = self.take(log, values, &mut chunk, texts);
            self.chunk = chunk;
            taken?;
        }
        Ok(())
    }

    fn take(&mut self, log: &Log, values: &KeyValues<'_>, chunk: &mut [u64], texts: &mut TextStore) -> Result<()> {
        let rows = chunk.len() / log.layout.stride;
        let needed = self.rows.len() + chunk.len();
        if needed > self.rows.capacity() {
            let room = needed.next_power_of_two();
            self.memory.grow(((room - self.rows.capacity()) * size_of::<u64>()) as u64)?;
            self.rows.reserve_exact(room - self.rows.len());
        }
        if !log.distinct || self.past_table > 0 {
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
            if self.looked_up < remembered * 2 {
                self.past_table = ROWS_PAST_TABLE;
            }
            self.forget();
        }
        self.looked_up += rows;
        with_shape!(log.layout.shape, shape => self.take_new(shape, log.layout.stride, values, chunk, texts))
    }

    fn take_new<S: KeyShape>(
        &mut self,
        shape: S,
        stride: usize,
        values: &KeyValues<'_>,
        chunk: &[u64],
        texts: &mut TextStore,
    ) -> Result<()> {
        for row in chunk.chunks_exact(stride) {
            let remembered = &self.rows[self.first_remembered..];
            let found = self.index.find(Log::hash(shape, row), |number| {
                Log::is_same(shape, &remembered[number as usize * stride..], row, |text, held, view| {
                    if held as u64 != view as u64 || !is_long(view) {
                        return held == view;
                    }
                    values.bytes(text, view, &mut [0; 16]) == texts.bytes(held, &mut [0; 16])
                })
            });
            if found.is_none() {
                let at = self.rows.len();
                self.rows.extend_from_slice(row);
                values.settle(&mut self.rows[at..], texts)?;
            }
        }
        Ok(())
    }
}
