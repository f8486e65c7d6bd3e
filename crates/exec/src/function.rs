//! Functions that the engine is handed.

use std::fmt;

use arrow::array::ArrayRef;
use arrow::datatypes::DataType;
use rowmill_base::Result;
pub use rowmill_storage::strings::LengthUnit;

use crate::arithmetic::Arithmetic;
use crate::case::Case;

/// A function of columns that the engine has no operators for. It gives the same for the same values.
pub trait VectorFunction: Send + Sync + fmt::Debug {
    /// The columns that it reads, by their positions in the table's definition or in what else it is evaluated over.
    fn columns(&self) -> &[usize];

    /// The results for `rows` rows of the columns.
    fn evaluate(&self, columns: &[ArrayRef], rows: usize) -> Result<ArrayRef>;

    /// Whether no value of the columns makes it fail, for all that is known, so that nobody misses an error of rows for which it
    /// is not asked.
    fn never_fails(&self) -> bool {
        false
    }

    /// What the results count and their type, if they are the lengths of the texts of its one column: lists know those without
    /// the texts.
    fn length(&self) -> Option<(LengthUnit, &DataType)> {
        None
    }

    /// What the results are of the integers in the columns, if they are that.
    fn arithmetic(&self) -> Option<&Arithmetic> {
        None
    }

    /// What the results are chosen of, if they are texts of columns or constants, by conditions that do not fail. Asked where several
    /// columns of a block are read.
    fn case(&self) -> Option<&Case> {
        None
    }
}
