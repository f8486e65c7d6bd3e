//! A sorted value list as stored bytes.

use std::ops::Range;

use rowmill_base::{Error, Result};

use super::{DecodedList, LIST_BYTES_MAX, StringKind};

/// How the bytes of a list are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListLayout {
    /// The values as they are.
    Raw,
}

/// Stores ascending `values` in the layout that suits them.
pub fn encode_list(values: &[&[u8]]) -> Result<Vec<u8>> {
    encode_list_as(values, ListLayout::Raw)
}

/// Stores ascending `values` in a given layout.
pub fn encode_list_as(values: &[&[u8]], layout: ListLayout) -> Result<Vec<u8>> {
    let ListLayout::Raw = layout;
    let total: usize = values.iter().map(|value| value.len()).sum();
    if total > LIST_BYTES_MAX {
        return Err(Error::internal(format!("{total} bytes in one value list")));
    }
    let mut out = Vec::with_capacity(total + 4 * values.len());
    for value in values {
        out.extend_from_slice(&(value.len() as u32).to_le_bytes());
    }
    for value in values {
        out.extend_from_slice(value);
    }
    Ok(out)
}

/// A stored list. Opening reads only its header; bytes may be hostile.
#[derive(Clone, Debug)]
pub struct StringList<'a> {
    lengths: &'a [u8],
    payload: &'a [u8],
}

impl<'a> StringList<'a> {
    /// The list in `bytes`, which must hold exactly it: `values` is what the chunk says that it holds.
    pub fn open(bytes: &'a [u8], values: usize) -> Result<StringList<'a>> {
        match bytes.split_at_checked(values * 4) {
            Some((lengths, payload)) => Ok(StringList { lengths, payload }),
            None => Err(Error::corrupt("a value list ends early")),
        }
    }

    /// Values.
    pub fn len(&self) -> usize {
        self.lengths.len() / 4
    }

    /// True without any value.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How the bytes are stored.
    pub fn layout(&self) -> ListLayout {
        ListLayout::Raw
    }

    /// Bytes of all values once decoded, as the header says; memory can be asked for before decoding.
    pub fn decoded_bytes(&self) -> usize {
        self.payload.len()
    }

    /// All values.
    pub fn decode(&self, kind: StringKind) -> Result<DecodedList> {
        self.decode_range(0..self.len(), kind)
    }

    /// A range of the values, for work that is shared between threads. Panics if the list is shorter.
    pub fn decode_range(&self, values: Range<usize>, kind: StringKind) -> Result<DecodedList> {
        let mut bytes = Vec::new();
        let mut offsets = vec![0];
        for index in values {
            self.get(index, &mut bytes)?;
            offsets.push(bytes.len() as u32);
        }
        Ok(DecodedList::new(bytes, offsets, kind))
    }

    /// Appends the bytes of one value to `out`. Panics if there is none of that number.
    pub fn get(&self, index: usize, out: &mut Vec<u8>) -> Result<()> {
        let length = |entry: &[u8]| u32::from_le_bytes([entry[0], entry[1], entry[2], entry[3]]) as usize;
        let start: usize = self.lengths.chunks_exact(4).take(index).map(length).sum();
        let end = start + length(&self.lengths[index * 4..]);
        out.extend_from_slice(self.payload.get(start..end).ok_or_else(|| Error::corrupt("a value list ends early"))?);
        Ok(())
    }

    /// The first value that is not less than `bytes`; the number of values if there is none.
    pub fn lower_bound(&self, bytes: &[u8]) -> Result<usize> {
        let list = self.decode(StringKind::Binary)?;
        let mut values = 0..self.len();
        while !values.is_empty() {
            let middle = values.start + values.len() / 2;
            match list.value(middle) < bytes {
                true => values.start = middle + 1,
                false => values.end = middle,
            }
        }
        Ok(values.start)
    }
}
