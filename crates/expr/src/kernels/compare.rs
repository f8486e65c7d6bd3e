//! Comparisons of values of one type.
//!
//! Floats compare as numbers, except that NaN equals NaN and is greater than all other floats. Lists compare item by
//! item and then by length, structs field by field. A NULL inside of them equals NULL and is greater than every value,
//! so the comparison of two lists is never NULL.

use std::cmp::Ordering;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Datum, Scalar, make_comparator};
use arrow::buffer::{BooleanBuffer, NullBuffer};
use arrow::compute::SortOptions;
use arrow::compute::kernels::cmp;
use arrow::datatypes::{ArrowPrimitiveType, DataType, Float32Type, Float64Type};
use rowmill_base::Result;
use rowmill_plan::{CompareOp, Operand};

use super::sides::{Sides, joint_nulls, operand_nulls, sides};
use crate::kinds::arrow_failed;

/// Computes `left op right`, NULL where one side is NULL.
pub fn compare(op: CompareOp, left: &Operand, right: &Operand, rows: usize) -> Result<BooleanArray> {
    match left.values.data_type() {
        DataType::Null => Ok(BooleanArray::new_null(rows)),
        DataType::Float32 => floats::<Float32Type>(op, left, right, rows),
        DataType::Float64 => floats::<Float64Type>(op, left, right, rows),
        DataType::List(_) | DataType::Struct(_) => nested(op, left, right, rows),
        _ => plain(op, left, right, rows),
    }
}

/// Computes `left IS DISTINCT FROM right` or `IS NOT DISTINCT FROM`, which is never NULL.
pub fn is_distinct(left: &Operand, right: &Operand, negated: bool, rows: usize) -> Result<BooleanArray> {
    let (left_nulls, right_nulls) = (operand_nulls(left, rows), operand_nulls(right, rows));
    let unequal = compare(CompareOp::NotEqual, left, right, rows)?;
    let distinct = match (&left_nulls, &right_nulls) {
        (None, None) => unequal.values().clone(),
        _ => {
            let valid = |nulls: &Option<NullBuffer>| {
                nulls.as_ref().map_or_else(|| BooleanBuffer::new_set(rows), |nulls| nulls.inner().clone())
            };
            let (left_valid, right_valid) = (valid(&left_nulls), valid(&right_nulls));
            // Values under a NULL are arbitrary, so they count only where both sides are valid.
            &(&(&left_valid & &right_valid) & unequal.values()) | &(&left_valid ^ &right_valid)
        }
    };
    Ok(BooleanArray::new(if negated { !&distinct } else { distinct }, None))
}

/// Returns the order of two floats.
pub(crate) fn float_order(left: f64, right: f64) -> Ordering {
    left.partial_cmp(&right).unwrap_or_else(|| left.is_nan().cmp(&right.is_nan()))
}

/// Compares types for which Arrow's kernels have the right order.
fn plain(op: CompareOp, left: &Operand, right: &Operand, rows: usize) -> Result<BooleanArray> {
    let result = match (left.is_constant, right.is_constant) {
        (false, true) => by_arrow(op, &left.values, &Scalar::new(&right.values)),
        (true, false) => by_arrow(op, &Scalar::new(&left.values), &right.values),
        (false, false) => by_arrow(op, &left.values, &right.values),
        // Arrow compares two scalars as arrays of one row.
        (true, true) => {
            let one = by_arrow(op, &left.values, &right.values)?;
            return Ok(repeated(&one, rows));
        }
    }?;
    Ok(result)
}

fn by_arrow(op: CompareOp, left: &dyn Datum, right: &dyn Datum) -> Result<BooleanArray> {
    let kernel = match op {
        CompareOp::Equal => cmp::eq,
        CompareOp::NotEqual => cmp::neq,
        CompareOp::Less => cmp::lt,
        CompareOp::LessOrEqual => cmp::lt_eq,
        CompareOp::Greater => cmp::gt,
        CompareOp::GreaterOrEqual => cmp::gt_eq,
    };
    kernel(left, right).map_err(arrow_failed)
}

