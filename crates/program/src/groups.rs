//! Groups of rows with equal keys, and aggregates over each group. Without keys, all rows are one group.
//!
//! A group is found by a byte string that encodes its keys.

use std::collections::HashMap;
use std::sync::Arc;

use rowmill_base::{Result, SqlType, recycled};
use rowmill_plan::program::{self, RowFunction};
use rowmill_storage::keyed::ValueRef;

use crate::aggregate::{Aggregate, Total};
use crate::expr::{Env, Expr, ExprCompiler, RowsLayout, unsupported};
use crate::number::canonical;
use crate::output::{OrderedOutput, RowsScratch};
use crate::pace::bounded;
use crate::result_rows::ResultRows;
use crate::texts::ComputedTexts;

/// The keys and the aggregates, and the rows that are made of the groups.
#[derive(Debug)]
pub(crate) struct CompiledGroups {
    keys: Box<[Expr]>,
    key_kinds: Arc<[SqlType]>,
    aggregates: Box<[Aggregate]>,
    ends_at_value: bool,
    having: Option<Expr>,
    rows: OrderedOutput,
    texts: usize,
}

/// Memory that grouping needs, kept from one statement to the next.
#[derive(Debug, Default)]
pub(crate) struct GroupsScratch {
    /// The keys of the groups. Groups are numbered in the order in which they are found.
    keys: ResultRows,
    numbers: HashMap<Box<[u8]>, usize>,
    key_bytes: usize,
    key: Vec<u8>,
    /// The group of the last row, and its key.
    last: Option<usize>,
    last_key: Vec<u8>,
    values: Vec<ValueRef<'static>>,
    /// The totals of the first group, then those of the second, and so on.
    totals: Vec<Total>,
    count: usize,
    texts: ComputedTexts,
}

impl CompiledGroups {
    pub(crate) fn new(groups: &program::GroupOutput, compiler: &mut ExprCompiler<'_>) -> Result<CompiledGroups> {
        let made = groups.aggregates.iter().map(|aggregate| Aggregate::new(aggregate, compiler));
        let aggregates: Box<[Aggregate]> = made.collect::<Result<_>>()?;
        let keys = compiler.exprs(&groups.keys)?;
        if let Some(key) = groups.keys.iter().find(|key| !key.kind.is_ordered()) {
            return Err(unsupported(format_args!("groups by {}", key.kind)));
        }
        let key_kinds: Arc<[SqlType]> = groups.keys.iter().map(|key| key.kind.clone()).collect();
        let of_aggregates = aggregates.iter().map(|aggregate| aggregate.kind[0].clone());
        let layout = RowsLayout::of_all([key_kinds.iter().cloned().chain(of_aggregates).collect()]);
        let mut compiler = compiler.beside(&layout, 1);
        let having = groups.filter.as_ref().map(|filter| compiler.condition(filter)).transpose()?;
        let rows = OrderedOutput::new(&groups.rows, &mut compiler)?;
        let (ends_at_value, texts) = (groups.ends_at_value, compiler.texts());
        Ok(CompiledGroups { keys, key_kinds, aggregates, ends_at_value, having, rows, texts })
    }

    /// Whether the result is complete after one value. For example, MIN needs only the first value in key order.
    pub(crate) fn ends_at_value(&self) -> bool {
        self.ends_at_value
    }

    /// Whether the only result is the number of rows.
    pub(crate) fn counts_rows(&self) -> bool {
        // HAVING and the output do not matter here, because they only see the counts.
        let is_count =
            |aggregate: &Aggregate| aggregate.function == RowFunction::CountRows && aggregate.filter.is_none();
        self.keys.is_empty() && self.aggregates.iter().all(is_count)
    }

    /// Counts `rows` rows that were not read.
    pub(crate) fn count(&self, scratch: &mut GroupsScratch, rows: usize) {
        scratch.totals[..self.aggregates.len()].iter_mut().for_each(|total| total.count += rows as u64);
    }

    /// Forgets all groups.
    pub(crate) fn start(&self, scratch: &mut GroupsScratch) {
        scratch.keys.start(&self.key_kinds);
        scratch.numbers.clear();
        (scratch.count, scratch.key_bytes, scratch.last) = (0, 0, None);
        if self.keys.is_empty() {
            self.add_group(scratch);
        }
    }

    fn add_group(&self, scratch: &mut GroupsScratch) {
        let first = scratch.count * self.aggregates.len();
        scratch.count += 1;
        let end = first + self.aggregates.len();
        scratch.totals.resize_with(scratch.totals.len().max(end), Total::default);
        self.aggregates
            .iter()
            .zip(&mut scratch.totals[first..end])
            .for_each(|(aggregate, total)| total.start(aggregate));
    }

