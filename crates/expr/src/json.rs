//! JSON documents: the arrays that carry them, and their parts.
//!
//! - `path`: paths into documents, as DuckDB and PostgreSQL write them.
//! - `parts`: finding the parts that a path selects, without taking the document apart.
//! - `sql_path`: the path language of SQL/JSON, which also has conditions and arithmetic.
//! - `transform`: documents read as values of another type.
//! - `tree`: a document that is taken apart, for functions that change or compare documents.

pub mod parts;
pub mod path;
pub(crate) mod sql_path;
pub(crate) mod transform;
pub(crate) mod tree;

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, StringViewArray, StructArray};
use arrow::compute::nullif;
use arrow::datatypes::DataType;
use rowmill_base::json_arrow;

use crate::text::json::{JsonKind, unescape};

/// Makes documents of their texts, which must be valid JSON without white space around it.
pub(crate) fn of_texts(texts: StringViewArray) -> ArrayRef {
    let DataType::Struct(fields) = json_arrow() else { unreachable!("JSON is carried as a struct") };
    let nulls = texts.nulls().cloned();
    Arc::new(StructArray::new(fields, vec![Arc::new(texts)], nulls))
}

/// Returns the texts of documents.
pub fn texts_of(documents: &ArrayRef) -> StringViewArray {
    let documents = documents.as_struct();
    let texts = documents.column(0);
    match documents.nulls() {
        Some(nulls) if nulls.null_count() > texts.null_count() => {
            // A text under a NULL must not become visible.
            let is_null = BooleanArray::new(!nulls.inner(), None);
            let texts = nullif(texts, &is_null).expect("a struct and its field have the same number of rows");
            texts.as_string_view().clone()
        }
        _ => texts.as_string_view().clone(),
    }
}

/// Returns a value as a text: a string without quotes and escapes, `None` for `null`, and everything else as it is.
pub fn scalar_text<'a>(value: &'a str, scratch: &'a mut String) -> Option<&'a str> {
    match JsonKind::of(value) {
        JsonKind::Null => None,
        JsonKind::String => Some(plain_string(&value[1..value.len() - 1], scratch)),
        _ => Some(value),
    }
}

/// Returns the meaning of the inside of a string.
pub(crate) fn plain_string<'a>(inside: &'a str, scratch: &'a mut String) -> &'a str {
    if !inside.contains('\\') {
        return inside;
    }
    scratch.clear();
    // The escapes of a document were checked when it was made.
    match unescape(inside, scratch) {
        Ok(()) => scratch,
        Err(_) => inside,
    }
}
