//! Whether the evaluation of an expression can fail.

use arrow::datatypes::{DataType, TimeUnit, i256};
use rowmill_base::{NumberedType, is_json};
use rowmill_plan::program::ArithmeticOp;
use rowmill_plan::{ExprOp, ScalarExpr};

use super::bounds::{ColumnRanges, integer_range_within, range_of_result};
use crate::functions::call_can_fail;
use crate::kernels::like::{ESCAPE, LikeMatcher};
use crate::kinds::{
    DIGITS_MAX, digits_and_scale, digits_max_of, exact_wide_value, integer_bounds, is_float, is_number, power_of_ten,
};

/// Whether the evaluation can fail for some values of the columns.
pub fn can_fail(expr: &ScalarExpr) -> bool {
    expr.any(&operator_can_fail)
}

/// Whether the evaluation can fail while each integer column has only values of its range. `of_column` gives the least
/// and the greatest value of a column, or `None` if they are unknown.
pub fn can_fail_within(expr: &ScalarExpr, of_column: &dyn Fn(usize) -> Option<(i128, i128)>) -> bool {
    expr.any(&|part| operator_can_fail_within(part, of_column))
}

/// Whether the operator itself can fail for some values of its operands, not counting failures of the operands.
pub fn operator_can_fail(expr: &ScalarExpr) -> bool {
    operator_can_fail_within(expr, &|_| None)
}

fn operator_can_fail_within(expr: &ScalarExpr, of_column: ColumnRanges<'_>) -> bool {
    match &expr.op {
        ExprOp::Arithmetic(op, pair) => arithmetic_can_fail(*op, &pair[0], &pair[1], &expr.kind, of_column),
        ExprOp::Negate(value) => integer_range_within(value, of_column)
            .zip(integer_bounds(&expr.kind))
            .is_some_and(|(range, bounds)| -range.0 > bounds.1 || -range.1 < bounds.0),
        ExprOp::Cast { value, or_null } => !or_null && value_cast_can_fail(value, &expr.kind, of_column),
        ExprOp::Like { pattern, escape, ignore_case, .. } => match pattern.as_constant() {
            Some(pattern) => {
                pattern.as_text().is_some_and(|pattern| LikeMatcher::new(pattern, *escape, *ignore_case).is_err())
            }
            None => escape.is_some_and(|escape| escape != ESCAPE),
        },
        ExprOp::Call(function, arguments) => call_can_fail(function, arguments),
        ExprOp::Dynamic(..) | ExprOp::Subquery(_) => true,
        _ => false,
    }
}

fn arithmetic_can_fail(
    op: ArithmeticOp,
    left: &ScalarExpr,
    right: &ScalarExpr,
    kind: &DataType,
    of_column: ColumnRanges<'_>,
) -> bool {
    if is_float(&left.kind) || is_float(&right.kind) || left.kind == DataType::Null || right.kind == DataType::Null {
        return false;
    }
    if let Some((least, most)) = integer_bounds(kind) {
        // The ranges of the operands often prove that the result fits its type.
        let range = |operand| integer_range_within(operand, of_column);
        let result = range(left).zip(range(right)).and_then(|(left, right)| range_of_result(op, left, right));
        return result.is_none_or(|result| result.0 < least || most < result.1);
    }
    let is_division = matches!(op, ArithmeticOp::Divide | ArithmeticOp::Remainder);
    // A divisor must be a literal other than zero, or the division can fail.
    let divisor = right.as_constant().filter(|value| !value.is_null()).and_then(exact_wide_value);
    if is_division && divisor.is_none_or(|(value, _)| value == i256::ZERO) {
        return true;
    }
    let Some(((p1, s1), (p2, s2))) = digits_and_scale(&left.kind).zip(digits_and_scale(&right.kind)) else {
        return true;
    };
    // For decimals, we compare the digits that an exact result may need with the digits that the type has.
    let (whole1, whole2) = (i16::from(p1) - i16::from(s1), i16::from(p2) - i16::from(s2));
    let wanted = match op {
        // A quotient that is a double cannot overflow.
        ArithmeticOp::Divide if is_float(kind) => return false,
        ArithmeticOp::Times => i16::from(p1) + i16::from(p2),
        _ => whole1.max(whole2) + 1 + i16::from(s1.max(s2)),
    };
    wanted > i16::from(digits_max_of([&left.kind, &right.kind]))
}