    /// Adds a row to its group. Returns whether more rows are needed.
    pub(crate) fn take(&self, scratch: &mut GroupsScratch, env: Env<'_>) -> Result<bool> {
        let group = if self.keys.is_empty() { 0 } else { self.group(scratch, env)? };
        let totals = &mut scratch.totals[group * self.aggregates.len()..];
        self.aggregates.iter().zip(&mut *totals).try_for_each(|(aggregate, total)| aggregate.take(total, env))?;
        Ok(!self.ends_at_value || totals[0].count == 0)
    }

    /// The number of the group of a row. A new group gets the next number.
    fn group(&self, scratch: &mut GroupsScratch, env: Env<'_>) -> Result<usize> {
        let mut values: Vec<ValueRef<'_>> = recycled(std::mem::take(&mut scratch.values));
        scratch.key.clear();
        for key in &self.keys {
            let value = key.value(env)?;
            append_key(value, &mut scratch.key);
            values.push(value);
        }
        // The rows of a group often follow one another, so most of them need no hash.
        let group = match scratch.last {
            Some(last) if scratch.key == scratch.last_key => last,
            _ => match scratch.numbers.get(&scratch.key[..]) {
                Some(number) => *number,
                None => self.new_group(scratch, &values)?,
            },
        };
        if scratch.last.replace(group) != Some(group) {
            std::mem::swap(&mut scratch.key, &mut scratch.last_key);
        }
        scratch.values = recycled(values);
        Ok(group)
    }

    /// Adds a group with the keys `values`, whose byte string is `scratch.key`, and returns its number.
    fn new_group(&self, scratch: &mut GroupsScratch, values: &[ValueRef<'_>]) -> Result<usize> {
        values.iter().for_each(|value| scratch.keys.push(*value));
        scratch.keys.end_row();
        let number = scratch.count;
        scratch.numbers.insert(scratch.key.as_slice().into(), number);
        scratch.key_bytes += scratch.key.len() + size_of::<(Box<[u8]>, usize)>();
        self.add_group(scratch);
        let totals = scratch.count * self.aggregates.len() * size_of::<Total>();
        // Groups are held in memory, so their number must be limited as well.
        bounded(scratch.keys.bytes() + scratch.key_bytes + totals)?;
        Ok(number)
    }

    /// Makes the rows of all groups and gives them to `out`.
    pub(crate) fn finish(
        &self,
        scratch: &mut GroupsScratch,
        rows_scratch: &mut RowsScratch,
        parameters: &[ValueRef<'_>],
        out: &mut ResultRows,
    ) -> Result<()> {
        let GroupsScratch { keys, totals, count, texts, .. } = scratch;
        let mut sink = self.rows.sink(parameters, texts, self.texts, rows_scratch)?;
        let mut values: Vec<ValueRef<'_>> = Vec::with_capacity(self.keys.len() + self.aggregates.len());
        if !sink.wants_rows() {
            return Ok(());
        }
        // A list of groups without aggregates has no totals.
        for totals in totals[..*count * self.aggregates.len()].chunks_mut(self.aggregates.len().max(1)) {
            self.aggregates.iter().zip(totals).try_for_each(|(aggregate, total)| aggregate.settle(total))?;
        }
        for group in 0..*count {
            values.clear();
            values.extend((0..self.keys.len()).map(|key| keys.get(group, key)));
            let totals = &totals[group * self.aggregates.len()..];
            for (aggregate, total) in self.aggregates.iter().zip(totals) {
                values.push(aggregate.value(total)?);
            }
            texts.clear(self.texts);
            let env = Env { columns: &values, parameters, texts };
            let passes = self.having.as_ref().map_or(Ok(true), |having| having.is_true(env))?;
            if passes && !sink.take(env, out)? {
                break;
            }
        }
        sink.finish(out)
    }
}

/// Appends a key value to the byte string of a group, so two byte strings are equal exactly if their values are.
pub(crate) fn append_key(value: ValueRef<'_>, key: &mut Vec<u8>) {
    let mut append = |tag: u8, bytes: &[u8]| {
        key.push(tag);
        key.extend_from_slice(bytes);
    };
    match value {
        ValueRef::Null => append(0, &[]),
        ValueRef::Bool(value) => append(1, &[value.into()]),
        ValueRef::Int(value) => append(1, &value.to_le_bytes()),
        ValueRef::UInt(value) => append(1, &value.to_le_bytes()),
        ValueRef::Float(value) => append(1, &canonical(value).to_bits().to_le_bytes()),
        ValueRef::Decimal(value) => append(1, &value.to_le_bytes()),
        ValueRef::Interval(_) => unreachable!("group keys must have an ordered type"),
        ValueRef::Text(text) => {
            append(1, &text.len().to_le_bytes());
            key.extend_from_slice(text.as_bytes());
        }
        ValueRef::Bytes(bytes) => {
            append(1, &bytes.len().to_le_bytes());
            key.extend_from_slice(bytes);
        }
    }
}
