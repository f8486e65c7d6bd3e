//! The order of groups by an aggregate, read from their cells.

use arrow::array::{Array, ArrayRef};
use rowmill_base::{Error, Result};
use rowmill_plan::AggregateRole;

use super::finish::Finished;
use super::text::text_at;
use super::{AggregateOutput, BitOrder, Operation, States, wide_number};
use crate::aggregate::CellResult;
use crate::group::bits::{Bits, bits_of, width_of};
use crate::group::rank::{Rank, float_rank, text_rank};
use crate::group::texts::TextStore;

impl States {
    /// Whether groups of equal rank are also equal in the aggregate. `None` if the aggregate has no rank.
    pub(in crate::group) fn has_exact_ranks(&self, aggregate: usize) -> Option<bool> {
        match &self.outputs[aggregate] {
            AggregateOutput::Cells(output) => {
                let is_of_texts = output.value.is_some_and(|value| self.cells[value].operation.is_of_texts());
                Some(!is_of_texts && output.result.is_none_or(CellResult::has_exact_ranks))
            }
            AggregateOutput::Log(log, number) => width_of(self.logs[*log].kind_of(*number)).map(|width| width <= 64),
        }
    }

    /// The log of an aggregate and its number there, if it has one.
    pub(in crate::group) fn logged(&self, aggregate: usize) -> Option<(usize, usize)> {
        match self.outputs[aggregate] {
            AggregateOutput::Log(log, number) => Some((log, number)),
            AggregateOutput::Cells(_) => None,
        }
    }

    /// Appends the rank of each group by an aggregate that is read from cells.
    pub(in crate::group) fn ranks(
        &self,
        aggregate: usize,
        groups: Finished<'_>,
        rank: Rank,
        texts: &TextStore,
        ranks: &mut Vec<i128>,
    ) -> Result<()> {
        let AggregateOutput::Cells(output) = &self.outputs[aggregate] else {
            return Err(Error::internal("an aggregate of a log has no cells"));
        };
        let count = output.count.map(|count| self.cells[count].offset + groups.at);
        let rows = groups.rows.chunks_exact(groups.stride);
        let Some(value) = output.value.map(|value| &self.cells[value]) else {
            let count = count.unwrap_or_default();
            ranks.extend(rows.map(|row| rank.of(row[count].into())));
            return Ok(());
        };
        let at = groups.at + value.offset;
        let is_null = |row: &[u64]| count.is_some_and(|count| row[count] == 0);
        if output.aggregate.function.role == AggregateRole::Average {
            let (average, count) = (output.average(value), count.unwrap_or_default());
            for row in rows {
                ranks.push(match row[count] {
                    0 => rank.of_null(),
                    rows => rank.of(float_rank(average(&row[at..], rows)?)),
                });
            }
            return Ok(());
        }
        if let Some(result) = output.result {
            let kind = &output.aggregate.kind;
            let of = |row: &[u64]| if is_null(row) { rank.of_null() } else { result.rank(&row[at..], kind, rank) };
            ranks.extend(rows.map(of));
            return Ok(());
        }
        if value.operation.is_of_texts() {
            ranks.extend(rows.map(|row| match text_at(row, at) {
                Some(text) => rank.of(text_rank(texts.bytes(text, &mut [0; 16]))),
                None => rank.of_null(),
            }));
            return Ok(());
        }
        // A shifted total needs its count, and may fail here.
        for row in rows {
            let count = count.map_or(0, |count| row[count]);
            ranks.push(match is_null(row) {
                true => rank.of_null(),
                false => rank.of(output.total(value, &row[at..], count)?),
            });
        }
        Ok(())
    }

    /// Returns an error if a total does not fit its type. Some totals can be checked only at the end.
    pub(in crate::group) fn check_totals(&self, groups: Finished<'_>) -> Result<()> {
        for output in &self.outputs {
            let AggregateOutput::Cells(output) = output else { continue };
            let Some(value) = output.value.map(|value| &self.cells[value]) else { continue };
            // Other totals were checked whenever a number was added.
            if value.operation == Operation::SumWide || (value.operation.is_total() && output.shift != 0) {
                let (at, count) = (groups.at + value.offset, output.count.map(|count| self.cells[count].offset));
                for row in groups.rows.chunks_exact(groups.stride) {
                    output.total(value, &row[at..], count.map_or(0, |count| row[groups.at + count]))?;
                }
            }
        }
        Ok(())
    }
}

/// Appends the ranks of values of a fixed size.
pub(in crate::group) fn ranks_of(values: &ArrayRef, rank: Rank, ranks: &mut Vec<i128>) -> Result<()> {
    let is_null = |place: usize| values.is_null(place);
    let of = |place: usize, number: i128| if is_null(place) { rank.of_null() } else { rank.of(number) };
    match bits_of(values)? {
        Bits::Narrow { numbers, width } => {
            let order = BitOrder::of(values.data_type(), width);
            ranks.extend(numbers.iter().enumerate().map(|(place, bits)| of(place, order.number(*bits).into())));
        }
        Bits::Wide(numbers) => {
            let number = |bits: u128| wide_number(values.data_type(), bits) >> 1;
            ranks.extend(numbers.iter().enumerate().map(|(place, bits)| of(place, number(*bits))));
        }
    }
    Ok(())
}
