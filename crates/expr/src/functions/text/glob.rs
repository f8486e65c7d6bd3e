//! `text GLOB pattern`, as SQLite has it.

use arrow::array::ArrayRef;
use arrow::datatypes::DataType;
use rowmill_base::Result;
use rowmill_plan::Operand;

use crate::functions::rowwise::{TextArgument, booleans};
use crate::glob::GlobPattern;

pub(super) fn glob(arguments: &[Operand], _kind: &DataType, rows: usize) -> Result<ArrayRef> {
    let (patterns, texts) = (TextArgument::new(&arguments[0]), TextArgument::new(&arguments[1]));
    if let Some(pattern) = patterns.constant() {
        let pattern = GlobPattern::new(pattern);
        return booleans(arguments, rows, |row| pattern.matches(texts.at(row)));
    }
    booleans(arguments, rows, |row| GlobPattern::new(patterns.at(row)).matches(texts.at(row)))
}
