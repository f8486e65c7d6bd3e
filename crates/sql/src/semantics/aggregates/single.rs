//! One total: an aggregate without GROUP BY, and the frames of a window.

use std::collections::VecDeque;

use arrow::array::{Array, ArrayRef, AsArray, PrimitiveArray};
use arrow::datatypes::{DataType, UInt64Type};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::Accumulator;

use super::total::{Amount, Finish, Summand, TotalOf, scale_of, total_array, total_out_of_range};
use crate::errors::to_datafusion;

/// The total of the rows that came and did not go.
#[derive(Debug)]
pub(super) struct Single<S: Summand> {
    finish: Finish,
    kind: DataType,
    total: TotalOf<S>,
    count: u64,
}

impl<S: Summand> Single<S> {
    pub(super) fn new(finish: Finish, kind: DataType) -> Single<S> {
        Single { finish, kind, total: TotalOf::<S>::default(), count: 0 }
    }

    fn check(&self, is_bad: bool) -> Result<()> {
        match is_bad {
            true => Err(to_datafusion(total_out_of_range(self.finish, &self.kind))),
            false => Ok(()),
        }
    }
}

/// Adds the values that are not NULL; whether that left the type.
fn add_all<S: Summand>(total: &mut TotalOf<S>, values: &PrimitiveArray<S>) -> bool {
    let mut is_bad = false;
    match values.nulls().filter(|nulls| nulls.null_count() > 0) {
        None => values.values().iter().for_each(|value| is_bad |= total.add(S::widen(*value))),
        Some(nulls) => {
            nulls.valid_indices().for_each(|row| is_bad |= total.add(S::widen(values.value(row))));
        }
    }
    is_bad
}

/// What the rest of the plan sees of `count` values that add up to `total`.
fn finished<S: Summand>(finish: Finish, kind: &DataType, total: TotalOf<S>, count: u64) -> Result<ScalarValue> {
    match (finish, count) {
        (Finish::Average, 0) => Ok(ScalarValue::Float64(None)),
        (Finish::Average, _) => Ok(ScalarValue::Float64(Some(total.divided(count, scale_of(kind))))),
        (Finish::Sum, _) => total_scalar::<S>(finish, kind, total.shown(), count),
    }
}

fn total_scalar<S: Summand>(finish: Finish, kind: &DataType, total: TotalOf<S>, count: u64) -> Result<ScalarValue> {
    let nulls = (count == 0).then(|| arrow::buffer::NullBuffer::new_null(1));
    let array = total_array::<S>(vec![total], nulls, finish, kind).map_err(to_datafusion)?;
    ScalarValue::try_from_array(&array, 0)
}

impl<S: Summand> Accumulator for Single<S> {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let values = values[0].as_primitive::<S>();
        self.count += (values.len() - values.null_count()) as u64;
        let is_bad = add_all(&mut self.total, values);
        self.check(is_bad)
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let values = values[0].as_primitive::<S>();
        self.count -= (values.len() - values.null_count()) as u64;
        let mut is_bad = false;
        for value in values.iter().flatten() {
            is_bad |= self.total.take(S::widen(value));
        }
        self.check(is_bad)
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let totals = states[0].as_primitive::<S::Total>();
        let mut is_bad = false;
        for total in totals.iter().flatten() {
            is_bad |= self.total.add(total);
        }
        self.count += match self.finish {
            Finish::Sum => (totals.len() - totals.null_count()) as u64,
            Finish::Average => states[1].as_primitive::<UInt64Type>().iter().flatten().sum::<u64>(),
        };
        self.check(is_bad)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let total = total_scalar::<S>(self.finish, &self.kind, self.total, self.count)?;
        Ok(match self.finish {
            Finish::Sum => vec![total],
            Finish::Average => vec![total, ScalarValue::UInt64(Some(self.count))],
        })
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        finished::<S>(self.finish, &self.kind, self.total, self.count)
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }
}

/// The total of a window of floats that moves: rows come at one end and go at the other.
///
/// Two stacks, back to back. New values are pushed on `arrived` and added to its sum. Values leave from `leaving`, where
/// each is kept with the sum of itself and all that leave after it; when it runs empty, the arrived ones are turned
/// over into it. So every value is added twice and none is ever subtracted, which would lose what a large value has
/// rounded away, and an infinity could never leave.
#[derive(Debug)]
pub(super) struct Moving<S: Summand> {
    finish: Finish,
    kind: DataType,
    arrived: VecDeque<Option<TotalOf<S>>>,
    arrived_sum: TotalOf<S>,
    leaving: Vec<(Option<TotalOf<S>>, TotalOf<S>)>,
    count: u64,
}

impl<S: Summand> Moving<S> {
    pub(super) fn new(finish: Finish, kind: DataType) -> Moving<S> {
        Moving {
            finish,
            kind,
            arrived: VecDeque::new(),
            arrived_sum: TotalOf::<S>::default(),
            leaving: Vec::new(),
            count: 0,
        }
    }

    fn leave(&mut self) {
        if self.leaving.is_empty() {
            let mut sum = TotalOf::<S>::default();
            while let Some(value) = self.arrived.pop_back() {
                // Floats do not leave their type.
                let _ = value.is_some_and(|value| sum.add(value));
                self.leaving.push((value, sum));
            }
            self.arrived_sum = TotalOf::<S>::default();
        }
        if let Some((Some(_), _)) = self.leaving.pop() {
            self.count -= 1;
        }
    }
}

impl<S: Summand> Accumulator for Moving<S> {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        for value in values[0].as_primitive::<S>().iter() {
            let value = value.map(S::widen);
            if let Some(value) = value {
                let _ = self.arrived_sum.add(value);
                self.count += 1;
            }
            self.arrived.push_back(value);
        }
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        (0..values[0].len()).for_each(|_| self.leave());
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn merge_batch(&mut self, _states: &[ArrayRef]) -> Result<()> {
        datafusion::common::internal_err!("a window is computed whole")
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        datafusion::common::internal_err!("a window is computed whole")
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let mut total = self.leaving.last().map_or(TotalOf::<S>::default(), |(_, sum)| *sum);
        let _ = total.add(self.arrived_sum);
        finished::<S>(self.finish, &self.kind, total, self.count)
    }

    fn size(&self) -> usize {
        size_of_val(self)
            + self.arrived.capacity() * size_of::<Option<TotalOf<S>>>()
            + self.leaving.capacity() * size_of::<(Option<TotalOf<S>>, TotalOf<S>)>()
    }
}
