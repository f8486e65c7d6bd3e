//! Comments: texts for people, on which no result depends. A view, a macro and a type keep the comment in their
//! definitions.
//!
//! Those on tables and their columns are separate from the definition of the table, so that a comment does not change
//! the definition. A column keeps its comment when it is renamed. The byte table is in `docs/file-format.md`, "Ordered
//! base".

use std::collections::BTreeMap;
use std::sync::Arc;

use rowmill_base::{ColumnId, Error, ErrorKind, Result, TableId, ViewId};

use crate::catalog::{Catalog, ViewDef};
use crate::codec::{RecordReader, Writer};
use crate::macros::MacroDef;
use crate::transaction::{Transaction, gone};
use crate::types::TypeDef;

/// The longest comment in bytes. The log and the base keep all comments of a table in one value.
const COMMENT_BYTES_MAX: usize = 1 << 16;

/// The comments on a table and its columns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableComments {
    /// The comment on the table.
    pub table: Option<String>,
    /// The comments on columns. A column that was dropped may still have one.
    pub columns: BTreeMap<ColumnId, String>,
}

impl TableComments {
    fn is_empty(&self) -> bool {
        self.table.is_none() && self.columns.is_empty()
    }
}

impl Transaction {
    /// Sets the comment on a table, or on one of its columns. `None` removes it.
    pub fn set_comment(&mut self, table: TableId, column: Option<ColumnId>, comment: Option<String>) -> Result<()> {
        check_length(comment.as_deref())?;
        let mut comments = self.catalog().comments(table).map_or_else(TableComments::default, |old| (**old).clone());
        match (column, comment) {
            (None, comment) => comments.table = comment,
            (Some(column), Some(comment)) => drop(comments.columns.insert(column, comment)),
            (Some(column), None) => drop(comments.columns.remove(&column)),
        }
        let comments = (!comments.is_empty()).then(|| Arc::new(comments));
        self.catalog_mut()?.set_comments(table, comments);
        Ok(())
    }

    /// Sets the comment on a view. `None` removes it.
    pub fn set_view_comment(&mut self, view: ViewId, comment: Option<String>) -> Result<()> {
        check_length(comment.as_deref())?;
        let old = self.catalog().view_by_id(view).ok_or_else(|| gone("view"))?;
        let def = ViewDef { comment, ..(**old).clone() };
        self.catalog_mut()?.put_view(Arc::new(def))
    }

    /// Sets the comment on a macro. `None` removes it.
    pub fn set_macro_comment(&mut self, id: ViewId, comment: Option<String>) -> Result<()> {
        check_length(comment.as_deref())?;
        let old = self.catalog().macro_by_id(id).ok_or_else(|| gone("macro"))?;
        let def = MacroDef { comment, ..(**old).clone() };
        self.catalog_mut()?.put_macro(Arc::new(def))
    }

    /// Sets the comment on a type. `None` removes it.
    pub fn set_type_comment(&mut self, id: ViewId, comment: Option<String>) -> Result<()> {
        check_length(comment.as_deref())?;
        let old = self.catalog().type_by_id(id).ok_or_else(|| gone("type"))?;
        let def = TypeDef { comment, ..(**old).clone() };
        self.catalog_mut()?.put_type(Arc::new(def))
    }
}

fn check_length(comment: Option<&str>) -> Result<()> {
    match comment.map(str::len) {
        Some(bytes) if bytes > COMMENT_BYTES_MAX => {
            let message = format!("a comment has {bytes} bytes, but at most {COMMENT_BYTES_MAX} are allowed");
            Err(Error::new(ErrorKind::InvalidParameter, message))
        }
        _ => Ok(()),
    }
}

/// Appends the comment of a definition, which is the last part of its value. Without a comment, nothing is written, as
/// in versions of the format before 11.
pub(crate) fn encode_last(comment: Option<&str>, out: &mut Writer) {
    if let Some(comment) = comment {
        out.text(comment);
    }
}

/// Reads what [`encode_last`] has written, and checks that the value ends there.
pub(crate) fn decode_last(input: &mut RecordReader<'_>) -> Result<Option<String>> {
    let comment = if input.is_at_end() { None } else { Some(input.text()?) };
    input.end()?;
    Ok(comment)
}

pub(crate) fn encode(comments: &TableComments) -> Vec<u8> {
    let TableComments { table, columns } = comments;
    let mut out = Writer::new();
    out.option(table.as_deref(), |out, comment| {
        out.text(comment);
    });
    out.u32(columns.len() as u32);
    for (column, comment) in columns {
        out.u32(column.0).text(comment);
    }
    out.finish()
}

fn decode(bytes: &[u8]) -> Result<TableComments> {
    let mut input = RecordReader::new(bytes, "the comments on a table");
    let table = input.option(RecordReader::text)?;
    let mut columns = BTreeMap::new();
    for _ in 0..input.count(8)? {
        let column = ColumnId(input.u32()?);
        if columns.last_key_value().is_some_and(|(before, _)| *before >= column) {
            return Err(input.damaged("columns that do not ascend"));
        }
        columns.insert(column, input.text()?);
    }
    input.end()?;
    let comments = TableComments { table, columns };
    if comments.is_empty() { Err(input.damaged("no comment")) } else { Ok(comments) }
}

/// Decodes comments and adds them. Comments without their table are damage.
pub(crate) fn put(catalog: &mut Catalog, table: TableId, bytes: &[u8]) -> Result<()> {
    let comments = decode(bytes)?;
    if catalog.table_by_id(table).is_none() {
        return Err(Error::corrupt(format!("the comments of table {table} have no table")));
    }
    catalog.set_comments(table, Some(Arc::new(comments)));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn comments() -> TableComments {
        let columns = [(ColumnId(0), "key".to_owned()), (ColumnId(7), "é\n".to_owned())];
        TableComments { table: Some("visits".into()), columns: columns.into() }
    }

    #[test]
    fn comments_round_trip() {
        for comments in [comments(), TableComments { table: None, ..comments() }] {
            assert_eq!(decode(&encode(&comments)).expect("read"), comments);
        }
    }

    #[test]
    fn damaged_bytes_are_errors_or_other_comments_but_never_a_panic() {
        let good = encode(&comments());
        assert!((0..good.len()).all(|cut| decode(&good[..cut]).is_err()));
        for at in 0..good.len() {
            for flip in [0xff, 1, 0x80] {
                let mut damaged = good.clone();
                damaged[at] ^= flip;
                let _ = decode(&damaged);
            }
        }
        assert!(decode(&encode(&TableComments::default())).is_err());
        assert!(put(&mut Catalog::default(), TableId(1), &good).is_err());
    }
}
