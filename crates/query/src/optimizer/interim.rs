//! Stands in for `rowmill_expr::fold` until that exists.

use rowmill_plan::program::ArithmeticOp;
use rowmill_plan::{ExprOp, ScalarExpr};

pub(crate) fn can_fail(expr: &ScalarExpr) -> bool {
    let own = match &expr.op {
        ExprOp::Arithmetic(..) | ExprOp::Negate(_) => !expr.kind.is_floating(),
        ExprOp::Cast { or_null, value } => !*or_null && !(value.kind.is_numeric() && expr.kind.is_floating()),
        ExprOp::Call(function, _) => function.can_fail,
        ExprOp::Dynamic(..) | ExprOp::Subquery(_) => true,
        _ => false,
    };
    let _ = ArithmeticOp::Plus;
    own || expr.operands().into_iter().any(can_fail)
}

pub(crate) fn is_nullable(expr: &ScalarExpr, column: &dyn Fn(usize) -> bool) -> bool {
    match &expr.op {
        ExprOp::Column(id) => column(*id),
        ExprOp::Literal(value) => value.is_null(),
        ExprOp::IsNull { .. } | ExprOp::IsDistinct { .. } => false,
        ExprOp::Coalesce(all) => all.iter().all(|value| is_nullable(value, column)),
        ExprOp::Arithmetic(..) | ExprOp::Compare(..) | ExprOp::And(_) | ExprOp::Or(_) | ExprOp::Not(_) => {
            expr.operands().into_iter().any(|operand| is_nullable(operand, column))
        }
        _ => true,
    }
}

/// Whether the value is NULL if the columns are.
fn is_null_of(expr: &ScalarExpr, column: &dyn Fn(usize) -> bool) -> bool {
    match &expr.op {
        ExprOp::Column(id) => column(*id),
        ExprOp::Literal(value) => value.is_null(),
        ExprOp::Arithmetic(..) | ExprOp::Compare(..) | ExprOp::Negate(_) | ExprOp::Cast { .. } | ExprOp::Like { .. } => {
            expr.operands().into_iter().any(|operand| is_null_of(operand, column))
        }
        ExprOp::Not(of) => is_null_of(of, column),
        ExprOp::InList { value, .. } => is_null_of(value, column),
        ExprOp::Call(function, all) => function.strict && all.iter().any(|operand| is_null_of(operand, column)),
        ExprOp::And(all) | ExprOp::Or(all) => all.iter().all(|operand| is_null_of(operand, column)),
        _ => false,
    }
}

pub(crate) fn rejects_nulls(expr: &ScalarExpr, column: &dyn Fn(usize) -> bool) -> bool {
    match &expr.op {
        ExprOp::And(all) => all.iter().any(|operand| rejects_nulls(operand, column)),
        ExprOp::Or(all) => all.iter().all(|operand| rejects_nulls(operand, column)),
        ExprOp::IsNull { value, negated: true } => is_null_of(value, column),
        ExprOp::Coalesce(all) => {
            all.iter().all(|operand| rejects_nulls(operand, column) || operand.as_constant().is_some_and(|v| v.as_bool() == Some(false)))
        }
        _ => is_null_of(expr, column),
    }
}
