//! How arrays carry JSON: as structs of one field, the text of the document.
//!
//! Arrow has no type of its own for JSON, and expressions know only the Arrow types of values. The name of the field
//! begins with a character that no field of an SQL type can have, so no STRUCT is mistaken for JSON. Storage, joins,
//! sorts and groupings handle such arrays as they handle every struct. Results and files get texts instead, because no
//! other program knows this form.
//!
//! A text in such an array is always valid JSON without white space around it. Casts check it.

use std::sync::LazyLock;

use arrow_schema::{DataType, Field};

use super::SqlType;

/// The name of the only field.
const JSON_FIELD: &str = "\0json";

/// The key of a field's metadata under which Arrow names an extension type.
pub const EXTENSION_NAME_KEY: &str = "ARROW:extension:name";

/// The name of JSON as an extension type of Arrow, which results and files give to columns of texts that were JSON.
pub const JSON_EXTENSION: &str = "arrow.json";

static JSON_ARROW: LazyLock<DataType> =
    LazyLock::new(|| DataType::Struct(vec![Field::new(JSON_FIELD, DataType::Utf8View, true)].into()));

/// The Arrow type that carries JSON in memory.
pub fn json_arrow() -> DataType {
    JSON_ARROW.clone()
}

/// Whether an Arrow type carries JSON.
#[inline]
pub fn is_json(kind: &DataType) -> bool {
    matches!(kind, DataType::Struct(fields) if fields.len() == 1 && fields[0].name() == JSON_FIELD)
}

/// Whether a column outside of the engine holds the texts of JSON documents, as its metadata says.
pub fn is_json_field(field: &Field) -> bool {
    field.metadata().get(EXTENSION_NAME_KEY).is_some_and(|name| name == JSON_EXTENSION)
        && matches!(field.data_type(), DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}

impl SqlType {
    /// The type of a column outside of the engine, where JSON is a text that is marked as JSON.
    pub fn of_field(field: &Field) -> Option<SqlType> {
        match field.data_type() {
            _ if is_json_field(field) => Some(SqlType::Json),
            DataType::List(item) => Some(SqlType::List(Box::new(SqlType::of_field(item)?))),
            DataType::Map(entries, _) => SqlType::map_of_entries(entries.data_type(), SqlType::of_field),
            DataType::Struct(fields) if !is_json(field.data_type()) => {
                let fields = fields.iter().map(|field| Some((field.name().clone(), SqlType::of_field(field)?)));
                fields.collect::<Option<_>>().map(SqlType::Struct)
            }
            kind => SqlType::from_arrow(kind),
        }
    }
}
