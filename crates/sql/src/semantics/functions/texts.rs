//! Lengths of texts in bytes, and texts cut to a number of characters.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, StringViewArray};
use arrow::compute::{cast, kernels::length::length};
use arrow::datatypes::{DataType, Int64Type};
use datafusion::logical_expr::{Expr, ScalarUDF};
use rowmill_base::{Error, Result};

use super::{Function, integer};

/// `octet_length(x)`, also called `strlen`: the bytes of a text or a BLOB.
pub(super) fn octet_length() -> Arc<ScalarUDF> {
    let bytes = |types: &[DataType]| {
        matches!(types, [kind] if crate::types::is_text(kind) || kind.is_binary() || kind.is_null())
            .then_some(DataType::Int32)
    };
    let function = Function::new("octet_length", bytes, run_octet_length);
    Arc::new(ScalarUDF::from(Function { aliases: vec!["strlen".to_owned()], ..function }))
}

fn run_octet_length(columns: &[ArrayRef], _rows: usize) -> Result<ArrayRef> {
    let failed = |error: arrow::error::ArrowError| Error::internal(error.to_string());
    match columns[0].data_type() {
        DataType::Null => cast(&columns[0], &DataType::Int32).map_err(failed),
        _ => length(&columns[0]).and_then(|lengths| cast(&lengths, &DataType::Int32)).map_err(failed),
    }
}

/// The first `chars_max` characters of `expr`: what a cast to `VARCHAR(n)` keeps.
pub(in crate::semantics) fn first_chars(expr: Expr, chars_max: u32) -> Expr {
    Function::new("first_chars", |_| Some(DataType::Utf8View), run).call(vec![expr, integer(chars_max.into())])
}

fn run(columns: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
    let texts = cast(&columns[0], &DataType::Utf8View).map_err(|error| Error::internal(error.to_string()))?;
    if rows == 0 {
        return Ok(texts);
    }
    let texts = texts.as_string_view();
    let chars_max = columns[1].as_primitive::<Int64Type>().value(0) as usize;
    // A text of so many bytes has no more characters.
    if texts.lengths().all(|bytes| bytes as usize <= chars_max) {
        return Ok(Arc::new(texts.clone()));
    }
    let cut: StringViewArray = texts
        .iter()
        .map(|text| {
            text.map(|text| match text.char_indices().nth(chars_max) {
                Some((end, _)) => &text[..end],
                None => text,
            })
        })
        .collect();
    Ok(Arc::new(cut))
}
