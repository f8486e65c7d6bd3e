//! Rows put together by keys, and aggregates over each group; without keys all rows are one group.
//!
//! Groups are found by the bytes of their keys. Totals of integers and decimals are exact, in 128 bits; a total that its type
//! does not have is an error, never another number.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use rowmill_base::quotient::average;
use rowmill_base::{Error, Result, SqlType};
use rowmill_plan::program::{self, RowAggregate, RowFunction, sum_kind};
use rowmill_storage::keyed::ValueRef;

use crate::expr::{Compiler, Env, Expr, Layout, compare_values, unsupported};
use crate::number::{Number, canonical, exact, out_of_range};
use crate::output::{Rows, RowsScratch};
use crate::pace::bounded;
use crate::result_rows::ResultRows;
use crate::texts::Texts;

/// Values that are counted as distinct before those are thrown away that are there twice.
const DISTINCT_MIN: usize = 1024;

/// Groups, and the rows that are made of them.
#[derive(Debug)]
pub(crate) struct Groups {
    keys: Box<[Expr]>,
    key_kinds: Arc<[SqlType]>,
    aggregates: Box<[Aggregate]>,
    ends_at_value: bool,
    having: Option<Expr>,
    rows: Rows,
    texts: usize,
}

/// What grouping takes, kept from one statement to the next.
#[derive(Debug, Default)]
pub(crate) struct GroupsScratch {
    /// The keys of the groups, which are numbered as they are found.
    keys: ResultRows,
    numbers: HashMap<Box<[u8]>, usize>,
    key_bytes: usize,
    key: Vec<u8>,
    /// Those of the first group, of the second, and so on.
    totals: Vec<Total>,
    count: usize,
    texts: Texts,
}

#[derive(Debug)]
struct Aggregate {
    function: RowFunction,
    argument: Expr,
    filter: Option<Expr>,
    /// Of the argument.
    of: SqlType,
    /// Of the result.
    kind: Arc<[SqlType]>,
}

/// What an aggregate has come to. One has need of some of it only; it is kept for others.
#[derive(Debug, Default)]
pub(crate) struct Total {
    /// Rows, or values that are not NULL.
    count: u64,
    exact: i128,
    float: f64,
    /// Whether the exact total has left its type.
    is_lost: bool,
    /// The least or the greatest value.
    held: ResultRows,
    /// Distinct values, some of them more than once.
    numbers: Vec<i128>,
    /// How many may be there before they are looked through.
    numbers_max: usize,
    strings: HashSet<Box<[u8]>>,
    string_bytes: usize,
}

impl Groups {
    pub(crate) fn new(groups: &program::Groups, compiler: &mut Compiler<'_>) -> Result<Groups> {
        let made = groups.aggregates.iter().map(|aggregate| Aggregate::new(aggregate, compiler));
        let aggregates: Box<[Aggregate]> = made.collect::<Result<_>>()?;
        let keys = compiler.exprs(&groups.keys)?;
        if let Some(key) = groups.keys.iter().find(|key| !key.kind.is_ordered()) {
            return Err(unsupported(format_args!("groups by {}", key.kind)));
        }
        let key_kinds: Arc<[SqlType]> = groups.keys.iter().map(|key| key.kind.clone()).collect();
        let of_aggregates = aggregates.iter().map(|aggregate| aggregate.kind[0].clone());
        let layout = Layout::of_all([key_kinds.iter().cloned().chain(of_aggregates).collect()]);
        let mut compiler = compiler.beside(&layout, 1);
        let having = groups.filter.as_ref().map(|filter| compiler.condition(filter)).transpose()?;
        let rows = Rows::new(&groups.rows, &mut compiler)?;
        let (ends_at_value, texts) = (groups.ends_at_value, compiler.texts());
        Ok(Groups { keys, key_kinds, aggregates, ends_at_value, having, rows, texts })
    }

    /// Whether it has all that it needs after one value.
    pub(crate) fn ends_at_value(&self) -> bool {
        self.ends_at_value
    }

    /// Forgets all groups.
    pub(crate) fn start(&self, scratch: &mut GroupsScratch) {
        scratch.keys.start(&self.key_kinds);
        scratch.numbers.clear();
        (scratch.count, scratch.key_bytes) = (0, 0);
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

    /// Takes a row; whether more are wanted.
    pub(crate) fn take(&self, scratch: &mut GroupsScratch, env: Env<'_>) -> Result<bool> {
        let group = if self.keys.is_empty() { 0 } else { self.group(scratch, env)? };
        let totals = &mut scratch.totals[group * self.aggregates.len()..];
        self.aggregates.iter().zip(&mut *totals).try_for_each(|(aggregate, total)| aggregate.take(total, env))?;
        Ok(!self.ends_at_value || totals[0].count == 0)
    }

    /// The number of the group of a row.
    fn group(&self, scratch: &mut GroupsScratch, env: Env<'_>) -> Result<usize> {
        scratch.key.clear();
        for key in &self.keys {
            let value = key.value(env)?;
            append_key(value, &mut scratch.key);
            scratch.keys.push(value);
        }
        if let Some(number) = scratch.numbers.get(&scratch.key[..]) {
            scratch.keys.drop_row();
            return Ok(*number);
        }
        scratch.keys.end_row();
        let number = scratch.count;
        scratch.numbers.insert(scratch.key.as_slice().into(), number);
        scratch.key_bytes += scratch.key.len() + size_of::<(Box<[u8]>, usize)>();
        self.add_group(scratch);
        let totals = scratch.count * self.aggregates.len() * size_of::<Total>();
        bounded(scratch.keys.bytes() + scratch.key_bytes + totals)?;
        Ok(number)
    }

    /// Gives the rows.
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
        totals[..*count * self.aggregates.len()].iter_mut().for_each(Total::settle);
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
        sink.finish(out);
        Ok(())
    }
}

