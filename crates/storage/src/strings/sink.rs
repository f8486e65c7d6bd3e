//! Where decoded values go: one Arrow buffer with offsets, text verified on the way.
//!
//! Stored text is not trusted to be UTF-8, and a `str` that is not would be undefined behaviour. Arrow's own check of
//! a finished array takes five times as long as decoding it where the text is not ASCII (21 ms for 15 MB of Cyrillic
//! titles); so text is checked in slabs while it is in the cache, by `simdutf8` (0.6 ms), and goes through Arrow's
//! builder as `str`. That copy is also the one that puts all values behind one another: there is no other.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BinaryArray, BinaryBuilder, BinaryViewArray, GenericByteBuilder, StringArray, StringBuilder,
    StringViewArray,
};
use arrow::buffer::{Buffer, NullBuffer, ScalarBuffer};
use arrow::datatypes::ByteArrayType;
use rowmill_base::{Error, Result};

use super::StringKind;

/// Collects values of one kind, [`super::LIST_BYTES_MAX`] bytes at most: the caller sees to that.
#[derive(Debug)]
pub(super) enum Sink {
    Text(StringBuilder),
    Binary(BinaryBuilder),
}

/// What a sink has collected.
#[derive(Clone, Debug)]
pub(super) enum Collected {
    Text(StringArray),
    Binary(BinaryArray),
}

impl Sink {
    /// A sink with room for that much.
    pub(super) fn new(kind: StringKind, values: usize, bytes: usize) -> Sink {
        match kind {
            StringKind::Text => Sink::Text(StringBuilder::with_capacity(values, bytes)),
            StringKind::Binary => Sink::Binary(BinaryBuilder::with_capacity(values, bytes)),
        }
    }

    /// Appends the values that lie between each two of `offsets` in `bytes`; NULL where `valid` is false.
    pub(super) fn append(&mut self, bytes: &[u8], offsets: &[u32], valid: Option<NullBuffer>) -> Result<()> {
        match self {
            Sink::Text(builder) => {
                let text = checked_text(bytes, offsets)?;
                let base = offsets[0] as usize;
                // The whole is UTF-8; a value is, too, if it starts and ends between two characters.
                let value = |start: usize, end: usize| {
                    text.get(start - base..end - base).ok_or_else(|| corrupt("ends within a character"))
                };
                append_each(builder, offsets, valid, value)
            }
            Sink::Binary(builder) => append_each(builder, offsets, valid, |start, end| Ok(&bytes[start..end])),
        }
    }

    /// Appends one value.
    pub(super) fn append_one(&mut self, value: &[u8]) -> Result<()> {
        self.append(value, &[0, value.len() as u32], None)
    }

    /// Appends a NULL.
    pub(super) fn append_null(&mut self) {
        match self {
            Sink::Text(builder) => builder.append_null(),
            Sink::Binary(builder) => builder.append_null(),
        }
    }

    /// Bytes so far.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Sink::Text(builder) => builder.values_slice().len(),
            Sink::Binary(builder) => builder.values_slice().len(),
        }
    }

    pub(super) fn finish(mut self) -> Collected {
        match &mut self {
            Sink::Text(builder) => Collected::Text(builder.finish()),
            Sink::Binary(builder) => Collected::Binary(builder.finish()),
        }
    }
}

/// All the text that `offsets` are about.
fn checked_text<'b>(bytes: &'b [u8], offsets: &[u32]) -> Result<&'b str> {
    let end = offsets[offsets.len() - 1] as usize;
    let start = offsets[0] as usize;
    simdutf8::basic::from_utf8(&bytes[start..end]).map_err(|_| corrupt("is not UTF-8"))
}

fn corrupt(what: &str) -> Error {
    Error::corrupt(format!("a text value {what}"))
}

fn append_each<'b, T: ByteArrayType>(
    builder: &mut GenericByteBuilder<T>,
    offsets: &[u32],
    valid: Option<NullBuffer>,
    value: impl Fn(usize, usize) -> Result<&'b T::Native>,
) -> Result<()>
where
    T::Native: 'b,
{
    for (index, ends) in offsets.windows(2).enumerate() {
        match valid.as_ref().is_some_and(|valid| valid.is_null(index)) {
            true => builder.append_null(),
            false => builder.append_value(value(ends[0] as usize, ends[1] as usize)?),
        }
    }
    Ok(())
}

impl Collected {
    /// The bytes of all values, one behind the other.
    pub(super) fn bytes(&self) -> &Buffer {
        match self {
            Collected::Text(array) => array.values(),
            Collected::Binary(array) => array.values(),
        }
    }

    /// Where each value ends; starts with a 0.
    pub(super) fn offsets(&self) -> ScalarBuffer<u32> {
        let offsets = match self {
            Collected::Text(array) => array.offsets(),
            Collected::Binary(array) => array.offsets(),
        };
        // None is negative, so they are the same numbers without a sign.
        ScalarBuffer::from(offsets.inner().inner().clone())
    }

    /// The values as views into the same bytes.
    pub(super) fn views(&self) -> ArrayRef {
        match self {
            Collected::Text(array) => Arc::new(StringViewArray::from(array)),
            Collected::Binary(array) => Arc::new(BinaryViewArray::from(array)),
        }
    }
}
