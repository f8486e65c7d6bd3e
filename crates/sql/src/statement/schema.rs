//! `CREATE SCHEMA`.

use rowmill_base::{Error, ErrorKind, Result};
use sqlparser::ast::{SchemaName, Statement};

use super::clause::{refuse, unsupported};
use super::column_spec::check_name;
use super::drop::schema_name;
use crate::information_schema::INFORMATION_SCHEMA;
use crate::names::identifiers;
use crate::outcome::Outcome;
use crate::session::Work;
use crate::session::temporary::is_reserved;

const STATEMENT: &str = "CREATE SCHEMA";

/// Runs a [`Statement::CreateSchema`].
pub(crate) fn run(work: &mut Work<'_>, statement: &Statement) -> Result<Outcome> {
    let Statement::CreateSchema { schema_name: name, if_not_exists, with, options, default_collate_spec, clone } =
        statement
    else {
        return Err(Error::internal("the dispatch hands CREATE SCHEMA to schema"));
    };
    let clauses = [
        (with.is_some(), "WITH"),
        (options.is_some(), "OPTIONS"),
        (default_collate_spec.is_some(), "DEFAULT COLLATE"),
        (clone.is_some(), "CLONE"),
    ];
    refuse(STATEMENT, clauses)?;
    let name = match name {
        SchemaName::Simple(name) => name,
        SchemaName::UnnamedAuthorization(_) | SchemaName::NamedAuthorization(..) => {
            return Err(unsupported(STATEMENT, "AUTHORIZATION"));
        }
    };
    let lower = schema_name(name)?;
    let last = identifiers(name)?.pop().expect("the name of a schema has a last part");
    let spelled = work.statement.spell(last);
    check_name(spelled)?;
    if is_reserved(lower) {
        let what = format!("the name \"{lower}\" is reserved for temporary tables");
        return Err(Error::new(ErrorKind::InvalidDefinition, what).hint("choose another name"));
    }
    work.write(|work, transaction| {
        let exists = match transaction.view()?.catalog().schema(lower) {
            Some(schema) => Some(schema.name.clone()),
            None if lower == INFORMATION_SCHEMA => Some(lower.to_string()),
            None => None,
        };
        match exists.map(|name| format!("there is a schema \"{name}\" already")) {
            None => transaction.create_schema(spelled).map(|_| ()),
            Some(message) if *if_not_exists => {
                work.notice(message);
                Ok(())
            }
            Some(message) => Err(Error::new(ErrorKind::DuplicateSchema, message)),
        }
    })?;
    Ok(Outcome::Done { tag: STATEMENT })
}
