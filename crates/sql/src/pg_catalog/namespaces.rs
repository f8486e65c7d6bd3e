//! The surroundings of tables: schemas, the database, roles, settings, and ways to store.

use std::sync::Arc;

use arrow::array::{ArrayRef, TimestampMicrosecondArray};
use rowmill_base::{SETTINGS, SettingScope};
use rowmill_expr::text::writer::format_value;
use rowmill_txn::roles::ObjectId;

use super::PG_CATALOG;
use super::oids::{
    COLUMNAR_OID, DATABASE_OID, INFORMATION_SCHEMA_OID, KEYED_OID, PG_CATALOG_OID, ROLE, ROLE_OID, TREE_OID, owner_oid,
    role_oid, schema_oid,
};
use super::rows::PgColumn::{NoTexts, Number, Text, Truth};
use super::rows::{PgColumns, PgRows};
use crate::catalog::StatementContext;
use crate::information_schema::INFORMATION_SCHEMA;
use crate::names::CATALOG;

const PG_NAMESPACE: PgColumns = &[("oid", Number), ("nspname", Text), ("nspowner", Number), ("nspacl", NoTexts)];

pub(super) fn pg_namespace(context: &Arc<StatementContext>) -> PgRows {
    let mut rows = PgRows::new(PG_NAMESPACE);
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

const PG_DATABASE: PgColumns = &[
    ("oid", Number),
    ("datname", Text),
    ("datdba", Number),
    ("encoding", Number),
    ("datlocprovider", Text),
    ("datistemplate", Truth),
    ("datallowconn", Truth),
    ("datconnlimit", Number),
    ("datlastsysoid", Number),
    ("datfrozenxid", Number),
    ("datminmxid", Number),
    ("dattablespace", Number),
    ("datcollate", Text),
    ("datctype", Text),
    ("daticulocale", Text),
    ("datcollversion", Text),
    ("datacl", NoTexts),
];

/// PostgreSQL's number of UTF-8.
pub(super) const UTF8: i64 = 6;
/// The number of the tablespace in which PostgreSQL stores tables that name none.
const TABLESPACE_OID: u32 = 1663;

pub(super) fn pg_database() -> PgRows {
    let mut rows = PgRows::new(PG_DATABASE);
    rows.push([
        ("oid", DATABASE_OID.into()),
        ("datname", CATALOG.into()),
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
    rows
}

const PG_ROLES: PgColumns = &[
    ("oid", Number),
    ("rolname", Text),
    ("rolsuper", Truth),
    ("rolinherit", Truth),
    ("rolcreaterole", Truth),
    ("rolcreatedb", Truth),
    ("rolcanlogin", Truth),
    ("rolreplication", Truth),
    ("rolconnlimit", Number),
    ("rolpassword", Text),
    ("rolvaliduntil", Text),
    ("rolbypassrls", Truth),
    ("rolconfig", NoTexts),
    ("usename", Text),
    ("usesysid", Number),
    ("usesuper", Truth),
];

/// The roles: first the one that owns what was made without a role, as which no client logs in once there are users.
pub(super) fn pg_roles(context: &StatementContext) -> PgRows {
    let catalog = context.snapshot.catalog();
    let mut rows = PgRows::new(PG_ROLES);
    let mut push = |oid: u32, name: &str, is_superuser: bool, can_login: bool, until: Option<String>| {
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
            ("rolvaliduntil", until.into()),
            ("rolbypassrls", is_superuser.into()),
            ("usename", name.into()),
            ("usesysid", oid.into()),
            ("usesuper", is_superuser.into()),
        ]);
    };
    push(ROLE_OID, ROLE, true, !catalog.requires_login(), None);
    for role in catalog.roles() {
        let until = role.valid_until_us.and_then(time_text);
        push(role_oid(role.id), &role.name, role.is_superuser, role.can_login, until);
    }
    rows
}

fn time_text(time_us: i64) -> Option<String> {
    let time: ArrayRef = Arc::new(TimestampMicrosecondArray::from(vec![time_us]));
    format_value(&time, 0).ok().flatten().map(|text| format!("{text}+00"))
}

const PG_AUTH_MEMBERS: PgColumns =
    &[("roleid", Number), ("member", Number), ("grantor", Number), ("admin_option", Truth)];

pub(super) fn pg_auth_members(context: &StatementContext) -> PgRows {
    let mut rows = PgRows::new(PG_AUTH_MEMBERS);
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

const PG_SETTINGS: PgColumns = &[
    ("name", Text),
    ("setting", Text),
    ("unit", Text),
    ("category", Text),
    ("short_desc", Text),
    ("extra_desc", Text),
    ("context", Text),
    ("vartype", Text),
    ("source", Text),
    ("min_val", Text),
    ("max_val", Text),
    ("boot_val", Text),
    ("reset_val", Text),
];

pub(super) fn pg_settings(context: &Arc<StatementContext>) -> PgRows {
    let mut rows = PgRows::new(PG_SETTINGS);
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

const PG_AM: PgColumns = &[("oid", Number), ("amname", Text), ("amhandler", Text), ("amtype", Text)];

pub(super) fn pg_am() -> PgRows {
    let mut rows = PgRows::new(PG_AM);
    for (oid, name, kind) in [(COLUMNAR_OID, "column", "t"), (KEYED_OID, "row", "t"), (TREE_OID, "btree", "i")] {
        rows.push([("oid", oid.into()), ("amname", name.into()), ("amtype", kind.into())]);
    }
    rows
}

const PG_TABLESPACE: PgColumns =
    &[("oid", Number), ("spcname", Text), ("spcowner", Number), ("spcacl", NoTexts), ("spcoptions", NoTexts)];

pub(super) fn pg_tablespace() -> PgRows {
    let mut rows = PgRows::new(PG_TABLESPACE);
    rows.push([("oid", TABLESPACE_OID.into()), ("spcname", "pg_default".into()), ("spcowner", ROLE_OID.into())]);
    rows
}