/// Appends a value of a key, so that equal values, and no others, have the same bytes.
fn append_key(value: ValueRef<'_>, key: &mut Vec<u8>) {
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
        ValueRef::Interval(_) => unreachable!("keys of groups have an order"),
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

impl Aggregate {
    fn new(aggregate: &RowAggregate, compiler: &mut Compiler<'_>) -> Result<Aggregate> {
        let RowAggregate { function, argument, filter } = aggregate;
        let kind = aggregate.kind().ok_or_else(|| unsupported(format_args!("{function}({})", argument.kind)))?;
        Ok(Aggregate {
            function: *function,
            argument: compiler.expr(argument)?,
            filter: filter.as_ref().map(|filter| compiler.condition(filter)).transpose()?,
            of: argument.kind.clone(),
            kind: [kind].into(),
        })
    }

    fn take(&self, total: &mut Total, env: Env<'_>) -> Result<()> {
        if let Some(filter) = &self.filter
            && !filter.is_true(env)?
        {
            return Ok(());
        }
        let value = match self.function {
            RowFunction::CountRows => ValueRef::Null,
            _ => self.argument.value(env)?,
        };
        if value.is_null() && self.function != RowFunction::CountRows {
            return Ok(());
        }
        total.count += 1;
        match self.function {
            RowFunction::CountRows | RowFunction::Count => {}
            RowFunction::CountDistinct => total.note(value)?,
            RowFunction::Sum | RowFunction::Average => total.add(value),
            RowFunction::Min => total.hold(value, &self.kind, |held| compare_values(value, held).is_lt()),
            RowFunction::Max => total.hold(value, &self.kind, |held| compare_values(value, held).is_gt()),
        }
        Ok(())
    }

    fn value<'t>(&self, total: &'t Total) -> Result<ValueRef<'t>> {
        Ok(match self.function {
            RowFunction::CountRows | RowFunction::Count => ValueRef::Int(total.count as i64),
            RowFunction::CountDistinct => ValueRef::Int((total.numbers.len() + total.strings.len()) as i64),
            RowFunction::Min | RowFunction::Max if total.held.is_empty() => ValueRef::Null,
            RowFunction::Min | RowFunction::Max => total.held.get(0, 0),
            RowFunction::Sum | RowFunction::Average if total.count == 0 => ValueRef::Null,
            RowFunction::Sum => self.total(total)?,
            RowFunction::Average => match self.total(total)? {
                ValueRef::Float(total_of_floats) => ValueRef::Float(canonical(total_of_floats / total.count as f64)),
                exact_total => {
                    let scale = Number::of(&self.of).map_or(0, Number::scale);
                    ValueRef::Float(average(exact(exact_total), total.count, scale as i8))
                }
            },
        })
    }

    /// What the values come to, in the type that `SUM` has of them.
    fn total(&self, total: &Total) -> Result<ValueRef<'static>> {
        let kind = sum_kind(&self.of).ok_or_else(|| Error::internal(format!("a total of {}", self.of)))?;
        match Number::of(&kind) {
            Some(number) if !number.is_float() => {
                let sum = number.exact_value(total.exact).filter(|_| !total.is_lost);
                sum.ok_or_else(|| out_of_range(format_args!("the total of {}({})", self.function, self.of), &kind))
            }
            _ => Ok(ValueRef::Float(canonical(total.float))),
        }
    }
}

impl Total {
    fn start(&mut self, aggregate: &Aggregate) {
        (self.count, self.exact, self.float, self.is_lost) = (0, 0, 0.0, false);
        self.held.start(&aggregate.kind);
        self.numbers.clear();
        self.numbers_max = DISTINCT_MIN;
        self.strings.clear();
        self.string_bytes = 0;
    }

    fn add(&mut self, value: ValueRef<'_>) {
        match value {
            ValueRef::Float(value) => self.float += value,
            value => {
                let (total, is_lost) = self.exact.overflowing_add(exact(value));
                self.exact = total;
                self.is_lost |= is_lost;
            }
        }
    }

    /// Holds `value` if nothing is held or it is to take the place of what is.
    fn hold(&mut self, value: ValueRef<'_>, kind: &Arc<[SqlType]>, replaces: impl FnOnce(ValueRef<'_>) -> bool) {
        if self.held.is_empty() || replaces(self.held.get(0, 0)) {
            self.held.start(kind);
            self.held.push(value);
            self.held.end_row();
        }
    }

    /// Notes a value among the distinct ones.
    fn note(&mut self, value: ValueRef<'_>) -> Result<()> {
        let number = match value {
            ValueRef::Text(text) => return self.note_string(text.as_bytes()),
            ValueRef::Bytes(bytes) => return self.note_string(bytes),
            ValueRef::Bool(value) => value.into(),
            ValueRef::Float(value) => canonical(value).to_bits().into(),
            value => exact(value),
        };
        self.numbers.push(number);
        if self.numbers.len() >= self.numbers_max {
            self.settle();
            self.numbers_max = (2 * self.numbers.len()).max(DISTINCT_MIN);
        }
        bounded(size_of_val(&self.numbers[..]))
    }

    fn note_string(&mut self, string: &[u8]) -> Result<()> {
        if !self.strings.contains(string) {
            self.string_bytes += string.len() + size_of::<Box<[u8]>>();
            self.strings.insert(string.into());
        }
        bounded(self.string_bytes)
    }

    /// Leaves each distinct value once.
    fn settle(&mut self) {
        self.numbers.sort_unstable();
        self.numbers.dedup();
    }
}
