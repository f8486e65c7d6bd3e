//! The roles of a database, as a server needs them to check who its clients are.

use rowmill_base::{Result, RoleId};
use rowmill_sql::{ScramKey, ScramVerifier, token_hash};
use rowmill_txn::roles::RoleDef;

use crate::Database;

/// A role that a client wants to log in as.
#[derive(Clone, Debug)]
pub struct LoginRole {
    /// The id, for [`Actor::Role`](crate::access::Actor::Role).
    pub id: RoleId,
    /// The name as spelled.
    pub name: String,
    /// What proves the password, if the role has one.
    pub verifier: Option<ScramVerifier>,
    /// Whether the role may log in at all.
    pub can_login: bool,
    /// Whether the role may do everything.
    pub is_superuser: bool,
    /// When logins end, in microseconds since 1970-01-01 UTC: the time of the role, or an earlier one of its token.
    pub valid_until_us: Option<i64>,
}

impl LoginRole {
    fn of(role: &RoleDef) -> LoginRole {
        LoginRole {
            id: role.id,
            name: role.name.clone(),
            verifier: role.verifier.as_deref().and_then(ScramVerifier::parse),
            can_login: role.can_login,
            is_superuser: role.is_superuser,
            valid_until_us: role.valid_until_us,
        }
    }

    /// Whether logins of the role have ended at a time, in microseconds since 1970-01-01 UTC.
    pub fn has_ended(&self, now_us: i64) -> bool {
        self.valid_until_us.is_some_and(|until| until <= now_us)
    }
}

impl Database {
    /// Whether clients of a server must log in: whether there is a role as which they can.
    pub fn requires_login(&self) -> Result<bool> {
        Ok(self.engine.snapshot()?.catalog().requires_login())
    }

    /// The role with this name.
    pub fn login_role(&self, name: &str) -> Result<Option<LoginRole>> {
        Ok(self.engine.snapshot()?.catalog().role(name).map(|role| LoginRole::of(role)))
    }

    /// A secret that stays the same when the database is opened again, for the verifiers of names that do not exist.
    /// Such a name must get the same salt before and after a restart, as a name that exists does. The secret changes if
    /// the oldest role with a password gets another one. `None` without such a role.
    pub fn secret_of_nobody(&self) -> Result<Option<ScramKey>> {
        let snapshot = self.engine.snapshot()?;
        let verifiers = snapshot.catalog().roles().filter(|role| role.verifier.is_some());
        let oldest =
            verifiers.min_by_key(|role| role.id).and_then(|role| ScramVerifier::parse(role.verifier.as_deref()?));
        Ok(oldest.map(|verifier| verifier.server_key))
    }

    /// The role that has this token.
    pub fn role_of_token(&self, token: &str) -> Result<Option<LoginRole>> {
        let snapshot = self.engine.snapshot()?;
        let Some((role, token)) = snapshot.catalog().role_of_token(&token_hash(token)) else { return Ok(None) };
        let ends = role.valid_until_us.into_iter().chain(token.valid_until_us).min();
        Ok(Some(LoginRole { valid_until_us: ends, ..LoginRole::of(role) }))
    }
}
