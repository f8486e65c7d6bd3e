//! Index entries: the bytes of the index columns, shortened if they are long, and then the primary key of the row.
//!
//! An entry with shortened columns contains neither their values nor their exact order (`short_key.rs` of the storage
//! crate). Code that needs those must read the row and make the complete columns from it.

use rowmill_base::{Error, ErrorKind, Result};
use rowmill_storage::IndexDef;
use rowmill_storage::keyed::{KeptParts, KeyCodec, KeyRange, RangeFit, SHORT_BYTES, SHORT_PREFIX_BYTES, ValueRef};

use super::row_reader::RowReader;
use super::table_codec::{HEAD_BYTES, TableCodec, index_head};
use crate::base::KEY_LEN_MAX;

/// Makes and reads the entries of one index.
#[derive(Debug)]
pub(crate) struct IndexCodec {
    pub(crate) def: IndexDef,
    head: [u8; HEAD_BYTES],
    /// The columns of the index, followed by those of the primary key.
    key: KeyCodec,
    /// The columns of the index, as columns of the table.
    pub(crate) columns: Vec<usize>,
    /// Whether the index shortens columns and has any that may be too long.
    pub(super) shortens: bool,
}

impl IndexCodec {
    pub(super) fn new(def: IndexDef, key: KeyCodec, columns: Vec<usize>) -> IndexCodec {
        let shortens = def.shortens && key.may_be_short(columns.len());
        IndexCodec { head: index_head(def.id), def, key, columns, shortens }
    }

    pub(super) fn head(&self) -> &[u8; HEAD_BYTES] {
        &self.head
    }

    pub(super) fn key(&self) -> &KeyCodec {
        &self.key
    }

    /// Whether the columns of an entry were shortened.
    #[inline]
    pub(crate) fn is_short(&self, entry: &[u8]) -> bool {
        // Few indexes shorten, and few of their entries are short. So check the cheap conditions first.
        entry.len() >= HEAD_BYTES + SHORT_BYTES
            && self.shortens
            && self.key.is_short(self.columns.len(), &entry[HEAD_BYTES..])
    }

    /// The length of an entry's columns, including the head, and whether they were shortened. The primary key follows
    /// them.
    #[inline]
    pub(crate) fn columns_of(&self, entry: &[u8]) -> Result<(usize, bool)> {
        let (key, parts) = (entry.get(HEAD_BYTES..).unwrap_or_default(), self.columns.len());
        if !self.shortens {
            return Ok((HEAD_BYTES + self.key.prefix_bytes(key, parts)?, false));
        }
        Ok(match self.key.kept_parts(parts, key)? {
            KeptParts::Whole(bytes) => (HEAD_BYTES + bytes, false),
            KeptParts::Short => (HEAD_BYTES + SHORT_BYTES, true),
        })
    }

    /// Sets `columns` to the complete columns of a row's entry, never shortened. `value` returns the value of a column.
    pub(crate) fn encode_columns<'v>(
        &self,
        value: impl Fn(usize) -> ValueRef<'v>,
        columns: &mut Vec<u8>,
    ) -> Result<()> {
        columns.clear();
        columns.extend_from_slice(&self.head);
        self.key.encode_by(self.columns.len(), |part| value(self.columns[part]), columns)
    }

    /// Sets `columns` to the complete columns of a stored row's entry, never shortened.
    pub(crate) fn columns_of_row(
        &self,
        row: &RowReader<'_>,
        columns: &mut Vec<u8>,
        scratch: &mut Vec<u8>,
    ) -> Result<()> {
        columns.clear();
        columns.extend_from_slice(&self.head);
        for (part, column) in self.columns.iter().enumerate() {
            let value = row.get(*column, scratch)?;
            self.key.encode_part(part, value, columns)?;
        }
        Ok(())
    }

    fn has_null(&self, entry: &[u8]) -> Result<bool> {
        let mut reader = self.key.reader(&entry[HEAD_BYTES..]);
        for _ in &self.columns {
            if reader.is_next_null()? {
                return Ok(true);
            }
            reader.skip()?;
        }
        Ok(false)
    }

    /// Sets `kept` to a range of stored entries that covers the entries of all complete keys in `asked`. Returns what
    /// else the range may contain.
    pub(super) fn kept_range(&self, asked: &KeyRange, kept: &mut KeyRange) -> Result<RangeFit> {
        if self.shortens {
            return self.key.kept_range(self.columns.len(), HEAD_BYTES, asked, kept);
        }
        kept.start.clone_from(&asked.start);
        kept.end.clone_from(&asked.end);
        Ok(RangeFit::Exact)
    }
}

