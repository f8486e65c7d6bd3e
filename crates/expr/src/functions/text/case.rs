//! Functions that change the case of texts or reverse them.

use arrow::array::ArrayRef;
use arrow::datatypes::DataType;
use rowmill_base::Result;
use rowmill_plan::Operand;

use crate::functions::rowwise::{TextArgument, texts};
use crate::kernels::letter_case::{lowercase, uppercase};

/// The only letter whose lower case depends on the letters around it.
const CAPITAL_SIGMA: char = 'Σ';

pub(super) fn upper(arguments: &[Operand], _kind: &DataType, rows: usize) -> Result<ArrayRef> {
    rewritten("upper", arguments, rows, |source, made| match source.is_ascii() {
        true => {
            made.push_str(source);
            made.make_ascii_uppercase();
        }
        false => made.extend(source.chars().flat_map(uppercase)),
    })
}

pub(super) fn lower(arguments: &[Operand], _kind: &DataType, rows: usize) -> Result<ArrayRef> {
    rewritten("lower", arguments, rows, |source, made| match source.is_ascii() {
        true => {
            made.push_str(source);
            made.make_ascii_lowercase();
        }
        // The standard library knows the special lower-case sigma at the end of a word.
        false if source.contains(CAPITAL_SIGMA) => made.push_str(&source.to_lowercase()),
        false => made.extend(source.chars().flat_map(lowercase)),
    })
}

pub(super) fn initcap(arguments: &[Operand], _kind: &DataType, rows: usize) -> Result<ArrayRef> {
    rewritten("initcap", arguments, rows, |source, made| {
        let mut is_inside = false;
        for char in source.chars() {
            match is_inside {
                true => made.extend(lowercase(char)),
                false => made.extend(uppercase(char)),
            }
            is_inside = char.is_alphanumeric();
        }
    })
}

pub(super) fn reverse(arguments: &[Operand], _kind: &DataType, rows: usize) -> Result<ArrayRef> {
    rewritten("reverse", arguments, rows, |source, made| made.extend(source.chars().rev()))
}

/// Writes a text of about the same size for each text of the argument.
fn rewritten(
    function: &'static str,
    arguments: &[Operand],
    rows: usize,
    write: impl Fn(&str, &mut String),
) -> Result<ArrayRef> {
    let sources = TextArgument::new(&arguments[0]);
    texts(function, arguments, rows, |row, made| {
        write(sources.at(row), made.text());
        Ok(())
    })
}
