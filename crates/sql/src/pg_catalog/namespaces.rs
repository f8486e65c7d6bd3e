//! The surroundings of tables: schemas, the database, roles, settings, and ways to store.

use std::sync::Arc;

use arrow::array::{ArrayRef, TimestampMicrosecondArray};
use rowmill_base::{SETTINGS, SettingScope};
use rowmill_expr::text::writer::format_value;
use rowmill_txn::Catalog;
use rowmill_txn::roles::ObjectId;

use super::PG_CATALOG;
use super::call_list::PG_SETTINGS;
use super::oids::{
    COLUMNAR_OID, DATABASE_OID, INFORMATION_SCHEMA_OID, KEYED_OID, PG_CATALOG_OID, ROLE, ROLE_OID, TREE_OID, owner_oid,
    role_oid, schema_oid,
};
use super::rows::PgRows;
use crate::catalog::StatementContext;
use crate::information_schema::INFORMATION_SCHEMA;

/// The schemas with their numbers.
pub(super) fn namespaces(catalog: &Catalog) -> impl Iterator<Item = (u32, &str)> {
    let own = catalog.schemas().map(|schema| (schema_oid(schema), schema.name.as_str()));
    own.chain([(PG_CATALOG_OID, PG_CATALOG), (INFORMATION_SCHEMA_OID, INFORMATION_SCHEMA)])
}

pub(super) fn pg_namespace(context: &Arc<StatementContext>) -> PgRows {
    let mut rows = PgRows::of("pg_namespace");
    let catalog = context.snapshot.catalog();
    let own = catalog
        .schemas()
        .map(|schema| (schema_oid(schema), schema.name.as_str(), owner_oid(catalog, ObjectId::Schema(schema.id))));
    let computed = [(PG_CATALOG_OID, PG_CATALOG, ROLE_OID), (INFORMATION_SCHEMA_OID, INFORMATION_SCHEMA, ROLE_OID)];
    for (oid, name, owner) in own.chain(computed) {
        rows.push([("oid", oid.into()), ("nspname", name.into()), ("nspowner", owner.into())]);
    }
    rows
}

/// PostgreSQL's number of UTF-8.
pub(super) const UTF8: i64 = 6;
/// The number of the tablespace in which PostgreSQL stores tables that name none.
const TABLESPACE_OID: u32 = 1663;

/// The database of the connection, and those that are attached.
pub(super) fn pg_database(context: &StatementContext) -> PgRows {
    let mut rows = PgRows::of("pg_database");
    // Nothing refers to the number of an attached database.
    for (name, oid) in context.databases.names().zip(DATABASE_OID..) {
        rows.push([
            ("oid", oid.into()),
            ("datname", name.into()),
            ("datdba", ROLE_OID.into()),
            ("encoding", UTF8.into()),
            ("datlocprovider", "c".into()),
            ("datistemplate", false.into()),
            ("datallowconn", true.into()),
            ("datconnlimit", (-1_i64).into()),
            ("dattablespace", TABLESPACE_OID.into()),
            ("datcollate", "C".into()),
            ("datctype", "C.UTF-8".into()),
        ]);
    }
    rows
}

/// A role: one of the database, or the one that always exists.
struct RoleRow<'a> {
    oid: u32,
    name: &'a str,
    is_superuser: bool,
    can_login: bool,
    valid_until: Option<String>,
}

/// The roles: first the one that owns what was made without a role, as which no client logs in once there are users.
fn roles(context: &StatementContext) -> impl Iterator<Item = RoleRow<'_>> {
    let catalog = context.snapshot.catalog();
    let can_login = !catalog.requires_login();
    let first = RoleRow { oid: ROLE_OID, name: ROLE, is_superuser: true, can_login, valid_until: None };
    let own = catalog.roles().map(|role| RoleRow {
        oid: role_oid(role.id),
        name: &role.name,
        is_superuser: role.is_superuser,
        can_login: role.can_login,
        valid_until: role.valid_until_us.and_then(time_text),
    });
    std::iter::once(first).chain(own)
}

