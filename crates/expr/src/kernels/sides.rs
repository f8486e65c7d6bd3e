//! The two sides of an operator, each a column or a constant, and a loop over them.

use arrow::array::{Array, AsArray};
use arrow::buffer::NullBuffer;
use arrow::datatypes::ArrowPrimitiveType;
use rowmill_base::{Error, Result};
use rowmill_plan::Operand;

/// The values of one side.
#[derive(Clone, Copy)]
pub(super) enum OperandSide<'a, T> {
    Column(&'a [T]),
    Constant(T),
}

impl<T: Copy> OperandSide<'_, T> {
    #[inline]
    fn at(self, row: usize) -> T {
        match self {
            OperandSide::Column(values) => values[row],
            OperandSide::Constant(value) => value,
        }
    }
}

/// Both sides, with the NULL rows of either.
pub(super) struct Sides<'a, T> {
    pub(super) left: OperandSide<'a, T>,
    pub(super) right: OperandSide<'a, T>,
    pub(super) rows: usize,
    pub(super) nulls: Option<NullBuffer>,
}

impl<T: Copy> Sides<'_, T> {
    /// Applies `op` to every row, including NULL rows.
    #[inline]
    pub(super) fn map<O>(&self, mut op: impl FnMut(T, T) -> O) -> Vec<O> {
        match (self.left, self.right) {
            // The match is outside of the loops, so that each loop is simple enough to vectorise.
            (OperandSide::Column(left), OperandSide::Column(right)) => {
                left.iter().zip(right).map(|(l, r)| op(*l, *r)).collect()
            }
            (OperandSide::Column(left), OperandSide::Constant(right)) => left.iter().map(|l| op(*l, right)).collect(),
            (OperandSide::Constant(left), OperandSide::Column(right)) => right.iter().map(|r| op(left, *r)).collect(),
            (OperandSide::Constant(left), OperandSide::Constant(right)) => {
                (0..self.rows).map(|_| op(left, right)).collect()
            }
        }
    }

    /// Returns the first row without NULL for which `is_wanted` holds.
    pub(super) fn find(&self, is_wanted: impl Fn(T, T) -> bool) -> Option<(T, T)> {
        (0..self.rows)
            .filter(|row| self.nulls.as_ref().is_none_or(|nulls| nulls.is_valid(*row)))
            .map(|row| (self.left.at(row), self.right.at(row)))
            .find(|(left, right)| is_wanted(*left, *right))
    }
}

/// Reads both operands as primitive values of `T`.
pub(super) fn sides<'a, T: ArrowPrimitiveType>(
    left: &'a Operand,
    right: &'a Operand,
    rows: usize,
) -> Result<Sides<'a, T::Native>> {
    Ok(Sides { left: side::<T>(left)?, right: side::<T>(right)?, rows, nulls: joint_nulls(left, right, rows) })
}

fn side<T: ArrowPrimitiveType>(operand: &Operand) -> Result<OperandSide<'_, T::Native>> {
    let Some(array) = operand.values.as_primitive_opt::<T>() else {
        return Err(Error::internal(format!("an operand of type {}", operand.values.data_type())));
    };
    Ok(if operand.is_constant { OperandSide::Constant(array.value(0)) } else { OperandSide::Column(array.values()) })
}

/// Returns the rows in which either operand is NULL.
pub(super) fn joint_nulls(left: &Operand, right: &Operand, rows: usize) -> Option<NullBuffer> {
    NullBuffer::union(operand_nulls(left, rows).as_ref(), operand_nulls(right, rows).as_ref())
}

/// Returns the rows in which an operand is NULL.
pub(super) fn operand_nulls(operand: &Operand, rows: usize) -> Option<NullBuffer> {
    match operand.is_constant {
        true => operand.values.logical_nulls().filter(|nulls| nulls.is_null(0)).map(|_| NullBuffer::new_null(rows)),
        false => operand.values.logical_nulls(),
    }
}
