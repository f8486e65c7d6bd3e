//! Expressions as SQL, for EXPLAIN.

use rowmill_plan::ScalarExpr;

/// `expr` as SQL, with `name` naming its columns.
pub fn text(_expr: &ScalarExpr, _name: &dyn Fn(usize) -> String) -> String {
    todo!()
}
