//! `INSERT`.
//!
//! A query is planned, and its batches are written as they come. It reads the table as it was before the statement. A
//! `VALUES` list reaches the planner only if a value must be computed: we read its literals and parameters column by
//! column, as the column's type. A prepared `INSERT ... VALUES ($1, $2)` takes the same path.

use std::sync::Arc;

use rowmill_base::{Error, ErrorKind, Result};
use rowmill_storage::{ColumnDef, TableDef};
use rowmill_txn::Transaction;
use sqlparser::ast::{Ident, Insert, ObjectName, Query, SetExpr, TableObject, Values};

use super::cell::LiteralCell;
use super::clause::{refuse, unsupported};
use super::conflict_rows;
use super::relation;
use super::returning::Returning;
use super::row_sink::{self, RowSink, targets};
use super::value_rows;
use crate::names::{QualifiedName, identifiers, qualified};
use crate::outcome::{Outcome, RowStream};
use crate::session::Work;

const STATEMENT: &str = "INSERT";

/// The parts of the syntax tree that we execute. All others were refused.
pub(super) struct InsertDefinition<'a> {
    pub(super) table: QualifiedName,
    pub(super) columns: Vec<&'a Ident>,
    pub(super) source: InsertSource<'a>,
    /// Whether it has an ON CONFLICT clause.
    has_conflict: bool,
    returning: Option<Returning<'a>>,
}

