//! Functions of the bits of integers: the operators `&`, `|`, `#`, `~`, `<<` and `>>`.

use std::sync::Arc;

use arrow::array::{ArrayRef, PrimitiveArray, new_null_array};
use arrow::datatypes::{ArrowPrimitiveType, DataType};
use rowmill_base::Result;
use rowmill_plan::Operand;
use rowmill_plan::function::{ArgumentKind, CallKinds};

use super::not_a_number;
use crate::functions::rowwise::{NumberArgument, valid_rows};
use crate::functions::signatures::BIGINT;
use crate::typing::common_kind;

/// Accepts integers of one type, which is also the type of the result.
pub(super) fn integer_kinds(arguments: &[ArgumentKind<'_>], count: usize) -> Option<CallKinds> {
    if arguments.len() != count {
        return None;
    }
    let kind = match common_kind(arguments.iter().map(|argument| argument.kind))? {
        DataType::Null => BIGINT,
        kind if kind.is_integer() => kind,
        _ => return None,
    };
    Some(CallKinds { arguments: vec![kind.clone(); count], result: kind })
}

/// Computes `$made` for pairs of integers of any type.
macro_rules! of_pairs {
    ($arguments:expr, $kind:expr, $rows:expr, |$left:ident, $right:ident| $made:expr) => {{
        use arrow::datatypes as types;
        match $kind {
            DataType::Int8 => pairs::<types::Int8Type>($arguments, $kind, $rows, |$left, $right| $made),
            DataType::Int16 => pairs::<types::Int16Type>($arguments, $kind, $rows, |$left, $right| $made),
            DataType::Int32 => pairs::<types::Int32Type>($arguments, $kind, $rows, |$left, $right| $made),
            DataType::Int64 => pairs::<types::Int64Type>($arguments, $kind, $rows, |$left, $right| $made),
            DataType::UInt8 => pairs::<types::UInt8Type>($arguments, $kind, $rows, |$left, $right| $made),
            DataType::UInt16 => pairs::<types::UInt16Type>($arguments, $kind, $rows, |$left, $right| $made),
            DataType::UInt32 => pairs::<types::UInt32Type>($arguments, $kind, $rows, |$left, $right| $made),
            DataType::UInt64 => pairs::<types::UInt64Type>($arguments, $kind, $rows, |$left, $right| $made),
            other => Err(not_a_number(other)),
        }
    }};
}

pub(super) fn and(arguments: &[Operand], kind: &DataType, rows: usize) -> Result<ArrayRef> {
    of_pairs!(arguments, kind, rows, |left, right| left & right)
}

pub(super) fn or(arguments: &[Operand], kind: &DataType, rows: usize) -> Result<ArrayRef> {
    of_pairs!(arguments, kind, rows, |left, right| left | right)
}

pub(super) fn xor(arguments: &[Operand], kind: &DataType, rows: usize) -> Result<ArrayRef> {
    of_pairs!(arguments, kind, rows, |left, right| left ^ right)
}

pub(super) fn not(arguments: &[Operand], kind: &DataType, rows: usize) -> Result<ArrayRef> {
    // The only operand is passed as both.
    let both = [arguments[0].clone(), arguments[0].clone()];
    of_pairs!(&both, kind, rows, |value, _same| !value)
}

/// Shifts to the left. Bits that leave the type are lost. The number of places is taken modulo the bits of the type.
pub(super) fn shift_left(arguments: &[Operand], kind: &DataType, rows: usize) -> Result<ArrayRef> {
    of_pairs!(arguments, kind, rows, |value, places| value.wrapping_shl(places as u32))
}

/// Shifts to the right. The sign of a signed integer is repeated at the left.
pub(super) fn shift_right(arguments: &[Operand], kind: &DataType, rows: usize) -> Result<ArrayRef> {
    of_pairs!(arguments, kind, rows, |value, places| value.wrapping_shr(places as u32))
}

fn pairs<T: ArrowPrimitiveType>(
    arguments: &[Operand],
    kind: &DataType,
    rows: usize,
    made: impl Fn(T::Native, T::Native) -> T::Native,
) -> Result<ArrayRef> {
    let Some(valid) = valid_rows(arguments) else { return Ok(new_null_array(kind, rows)) };
    let [left, right] = [0, 1].map(|index| NumberArgument::new::<T>(&arguments[index]));
    let values: Vec<T::Native> = (0..rows).map(|row| made(left.at(row), right.at(row))).collect();
    Ok(Arc::new(PrimitiveArray::<T>::new(values.into(), valid)))
}
