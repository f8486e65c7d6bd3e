//! A decoded value list: all bytes in one buffer, and Arrow arrays that are views into it.

use std::sync::OnceLock;

use arrow::array::{ArrayRef, UInt32Array};
use arrow::buffer::{BooleanBuffer, Buffer, NullBuffer, ScalarBuffer};
use rowmill_base::{Error, Result};

use super::sink::{Collected, Sink};

/// Values stored one after another in one buffer. Text is verified to be UTF-8.
#[derive(Debug)]
pub struct DecodedList {
    values: Collected,
    offsets: ScalarBuffer<u32>,
    array: OnceLock<ArrayRef>,
}

impl DecodedList {
    pub(super) fn new(sink: Sink) -> DecodedList {
        let values = sink.finish();
        DecodedList { offsets: values.offsets(), values, array: OnceLock::new() }
    }

    /// The number of values.
    pub fn len(&self) -> usize {
        self.offsets.len() - 1
    }

    /// Whether the list has no values.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes of all values, one after another.
    pub fn bytes(&self) -> &Buffer {
        self.values.bytes()
    }

    /// The offsets of the values: value `i` is `bytes[offsets[i]..offsets[i + 1]]`.
    pub fn offsets(&self) -> &[u32] {
        &self.offsets
    }

    /// The bytes of one value. Panics if the list is shorter.
    pub fn value(&self, index: usize) -> &[u8] {
        &self.bytes()[self.offsets[index] as usize..self.offsets[index + 1] as usize]
    }

    /// All values in order, as an Arrow array of views into [`Self::bytes`]. Made once.
    pub fn array(&self) -> &ArrayRef {
        self.array.get_or_init(|| self.values.views())
    }

    /// The values of rows with these codes. The code [`Self::len`] is NULL. Copies no string bytes.
    pub fn views(&self, codes: &[u32]) -> Result<ArrayRef> {
        let null = self.len() as u32;
        // `take` would panic on a code above the list, so we check the highest one first.
        let highest = codes.iter().copied().max().unwrap_or(0);
        if highest > null {
            return Err(Error::corrupt(format!("code {highest} in a list of {null} values")));
        }
        let any_null = highest == null && !codes.is_empty();
        let nulls =
            any_null.then(|| NullBuffer::new(BooleanBuffer::collect_bool(codes.len(), |row| codes[row] != null)));
        let codes = UInt32Array::new(ScalarBuffer::from(codes.to_vec()), nulls);
        arrow::compute::take(self.array(), &codes, None).map_err(|error| Error::internal(error.to_string()))
    }
}
