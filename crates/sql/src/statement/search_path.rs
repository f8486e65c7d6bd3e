//! `SET search_path`, `SHOW search_path` and `USE`: where a session looks for bare names.

use rowmill_base::{Error, ErrorKind, Result};
use sqlparser::ast::{Expr, Use};

use crate::databases::no_database;
use crate::names::{DEFAULT_SCHEMA, identifiers, lower};
use crate::search_path::SearchPath;
use crate::session::Work;
use crate::settings::{is_default, value_text};

/// Whether `name` is a setting of the search path: `schema` is DuckDB's, for a path of one schema.
pub(crate) fn is_path_setting(name: &str) -> bool {
    matches!(name, "search_path" | "schema")
}

/// The value of such a setting.
pub(crate) fn value_of(work: &mut Work<'_>, name: &str) -> Result<String> {
    let path = work.session.search_path().clone();
    if name == "search_path" {
        return Ok(path.to_string());
    }
    let view = work.view()?;
    Ok(path.schemas(view.catalog()).first().map_or_else(String::new, |schema| schema.name.clone()))
}

/// Runs `SET search_path = values`. `is_local` is the value until the open transaction ends.
pub(crate) fn set(work: &mut Work<'_>, name: &str, values: &[Expr], is_local: bool) -> Result<()> {
    let path = match values {
        [value] if is_default(value) => SearchPath::default(),
        values => {
            let mut texts = Vec::with_capacity(values.len());
            for value in values {
                // DuckDB takes the whole path as one text.
                texts.extend(value_text(value)?.split(',').map(|text| text.trim().trim_matches('"').to_owned()));
            }
            SearchPath::new(texts)
        }
    };
    let view = work.view()?;
    let exists = !path.schemas(view.catalog()).is_empty();
    let missing = path.names().iter().find(|name| *name != "$user");
    match missing.filter(|_| !exists) {
        // DuckDB's setting is one schema, which must exist.
        Some(missing) if name == "schema" => return Err(no_schema(missing)),
        // PostgreSQL accepts any path, because its schemas may be made later.
        Some(missing) => work.notice(format!("there is no schema \"{missing}\" yet, so bare names mean nothing")),
        None => {}
    }
    if is_local {
        work.open_transaction("SET LOCAL")?;
        work.session.set_local_search_path(path);
    } else {
        work.session.set_search_path(path);
    }
    Ok(())
}

/// Runs `USE schema`, `USE database` and `USE database.schema`.
pub(crate) fn use_place(work: &mut Work<'_>, target: &Use) -> Result<()> {
    let (Use::Object(name) | Use::Schema(name) | Use::Catalog(name) | Use::Database(name)) = target else {
        let error = Error::new(ErrorKind::Unsupported, format!("{target} is not supported"));
        return Err(error.hint("USE takes a schema or an attached database"));
    };
    let parts = identifiers(name)?;
    match parts.as_slice() {
        [name] => {
            let view = work.view()?;
            if let Some(schema) = view.catalog().schema(&name.value) {
                work.session.set_search_path(SearchPath::new([schema.name.clone()]));
                return Ok(());
            }
            if !work.databases.names().any(|known| known == name.value) {
                return Err(no_schema(&name.value));
            }
            use_database(work, &name.value)
        }
        [database, schema] => {
            if !work.databases.names().any(|known| known == database.value) {
                return Err(no_database(&database.value, work.databases.names()));
            }
            use_database(work, &database.value)?;
            let view = work.view()?;
            if view.catalog().schema(&schema.value).is_none() {
                return Err(no_schema(&schema.value));
            }
            work.session.set_search_path(SearchPath::new([lower(&schema.value)]));
            Ok(())
        }
        _ => {
            let what = format!("\"{name}\" is not the name of a schema");
            Err(Error::new(ErrorKind::UndefinedSchema, what).hint("USE takes schema, database or database.schema"))
        }
    }
}

fn use_database(work: &mut Work<'_>, name: &str) -> Result<()> {
    work.session.require_superuser("USE of a database")?;
    work.session.use_database(name)?;
    work.session.set_search_path(SearchPath::new([DEFAULT_SCHEMA.to_owned()]));
    Ok(())
}

fn no_schema(name: &str) -> Error {
    Error::new(ErrorKind::UndefinedSchema, format!("there is no schema \"{name}\""))
        .hint("SHOW SCHEMAS lists the schemas, SHOW DATABASES the databases")
}
