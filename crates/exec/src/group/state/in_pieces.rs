//! Adds the rows of a block to cells piece by piece.

use rowmill_base::Result;
use rowmill_plan::Expr;

use super::add::{Beside, Grouped, Groups};
use super::{Operation, States};
use crate::aggregate::{Fold, SumNarrow, SumSigned};
use crate::group::pieces::{GROUPS_MAX, WordPieces};
use crate::group::rows::PartRows;

/// With fewer rows, adding them piece by piece by group takes longer than it saves.
const ROWS_IN_PIECES_MIN: usize = 1 << 8;

/// Cells that take the rows of a block piece by piece.
struct InPieces<'a> {
    pieces: WordPieces<'a>,
    /// The cells of totals, each with the number of the piece's value that it takes.
    totals: Vec<(usize, usize)>,
    /// The cells that count rows.
    counts: Vec<usize>,
}

impl InPieces<'_> {
    /// Whether a part is one of these cells.
    fn has(&self, part: usize) -> bool {
        self.counts.contains(&part) || self.totals.iter().any(|(cell, _)| *cell == part)
    }
}

impl States {
    /// Adds all rows of a block to their groups. `of_rows` makes the group of each row among the groups of the block.
    /// `numbers` has the index of each of these groups in `groups`.
    pub(in crate::group) fn add_rows(
        &self,
        rows: &PartRows<'_>,
        of_rows: impl FnOnce() -> Vec<u32>,
        numbers: &[u32],
        groups: &mut Groups<'_>,
        beside: &mut Beside,
    ) -> Result<()> {
        if self.parts() == 0 {
            return Ok(());
        }
        let in_pieces = match numbers.len() <= GROUPS_MAX && rows.len() >= ROWS_IN_PIECES_MIN {
            true => self.in_pieces(rows)?,
            false => None,
        };
        let rest = (0..self.parts()).filter(|part| in_pieces.as_ref().is_none_or(|in_pieces| !in_pieces.has(*part)));
        let mut of_rows = of_rows();
        if let Some(in_pieces) = &in_pieces {
            self.add_in_pieces(in_pieces, &of_rows, numbers, groups)?;
        }
        if rest.clone().next().is_none() {
            return Ok(());
        }
        of_rows.iter_mut().for_each(|group| *group = numbers[*group as usize]);
        self.add_parts(rest, rows, Some(&of_rows), groups, beside)
    }

    /// Adds rows to some parts of their groups, or of the only group. Computes what the parts take for some rows at a
    /// time, so that it stays in a core's cache.
    pub(in crate::group) fn add_parts(
        &self,
        parts: impl Iterator<Item = usize> + Clone,
        rows: &PartRows<'_>,
        of_rows: Option<&[u32]>,
        groups: &mut Groups<'_>,
        beside: &mut Beside,
    ) -> Result<()> {
        // A log takes all values of a block at once.
        let has_logs = parts.clone().any(|part| part >= self.cells.len());
        let exprs = parts.clone().flat_map(|part| self.reads(part));
        let at_once = if has_logs { rows.len() } else { rows.rows_at_once(exprs)? };
        if at_once >= rows.len() {
            let inputs = self.inputs(rows, parts.clone())?;
            let grouped = Grouped { rows: 0..rows.len(), groups: of_rows, weights: rows.weights() };
            return self.add(parts, &inputs, &grouped, groups, beside);
        }
        for start in (0..rows.len()).step_by(at_once) {
            let range = start..(start + at_once).min(rows.len());
            let inputs = self.inputs(&rows.slice(range.clone()), parts.clone())?;
            let of_rows = of_rows.map(|groups| &groups[range.clone()]);
            let grouped = Grouped { rows: 0..range.len(), groups: of_rows, weights: None };
            self.add(parts.clone(), &inputs, &grouped, groups, beside)?;
        }
        Ok(())
    }

    /// The cells that may take `rows` in pieces: counts of rows, and totals of arguments that are never NULL and whose
    /// total over one piece fits 64 bits. `None` if no total qualifies.
    fn in_pieces<'a>(&self, rows: &'a PartRows<'a>) -> Result<Option<InPieces<'a>>> {
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
    fn add_in_pieces(
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
