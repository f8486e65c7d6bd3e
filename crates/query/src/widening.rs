//! Casts that lose nothing: from a type to one that has all of its values, in the same order.

use rowmill_base::SqlType;
use rowmill_plan::{ExprOp, ScalarExpr};

use crate::program::sql_type;

/// `expr` without casts that lose nothing and do not change how values compare.
pub(crate) fn without_widening(expr: &ScalarExpr) -> &ScalarExpr {
    let ExprOp::Cast { value, or_null: false } = &expr.op else { return expr };
    match sql_type(&value.kind).zip(sql_type(&expr.kind)).is_some_and(|(from, to)| is_widening(&from, &to)) {
        true => without_widening(value),
        false => expr,
    }
}

/// Whether every value of `from` is also a value of `to`, and compares in the same way there.
fn is_widening(from: &SqlType, to: &SqlType) -> bool {
    let digits = |kind: &SqlType| {
        Some(match kind {
            SqlType::Int8 | SqlType::UInt8 => (3, 0),
            SqlType::Int16 | SqlType::UInt16 => (5, 0),
            SqlType::Int32 | SqlType::UInt32 => (10, 0),
            SqlType::Int64 => (19, 0),
            SqlType::UInt64 => (20, 0),
            SqlType::Decimal { precision, scale } => (precision - scale, *scale),
            _ => return None,
        })
    };
    let is_signed =
        |kind: &SqlType| !matches!(kind, SqlType::UInt8 | SqlType::UInt16 | SqlType::UInt32 | SqlType::UInt64);
    match (from, to) {
        (SqlType::Text { .. }, SqlType::Text { .. }) => true,
        (SqlType::Float32, SqlType::Float64) => true,
        // A double represents every integer with 32 bits exactly.
        (SqlType::Int64 | SqlType::UInt64 | SqlType::Decimal { .. }, SqlType::Float64) => false,
        (from, SqlType::Float64) => digits(from).is_some(),
        (from, SqlType::Decimal { .. }) => {
            digits(from).zip(digits(to)).is_some_and(|(from, to)| from.0 <= to.0 && from.1 <= to.1)
        }
        (SqlType::Decimal { .. }, _) => false,
        (from, to) => digits(from).zip(digits(to)).is_some_and(|(narrow, wide)| {
            let fits = if is_signed(from) == is_signed(to) { narrow <= wide } else { narrow < wide };
            fits && (is_signed(to) || !is_signed(from))
        }),
    }
}
