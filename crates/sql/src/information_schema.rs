//! `information_schema`: the contents of the database as tables.
//!
//! The tables and their columns are those of PostgreSQL, so that tools find them, and two additions: the column
//! `table_rows` of `tables`, and the table `settings`. Names are shown as spelled and types as in SQL. Each table is
//! computed from the statement's snapshot when a query reads it. Tables about things that we do not have are empty.
//!
//! - `relations`: schemas, tables, views, columns, sequences. `keys`: constraints and their columns.

mod keys;
mod relations;

use std::sync::Arc;

use arrow::array::RecordBatch;
use rowmill_base::{Result, SETTINGS, SettingScope};

use crate::catalog::StatementContext;
use crate::pg_catalog::{PgCell, PgRows, information_schema_shapes};

pub(crate) const INFORMATION_SCHEMA: &str = "information_schema";

/// Returns the table `name` of `information_schema` as rows, or `None` if no such table exists.
pub(crate) fn rows(context: &Arc<StatementContext>, name: &str) -> Result<Option<RecordBatch>> {
    let Some(columns) = information_schema_shapes().get(name) else { return Ok(None) };
    let mut rows = PgRows::new(columns);
    match name {
        "information_schema_catalog_name" => rows.push([("catalog_name", context.databases.current.as_str().into())]),
        "character_sets" => rows.push([
            ("character_set_name", "UTF8".into()),
            ("character_repertoire", "UCS".into()),
            ("form_of_use", "UTF8".into()),
            ("default_collate_catalog", context.databases.current.as_str().into()),
            ("default_collate_schema", "pg_catalog".into()),
            ("default_collate_name", "C".into()),
        ]),
        "schemata" => relations::schemata(context, &mut rows),
        "tables" => relations::tables(context, &mut rows),
        "views" => relations::views(context, &mut rows),
        "columns" => relations::columns(context, &mut rows),
        "sequences" => relations::sequences(context, &mut rows),
        "table_constraints" => keys::table_constraints(context, &mut rows),
        "key_column_usage" => keys::key_column_usage(context, &mut rows),
        "referential_constraints" => keys::referential_constraints(context, &mut rows),
        "constraint_column_usage" => keys::constraint_column_usage(context, &mut rows),
        "check_constraints" => keys::check_constraints(context, &mut rows),
        "indexes" => keys::indexes(context, &mut rows),
        "settings" => settings(context, &mut rows),
        _ => {}
    }
    rows.into_batch().map(Some)
}

/// `YES` or `NO`, as the standard writes truth values.
fn yes_or_no(truth: bool) -> PgCell {
    if truth { "YES" } else { "NO" }.into()
}

fn settings(context: &Arc<StatementContext>, rows: &mut PgRows) {
    for setting in SETTINGS {
        let scope = match setting.scope {
            SettingScope::Database => "database",
            SettingScope::Connection => "connection",
        };
        rows.push([
            ("name", setting.name.into()),
            ("value", context.settings.show(setting.name).ok().into()),
            ("scope", scope.into()),
            ("description", setting.doc.into()),
        ]);
    }
}
