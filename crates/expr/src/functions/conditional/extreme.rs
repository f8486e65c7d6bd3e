//! The greatest and the least of several columns.

use arrow::array::{Array, ArrayRef, BooleanArray, Datum, Scalar, make_comparator, new_null_array};
use arrow::buffer::BooleanBuffer;
use arrow::compute::kernels::cmp;
use arrow::compute::kernels::zip::zip;
use arrow::compute::{SortOptions, take};
use arrow::datatypes::DataType;
use arrow::error::ArrowError;
use rowmill_base::Result;
use rowmill_plan::Operand;
use std::cmp::Ordering;

use crate::kinds::arrow_failed;

pub(super) fn greatest(arguments: &[Operand], kind: &DataType, rows: usize) -> Result<ArrayRef> {
    extreme(arguments, kind, rows, Ordering::Greater).map_err(arrow_failed)
}

pub(super) fn least(arguments: &[Operand], kind: &DataType, rows: usize) -> Result<ArrayRef> {
    extreme(arguments, kind, rows, Ordering::Less).map_err(arrow_failed)
}

/// Returns the value of each row that compares as `wanted` with all others, ignoring NULL.
fn extreme(arguments: &[Operand], kind: &DataType, rows: usize, wanted: Ordering) -> Result<ArrayRef, ArrowError> {
    if *kind == DataType::Null {
        return Ok(new_null_array(kind, rows));
    }
    // We keep the best value of each row and compare it with one argument after the other.
    let mut best: Option<ArrayRef> = None;
    for argument in arguments {
        let Some(so_far) = best else {
            best = Some(spread(argument, rows)?);
            continue;
        };
        // A NULL constant changes nothing.
        if argument.is_constant && argument.values.is_null(0) {
            best = Some(so_far);
            continue;
        }
        let takes = match kind.is_nested() {
            true => nested_takes(argument, &so_far, wanted)?,
            false => flat_takes(argument, &so_far, wanted)?,
        };
        best = Some(match argument.is_constant {
            true => zip(&takes, &Scalar::new(argument.values.clone()), &so_far)?,
            false => zip(&takes, &argument.values, &so_far)?,
        });
    }
    best.ok_or_else(|| ArrowError::ComputeError("no values".into()))
}

/// Returns the values of an operand, one per row.
fn spread(operand: &Operand, rows: usize) -> Result<ArrayRef, ArrowError> {
    if !operand.is_constant {
        return Ok(operand.values.clone());
    }
    take(&operand.values, &arrow::array::UInt32Array::from_value(0, rows), None)
}

/// Returns the rows in which `argument` is better than `so_far`, or is valid where `so_far` is NULL.
fn flat_takes(argument: &Operand, so_far: &ArrayRef, wanted: Ordering) -> Result<BooleanArray, ArrowError> {
    let compare = if wanted == Ordering::Greater { cmp::gt } else { cmp::lt };
    let better = match argument.is_constant {
        true => compare(&Scalar::new(argument.values.clone()) as &dyn Datum, so_far)?,
        false => compare(&argument.values as &dyn Datum, so_far)?,
    };
    let Some(nulls) = better.nulls() else { return Ok(better) };
    // The comparison is NULL if one side is. The new value is taken only if the old one is NULL and the new one is not.
    let mut takes = better.values() & nulls.inner();
    if let Some(known) = so_far.nulls() {
        let is_new_known = match argument.values.nulls() {
            Some(nulls) if !argument.is_constant => nulls.inner().clone(),
            _ => BooleanBuffer::new_set(so_far.len()),
        };
        takes = &takes | &(&!known.inner() & &is_new_known);
    }
    Ok(BooleanArray::new(takes, None))
}

/// Returns the rows in which `argument`, a list or a struct, is better than `so_far`. No kernel compares these types.
fn nested_takes(argument: &Operand, so_far: &ArrayRef, wanted: Ordering) -> Result<BooleanArray, ArrowError> {
    let compare = make_comparator(&argument.values, so_far, SortOptions { descending: false, nulls_first: false })?;
    let takes = BooleanBuffer::collect_bool(so_far.len(), |row| {
        let at = argument.at(row);
        argument.values.is_valid(at) && (so_far.is_null(row) || compare(at, row) == wanted)
    });
    Ok(BooleanArray::new(takes, None))
}
