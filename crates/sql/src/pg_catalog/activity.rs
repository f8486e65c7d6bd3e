//! Tables with the rows that they have, as PostgreSQL's statistics show them.

use std::sync::Arc;

use rowmill_storage::TableSource;

use super::oids::table_oid;
use super::relations::each_table;
use super::rows::PgRows;
use crate::catalog::StatementContext;

/// `pg_stat_user_tables` and `pg_stat_all_tables`. We count rows, but not scans and changes.
pub(super) fn pg_stat_user_tables(context: &Arc<StatementContext>, name: &str) -> PgRows {
    let mut rows = PgRows::of(name);
    each_table(context, |schema, table| {
        if table.is_sequence() {
            return;
        }
        let rows_of = context.snapshot.table(table.id);
        let count = rows_of.as_ref().map_or(0, |table| table.row_count());
        // Deleted rows stay in their blocks until a merge. Keyed tables drop them at once.
        let deleted = rows_of.map_or(0, |table| table.deleted_rows());
        rows.push([
            ("relid", table_oid(table.id).into()),
            ("schemaname", schema.name.as_str().into()),
            ("relname", table.name.as_str().into()),
            ("n_live_tup", i64::try_from(count).unwrap_or(i64::MAX).into()),
            ("n_dead_tup", i64::try_from(deleted).unwrap_or(i64::MAX).into()),
        ]);
    });
    rows
}
