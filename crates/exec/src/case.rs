//! CASE expressions that choose among columns and constants. With them, a column need not be read for rows that do not
//! choose it.

use std::sync::Arc;

use arrow::array::ArrayRef;

use crate::function::VectorFunction;

/// The branches of a CASE expression, in the order in which they are tried. Columns are places among the columns that
/// the function of the expression reads.
#[derive(Debug)]
pub struct CaseFunction {
    /// The conditions, which must not fail, each with the result of rows for which it is the first true condition.
    pub arms: Vec<(Arc<dyn VectorFunction>, CaseBranch)>,
    /// The result of all other rows.
    pub otherwise: CaseBranch,
}

/// The result of a branch. All branches have the type of the expression.
#[derive(Debug)]
pub enum CaseBranch {
    /// The row's value of a column.
    Column(usize),
    /// The single value of an array.
    Constant(ArrayRef),
}
