//! The parts that programs are built from. The statements themselves take them out of the syntax trees of `INSERT`,
//! `UPDATE` and `DELETE`, so that a program must mean the same as its statement.

use std::sync::Arc;

use arrow::array::ArrayRef;
use rowmill_base::{Error, ErrorKind, Result, TableId};
use rowmill_plan::program::ConflictTarget;
use rowmill_storage::{KeyColumn, TableDef};
use rowmill_txn::Snapshot;
use sqlparser::ast::{self, Delete, Expr, Insert, Query, Update};

use super::cell::LiteralCell;
use super::clause::unsupported;
use super::default_value;
use super::insert::{self, InsertSource};
use super::relation;
use super::row_sink::{self, ColumnSource};
use super::sql_text;
use super::update::NewRow;
use super::{delete as deleting, update as updating};
use crate::names::{identifiers, lower};
use crate::session::Work;

/// The source of a value in an inserted row.
pub(crate) enum InsertedValue {
    /// A known value of the column's type.
    Known(ArrayRef),
    /// A parameter, numbered from 0.
    Parameter(usize),
    /// An expression that reads no columns.
    Computed(Box<Expr>),
    /// The next value of a sequence.
    Sequence(TableId),
    /// A column of the inserted query, numbered from 0.
    Column(usize),
}

/// Returns the table of a `DELETE` and the query of the rows that it removes, or `None` if no program can run it.
pub(crate) fn delete(
    work: &Work<'_>,
    snapshot: &Arc<Snapshot>,
    delete: &Delete,
) -> Result<Option<(Arc<TableDef>, Query)>> {
    let Ok(definition) = deleting::definition(work, delete) else { return Ok(None) };
    let deleting::DeleteDefinition { target, others, .. } = definition;
    let table = relation::table(snapshot.catalog(), &target.name)?;
    if table.keyed.is_none() {
        return Ok(None);
    }
    let query = target.query(work, [], others, delete.selection.as_ref())?;
    Ok(Some((table, query)))
}

/// Returns the table of an `UPDATE` and the query of its new rows: all columns of the table in order. `None` if no
/// program can run it.
pub(crate) fn update(
    work: &Work<'_>,
    snapshot: &Arc<Snapshot>,
    update: &Update,
) -> Result<Option<(Arc<TableDef>, Query)>> {
    let Ok(definition) = updating::definition(work, update) else { return Ok(None) };
    let table = relation::table(snapshot.catalog(), &definition.target.name)?;
    if table.keyed.is_none() {
        return Ok(None);
    }
    let row = NewRow::of(work, &definition.target, &definition.assignments, &table)?;
    let is_input = |source: &ColumnSource| matches!(source, ColumnSource::Input(_));
    if !row.sources.iter().all(is_input) {
        return Ok(None);
    }
    let query = definition.target.query(work, row.items, definition.others, definition.selection)?;
    Ok(Some((table, query)))
}

/// The rows of an `INSERT`, with a value for each column of the table.
pub(crate) struct InsertedRows<'i> {
    pub(crate) table: Arc<TableDef>,
    pub(crate) rows: Vec<Vec<InsertedValue>>,
    /// The query of `INSERT ... SELECT`. Then `rows` has one row, which is made for each row of the query.
    pub(crate) query: Option<&'i Query>,
}

/// Returns the table of an `INSERT` and its rows, or `None` if no program can run it.
pub(crate) fn insert<'i>(
    work: &Work<'_>,
    snapshot: &Arc<Snapshot>,
    insert: &'i Insert,
) -> Result<Option<InsertedRows<'i>>> {
    let Ok(definition) = insert::definition(work, insert) else { return Ok(None) };
    let table = relation::table(snapshot.catalog(), &definition.table)?;
    let targets = match definition.columns.as_slice() {
        [] => (0..table.columns.len()).collect(),
        names => row_sink::targets(&table, names.iter().map(|name| work.statement.spell(name)))?,
    };
    let values = match definition.source {
        InsertSource::Values(values) => values,
        InsertSource::Query(query) if table.keyed.is_some() => {
            let Some(row) = inserted_row(work, &table, |place| {
                targets.iter().position(|target| *target == place).map(Given::Column)
            })?
            else {
                return Ok(None);
            };
            return Ok(Some(InsertedRows { table, rows: vec![row], query: Some(query) }));
        }
        _ => return Ok(None),
    };
    let mut rows = Vec::with_capacity(values.rows.len());
    for row in &values.rows {
        if row.content.len() != targets.len() {
            return Ok(None);
        }
        let Some(row) = inserted_row(work, &table, |place| {
            let given = targets.iter().position(|target| *target == place)?;
            Some(Given::Cell(LiteralCell::of(&row.content[given], &table.columns[place].kind)))
        })?
        else {
            return Ok(None);
        };
        rows.push(row);
    }
    Ok(Some(InsertedRows { table, rows, query: None }))
}

/// The source of a column that a statement names.
enum Given<'e> {
    /// An item of a `VALUES` list.
    Cell(LiteralCell<'e>),
    /// A column of the query.
    Column(usize),
}

