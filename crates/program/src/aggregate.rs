//! Aggregates over rows.
//!
//! Totals of integers and decimals are exact, with 128 bits. If the type of a total cannot hold it, the result is an
//! error, never a wrong number.

use std::cmp::Ordering;
use std::collections::HashSet;
use std::sync::Arc;

use rowmill_base::quotient::average;
use rowmill_base::{Error, Result, SqlType};
use rowmill_plan::program::{RowAggregate, RowFunction, sum_kind};
use rowmill_storage::keyed::ValueRef;

use crate::expr::{Env, Expr, ExprCompiler, compare_values, unsupported};
use crate::number::{Number, canonical, exact, out_of_range};
use crate::pace::bounded;
use crate::result_rows::ResultRows;
use crate::way::Way;

/// Values that are collected for COUNT(DISTINCT) before duplicates are first removed.
const DISTINCT_MIN: usize = 1024;

/// An aggregate that is ready to be computed.
#[derive(Debug)]
pub(crate) struct Aggregate {
    pub(crate) function: RowFunction,
    argument: Expr,
    pub(crate) filter: Option<Expr>,
    /// The type of the argument.
    of: SqlType,
    /// The order of joined texts, and the text between them.
    order: Box<[Expr]>,
    ways: Box<[Way]>,
    separator: String,
    /// The types of the values that are held: of a minimum, a maximum, or of a text and the values that order it.
    held: Arc<[SqlType]>,
    /// The type of the result.
    pub(crate) kind: Arc<[SqlType]>,
}

/// The state of an aggregate. Each function uses only some of the fields; the others keep their memory for later use.
#[derive(Debug, Default)]
pub(crate) struct Total {
    /// Number of rows, or of values that are not NULL.
    pub(crate) count: u64,
    exact: i128,
    float: f64,
    /// Whether the exact total has overflowed.
    is_lost: bool,
    /// The least or the greatest value so far, or texts and the values that order them.
    held: ResultRows,
    /// The joined text.
    joined: String,
    /// The values for COUNT(DISTINCT). Some may be there more than once, until they are sorted and deduplicated.
    numbers: Vec<i128>,
    /// The length at which the list is sorted and deduplicated next.
    numbers_max: usize,
    strings: HashSet<Box<[u8]>>,
    string_bytes: usize,
}

impl Aggregate {
    pub(crate) fn new(aggregate: &RowAggregate, compiler: &mut ExprCompiler<'_>) -> Result<Aggregate> {
        let RowAggregate { function, argument, filter, order, separator } = aggregate;
        let kind = aggregate.kind().ok_or_else(|| unsupported(format_args!("{function}({})", argument.kind)))?;
        Ok(Aggregate {
            function: *function,
            argument: compiler.expr(argument)?,
            filter: filter.as_ref().map(|filter| compiler.condition(filter)).transpose()?,
            of: argument.kind.clone(),
            order: order.iter().map(|by| compiler.expr(&by.value)).collect::<Result<_>>()?,
            ways: order.iter().map(Way::of).collect(),
            separator: separator.clone(),
            held: std::iter::once(kind.clone()).chain(order.iter().map(|by| by.value.kind.clone())).collect(),
            kind: [kind].into(),
        })
    }

