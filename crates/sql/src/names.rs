//! Names: planned in lower case, shown as spelled.
//!
//! Every name, quoted or not, is planned in lower case, so `"UserID"`, `UserID` and `userid` are one column. What the
//! user sees keeps the spelling of whoever named the thing:
//!
//! ```text
//! CREATE TABLE Hits (UserID BIGINT)      the catalog keeps "Hits" and "UserID"
//! SELECT userid, COUNT(*) AS PageViews   -> columns UserID, PageViews
//! ```
//!
//! Tokens are put into lower case before they are parsed, so nothing behind the parser ever meets a spelled name; the
//! spelling of a name that the statement itself introduces is found again by its place in the text. A name that comes
//! from a table is found in its field's metadata under [`SPELLING_KEY`].

use std::collections::HashMap;

use arrow::datatypes::Field;
use rowmill_base::{Error, ErrorKind, Result};
use sqlparser::ast::{Ident, ObjectName, ObjectNamePart};
use sqlparser::tokenizer::Location;

/// Metadata of a field: its name as spelled by whoever defined it.
pub const SPELLING_KEY: &str = "rowmill.name";

/// The schema of a name without one.
pub(crate) const DEFAULT_SCHEMA: &str = "main";

/// The catalog that holds every schema of the database.
pub(crate) const CATALOG: &str = "rowmill";

/// The name under which things are planned and looked up.
pub(crate) fn lower(name: &str) -> String {
    name.to_lowercase()
}

/// The names of one statement that were not written in lower case, by their place in its text.
#[derive(Clone, Debug, Default)]
pub(crate) struct Spellings(HashMap<(u64, u64), Box<str>>);

impl Spellings {
    pub(crate) fn insert(&mut self, at: Location, spelled: &str) {
        self.0.insert((at.line, at.column), spelled.into());
    }

    /// The spelling of a name that the parser found in this statement.
    pub(crate) fn of<'a>(&'a self, ident: &'a Ident) -> &'a str {
        let at = ident.span.start;
        match self.0.get(&(at.line, at.column)) {
            // The place is only trusted if it holds this very name.
            Some(spelled) if lower(spelled) == ident.value => spelled,
            _ => &ident.value,
        }
    }
}

/// `field` under `spelled`, planned in lower case.
pub(crate) fn planned_field(field: Field, spelled: &str) -> Field {
    let mut metadata = field.metadata().clone();
    metadata.insert(SPELLING_KEY.into(), spelled.into());
    field.with_name(lower(spelled)).with_metadata(metadata)
}

/// The spelling that a field carries for its own name. An alias keeps the metadata of what it renames, whose spelling
/// is then of another name and does not count.
pub(crate) fn carried_spelling(field: &Field) -> Option<&str> {
    field.metadata().get(SPELLING_KEY).map(String::as_str).filter(|spelled| lower(spelled) == *field.name())
}

/// A name of a table or view, as planned: schema and name in lower case, and the name as spelled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct QualifiedName {
    pub(crate) schema: String,
    pub(crate) name: String,
    pub(crate) spelled: String,
}

/// Reads `name`, `schema.name` or `rowmill.schema.name`.
pub(crate) fn qualified(name: &ObjectName, spellings: &Spellings) -> Result<QualifiedName> {
    let parts = identifiers(name)?;
    let (schema, last) = match parts.as_slice() {
        [name] => (DEFAULT_SCHEMA, *name),
        [schema, name] => (schema.value.as_str(), *name),
        [catalog, schema, name] if catalog.value == CATALOG => (schema.value.as_str(), *name),
        _ => {
            return Err(Error::new(ErrorKind::UndefinedSchema, format!("\"{name}\" is not the name of a table"))
                .hint("a table is named table or schema.table"));
        }
    };
    Ok(QualifiedName { schema: schema.to_string(), name: last.value.clone(), spelled: spellings.of(last).to_string() })
}

/// The plain identifiers that a dotted name consists of.
pub(crate) fn identifiers(name: &ObjectName) -> Result<Vec<&Ident>> {
    name.0
        .iter()
        .map(|part| match part {
            ObjectNamePart::Identifier(ident) => Ok(ident),
            ObjectNamePart::Function(function) => {
                Err(Error::new(ErrorKind::Syntax, format!("\"{function}\" is not a name")))
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::DataType;

    use super::*;

    #[test]
    fn a_spelling_counts_only_for_its_own_name() {
        let field = planned_field(Field::new("x", DataType::Int64, true), "UserID");
        assert_eq!(field.name(), "userid");
        assert_eq!(carried_spelling(&field), Some("UserID"));
        assert_eq!(carried_spelling(&field.with_name("u")), None);
    }
}
