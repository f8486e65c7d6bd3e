//! Keys by the values of some columns: of the primary key, or of an index that has those columns first.

use rowmill_base::{ColumnId, IndexId, Result};
use rowmill_storage::KeyColumn;
use rowmill_storage::keyed::ValueRef;

use super::table_codec::TableCodec;

/// The columns that a foreign key may have.
pub(crate) const REFERENCE_COLUMNS_MAX: usize = 32;

/// A key of a table that some of its columns are the first of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeyPath<'a> {
    /// `None` for the primary key.
    pub(crate) index: Option<IndexId>,
    parts: &'a [KeyColumn],
}

impl TableCodec {
    /// The key whose first parts are `columns` in any order, the primary key before others and whole ones before longer ones;
    /// with `unique` only keys that those columns are all of and that one row may have.
    pub(crate) fn key_path(&self, columns: &[ColumnId], unique: bool) -> Option<KeyPath<'_>> {
        let keyed = self.def().keyed.as_deref()?;
        let fits = |key: &[KeyColumn], is_unique: bool| {
            let first = key.get(..columns.len()).unwrap_or_default();
            let has_all = columns.iter().all(|column| first.iter().any(|part| part.column == *column));
            has_all && (!unique || (is_unique && key.len() == columns.len()))
        };
        let primary = fits(&keyed.key, true).then_some((None, &keyed.key));
        let indexes = keyed.indexes.iter().filter(|index| fits(&index.parts, index.unique));
        let others = indexes.map(|index| (Some(index.id), &index.parts));
        let (index, key) = primary.into_iter().chain(others).min_by_key(|(_, key)| key.len())?;
        Some(KeyPath { index, parts: &key[..columns.len()] })
    }

    /// Sets `key` to what the keys of `path` begin with that have `value` of each of `columns`, by its place among them.
    pub(crate) fn encode_path<'v>(
        &self,
        path: &KeyPath<'_>,
        columns: &[ColumnId],
        value: impl Fn(usize) -> ValueRef<'v>,
        key: &mut Vec<u8>,
    ) -> Result<()> {
        let mut values = [ValueRef::Null; REFERENCE_COLUMNS_MAX];
        for (part, of_part) in path.parts.iter().zip(&mut values) {
            let place = columns.iter().position(|column| *column == part.column);
            *of_part = value(place.expect("a path is of these columns"));
        }
        self.encode_key(path.index, &values[..path.parts.len()], key)
    }
}
