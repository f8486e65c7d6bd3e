//! Constant folding.

use rowmill_plan::{Constant, ExprOp, ScalarExpr, Volatility};

use crate::evaluator::Evaluator;
use crate::functions::{FOLDED_BYTES_MAX, with_result_limit};

/// Replaces every immutable part of `expr` that reads no column, parameter or subquery by its value. A part whose
/// evaluation fails stays as it is: it may never be evaluated. Operands that cannot matter are dropped: TRUE in AND,
/// branches of CASE that are never taken, NULL in COALESCE.
pub fn fold(expr: &mut ScalarExpr) {
    expr.rewrite(&mut |part| {
        drop_decided(part);
        if let Some(value) = constant_value(part) {
            *part = ScalarExpr::new(part.kind.clone(), ExprOp::Literal(value));
        }
    });
}

/// The value of an operator whose operands are all literals.
fn constant_value(expr: &ScalarExpr) -> Option<Constant> {
    let is_own_immutable = match &expr.op {
        ExprOp::Column(_) | ExprOp::Parameter(_) | ExprOp::Literal(_) | ExprOp::Subquery(_) => false,
        // The body of a function of items is no value, and its parameters have none outside.
        ExprOp::EachItem { .. } | ExprOp::ItemParameter(_) => false,
        ExprOp::Call(function, arguments) => {
            if function.strict
                && function.volatility == Volatility::Immutable
                && arguments.iter().any(|argument| argument.as_constant().is_some_and(Constant::is_null))
            {
                return Some(Constant::null(&expr.kind));
            }
            function.volatility == Volatility::Immutable
        }
        // A function of the database is no part of a plan that is kept.
        ExprOp::Dynamic(..) => false,
        _ => true,
    };
    if !is_own_immutable || !expr.operands().into_iter().all(|operand| operand.as_constant().is_some()) {
        return None;
    }
    let value = with_result_limit(FOLDED_BYTES_MAX, || Evaluator::new(expr)?.evaluate(&[], 1)).ok()?;
    Some(Constant::new(value))
}

/// Drops operands of `expr` that cannot matter.
fn drop_decided(expr: &mut ScalarExpr) {
    let replaced = match &mut expr.op {
        ExprOp::And(parts) => junction(parts, true),
        ExprOp::Or(parts) => junction(parts, false),
        ExprOp::Not(value) => match &mut value.op {
            ExprOp::Not(inner) => Some((**inner).clone()),
            ExprOp::IsNull { negated, .. } | ExprOp::InList { negated, .. } | ExprOp::Like { negated, .. } => {
                *negated = !*negated;
                Some((**value).clone())
            }
            ExprOp::IsDistinct { negated, .. } => {
                *negated = !*negated;
                Some((**value).clone())
            }
            _ => None,
        },
        ExprOp::Case { whens, otherwise } => {
            // A condition that is never true has no branch; what follows one that always is has none either.
            whens.retain(|(condition, _)| {
                condition.as_constant().is_none_or(|condition| condition.as_bool() == Some(true))
            });
            let always = whens.iter().position(|(condition, _)| condition.as_constant().is_some());
            if let Some(position) = always {
                let (_, value) = whens.swap_remove(position);
                whens.truncate(position);
                *otherwise = Some(Box::new(value));
            }
            whens.is_empty().then(|| match otherwise.take() {
                Some(value) => *value,
                None => ScalarExpr::null(expr.kind.clone()),
            })
        }
        ExprOp::Coalesce(values) => {
            values.retain(|value| !value.as_constant().is_some_and(Constant::is_null));
            let first = values.iter().position(|value| value.as_constant().is_some());
            if let Some(position) = first {
                values.truncate(position + 1);
            }
            match values.len() {
                0 => Some(ScalarExpr::null(expr.kind.clone())),
                1 => values.pop(),
                _ => None,
            }
        }
        _ => None,
    };
    if let Some(replaced) = replaced {
        *expr = replaced;
    }
}

/// `AND` of `parts` without those that are true, or what it is in the end; `OR` without those that are false.
fn junction(parts: &mut Vec<ScalarExpr>, is_and: bool) -> Option<ScalarExpr> {
    let decides = |part: &ScalarExpr| part.as_constant().and_then(Constant::as_bool) == Some(!is_and);
    if parts.iter().any(decides) {
        return Some(ScalarExpr::literal(!is_and));
    }
    parts.retain(|part| part.as_constant().and_then(Constant::as_bool) != Some(is_and));
    match parts.len() {
        0 => Some(ScalarExpr::literal(is_and)),
        1 => parts.pop(),
        _ => None,
    }
}
