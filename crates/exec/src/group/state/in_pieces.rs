//! Adds the rows of a block to cells piece by piece.

use rowmill_base::Result;
use rowmill_plan::Expr;

use super::add::Groups;
use super::{Operation, States};
use crate::aggregate::{Fold, SumNarrow, SumSigned};
use crate::group::pieces::WordPieces;
use crate::group::rows::PartRows;

/// Cells that take the rows of a block piece by piece.
pub(in crate::group) struct InPieces<'a> {
    pieces: WordPieces<'a>,
    /// The cells of totals, each with the number of the piece's value that it takes.
    totals: Vec<(usize, usize)>,
    /// The cells that count rows.
    counts: Vec<usize>,
}

impl InPieces<'_> {
    /// Whether a part is one of these cells.
    pub(in crate::group) fn has(&self, part: usize) -> bool {
        self.counts.contains(&part) || self.totals.iter().any(|(cell, _)| *cell == part)
    }
}

impl States {
    /// The cells that may take `rows` in pieces: counts of rows, and totals of arguments that are never NULL and whose
    /// total over one piece fits 64 bits. `None` if no total qualifies.
    pub(in crate::group) fn in_pieces<'a>(&self, rows: &'a PartRows<'a>) -> Result<Option<InPieces<'a>>> {
        // A row with a weight must be added several times, which pieces cannot do.
        if self.small_words.is_empty() || rows.weights().is_some() {
            return Ok(None);
        }
        let exprs: Vec<Expr> = self.small_words.iter().map(|argument| self.arguments[*argument].expr).collect();
        let pieces = rows.word_pieces(&exprs)?;
        let (mut totals, mut counts) = (Vec::new(), Vec::new());
        for (number, cell) in self.cells.iter().enumerate().filter(|(_, cell)| cell.mask.is_none()) {
            let argument = cell.operand.map(|operand| self.operands[operand].argument);
            let word = argument.and_then(|argument| self.small_words.iter().position(|word| *word == argument));
            match (cell.operation, word.and_then(|word| pieces.results[word])) {
                (Operation::SumNarrow | Operation::SumSigned, Some(result)) => totals.push((number, result)),
                (Operation::Count, _) if cell.operand.is_none() => counts.push(number),
                _ => {}
            }
        }
        Ok((!totals.is_empty()).then_some(InPieces { pieces, totals, counts }))
    }

    /// Adds rows to the cells that take them in pieces. `of_rows` has the group of each row among the groups of the
    /// block. `numbers` has the index of each of these groups in `groups`.
    pub(in crate::group) fn add_in_pieces(
        &self,
        InPieces { pieces, totals, counts }: &InPieces<'_>,
        of_rows: &[u32],
        numbers: &[u32],
        groups: &mut Groups<'_>,
    ) -> Result<()> {
        let mut totals_of_group = Vec::new();
        pieces.for_each(of_rows, numbers.len(), |by_group, values| {
            for (group, number) in numbers.iter().enumerate() {
                let rows = by_group.count(group);
                if rows == 0 {
                    continue;
                }
                counts.iter().for_each(|cell| groups.cell(*number, self.cells[*cell].offset)[0] += rows as u64);
                by_group.totals(group, values, &mut totals_of_group);
                for (cell, result) in totals {
                    let (cell, total) = (&self.cells[*cell], totals_of_group[*result]);
                    let words = groups.cell(*number, cell.offset);
                    let is_bad = match cell.operation {
                        Operation::SumSigned => take::<SumSigned>(words, total),
                        _ => take::<SumNarrow>(words, total),
                    };
                    if is_bad {
                        return Err(cell.total_out_of_range());
                    }
                }
            }
            Ok(())
        })
    }
}

/// Adds a total to a cell. Returns whether the cell's total left its type.
fn take<F: Fold<Number = i64>>(words: &mut [u64], total: i64) -> bool {
    let mut cell = F::load(words);
    let is_bad = cell.take(total);
    cell.store(words);
    is_bad
}
