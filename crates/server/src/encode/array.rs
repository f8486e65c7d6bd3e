//! Lists as PostgreSQL's arrays of one dimension.
//!
//! ```text
//! text    {1,NULL,"a, b"}
//! binary  dimensions (1, or 0 if empty) │ 1 if it has NULLs │ type of the items │ items │ first index, 1 │ items...
//!                     4                           4                   4             4            4
//! ```

use bytes::BufMut;
use rowmill::arrow::array::{Array, ListArray};
use rowmill::arrow::buffer::OffsetBuffer;
use rowmill::arrow::datatypes::DataType;
use rowmill::{Result, SqlType};

use super::WireFormat;
use super::cell::CellColumn;
use rowmill::pg_types::{PgScalar, PgType};

/// A column of lists of values that are not nested.
pub(super) struct ListColumn<'a> {
    offsets: &'a OffsetBuffer<i32>,
    items: Box<CellColumn<'a>>,
    item_oid: u32,
    /// Whether the text has spaces and no braces, and the first index is 0, as for `int2vector`.
    is_vector: bool,
}

impl<'a> ListColumn<'a> {
    pub(super) fn new(list: &'a ListArray) -> Result<ListColumn<'a>> {
        let DataType::List(item) = list.data_type() else { unreachable!("a list has the type of a list") };
        let kind = SqlType::of_field(item).unwrap_or(SqlType::TEXT);
        let items = Box::new(CellColumn::new(list.values())?);
        Ok(ListColumn { offsets: list.offsets(), items, item_oid: PgType::of(&kind).oid(), is_vector: false })
    }

    /// The column as lists of a declared type.
    pub(super) fn declared(self, item: PgScalar, is_vector: bool) -> ListColumn<'a> {
        let item = PgType::scalar(item);
        ListColumn { items: Box::new(self.items.declared(item)), item_oid: item.oid(), is_vector, ..self }
    }

    fn items(&self, row: usize) -> std::ops::Range<usize> {
        self.offsets[row] as usize..self.offsets[row + 1] as usize
    }

    pub(super) fn write_text(&self, row: usize, out: &mut Vec<u8>, scratch: &mut String) {
        if self.is_vector {
            for (index, item) in self.items(row).enumerate() {
                if index > 0 {
                    out.put_u8(b' ');
                }
                self.items.write_text(item, out, scratch);
            }
            return;
        }
        out.put_u8(b'{');
        for (index, item) in self.items(row).enumerate() {
            if index > 0 {
                out.put_u8(b',');
            }
            if self.items.is_null(item) {
                out.put_slice(b"NULL");
                continue;
            }
            let start = out.len();
            self.items.write_text(item, out, scratch);
            quote_item(out, start);
        }
        out.put_u8(b'}');
    }

    pub(super) fn write_binary(&self, row: usize, out: &mut Vec<u8>, scratch: &mut String) {
        let items = self.items(row);
        out.put_i32(i32::from(!items.is_empty()));
        out.put_i32(i32::from(self.items.has_nulls()));
        out.put_u32(self.item_oid);
        if items.is_empty() {
            return;
        }
        out.put_i32(items.len() as i32);
        out.put_i32(i32::from(!self.is_vector));
        for item in items {
            self.items.write_with_length(item, WireFormat::Binary, out, scratch);
        }
    }
}

/// Puts quotes around the item after `start` if it could not be read back unchanged otherwise.
fn quote_item(out: &mut Vec<u8>, start: usize) {
    let item = &out[start..];
    let is_special = |byte: &u8| b"{},\"\\".contains(byte) || byte.is_ascii_whitespace();
    if !item.is_empty() && !item.iter().any(is_special) && !item.eq_ignore_ascii_case(b"null") {
        return;
    }
    let item = out.split_off(start);
    out.put_u8(b'"');
    for byte in item {
        if matches!(byte, b'"' | b'\\') {
            out.put_u8(b'\\');
        }
        out.put_u8(byte);
    }
    out.put_u8(b'"');
}
