//! One total per group, for GROUP BY.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, BooleanBufferBuilder, Float64Array, PrimitiveArray, UInt64Array,
};
use arrow::buffer::{BooleanBuffer, NullBuffer};
use arrow::datatypes::{DataType, UInt64Type};
use datafusion::common::Result;
use datafusion::logical_expr::{EmitTo, GroupsAccumulator};

use super::total::{Amount, Finish, Summand, TotalOf, scale_of, total_array, total_out_of_range};
use crate::errors::to_datafusion;

/// Totals of groups, with the number of values in each for an average, or whether there was any for a sum.
#[derive(Debug)]
pub(super) struct Groups<S: Summand> {
    finish: Finish,
    kind: DataType,
    totals: Vec<TotalOf<S>>,
    counts: Vec<u64>,
    seen: Seen,
    is_bad: bool,
}

impl<S: Summand> Groups<S> {
    pub(super) fn new(finish: Finish, kind: DataType) -> Groups<S> {
        Groups { finish, kind, totals: Vec::new(), counts: Vec::new(), seen: Seen::All(0), is_bad: false }
    }

    fn grow(&mut self, groups: usize) {
        self.totals.resize(groups, TotalOf::<S>::default());
        if self.finish == Finish::Average {
            self.counts.resize(groups, 0);
        }
    }

    fn check(&self) -> Result<()> {
        match self.is_bad {
            true => Err(to_datafusion(total_out_of_range(self.finish, &self.kind))),
            false => Ok(()),
        }
    }

    fn take_totals(&mut self, emit: EmitTo) -> (Vec<TotalOf<S>>, Vec<u64>, Option<NullBuffer>) {
        let totals = emit.take_needed(&mut self.totals);
        match self.finish {
            Finish::Sum => {
                let nulls = self.seen.take(totals.len());
                (totals, Vec::new(), nulls)
            }
            Finish::Average => {
                let counts = emit.take_needed(&mut self.counts);
                let nulls = NullBuffer::from(BooleanBuffer::collect_bool(counts.len(), |group| counts[group] > 0));
                (totals, counts, Some(nulls).filter(|nulls| nulls.null_count() > 0))
            }
        }
    }
}

impl<S: Summand> GroupsAccumulator for Groups<S> {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        group_count: usize,
    ) -> Result<()> {
        self.grow(group_count);
        let values = values[0].as_primitive::<S>();
        let selected = selection(values.nulls(), filter);
        if self.finish == Finish::Sum {
            self.seen.note(groups, selected.as_ref(), group_count);
        }
        let (totals, counts) = (&mut self.totals, &mut self.counts);
        self.is_bad |= match (self.finish, &selected) {
            (Finish::Sum, None) => each(groups, values.values(), |group, value| totals[group].add(S::widen(value))),
            (Finish::Sum, Some(rows)) => {
                each_of(groups, values.values(), rows, |group, value| totals[group].add(S::widen(value)))
            }
            (Finish::Average, None) => each(groups, values.values(), |group, value| {
                counts[group] += 1;
                totals[group].add(S::widen(value))
            }),
            (Finish::Average, Some(rows)) => each_of(groups, values.values(), rows, |group, value| {
                counts[group] += 1;
                totals[group].add(S::widen(value))
            }),
        };
        self.check()
    }

    fn merge_batch(&mut self, states: &[ArrayRef], groups: &[usize], group_count: usize) -> Result<()> {
        self.grow(group_count);
        let partial = states[0].as_primitive::<S::Total>();
        let selected = selection(partial.nulls(), None);
        if self.finish == Finish::Sum {
            self.seen.note(groups, selected.as_ref(), group_count);
        }
        let totals = &mut self.totals;
        self.is_bad |= match &selected {
            None => each(groups, partial.values(), |group, value| totals[group].add(value)),
            Some(rows) => each_of(groups, partial.values(), rows, |group, value| totals[group].add(value)),
        };
        if self.finish == Finish::Average {
            let partial = states[1].as_primitive::<UInt64Type>();
            for (group, count) in groups.iter().zip(partial.values()) {
                self.counts[*group] += count;
            }
        }
        self.check()
    }

    fn evaluate(&mut self, emit: EmitTo) -> Result<ArrayRef> {
        let (totals, counts, nulls) = self.take_totals(emit);
        if self.finish == Finish::Sum {
            let shown = totals.into_iter().map(Amount::shown).collect();
            return total_array::<S>(shown, nulls, self.finish, &self.kind).map_err(to_datafusion);
        }
        let scale = scale_of(&self.kind);
        let averages: Vec<f64> =
            totals.iter().zip(&counts).map(|(total, count)| total.divided((*count).max(1), scale)).collect();
        Ok(Arc::new(Float64Array::new(averages.into(), nulls)))
    }

    fn state(&mut self, emit: EmitTo) -> Result<Vec<ArrayRef>> {
        let (totals, counts, nulls) = self.take_totals(emit);
        let totals = total_array::<S>(totals, nulls, self.finish, &self.kind).map_err(to_datafusion)?;
        Ok(match self.finish {
            Finish::Sum => vec![totals],
            Finish::Average => vec![totals, Arc::new(UInt64Array::from(counts))],
        })
    }

    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        let values = values[0].as_primitive::<S>();
        let selected = selection(values.nulls(), filter);
        let totals: Vec<TotalOf<S>> = values.values().iter().map(|value| S::widen(*value)).collect();
        let nulls = selected.clone().map(NullBuffer::new);
        let totals = total_array::<S>(totals, nulls, self.finish, &self.kind).map_err(to_datafusion)?;
        if self.finish == Finish::Sum {
            return Ok(vec![totals]);
        }
        let counts = match &selected {
            None => PrimitiveArray::<UInt64Type>::from_value(1, values.len()),
            Some(rows) => rows.iter().map(u64::from).collect::<Vec<u64>>().into(),
        };
        Ok(vec![totals, Arc::new(counts)])
    }

    fn size(&self) -> usize {
        self.totals.capacity() * size_of::<TotalOf<S>>() + self.counts.capacity() * size_of::<u64>() + self.seen.size()
    }
}

