//! Schemas, tables, views, columns and sequences.

use std::sync::Arc;

use rowmill_base::SqlType;
use rowmill_storage::{ColumnDef, TableDef, TableSource};
use rowmill_txn::roles::ObjectId;
use rowmill_txn::{SchemaDef, Snapshot};

use super::{INFORMATION_SCHEMA, yes_or_no};
use crate::access::Access;
use crate::catalog::StatementContext;
use crate::pg_catalog::{
    CATALOG_OWNER, PG_CATALOG, PgCell, PgRows, information_schema_shapes, owner_name, type_name, view_columns,
};

/// The databases whose contents the actor may see, with their names. Only superusers can name attached databases, so
/// others see the current one only.
fn visible(context: &StatementContext) -> impl Iterator<Item = (&str, &Arc<Snapshot>)> {
    let access = Access::of(context.snapshot.catalog(), context.authority.actor);
    let count = if access.is_unlimited() { usize::MAX } else { 1 };
    context.databases.snapshots(&context.snapshot).take(count)
}

pub(super) fn schemata(context: &Arc<StatementContext>, rows: &mut PgRows) {
    let mut push = |database: &str, name: &str, owner: String| {
        rows.push([("catalog_name", database.into()), ("schema_name", name.into()), ("schema_owner", owner.into())]);
    };
    for (database, snapshot) in visible(context) {
        let catalog = snapshot.catalog();
        for schema in catalog.schemas() {
            push(database, &schema.name, owner_name(catalog, ObjectId::Schema(schema.id)));
        }
    }
    for name in [INFORMATION_SCHEMA, PG_CATALOG] {
        push(&context.databases.current, name, CATALOG_OWNER.to_owned());
    }
}

pub(super) fn tables(context: &Arc<StatementContext>, rows: &mut PgRows) {
    let mut push = |(database, schema): (&str, &str), name: &str, kind: &str, count: Option<u64>| {
        rows.push([
            ("table_catalog", database.into()),
            ("table_schema", schema.into()),
            ("table_name", name.into()),
            ("table_type", kind.into()),
            ("is_insertable_into", yes_or_no(kind == "BASE TABLE")),
            ("is_typed", "NO".into()),
            ("table_rows", count.map(|count| i64::try_from(count).unwrap_or(i64::MAX)).into()),
        ]);
    };
    for (database, snapshot) in visible(context) {
        let catalog = snapshot.catalog();
        for schema in catalog.schemas() {
            let place = (database, schema.name.as_str());
            for table in catalog.tables(schema.id).filter(|table| !table.is_sequence()) {
                let count = snapshot.table(table.id).map(|table| table.row_count());
                let kind = if catalog.materialized(table.id).is_some() { "MATERIALIZED VIEW" } else { "BASE TABLE" };
                push(place, &table.name, kind, count);
            }
            // Views have no row count of their own, so it is NULL.
            for view in catalog.views(schema.id) {
                push(place, &view.name, "VIEW", None);
            }
        }
    }
    for table in information_schema_shapes().keys() {
        push((&context.databases.current, INFORMATION_SCHEMA), table, "VIEW", None);
    }
}

pub(super) fn views(context: &Arc<StatementContext>, rows: &mut PgRows) {
    let mut push = |database: &str, schema: &SchemaDef, name: &str, sql: &str| {
        rows.push([
            ("table_catalog", database.into()),
            ("table_schema", schema.name.as_str().into()),
            ("table_name", name.into()),
            ("view_definition", sql.into()),
            ("check_option", "NONE".into()),
            ("is_updatable", "NO".into()),
            ("is_insertable_into", "NO".into()),
            ("is_trigger_updatable", "NO".into()),
            ("is_trigger_deletable", "NO".into()),
            ("is_trigger_insertable_into", "NO".into()),
        ]);
    };
    for (database, snapshot) in visible(context) {
        let catalog = snapshot.catalog();
        for schema in catalog.schemas() {
            for view in catalog.views(schema.id) {
                push(database, schema, &view.name, &view.sql);
            }
            for table in catalog.tables(schema.id) {
                if let Some(view) = catalog.materialized(table.id) {
                    push(database, schema, &table.name, &view.sql);
                }
            }
        }
    }
}

/// A column of a table or view.
struct ColumnRow<'a> {
    database: &'a str,
    schema: &'a str,
    table: &'a str,
    name: &'a str,
    kind: &'a SqlType,
    place: usize,
    /// The definition, of a column of a table.
    definition: Option<(&'a TableDef, &'a ColumnDef)>,
}

