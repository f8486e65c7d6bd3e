//! Values for the parameters of a bound query.

use rowmill_base::{Error, ErrorKind, Result};
use rowmill_expr::fold::fold;
use rowmill_expr::typing;
use rowmill_plan::{Constant, ExprOp, ScalarExpr};

use crate::binder::BoundQuery;
use crate::binder::walk::rewrite_plan;

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