impl TableCodec {
    /// Sets `entry` to the entry in `index` of a row. `value` returns the value of a column of the table, and `key` is
    /// the row's key. Returns `KeyTooLong` if the base cannot store the entry.
    pub(crate) fn encode_entry<'v>(
        &self,
        index: &IndexCodec,
        value: impl Fn(usize) -> ValueRef<'v>,
        key: &[u8],
        entry: &mut Vec<u8>,
    ) -> Result<()> {
        index.encode_columns(value, entry)?;
        self.finish_entry(index, key, entry)
    }

    /// Sets `entry` to the entry in `index` of a stored row.
    pub(crate) fn entry_of_row(
        &self,
        index: &IndexCodec,
        row: &RowReader<'_>,
        key: &[u8],
        entry: &mut Vec<u8>,
        scratch: &mut Vec<u8>,
    ) -> Result<()> {
        index.columns_of_row(row, entry, scratch)?;
        self.finish_entry(index, key, entry)
    }

    /// Turns the complete columns in `entry` into an entry: shortens them if needed, and appends the primary key.
    fn finish_entry(&self, index: &IndexCodec, key: &[u8], entry: &mut Vec<u8>) -> Result<()> {
        // Shorten before the primary key is appended, because the primary key must stay complete.
        if index.shortens {
            index.key.shorten(index.columns.len(), HEAD_BYTES, entry)?;
        }
        entry.extend_from_slice(&key[HEAD_BYTES..]);
        self.check_entry_length(index, entry)
    }

    /// Appends to `prefix`, which must contain the head of `index`, the prefix of the entries whose first columns have
    /// the values `parts`.
    pub(super) fn encode_entry_prefix(
        &self,
        index: &IndexCodec,
        parts: &[ValueRef<'_>],
        prefix: &mut Vec<u8>,
    ) -> Result<()> {
        let columns = parts.len().min(index.columns.len());
        index.key.encode(&parts[..columns], prefix)?;
        // Only all columns together can be shortened. A prefix of fewer columns must fit into the unshortened part.
        if index.shortens && columns == index.columns.len() {
            index.key.shorten(columns, HEAD_BYTES, prefix)?;
        } else if index.shortens && prefix.len() > HEAD_BYTES + SHORT_PREFIX_BYTES {
            let (name, table, bytes) = (&index.def.name, &self.def().name, prefix.len() - HEAD_BYTES);
            let what = format!(
                "a search for {columns} columns of index {name} of table {table} has {bytes} bytes, and \
                 {SHORT_PREFIX_BYTES} is the limit"
            );
            return Err(Error::new(ErrorKind::KeyTooLong, what).hint("search for all its columns, or for a range"));
        }
        for (part, value) in parts.iter().enumerate().skip(columns) {
            index.key.encode_part(part, *value, prefix)?;
        }
        self.check_entry_length(index, prefix)
    }

    fn check_entry_length(&self, index: &IndexCodec, entry: &[u8]) -> Result<()> {
        if entry.len() <= KEY_LEN_MAX {
            return Ok(());
        }
        let (name, table, bytes) = (&index.def.name, &self.def().name, entry.len());
        let what = format!(
            "an entry of index {name} of table {table} would have {bytes} bytes, and {KEY_LEN_MAX} is the limit"
        );
        let help = match index.def.shortens {
            true => "shorten the values of the primary key; those of the index are shortened already",
            false => "an older version created this index: drop it and create it again to store long values",
        };
        Err(Error::new(ErrorKind::KeyTooLong, what).hint(help))
    }

    /// For an entry of a unique index without NULL, sets `range` to the keys that only one row may have and returns
    /// `true`. For any other entry returns `false`. If the columns are shortened, rows with other values may be in the
    /// range too.
    pub(crate) fn unique_range(&self, index: &IndexCodec, entry: &[u8], range: &mut KeyRange) -> Result<bool> {
        if !index.def.unique {
            return Ok(false);
        }
        let (columns, is_short) = index.columns_of(entry)?;
        // SQL treats NULLs as distinct in a unique index, so an entry with NULL conflicts with none.
        let has_null = match is_short {
            true => KeyCodec::short_has_null(&entry[HEAD_BYTES..]),
            false => index.has_null(entry)?,
        };
        range.set_prefix(&entry[..columns]);
        Ok(!has_null)
    }
}
