//! A decoded value list: all bytes in one buffer, and the Arrow arrays that are views into it.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use arrow::array::{
    Array, ArrayRef, BinaryArray, BinaryViewArray, BooleanBufferBuilder, StringArray, StringViewArray, UInt32Array,
};
use arrow::buffer::{Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use rowmill_base::{Error, Result};

use super::StringKind;

/// Values behind one another in one buffer.
#[derive(Debug)]
pub struct DecodedList {
    bytes: Buffer,
    offsets: ScalarBuffer<u32>,
    kind: StringKind,
    array: OnceLock<ArrayRef>,
}

impl DecodedList {
    /// `offsets` has one entry more than values, starts at 0, never falls and ends at the length of `bytes`.
    pub(super) fn new(bytes: Vec<u8>, offsets: Vec<u32>, kind: StringKind) -> DecodedList {
        debug_assert_eq!(offsets.last().map(|&end| end as usize), Some(bytes.len()));
        DecodedList { bytes: bytes.into(), offsets: offsets.into(), kind, array: OnceLock::new() }
    }

    /// A range of the values, sharing the bytes.
    pub(super) fn slice(&self, values: Range<usize>) -> DecodedList {
        let base = self.offsets[values.start];
        let bytes = self.bytes.slice_with_length(base as usize, (self.offsets[values.end] - base) as usize);
        let offsets = self.offsets[values.start..=values.end].iter().map(|offset| offset - base).collect();
        DecodedList { bytes, offsets, kind: self.kind, array: OnceLock::new() }
    }

    /// Values.
    pub fn len(&self) -> usize {
        self.offsets.len() - 1
    }

    /// True without any value.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes of all values, one behind the other.
    pub fn bytes(&self) -> &Buffer {
        &self.bytes
    }

    /// Value `i` is `bytes[offsets[i]..offsets[i + 1]]`.
    pub fn offsets(&self) -> &[u32] {
        &self.offsets
    }

    /// One value. Panics if there is none of that number.
    pub fn value(&self, index: usize) -> &[u8] {
        &self.bytes[self.offsets[index] as usize..self.offsets[index + 1] as usize]
    }

    /// All values in their order as an Arrow array of views into [`Self::bytes`]; made once.
    pub fn array(&self) -> Result<&ArrayRef> {
        if let Some(array) = self.array.get() {
            return Ok(array);
        }
        let array = views_of(&self.bytes, &self.offsets, self.kind, None)?;
        Ok(self.array.get_or_init(|| array))
    }

    /// The values of rows by their codes, NULL where the code is [`Self::len`]. Copies no string bytes.
    pub fn views(&self, codes: &[u32]) -> Result<ArrayRef> {
        let null = self.len() as u32;
        let highest = codes.iter().copied().max().unwrap_or(0);
        if highest > null {
            return Err(Error::corrupt(format!("code {highest} in a column of {null} values")));
        }
        let nulls = (highest == null && !codes.is_empty()).then(|| {
            let mut valid = BooleanBufferBuilder::new(codes.len());
            codes.iter().for_each(|&code| valid.append(code != null));
            NullBuffer::new(valid.finish())
        });
        let codes = UInt32Array::new(ScalarBuffer::from(codes.to_vec()), nulls);
        arrow::compute::take(self.array()?, &codes, None).map_err(|error| Error::internal(error.to_string()))
    }
}

/// Views into `bytes`; text is verified here, all of it at once.
pub(super) fn views_of(
    bytes: &Buffer,
    offsets: &ScalarBuffer<u32>,
    kind: StringKind,
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef> {
    let offsets = OffsetBuffer::new(ScalarBuffer::<i32>::from(offsets.inner().clone()));
    let array: ArrayRef = match kind {
        StringKind::Text => {
            let strings = StringArray::try_new(offsets, bytes.clone(), nulls)
                .map_err(|_| Error::corrupt("a text value is not UTF-8"))?;
            Arc::new(StringViewArray::from(&strings))
        }
        StringKind::Binary => {
            let strings = BinaryArray::try_new(offsets, bytes.clone(), nulls)
                .map_err(|error| Error::corrupt(error.to_string()))?;
            Arc::new(BinaryViewArray::from(&strings))
        }
    };
    debug_assert_eq!(array.data_type(), &kind.data_type());
    Ok(array)
}
