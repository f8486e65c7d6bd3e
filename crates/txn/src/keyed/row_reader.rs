//! Reads single columns of one row of a keyed table in place.

use rowmill_base::Result;
use rowmill_storage::keyed::{RowView, ValueRef};

use super::table_codec::{HEAD_BYTES, StoredField, TableCodec};

/// A row and its key. The row's own bytes are checked. Columns are those of the table, in its order.
#[derive(Clone, Copy, Debug)]
pub struct RowReader<'a> {
    codec: &'a TableCodec,
    /// Without the head.
    key: &'a [u8],
    row: RowView<'a>,
}

impl<'a> RowReader<'a> {
    #[inline]
    pub(super) fn new(codec: &'a TableCodec, key: &'a [u8], row: &'a [u8]) -> Result<RowReader<'a>> {
        let key = key.get(HEAD_BYTES..).unwrap_or_default();
        Ok(RowReader { codec, key, row: RowView::new(codec.layout(), row)? })
    }

    /// The value of a column. `scratch` holds its bytes if the key stores them encoded: for descending parts, and for
    /// strings with zero bytes. Returns `Corrupt` if the bytes differ from those written.
    #[inline]
    pub fn get<'s>(&self, column: usize, scratch: &'s mut Vec<u8>) -> Result<ValueRef<'s>>
    where
        'a: 's,
    {
        match self.codec.field(column) {
            StoredField::Key(part) => self.codec.primary().value(self.key, part, scratch),
            StoredField::Row(at) => Ok(self.row.get(at)?.unwrap_or_else(|| self.codec.missing(column))),
        }
    }
}
