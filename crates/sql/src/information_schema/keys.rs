//! Constraints, and the columns that they name.

use std::sync::Arc;

use rowmill_base::ColumnId;
use rowmill_storage::{ReferentialAction, TableDef};
use rowmill_txn::SchemaDef;

use super::yes_or_no;
use crate::catalog::StatementContext;
use crate::pg_catalog::{PgRows, key_columns, table_indexes};

/// A constraint of a table.
struct Constraint<'c> {
    schema: &'c SchemaDef,
    table: &'c TableDef,
    name: String,
    kind: ConstraintKind<'c>,
}

enum ConstraintKind<'c> {
    PrimaryKey(Vec<ColumnId>),
    Unique(Vec<ColumnId>),
    Check(&'c str),
    ForeignKey(ForeignKey<'c>),
}

/// A foreign key, with the table and the constraint that it refers to.
struct ForeignKey<'c> {
    columns: &'c [ColumnId],
    schema: &'c SchemaDef,
    parent: &'c TableDef,
    parent_columns: &'c [ColumnId],
    /// The name of the key that it refers to.
    parent_key: Option<String>,
    actions: [&'static str; 2],
}

fn each(context: &StatementContext, mut each: impl FnMut(&Constraint<'_>)) {
    let catalog = context.snapshot.catalog();
    for schema in catalog.schemas() {
        for table in catalog.tables(schema.id).filter(|table| !table.is_sequence()) {
            let mut push = |name: &str, kind| each(&Constraint { schema, table, name: name.to_owned(), kind });
            for index in table_indexes(table).into_iter().filter(|index| index.is_constraint) {
                let columns = index.parts.iter().map(|part| part.column).collect();
                let kind = if index.is_primary {
                    ConstraintKind::PrimaryKey(columns)
                } else {
                    ConstraintKind::Unique(columns)
                };
                push(&index.name, kind);
            }
            for check in &table.rules.checks {
                push(&check.name, ConstraintKind::Check(&check.sql));
            }
            for key in table.keyed.iter().flat_map(|keyed| &keyed.foreign_keys) {
                let Some(parent) = catalog.table_by_id(key.parent) else { continue };
                let Some(parent_schema) = catalog.schema_by_id(parent.schema) else { continue };
                let fits = |index: &crate::pg_catalog::TableIndex<'_>| {
                    index.is_unique && index.parts.iter().map(|part| &part.column).eq(&key.parent_columns)
                };
                let parent_key = table_indexes(parent).into_iter().find(fits).map(|index| index.name);
                let foreign = ForeignKey {
                    columns: &key.columns,
                    schema: parent_schema,
                    parent,
                    parent_columns: &key.parent_columns,
                    parent_key,
                    actions: [action(key.on_update), action(key.on_delete)],
                };
                push(&key.name, ConstraintKind::ForeignKey(foreign));
            }
        }
    }
}

fn action(action: ReferentialAction) -> &'static str {
    match action {
        ReferentialAction::Restrict => "NO ACTION",
        ReferentialAction::Cascade => "CASCADE",
        ReferentialAction::SetNull => "SET NULL",
    }
}

fn column_name(table: &TableDef, id: ColumnId) -> &str {
    table.column_by_id(id).map_or("", |column| table.columns[column].name.as_str())
}

/// Our own table of indexes, which the standard lacks.
pub(super) fn indexes(context: &Arc<StatementContext>, rows: &mut PgRows) {
    let catalog = context.snapshot.catalog();
    for schema in catalog.schemas() {
        for table in catalog.tables(schema.id) {
            for index in table_indexes(table) {
                rows.push([
                    ("table_catalog", context.databases.current.as_str().into()),
                    ("table_schema", schema.name.as_str().into()),
                    ("table_name", table.name.as_str().into()),
                    ("index_name", index.name.as_str().into()),
                    ("index_columns", key_columns(table, index.parts).into()),
                    ("is_unique", yes_or_no(index.is_unique)),
                    ("is_primary", yes_or_no(index.is_primary)),
                ]);
            }
        }
    }
}

