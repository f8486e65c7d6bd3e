//! Definitions of objects as SQL, as PostgreSQL's `pg_get_..def` functions give them.

use rowmill_base::ColumnId;
use rowmill_storage::{ForeignKeyDef, KeyColumn, ReferentialAction, TableDef};
use rowmill_txn::{Catalog, SchemaDef};

use super::keywords::pg_name;
use super::oids::{
    TableIndex, check_oid, foreign_key_oid, index_oid, indexes, primary_key_oid, table_oid, unique_oid, view_oid,
};
use crate::names::DEFAULT_SCHEMA;

/// The columns of a key, separated by commas.
pub(crate) fn key_columns(table: &TableDef, parts: &[KeyColumn]) -> String {
    let part = |part: &KeyColumn| {
        let column = table.column_by_id(part.column).map_or("?", |column| table.columns[column].name.as_str());
        format!("{}{}", pg_name(column), if part.descending { " DESC" } else { "" })
    };
    parts.iter().map(part).collect::<Vec<_>>().join(", ")
}

/// The statement that would make an index.
pub(super) fn index_definition(schema: &SchemaDef, table: &TableDef, index: &TableIndex<'_>) -> String {
    format!(
        "CREATE {}INDEX {} ON {}.{} USING btree ({})",
        if index.is_unique { "UNIQUE " } else { "" },
        pg_name(&index.name),
        pg_name(&schema.name),
        pg_name(&table.name),
        key_columns(table, index.parts),
    )
}

/// The statement that would make the index with this number, or one of its columns, counted from 1.
pub(super) fn index_by_oid(catalog: &Catalog, oid: u32, column: i64) -> Option<String> {
    for schema in catalog.schemas() {
        for table in catalog.tables(schema.id) {
            let Some(index) = indexes(table).into_iter().find(|index| index_oid(index.id) == oid) else { continue };
            if column == 0 {
                return Some(index_definition(schema, table, &index));
            }
            let part = usize::try_from(column - 1).ok().and_then(|place| index.parts.get(place))?;
            return Some(key_columns(table, &[KeyColumn { descending: false, ..*part }]));
        }
    }
    None
}

/// The clause that would make the constraint with this number.
pub(super) fn constraint_by_oid(catalog: &Catalog, oid: u32) -> Option<String> {
    catalog.all_tables().find_map(|table| {
        let checks = table.rules.checks.iter().enumerate();
        if let Some((_, check)) = { checks }.find(|(place, _)| check_oid(table.id, *place) == oid) {
            return Some(format!("CHECK ({})", check.sql));
        }
        let keyed = table.keyed.as_ref()?;
        if primary_key_oid(table.id) == oid {
            return Some(format!("PRIMARY KEY ({})", key_columns(table, &keyed.key)));
        }
        let unique = keyed.indexes.iter().find(|index| index.is_constraint && unique_oid(index.id) == oid);
        if let Some(index) = unique {
            return Some(format!("UNIQUE ({})", key_columns(table, &index.parts)));
        }
        let mut keys = keyed.foreign_keys.iter().enumerate();
        let (_, key) = keys.find(|(place, _)| foreign_key_oid(table.id, *place) == oid)?;
        Some(foreign_key(catalog, table, key))
    })
}

/// The clause of a foreign key, in PostgreSQL's form, which tools take apart.
fn foreign_key(catalog: &Catalog, table: &TableDef, key: &ForeignKeyDef) -> String {
    let parent = catalog.table_by_id(key.parent).map(|def| &**def);
    let list = |table: Option<&TableDef>, columns: &[ColumnId]| {
        let name = |id: &ColumnId| {
            let column = table.and_then(|table| Some(&table.columns[table.column_by_id(*id)?]));
            column.map_or_else(|| "?".to_owned(), |column| pg_name(&column.name))
        };
        columns.iter().map(name).collect::<Vec<_>>().join(", ")
    };
    let schema = parent.and_then(|def| catalog.schema_by_id(def.schema)).filter(|schema| schema.name != DEFAULT_SCHEMA);
    let qualifier = schema.map_or_else(String::new, |schema| format!("{}.", pg_name(&schema.name)));
    let action = |event: &str, action: ReferentialAction| match action {
        ReferentialAction::Restrict => String::new(),
        ReferentialAction::Cascade => format!(" ON {event} CASCADE"),
        ReferentialAction::SetNull => format!(" ON {event} SET NULL"),
    };
    format!(
        "FOREIGN KEY ({}) REFERENCES {qualifier}{}({}){}{}",
        list(Some(table), &key.columns),
        parent.map_or_else(|| "?".to_owned(), |def| pg_name(&def.name)),
        list(parent, &key.parent_columns),
        action("UPDATE", key.on_update),
        action("DELETE", key.on_delete),
    )
}

/// The query of the view, plain or materialized, with this number.
pub(super) fn view_by_oid(catalog: &Catalog, oid: u32) -> Option<String> {
    let plain = catalog.schemas().flat_map(|schema| catalog.views(schema.id)).find(|view| view_oid(view) == oid);
    let plain = plain.map(|view| view.sql.clone());
    plain.or_else(|| {
        let mut tables = catalog.all_tables();
        let table = tables.find(|table| table_oid(table.id) == oid)?;
        catalog.materialized(table.id).map(|view| view.sql.clone())
    })
}
