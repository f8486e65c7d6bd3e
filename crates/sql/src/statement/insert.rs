//! `INSERT`.
//!
//! A query is planned, and its batches are written as they come. It reads the table as it was before the statement. A
//! `VALUES` list reaches the planner only if a value must be computed: we read its literals and parameters column by
//! column, as the column's type. A prepared `INSERT ... VALUES ($1, $2)` takes the same path.

use std::sync::Arc;

use rowmill_base::{Error, ErrorKind, Result};
use rowmill_plan::write::{WriteAction, WriteSource};
use rowmill_query::binder::BoundQuery;
use rowmill_query::binder::target::BoundReturning;
use rowmill_storage::{ColumnDef, TableDef};
use sqlparser::ast::{self, Ident, Insert, ObjectName, Query, SetExpr, TableObject, Values, With};

use super::cell::LiteralCell;
use super::clause::{refuse, unsupported};
use super::row_sink;
use super::write::binder::{self, WriteBinder};
use super::write::{BoundWrite, ValueRows, only_body};
use crate::names::{identifiers, qualified};

const STATEMENT: &str = "INSERT";

/// A row of a `VALUES` list.
type RowSyntax<'s> = &'s [ast::Expr];

impl WriteBinder<'_> {
    /// Binds an `INSERT`. Refuses the clauses that we do not execute.
    pub(super) fn insert<'s>(&self, with: Option<&'s With>, insert: &'s Insert) -> Result<BoundWrite<'s>> {
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
            replace_into: _,
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
            (*ignore, "IGNORE"),
            (*overwrite, "OVERWRITE"),
            (!assignments.is_empty(), "SET"),
            (partitioned.is_some() || !after_columns.is_empty(), "PARTITION"),
            (output.is_some(), "OUTPUT"),
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
        let name = qualified(name, self.work.statement.spellings())?;
        let table = self.table(&name)?;
        let alias = table_alias.as_ref().map_or(&*name.name, |alias| &*alias.alias.value);
        let names = columns.iter().map(|name| column_name(STATEMENT, name)).collect::<Result<Vec<&Ident>>>()?;
        let (source, targets, values) = match self.work.statement.inserts_by_name() {
            true => self.rows_by_name(&table, &names, with, source.as_deref())?,
            false => self.inserted_rows(&table, &names, with, source.as_deref())?,
        };
        let row = self.row_of(&table, &targets)?;
        let conflict = match (or, on) {
            (Some(_), Some(_)) => return Err(unsupported(STATEMENT, "OR together with ON CONFLICT")),
            (Some(or), None) => self.or_clause(&table, alias, *or, &targets)?,
            (None, on) => on.as_ref().map(|on| self.on_conflict(&table, alias, on)).transpose()?,
        };
        let returning = self.returning(&table, alias, returning.as_deref())?.map(BoundReturning::of_row);
        let write = self.plan(STATEMENT, table, source, vec![WriteAction::Insert(row)], returning)?;
        self.insertion(write, conflict, values)
    }

    /// Returns the table of an `INSERT` and the places of the columns that get values. Returns an error if one of them
    /// is generated.
    pub(super) fn insert_targets(&self, insert: &Insert) -> Result<(Arc<TableDef>, Vec<usize>)> {
        let TableObject::TableName(name) = &insert.table else {
            return Err(unsupported(STATEMENT, "a target that is not a table"));
        };
        let table = self.table(&qualified(name, self.work.statement.spellings())?)?;
        let names = insert.columns.iter().map(|name| column_name(STATEMENT, name)).collect::<Result<Vec<&Ident>>>()?;
        let targets = match names.as_slice() {
            [] => binder::given_columns(&table),
            names => self.targets(&table, names)?,
        };
        check_generated(&table, &targets, false, |_, _| false)?;
        Ok((table, targets))
    }

    /// Returns the source of the rows, the columns that it has values for, and the rows of a `VALUES` list.
    fn inserted_rows<'s>(
        &self,
        table: &TableDef,
        names: &[&Ident],
        with: Option<&With>,
        source: Option<&'s Query>,
    ) -> Result<(WriteSource<BoundQuery>, Vec<usize>, Option<ValueRows<'s>>)> {
        let Some(query) = source else {
            // DEFAULT VALUES is one row without values, and reads no query.
            refuse(STATEMENT, [(with.is_some(), "WITH before DEFAULT VALUES")])?;
            let values = ValueRows { targets: Vec::new(), rows: vec![&[]] };
            return Ok((WriteSource::Values(1), Vec::new(), Some(values)));
        };
        let overrides = self.work.statement.overrides_generated();
        if let Some(values) = plain_values(query).filter(|_| with.is_none()) {
            let width = values.rows.first().map_or(0, |row| row.content.len());
            let targets = self.targets_of_width(table, names, width)?;
            let rows = value_rows(table, &targets, values, overrides)?;
            let values = ValueRows { targets: targets.clone(), rows };
            return Ok((WriteSource::Values(values.rows.len()), targets, Some(values)));
        }
        let query = self.query(&with_outer(with, query)?)?;
        let targets = self.targets_of_width(table, names, query.query.output.len())?;
        // A query gives every target a value, so none of them may be generated.
        check_generated(table, &targets, overrides, |_, _| false)?;
        check_width(table, &targets, query.query.output.len())?;
        Ok((WriteSource::Query(query), targets, None))
    }
}