pub(super) fn table_constraints(context: &Arc<StatementContext>, rows: &mut PgRows) {
    each(context, |constraint| {
        let kind = match &constraint.kind {
            ConstraintKind::PrimaryKey(_) => "PRIMARY KEY",
            ConstraintKind::Unique(_) => "UNIQUE",
            ConstraintKind::Check(_) => "CHECK",
            ConstraintKind::ForeignKey(_) => "FOREIGN KEY",
        };
        rows.push([
            ("constraint_catalog", context.databases.current.as_str().into()),
            ("constraint_schema", constraint.schema.name.as_str().into()),
            ("constraint_name", constraint.name.as_str().into()),
            ("table_catalog", context.databases.current.as_str().into()),
            ("table_schema", constraint.schema.name.as_str().into()),
            ("table_name", constraint.table.name.as_str().into()),
            ("constraint_type", kind.into()),
            ("is_deferrable", yes_or_no(false)),
            ("initially_deferred", yes_or_no(false)),
            ("enforced", yes_or_no(true)),
        ]);
    });
}

pub(super) fn key_column_usage(context: &Arc<StatementContext>, rows: &mut PgRows) {
    each(context, |constraint| {
        let (columns, foreign): (&[ColumnId], Option<&ForeignKey<'_>>) = match &constraint.kind {
            ConstraintKind::PrimaryKey(columns) | ConstraintKind::Unique(columns) => (columns, None),
            ConstraintKind::ForeignKey(key) => (key.columns, Some(key)),
            ConstraintKind::Check(_) => return,
        };
        for (place, column) in columns.iter().enumerate() {
            // The place of the column that it refers to, in the unique key of that table.
            let position = foreign.map(|_| place as i64 + 1);
            rows.push([
                ("constraint_catalog", context.databases.current.as_str().into()),
                ("constraint_schema", constraint.schema.name.as_str().into()),
                ("constraint_name", constraint.name.as_str().into()),
                ("table_catalog", context.databases.current.as_str().into()),
                ("table_schema", constraint.schema.name.as_str().into()),
                ("table_name", constraint.table.name.as_str().into()),
                ("column_name", column_name(constraint.table, *column).into()),
                ("ordinal_position", (place as i64 + 1).into()),
                ("position_in_unique_constraint", position.into()),
            ]);
        }
    });
}

pub(super) fn referential_constraints(context: &Arc<StatementContext>, rows: &mut PgRows) {
    each(context, |constraint| {
        let ConstraintKind::ForeignKey(key) = &constraint.kind else { return };
        rows.push([
            ("constraint_catalog", context.databases.current.as_str().into()),
            ("constraint_schema", constraint.schema.name.as_str().into()),
            ("constraint_name", constraint.name.as_str().into()),
            ("unique_constraint_catalog", context.databases.current.as_str().into()),
            ("unique_constraint_schema", key.schema.name.as_str().into()),
            ("unique_constraint_name", key.parent_key.clone().into()),
            ("match_option", "NONE".into()),
            ("update_rule", key.actions[0].into()),
            ("delete_rule", key.actions[1].into()),
        ]);
    });
}

/// Lists the columns that a constraint depends on: those of a key itself, and those that a foreign key refers to.
pub(super) fn constraint_column_usage(context: &Arc<StatementContext>, rows: &mut PgRows) {
    each(context, |constraint| {
        let (schema, table, columns): (_, _, &[ColumnId]) = match &constraint.kind {
            ConstraintKind::PrimaryKey(columns) | ConstraintKind::Unique(columns) => {
                (constraint.schema, constraint.table, columns)
            }
            ConstraintKind::ForeignKey(key) => (key.schema, key.parent, key.parent_columns),
            ConstraintKind::Check(_) => return,
        };
        for column in columns {
            rows.push([
                ("table_catalog", context.databases.current.as_str().into()),
                ("table_schema", schema.name.as_str().into()),
                ("table_name", table.name.as_str().into()),
                ("column_name", column_name(table, *column).into()),
                ("constraint_catalog", context.databases.current.as_str().into()),
                ("constraint_schema", constraint.schema.name.as_str().into()),
                ("constraint_name", constraint.name.as_str().into()),
            ]);
        }
    });
}

pub(super) fn check_constraints(context: &Arc<StatementContext>, rows: &mut PgRows) {
    each(context, |constraint| {
        let ConstraintKind::Check(sql) = &constraint.kind else { return };
        rows.push([
            ("constraint_catalog", context.databases.current.as_str().into()),
            ("constraint_schema", constraint.schema.name.as_str().into()),
            ("constraint_name", constraint.name.as_str().into()),
            ("check_clause", (*sql).into()),
        ]);
    });
}