    /// Adds the value of a row to the state.
    pub(crate) fn take(&self, total: &mut Total, env: Env<'_>) -> Result<()> {
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
            RowFunction::Min => total.hold(value, &self.held, |held| compare_values(value, held).is_lt()),
            RowFunction::Max => total.hold(value, &self.held, |held| compare_values(value, held).is_gt()),
            RowFunction::Join => self.join(total, value, env)?,
        }
        Ok(())
    }

    /// Adds a text: to the joined text, or to the texts that are to be sorted.
    fn join(&self, total: &mut Total, text: ValueRef<'_>, env: Env<'_>) -> Result<()> {
        if self.order.is_empty() {
            total.append(text, &self.separator);
            return bounded(total.joined.len());
        }
        total.held.push(text);
        for value in &self.order {
            total.held.push(value.value(env)?);
        }
        total.held.end_row();
        bounded(total.held.bytes())
    }

    /// Completes the state after the last row.
    pub(crate) fn settle(&self, total: &mut Total) -> Result<()> {
        total.settle();
        if self.function != RowFunction::Join || self.order.is_empty() {
            return Ok(());
        }
        let held = std::mem::take(&mut total.held);
        let mut places: Vec<usize> = (0..held.len()).collect();
        places.sort_by(|left, right| {
            let orders = self.ways.iter().zip(1..);
            let mut orders = orders.map(|(way, column)| way.compare(held.get(*left, column), held.get(*right, column)));
            orders.find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
        });
        total.count = 0;
        for place in places {
            total.count += 1;
            total.append(held.get(place, 0), &self.separator);
        }
        total.held = held;
        bounded(total.held.bytes() + total.joined.len())
    }

    /// The result of the aggregate.
    pub(crate) fn value<'t>(&self, total: &'t Total) -> Result<ValueRef<'t>> {
        Ok(match self.function {
            RowFunction::CountRows | RowFunction::Count => ValueRef::Int(total.count as i64),
            RowFunction::CountDistinct => ValueRef::Int((total.numbers.len() + total.strings.len()) as i64),
            RowFunction::Min | RowFunction::Max if total.held.is_empty() => ValueRef::Null,
            RowFunction::Min | RowFunction::Max => total.held.get(0, 0),
            RowFunction::Sum | RowFunction::Average | RowFunction::Join if total.count == 0 => ValueRef::Null,
            RowFunction::Join => ValueRef::Text(&total.joined),
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

    /// The sum of the values, in the type that `SUM` has for them.
    fn total(&self, total: &Total) -> Result<ValueRef<'static>> {
        let kind = sum_kind(&self.of).ok_or_else(|| Error::internal(format!("no sum of {}", self.of)))?;
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
    /// Resets the state.
    pub(crate) fn start(&mut self, aggregate: &Aggregate) {
        (self.count, self.exact, self.float, self.is_lost) = (0, 0, 0.0, false);
        self.held.start(&aggregate.held);
        self.joined.clear();
        self.numbers.clear();
        self.numbers_max = DISTINCT_MIN;
        self.strings.clear();
        self.string_bytes = 0;
    }

    fn add(&mut self, value: ValueRef<'_>) {
        match value {
            ValueRef::Float(value) => self.float += value,
            value => {
                // Remember the overflow and go on: a later value must not hide it.
                let (total, is_lost) = self.exact.overflowing_add(exact(value));
                self.exact = total;
                self.is_lost |= is_lost;
            }
        }
    }

    /// Replaces the kept value by `value` if no value is kept, or if `replaces` says so.
    fn hold(&mut self, value: ValueRef<'_>, kind: &Arc<[SqlType]>, replaces: impl FnOnce(ValueRef<'_>) -> bool) {
        if self.held.is_empty() || replaces(self.held.get(0, 0)) {
            self.held.start(kind);
            self.held.push(value);
            self.held.end_row();
        }
    }

    /// Appends a text to the joined text. It must have been counted.
    fn append(&mut self, text: ValueRef<'_>, separator: &str) {
        if self.count > 1 {
            self.joined.push_str(separator);
        }
        if let ValueRef::Text(text) = text {
            self.joined.push_str(text);
        }
    }

    /// Adds a value to the distinct values.
    fn note(&mut self, value: ValueRef<'_>) -> Result<()> {
        let number = match value {
            ValueRef::Text(text) => return self.note_string(text.as_bytes()),
            ValueRef::Bytes(bytes) => return self.note_string(bytes),
            ValueRef::Bool(value) => value.into(),
            // Equal floats have equal bits after normalisation.
            ValueRef::Float(value) => canonical(value).to_bits().into(),
            value => exact(value),
        };
        self.numbers.push(number);
        if self.numbers.len() >= self.numbers_max {
            self.settle();
            // Doubling keeps the cost of all sorts within a constant factor of the last one.
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

    /// Removes duplicates from the distinct values. The count is right only after this.
    fn settle(&mut self) {
        self.numbers.sort_unstable();
        self.numbers.dedup();
    }
}