/// Whether any of the additions left its type.
#[inline]
fn each<T: Copy>(groups: &[usize], values: &[T], mut add: impl FnMut(usize, T) -> bool) -> bool {
    let mut is_bad = false;
    for (group, value) in groups.iter().zip(values) {
        is_bad |= add(*group, *value);
    }
    is_bad
}

/// [`each`] of the rows that `rows` names.
fn each_of<T: Copy>(
    groups: &[usize],
    values: &[T],
    rows: &BooleanBuffer,
    mut add: impl FnMut(usize, T) -> bool,
) -> bool {
    let mut is_bad = false;
    for row in rows.set_indices() {
        is_bad |= add(groups[row], values[row]);
    }
    is_bad
}

/// The rows that count, if not all do: not NULL, and taken by the filter.
fn selection(nulls: Option<&NullBuffer>, filter: Option<&BooleanArray>) -> Option<BooleanBuffer> {
    let taken = filter.map(|filter| match filter.nulls() {
        Some(nulls) => filter.values() & nulls.inner(),
        None => filter.values().clone(),
    });
    match (nulls.filter(|nulls| nulls.null_count() > 0), taken) {
        (None, None) => None,
        (None, Some(taken)) => Some(taken),
        (Some(nulls), None) => Some(nulls.inner().clone()),
        (Some(nulls), Some(taken)) => Some(nulls.inner() & &taken),
    }
}

/// Which groups had a value. A group exists because a row made it, so as long as every row counts, all have one.
#[derive(Debug)]
enum Seen {
    /// All of so many groups.
    All(usize),
    Some(BooleanBufferBuilder),
}

impl Seen {
    fn note(&mut self, groups: &[usize], selected: Option<&BooleanBuffer>, group_count: usize) {
        if let (Seen::All(all), None) = (&mut *self, selected) {
            *all = group_count;
            return;
        }
        if let Seen::All(all) = *self {
            let mut bits = BooleanBufferBuilder::new(group_count);
            bits.append_n(all, true);
            *self = Seen::Some(bits);
        }
        let Seen::Some(bits) = self else { return };
        bits.append_n(group_count.saturating_sub(bits.len()), false);
        match selected {
            None => groups.iter().for_each(|group| bits.set_bit(*group, true)),
            Some(rows) => rows.set_indices().for_each(|row| bits.set_bit(groups[row], true)),
        }
    }

    /// The nulls of the first `groups` groups, which leave.
    fn take(&mut self, groups: usize) -> Option<NullBuffer> {
        match self {
            Seen::All(all) => {
                *all = all.saturating_sub(groups);
                None
            }
            Seen::Some(bits) => {
                let all = bits.finish();
                let mut rest = BooleanBufferBuilder::new(all.len().saturating_sub(groups));
                rest.append_buffer(&all.slice(groups, all.len().saturating_sub(groups)));
                *bits = rest;
                Some(NullBuffer::new(all.slice(0, groups))).filter(|nulls| nulls.null_count() > 0)
            }
        }
    }

    fn size(&self) -> usize {
        match self {
            Seen::All(_) => 0,
            Seen::Some(bits) => bits.capacity() / 8,
        }
    }
}
