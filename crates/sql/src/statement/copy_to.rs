//! `COPY ... TO`: writes the rows of a table or query to a file. The file appears only when it is complete.

use rowmill_base::Result;
use rowmill_storage::TableDef;
use sqlparser::ast::{Ident, ObjectName, Query, Statement, TableFactor};

use super::copy::{check_once, option_text};
use super::relation::{self, NamedRelation};
use super::sql_text::{self, quoted};
use super::write::binder::given_columns;
use crate::files::{WriteOptions, writer};
use crate::names::{QualifiedName, qualified};
use crate::outcome::RowStream;
use crate::parse::{CopyOption, CopySource, StatementBody};
use crate::session::{Session, Work};

/// Writes the file. Returns the number of its rows.
pub(super) fn run(work: &mut Work<'_>, source: &CopySource, path: &str, options: &[CopyOption]) -> Result<u64> {
    check_once(options)?;
    let folders = work.folders();
    folders.check_pattern(path)?;
    let mut write = WriteOptions {
        threads: work.engine().threads(),
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
        if columns.is_empty() && !table.rules.generated.is_empty() {
            return sql_text::query(&rows_to_copy(&name, &table), work.settings());
        }
    }
    let columns: Vec<String> = columns.iter().map(|column| quoted(&column.value)).collect();
    let columns = if columns.is_empty() { "*".to_string() } else { columns.join(", ") };
    let sql = format!("SELECT {columns} FROM {}.{}", quoted(&name.schema), quoted(&name.name));
    sql_text::query(&sql, work.settings())
}

impl Session {
    /// Returns the query of the rows that `COPY table TO` writes, where `table` is the name as written.
    pub fn copied_rows(&mut self, table: &str) -> Result<String> {
        let all = format!("SELECT * FROM {table}");
        let statement = self.parse_one(&all)?;
        self.work_on(&statement, &[], |work| {
            let StatementBody::Sql(sql) = work.statement.body() else { return Ok(all) };
            let Statement::Query(query) = &**sql else { return Ok(all) };
            let from = query.body.as_select().and_then(|select| select.from.first());
            let Some(TableFactor::Table { name, .. }) = from.map(|from| &from.relation) else { return Ok(all) };
            let name = qualified(name, work.statement.spellings())?;
            Ok(match relation::find(work.view()?.catalog(), &name) {
                Some(NamedRelation::Table(table)) if !table.rules.generated.is_empty() => rows_to_copy(&name, &table),
                _ => all,
            })
        })
    }
}

/// Returns the query of the columns that a COPY without a list of columns writes. `COPY ... FROM` reads the same ones.
fn rows_to_copy(name: &QualifiedName, table: &TableDef) -> String {
    let columns = given_columns(table).into_iter().map(|place| quoted(&table.columns[place].name));
    let columns = columns.collect::<Vec<_>>().join(", ");
    format!("SELECT {columns} FROM {}.{}", quoted(&name.schema), quoted(&name.name))
}

/// Checks that the columns exist, with the same error as `COPY ... FROM`.
fn check_columns(table: &TableDef, columns: &[Ident]) -> Result<()> {
    columns.iter().try_for_each(|column| relation::column(table, &column.value).map(|_| ()))
}
