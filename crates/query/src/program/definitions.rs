//! The columns of a statement that are defined by expressions over other columns.
//!
//! Every column has its own id, so one map is enough for all of them. The expression replaces its column at the place
//! where a program computes it.

use std::cell::RefCell;
use std::collections::HashMap;

use arrow::datatypes::DataType;
use rowmill_plan::{ColumnId, ColumnNames, ExprOp, ScalarExpr};

use crate::optimizer::facts;

/// The columns of a statement, and the expressions of computed columns.
#[derive(Debug)]
pub(super) struct Definitions {
    exprs: RefCell<HashMap<usize, ScalarExpr>>,
    kinds: RefCell<ColumnNames>,
}

impl Definitions {
    pub(super) fn new(columns: &ColumnNames) -> Definitions {
        Definitions { exprs: RefCell::default(), kinds: RefCell::new(columns.clone()) }
    }

    /// Records the expressions of columns.
    pub(super) fn add(&self, exprs: &[(ColumnId, ScalarExpr)]) {
        self.exprs.borrow_mut().extend(exprs.iter().map(|(id, expr)| (id.0, expr.clone())));
    }

    /// Adds a column with the type of `of`.
    pub(super) fn add_column(&self, of: &ScalarExpr) -> ColumnId {
        self.kinds.borrow_mut().add("key", of.kind.clone())
    }

    /// The type of a column.
    pub(super) fn kind(&self, id: ColumnId) -> DataType {
        self.kinds.borrow().get(id).kind.clone()
    }

    /// A column as an expression.
    pub(super) fn column(&self, id: ColumnId) -> ScalarExpr {
        ScalarExpr::id(id, self.kind(id))
    }

    /// `left IS NOT DISTINCT FROM right` of two columns.
    pub(super) fn same(&self, left: ColumnId, right: ColumnId) -> ScalarExpr {
        facts::same(&self.kinds.borrow(), left, right)
    }

    /// Replaces computed columns in `expr` by their expressions, except those for which `is_known` is true.
    pub(super) fn resolve(&self, expr: &ScalarExpr, is_known: &dyn Fn(usize) -> bool) -> ScalarExpr {
        let mut resolved = expr.clone();
        self.replace(&mut resolved, is_known, &self.exprs.borrow());
        resolved
    }

    fn replace(&self, expr: &mut ScalarExpr, is_known: &dyn Fn(usize) -> bool, exprs: &HashMap<usize, ScalarExpr>) {
        if let ExprOp::Column(id) = expr.op {
            if let Some(of) = exprs.get(&id).filter(|_| !is_known(id)) {
                *expr = of.clone();
                self.replace(expr, is_known, exprs);
            }
            return;
        }
        expr.operands_mut().into_iter().for_each(|operand| self.replace(operand, is_known, exprs));
    }
}
