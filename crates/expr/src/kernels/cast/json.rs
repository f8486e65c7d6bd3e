//! Casts of JSON documents to other types and back.

use arrow::array::{Array, ArrayRef, StringViewBuilder};
use arrow::datatypes::DataType;
use rowmill_base::Result;

use crate::functions::too_long;
use crate::json::transform::transform;
use crate::json::{self, texts_of};
use crate::text::TextColumn;

/// Reads documents as values of another type.
pub(super) fn read_documents(array: &ArrayRef, kind: &DataType, or_null: bool) -> Result<ArrayRef> {
    let documents = texts_of(array);
    let values: Vec<Option<&str>> = documents.iter().collect();
    transform(&values, kind, or_null)
}

/// Writes values as documents. NULL remains NULL.
pub(super) fn write_documents(array: &ArrayRef) -> Result<ArrayRef> {
    let column = TextColumn::new(array)?;
    let mut texts = StringViewBuilder::with_capacity(array.len());
    let mut text = String::new();
    for row in 0..array.len() {
        if column.is_null(row) {
            texts.append_null();
            continue;
        }
        text.clear();
        column.write_json(row, &mut text);
        texts.try_append_value(&text).map_err(too_long)?;
    }
    Ok(json::of_texts(texts.finish()))
}
