//! The surroundings of tables: schemas, the database, the role, settings, and ways to store.

use std::sync::Arc;

use rowmill_base::{SETTINGS, SettingScope};

use super::PG_CATALOG;
use super::oids::{
    COLUMNAR_OID, DATABASE_OID, INFORMATION_SCHEMA_OID, KEYED_OID, PG_CATALOG_OID, ROLE, ROLE_OID, TREE_OID, schema_oid,
};
use super::rows::PgColumn::{NoTexts, Number, Text, Truth};
use super::rows::{PgColumns, PgRows};
use crate::catalog::StatementContext;
use crate::information_schema::INFORMATION_SCHEMA;
use crate::names::CATALOG;

const PG_NAMESPACE: PgColumns = &[("oid", Number), ("nspname", Text), ("nspowner", Number), ("nspacl", NoTexts)];

pub(super) fn pg_namespace(context: &Arc<StatementContext>) -> PgRows {
    let mut rows = PgRows::new(PG_NAMESPACE);
    let own = context.snapshot.catalog().schemas().map(|schema| (schema_oid(schema), schema.name.as_str()));
    let computed = [(PG_CATALOG_OID, PG_CATALOG), (INFORMATION_SCHEMA_OID, INFORMATION_SCHEMA)];
    for (oid, name) in own.chain(computed) {
        rows.push([("oid", oid.into()), ("nspname", name.into()), ("nspowner", ROLE_OID.into())]);
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

pub(super) fn pg_roles() -> PgRows {
    let mut rows = PgRows::new(PG_ROLES);
    rows.push([
        ("oid", ROLE_OID.into()),
        ("rolname", ROLE.into()),
        ("rolsuper", true.into()),
        ("rolinherit", true.into()),
        ("rolcreaterole", false.into()),
        ("rolcreatedb", false.into()),
        ("rolcanlogin", true.into()),
        ("rolreplication", false.into()),
        ("rolconnlimit", (-1_i64).into()),
        ("rolbypassrls", true.into()),
        ("usename", ROLE.into()),
        ("usesysid", ROLE_OID.into()),
        ("usesuper", true.into()),
    ]);
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
