//! Keys by the values of some columns: of the primary key, or of an index that has those columns first.
//!
//! They are whole keys. An index shortens what is long, so a range of its keys is read by an [`IndexScan`](super::IndexScan),
//! which gives the rows that have the values and no others.

use std::ops::Bound;

use rowmill_base::{ColumnId, ErrorKind, IndexId, Result};
use rowmill_storage::KeyColumn;
use rowmill_storage::keyed::{KeyRange, ValueRef};

use super::table_codec::TableCodec;
use crate::base::KEY_LEN_MAX;

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

    /// Sets `range` to the whole keys of `path` that have `value` of each of `columns`, by its place among them. `false` if no row
    /// can have those values, as a column or a key does not take them.
    pub(crate) fn path_range<'v>(
        &self,
        path: &KeyPath<'_>,
        columns: &[ColumnId],
        value: impl Fn(usize) -> ValueRef<'v>,
        range: &mut KeyRange,
    ) -> Result<bool> {
        let mut values = [ValueRef::Null; REFERENCE_COLUMNS_MAX];
        for (part, of_part) in path.parts.iter().zip(&mut values) {
            let place = columns.iter().position(|column| *column == part.column);
            *of_part = value(place.expect("a path is of these columns"));
        }
        let (head, keys) = self.keys(path.index)?;
        match keys.range(head, &values[..path.parts.len()], Bound::Unbounded, Bound::Unbounded, range) {
            Err(error) if error.kind() == ErrorKind::NumericOutOfRange => return Ok(false),
            made => made?,
        }
        let shortens = match path.index {
            Some(index) => self.index(index)?.def.shortens,
            None => false,
        };
        Ok(shortens || range.start.len() <= KEY_LEN_MAX)
    }
}
