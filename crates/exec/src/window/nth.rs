//! `first_value`, `last_value` and `nth_value`.

use std::ops::Range;

use arrow::array::Array;
use rowmill_base::{Error, ErrorKind, Result};
use rowmill_plan::FrameOffset;
use rowmill_plan::logical::FrameRow;

use super::evaluate::{Evaluation, ResultRow};
use super::frame::Frames;
use super::offset::{Offsets, integers};
use super::shift::ValidRows;

/// The row of a frame whose value a call returns.
pub(super) enum NthRow {
    First,
    Last,
    /// The number of the row, counted from 1. `None` if the number is NULL.
    Nth(Offsets<Option<usize>>),
}

impl NthRow {
    pub(super) fn new(row: &FrameRow<FrameOffset>, evaluation: &Evaluation<'_>) -> Result<NthRow> {
        let number = |number: Option<i64>| match number {
            None => Ok(None),
            Some(number) => match usize::try_from(number) {
                Ok(number @ 1..) => Ok(Some(number)),
                _ => Err(Error::new(
                    ErrorKind::InvalidParameter,
                    format!("nth_value is asked for row {number}, but rows are counted from 1"),
                )),
            },
        };
        Ok(match row {
            FrameRow::First => NthRow::First,
            FrameRow::Last => NthRow::Last,
            FrameRow::Nth(offset) => NthRow::Nth(match integers(offset, evaluation)? {
                Offsets::Constant(value) => Offsets::Constant(number(value)?),
                Offsets::PerRow(values) => Offsets::PerRow(values.into_iter().map(number).collect::<Result<_>>()?),
            }),
        })
    }

    /// Finds the row among the positions of `pieces`. `None` if there is none.
    pub(super) fn among(&self, position: usize, pieces: &[Range<usize>]) -> Option<usize> {
        match self {
            NthRow::First => pieces.iter().find(|piece| !piece.is_empty()).map(|piece| piece.start),
            NthRow::Last => pieces.iter().rev().find(|piece| !piece.is_empty()).map(|piece| piece.end - 1),
            NthRow::Nth(numbers) => {
                // Skip whole pieces until the wanted row is inside of one.
                let mut left = numbers.get(position)? - 1;
                for piece in pieces {
                    if left < piece.len() {
                        return Some(piece.start + left);
                    }
                    left -= piece.len();
                }
                None
            }
        }
    }
}

/// Finds the row of each row's frame whose value the call returns.
pub(super) fn nth_rows(
    column: usize,
    nth: &NthRow,
    skips_nulls: bool,
    frames: &Frames<'_>,
    evaluation: &Evaluation<'_>,
) -> Result<Vec<ResultRow>> {
    let rows = frames.rows;
    let valid = match skips_nulls {
        true => {
            let values = evaluation.column(column)?;
            Some(ValidRows::new(values.nulls(), rows.len()))
        }
        false => None,
    };
    // With IGNORE NULLS we count only rows with a value. Positions become numbers among these rows, and back.
    let found = |position: usize, pieces: &[Range<usize>]| match &valid {
        None => nth.among(position, pieces),
        Some(valid) => {
            let number = |at: usize| valid.before[at] as usize;
            let pieces: [Range<usize>; 3] = std::array::from_fn(|piece| match pieces.get(piece) {
                Some(piece) => number(piece.start)..number(piece.end),
                None => 0..0,
            });
            nth.among(position, &pieces).map(|number| valid.positions[number] as usize)
        }
    };
    let row = |found: Option<usize>| found.map_or(ResultRow::NONE, ResultRow::at);
    let mut results = Vec::with_capacity(rows.len());
    if frames.are_partitions() {
        for partition in rows.each_partition() {
            results.extend(partition.clone().map(|position| row(found(position, std::slice::from_ref(&partition)))));
        }
    } else {
        results.extend((0..rows.len()).map(|position| row(found(position, &frames.pieces(position)))));
    }
    Ok(results)
}
