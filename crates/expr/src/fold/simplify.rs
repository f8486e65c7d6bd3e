//! Constant folding.

use rowmill_plan::{Constant, ExprOp, ScalarExpr, Volatility};

use crate::evaluator::Evaluator;
use crate::functions::{FOLDED_BYTES_MAX, with_result_limit};

/// Replaces every immutable part of `expr` that reads no column, parameter or subquery by its value. A part that fails
/// stays as it is, because it may never be evaluated. Also drops operands that cannot matter: TRUE in AND, branches of
/// CASE that are never taken, NULL in COALESCE. A chain of calls of an associative function becomes one call.
pub fn fold(expr: &mut ScalarExpr) {
    expr.rewrite(&mut |part| {
        drop_decided(part);
        join_chain(part);
        if let Some(value) = constant_value(part) {
            *part = ScalarExpr::new(part.kind.clone(), ExprOp::Literal(value));
        }
    });
}

/// Returns the value of an operator whose operands are all literals.
fn constant_value(expr: &ScalarExpr) -> Option<Constant> {
    let is_own_immutable = match &expr.op {
        ExprOp::Column(_) | ExprOp::Parameter(_) | ExprOp::Literal(_) | ExprOp::Subquery(_) => false,
        // The body of an item function is not a value, and its parameters have no values outside of the function.
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
        // A plan that is kept must not contain the value of a database function, such as `nextval`.
        ExprOp::Dynamic(..) => false,
        _ => true,
    };
    if !is_own_immutable || !expr.operands().into_iter().all(|operand| operand.as_constant().is_some()) {
        return None;
    }
    // A result that is too large, or an error, leaves the expression to the evaluation.
    let value = with_result_limit(FOLDED_BYTES_MAX, || Evaluator::new(expr)?.evaluate(&[], 1)).ok()?;
    Some(Constant::new(value))
}

/// Drops operands of `expr` that cannot change its value.
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
            // A branch whose condition is never true is dropped, and so are all branches after one whose condition is
            // always true.
            whens.retain(|(condition, _)| {
                // A condition that is NULL counts as false.
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

/// Gives a call of an associative function the arguments of its operands that call the same function, in their place.
/// The operands must have been rewritten before.
fn join_chain(expr: &mut ScalarExpr) {
    let ExprOp::Call(function, arguments) = &mut expr.op else { return };
    let is_same = |part: &ScalarExpr| matches!(&part.op, ExprOp::Call(inner, _) if std::ptr::eq(*inner, *function));
    if !function.associative || !arguments.iter().any(is_same) {
        return;
    }
    let mut joined = Vec::new();
    for argument in arguments.drain(..) {
        match argument.op {
            // A chain is nested on its left side. Its arguments stay where they are, so that a long chain takes linear
            // time.
            ExprOp::Call(inner, parts) if std::ptr::eq(inner, *function) && joined.is_empty() => joined = parts,
            ExprOp::Call(inner, parts) if std::ptr::eq(inner, *function) => joined.extend(parts),
            _ => joined.push(argument),
        }
    }
    *arguments = joined;
}

/// Returns the value of `AND` of `parts` if it is decided, or else drops the parts that are true. For `OR`, drops those
/// that are false.
fn junction(parts: &mut Vec<ScalarExpr>, is_and: bool) -> Option<ScalarExpr> {
    let decides = |part: &ScalarExpr| part.as_constant().and_then(Constant::as_bool) == Some(!is_and);
    // One FALSE decides an AND, whatever the other operands are, even if they fail.
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
