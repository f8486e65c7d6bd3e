//! `DESCRIBE` of a table, a view or a query: shows its columns.

use rowmill_base::{Error, Result, SqlType};
use rowmill_storage::TableDef;
use sqlparser::ast::{ObjectName, Statement};

use super::clause::{refuse, unsupported};
use super::relation::{self, NamedRelation};
use super::sql_text::{self, quoted};
use super::text_rows::TextRows;
use crate::names::qualified;
use crate::outcome::{Outcome, RowStream};
use crate::session::Work;

/// Runs `DESCRIBE name` and `DESCRIBE query`.
pub(crate) fn run(work: &mut Work<'_>, statement: &Statement) -> Result<Outcome> {
    match statement {
        Statement::ExplainTable { describe_alias: _, hive_format, has_table_keyword: _, table_name } => {
            refuse("DESCRIBE", [(hive_format.is_some(), "EXTENDED or FORMATTED")])?;
            relation(work, table_name)
        }
        Statement::Explain {
            describe_alias: _,
            analyze,
            verbose,
            query_plan,
            estimate,
            statement,
            format,
            options,
        } => {
            let clauses = [
                (*analyze, "ANALYZE"),
                (*verbose, "VERBOSE"),
                (*query_plan, "QUERY PLAN"),
                (*estimate, "ESTIMATE"),
                (format.is_some(), "FORMAT"),
                (options.is_some(), "a list of options"),
            ];
            refuse("DESCRIBE", clauses)?;
            let Statement::Query(query) = &**statement else {
                return Err(unsupported("DESCRIBE", "anything but a table, a view or a query"));
            };
            let view = work.view()?;
            columns_of(&work.rows(view, query)?)
        }
        other => Err(Error::internal(format!("the dispatch hands DESCRIBE over, not {other}"))),
    }
}

/// Shows the columns of the table or view with the name `name`.
pub(super) fn relation(work: &mut Work<'_>, name: &ObjectName) -> Result<Outcome> {
    let name = qualified(name, work.statement.spellings())?;
    let view = work.view()?;
    match relation::find(view.catalog(), &name) {
        Some(NamedRelation::Table(table) | NamedRelation::Materialized(table)) => columns_of_table(&table),
        None if name.schema != crate::information_schema::INFORMATION_SCHEMA => {
            relation::relation(view.catalog(), &name).and_then(|_| Err(Error::internal("the relation was not found")))
        }
        _ => {
            let sql = format!("SELECT * FROM {}.{}", quoted(&name.schema), quoted(&name.name));
            columns_of(&work.rows(view, &sql_text::query(&sql, work.settings())?)?)
        }
    }
}

fn columns_of_table(table: &TableDef) -> Result<Outcome> {
    let mut rows = description();
    for column in &table.columns {
        let generated = table.generated(column.id).map(|sql| format!("generated always as ({sql}) stored"));
        rows.push(line(&column.name, &column.kind, column.nullable, generated.or_else(|| column.default.clone())));
    }
    rows.outcome()
}

fn columns_of(result: &RowStream) -> Result<Outcome> {
    let mut rows = description();
    for field in result.schema().fields() {
        match SqlType::from_arrow(field.data_type()) {
            Some(kind) => rows.push(line(field.name(), &kind, field.is_nullable(), None)),
            None => rows.push([
                Some(field.name().clone()),
                Some(field.data_type().to_string()),
                Some(yes_no(field.is_nullable())),
                None,
            ]),
        }
    }
    rows.outcome()
}

fn description() -> TextRows<4> {
    TextRows::new(["column_name", "column_type", "null", "default"])
}

fn line(name: &str, kind: &SqlType, nullable: bool, default: Option<String>) -> [Option<String>; 4] {
    [Some(name.to_string()), Some(kind.to_string()), Some(yes_no(nullable)), default]
}

fn yes_no(nullable: bool) -> String {
    if nullable { "YES" } else { "NO" }.to_string()
}
