//! Open connections and the rows for which they wait: `pg_stat_activity`, `pg_locks` and `pg_stat_database`.

use std::borrow::Cow;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use rowmill_base::{Error, Result};

use super::oids::{DATABASE_OID, role_oid};
use super::rows::{PgCell, PgRows};
use crate::catalog::StatementContext;
use crate::names::CATALOG;
use crate::open_connections::{ConnectionState, OpenConnection};
use crate::redaction::without_passwords;

/// The text that stands for statements of other roles.
const HIDDEN: &str = "<insufficient privilege>";

/// Whether the statement of `context` may see what a connection does, and may end it: that of its own role or of a role
/// that it is a member of. Superusers may everything.
pub(super) fn may_manage(context: &StatementContext, connection: &OpenConnection) -> bool {
    let access = context.access();
    if access.is_unlimited() {
        return true;
    }
    let user = connection.client.user.as_deref();
    let role = user.and_then(|user| context.snapshot.catalog().role(user));
    role.is_some_and(|role| access.has_role(role.id) && !role.is_superuser)
}

/// `pg_stat_activity`: the connections of servers.
pub(super) fn pg_stat_activity(context: &Arc<StatementContext>) -> PgRows {
    let mut rows = PgRows::of("pg_stat_activity");
    for connection in context.connections.all() {
        let user = connection.client.user.as_deref();
        let role = user.and_then(|user| context.snapshot.catalog().role(user)).map(|role| role_oid(role.id));
        let own: [(&str, PgCell); 7] = [
            ("datid", DATABASE_OID.into()),
            ("datname", CATALOG.into()),
            ("pid", number(connection.number)),
            ("usesysid", role.into()),
            ("usename", user.into()),
            ("query", HIDDEN.into()),
            ("backend_type", "client backend".into()),
        ];
        match may_manage(context, &connection) {
            true => rows.push_all(own.into_iter().chain(activity(&connection))),
            false => rows.push_all(own),
        }
    }
    rows
}

/// What a connection does, for those who may see it.
fn activity(connection: &OpenConnection) -> Vec<(&'static str, PgCell)> {
    let now = connection.activity();
    let address = connection.client.address.as_deref();
    let socket = address.and_then(|address| address.parse::<SocketAddr>().ok());
    let wait = match (now.waits_for, now.state) {
        (Some(reason), _) => Some(reason.names()),
        (None, ConnectionState::Active) => None,
        (None, _) => Some(("Client", "ClientRead")),
    };
    let text = match without_passwords(&now.text) {
        Cow::Borrowed(text) => text.to_owned(),
        Cow::Owned(text) => text,
    };
    vec![
        ("application_name", (*now.application).into()),
        ("client_addr", socket.map(|socket| socket.ip().to_string()).into()),
        ("client_port", socket.map(|socket| i64::from(socket.port())).into()),
        ("backend_start", connection.began_us.into()),
        ("xact_start", now.transaction_us.into()),
        ("query_start", now.statement_us.into()),
        ("state_change", now.changed_us.into()),
        ("wait_event_type", wait.map(|(kind, _)| kind).into()),
        ("wait_event", wait.map(|(_, event)| event).into()),
        ("state", now.state.name().into()),
        ("backend_xmin", now.reads.map(|commit| commit.0.to_string()).into()),
        ("query", text.into()),
    ]
}

/// `pg_locks`: open transactions that have written rows, and those that wait for them. As in PostgreSQL, a transaction
/// holds a lock on itself, and a transaction that needs one of its rows waits for that lock.
pub(super) fn pg_locks(context: &Arc<StatementContext>) -> Result<PgRows> {
    let mut rows = PgRows::of("pg_locks");
    let engine = context.engine.upgrade();
    let engine = engine.ok_or_else(|| Error::internal("a statement of a database that is closed"))?;
    for claim in engine.claimed_rows() {
        let is_held = claim.waits_since.is_none();
        rows.push([
            ("locktype", "transactionid".into()),
            ("database", DATABASE_OID.into()),
            ("transactionid", claim.transaction.to_string().into()),
            ("pid", claim.connection.map_or(PgCell::Null, number)),
            ("mode", if is_held { "ExclusiveLock" } else { "ShareLock" }.into()),
            ("granted", is_held.into()),
            ("fastpath", false.into()),
            ("waitstart", claim.waits_since.map(microseconds).into()),
        ]);
    }
    Ok(rows)
}

/// `pg_stat_database`. What we do not count is NULL.
pub(super) fn pg_stat_database(context: &Arc<StatementContext>) -> PgRows {
    let mut rows = PgRows::of("pg_stat_database");
    let commits = context.engine.upgrade().and_then(|engine| engine.log_status().work).map(|work| work.records);
    rows.push([
        ("datid", DATABASE_OID.into()),
        ("datname", CATALOG.into()),
        ("numbackends", number(context.connections.all().len() as u64)),
        ("xact_commit", commits.map_or(PgCell::Null, number)),
        ("sessions", number(context.connections.entered())),
    ]);
    rows
}

fn number(number: u64) -> PgCell {
    i64::try_from(number).ok().into()
}

fn microseconds(time: SystemTime) -> i64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |since| i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
}
