//! How arrays carry maps: as lists of structs of a key and a value.
//!
//! The names of the two fields begin with a character that no field of an SQL type can have, so no list of structs is
//! mistaken for a map. Storage, joins, sorts and files handle such arrays as they handle every list. Results and files
//! get Arrow's own maps, which other programs know. Keys are distinct and not NULL. Whatever makes a map checks that.

use std::sync::Arc;

use arrow_schema::{DataType, Field};

use super::SqlType;

/// The name of the field of the key.
const MAP_KEY_FIELD: &str = "\0key";

/// The name of the field of the value.
const MAP_VALUE_FIELD: &str = "\0value";

/// The Arrow type that carries maps in memory.
pub fn map_arrow(key: DataType, value: DataType) -> DataType {
    DataType::List(Arc::new(Field::new("item", map_entry_arrow(key, value), true)))
}

/// The Arrow type of an entry of a map in memory.
pub fn map_entry_arrow(key: DataType, value: DataType) -> DataType {
    DataType::Struct(vec![Field::new(MAP_KEY_FIELD, key, true), Field::new(MAP_VALUE_FIELD, value, true)].into())
}

/// The types of key and value if an Arrow type carries entries of a map.
pub fn map_entry_kinds(kind: &DataType) -> Option<(&DataType, &DataType)> {
    match kind {
        DataType::Struct(fields) if fields.len() == 2 && fields[0].name() == MAP_KEY_FIELD => {
            Some((fields[0].data_type(), fields[1].data_type()))
        }
        _ => None,
    }
}

/// The types of key and value if an Arrow type carries maps.
#[inline]
pub fn map_kinds(kind: &DataType) -> Option<(&DataType, &DataType)> {
    match kind {
        DataType::List(item) => map_entry_kinds(item.data_type()),
        _ => None,
    }
}

/// The type with Arrow's own maps in the place of ours, at every depth, as results and files have it.
pub fn with_arrow_maps(kind: &DataType) -> DataType {
    let field = |field: &Field| Field::new(field.name(), with_arrow_maps(field.data_type()), field.is_nullable());
    match kind {
        kind if let Some((key, value)) = map_kinds(kind) => {
            let key = Field::new("key", with_arrow_maps(key), false);
            let value = Field::new("value", with_arrow_maps(value), true);
            let entries = DataType::Struct(vec![key, value].into());
            DataType::Map(Arc::new(Field::new("entries", entries, false)), false)
        }
        DataType::List(item) => DataType::List(Arc::new(field(item))),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(|inner| field(inner)).collect()),
        other => other.clone(),
    }
}

impl SqlType {
    /// `MAP(key, value)`
    pub fn map(key: SqlType, value: SqlType) -> SqlType {
        let entry = vec![(MAP_KEY_FIELD.to_owned(), key), (MAP_VALUE_FIELD.to_owned(), value)];
        SqlType::List(Box::new(SqlType::Struct(entry)))
    }

    /// The types of key and value of a map.
    pub fn as_map(&self) -> Option<(&SqlType, &SqlType)> {
        let SqlType::List(item) = self else { return None };
        match &**item {
            SqlType::Struct(fields) if fields.len() == 2 && fields[0].0 == MAP_KEY_FIELD => {
                Some((&fields[0].1, &fields[1].1))
            }
            _ => None,
        }
    }

    /// The map of the Arrow type of its entries, whose fields may have any names.
    pub(super) fn map_of_entries(entries: &DataType, kind: impl Fn(&Field) -> Option<SqlType>) -> Option<SqlType> {
        match entries {
            DataType::Struct(fields) if fields.len() == 2 => Some(SqlType::map(kind(&fields[0])?, kind(&fields[1])?)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_differ_from_lists_of_structs_and_are_shown_as_maps() {
        let map = SqlType::map(SqlType::TEXT, SqlType::List(Box::new(SqlType::Int64)));
        assert_eq!(map.to_string(), "MAP(TEXT, BIGINT[])");
        assert_eq!(SqlType::from_arrow(&map.arrow()), Some(map.clone()));
        assert_eq!(map_kinds(&map.arrow()).map(|(key, _)| key.clone()), Some(DataType::Utf8View));
        let outside = with_arrow_maps(&map.arrow());
        assert!(matches!(outside, DataType::Map(..)));
        assert_eq!(SqlType::from_arrow(&outside), Some(map));
        let plain = SqlType::List(Box::new(SqlType::Struct(vec![("key".into(), SqlType::TEXT)])));
        assert_eq!((plain.as_map(), map_kinds(&plain.arrow())), (None, None));
    }
}
