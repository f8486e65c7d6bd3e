//! CASE expressions by their branches. With them, a condition and a branch are computed only for the rows that reach
//! them, and a column is read only for those rows.

use std::sync::Arc;

use arrow::array::ArrayRef;

use crate::function::VectorFunction;

/// The branches of a CASE expression, in the order in which they are tried. Columns are places among the columns that
/// the function of the expression reads.
#[derive(Debug)]
pub struct CaseFunction {
    /// The conditions, each with the result of rows for which it is the first true condition.
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
    /// An expression of columns.
    Computed(Arc<dyn VectorFunction>),
}
