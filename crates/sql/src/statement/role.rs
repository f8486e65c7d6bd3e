//! `CREATE ROLE`, `ALTER ROLE`, `DROP ROLE`, and tokens of roles.
//!
//! A role is a user if it has LOGIN. Only superusers make and change roles, but every role may change its own password.
//! We store a verifier of a password and the hash of a token, so that a copy of the database has neither.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rowmill_base::{Error, ErrorKind, Result, RoleId, nearest};
use rowmill_expr::text::reader::parse_timestamp;
use rowmill_txn::Catalog;
use rowmill_txn::Transaction;
use rowmill_txn::roles::{RoleDef, TOKENS_MAX, TokenDef};
use sqlparser::ast::Ident;

use super::column_spec::check_name;
use crate::access::Access;
use crate::outcome::{Outcome, RowStream};
use crate::parse::{AccessStatement, RoleOptions};
use crate::scram_verifier::{ScramVerifier, token_hash};
use crate::session::Work;

/// Names that mean something else than a role.
const RESERVED: [&str; 8] =
    ["public", "none", "all", "rowmill", "current_user", "session_user", "current_role", "user"];
/// What a token begins with, so that programs which look for secrets in texts find it.
const TOKEN_PREFIX: &str = "rmt_";
const TOKEN_BYTES: usize = 32;

/// Runs a statement about roles or tokens.
pub(crate) fn run(work: &mut Work<'_>, statement: &AccessStatement) -> Result<Outcome> {
    let tag = statement.tag();
    if let AccessStatement::CreateToken { name, role, valid_until } = statement {
        let batch =
            work.write(|work, transaction| create_token(work, transaction, name, role, valid_until.as_deref()))?;
        return Ok(Outcome::Rows(RowStream::ready(batch)));
    }
    work.write(|work, transaction| match statement {
        AccessStatement::CreateRole { name, if_not_exists, options } => {
            create_role(work, transaction, name, *if_not_exists, options)
        }
        AccessStatement::AlterRole { name, options } => alter_role(work, transaction, name, options),
        AccessStatement::RenameRole { name, to } => {
            let mut role = role_named(transaction.catalog(), &name.value)?;
            role.name = new_name(work, to)?;
            transaction.put_role(role)
        }
        AccessStatement::DropRole { names, if_exists } => {
            names.iter().try_for_each(|name| match role_named(transaction.catalog(), &name.value) {
                Ok(role) => transaction.drop_role(role.id),
                Err(error) if *if_exists => {
                    work.notice(error.message());
                    Ok(())
                }
                Err(error) => Err(error),
            })
        }
        AccessStatement::DropToken { name, role, if_exists } => {
            let mut role = role_named(transaction.catalog(), &role.value)?;
            if role.tokens.remove(&name.value).is_some() {
                return transaction.put_role(role);
            }
            let what = format!("role \"{}\" has no token \"{}\"", role.name, name.value);
            if *if_exists {
                work.notice(what);
                return Ok(());
            }
            Err(Error::new(ErrorKind::UndefinedObject, what))
        }
        _ => Err(Error::internal("statements about rights are not statements about roles")),
    })?;
    Ok(Outcome::Done { tag })
}

/// The columns of the result of `CREATE TOKEN`.
pub(crate) fn token_schema() -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new("token", DataType::Utf8, false)]))
}

/// The role with this name.
pub(super) fn role_named(catalog: &Catalog, name: &str) -> Result<RoleDef> {
    catalog.role(name).map(|role| (**role).clone()).ok_or_else(|| {
        let error = Error::new(ErrorKind::UndefinedObject, format!("there is no role \"{name}\""));
        let near = nearest(name, catalog.roles().map(|role| role.name.as_str()));
        if near.is_empty() { error } else { error.hint(format!("did you mean {}?", near.join(", "))) }
    })
}

fn new_name(work: &Work<'_>, name: &Ident) -> Result<String> {
    let spelled = work.statement.spell(name);
    check_name(spelled)?;
    if RESERVED.contains(&name.value.as_str()) || name.value.starts_with("pg_") {
        return Err(Error::new(ErrorKind::InvalidDefinition, format!("a role cannot have the name \"{spelled}\"")));
    }
    Ok(spelled.to_owned())
}

fn create_role(
    work: &mut Work<'_>,
    transaction: &mut Transaction,
    name: &Ident,
    if_not_exists: bool,
    options: &RoleOptions,
) -> Result<()> {
    let name = new_name(work, name)?;
    if if_not_exists && transaction.catalog().role(&name).is_some() {
        work.notice(format!("there is a role \"{name}\" already"));
        return Ok(());
    }
    let mut role = RoleDef {
        id: transaction.new_role_id(),
        name,
        can_login: false,
        is_superuser: false,
        verifier: None,
        valid_until_us: None,
        member_of: BTreeSet::new(),
        tokens: BTreeMap::new(),
    };
    apply(transaction.catalog(), &mut role, options)?;
    let was_open = !transaction.catalog().requires_login();
    transaction.put_role(role)?;
    if was_open && transaction.catalog().requires_login() {
        let has_superuser = transaction.catalog().roles().any(|role| role.is_superuser && role.can_login);
        work.notice("from now on, all clients of a server must log in, also those that are connected");
        if !has_superuser {
            work.notice("no superuser can log in; only the shell can change roles");
        }
    }
    Ok(())
}

