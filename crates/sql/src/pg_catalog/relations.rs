//! `pg_class`, `pg_attribute`, `pg_attrdef`, `pg_index`, and the views over them.

use std::sync::Arc;

use rowmill_base::SqlType;
use rowmill_storage::{ColumnDef, TableDef, TableSource};
use rowmill_txn::roles::ObjectId;
use rowmill_txn::{SchemaDef, ViewDef};

use super::definition::index_definition;
use super::oids::{
    COLUMNAR_OID, KEYED_OID, TREE_OID, TableIndex, default_oid, index_oid, indexes, owner_name, owner_oid, schema_oid,
    table_oid, view_oid,
};
use super::rows::{PgCell, PgRows};
use super::type_oids::PgType;
use super::types::column_type;
use crate::catalog::StatementContext;
use crate::engine_query;
use crate::names::Spellings;
use crate::session::temporary::is_temporary;
use crate::shape::result_schema;
use crate::statement::sql_text::{self, quoted};

/// A relation of `pg_class`.
struct ClassRow {
    oid: u32,
    name: String,
    schema: u32,
    owner: u32,
    kind: &'static str,
    access_method: u32,
    columns: usize,
    rows: Option<u64>,
    has_index: bool,
    checks: usize,
    /// Whether foreign keys begin or end here. PostgreSQL enforces them with triggers, and tools look for foreign keys
    /// only where triggers are.
    has_triggers: bool,
    is_temporary: bool,
}

fn push_class(table: &mut PgRows, row: ClassRow) {
    table.push([
        ("oid", row.oid.into()),
        ("relname", row.name.into()),
        ("relnamespace", row.schema.into()),
        ("reltype", 0_i64.into()),
        ("reloftype", 0_i64.into()),
        ("relowner", row.owner.into()),
        ("relam", row.access_method.into()),
        ("relfilenode", row.oid.into()),
        ("reltablespace", 0_i64.into()),
        ("relpages", 0_i64.into()),
        ("reltuples", row.rows.map_or(-1, |rows| i64::try_from(rows).unwrap_or(i64::MAX)).into()),
        ("relallvisible", 0_i64.into()),
        ("reltoastrelid", 0_i64.into()),
        ("relhasindex", row.has_index.into()),
        ("relisshared", false.into()),
        ("relpersistence", if row.is_temporary { "t" } else { "p" }.into()),
        ("relkind", row.kind.into()),
        ("relnatts", (row.columns as i64).into()),
        ("relchecks", (row.checks as i64).into()),
        ("relhasrules", (row.kind == "v").into()),
        ("relhastriggers", row.has_triggers.into()),
        ("relhassubclass", false.into()),
        ("relrowsecurity", false.into()),
        ("relforcerowsecurity", false.into()),
        ("relispopulated", true.into()),
        ("relreplident", "d".into()),
        ("relispartition", false.into()),
        ("relrewrite", 0_i64.into()),
        ("relfrozenxid", 0_i64.into()),
        ("relminmxid", 0_i64.into()),
    ]);
}

/// Calls `each` with every table of the snapshot and its schema.
pub(super) fn each_table(context: &StatementContext, mut each: impl FnMut(&SchemaDef, &TableDef)) {
    let catalog = context.snapshot.catalog();
    for schema in catalog.schemas() {
        for table in catalog.tables(schema.id) {
            each(schema, table);
        }
    }
}

fn each_view(context: &StatementContext, mut each: impl FnMut(&SchemaDef, &ViewDef)) {
    let catalog = context.snapshot.catalog();
    for schema in catalog.schemas() {
        for view in catalog.views(schema.id) {
            each(schema, view);
        }
    }
}

/// The letter by which PostgreSQL knows the kind of a table.
fn kind_of(context: &StatementContext, table: &TableDef) -> &'static str {
    match (table.is_sequence(), context.snapshot.catalog().materialized(table.id)) {
        (true, _) => "S",
        (false, Some(_)) => "m",
        (false, None) => "r",
    }
}

