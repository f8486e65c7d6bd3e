//! `lag` and `lead`.

use arrow::array::Array;
use arrow::buffer::NullBuffer;
use rowmill_base::Result;
use rowmill_plan::FrameOffset;

use super::evaluate::{Evaluation, ResultRow};
use super::offset::{Offsets, integers};

/// The positions of rows with a value, and for each position the number of such rows before it.
pub(super) struct ValidRows {
    pub(super) positions: Vec<u32>,
    pub(super) before: Vec<u32>,
}

impl ValidRows {
    /// Collects the rows that are not NULL among `rows` rows.
    pub(super) fn new(nulls: Option<&NullBuffer>, rows: usize) -> ValidRows {
        let mut valid = ValidRows { positions: Vec::with_capacity(rows), before: Vec::with_capacity(rows + 1) };
        for position in 0..rows {
            valid.before.push(valid.positions.len() as u32);
            if nulls.is_none_or(|nulls| nulls.is_valid(position)) {
                valid.positions.push(position as u32);
            }
        }
        valid.before.push(valid.positions.len() as u32);
        valid
    }
}

/// Finds for each row the row whose value `lag` or `lead` returns. Without `offset` it is one row away.
pub(super) fn shifted(
    column: usize,
    offset: Option<&FrameOffset>,
    forward: bool,
    has_default: bool,
    skips_nulls: bool,
    evaluation: &Evaluation<'_>,
) -> Result<Vec<ResultRow>> {
    let rows = evaluation.rows;
    let missing = if has_default { ResultRow::DEFAULT } else { ResultRow::NONE };
    let offsets = match offset {
        Some(offset) => integers(offset, evaluation)?,
        // LAG and LEAD move by one row by default.
        None => Offsets::Constant(Some(1)),
    };
    let mut found = Vec::with_capacity(rows.len());
    if !skips_nulls {
        for partition in rows.each_partition() {
            let (start, end) = (partition.start as i64, partition.end as i64);
            found.extend(partition.map(|position| {
                let Some(offset) = offsets.get(position) else { return ResultRow::NONE };
                let at = match forward {
                    true => (position as i64).saturating_add(offset),
                    false => (position as i64).saturating_sub(offset),
                };
                if (start..end).contains(&at) { ResultRow::at(at as usize) } else { missing }
            }));
        }
        return Ok(found);
    }
    // With IGNORE NULLS we count only rows with a value, so offsets are steps among their numbers.
    let values = evaluation.column(column)?;
    let valid = ValidRows::new(values.nulls(), rows.len());
    for partition in rows.each_partition() {
        let (first, end) = (i64::from(valid.before[partition.start]), i64::from(valid.before[partition.end]));
        found.extend(partition.map(|position| {
            let Some(offset) = offsets.get(position) else { return ResultRow::NONE };
            let offset = if forward { offset } else { offset.saturating_neg() };
            // Offset -1 is the last value before the row, and offset 1 is the first value after it.
            let number = match offset {
                0 => return ResultRow::at(position),
                1.. => i64::from(valid.before[position + 1]).saturating_add(offset - 1),
                _ => i64::from(valid.before[position]).saturating_add(offset),
            };
            match (first..end).contains(&number) {
                true => ResultRow::at(valid.positions[number as usize] as usize),
                false => missing,
            }
        }));
    }
    Ok(found)
}
