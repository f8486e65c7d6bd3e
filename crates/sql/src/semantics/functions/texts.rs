//! Lengths of texts in bytes, texts one behind the other, and texts cut to a number of characters.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, StringViewArray, StringViewBuilder};
use arrow::compute::{cast, kernels::length::length};
use arrow::datatypes::{DataType, Int64Type};
use datafusion::logical_expr::{Expr, ScalarUDF};
use rowmill_base::{Error, Result};

use super::{Function, integer};
use crate::guards::bounded;

/// `octet_length(x)`, also called `strlen`: the bytes of a text or a BLOB.
pub(super) fn octet_length() -> Arc<ScalarUDF> {
    let bytes = |types: &[DataType]| {
        matches!(types, [kind] if crate::types::is_text(kind) || kind.is_binary() || kind.is_null())
            .then_some(DataType::Int32)
    };
    let function = Function::new("octet_length", bytes, run_octet_length);
    Arc::new(ScalarUDF::from(Function { aliases: vec!["strlen".to_owned()], ..function }))
}

/// The length of a BLOB: its bytes.
pub(in crate::semantics) fn length_of_bytes(arguments: Vec<Expr>) -> Expr {
    octet_length().call(arguments)
}

fn run_octet_length(columns: &[ArrayRef], _rows: usize) -> Result<ArrayRef> {
    let failed = |error: arrow::error::ArrowError| Error::internal(error.to_string());
    match columns[0].data_type() {
        DataType::Null => cast(&columns[0], &DataType::Int32).map_err(failed),
        _ => length(&columns[0]).and_then(|lengths| cast(&lengths, &DataType::Int32)).map_err(failed),
    }
}

/// `left || right` of texts, NULL if one of them is, under the bound on what a function makes.
pub(in crate::semantics) fn joined(left: Expr, right: Expr) -> Expr {
    let function = ScalarUDF::from(Function::new("||", kind_of_joined, run_joined));
    bounded(Arc::new(function)).call(vec![left, right])
}

fn kind_of_joined(types: &[DataType]) -> Option<DataType> {
    let kinds = [DataType::Utf8View, DataType::LargeUtf8, DataType::Utf8];
    kinds.into_iter().find(|kind| types.contains(kind))
}

fn run_joined(columns: &[ArrayRef], _rows: usize) -> Result<ArrayRef> {
    let failed = |error: arrow::error::ArrowError| Error::internal(error.to_string());
    let views = |column: &ArrayRef| cast(column, &DataType::Utf8View).map_err(failed);
    let (left, right) = (views(&columns[0])?, views(&columns[1])?);
    let mut made = StringViewBuilder::with_capacity(left.len());
    let mut text = String::new();
    for (left, right) in left.as_string_view().iter().zip(right.as_string_view()) {
        let Some((left, right)) = left.zip(right) else {
            made.append_null();
            continue;
        };
        text.clear();
        text.push_str(left);
        text.push_str(right);
        made.try_append_value(&text).map_err(failed)?;
    }
    let types = [columns[0].data_type().clone(), columns[1].data_type().clone()];
    cast(&made.finish(), &kind_of_joined(&types).unwrap_or(DataType::Utf8View)).map_err(failed)
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
