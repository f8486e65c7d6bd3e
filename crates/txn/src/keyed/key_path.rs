//! Finds rows by the values of some columns, through the primary key or an index that begins with those columns.
//!
//! The keys here are complete. An index shortens long keys, so a range of its keys should be read with an
//! [`IndexScan`](super::IndexScan), which returns exactly the rows that have the values.

use std::ops::Bound;

use rowmill_base::{ColumnId, ErrorKind, IndexId, Result};
use rowmill_storage::KeyColumn;
use rowmill_storage::keyed::{KeyRange, ValueRef};

use super::table_codec::TableCodec;
use crate::base::KEY_LEN_MAX;

/// The most columns of a foreign key.
pub(crate) const REFERENCE_COLUMNS_MAX: usize = 32;

/// The primary key or an index whose first columns are the given ones.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeyPath<'a> {
    /// `None` for the primary key.
    pub(crate) index: Option<IndexId>,
    parts: &'a [KeyColumn],
}

impl TableCodec {
    /// Finds the key whose first parts are `columns`, in any order. It prefers the key with the fewest parts, and among
    /// those the primary key. With `unique`, the key must have no other columns and must be unique.
    pub(crate) fn key_path(&self, columns: &[ColumnId], unique: bool) -> Option<KeyPath<'_>> {
        let keyed = self.def().keyed.as_deref()?;
        // The order of the columns does not matter: equality on all of them selects a prefix of the key in any order.
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

    /// Sets `range` to the complete keys of `path` that have the values of `columns`; `value` takes the place of a
    /// column in `columns`. Returns `false` if no row can have those values, because a column or a key cannot hold
    /// them.
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
            *of_part = value(place.expect("the path was made for these columns"));
        }
        let (head, keys) = self.keys(path.index)?;
        match keys.range(head, &values[..path.parts.len()], Bound::Unbounded, Bound::Unbounded, range) {
            Err(error) if error.kind() == ErrorKind::NumericOutOfRange => return Ok(false),
            made => made?,
        }
        // The base holds no keys longer than the limit, unless the index shortens them.
        let shortens = match path.index {
            Some(index) => self.index(index)?.def.shortens,
            None => false,
        };
        Ok(shortens || range.start.len() <= KEY_LEN_MAX)
    }
}