pub(super) enum InsertSource<'a> {
    Values(&'a Values),
    Query(&'a Query),
    /// `DEFAULT VALUES`
    Defaults,
}

pub(crate) fn run(work: &mut Work<'_>, insert: &Insert) -> Result<Outcome> {
    let definition = definition(work, insert)?;
    work.write(|work, transaction| {
        let view = transaction.view()?;
        let table = relation::table(view.catalog(), &definition.table)?;
        let targets = match definition.columns.as_slice() {
            [] => (0..table.columns.len()).collect(),
            names => targets(&table, names.iter().map(|name| work.statement.spell(name)))?,
        };
        // Only a program can handle conflicts row by row.
        if definition.has_conflict {
            let InsertSource::Query(query) = definition.source else { return Err(conflict_rows::too_much()) };
            return conflict_rows::insert(work, transaction, &table, &targets, query, insert);
        }
        let mut sink = match definition.source {
            InsertSource::Defaults => RowSink::for_targets(work, &table, &[])?,
            _ => RowSink::for_targets(work, &table, &targets)?,
        };
        if definition.returning.is_some() {
            sink.keep_written();
        }
        match definition.source {
            InsertSource::Defaults => sink.write_columns(work, transaction, &[], 1)?,
            InsertSource::Values(values) => {
                for row in &values.rows {
                    check_width(&table, &targets, row.content.len())?;
                }
                // DEFAULT is allowed for a generated column, but only if every row says so.
                check_generated(&table, &targets, |place, column| {
                    values
                        .rows
                        .iter()
                        .all(|row| matches!(LiteralCell::of(&row.content[place], &column.kind), LiteralCell::Default))
                })?;
                value_rows::insert(work, transaction, &mut sink, &table, &targets, values)?;
            }
            InsertSource::Query(query) => {
                let rows = query_rows(work, transaction, &table, &targets, query)?;
                sink.write_all(work, transaction, rows)?;
            }
        }
        match definition.returning {
            None => Ok(Outcome::Changed { tag: STATEMENT, rows: sink.rows() }),
            Some(returning) => {
                let alias = Ident::with_quote('"', &definition.table.name);
                returning.outcome(work, transaction, &table, alias, &sink.take_written())
            }
        }
    })
}

/// Runs the query of an INSERT. Its rows go to the columns `targets`.
pub(super) fn query_rows(
    work: &Work<'_>,
    transaction: &mut Transaction,
    table: &Arc<TableDef>,
    targets: &[usize],
    query: &Query,
) -> Result<RowStream> {
    // A query gives every target a value, so none of them may be generated.
    check_generated(table, targets, |_, _| false)?;
    let rows = work.rows(transaction.view()?, query)?;
    check_width(table, targets, rows.schema().fields().len())?;
    Ok(rows)
}

/// Refuses values for a column that only its sequence may fill.
pub(super) fn check_generated(
    table: &TableDef,
    targets: &[usize],
    is_default: impl Fn(usize, &ColumnDef) -> bool,
) -> Result<()> {
    for (place, target) in targets.iter().enumerate() {
        let column = &table.columns[*target];
        if row_sink::is_generated(table, column) && !is_default(place, column) {
            return Err(row_sink::generated(table, column));
        }
    }
    Ok(())
}

/// Refuses a row whose number of values is not the number of columns.
pub(super) fn check_width(table: &TableDef, targets: &[usize], found: usize) -> Result<()> {
    if found == targets.len() {
        return Ok(());
    }
    let error = Error::new(
        ErrorKind::CardinalityViolation,
        format!("INSERT INTO \"{}\" has {} columns, but {found} values", table.name, targets.len()),
    );
    let names: Vec<&str> = targets.iter().map(|target| table.columns[*target].name.as_str()).collect();
    Err(if names.len() <= 20 { error.hint(format!("the columns are {}", names.join(", "))) } else { error })
}

/// Destructures the syntax tree and refuses the clauses that we do not execute.
pub(super) fn definition<'a>(work: &Work<'_>, insert: &'a Insert) -> Result<InsertDefinition<'a>> {
    let Insert {
        insert_token: _,
        optimizer_hints,
        or,
        ignore,
        // Both words are optional and mean nothing.
        into: _,
        has_table_keyword: _,
        table,
        table_alias,
        columns,
        overwrite,
        source,
        assignments,
        partitioned,
        after_columns,
        on,
        returning,
        output,
        replace_into,
        priority,
        insert_alias,
        settings,
        format_clause,
        multi_table_insert_type,
        multi_table_into_clauses,
        multi_table_when_clauses,
        multi_table_else_clause,
    } = insert;
    let multi_table = multi_table_insert_type.is_some()
        || !multi_table_into_clauses.is_empty()
        || !multi_table_when_clauses.is_empty()
        || multi_table_else_clause.is_some();
    let clauses = [
        (!optimizer_hints.is_empty(), "an optimizer hint"),
        (or.is_some(), "OR"),
        (*ignore, "IGNORE"),
        (table_alias.is_some(), "an alias of the table"),
        (*overwrite, "OVERWRITE"),
        (!assignments.is_empty(), "SET"),
        (partitioned.is_some() || !after_columns.is_empty(), "PARTITION"),
        (output.is_some(), "OUTPUT"),
        (*replace_into, "REPLACE"),
        (priority.is_some(), "a priority"),
        (insert_alias.is_some(), "an alias of the row"),
        (settings.is_some(), "SETTINGS"),
        (format_clause.is_some(), "FORMAT"),
        (multi_table, "several tables"),
    ];
    refuse(STATEMENT, clauses)?;
    let TableObject::TableName(name) = table else {
        return Err(unsupported(STATEMENT, "a target that is not a table"));
    };
    Ok(InsertDefinition {
        table: qualified(name, work.statement.spellings())?,
        columns: columns.iter().map(column_name).collect::<Result<_>>()?,
        has_conflict: on.is_some(),
        returning: returning.as_deref().map(Returning),
        source: match source.as_deref() {
            None => InsertSource::Defaults,
            Some(query) => plain_values(query).map_or(InsertSource::Query(query), InsertSource::Values),
        },
    })
}

fn column_name(name: &ObjectName) -> Result<&Ident> {
    match identifiers(name)?.as_slice() {
        [only] => Ok(only),
        _ => Err(unsupported(STATEMENT, &format!("\"{name}\" as a target, a part of a column,"))),
    }
}

/// Whether the rows are those of a `VALUES` list, or defaults.
pub(crate) fn is_of_values(insert: &Insert) -> bool {
    insert.source.as_deref().is_none_or(|query| plain_values(query).is_some())
}

/// Returns the `VALUES` list of a query that has no other part.
fn plain_values(query: &Query) -> Option<&Values> {
    let Query {
        with: None,
        body,
        order_by: None,
        limit_clause: None,
        fetch: None,
        locks,
        for_clause: None,
        settings: None,
        format_clause: None,
        pipe_operators,
    } = query
    else {
        return None;
    };
    match &**body {
        SetExpr::Values(values) if locks.is_empty() && pipe_operators.is_empty() => Some(values),
        _ => None,
    }
}
