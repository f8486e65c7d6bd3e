//! The search path: the schemas in which a bare name is looked up, in order.
//!
//! A new object without a schema is made in the first schema of the path that exists. PostgreSQL calls its default
//! schema `public`, so `public` means `main` unless the database has a schema of that name. `"$user"` is accepted, but
//! no schema belongs to a user.

use rowmill_txn::{Catalog, SchemaDef};

use crate::names::{DEFAULT_SCHEMA, lower};
use crate::statement::sql_text::quoted;

/// PostgreSQL's name of the default schema.
const PUBLIC: &str = "public";

/// The schemas in which a session looks for bare names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SearchPath(Vec<String>);

impl Default for SearchPath {
    fn default() -> Self {
        SearchPath(vec![DEFAULT_SCHEMA.to_owned()])
    }
}

impl SearchPath {
    /// A path of the schemas with these names, in any case.
    pub(crate) fn new(names: impl IntoIterator<Item = String>) -> SearchPath {
        SearchPath(names.into_iter().map(|name| lower(&name)).filter(|name| !name.is_empty()).collect())
    }

    /// Whether bare names mean those of the default schema only, as in a new session.
    pub(crate) fn is_default(&self) -> bool {
        matches!(self.0.as_slice(), [only] if only == DEFAULT_SCHEMA)
    }

    /// The schemas as written.
    pub(crate) fn names(&self) -> &[String] {
        &self.0
    }

    /// The schemas of the path that exist, each once.
    pub(crate) fn schemas<'c>(&self, catalog: &'c Catalog) -> Vec<&'c SchemaDef> {
        let mut found: Vec<&SchemaDef> = Vec::with_capacity(self.0.len());
        for name in &self.0 {
            let default = || (name == PUBLIC).then(|| catalog.schema(DEFAULT_SCHEMA)).flatten();
            if let Some(schema) = catalog.schema(name).or_else(default)
                && !found.iter().any(|other| other.id == schema.id)
            {
                found.push(schema);
            }
        }
        found
    }
}

impl std::fmt::Display for SearchPath {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let is_plain = |name: &str| {
            name.bytes().all(|byte| byte == b'_' || byte.is_ascii_alphanumeric())
                && !name.starts_with(|first: char| first.is_ascii_digit())
        };
        for (place, name) in self.0.iter().enumerate() {
            let comma = if place == 0 { "" } else { ", " };
            match is_plain(name) {
                true => write!(f, "{comma}{name}")?,
                false => write!(f, "{comma}{}", quoted(name))?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_shows_its_schemas_as_sql() {
        let path = SearchPath::new(["$user".to_owned(), "Public".to_owned(), String::new(), "a b".to_owned()]);
        assert_eq!(path.to_string(), "\"$user\", public, \"a b\"");
        assert!(!path.is_default());
        assert!(SearchPath::default().is_default());
        assert_eq!(SearchPath::new([]).to_string(), "");
    }
}
