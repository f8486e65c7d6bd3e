//! Turns cells into the columns of a result.

use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Array, Int64Array};
use arrow::buffer::NullBuffer;
use arrow::datatypes::DataType;
use rowmill_base::{Error, Result};
use rowmill_plan::AggregateRole;

use super::text::text_at;
use super::{AggregateOutput, CellOutput, Operation, StateCell, States};
use crate::aggregate::{Fold, SumFloat, i128_of, shown};
use crate::group::bits::array_of;
use crate::group::texts::TextStore;
use crate::quotient;

/// Decimals and sums have at most this number of digits.
const DIGITS_MAX: u32 = 38;

/// Groups whose aggregates become columns: rows of `stride` words, with the words of the aggregates at `at`.
#[derive(Clone, Copy)]
pub(in crate::group) struct Finished<'a> {
    pub(in crate::group) rows: &'a [u64],
    pub(in crate::group) stride: usize,
    pub(in crate::group) at: usize,
}

impl<'a> Finished<'a> {
    /// The words of a cell, by group.
    fn cells(self, cell: &StateCell) -> impl Iterator<Item = &'a [u64]> + Clone + use<'a> {
        let at = self.at + cell.offset;
        self.rows.chunks_exact(self.stride).map(move |row| &row[at..])
    }
}

impl States {
    /// The columns of the aggregates. `logged` has the columns that were computed from logs.
    pub(in crate::group) fn finish(
        &self,
        groups: Finished<'_>,
        logged: &[Vec<ArrayRef>],
        texts: &TextStore,
    ) -> Result<Vec<ArrayRef>> {
        let of = |output: &AggregateOutput| match output {
            AggregateOutput::Cells(output) => self.column(output, groups, texts),
            AggregateOutput::Log(log, number) => Ok(Arc::clone(&logged[*log][*number])),
        };
        self.outputs.iter().map(of).collect()
    }

    fn column(&self, output: &CellOutput, groups: Finished<'_>, texts: &TextStore) -> Result<ArrayRef> {
        let counts = output.count.map(|count| groups.cells(&self.cells[count]).map(|words| words[0]));
        let Some(value) = output.value.map(|value| &self.cells[value]) else {
            let Some(counts) = counts else { return Err(Error::internal("an aggregate has no cells")) };
            return Ok(Arc::new(Int64Array::from_iter_values(counts.map(|count| count as i64))));
        };
        let (kind, cells) = (&output.aggregate.kind, groups.cells(value));
        if value.operation.is_of_texts() {
            let views = cells.map(|words| text_at(words, 0));
            let nulls = some_null(NullBuffer::from_iter(views.clone().map(|view| view.is_some())));
            return texts.array(kind, views.map(Option::unwrap_or_default), nulls);
        }
        // A group without values has NULL, not the initial content of its cell.
        let nulls = counts.clone().and_then(|counts| some_null(NullBuffer::from_iter(counts.map(|count| count > 0))));
        if output.aggregate.function.role == AggregateRole::Average {
            let Some(counts) = counts else { return Err(Error::internal("an average without a count")) };
            let average = output.average(value);
            let averages =
                cells.zip(counts).map(|(words, count)| if count == 0 { Ok(0.0) } else { average(words, count) });
            return Ok(Arc::new(Float64Array::new(averages.collect::<Result<Vec<_>>>()?.into(), nulls)));
        }
        if let Some(result) = output.result {
            return result.column(cells, nulls, kind);
        }
        if value.operation == Operation::SumNarrow && output.shift == 0 {
            // A total of one word fits the type of every total.
            return array_of(kind, cells.map(|words| i128::from(words[0] as i64) as u128), nulls);
        }
        let counts = counts.map(|counts| counts.collect::<Vec<_>>());
        let count = |group: usize| counts.as_ref().map_or(0, |counts| counts[group]);
        let totals = cells.enumerate().map(|(group, words)| output.total(value, words, count(group)));
        let totals = totals.collect::<Result<Vec<_>>>()?;
        array_of(kind, totals.into_iter().map(|total| total as u128), nulls)
    }
}

impl CellOutput {
    /// Returns the function that makes an average of the words of a total and a count.
    pub(super) fn average(&self, value: &StateCell) -> impl Fn(&[u64], u64) -> Result<f64> {
        let scale = match self.aggregate.argument {
            Some((_, DataType::Decimal128(_, scale))) => scale,
            _ => 0,
        };
        move |words, count| match value.operation {
            Operation::Fold(_) => Ok(shown(SumFloat::load(words).total() / count as f64)),
            _ => Ok(quotient::average(self.total(value, words, count)?, count, scale)),
        }
    }

    /// A total of integers or decimals. Returns an error if the type of the result cannot hold it.
    pub(super) fn total(&self, value: &StateCell, words: &[u64], count: u64) -> Result<i128> {
        let total = match value.operation {
            Operation::SumNarrow => i128::from(words[0] as i64),
            _ => i128_of(words),
        };
        // A shifted total is over the column alone: add the constant once per value.
        let total = self.shift.checked_mul(count.into()).and_then(|shift| total.checked_add(shift));
        let fits = |total: &i128| match self.aggregate.kind {
            DataType::Int64 => i64::try_from(*total).is_ok(),
            _ => total.unsigned_abs() < 10_u128.pow(DIGITS_MAX),
        };
        total.filter(fits).ok_or_else(|| value.total_out_of_range())
    }
}

fn some_null(nulls: NullBuffer) -> Option<NullBuffer> {
    Some(nulls).filter(|nulls| nulls.null_count() > 0)
}
