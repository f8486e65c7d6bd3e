//! The order of groups by an aggregate, read from their cells.

use rowmill_base::Result;
use rowmill_plan::AggregateFunction;

use super::finish::{Finished, i128_of};
use super::fold::{Fold, SumFloat};
use super::text::text_at;
use super::{Operation, States};
use crate::group::rank::{Rank, float_rank, text_rank};
use crate::group::texts::TextStore;

impl States {
    /// Appends the rank of each group by an aggregate.
    pub(in crate::group) fn ranks(
        &self,
        aggregate: usize,
        groups: Finished<'_>,
        rank: Rank,
        texts: &TextStore,
        ranks: &mut Vec<i128>,
    ) -> Result<()> {
        let output = &self.outputs[aggregate];
        let count = output.count.map(|count| self.cells[count].offset + groups.at);
        let rows = groups.rows.chunks_exact(groups.stride);
        let Some(value) = output.value.map(|value| &self.cells[value]) else {
            let count = count.unwrap_or_default();
            ranks.extend(rows.map(|row| rank.of(row[count].into())));
            return Ok(());
        };
        let at = groups.at + value.offset;
        let is_null = |row: &[u64]| count.is_some_and(|count| row[count] == 0);
        if output.aggregate.function == AggregateFunction::Average {
            let (average, count) = (output.average(value), count.unwrap_or_default());
            for row in rows {
                ranks.push(match row[count] {
                    0 => rank.of_null(),
                    rows => rank.of(float_rank(average(&row[at..], rows)?)),
                });
            }
            return Ok(());
        }
        let mut extend = |number: &dyn Fn(&[u64]) -> i128| {
            let of = |row: &[u64]| if is_null(row) { rank.of_null() } else { rank.of(number(&row[at..])) };
            ranks.extend(rows.clone().map(of));
        };
        match value.operation {
            Operation::LeastText | Operation::GreatestText => ranks.extend(rows.map(|row| match text_at(row, at) {
                Some(text) => rank.of(text_rank(texts.bytes(text, &mut [0; 16]))),
                None => rank.of_null(),
            })),
            Operation::SumFloat => extend(&|words| float_rank(SumFloat::load(words).total())),
            Operation::SumSigned | Operation::SumUnsigned | Operation::SumWide => extend(&i128_of),
            Operation::LeastWide | Operation::GreatestWide => extend(&|words| i128_of(words) >> 1),
            _ => extend(&|words| i128::from(words[0] as i64)),
        }
        Ok(())
    }

    /// Whether groups of one rank by an aggregate are equal in it.
    pub(in crate::group) fn is_exact_rank(&self, aggregate: usize) -> bool {
        let value = self.outputs[aggregate].value.map(|value| self.cells[value].operation);
        !value.is_some_and(|operation| operation.is_of_texts())
            && !matches!(value, Some(Operation::LeastWide | Operation::GreatestWide))
    }

    /// An error if some total does not fit its type, which is found out at the end only.
    pub(in crate::group) fn check_totals(&self, groups: Finished<'_>) -> Result<()> {
        for cell in self.cells.iter().filter(|cell| cell.operation == Operation::SumWide) {
            let at = groups.at + cell.offset;
            groups.rows.chunks_exact(groups.stride).try_for_each(|row| cell.total(&row[at..]).map(drop))?;
        }
        Ok(())
    }
}
