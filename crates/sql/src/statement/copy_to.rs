//! `COPY ... TO`: writes the rows of a table or query to a file. The file appears only when it is complete.

use rowmill_base::Result;
use rowmill_storage::TableDef;
use sqlparser::ast::{Ident, ObjectName, Query};

use super::copy::{check_once, option_text};
use super::relation::{self, NamedRelation};
use super::sql_text::{self, quoted};
use crate::files::{WriteOptions, writer};
use crate::names::qualified;
use crate::outcome::RowStream;
use crate::parse::{CopyOption, CopySource};
use crate::session::Work;

/// Writes the file. Returns the number of its rows.
pub(super) fn run(work: &mut Work<'_>, source: &CopySource, path: &str, options: &[CopyOption]) -> Result<u64> {
    check_once(options)?;
    let folders = work.folders();
    folders.check_pattern(path)?;
    let mut write = WriteOptions {
        memory: Some(work.engine().broker().clone()),
        cancel: work.cancel.clone(),
        folders,
        secrets: work.session.secrets().clone(),
        ..WriteOptions::default()
    };
    for option in options {
        let (name, value) = option_text(option)?;
        write.set(name, value)?;
    }
    let view = work.view()?;
    let rows = match source {
        CopySource::Query(query) => work.rows(view, query)?,
        CopySource::Table { name, columns } => {
            let query = query_of(work, name, columns)?;
            work.rows(view, &query)?
        }
    };
    // The query is planned by now, so a wrong query leaves no file.
    write_rows(work, path, rows, &write)
}

/// Writes rows to a file. Returns their number.
pub(super) fn write_rows(work: &Work<'_>, path: &str, rows: RowStream, options: &WriteOptions) -> Result<u64> {
    let mut file = writer(path, &rows.schema(), options)?;
    for batch in rows {
        work.cancel.check()?;
        file.write(&batch?)?;
    }
    // `finish` gives the file its final name, so a failed statement leaves no partial file.
    Ok(file.finish()?.rows)
}

/// Makes the query `SELECT columns FROM name`.
fn query_of(work: &mut Work<'_>, name: &ObjectName, columns: &[Ident]) -> Result<Query> {
    let name = qualified(name, work.statement.spellings())?;
    let view = work.view()?;
    if let NamedRelation::Table(table) | NamedRelation::Materialized(table) = relation::relation(view.catalog(), &name)?
    {
        check_columns(&table, columns)?;
    }
    let columns: Vec<String> = columns.iter().map(|column| quoted(&column.value)).collect();
    let columns = if columns.is_empty() { "*".to_string() } else { columns.join(", ") };
    let sql = format!("SELECT {columns} FROM {}.{}", quoted(&name.schema), quoted(&name.name));
    sql_text::query(&sql, work.settings())
}

/// Checks that the columns exist, with the same error as `COPY ... FROM`.
fn check_columns(table: &TableDef, columns: &[Ident]) -> Result<()> {
    columns.iter().try_for_each(|column| relation::column(table, &column.value).map(|_| ()))
}
