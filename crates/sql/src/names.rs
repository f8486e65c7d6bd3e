//! Names: planned in lower case, displayed as spelled.
//!
//! We plan every name in lower case, quoted or not, so `"UserID"`, `UserID` and `userid` are one column. Results show
//! the spelling of the statement that named the thing:
//!
//! ```text
//! CREATE TABLE Hits (UserID BIGINT)      the catalog keeps "Hits" and "UserID"
//! SELECT userid, COUNT(*) AS PageViews   -> columns UserID, PageViews
//! ```
//!
//! We lower the tokens before parsing, so no code after the parser ever meets a spelled name. To find the spelling of a
//! name that the statement itself introduces, we look up the name's place in the text.

use std::collections::HashMap;

use rowmill_base::{Error, ErrorKind, Result};
use sqlparser::ast::{Ident, ObjectName, ObjectNamePart};
use sqlparser::tokenizer::Location;

/// The schema of a name that names none.
pub(crate) const DEFAULT_SCHEMA: &str = "main";

/// The catalog that holds every schema of the database.
pub(crate) const CATALOG: &str = "rowmill";

/// Returns the form of `name` under which it is planned and looked up.
pub(crate) fn lower(name: &str) -> String {
    name.to_lowercase()
}

/// The names of one statement that were not written in lower case, keyed by their place in its text.
#[derive(Clone, Debug, Default)]
pub(crate) struct Spellings(HashMap<(u64, u64), Box<str>>);

impl Spellings {
    pub(crate) fn insert(&mut self, at: Location, spelled: &str) {
        self.0.insert((at.line, at.column), spelled.into());
    }

    /// Returns the spelling of a name that the parser found in this statement.
    pub(crate) fn of<'a>(&'a self, ident: &'a Ident) -> &'a str {
        let at = ident.span.start;
        match self.0.get(&(at.line, at.column)) {
            // The parser may give a name another place, so we trust the place only if it holds this very name.
            Some(spelled) if lower(spelled) == ident.value => spelled,
            _ => &ident.value,
        }
    }
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

/// Returns the plain identifiers of a dotted name.
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