pub(super) fn columns(context: &Arc<StatementContext>, rows: &mut PgRows) {
    for (database, snapshot) in visible(context) {
        let catalog = snapshot.catalog();
        for schema in catalog.schemas() {
            for table in catalog.tables(schema.id).filter(|table| !table.is_sequence()) {
                for (place, column) in table.columns.iter().enumerate() {
                    let column = ColumnRow {
                        database,
                        schema: &schema.name,
                        table: &table.name,
                        name: &column.name,
                        kind: &column.kind,
                        place,
                        definition: Some((table, column)),
                    };
                    push_column(rows, &column);
                }
            }
            for view in catalog.views(schema.id) {
                for (place, (name, kind)) in view_columns(context, database, schema, view).iter().enumerate() {
                    let (schema, table) = (schema.name.as_str(), view.name.as_str());
                    push_column(rows, &ColumnRow { database, schema, table, name, kind, place, definition: None });
                }
            }
        }
    }
}

fn push_column(rows: &mut PgRows, column: &ColumnRow<'_>) {
    let digits = Digits::of(column.kind);
    let number = |number: Option<u32>| PgCell::from(number.map(i64::from));
    let identity = column.definition.and_then(|(table, column)| table.identity(column.id));
    let generated = column.definition.and_then(|(table, column)| table.generated(column.id));
    let definition = column.definition.map(|(_, column)| column);
    let place = column.place as i64 + 1;
    rows.push([
        ("table_catalog", column.database.into()),
        ("table_schema", column.schema.into()),
        ("table_name", column.table.into()),
        ("column_name", column.name.into()),
        ("ordinal_position", place.into()),
        ("column_default", definition.and_then(|column| column.default.clone()).into()),
        ("is_nullable", yes_or_no(definition.is_none_or(|column| column.nullable))),
        ("data_type", column.kind.to_string().into()),
        ("character_maximum_length", number(digits.chars)),
        ("numeric_precision", number(digits.precision)),
        ("numeric_precision_radix", number(digits.radix)),
        ("numeric_scale", number(digits.scale)),
        ("datetime_precision", number(digits.fraction)),
        ("udt_catalog", column.database.into()),
        ("udt_schema", PG_CATALOG.into()),
        ("udt_name", type_name(column.kind).into()),
        ("dtd_identifier", place.to_string().into()),
        ("is_self_referencing", "NO".into()),
        ("is_identity", yes_or_no(identity.is_some())),
        ("identity_generation", identity.map(|one| if one.always { "ALWAYS" } else { "BY DEFAULT" }).into()),
        ("identity_cycle", "NO".into()),
        ("is_generated", if generated.is_some() { "ALWAYS" } else { "NEVER" }.into()),
        ("generation_expression", generated.map(str::to_owned).into()),
        ("is_updatable", yes_or_no(definition.is_some())),
    ]);
}

/// The numbers by which the standard describes a type.
#[derive(Default)]
struct Digits {
    chars: Option<u32>,
    precision: Option<u32>,
    radix: Option<u32>,
    scale: Option<u32>,
    /// Digits after the second.
    fraction: Option<u32>,
}

impl Digits {
    fn of(kind: &SqlType) -> Digits {
        let binary = |bits| Digits { precision: Some(bits), radix: Some(2), scale: Some(0), ..Digits::default() };
        let float = |bits| Digits { precision: Some(bits), radix: Some(2), ..Digits::default() };
        match kind {
            SqlType::Text { chars_max } => Digits { chars: *chars_max, ..Digits::default() },
            SqlType::Int8 | SqlType::UInt8 => binary(8),
            SqlType::Int16 | SqlType::UInt16 => binary(16),
            SqlType::Int32 | SqlType::UInt32 => binary(32),
            SqlType::Int64 | SqlType::UInt64 => binary(64),
            SqlType::Float32 => float(24),
            SqlType::Float64 => float(53),
            SqlType::Decimal { precision, scale } => Digits {
                precision: Some((*precision).into()),
                radix: Some(10),
                scale: Some((*scale).into()),
                ..Digits::default()
            },
            SqlType::Date => Digits { fraction: Some(0), ..Digits::default() },
            SqlType::Time | SqlType::Timestamp { .. } => Digits { fraction: Some(6), ..Digits::default() },
            _ => Digits::default(),
        }
    }
}

pub(super) fn sequences(context: &Arc<StatementContext>, rows: &mut PgRows) {
    let catalog = context.snapshot.catalog();
    for schema in catalog.schemas() {
        for table in catalog.tables(schema.id) {
            let Some(sequence) = table.keyed.as_ref().and_then(|keyed| keyed.sequence.as_ref()) else { continue };
            rows.push([
                ("sequence_catalog", context.databases.current.as_str().into()),
                ("sequence_schema", schema.name.as_str().into()),
                ("sequence_name", table.name.as_str().into()),
                ("data_type", "BIGINT".into()),
                ("numeric_precision", 64_i64.into()),
                ("numeric_precision_radix", 2_i64.into()),
                ("numeric_scale", 0_i64.into()),
                ("start_value", sequence.start.to_string().into()),
                ("minimum_value", sequence.min.to_string().into()),
                ("maximum_value", sequence.max.to_string().into()),
                ("increment", sequence.increment.to_string().into()),
                ("cycle_option", yes_or_no(sequence.cycle)),
            ]);
        }
    }
}
