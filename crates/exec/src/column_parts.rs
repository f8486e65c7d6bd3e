//! Expressions of several columns, cut into the parts that read one column each.
//!
//! ```text
//! price * (1 - discount / 100) - cost      parts   1 - discount / 100         once per value of the block's list
//!                                          whole   price * part - cost        by rows
//! ```
//!
//! A part is computed once for each distinct value of its column where a block lists them, and its results go to the
//! rows by their codes. The values themselves would go to the rows in the same way, so a part that is computed early
//! costs nothing more.

use std::sync::Arc;

use rowmill_base::Result;
use rowmill_expr::fold::can_fail;
use rowmill_plan::{ExprOp, ScalarExpr, Volatility};

use crate::expression::ExpressionFunction;
use crate::function::VectorFunction;

/// An expression of several columns, cut into parts.
#[derive(Debug)]
pub struct ColumnParts {
    /// The parts, in the order in which they are found. Each reads one column, which is a place among the columns that
    /// the function of the expression reads.
    pub parts: Vec<Arc<dyn VectorFunction>>,
    /// The rest of the expression. Its columns are places among the columns of the function, followed by the parts.
    pub whole: Arc<dyn VectorFunction>,
}

impl ColumnParts {
    /// Cuts an expression over `columns` columns. `None` if it has no parts to compute early.
    pub(crate) fn new(expr: &ScalarExpr, columns: usize) -> Result<Option<ColumnParts>> {
        if columns < 2 {
            return Ok(None);
        }
        let (mut whole, mut parts) = (expr.clone(), Vec::new());
        cut(&mut whole, columns, true, &mut parts);
        if parts.is_empty() {
            return Ok(None);
        }
        let function = |expr: &ScalarExpr| Ok(Arc::new(ExpressionFunction::new(expr)?) as Arc<dyn VectorFunction>);
        Ok(Some(ColumnParts { parts: parts.iter().map(function).collect::<Result<_>>()?, whole: function(&whole)? }))
    }
}

/// Replaces the greatest parts of `expr` that read one column by columns from place `columns` on. `is_always_computed`
/// says that `expr` is computed for every row for which the whole expression is.
fn cut(expr: &mut ScalarExpr, columns: usize, is_always_computed: bool, parts: &mut Vec<ScalarExpr>) {
    // An expression for the items of a list has a meaning only inside of the call that gives the items.
    if matches!(expr.op, ExprOp::Column(_) | ExprOp::Literal(_) | ExprOp::EachItem { .. }) {
        return;
    }
    let mut read = Vec::new();
    expr.each(&mut |part| read.extend(part.as_column()));
    let is_of_one = read.first().is_some_and(|first| read.iter().all(|column| column == first));
    // A part is computed for all rows, so it must not fail for rows that do not need it.
    let is_needed = is_always_computed || !can_fail(expr);
    if is_of_one && is_needed && expr.volatility() == Volatility::Immutable {
        let known = parts.iter().position(|part| part == expr);
        let place = known.unwrap_or_else(|| {
            parts.push(expr.clone());
            parts.len() - 1
        });
        *expr = ScalarExpr::column(columns + place, expr.kind.clone());
        return;
    }
    // These compute their first operand for every row, and the others only where the first ones do not decide.
    let are_conditional = matches!(
        expr.op,
        ExprOp::And(_) | ExprOp::Or(_) | ExprOp::Coalesce(_) | ExprOp::Case { .. } | ExprOp::InList { .. }
    );
    for (place, operand) in expr.operands_mut().into_iter().enumerate() {
        cut(operand, columns, is_always_computed && (place == 0 || !are_conditional), parts);
    }
}
