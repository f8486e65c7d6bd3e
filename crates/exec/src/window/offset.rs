//! Numbers that calls and frames read: one number for all rows, or one number for each row.

use arrow::array::{ArrayRef, AsArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type};
use rowmill_base::{Error, ErrorKind, Result};
use rowmill_plan::FrameOffset;

use super::evaluate::Evaluation;
use super::failed;

/// An offset for the rows of some partitions.
#[derive(Debug)]
pub(super) enum Offsets<T> {
    /// One number for all rows.
    Constant(T),
    /// One number for each row, by position.
    PerRow(Vec<T>),
}

impl<T: Copy> Offsets<T> {
    #[inline(always)]
    pub(super) fn get(&self, position: usize) -> T {
        match self {
            Offsets::Constant(value) => *value,
            Offsets::PerRow(values) => values[position],
        }
    }
}

/// Returns the values of an offset as an array, and whether it is one value for all rows.
pub(super) fn offset_values(offset: &FrameOffset, evaluation: &Evaluation<'_>) -> Result<(ArrayRef, bool)> {
    Ok(match offset {
        FrameOffset::Constant(constant) => (ArrayRef::clone(constant.array()), true),
        FrameOffset::Column(column) => (evaluation.column(*column)?, false),
    })
}

/// Returns the values of an integer offset. `None` stands for NULL.
pub(super) fn integers(offset: &FrameOffset, evaluation: &Evaluation<'_>) -> Result<Offsets<Option<i64>>> {
    let (values, is_constant) = offset_values(offset, evaluation)?;
    let values = cast(&values, &DataType::Int64).map_err(failed)?;
    let mut values = values.as_primitive::<Int64Type>().iter();
    Ok(match is_constant {
        true => Offsets::Constant(values.next().flatten()),
        false => Offsets::PerRow(values.collect()),
    })
}

/// Returns the distance from a row to a frame bound, in rows or groups of peers.
pub(super) fn distances(offset: &FrameOffset, evaluation: &Evaluation<'_>) -> Result<Offsets<usize>> {
    let distance = |value: Option<i64>| match value {
        None => Err(null_offset()),
        Some(value) => usize::try_from(value).map_err(|_| negative_offset(&value.to_string())),
    };
    Ok(match integers(offset, evaluation)? {
        Offsets::Constant(value) => Offsets::Constant(distance(value)?),
        Offsets::PerRow(values) => Offsets::PerRow(values.into_iter().map(distance).collect::<Result<_>>()?),
    })
}

pub(super) fn null_offset() -> Error {
    Error::new(ErrorKind::InvalidParameter, "the offset of a window frame is NULL")
        .hint("use coalesce(offset, 0), or UNBOUNDED")
}

pub(super) fn negative_offset(shown: &str) -> Error {
    Error::new(
        ErrorKind::InvalidParameter,
        format!("the offset of a window frame is {shown}, but it must not be negative"),
    )
    .hint("PRECEDING and FOLLOWING say the direction")
}
