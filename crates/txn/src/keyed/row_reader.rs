//! One row of a keyed table, of which single columns are read in place.

use rowmill_base::Result;
use rowmill_storage::keyed::{RowView, ValueRef};

use super::table_codec::{Field, HEAD_BYTES, TableCodec};

/// A row and its key, checked as far as the row's own bytes go. Columns are those of the table in its order.
#[derive(Clone, Copy, Debug)]
pub struct RowReader<'a> {
    codec: &'a TableCodec,
    /// Without its head.
    key: &'a [u8],
    row: RowView<'a>,
}

impl<'a> RowReader<'a> {
    pub(super) fn new(codec: &'a TableCodec, key: &'a [u8], row: &'a [u8]) -> Result<RowReader<'a>> {
        let key = key.get(HEAD_BYTES..).unwrap_or_default();
        Ok(RowReader { codec, key, row: RowView::new(codec.layout(), row)? })
    }

    /// The value of a column; `scratch` holds its bytes where the key has them otherwise: of descending parts and of strings
    /// with zeros in them. `Corrupt` if it is not what was written.
    #[inline]
    pub fn get<'s>(&self, column: usize, scratch: &'s mut Vec<u8>) -> Result<ValueRef<'s>>
    where
        'a: 's,
    {
        match self.codec.field(column) {
            Field::Key(part) => self.codec.primary().value(self.key, part, scratch),
            Field::Row(at) => Ok(self.row.get(at)?.unwrap_or_else(|| self.codec.missing(column))),
        }
    }
}
