//! The clauses of a time table, from the syntax to the catalog's definition and back.

use rowmill_base::{ColumnId, Error, ErrorKind, Result, SqlType};
use rowmill_storage::{CalendarUnit, TableDef, TimeTableDef};
use rowmill_txn::{ColumnSpec, Transaction};
use sqlparser::ast::Ident;

use super::create_table::STATEMENT;
use super::relation;
use super::sql_text::name_text;
use crate::parse::TimeClauses;
use crate::session::Work;

/// Makes the time column of a new table NOT NULL. Must be called before the table is created, because rows of a query
/// are checked against these columns.
pub(super) fn forbid_null(work: &Work<'_>, columns: &mut [ColumnSpec]) {
    let Some(clauses) = work.statement.time_clauses() else { return };
    // An unknown column is reported once the table exists, with the names that are near.
    for column in columns.iter_mut().filter(|column| column.name.to_lowercase() == clauses.column.value) {
        column.nullable = false;
    }
}

/// Gives a new table the clauses of the statement, if it has any.
pub(super) fn apply(work: &Work<'_>, transaction: &mut Transaction, table: &TableDef) -> Result<()> {
    let Some(clauses) = work.statement.time_clauses() else { return Ok(()) };
    let TimeClauses { column, partition, time_to_live, dedup_keys } = clauses;
    if table.keyed.is_some() {
        let what = format!("{STATEMENT}: TIMESTAMP({column}) is for tables without a primary key");
        return Err(Error::new(ErrorKind::InvalidDefinition, what).hint("leave out PRIMARY KEY, or TIMESTAMP"));
    }
    let column = &table.columns[relation::column(table, work.statement.spell(column))?];
    if *partition == Some(CalendarUnit::Hour) && column.kind == SqlType::Date {
        let what = format!("{STATEMENT}: PARTITION BY HOUR, but column \"{}\" is a DATE", column.name);
        return Err(Error::new(ErrorKind::InvalidDefinition, what).hint("a DATE has no hours; PARTITION BY DAY"));
    }
    let time = TimeTableDef { partition: *partition, time_to_live: *time_to_live, ..TimeTableDef::new(column.id) };
    let dedup_keys = dedup_key_ids(work, table, &time, dedup_keys)?;
    transaction.set_time_table(table.id, TimeTableDef { dedup_keys, ..time })
}

/// Returns the ids of the columns of `DEDUP UPSERT KEYS`, which must be different ones and contain the time column.
pub(super) fn dedup_key_ids(
    work: &Work<'_>,
    table: &TableDef,
    time: &TimeTableDef,
    keys: &[Ident],
) -> Result<Vec<ColumnId>> {
    let invalid = |what: String| Error::new(ErrorKind::InvalidDefinition, format!("DEDUP UPSERT KEYS: {what}"));
    let mut ids = Vec::with_capacity(keys.len());
    for key in keys {
        let column = &table.columns[relation::column(table, work.statement.spell(key))?];
        if ids.contains(&column.id) {
            return Err(invalid(format!("column \"{}\" is named twice", column.name)));
        }
        if !column.kind.is_ordered() {
            let what = format!("column \"{}\" has the type {}, whose values cannot be keys", column.name, column.kind);
            return Err(invalid(what));
        }
        ids.push(column.id);
    }
    if !ids.is_empty() && !ids.contains(&time.column) {
        let column = table.column_by_id(time.column).map_or("", |column| &table.columns[column].name);
        return Err(invalid(format!("the time column \"{column}\" is missing"))
            .hint("existing rows are found by their time, so it must be among the keys"));
    }
    Ok(ids)
}

/// Returns the clauses of a table as `SHOW CREATE TABLE` shows them, with a space before each.
pub(super) fn text_of(table: &TableDef) -> String {
    let Some(time) = &table.time else { return String::new() };
    let name = |id: &ColumnId| {
        let column = table.column_by_id(*id).map(|column| &table.columns[column]);
        column.map_or_else(|| "?".to_owned(), |column| name_text(&column.name))
    };
    let TimeTableDef { column, partition, time_to_live, dedup_keys } = &**time;
    let partition = partition.map_or_else(String::new, |unit| format!(" PARTITION BY {}", unit.word()));
    let life = time_to_live.map_or_else(String::new, |life| format!(" TTL {life}"));
    let keys: Vec<String> = dedup_keys.iter().map(name).collect();
    let dedup = match keys.is_empty() {
        true => String::new(),
        false => format!(" DEDUP UPSERT KEYS ({})", keys.join(", ")),
    };
    format!(" TIMESTAMP ({}){partition}{life}{dedup}", name(column))
}