/// `pg_roles` and `pg_authid`.
pub(super) fn pg_roles(context: &StatementContext, table: &str) -> PgRows {
    let mut rows = PgRows::of(table);
    for RoleRow { oid, name, is_superuser, can_login, valid_until } in roles(context) {
        rows.push([
            ("oid", oid.into()),
            ("rolname", name.into()),
            ("rolsuper", is_superuser.into()),
            ("rolinherit", true.into()),
            ("rolcreaterole", is_superuser.into()),
            ("rolcreatedb", false.into()),
            ("rolcanlogin", can_login.into()),
            ("rolreplication", false.into()),
            ("rolconnlimit", (-1_i64).into()),
            ("rolvaliduntil", valid_until.into()),
            ("rolbypassrls", is_superuser.into()),
        ]);
    }
    rows
}

/// The roles as which clients may log in.
pub(super) fn pg_user(context: &StatementContext) -> PgRows {
    let mut rows = PgRows::of("pg_user");
    for role in roles(context).filter(|role| role.can_login) {
        rows.push([
            ("usename", role.name.into()),
            ("usesysid", role.oid.into()),
            ("usecreatedb", false.into()),
            ("usesuper", role.is_superuser.into()),
            ("userepl", false.into()),
            ("usebypassrls", role.is_superuser.into()),
            ("valuntil", role.valid_until.into()),
        ]);
    }
    rows
}

fn time_text(time_us: i64) -> Option<String> {
    let time: ArrayRef = Arc::new(TimestampMicrosecondArray::from(vec![time_us]));
    format_value(&time, 0).ok().flatten().map(|text| format!("{text}+00"))
}

pub(super) fn pg_auth_members(context: &StatementContext) -> PgRows {
    let mut rows = PgRows::of("pg_auth_members");
    for role in context.snapshot.catalog().roles() {
        for of in &role.member_of {
            rows.push([
                ("roleid", role_oid(*of).into()),
                ("member", role_oid(role.id).into()),
                ("grantor", ROLE_OID.into()),
                ("admin_option", false.into()),
            ]);
        }
    }
    rows
}

/// The collations that a query may name. All of them order texts by bytes.
pub(super) fn pg_collation() -> PgRows {
    let mut rows = PgRows::of("pg_collation");
    for (oid, name) in [(100_i64, "default"), (950, "C"), (951, "POSIX")] {
        rows.push([
            ("oid", oid.into()),
            ("collname", name.into()),
            ("collnamespace", PG_CATALOG_OID.into()),
            ("collowner", ROLE_OID.into()),
            ("collprovider", "c".into()),
            ("collisdeterministic", true.into()),
            ("collencoding", (-1_i64).into()),
            ("collcollate", "C".into()),
            ("collctype", "C".into()),
        ]);
    }
    rows
}

pub(super) fn pg_settings(context: &Arc<StatementContext>) -> PgRows {
    let mut rows = PgRows::of("pg_settings");
    for (name, value) in PG_SETTINGS {
        rows.push([
            ("name", name.into()),
            ("setting", value.into()),
            ("category", "PostgreSQL".into()),
            ("context", "internal".into()),
            ("vartype", "string".into()),
            ("source", "default".into()),
        ]);
    }
    for setting in SETTINGS {
        let scope = match setting.scope {
            SettingScope::Database => "sighup",
            SettingScope::Connection => "user",
        };
        rows.push([
            ("name", setting.name.into()),
            ("setting", context.settings.show(setting.name).ok().into()),
            ("category", "Rowmill".into()),
            ("short_desc", setting.doc.into()),
            ("context", scope.into()),
            ("vartype", "string".into()),
            ("source", "session".into()),
        ]);
    }
    rows
}

pub(super) fn pg_am() -> PgRows {
    let mut rows = PgRows::of("pg_am");
    for (oid, name, kind) in [(COLUMNAR_OID, "column", "t"), (KEYED_OID, "row", "t"), (TREE_OID, "btree", "i")] {
        rows.push([("oid", oid.into()), ("amname", name.into()), ("amtype", kind.into())]);
    }
    rows
}

pub(super) fn pg_tablespace() -> PgRows {
    let mut rows = PgRows::of("pg_tablespace");
    rows.push([("oid", TABLESPACE_OID.into()), ("spcname", "pg_default".into()), ("spcowner", ROLE_OID.into())]);
    rows
}
