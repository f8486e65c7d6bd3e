//! The settings of other databases that a session of Rowmill has in one form only: the search path and the schema.
//! Setting them to that form is accepted, because programs do so when they connect.

use rowmill_base::{Error, ErrorKind, Result};
use sqlparser::ast::{Expr, ObjectName, Use};

use crate::names::DEFAULT_SCHEMA;
use crate::session::Work;
use crate::settings::value_text;

/// Whether `name` is one of these settings.
pub(crate) fn is_name_setting(name: &str) -> bool {
    matches!(name, "search_path" | "schema")
}

/// The value of both settings.
pub(crate) const VALUE: &str = DEFAULT_SCHEMA;

/// Runs `SET name = values`.
pub(crate) fn set(work: &mut Work<'_>, values: &[Expr]) -> Result<()> {
    let mut texts = Vec::with_capacity(values.len());
    for value in values {
        // DuckDB takes the whole path as one text.
        texts.extend(value_text(value)?.split(',').map(|text| text.trim().trim_matches('"').to_owned()));
    }
    use_path(work, &texts)
}

/// Runs `USE name`.
pub(crate) fn use_schema(work: &mut Work<'_>, target: &Use) -> Result<()> {
    let (Use::Object(name) | Use::Schema(name) | Use::Catalog(name) | Use::Database(name)) = target else {
        return Err(Error::new(ErrorKind::Unsupported, format!("{target} is not supported")).hint("USE takes a schema"));
    };
    use_path(work, &[schema_of(name)])
}

/// The schema that `USE schema` or `USE rowmill.schema` names. The database itself means its default schema.
fn schema_of(name: &ObjectName) -> String {
    let parts: Vec<String> = name.0.iter().map(|part| part.to_string().replace('"', "")).collect();
    match parts.as_slice() {
        [catalog] if catalog == "rowmill" => DEFAULT_SCHEMA.to_owned(),
        [catalog, schema] if catalog == "rowmill" => schema.clone(),
        parts => parts.join("."),
    }
}

/// Accepts a search path in which the first schema that exists is the default one.
fn use_path(work: &mut Work<'_>, path: &[String]) -> Result<()> {
    let view = work.view()?;
    let exists = |name: &&String| view.catalog().schema(name).is_some();
    match path.iter().find(exists) {
        // PostgreSQL calls its default schema public.
        None if path.iter().any(|name| name == "public" || name == "$user") => Ok(()),
        Some(first) if first.to_lowercase() == DEFAULT_SCHEMA => Ok(()),
        Some(first) => {
            let message =
                format!("names without a schema are always looked up in {DEFAULT_SCHEMA}, not in \"{first}\"");
            Err(Error::new(ErrorKind::Unsupported, message).hint(format!("write the schema: {first}.table")))
        }
        None => {
            let message = format!("there is no schema \"{}\"", path.join(", "));
            Err(Error::new(ErrorKind::UndefinedSchema, message).hint("SHOW SCHEMAS lists the schemas"))
        }
    }
}
