//! Looks up the rows that foreign keys refer to.

use rowmill_base::{ColumnId, Error, Result};
use rowmill_storage::ForeignKeyDef;
use rowmill_storage::keyed::ValueRef;

use crate::keyed::{IndexEntry, IndexOrder, KeyedReader, TableCodec, WriteBuffers};

/// The result of looking for values that at most one row has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sought {
    /// A row was found. Its key, or its entry in an index, is in [`WriteBuffers::entry`].
    Key,
    /// A row was found by a shortened entry, which is in [`WriteBuffers::entry`].
    ShortEntry,
    /// No row was found. The keys that were read are in [`WriteBuffers::range`].
    Nothing,
    /// No row can have the values, for example because the column's type cannot hold one of them.
    Impossible,
}

/// The foreign keys of a table.
pub(crate) fn foreign_keys(codec: &TableCodec) -> &[ForeignKeyDef] {
    codec.def().keyed.as_ref().map_or(&[], |keyed| &keyed.foreign_keys)
}

/// Looks for the parent of a row with `values` by the foreign key `key`. Returns `None` if one of its values is NULL,
/// because such a row needs no parent.
pub(crate) fn find_parent(
    reader: &KeyedReader<'_>,
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

/// Looks for the row that has the given values in columns that must be unique.
pub(crate) fn find_unique<'v>(
    reader: &KeyedReader<'_>,
    codec: &TableCodec,
    columns: &[ColumnId],
    value: impl Fn(usize) -> ValueRef<'v>,
    buffers: &mut WriteBuffers,
) -> Result<Sought> {
    let gone = || Error::internal(format!("table {} has no unique key on the referred columns", codec.def().name));
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
