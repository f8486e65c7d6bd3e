//! Strings in the order of their rows, for columns in which hardly any value repeats.

use std::ops::Range;

use arrow::array::ArrayRef;
use arrow::buffer::{NullBuffer, ScalarBuffer};
use rowmill_base::Result;

use super::decoded::views_of;
use super::{ByteStrings, StringKind, StringList, encode_list};

/// Stores the rows of `strings` in their order; a NULL row takes no bytes, which rows are NULL is stored elsewhere.
pub fn encode_rows(strings: &ByteStrings) -> Result<Vec<u8>> {
    let nulls = strings.nulls();
    let value = |row| match nulls.is_some_and(|nulls| nulls.is_null(row)) {
        true => &[],
        false => strings.value(row),
    };
    encode_list(&(0..strings.len()).map(value).collect::<Vec<&[u8]>>())
}

/// Stored rows. Opening reads only the header; bytes may be hostile.
#[derive(Clone, Debug)]
pub struct StringRows<'a>(StringList<'a>);

impl<'a> StringRows<'a> {
    /// The rows in `bytes`, which must hold exactly them: `rows` is what the chunk says that it holds.
    pub fn open(bytes: &'a [u8], rows: usize) -> Result<StringRows<'a>> {
        Ok(StringRows(StringList::open(bytes, rows)?))
    }

    /// Rows.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// True without any row.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of all rows once decoded, as the header says.
    pub fn decoded_bytes(&self) -> usize {
        self.0.decoded_bytes()
    }

    /// A range of rows. `nulls` are those of the range, as long as it. Panics if there are fewer rows.
    pub fn read(&self, rows: Range<usize>, kind: StringKind, nulls: Option<NullBuffer>) -> Result<ArrayRef> {
        let list = self.0.decode_range(rows, kind)?;
        views_of(list.bytes(), &list.offsets().to_vec().into(), kind, nulls)
    }

    /// Single rows, ascending. `nulls` are those of these rows, as many. Panics if there is no such row.
    pub fn take(&self, rows: &[u32], kind: StringKind, nulls: Option<NullBuffer>) -> Result<ArrayRef> {
        let mut bytes = Vec::new();
        let mut offsets = vec![0];
        for &row in rows {
            self.0.get(row as usize, &mut bytes)?;
            offsets.push(bytes.len() as u32);
        }
        views_of(&bytes.into(), &ScalarBuffer::from(offsets), kind, nulls)
    }
}
