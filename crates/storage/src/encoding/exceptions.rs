//! Rows whose value does not fit the form of the other rows. Their rows and their values are two sequences beside that
//! form, in which such a row has an arbitrary value.

use rowmill_base::{Error, Result};

use crate::chunk::{Chunk, DecodedRows, NewSection, SectionKind};
use crate::row_mask::RowMask;
use crate::sequence::{self, Ints, SortedCursor, Word};

/// Encodes exceptions. The rows must ascend. `values` are their values as a sequence.
pub(super) fn encode(rows: &[u32], values: Vec<u8>) -> [NewSection; 2] {
    let count = rows.len();
    [
        NewSection { kind: SectionKind::ExceptionRows, count, bytes: sequence::encode(rows) },
        NewSection { kind: SectionKind::ExceptionValues, count, bytes: values },
    ]
}

/// The stored exceptions of a chunk.
#[derive(Clone, Copy)]
pub(super) struct Exceptions<'a> {
    rows: Ints<'a>,
    values: Ints<'a>,
}

impl<'a> Exceptions<'a> {
    pub(super) fn open(chunk: &'a Chunk) -> Result<Exceptions<'a>> {
        let (rows, values) = (chunk.ints(SectionKind::ExceptionRows)?, chunk.ints(SectionKind::ExceptionValues)?);
        match rows.len() == values.len() {
            true => Ok(Exceptions { rows, values }),
            false => Err(Error::corrupt(format!(
                "byte 64 of the chunk: {} exceptions have {} values",
                rows.len(),
                values.len()
            ))),
        }
    }

    /// Checks that the rows ascend and exist. Readers search them.
    pub(super) fn check(&self, rows: usize) -> Result<()> {
        let stored = self.rows.read::<u32>(0..self.rows.len())?;
        let exist = stored.last().is_none_or(|last| (*last as usize) < rows);
        match exist && stored.is_sorted_by(|a, b| a < b) {
            true => Ok(()),
            false => Err(Error::corrupt(format!("the rows of exceptions do not ascend within {rows} rows"))),
        }
    }

    /// Calls `each` with the place among `rows` and the stored value of each exception, in order.
    pub(super) fn for_each_of<W: Word>(&self, rows: DecodedRows<'_>, mut each: impl FnMut(usize, W)) -> Result<()> {
        let (first, end) = match rows {
            DecodedRows::Range(range) if !range.is_empty() => (range.start, range.end),
            DecodedRows::List([first, .., last] | [first @ last]) => (*first as usize, *last as usize + 1),
            _ => return Ok(()),
        };
        let mut cursor = SortedCursor::new(self.rows);
        // The places after all exceptions before the rows, and after all exceptions up to the last row.
        let before = if first == 0 { 0 } else { cursor.at_most(first as u32 - 1)?.0 };
        let behind = cursor.at_most(end as u32 - 1)?.0.max(before);
        if before == behind {
            return Ok(());
        }
        match rows {
            DecodedRows::List(rows) if rows.len() < behind - before => self.look_up(rows, each),
            _ => {
                let values = self.values.read::<W>(before..behind)?;
                let mut left = RowsLeft::of(rows);
                for (row, value) in self.rows.read::<u32>(before..behind)?.into_iter().zip(values) {
                    if let Some(place) = left.place(row) {
                        each(place, value);
                    }
                }
                Ok(())
            }
        }
    }

    /// Decides the exceptions among the rows of `before`: `mask` has a row exactly if `is_in` is true for its value.
    pub(super) fn correct<W: Word>(
        &self,
        before: &RowMask,
        mask: &mut RowMask,
        is_in: impl Fn(W) -> bool,
    ) -> Result<()> {
        let rows = before.rows();
        self.for_each_of(DecodedRows::Range(&rows), |place, value| {
            let row = rows.start + place;
            if before.contains(row) {
                match is_in(value) {
                    true => mask.insert(row),
                    false => mask.remove(row),
                }
            }
        })
    }

    /// Looks up each of `rows`, like [`Exceptions::for_each_of`]. For fewer rows than exceptions between them.
    pub(super) fn look_up<W: Word>(&self, rows: &[u32], mut each: impl FnMut(usize, W)) -> Result<()> {
        let mut cursor = SortedCursor::new(self.rows);
        let (mut places, mut entries) = (Vec::new(), Vec::new());
        for (place, row) in rows.iter().enumerate() {
            let (behind, last) = cursor.at_most(*row)?;
            if last == Some(*row) {
                places.push(place);
                entries.push(behind as u32 - 1);
            }
        }
        let mut places = places.into_iter();
        // Damaged rows of exceptions may repeat, and so may the entries.
        self.values.gather_repeated(&entries, |values| values.iter().zip(&mut places).for_each(|(v, p)| each(p, *v)))
    }
}

/// The rows that may still be exceptions, while the exceptions ascend.
enum RowsLeft<'a> {
    Range { start: usize, end: usize },
    List { rows: &'a [u32], passed: usize },
}

impl<'a> RowsLeft<'a> {
    fn of(rows: DecodedRows<'a>) -> RowsLeft<'a> {
        match rows {
            DecodedRows::Range(range) => RowsLeft::Range { start: range.start, end: range.end },
            DecodedRows::List(rows) => RowsLeft::List { rows, passed: 0 },
        }
    }

    /// The place of `row` among the rows, if it is one of them. Passes over all rows before it.
    fn place(&mut self, row: u32) -> Option<usize> {
        match self {
            // Damaged exceptions may not ascend, so each is checked.
            RowsLeft::Range { start, end } => {
                let row = row as usize;
                (*start <= row && row < *end).then(|| row - *start)
            }
            RowsLeft::List { rows, passed } => {
                let before = count_below(&rows[*passed..], row);
                *passed += before;
                (rows.get(*passed) == Some(&row)).then_some(*passed)
            }
        }
    }
}

/// The number of `rows` below `row`. They ascend, and the result is usually small, so we double before we halve.
fn count_below(rows: &[u32], row: u32) -> usize {
    let mut step = 1;
    while step < rows.len() && rows[step - 1] < row {
        step *= 2;
    }
    let (known, end) = (step / 2, step.min(rows.len()));
    known + rows[known..end].partition_point(|listed| *listed < row)
}