fn alter_role(work: &mut Work<'_>, transaction: &mut Transaction, name: &Ident, options: &RoleOptions) -> Result<()> {
    let mut role = role_named(transaction.catalog(), &name.value)?;
    let RoleOptions { can_login, is_superuser, password: _, valid_until, in_roles } = options;
    let is_only_password =
        can_login.is_none() && is_superuser.is_none() && valid_until.is_none() && in_roles.is_empty();
    if !(is_only_password && work.owner() == Some(role.id)) {
        Access::of(transaction.catalog(), work.actor()).require_superuser("ALTER ROLE")?;
    }
    apply(transaction.catalog(), &mut role, options)?;
    transaction.put_role(role)
}

fn apply(catalog: &Catalog, role: &mut RoleDef, options: &RoleOptions) -> Result<()> {
    let RoleOptions { can_login, is_superuser, password, valid_until, in_roles } = options;
    role.can_login = can_login.unwrap_or(role.can_login);
    role.is_superuser = is_superuser.unwrap_or(role.is_superuser);
    if let Some(password) = password {
        role.verifier = password.as_deref().map(verifier).transpose()?;
    }
    if let Some(until) = valid_until {
        role.valid_until_us = time_us(until)?;
    }
    for of in in_roles {
        add_membership(catalog, role, role_named(catalog, &of.value)?.id)?;
    }
    Ok(())
}

/// Makes `member` a member of a role. Returns an error if that role is a member of `member`.
pub(super) fn add_membership(catalog: &Catalog, member: &mut RoleDef, of: RoleId) -> Result<()> {
    if catalog.roles_of(of).contains(&member.id) {
        let name = catalog.role_by_id(of).map_or("", |role| &role.name);
        let what = format!("role \"{}\" cannot be a member of \"{name}\", which is a member of it", member.name);
        return Err(Error::new(ErrorKind::InvalidDefinition, what));
    }
    member.member_of.insert(of);
    Ok(())
}

/// The verifier of a password. A text that is a verifier already is taken as it is: clients such as psql's `\password`
/// make it themselves, so that the password never leaves them.
fn verifier(password: &str) -> Result<String> {
    if password.is_empty() {
        return Err(Error::new(ErrorKind::InvalidParameter, "a password cannot be empty")
            .hint("PASSWORD NULL removes the password"));
    }
    let verifier = match ScramVerifier::parse(password) {
        Some(verifier) => verifier,
        None => ScramVerifier::of_password(password)?,
    };
    Ok(verifier.text())
}

/// Reads the time of VALID UNTIL: microseconds since 1970-01-01 UTC, or `None` for `infinity`.
fn time_us(text: &str) -> Result<Option<i64>> {
    if text.eq_ignore_ascii_case("infinity") {
        return Ok(None);
    }
    parse_timestamp(text.trim(), 1_000_000).map(Some).map_err(|_| {
        Error::new(ErrorKind::InvalidDatetime, format!("VALID UNTIL '{text}' is not a time"))
            .hint("write '2027-01-31', '2027-01-31 12:00:00+01:00' or 'infinity'")
    })
}

fn create_token(
    work: &mut Work<'_>,
    transaction: &mut Transaction,
    name: &Ident,
    role: &Ident,
    valid_until: Option<&str>,
) -> Result<RecordBatch> {
    let mut role = role_named(transaction.catalog(), &role.value)?;
    check_name(work.statement.spell(name))?;
    if !role.can_login {
        let what = format!("role \"{}\" cannot log in, so it cannot have tokens", role.name);
        return Err(Error::new(ErrorKind::InvalidDefinition, what)
            .hint(format!("ALTER ROLE {} LOGIN lets clients log in as it", role.name)));
    }
    if role.tokens.contains_key(&name.value) {
        let what = format!("role \"{}\" has a token \"{}\" already", role.name, name.value);
        return Err(Error::new(ErrorKind::DuplicateObject, what));
    }
    if role.tokens.len() >= TOKENS_MAX {
        let what = format!("role \"{}\" has {TOKENS_MAX} tokens, which is the limit", role.name);
        return Err(Error::new(ErrorKind::InvalidDefinition, what).hint("DROP TOKEN drops those that have ended"));
    }
    let mut bytes = [0; TOKEN_BYTES];
    getrandom::fill(&mut bytes).map_err(|error| Error::internal(format!("no random bytes: {error}")))?;
    let token = format!("{TOKEN_PREFIX}{}", URL_SAFE_NO_PAD.encode(bytes));
    let valid_until_us = valid_until.map(time_us).transpose()?.flatten();
    role.tokens.insert(name.value.clone(), TokenDef { hash: token_hash(&token), valid_until_us });
    transaction.put_role(role)?;
    work.notice("the token is shown only now");
    let column: ArrayRef = Arc::new(StringArray::from(vec![token]));
    RecordBatch::try_new(token_schema(), vec![column]).map_err(|error| Error::internal(error.to_string()))
}
