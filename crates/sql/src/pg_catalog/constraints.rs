//! `pg_constraint`: primary keys, UNIQUE, conditions and foreign keys.

use std::sync::Arc;

use rowmill_base::ColumnId;
use rowmill_storage::{ReferentialAction, TableDef};
use rowmill_txn::{Catalog, SchemaDef};

use super::oids::{check_oid, foreign_key_oid, index_oid, indexes, primary_key_oid, schema_oid, table_oid, unique_oid};
use super::relations::{each_table, index_columns};
use super::rows::{PgCell, PgRows};
use crate::catalog::StatementContext;

/// A constraint.
struct ConstraintRow {
    oid: u32,
    name: String,
    kind: &'static str,
    columns: Vec<i64>,
    index: u32,
    condition: Option<String>,
    parent: Option<ParentColumns>,
}

/// The table that a foreign key refers to.
struct ParentColumns {
    table: u32,
    columns: Vec<i64>,
    on_update: &'static str,
    on_delete: &'static str,
}

pub(super) fn pg_constraint(context: &Arc<StatementContext>) -> PgRows {
    let mut rows = PgRows::of("pg_constraint");
    let catalog = context.snapshot.catalog();
    each_table(context, |schema, table| {
        if table.is_sequence() {
            return;
        }
        for constraint in constraints_of(catalog, table) {
            push(&mut rows, schema, table, constraint);
        }
    });
    rows
}

fn constraints_of(catalog: &Catalog, table: &TableDef) -> Vec<ConstraintRow> {
    let mut constraints = Vec::new();
    for index in indexes(table).into_iter().filter(|index| index.is_constraint) {
        constraints.push(ConstraintRow {
            oid: if index.is_primary { primary_key_oid(table.id) } else { unique_oid(index.id) },
            name: index.name.clone(),
            kind: if index.is_primary { "p" } else { "u" },
            columns: index_columns(table, &index),
            index: index_oid(index.id),
            condition: None,
            parent: None,
        });
    }
    for (place, check) in table.rules.checks.iter().enumerate() {
        constraints.push(ConstraintRow {
            oid: check_oid(table.id, place),
            name: check.name.clone(),
            kind: "c",
            columns: Vec::new(),
            index: 0,
            condition: Some(check.sql.clone()),
            parent: None,
        });
    }
    let foreign = table.keyed.iter().flat_map(|keyed| &keyed.foreign_keys);
    for (place, key) in foreign.enumerate() {
        let parent = catalog.table_by_id(key.parent);
        constraints.push(ConstraintRow {
            oid: foreign_key_oid(table.id, place),
            name: key.name.clone(),
            kind: "f",
            columns: numbers(table, &key.columns),
            index: parent.and_then(|parent| parent.keyed.as_ref()).map_or(0, |keyed| index_oid(keyed.index)),
            condition: None,
            parent: Some(ParentColumns {
                table: table_oid(key.parent),
                columns: parent.map_or_else(Vec::new, |parent| numbers(parent, &key.parent_columns)),
                on_update: action(key.on_update),
                on_delete: action(key.on_delete),
            }),
        });
    }
    constraints
}

/// The numbers of columns, counted from 1.
fn numbers(table: &TableDef, columns: &[ColumnId]) -> Vec<i64> {
    columns.iter().map(|id| table.column_by_id(*id).map_or(0, |column| column as i64 + 1)).collect()
}

/// The letter of an action on the rows that refer to a row.
fn action(action: ReferentialAction) -> &'static str {
    match action {
        ReferentialAction::Restrict => "a",
        ReferentialAction::Cascade => "c",
        ReferentialAction::SetNull => "n",
    }
}

fn push(rows: &mut PgRows, schema: &SchemaDef, table: &TableDef, constraint: ConstraintRow) {
    let parent = constraint.parent;
    let letter = |letter: Option<&'static str>| PgCell::from(letter.unwrap_or(" "));
    rows.push([
        ("oid", constraint.oid.into()),
        ("conname", constraint.name.into()),
        ("connamespace", schema_oid(schema).into()),
        ("contype", constraint.kind.into()),
        ("condeferrable", false.into()),
        ("condeferred", false.into()),
        ("convalidated", true.into()),
        ("conrelid", table_oid(table.id).into()),
        ("contypid", 0_i64.into()),
        ("conindid", constraint.index.into()),
        ("conparentid", 0_i64.into()),
        ("confrelid", parent.as_ref().map_or(0, |parent| parent.table).into()),
        ("confupdtype", letter(parent.as_ref().map(|parent| parent.on_update))),
        ("confdeltype", letter(parent.as_ref().map(|parent| parent.on_delete))),
        ("confmatchtype", letter(parent.as_ref().map(|_| "s"))),
        ("conislocal", true.into()),
        ("coninhcount", 0_i64.into()),
        ("connoinherit", true.into()),
        ("conkey", constraint.columns.into()),
        ("confkey", parent.map(|parent| parent.columns).into()),
        ("conbin", constraint.condition.into()),
    ]);
}