/// Whether the cast of `value` to `kind` can fail.
fn value_cast_can_fail(value: &ScalarExpr, kind: &DataType, of_column: ColumnRanges<'_>) -> bool {
    // For a literal we simply try the cast.
    if let Some(constant) = value.as_constant() {
        return crate::kernels::cast::cast(constant.array(), kind, false).is_err();
    }
    let range = integer_range_within(value, of_column);
    if let (Some(range), Some(bounds)) = (range, integer_bounds(kind)) {
        return range.0 < bounds.0 || bounds.1 < range.1;
    }
    if let Some((range, (digits, scale))) = range.zip(digits_and_scale(kind)) {
        // No integer has more than 38 digits.
        let whole = (i16::from(digits) - i16::from(scale)).clamp(0, i16::from(DIGITS_MAX));
        return range.0.abs().max(range.1.abs()) >= power_of_ten(whole.unsigned_abs().into());
    }
    cast_can_fail(&value.kind, kind)
}

/// Whether some value of type `from` cannot be cast to `to`.
pub(crate) fn cast_can_fail(from: &DataType, to: &DataType) -> bool {
    use DataType::{
        Boolean, Date32, Decimal128, Decimal256, Float32, Float64, List, Null, Struct, Time64, Timestamp, Utf8View,
    };
    match (from, to) {
        (from, to) if from == to => false,
        (Null, _) | (_, Utf8View) => false,
        (_, Boolean) if is_number(from) => false,
        (Boolean, Decimal128(digits, scale @ 0..) | Decimal256(digits, scale @ 0..)) => {
            i16::from(*digits) <= i16::from(*scale)
        }
        (Boolean, to) if is_number(to) => false,
        (Float64, Float32) => true,
        // The greatest REAL has 39 digits.
        (Decimal256(digits, scale @ 0..), Float32) => i16::from(*digits) - i16::from(*scale) > i16::from(DIGITS_MAX),
        (from, to) if is_number(from) && is_float(to) => false,
        (from, to) if from.is_integer() && to.is_integer() => {
            integer_bounds(from).zip(integer_bounds(to)).is_none_or(|(from, to)| from.0 < to.0 || to.1 < from.1)
        }
        (from, to) if is_number(from) && !is_float(from) && is_number(to) => {
            let Some(((p1, s1), (p2, s2))) = digits_and_scale(from).zip(digits_and_scale(to)) else { return true };
            // Rounding can carry into one more digit. An integer type does not hold all numbers with its number of
            // digits.
            let rounded = i16::from(s1 > s2);
            let whole = i16::from(p1) - i16::from(s1) + rounded;
            let room = i16::from(p2) - i16::from(s2) - i16::from(to.is_integer());
            whole > room || to.is_unsigned_integer()
        }
        (Date32, Timestamp(unit, _)) => matches!(unit, TimeUnit::Microsecond | TimeUnit::Nanosecond),
        (Timestamp(unit, _), Date32) => matches!(unit, TimeUnit::Second | TimeUnit::Millisecond),
        (Timestamp(from, _), Timestamp(to, _)) => to > from,
        (Timestamp(..), Time64(_)) => false,
        (DataType::FixedSizeBinary(16), DataType::BinaryView) => false,
        (from, DataType::BinaryView) => NumberedType::of_arrow_with_bytes(from).is_none(),
        (List(from), List(to)) => cast_can_fail(from.data_type(), to.data_type()),
        (from, _) if is_json(from) => true,
        (_, to) if is_json(to) => false,
        (Struct(from), Struct(to)) => crate::kernels::cast::struct_places(from, to).is_none_or(|places| {
            to.iter().zip(places).any(|(field, place)| {
                place.is_some_and(|place| cast_can_fail(from[place].data_type(), field.data_type()))
            })
        }),
        _ => true,
    }
}
