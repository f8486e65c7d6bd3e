//! `CREATE SECRET` and `DROP SECRET`: what the connection shows to stores of files.

use rowmill_base::{Error, ErrorKind, Result};
use sqlparser::ast::{Ident, Statement};

use super::clause::unsupported;
use crate::files::Secret;
use crate::names::lower;
use crate::outcome::Outcome;
use crate::session::Work;

const CREATE: &str = "CREATE SECRET";
const DROP: &str = "DROP SECRET";

/// Runs a [`Statement::CreateSecret`].
pub(crate) fn create(work: &mut Work<'_>, statement: &Statement) -> Result<Outcome> {
    let Statement::CreateSecret {
        or_replace,
        temporary,
        if_not_exists,
        name,
        storage_specifier: storage,
        secret_type,
        options,
    } = statement
    else {
        return Err(Error::internal("the dispatch hands CREATE SECRET to secret"));
    };
    refuse_lasting(CREATE, *temporary, storage.as_ref())?;
    let mut secret = Secret::new(&secret_type.value)?;
    let mut known: Vec<String> = Vec::with_capacity(options.len());
    for option in options {
        let key = option.key.value.to_ascii_lowercase();
        if known.contains(&key) {
            return Err(Error::new(ErrorKind::Syntax, format!("{CREATE}: the option {key} is given twice")));
        }
        secret.set(&key, &option.value.value)?;
        known.push(key);
    }
    secret.check()?;
    // As in DuckDB, each type has one secret without a name of its own.
    let default = || format!("__default_{}", lower(&secret_type.value));
    let name = name.as_ref().map_or_else(default, |name| work.statement.spell(name).to_lowercase());
    let is_new = work.session.secrets().put(&name, secret, *or_replace);
    if !is_new && !or_replace {
        if !if_not_exists {
            return Err(Error::new(ErrorKind::DuplicateObject, format!("there is a secret \"{name}\" already"))
                .hint("CREATE OR REPLACE SECRET replaces it"));
        }
        work.notice(format!("there is a secret \"{name}\" already"));
    }
    Ok(Outcome::Done { tag: CREATE })
}

/// Runs a [`Statement::DropSecret`].
pub(crate) fn drop(work: &mut Work<'_>, statement: &Statement) -> Result<Outcome> {
    let Statement::DropSecret { if_exists, temporary, name, storage_specifier } = statement else {
        return Err(Error::internal("the dispatch hands DROP SECRET to secret"));
    };
    refuse_lasting(DROP, *temporary, storage_specifier.as_ref())?;
    let name = work.statement.spell(name).to_lowercase();
    if !work.session.secrets().remove(&name) && !if_exists {
        let names = work.session.secrets().names();
        let error = Error::new(ErrorKind::UndefinedObject, format!("there is no secret \"{name}\""));
        return Err(match names.as_slice() {
            [] => error.hint("this connection has no secrets; they end with their connection"),
            names => error.hint(format!("the secrets of this connection are {}", names.join(", "))),
        });
    }
    Ok(Outcome::Done { tag: DROP })
}

/// Secrets are never stored.
fn refuse_lasting(statement: &str, temporary: Option<bool>, storage: Option<&Ident>) -> Result<()> {
    let hint = "a secret lasts as long as its connection; the variables AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY \
                hold for all connections";
    match (temporary, storage) {
        (Some(false), _) => Err(unsupported(statement, "PERSISTENT").hint(hint)),
        (_, Some(_)) => Err(unsupported(statement, "a place to store it").hint(hint)),
        _ => Ok(()),
    }
}
