//! `pg_description`: comments on tables and columns, and the functions that give one of them.

use std::sync::Arc;

use rowmill_txn::Catalog;

use super::oids::{PG_CLASS_OID, table_oid};
use super::rows::PgRows;
use crate::catalog::StatementContext;

pub(super) fn pg_description(context: &Arc<StatementContext>) -> PgRows {
    let mut rows = PgRows::of("pg_description");
    let catalog = context.snapshot.catalog();
    for table in catalog.all_tables() {
        let Some(comments) = catalog.comments(table.id) else { continue };
        let mut push = |column: usize, comment: &str| {
            rows.push([
                ("objoid", table_oid(table.id).into()),
                ("classoid", PG_CLASS_OID.into()),
                ("objsubid", (column as i64).into()),
                ("description", comment.into()),
            ]);
        };
        if let Some(comment) = &comments.table {
            push(0, comment);
        }
        for (column, comment) in &comments.columns {
            // A column that was dropped has no place.
            if let Some(place) = table.column_by_id(*column) {
                push(place + 1, comment);
            }
        }
    }
    rows
}

/// The comment on the table with this number, or on its column, counted from 1.
pub(super) fn description(catalog: &Catalog, oid: Option<u32>, column: Option<usize>) -> Option<String> {
    let oid = oid?;
    let table = catalog.all_tables().find(|table| table_oid(table.id) == oid)?;
    let comments = catalog.comments(table.id)?;
    match column {
        None | Some(0) => comments.table.clone(),
        Some(column) => comments.columns.get(&table.columns.get(column - 1)?.id).cloned(),
    }
}