fn repeated(one: &BooleanArray, rows: usize) -> BooleanArray {
    match (one.is_null(0), one.value(0)) {
        (true, _) => BooleanArray::new_null(rows),
        (false, true) => BooleanArray::new(BooleanBuffer::new_set(rows), None),
        (false, false) => BooleanArray::new(BooleanBuffer::new_unset(rows), None),
    }
}

fn floats<T>(op: CompareOp, left: &Operand, right: &Operand, rows: usize) -> Result<BooleanArray>
where
    T: ArrowPrimitiveType,
    T::Native: PartialOrd + Copy,
{
    let sides = sides::<T>(left, right, rows)?;
    // Only NaN differs from itself.
    #[expect(clippy::eq_op, reason = "a NaN differs from itself")]
    let is_nan = |x: T::Native| x != x;
    let equal = |l: T::Native, r: T::Native| (l == r) | (is_nan(l) & is_nan(r));
    // All tests use `|` and `&` without branches, so that the loops vectorise.
    let less = |l: T::Native, r: T::Native| (l < r) | (!is_nan(l) & is_nan(r));
    let bits = match op {
        CompareOp::Equal => bits(&sides, equal),
        CompareOp::NotEqual => bits(&sides, |l, r| !equal(l, r)),
        CompareOp::Less => bits(&sides, less),
        CompareOp::LessOrEqual => bits(&sides, |l, r| !less(r, l)),
        CompareOp::Greater => bits(&sides, |l, r| less(r, l)),
        CompareOp::GreaterOrEqual => bits(&sides, |l, r| !less(l, r)),
    };
    Ok(BooleanArray::new(bits, sides.nulls))
}

fn bits<T: Copy>(sides: &Sides<'_, T>, test: impl Fn(T, T) -> bool) -> BooleanBuffer {
    use super::sides::OperandSide::{Column, Constant};
    match (sides.left, sides.right) {
        (Column(left), Column(right)) => BooleanBuffer::collect_bool(sides.rows, |row| test(left[row], right[row])),
        (Column(left), Constant(right)) => BooleanBuffer::collect_bool(sides.rows, |row| test(left[row], right)),
        (Constant(left), Column(right)) => BooleanBuffer::collect_bool(sides.rows, |row| test(left, right[row])),
        (Constant(left), Constant(right)) => {
            let value = test(left, right);
            BooleanBuffer::collect_bool(sides.rows, |_| value)
        }
    }
}

fn nested(op: CompareOp, left: &Operand, right: &Operand, rows: usize) -> Result<BooleanArray> {
    let order = order_of(&left.values, &right.values)?;
    let nulls = joint_nulls(left, right, rows);
    let bits = BooleanBuffer::collect_bool(rows, |row| {
        nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row)) && op.holds(order(left.at(row), right.at(row)))
    });
    Ok(BooleanArray::new(bits, nulls))
}

/// Returns the order between the rows of two arrays of one type. NULL comes after every value.
pub fn order_of(left: &ArrayRef, right: &ArrayRef) -> Result<Box<dyn Fn(usize, usize) -> Ordering + Send + Sync>> {
    match left.data_type() {
        DataType::Float64 => Ok(float_order_of::<Float64Type>(left, right, f64::from)),
        DataType::Float32 => Ok(float_order_of::<Float32Type>(left, right, f64::from)),
        DataType::Null => Ok(Box::new(|_, _| Ordering::Equal)),
        _ => make_comparator(left, right, SortOptions { descending: false, nulls_first: false }).map_err(arrow_failed),
    }
}

fn float_order_of<T: ArrowPrimitiveType>(
    left: &ArrayRef,
    right: &ArrayRef,
    wide: fn(T::Native) -> f64,
) -> Box<dyn Fn(usize, usize) -> Ordering + Send + Sync> {
    let (left, right) = (left.as_primitive::<T>().clone(), right.as_primitive::<T>().clone());
    Box::new(move |l, r| match (left.is_null(l), right.is_null(r)) {
        (false, false) => float_order(wide(left.value(l)), wide(right.value(r))),
        (is_null, is_other_null) => is_null.cmp(&is_other_null),
    })
}
