//! The rows that foreign keys refer to, as a reader finds them.

use rowmill_base::{ColumnId, Error, Result};
use rowmill_storage::ForeignKeyDef;
use rowmill_storage::keyed::ValueRef;

use crate::keyed::{IndexEntry, IndexOrder, Reader, TableCodec, WriteBuffers};

/// What there is of values that one row may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sought {
    /// A row, whose key, or whose entry in an index, is in [`WriteBuffers::entry`].
    Key,
    /// The same, with an entry that was shortened.
    ShortEntry,
    /// No row in [`WriteBuffers::range`], which was read.
    Nothing,
    /// None, as there can be none.
    Impossible,
}

/// The foreign keys of a table.
pub(crate) fn foreign_keys(codec: &TableCodec) -> &[ForeignKeyDef] {
    codec.def().keyed.as_ref().map_or(&[], |keyed| &keyed.foreign_keys)
}

/// Looks for the row of `parents` to which one with `values` refers by `key`; `None` if it refers to none, as one of them is NULL.
pub(crate) fn find_parent(
    reader: &Reader<'_>,
    codec: &TableCodec,
    values: &[ValueRef<'_>],
    key: &ForeignKeyDef,
    parents: &TableCodec,
    buffers: &mut WriteBuffers,
) -> Result<Option<Sought>> {
    let value = |place: usize| {
        let column = codec.def().column_by_id(key.columns[place]);
        values[column.expect("a table has the columns of its foreign keys")]
    };
    if (0..key.columns.len()).any(|place| value(place).is_null()) {
        return Ok(None);
    }
    find_unique(reader, parents, &key.parent_columns, value, buffers).map(Some)
}

/// Looks for the row that has these values in columns that no two rows have alike.
pub(crate) fn find_unique<'v>(
    reader: &Reader<'_>,
    codec: &TableCodec,
    columns: &[ColumnId],
    value: impl Fn(usize) -> ValueRef<'v>,
    buffers: &mut WriteBuffers,
) -> Result<Sought> {
    let gone = || Error::internal(format!("table {} has no key that is referred to", codec.def().name));
    let path = codec.key_path(columns, true).ok_or_else(gone)?;
    let WriteBuffers { entry, found, range, index_scan, .. } = buffers;
    if !codec.path_range(&path, columns, value, range)? {
        return Ok(Sought::Impossible);
    }
    entry.clear();
    let Some(index) = path.index else {
        entry.extend_from_slice(&range.start);
        return Ok(if reader.get(entry, found)? { Sought::Key } else { Sought::Nothing });
    };
    index_scan.start(codec, index, range, false, 1, IndexOrder::Kept)?;
    match index_scan.next(codec, reader)? {
        None => {
            range.clone_from(index_scan.kept());
            Ok(Sought::Nothing)
        }
        Some(IndexEntry::Whole(whole)) => {
            entry.extend_from_slice(whole);
            Ok(Sought::Key)
        }
        Some(IndexEntry::Row(..)) => {
            entry.extend_from_slice(index_scan.short_entry());
            Ok(Sought::ShortEntry)
        }
    }
}
