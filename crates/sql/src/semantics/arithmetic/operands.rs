//! The two sides of an operator, each a column or a constant, and one loop over them.

use arrow::array::{Array, ArrowPrimitiveType, AsArray, PrimitiveArray};
use arrow::buffer::NullBuffer;
use datafusion::common::ScalarValue;
use datafusion::logical_expr::ColumnarValue;
use rowmill_base::{Error, Result};

/// The values of one operand.
#[derive(Clone, Copy)]
pub(super) enum Values<'a, T> {
    Column(&'a [T]),
    Constant(T),
}

impl<T: Copy> Values<'_, T> {
    pub(super) fn at(&self, row: usize) -> T {
        match self {
            Values::Column(values) => values[row],
            Values::Constant(value) => *value,
        }
    }
}

/// Both operands as columns of `T`, with the rows in which neither is NULL.
pub(super) struct Operands<T: ArrowPrimitiveType> {
    left: PrimitiveArray<T>,
    right: PrimitiveArray<T>,
    left_constant: bool,
    right_constant: bool,
    rows: usize,
    nulls: Option<NullBuffer>,
}

impl<T: ArrowPrimitiveType> Operands<T> {
    pub(super) fn new(left: &ColumnarValue, right: &ColumnarValue, rows: usize) -> Result<Operands<T>> {
        let (left, left_constant) = side::<T>(left)?;
        let (right, right_constant) = side::<T>(right)?;
        let nulls = NullBuffer::union(
            spread(&left, left_constant, rows).as_ref(),
            spread(&right, right_constant, rows).as_ref(),
        );
        Ok(Operands { left, right, left_constant, right_constant, rows, nulls })
    }

    pub(super) fn left(&self) -> Values<'_, T::Native> {
        values(&self.left, self.left_constant)
    }

    pub(super) fn right(&self) -> Values<'_, T::Native> {
        values(&self.right, self.right_constant)
    }

    pub(super) fn nulls(&self) -> Option<NullBuffer> {
        self.nulls.clone()
    }

    /// `op` of every row, NULL rows included.
    pub(super) fn map<O>(&self, op: impl FnMut(T::Native, T::Native) -> O) -> Vec<O> {
        map(self.left(), self.right(), self.rows, op)
    }

    /// The first row without NULL for which `is_bad` holds.
    pub(super) fn find(&self, is_bad: impl Fn(T::Native, T::Native) -> bool) -> Option<(T::Native, T::Native)> {
        (0..self.rows)
            .filter(|row| self.nulls.as_ref().is_none_or(|nulls| nulls.is_valid(*row)))
            .map(|row| (self.left().at(row), self.right().at(row)))
            .find(|(left, right)| is_bad(*left, *right))
    }
}

fn map<T: Copy, O>(left: Values<'_, T>, right: Values<'_, T>, rows: usize, mut op: impl FnMut(T, T) -> O) -> Vec<O> {
    match (left, right) {
        (Values::Column(left), Values::Column(right)) => left.iter().zip(right).map(|(l, r)| op(*l, *r)).collect(),
        (Values::Column(left), Values::Constant(right)) => left.iter().map(|l| op(*l, right)).collect(),
        (Values::Constant(left), Values::Column(right)) => right.iter().map(|r| op(left, *r)).collect(),
        (Values::Constant(left), Values::Constant(right)) => (0..rows).map(|_| op(left, right)).collect(),
    }
}

fn side<T: ArrowPrimitiveType>(operand: &ColumnarValue) -> Result<(PrimitiveArray<T>, bool)> {
    let (array, constant) = match operand {
        ColumnarValue::Array(array) => (array.clone(), false),
        ColumnarValue::Scalar(value) => (constant_array(value)?, true),
    };
    match array.as_primitive_opt::<T>() {
        Some(values) => Ok((values.clone(), constant)),
        None => Err(Error::internal(format!("an operand of type {}", array.data_type()))),
    }
}

fn constant_array(value: &ScalarValue) -> Result<arrow::array::ArrayRef> {
    value.to_array().map_err(|error| Error::internal(error.to_string()))
}

fn values<T: ArrowPrimitiveType>(array: &PrimitiveArray<T>, constant: bool) -> Values<'_, T::Native> {
    if constant { Values::Constant(array.value(0)) } else { Values::Column(array.values()) }
}

fn spread<T: ArrowPrimitiveType>(array: &PrimitiveArray<T>, constant: bool, rows: usize) -> Option<NullBuffer> {
    match constant {
        true => array.is_null(0).then(|| NullBuffer::new_null(rows)),
        false => array.nulls().cloned(),
    }
}
