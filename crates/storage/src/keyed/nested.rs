//! Stores a list or struct in a row as a chunk of one row, because a chunk checks its own bytes. A JSON document is
//! stored as its text.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, StringViewArray, StructArray};
use arrow::datatypes::DataType;
use rowmill_base::{Error, Result, SqlType, json_arrow};

use crate::chunk::{self, Chunk, ChunkBytes};

/// Encodes the one value of `array`.
pub(crate) fn encode_nested(array: &ArrayRef) -> Result<Vec<u8>> {
    assert_eq!(array.len(), 1, "the array must have exactly one row");
    let kind = SqlType::from_arrow(array.data_type())
        .ok_or_else(|| Error::internal(format!("no SQL type is stored as {}", array.data_type())))?;
    chunk::encode(array, &kind)
}

/// Makes JSON documents of their stored texts.
pub fn json_of_texts(texts: StringViewArray) -> Result<ArrayRef> {
    let DataType::Struct(fields) = json_arrow() else { unreachable!("JSON is carried as a struct") };
    let nulls = texts.nulls().cloned();
    let documents = StructArray::try_new(fields, vec![Arc::new(texts)], nulls);
    Ok(Arc::new(documents.map_err(|error| Error::internal(error.to_string()))?))
}

/// Decodes the bytes of [`encode_nested`] to an array of one row.
pub fn decode_nested(bytes: &[u8], kind: &SqlType) -> Result<ArrayRef> {
    // Opening and reading verify the checksums of the chunk.
    let chunk = Chunk::open(ChunkBytes::memory(bytes), kind)?;
    match chunk.rows() {
        1 => chunk.read(0..1),
        rows => Err(Error::corrupt(format!("a value of type {kind} is stored as {rows} values"))),
    }
}
