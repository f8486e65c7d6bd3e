//! `pg_description`: comments, and the functions that give one of them.

use std::sync::Arc;

use rowmill_txn::Catalog;

use super::oids::{PG_CLASS_OID, PG_PROC_OID, PG_TYPE_OID, macro_oid, table_oid, type_oid, view_oid};
use super::rows::PgRows;
use crate::catalog::StatementContext;

pub(super) fn pg_description(context: &Arc<StatementContext>) -> PgRows {
    let mut rows = PgRows::of("pg_description");
    let mut push = |object: u32, class: u32, column: usize, comment: &str| {
        rows.push([
            ("objoid", object.into()),
            ("classoid", class.into()),
            ("objsubid", (column as i64).into()),
            ("description", comment.into()),
        ]);
    };
    let catalog = context.snapshot.catalog();
    for table in catalog.all_tables() {
        let Some(comments) = catalog.comments(table.id) else { continue };
        if let Some(comment) = &comments.table {
            push(table_oid(table.id), PG_CLASS_OID, 0, comment);
        }
        for (column, comment) in &comments.columns {
            // A column that was dropped has no place.
            if let Some(place) = table.column_by_id(*column) {
                push(table_oid(table.id), PG_CLASS_OID, place + 1, comment);
            }
        }
    }
    for (object, class, comment) in comments_of_others(catalog) {
        push(object, class, 0, comment);
    }
    rows
}

/// The comments on views, types and macros: the number of the object, that of the table that lists it, and the comment.
fn comments_of_others(catalog: &Catalog) -> impl Iterator<Item = (u32, u32, &str)> {
    let views = catalog.schemas().flat_map(|schema| catalog.views(schema.id));
    let views = views.map(|view| (view_oid(view), PG_CLASS_OID, &view.comment));
    let types = catalog.types().map(|def| (type_oid(def.id), PG_TYPE_OID, &def.comment));
    let macros = catalog.macros().map(|def| (macro_oid(def.id), PG_PROC_OID, &def.comment));
    let all = views.chain(types).chain(macros);
    all.filter_map(|(object, class, comment)| Some((object, class, comment.as_deref()?)))
}

/// The comment on the object with this number, or on a column of it, counted from 1.
pub(super) fn description(catalog: &Catalog, oid: Option<u32>, column: Option<usize>) -> Option<String> {
    let oid = oid?;
    let Some(table) = catalog.all_tables().find(|table| table_oid(table.id) == oid) else {
        let mut others = comments_of_others(catalog).filter(|_| matches!(column, None | Some(0)));
        return others.find(|(object, ..)| *object == oid).map(|(.., comment)| comment.to_owned());
    };
    let comments = catalog.comments(table.id)?;
    match column {
        None | Some(0) => comments.table.clone(),
        Some(column) => comments.columns.get(&table.columns.get(column - 1)?.id).cloned(),
    }
}
