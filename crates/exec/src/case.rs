//! CASE expressions that choose among columns and constants, so that a column need not be read for rows that do not choose it.

use std::sync::Arc;

use arrow::array::ArrayRef;

use crate::function::VectorFunction;

/// The branches of a CASE expression, in the order in which they are asked. Columns are meant by their places among those
/// that the function reads whose expression it is.
#[derive(Debug)]
pub struct Case {
    /// Conditions, none of which fails, and what rows get for which it is the first that is true.
    pub arms: Vec<(Arc<dyn VectorFunction>, Branch)>,
    /// What the other rows get.
    pub otherwise: Branch,
}

/// What a row gets. All branches have the type of the expression.
#[derive(Debug)]
pub enum Branch {
    /// Its value of a column.
    Column(usize),
    /// The one value of an array.
    Constant(ArrayRef),
}
