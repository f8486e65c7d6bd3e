//! Functions that the engine gets from outside, for example from the planner.

use std::fmt;

use arrow::array::ArrayRef;
use rowmill_base::{LengthUnit, Result};

use crate::arithmetic::Arithmetic;
use crate::case::CaseFunction;
use crate::column_parts::ColumnParts;

/// A function of columns that the engine has no operator for. It must return the same result for the same values.
pub trait VectorFunction: Send + Sync + fmt::Debug {
    /// The columns that it reads, as positions in the table's definition or in another input that it is evaluated
    /// over.
    fn columns(&self) -> &[usize];

    /// Returns the results for `rows` rows of the columns.
    fn evaluate(&self, columns: &[ArrayRef], rows: usize) -> Result<ArrayRef>;

    /// Whether it is known that the function fails for no values of its columns. If so, it need not be evaluated for
    /// rows that are not needed, because no error can be missed.
    fn never_fails(&self) -> bool {
        false
    }

    /// Whether computing a result costs more than looking it up in a small table.
    fn is_costly(&self) -> bool {
        false
    }

    /// If the function depends only on the lengths of the texts of its only column, returns their unit and the function
    /// of these lengths, which are INTEGERs. Value lists know the lengths without decoding the texts.
    fn of_lengths(&self) -> Option<(LengthUnit, &dyn VectorFunction)> {
        None
    }

    /// If the results are exact arithmetic on the integers in the columns, returns the expression.
    fn arithmetic(&self) -> Option<&Arithmetic> {
        None
    }

    /// Whether the function reads one column only, and its result never falls while the column rises. Its result for a
    /// value must not be NULL.
    fn is_ascending(&self) -> bool {
        false
    }

    /// If the function reads several columns, returns the parts of it that read one column each. `None` if there are no
    /// such parts.
    fn column_parts(&self) -> Option<&ColumnParts> {
        None
    }

    /// If the function is a CASE, returns its branches. The engine asks for them if several columns of a block are
    /// read.
    fn case(&self) -> Option<&CaseFunction> {
        None
    }
}
