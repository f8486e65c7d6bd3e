//! The range of values of an integer expression.

use rowmill_plan::program::ArithmeticOp;
use rowmill_plan::{CompareOp, ExprOp, ScalarExpr};

use crate::kinds::{exact_value, integer_bounds};

/// The deepest level that we look at. A deeper part has the full range of its type.
const DEPTH_MAX: usize = 8;

/// Gives the least and the greatest value of an integer column, if they are known.
pub(super) type ColumnRanges<'a> = &'a dyn Fn(usize) -> Option<(i128, i128)>;

/// Returns the least and the greatest value that an integer expression can have while its columns stay within
/// `of_column`, or `None` for other types.
pub(super) fn integer_range_within(expr: &ScalarExpr, of_column: ColumnRanges<'_>) -> Option<(i128, i128)> {
    range(expr, DEPTH_MAX, of_column)
}

fn range(expr: &ScalarExpr, depth: usize, of_column: ColumnRanges<'_>) -> Option<(i128, i128)> {
    let whole = integer_bounds(&expr.kind)?;
    if depth == 0 {
        return Some(whole);
    }
    // A result outside of the type is an error, so a range counts only if it fits the type completely.
    let within = |range: Option<(i128, i128)>| range.filter(|range| whole.0 <= range.0 && range.1 <= whole.1);
    Some(match &expr.op {
        ExprOp::Column(column) => within(of_column(*column)).unwrap_or(whole),
        ExprOp::Literal(value) => exact_value(value).map_or(whole, |(value, _)| (value, value)),
        ExprOp::Cast { value, .. } => within(range(value, depth - 1, of_column)).unwrap_or(whole),
        ExprOp::Negate(value) => {
            within(range(value, depth - 1, of_column).map(|(least, most)| (-most, -least))).unwrap_or(whole)
        }
        ExprOp::Arithmetic(op, pair) => {
            let result = range(&pair[0], depth - 1, of_column)
                .zip(range(&pair[1], depth - 1, of_column))
                .and_then(|(left, right)| range_of_result(*op, left, right));
            within(result).unwrap_or(whole)
        }
        _ => whole,
    })
}

/// Whether a condition is true for no row while each integer column has only values of its range. `of_column` gives the
/// least and the greatest value of a column, or `None` if they are unknown.
pub fn is_never_true_within(condition: &ScalarExpr, of_column: &dyn Fn(usize) -> Option<(i128, i128)>) -> bool {
    match &condition.op {
        ExprOp::And(parts) => parts.iter().any(|part| is_never_true_within(part, of_column)),
        ExprOp::Or(parts) => parts.iter().all(|part| is_never_true_within(part, of_column)),
        ExprOp::Compare(op, pair) => {
            let range = |operand| integer_range_within(operand, of_column);
            let (Some(left), Some(right)) = (range(&pair[0]), range(&pair[1])) else { return false };
            match op {
                CompareOp::Equal => left.1 < right.0 || right.1 < left.0,
                CompareOp::NotEqual => left.0 == left.1 && left == right,
                CompareOp::Less => left.0 >= right.1,
                CompareOp::LessOrEqual => left.0 > right.1,
                CompareOp::Greater => left.1 <= right.0,
                CompareOp::GreaterOrEqual => left.1 < right.0,
            }
        }
        _ => false,
    }
}

/// Returns the range of a result if no type limited it. Returns `None` if a divisor can be zero, and for products of
/// more than 127 bits.
pub(super) fn range_of_result(op: ArithmeticOp, left: (i128, i128), right: (i128, i128)) -> Option<(i128, i128)> {
    // The extremes of a product or quotient are at the corners of both ranges.
    let corners = match op {
        ArithmeticOp::Plus => return Some((left.0 + right.0, left.1 + right.1)),
        ArithmeticOp::Minus => return Some((left.0 - right.1, left.1 - right.0)),
        ArithmeticOp::Times => {
            let product = |left: i128, right: i128| left.checked_mul(right);
            [product(left.0, right.0)?, product(left.0, right.1)?, product(left.1, right.0)?, product(left.1, right.1)?]
        }
        // If the divisor can be zero, the quotient has no range.
        _ if right.0 <= 0 && right.1 >= 0 => return None,
        ArithmeticOp::Divide => [left.0 / right.0, left.0 / right.1, left.1 / right.0, left.1 / right.1],
        ArithmeticOp::Remainder => {
            // A remainder is smaller than the divisor, has the sign of the dividend and is no further from zero than
            // it.
            let most = right.0.abs().max(right.1.abs()) - 1;
            return Some((left.0.clamp(-most, 0), left.1.clamp(0, most)));
        }
    };
    Some((*corners.iter().min()?, *corners.iter().max()?))
}
