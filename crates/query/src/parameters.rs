//! Values for the parameters of a bound query.

use rowmill_base::{Error, ErrorKind, Result};
use rowmill_expr::fold::fold;
use rowmill_expr::kinds::is_float;
use rowmill_expr::typing;
use rowmill_plan::{Constant, ExprOp, ScalarExpr};

use crate::binder::BoundQuery;
use crate::binder::walk::rewrite_plan;
use crate::widening::without_widening;

impl BoundQuery {
    /// Replaces the parameters for which `is_null` is true by NULL.
    pub fn set_null_parameters(&mut self, is_null: &dyn Fn(usize) -> bool) {
        rewrite_plan(&mut self.query.root, &mut |expr| set_null(expr, is_null));
    }

    /// Replaces the parameters by `values`. Each value is cast to the type with which its parameter was bound.
    pub fn set_parameters(&mut self, values: &[Constant]) -> Result<()> {
        if values.is_empty() && self.parameters.is_empty() {
            return Ok(());
        }
        let mut failed = None;
        rewrite_plan(&mut self.query.root, &mut |expr| set_value(expr, values, &mut failed));
        failed.map_or(Ok(()), Err)
    }
}

/// Replaces the parameters of an expression by `values`, as [`BoundQuery::set_parameters`] does.
pub fn set_parameters(expr: &mut ScalarExpr, values: &[Constant]) -> Result<()> {
    let mut failed = None;
    expr.rewrite(&mut |part| set_value(part, values, &mut failed));
    failed.map_or(Ok(()), Err)
}

fn set_value(expr: &mut ScalarExpr, values: &[Constant], failed: &mut Option<Error>) {
    let ExprOp::Parameter(number) = expr.op else {
        // With a value, the expressions around it may become constants.
        let operands = expr.operands();
        if !operands.is_empty() && operands.iter().all(|operand| operand.as_constant().is_some()) {
            fold(expr);
        } else {
            compare_unwidened(expr);
        }
        return;
    };
    let value = values.get(number).ok_or_else(|| no_value(number));
    match value.and_then(|value| typing::cast(ScalarExpr::literal(value.clone()), &expr.kind, false)) {
        Ok(value) => {
            *expr = value;
            fold(expr);
        }
        Err(error) => *failed = Some(error),
    }
}

/// Compares a column in its own type if the values allow it, as a comparison with literals does from the start. For
/// example, `CAST(a AS BIGINT) = 5` becomes `a = 5`. Scans find rows by a key, and skip blocks, only for such
/// conditions.
fn compare_unwidened(expr: &mut ScalarExpr) {
    let unwidened = match &expr.op {
        ExprOp::Compare(op, pair) => {
            let [left, right] = &**pair;
            match (own_form(left, &[right]), own_form(right, &[left])) {
                (Some((left, mut values)), _) => Some(ScalarExpr::compare(left, *op, values.remove(0))),
                (_, Some((right, mut values))) => Some(ScalarExpr::compare(values.remove(0), *op, right)),
                (None, None) => None,
            }
        }
        ExprOp::InList { value, list, negated } => {
            own_form(value, &list.iter().collect::<Vec<_>>()).map(|(value, list)| {
                let op = ExprOp::InList { value: Box::new(value), list, negated: *negated };
                ScalarExpr { kind: expr.kind.clone(), op }
            })
        }
        _ => None,
    };
    if let Some(unwidened) = unwidened {
        *expr = unwidened;
    }
}

/// Returns `side` without casts that lose nothing, and `values` in its type. Returns `None` if there is no such cast,
/// or if one of the values is no constant that the type has.
fn own_form(side: &ScalarExpr, values: &[&ScalarExpr]) -> Option<(ScalarExpr, Vec<ScalarExpr>)> {
    let own = without_widening(side);
    // A float changes its value if it becomes narrower.
    if own.kind == side.kind || is_float(&own.kind) || is_float(&side.kind) {
        return None;
    }
    let is_value = |value: &&ScalarExpr| value.as_constant().is_some_and(|constant| !constant.is_null());
    let compared: Vec<&ScalarExpr> = std::iter::once(own).chain(values.iter().copied()).collect();
    if !values.iter().all(is_value) || typing::comparison_kind(&compared)? != own.kind {
        return None;
    }
    let in_own_type = values.iter().map(|value| {
        let mut value = typing::coerce((*value).clone(), &own.kind).ok()?;
        fold(&mut value);
        value.as_constant().is_some().then_some(value)
    });
    Some((own.clone(), in_own_type.collect::<Option<_>>()?))
}

/// Replaces the parameters of an expression for which `is_null` is true by NULL.
pub fn set_null_parameters(expr: &mut ScalarExpr, is_null: &dyn Fn(usize) -> bool) {
    expr.rewrite(&mut |part| set_null(part, is_null));
}

fn set_null(expr: &mut ScalarExpr, is_null: &dyn Fn(usize) -> bool) {
    if let ExprOp::Parameter(number) = expr.op
        && is_null(number)
    {
        *expr = ScalarExpr::null(expr.kind.clone());
    }
}

fn no_value(number: usize) -> Error {
    Error::new(ErrorKind::CardinalityViolation, format!("there is no value for the parameter ${}", number + 1))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use arrow::datatypes::DataType;
    use rowmill_plan::CompareOp;

    use super::*;

    /// The comparison of a SMALLINT with a parameter, after the parameter has the value.
    fn compared(op: CompareOp, value: i64) -> ScalarExpr {
        let column = typing::cast(ScalarExpr::column(0, DataType::Int16), &DataType::Int64, false).unwrap();
        let parameter = ScalarExpr::new(DataType::Int64, ExprOp::Parameter(0));
        let mut condition = ScalarExpr::compare(column, op, parameter);
        set_parameters(&mut condition, &[Constant::from(value)]).unwrap();
        condition
    }

    #[test]
    fn a_column_is_compared_in_its_own_type_if_the_value_fits() {
        let ExprOp::Compare(CompareOp::Less, pair) = compared(CompareOp::Less, -5).op else { panic!("a comparison") };
        assert_eq!(pair[0], ScalarExpr::column(0, DataType::Int16));
        assert_eq!((pair[1].kind.clone(), pair[1].as_constant().is_some()), (DataType::Int16, true));
        let ExprOp::Compare(_, pair) = compared(CompareOp::Less, 40_000).op else { panic!("a comparison") };
        assert_eq!((&pair[0].kind, &pair[1].kind), (&DataType::Int64, &DataType::Int64));
    }
}