pub(super) fn pg_class(context: &Arc<StatementContext>) -> PgRows {
    let mut rows = PgRows::of("pg_class");
    each_table(context, |schema, table| {
        let indexes = indexes(table);
        let owner = owner_oid(context.snapshot.catalog(), ObjectId::Table(table.id));
        let class = ClassRow {
            oid: table_oid(table.id),
            name: table.name.clone(),
            schema: schema_oid(schema),
            owner,
            kind: kind_of(context, table),
            access_method: if table.keyed.is_some() { KEYED_OID } else { COLUMNAR_OID },
            columns: table.columns.len(),
            rows: context.snapshot.table(table.id).map(|table| table.row_count()),
            has_index: !indexes.is_empty(),
            checks: table.rules.checks.len(),
            has_triggers: table
                .keyed
                .as_ref()
                .is_some_and(|keyed| !keyed.foreign_keys.is_empty() || !keyed.referrers.is_empty()),
            is_temporary: is_temporary(&schema.name),
        };
        push_class(&mut rows, class);
        for index in indexes {
            let class = ClassRow {
                oid: index_oid(index.id),
                name: index.name,
                schema: schema_oid(schema),
                owner,
                kind: "i",
                access_method: TREE_OID,
                columns: index.parts.len(),
                rows: None,
                has_index: false,
                checks: 0,
                has_triggers: false,
                is_temporary: is_temporary(&schema.name),
            };
            push_class(&mut rows, class);
        }
    });
    each_view(context, |schema, view| {
        let class = ClassRow {
            oid: view_oid(view),
            name: view.name.clone(),
            schema: schema_oid(schema),
            owner: owner_oid(context.snapshot.catalog(), ObjectId::View(view.id)),
            kind: "v",
            access_method: 0,
            columns: 0,
            rows: None,
            has_index: false,
            checks: 0,
            has_triggers: false,
            is_temporary: false,
        };
        push_class(&mut rows, class);
    });
    rows
}

/// A column of `pg_attribute`.
struct AttributeRow<'a> {
    relation: u32,
    name: &'a str,
    kind: &'a SqlType,
    number: usize,
    is_not_null: bool,
    has_default: bool,
    identity: &'static str,
    is_generated: bool,
}

fn push_attribute(rows: &mut PgRows, attribute: &AttributeRow<'_>) {
    let kind = PgType::of(attribute.kind);
    let (oid, modifier) = column_type(attribute.kind);
    rows.push([
        ("attrelid", attribute.relation.into()),
        ("attname", attribute.name.into()),
        ("atttypid", oid.into()),
        ("attstattarget", (-1_i64).into()),
        ("attlen", i64::from(kind.size()).into()),
        ("attnum", (attribute.number as i64).into()),
        ("attndims", i64::from(kind.is_array).into()),
        ("attcacheoff", (-1_i64).into()),
        ("atttypmod", modifier.into()),
        ("attbyval", false.into()),
        ("attstorage", "p".into()),
        ("attalign", "i".into()),
        ("attcompression", "".into()),
        ("attnotnull", attribute.is_not_null.into()),
        ("atthasdef", attribute.has_default.into()),
        ("atthasmissing", false.into()),
        ("attidentity", attribute.identity.into()),
        ("attgenerated", if attribute.is_generated { "s" } else { "" }.into()),
        ("attisdropped", false.into()),
        ("attislocal", true.into()),
        ("attinhcount", 0_i64.into()),
        ("attcollation", 0_i64.into()),
    ]);
}

pub(super) fn pg_attribute(context: &Arc<StatementContext>) -> PgRows {
    let mut rows = PgRows::of("pg_attribute");
    each_table(context, |_, table| {
        for (place, column) in table.columns.iter().enumerate() {
            let identity = match table.identity(column.id) {
                Some(identity) if identity.always => "a",
                Some(_) => "d",
                None => "",
            };
            let attribute = AttributeRow {
                relation: table_oid(table.id),
                name: &column.name,
                kind: &column.kind,
                number: place + 1,
                is_not_null: !column.nullable,
                has_default: default_text(table, column).is_some(),
                identity,
                is_generated: table.generated(column.id).is_some(),
            };
            push_attribute(&mut rows, &attribute);
        }
        for index in indexes(table) {
            for (place, part) in index.parts.iter().enumerate() {
                let Some(column) = table.column_by_id(part.column).map(|column| &table.columns[column]) else {
                    continue;
                };
                let attribute = AttributeRow {
                    relation: index_oid(index.id),
                    name: &column.name,
                    kind: &column.kind,
                    number: place + 1,
                    is_not_null: false,
                    has_default: false,
                    identity: "",
                    is_generated: false,
                };
                push_attribute(&mut rows, &attribute);
            }
        }
    });
    each_view(context, |schema, view| {
        for (place, (name, kind)) in
            view_columns(context, &context.databases.current, schema, view).into_iter().enumerate()
        {
            let attribute = AttributeRow {
                relation: view_oid(view),
                name: &name,
                kind: &kind,
                number: place + 1,
                is_not_null: false,
                has_default: false,
                identity: "",
                is_generated: false,
            };
            push_attribute(&mut rows, &attribute);
        }
    });
    rows
}

/// The default of a column, or the expression of a generated one.
fn default_text<'t>(table: &'t TableDef, column: &'t ColumnDef) -> Option<&'t str> {
    table.generated(column.id).or(column.default.as_deref())
}

/// The columns of a view, which follow from its query. A view whose tables are gone has none.
pub(crate) fn view_columns(
    context: &Arc<StatementContext>,
    database: &str,
    schema: &SchemaDef,
    view: &ViewDef,
) -> Vec<(String, SqlType)> {
    let place = format!("{}.{}", quoted(database), quoted(&schema.name));
    let sql = format!("SELECT * FROM {place}.{}", quoted(&view.name));
    let bound = sql_text::query(&sql, &context.settings)
        .and_then(|query| engine_query::bind(context, &query, &Spellings::default(), &[]));
    let Ok(bound) = bound else { return Vec::new() };
    let schema = result_schema(&bound);
    let fields = schema.fields().iter();
    fields
        .map(|field| (field.name().clone(), SqlType::from_arrow(field.data_type()).unwrap_or(SqlType::TEXT)))
        .collect()
}