impl WriteBinder<'_> {
    /// Returns the source of `INSERT INTO t BY NAME query`: the names of the query's columns say where its values go.
    fn rows_by_name<'s>(
        &self,
        table: &TableDef,
        names: &[&Ident],
        with: Option<&With>,
        source: Option<&'s Query>,
    ) -> Result<(WriteSource<BoundQuery>, Vec<usize>, Option<ValueRows<'s>>)> {
        let clause = "INSERT BY NAME";
        refuse(clause, [(!names.is_empty(), "a list of columns")])?;
        let query = source.filter(|query| plain_values(query).is_none());
        let query = query.ok_or_else(|| {
            unsupported(clause, "VALUES, whose columns have no names,")
                .hint("INSERT INTO t (a, b) VALUES ... has names")
        })?;
        let query = self.query(&with_outer(with, query)?)?;
        let targets = binder::targets(table, query.query.output.iter().map(|(_, name)| name.as_ref()))?;
        let overrides = self.work.statement.overrides_generated();
        check_generated(table, &targets, overrides, |_, _| false)?;
        Ok((WriteSource::Query(query), targets, None))
    }
}

/// Returns the rows of a `VALUES` list, whose values must fit the columns `targets`. `overrides` says that they may be
/// for generated columns.
fn value_rows<'s>(
    table: &TableDef,
    targets: &[usize],
    values: &'s Values,
    overrides: bool,
) -> Result<Vec<RowSyntax<'s>>> {
    let Values { explicit_row: _, value_keyword: _, rows } = values;
    let rows: Vec<RowSyntax<'s>> = rows.iter().map(|row| row.content.as_slice()).collect();
    rows.iter().try_for_each(|row| check_width(table, targets, row.len()))?;
    // DEFAULT is allowed for a generated column, but only if every row says so.
    check_generated(table, targets, overrides, |place, column| {
        rows.iter().all(|row| matches!(LiteralCell::of(&row[place], &column.kind), LiteralCell::Default))
    })?;
    Ok(rows)
}

/// Returns the query with the names of a `WITH` clause before the statement, which its own clause may hide.
fn with_outer(with: Option<&With>, query: &Query) -> Result<Query> {
    let mut query = query.clone();
    if let Some(outer) = with {
        match &mut query.with {
            None => query.with = Some(outer.clone()),
            Some(_) => return Err(unsupported(STATEMENT, "WITH both before the statement and in its query")),
        }
    }
    Ok(query)
}

/// Refuses values for a column that only its sequence or its expression may fill. `overrides` allows those for a
/// sequence.
pub(super) fn check_generated(
    table: &TableDef,
    targets: &[usize],
    overrides: bool,
    is_default: impl Fn(usize, &ColumnDef) -> bool,
) -> Result<()> {
    for (place, target) in targets.iter().enumerate() {
        let column = &table.columns[*target];
        let is_of_sequence = row_sink::is_generated(table, column) && !overrides;
        if (is_of_sequence || table.generated(column.id).is_some()) && !is_default(place, column) {
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

/// Reads the name of a column of the table.
pub(super) fn column_name<'s>(statement: &str, name: &'s ObjectName) -> Result<&'s Ident> {
    match identifiers(name)?.as_slice() {
        [only] => Ok(only),
        _ => Err(unsupported(statement, &format!("\"{name}\" as a target, a part of a column,"))),
    }
}

/// Whether the rows are those of a `VALUES` list, or defaults.
pub(crate) fn is_of_values(insert: &Insert) -> bool {
    insert.source.as_deref().is_none_or(|query| plain_values(query).is_some())
}

/// Returns the `VALUES` list of a query that has no other part.
fn plain_values(query: &Query) -> Option<&Values> {
    match only_body(query)? {
        (None, SetExpr::Values(values)) => Some(values),
        _ => None,
    }
}
