//! The text form of every type.
//!
//! One reader and one writer: INSERT, COPY, CAST, literals, comparisons with literals and the appender use these.

use arrow::array::ArrayRef;
use arrow::datatypes::DataType;
use rowmill_base::Result;
use rowmill_plan::Constant;

/// The value that `text` is in type `kind`. Fails with `InvalidText`, `InvalidDatetime` or `NumericOutOfRange`.
pub fn parse(_text: &str, _kind: &DataType) -> Result<Constant> {
    todo!()
}

/// The text of a value of `values`, as CAST to TEXT, results and files show it; `None` for NULL.
pub fn format(_values: &ArrayRef, _row: usize) -> Option<String> {
    todo!()
}