pub(super) fn pg_attrdef(context: &Arc<StatementContext>) -> PgRows {
    let mut rows = PgRows::of("pg_attrdef");
    each_table(context, |_, table| {
        for (place, column) in table.columns.iter().enumerate() {
            let Some(default) = default_text(table, column) else { continue };
            rows.push([
                ("oid", default_oid(table.id, column).into()),
                ("adrelid", table_oid(table.id).into()),
                ("adnum", (place as i64 + 1).into()),
                ("adbin", default.into()),
            ]);
        }
    });
    rows
}

/// The numbers of the columns of an index, counted from 1.
pub(super) fn index_columns(table: &TableDef, index: &TableIndex<'_>) -> Vec<i64> {
    index.parts.iter().map(|part| table.column_by_id(part.column).map_or(0, |column| column as i64 + 1)).collect()
}

pub(super) fn pg_index(context: &Arc<StatementContext>) -> PgRows {
    let mut rows = PgRows::of("pg_index");
    each_table(context, |_, table| {
        for index in indexes(table) {
            let parts = index.parts.len() as i64;
            // Both bits are set for a descending column: NULL comes first in it.
            let options = index.parts.iter().map(|part| if part.descending { 3 } else { 0 }).collect::<Vec<i64>>();
            rows.push([
                ("indexrelid", index_oid(index.id).into()),
                ("indrelid", table_oid(table.id).into()),
                ("indnatts", parts.into()),
                ("indnkeyatts", parts.into()),
                ("indisunique", index.is_unique.into()),
                ("indnullsnotdistinct", false.into()),
                ("indisprimary", index.is_primary.into()),
                ("indisexclusion", false.into()),
                ("indimmediate", true.into()),
                ("indisclustered", false.into()),
                ("indisvalid", true.into()),
                ("indcheckxmin", false.into()),
                ("indisready", true.into()),
                ("indislive", true.into()),
                ("indisreplident", false.into()),
                ("indkey", index_columns(table, &index).into()),
                ("indcollation", vec![0; index.parts.len()].into()),
                ("indclass", vec![0; index.parts.len()].into()),
                ("indoption", options.into()),
            ]);
        }
    });
    rows
}

pub(super) fn pg_tables(context: &Arc<StatementContext>) -> PgRows {
    let mut rows = PgRows::of("pg_tables");
    each_table(context, |schema, table| {
        if kind_of(context, table) == "r" {
            rows.push([
                ("schemaname", schema.name.as_str().into()),
                ("tablename", table.name.as_str().into()),
                ("tableowner", owner_name(context.snapshot.catalog(), ObjectId::Table(table.id)).into()),
                ("hasindexes", (!indexes(table).is_empty()).into()),
                ("hasrules", false.into()),
                ("hastriggers", false.into()),
                ("rowsecurity", false.into()),
            ]);
        }
    });
    rows
}

pub(super) fn pg_views(context: &Arc<StatementContext>) -> PgRows {
    let mut rows = PgRows::of("pg_views");
    each_view(context, |schema, view| {
        rows.push([
            ("schemaname", schema.name.as_str().into()),
            ("viewname", view.name.as_str().into()),
            ("viewowner", owner_name(context.snapshot.catalog(), ObjectId::View(view.id)).into()),
            ("definition", view.sql.as_str().into()),
        ]);
    });
    rows
}

pub(super) fn pg_indexes(context: &Arc<StatementContext>) -> PgRows {
    let mut rows = PgRows::of("pg_indexes");
    each_table(context, |schema, table| {
        for index in indexes(table) {
            rows.push([
                ("schemaname", schema.name.as_str().into()),
                ("tablename", table.name.as_str().into()),
                ("indexname", index.name.as_str().into()),
                ("tablespace", PgCell::Null),
                ("indexdef", index_definition(schema, table, &index).into()),
            ]);
        }
    });
    rows
}

pub(super) fn pg_matviews(context: &Arc<StatementContext>) -> PgRows {
    let mut rows = PgRows::of("pg_matviews");
    each_table(context, |schema, table| {
        if let Some(view) = context.snapshot.catalog().materialized(table.id) {
            rows.push([
                ("schemaname", schema.name.as_str().into()),
                ("matviewname", table.name.as_str().into()),
                ("matviewowner", owner_name(context.snapshot.catalog(), ObjectId::Table(table.id)).into()),
                ("hasindexes", false.into()),
                ("ispopulated", true.into()),
                ("definition", view.sql.as_str().into()),
            ]);
        }
    });
    rows
}
