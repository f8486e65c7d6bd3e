//! `ANALYZE`: collects statistics about the values of keyed tables for later plans.

use rowmill_base::{ColumnId, Result, TableId};
use rowmill_storage::TableDef;
use rowmill_txn::Catalog;
use sqlparser::ast::{Analyze, Ident};

use super::clause::refuse;
use super::relation;
use crate::names::{QualifiedName, qualified};
use crate::outcome::Outcome;
use crate::session::Work;

const STATEMENT: &str = "ANALYZE";

/// Runs `ANALYZE`, `ANALYZE [TABLE] t` and `ANALYZE t (a, b)`. Columnar tables need no statistics, because their zone
/// maps and value lists are always current.
pub(crate) fn run(work: &mut Work<'_>, analyze: &Analyze) -> Result<Outcome> {
    let Analyze {
        table_name,
        partitions,
        for_columns,
        columns,
        cache_metadata,
        noscan,
        compute_statistics,
        has_table_keyword,
    } = analyze;
    let clauses = [
        (partitions.is_some(), "PARTITION"),
        (*for_columns, "FOR COLUMNS"),
        (*cache_metadata, "CACHE METADATA"),
        (*noscan, "NOSCAN"),
        (*compute_statistics, "COMPUTE STATISTICS"),
        (*has_table_keyword && table_name.is_none(), "TABLE without a name"),
    ];
    refuse(STATEMENT, clauses)
        .map_err(|error| error.hint("ANALYZE t reads all columns, ANALYZE t (a, b) only some"))?;
    match table_name {
        Some(name) => table(work, &qualified(name, work.statement.spellings())?, columns)?,
        None => all(work)?,
    }
    Ok(Outcome::Done { tag: STATEMENT })
}

/// Analyzes all keyed tables.
pub(super) fn all(work: &mut Work<'_>) -> Result<()> {
    work.write(|_, transaction| {
        let tables = all_tables(transaction.catalog());
        // No list of columns means all columns.
        tables.into_iter().try_for_each(|table| transaction.analyze(table, &[]))
    })
}

/// Analyzes these columns of a table, or all of them if the list is empty.
pub(super) fn table(work: &mut Work<'_>, name: &QualifiedName, columns: &[Ident]) -> Result<()> {
    work.write(|work, transaction| {
        let table = relation::table(transaction.catalog(), name)?;
        let id_of = |column: usize| table.columns[column].id;
        let columns = columns.iter().map(|column| relation::column(&table, work.statement.spell(column)).map(id_of));
        let columns = columns.collect::<Result<Vec<ColumnId>>>()?;
        transaction.analyze(table.id, &columns)
    })
}

/// Returns the keyed tables, without sequences. Only they have rows to analyze.
fn all_tables(catalog: &Catalog) -> Vec<TableId> {
    let is_looked_through = |table: &TableDef| table.keyed.is_some() && !table.is_sequence();
    catalog.all_tables().filter(|table| is_looked_through(table)).map(|table| table.id).collect()
}
