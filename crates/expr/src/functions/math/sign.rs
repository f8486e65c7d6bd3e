//! Numbers and their signs.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, ArrowNativeTypeOp, AsArray, PrimitiveArray};
use arrow::datatypes::{ArrowPrimitiveType, DataType, Decimal128Type, Decimal256Type, Float32Type, Float64Type, i256};
use rowmill_base::Result;
use rowmill_plan::Operand;

use super::float::{apply, repeated};
use super::{for_integer, not_a_number};
use crate::functions::rowwise::{NumberArgument, booleans};
use crate::kinds::{is_decimal, out_of_range};

pub(super) fn abs(arguments: &[Operand], kind: &DataType, rows: usize) -> Result<ArrayRef> {
    let values = &arguments[0].values;
    let made: ArrayRef = match kind {
        DataType::Float32 | DataType::Float64 => return apply(arguments, kind, rows, f64::abs),
        DataType::Decimal128(..) => {
            let made: PrimitiveArray<Decimal128Type> =
                values.as_primitive::<Decimal128Type>().unary(i128::wrapping_abs);
            Arc::new(made.with_data_type(kind.clone()))
        }
        DataType::Decimal256(..) => {
            let made: PrimitiveArray<Decimal256Type> =
                values.as_primitive::<Decimal256Type>().unary(i256::wrapping_abs);
            Arc::new(made.with_data_type(kind.clone()))
        }
        kind if kind.is_unsigned_integer() => Arc::clone(values),
        kind => for_integer!(kind, abs_of(values, kind), Err(not_a_number(kind)))?,
    };
    Ok(if arguments[0].is_constant { repeated(&made, rows) } else { made })
}

fn abs_of<T: ArrowPrimitiveType>(values: &ArrayRef, kind: &DataType) -> Result<ArrayRef> {
    let values = values.as_primitive::<T>();
    let least = T::Native::MIN_TOTAL_ORDER;
    // The least integer has no positive counterpart. Under a NULL it does no harm, so we search for a valid one.
    if values.values().contains(&least) && values.iter().flatten().any(|value| value == least) {
        return Err(out_of_range(format!("abs({least:?})"), kind));
    }
    let zero = T::default_value();
    let made: PrimitiveArray<T> =
        // The least integer is only left under NULLs, so wrapping is harmless.
        values.unary(|value| if value.is_lt(zero) { zero.sub_wrapping(value) } else { value });
    Ok(Arc::new(made))
}

/// Returns the type of the sign of a number: the number's own type, or a decimal of one digit for a decimal.
pub(super) fn kind_of_sign(kind: &DataType) -> DataType {
    match kind {
        kind if is_decimal(kind) => DataType::Decimal128(1, 0),
        kind => kind.clone(),
    }
}

pub(super) fn sign(arguments: &[Operand], kind: &DataType, rows: usize) -> Result<ArrayRef> {
    let values = &arguments[0].values;
    let made = match kind {
        DataType::Float32 | DataType::Float64 => {
            // NaN stays NaN.
            let sign = |value: f64| if value == 0.0 || value.is_nan() { value } else { value.signum() };
            return apply(arguments, kind, rows, sign);
        }
        DataType::Decimal128(..) => {
            let made: PrimitiveArray<Decimal128Type> = match values.as_primitive_opt::<Decimal256Type>() {
                Some(wide) => wide.unary(|value| value.signum().as_i128()),
                None => values.as_primitive::<Decimal128Type>().unary(i128::signum),
            };
            Arc::new(made.with_data_type(kind.clone()))
        }
        kind => for_integer!(kind, sign_of(values), return Err(not_a_number(kind))),
    };
    Ok(if arguments[0].is_constant { repeated(&made, rows) } else { made })
}

fn sign_of<T: ArrowPrimitiveType>(values: &ArrayRef) -> ArrayRef {
    let (zero, one) = (T::default_value(), T::Native::ONE);
    let minus_one = zero.sub_wrapping(one);
    let made: PrimitiveArray<T> = values.as_primitive::<T>().unary(|value| match value {
        value if value.is_lt(zero) => minus_one,
        value if value.is_zero() => zero,
        _ => one,
    });
    Arc::new(made)
}

pub(super) fn iszero(arguments: &[Operand], _kind: &DataType, rows: usize) -> Result<ArrayRef> {
    fn of<T: ArrowPrimitiveType>(arguments: &[Operand], rows: usize) -> Result<ArrayRef> {
        let numbers = NumberArgument::new::<T>(&arguments[0]);
        booleans(arguments, rows, |row| numbers.at(row) == T::default_value())
    }
    match arguments[0].values.data_type() {
        DataType::Float32 => of::<Float32Type>(arguments, rows),
        DataType::Float64 => of::<Float64Type>(arguments, rows),
        DataType::Decimal128(..) => of::<Decimal128Type>(arguments, rows),
        DataType::Decimal256(..) => of::<Decimal256Type>(arguments, rows),
        kind => for_integer!(kind, of(arguments, rows), Err(not_a_number(kind))),
    }
}
