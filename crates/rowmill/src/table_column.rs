//! The columns of tables that rows can be appended to.

use rowmill_base::SqlType;
use rowmill_storage::TableDef;

/// A column of a table, as [`Connection::columns`](crate::Connection::columns) describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TableColumn {
    /// The name as the user wrote it. Lookups ignore case.
    pub name: String,
    /// The type of its values.
    pub kind: SqlType,
    /// Whether NULL is allowed.
    pub is_nullable: bool,
    /// Whether it is the time column of the table.
    pub is_time: bool,
}

impl TableColumn {
    pub(crate) fn of(table: &TableDef) -> Vec<TableColumn> {
        let time = table.time.as_ref().map(|time| time.column);
        let columns = table.columns.iter().map(|column| TableColumn {
            name: column.name.clone(),
            kind: column.kind.clone(),
            is_nullable: column.nullable,
            is_time: time == Some(column.id),
        });
        columns.collect()
    }
}