/// Returns the values of one row in the order of the table's columns. `given` returns the sources of the columns that
/// the statement names; all others get their defaults.
fn inserted_row<'e>(
    work: &Work<'_>,
    table: &TableDef,
    given: impl Fn(usize) -> Option<Given<'e>>,
) -> Result<Option<Vec<InsertedValue>>> {
    let mut values = Vec::with_capacity(table.columns.len());
    for (place, column) in table.columns.iter().enumerate() {
        let cell = match given(place) {
            None => LiteralCell::Default,
            Some(Given::Cell(cell)) => cell,
            // The engine reports the error, so there is no program.
            Some(Given::Column(_)) if row_sink::is_generated(table, column) => return Ok(None),
            Some(Given::Column(number)) => {
                values.push(InsertedValue::Column(number));
                continue;
            }
        };
        let identity = table.identity(column.id);
        if identity.is_some_and(|identity| identity.always) && !matches!(cell, LiteralCell::Default) {
            return Ok(None);
        }
        values.push(match cell {
            LiteralCell::Default if identity.is_some() => {
                InsertedValue::Sequence(identity.map_or(TableId(0), |identity| identity.sequence))
            }
            LiteralCell::Null | LiteralCell::Text(_) => match cell.value(&column.kind, &column.name) {
                Ok(value) => InsertedValue::Known(value),
                // The engine will find the same bad literal and name its place.
                Err(_) => return Ok(None),
            },
            LiteralCell::Parameter(number) => InsertedValue::Parameter(number),
            LiteralCell::Computed(expr) => InsertedValue::Computed(Box::new(expr.clone())),
            LiteralCell::Default => match default_value::literal_default(work, column)? {
                Some(value) => InsertedValue::Known(value),
                None => InsertedValue::Computed(Box::new(default_value::computed_default(work, column)?)),
            },
        });
    }
    Ok(Some(values))
}

/// Parses the CHECK condition `sql` of a table.
pub(crate) fn check(work: &Work<'_>, sql: &str) -> Result<Expr> {
    sql_text::expr(sql, work.settings())
}

/// Returns the key that an `ON CONFLICT` clause names.
pub(crate) fn conflict_target(
    work: &Work<'_>,
    table: &TableDef,
    target: Option<&ast::ConflictTarget>,
) -> Result<ConflictTarget> {
    let Some(keyed) = &table.keyed else { return Err(unsupported("INSERT", "ON CONFLICT without a primary key")) };
    let places = |parts: &[KeyColumn]| {
        let mut places: Vec<Option<usize>> = parts.iter().map(|part| table.column_by_id(part.column)).collect();
        // The order of the columns does not matter, so we compare sorted lists.
        places.sort_unstable();
        places
    };
    let mut unique = keyed.indexes.iter().filter(|index| index.unique);
    match target {
        None => Ok(ConflictTarget::Any),
        Some(ast::ConflictTarget::Columns(names)) => {
            let mut wanted = names
                .iter()
                .map(|name| relation::column(table, work.statement.spell(name)).map(Some))
                .collect::<Result<Vec<_>>>()?;
            wanted.sort_unstable();
            if places(&keyed.key) == wanted {
                return Ok(ConflictTarget::PrimaryKey);
            }
            let index = unique.find(|index| places(&index.parts) == wanted);
            index.map(|index| ConflictTarget::Index(index.id)).ok_or_else(|| {
                let columns: Vec<&str> = names.iter().map(|name| name.value.as_str()).collect();
                let what = format!("table \"{}\" has no unique key of ({})", table.name, columns.join(", "));
                Error::new(ErrorKind::InvalidDefinition, what)
                    .hint("ON CONFLICT names the columns of the primary key or of a unique index")
            })
        }
        Some(ast::ConflictTarget::OnConstraint(name)) => {
            let name = name.to_string().replace('"', "");
            let index = unique.find(|index| lower(&index.name) == lower(&name));
            index.map(|index| ConflictTarget::Index(index.id)).ok_or_else(|| {
                let what = format!("table \"{}\" has no unique index \"{name}\"", table.name);
                Error::new(ErrorKind::UndefinedObject, what)
            })
        }
    }
}

/// Returns the columns that `DO UPDATE SET` assigns, and their values.
pub(crate) fn conflict_update<'u>(
    work: &Work<'_>,
    table: &TableDef,
    update: &'u ast::DoUpdate,
) -> Result<Vec<(usize, &'u Expr)>> {
    let mut assignments = Vec::with_capacity(update.assignments.len());
    for ast::Assignment { target, value } in &update.assignments {
        let ast::AssignmentTarget::ColumnName(name) = target else {
            return Err(unsupported("ON CONFLICT", "SET of several columns at once"));
        };
        let [name] = identifiers(name)?[..] else {
            return Err(unsupported("ON CONFLICT", "SET of a qualified column"));
        };
        assignments.push((relation::column(table, work.statement.spell(name))?, value));
    }
    Ok(assignments)
}
