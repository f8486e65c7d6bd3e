//! `ANALYZE`: collects statistics about the values of keyed tables for later plans.

use rowmill_base::{ColumnId, Result, TableId};
use rowmill_storage::TableDef;
use rowmill_txn::Catalog;
use sqlparser::ast::Analyze;

use super::clause::refuse;
use super::relation;
use crate::names::qualified;
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
    let name = table_name.as_ref().map(|name| qualified(name, work.statement.spellings())).transpose()?;
    work.write(|work, transaction| {
        let Some(name) = &name else {
            let tables = all_tables(transaction.catalog());
            // No list of columns means all columns.
            return tables.into_iter().try_for_each(|table| transaction.analyze(table, &[]));
        };
        let table = relation::table(transaction.catalog(), name)?;
        let id_of = |column: usize| table.columns[column].id;
        let columns = columns.iter().map(|column| relation::column(&table, work.statement.spell(column)).map(id_of));
        let columns = columns.collect::<Result<Vec<ColumnId>>>()?;
        transaction.analyze(table.id, &columns)
    })?;
    Ok(Outcome::Done { tag: STATEMENT })
}

/// Returns the keyed tables, without sequences. Only they have rows to analyze.
fn all_tables(catalog: &Catalog) -> Vec<TableId> {
    let is_looked_through = |table: &TableDef| table.keyed.is_some() && !table.is_sequence();
    catalog.all_tables().filter(|table| is_looked_through(table)).map(|table| table.id).collect()
}
