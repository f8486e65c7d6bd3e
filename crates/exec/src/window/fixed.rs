//! Converts words to values of fixed size.

use std::sync::Arc;

use arrow::array::{ArrayData, ArrayRef, BooleanArray, make_array};
use arrow::buffer::{Buffer, NullBuffer};
use arrow::datatypes::DataType;
use rowmill_base::Result;

use super::failed;
use crate::group::width_of;

/// Makes values of `kind` from their bits. The type must have up to 64 bits.
pub(super) fn narrow_array(kind: &DataType, words: Vec<u64>, nulls: Option<NullBuffer>) -> Result<ArrayRef> {
    let rows = words.len();
    let buffer = match width_of(kind) {
        Some(1) => return Ok(Arc::new(BooleanArray::new(words.iter().map(|word| *word != 0).collect(), nulls))),
        Some(8) => Buffer::from_vec(words.iter().map(|word| *word as u8).collect::<Vec<_>>()),
        Some(16) => Buffer::from_vec(words.iter().map(|word| *word as u16).collect::<Vec<_>>()),
        Some(32) => Buffer::from_vec(words.iter().map(|word| *word as u32).collect::<Vec<_>>()),
        _ => Buffer::from_vec(words),
    };
    array_of_buffer(kind, rows, buffer, nulls)
}

/// Makes values of `kind` from their bits. The type must have 128 bits.
pub(super) fn wide_array(kind: &DataType, words: Vec<u128>, nulls: Option<NullBuffer>) -> Result<ArrayRef> {
    array_of_buffer(kind, words.len(), Buffer::from_vec(words), nulls)
}

fn array_of_buffer(kind: &DataType, rows: usize, buffer: Buffer, nulls: Option<NullBuffer>) -> Result<ArrayRef> {
    let data = ArrayData::builder(kind.clone()).len(rows).add_buffer(buffer).nulls(nulls);
    data.align_buffers(true).build().map(make_array).map_err(failed)
}

/// Makes the validity of rows from whether each row has a value. `None` if all rows have one.
pub(super) fn validity(rows: impl Iterator<Item = bool>) -> Option<NullBuffer> {
    Some(NullBuffer::from_iter(rows)).filter(|nulls| nulls.null_count() > 0)
}
