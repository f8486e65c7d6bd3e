//! Expressions that never fall while an operand rises.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int32Array, Int64Array};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use rowmill_plan::program::ArithmeticOp;
use rowmill_plan::{Constant, ExprOp, ScalarExpr, Volatility};

use crate::evaluator::Evaluator;
use crate::kinds::{exact_value, integer_bounds};

/// Values that one step of the search for a threshold tries.
const VALUES_PER_STEP: i128 = 128;

/// Returns the operand with which the value of `expr` never falls while the operand rises, as a place among the
/// operands. The other operands are constants. For example, it is `t` in `date_trunc('day', t)` and in
/// `CAST(t AS DATE)`.
pub fn ascending_operand(expr: &ScalarExpr) -> Option<usize> {
    match &expr.op {
        ExprOp::Cast { value, or_null: false } => (is_time(&value.kind) && is_time(&expr.kind)).then_some(0),
        ExprOp::Call(function, arguments) if function.volatility == Volatility::Immutable => {
            let ascending = (function.ascending_argument)(arguments)?;
            let are_constant = arguments.iter().enumerate().all(|(place, argument)| {
                place == ascending || argument.as_constant().is_some_and(|value| !value.is_null())
            });
            are_constant.then_some(ascending)
        }
        // A quotient of integers is cut towards zero.
        ExprOp::Arithmetic(ArithmeticOp::Divide, pair) => {
            let divisor = pair[1].as_constant().filter(|value| !value.is_null()).and_then(exact_value);
            let is_positive = divisor.is_some_and(|(value, _)| value > 0);
            let are_integers = [&expr.kind, &pair[0].kind, &pair[1].kind].into_iter().all(DataType::is_integer);
            (is_positive && are_integers).then_some(0)
        }
        _ => None,
    }
}

fn is_time(kind: &DataType) -> bool {
    matches!(kind, DataType::Timestamp(..) | DataType::Date32)
}

/// Returns the least value of column 0 for which `condition` is true, as a number for [`value_of_number`]. The
/// condition must be false for all smaller values and true for all greater ones. The column must be an integer, a date
/// or a timestamp. Returns `None` if the condition is true for no value, or if an evaluation fails.
pub fn threshold(condition: &ScalarExpr, kind: &DataType) -> Option<i128> {
    let evaluator = Evaluator::new(condition).ok()?;
    let (mut low, most) = stored_bounds(kind)?;
    let mut high = most + 1;
    // The condition is false below `low`, and true from `high` on.
    while low < high {
        let step = ((high - low) / VALUES_PER_STEP).max(1) as usize;
        let tried: Vec<i128> = (low..high).step_by(step).collect();
        let holds = evaluator.evaluate(&[values_of(kind, &tried)?], tried.len()).ok()?;
        let holds = holds.as_boolean();
        let is_false = holds.values().iter().take_while(|holds| !holds).count();
        let is_step = holds.null_count() == 0 && holds.values().iter().skip(is_false).all(|holds| holds);
        if !is_step {
            return None;
        }
        high = tried.get(is_false).copied().unwrap_or(high);
        low = if is_false > 0 { tried[is_false - 1] + 1 } else { low };
    }
    (low <= most).then_some(low)
}

/// Returns the integer, date or timestamp that is stored as a number, or `None` for other types.
pub fn value_of_number(kind: &DataType, number: i128) -> Option<Constant> {
    Some(Constant::new(values_of(kind, &[number])?))
}

/// The least and the greatest number that is stored for a value of a type.
fn stored_bounds(kind: &DataType) -> Option<(i128, i128)> {
    match kind {
        DataType::Timestamp(_, None) => integer_bounds(&DataType::Int64),
        DataType::Date32 => integer_bounds(&DataType::Int32),
        _ => integer_bounds(kind),
    }
}

/// The values of a type that are stored as these numbers.
fn values_of(kind: &DataType, numbers: &[i128]) -> Option<ArrayRef> {
    let numbers: ArrayRef = match kind {
        DataType::Date32 => Arc::new(numbers.iter().map(|number| *number as i32).collect::<Int32Array>()),
        _ => Arc::new(numbers.iter().map(|number| i64::try_from(*number).ok()).collect::<Int64Array>()),
    };
    cast(&numbers, kind).ok().filter(|values| values.null_count() == 0)
}
