//! A list or struct as bytes of a row: a chunk of one row, which checks itself.

use arrow::array::{Array, ArrayRef};
use rowmill_base::{Error, Result, SqlType};

use crate::chunk::{self, Chunk, ChunkBytes};

/// The bytes of the one value of `array`.
pub fn encode_nested(array: &ArrayRef) -> Result<Vec<u8>> {
    assert_eq!(array.len(), 1, "a value is an array of one row");
    let kind = SqlType::from_arrow(array.data_type())
        .ok_or_else(|| Error::internal(format!("no SQL type is kept as {}", array.data_type())))?;
    chunk::encode(array, &kind)
}

/// The value of [`encode_nested`] as an array of one row.
pub fn decode_nested(bytes: &[u8], kind: &SqlType) -> Result<ArrayRef> {
    let chunk = Chunk::open(ChunkBytes::memory(bytes), kind)?;
    match chunk.rows() {
        1 => chunk.read(0..1),
        rows => Err(Error::corrupt(format!("a value of type {kind} that is {rows} values"))),
    }
}
