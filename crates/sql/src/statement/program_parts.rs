//! What programs are made of, taken out of the syntax trees of `INSERT`, `UPDATE` and `DELETE` by the statements themselves, so
//! that a program means what they mean.

use std::sync::Arc;

use arrow::array::ArrayRef;
use rowmill_base::{Error, ErrorKind, Result, TableId};
use rowmill_plan::program::ConflictTarget;
use rowmill_storage::{CheckDef, KeyColumn, TableDef};
use rowmill_txn::Snapshot;
use sqlparser::ast::{self, Delete, Expr, Insert, Query, SelectItem, SetExpr, Update};

use super::cell::Cell;
use super::clause::unsupported;
use super::default_value;
use super::insert::{self, Source};
use super::relation;
use super::row_sink::{self, ColumnSource};
use super::sql_text::{self, quoted};
use super::update::NewRow;
use super::{delete as deleting, update as updating};
use crate::names::{identifiers, lower};
use crate::session::Work;

/// A value of an inserted row.
pub(crate) enum InsertedValue {
    /// One value of the column's type.
    Known(ArrayRef),
    /// A parameter, by number from 0.
    Parameter(usize),
    /// The one column of this query without tables.
    Computed(Box<Query>),
    /// The next value of a sequence.
    Sequence(TableId),
}

/// The table of a `DELETE` and the query of the rows that it removes.
pub(crate) fn delete(
    work: &Work<'_>,
    snapshot: &Arc<Snapshot>,
    delete: &Delete,
) -> Result<Option<(Arc<TableDef>, Query)>> {
    let Ok(definition) = deleting::definition(work, delete) else { return Ok(None) };
    let deleting::Definition { target, others, .. } = definition;
    let table = relation::table(snapshot.catalog(), &target.name)?;
    if !others.is_empty() || table.keyed.is_none() {
        return Ok(None);
    }
    let query = target.query(work, [], &[], delete.selection.as_ref())?;
    Ok(Some((table, query)))
}

/// The table of an `UPDATE`, and the query of its new rows: all columns of the table in order.
pub(crate) fn update(
    work: &Work<'_>,
    snapshot: &Arc<Snapshot>,
    update: &Update,
) -> Result<Option<(Arc<TableDef>, Query)>> {
    let Ok(definition) = updating::definition(work, update) else { return Ok(None) };
    let table = relation::table(snapshot.catalog(), &definition.target.name)?;
    if !definition.others.is_empty() || table.keyed.is_none() {
        return Ok(None);
    }
    let row = NewRow::of(work, &definition.target, &definition.assignments, &table)?;
    let is_input = |source: &ColumnSource| matches!(source, ColumnSource::Input(_));
    if !row.sources.iter().all(is_input) {
        return Ok(None);
    }
    let query = definition.target.query(work, row.items, &[], definition.selection)?;
    Ok(Some((table, query)))
}

/// Rows of an `INSERT ... VALUES`, with a value for each column of the table.
pub(crate) struct InsertedRows {
    pub(crate) table: Arc<TableDef>,
    pub(crate) rows: Vec<Vec<InsertedValue>>,
}

/// The table of an `INSERT ... VALUES` and its rows.
pub(crate) fn insert(work: &Work<'_>, snapshot: &Arc<Snapshot>, insert: &Insert) -> Result<Option<InsertedRows>> {
    let Ok(definition) = insert::definition(work, insert) else { return Ok(None) };
    let Source::Values(values) = &definition.source else { return Ok(None) };
    let table = relation::table(snapshot.catalog(), &definition.table)?;
    let targets = match definition.columns.as_slice() {
        [] => (0..table.columns.len()).collect(),
        names => row_sink::targets(&table, names.iter().map(|name| work.statement.spell(name)))?,
    };
    let mut rows = Vec::with_capacity(values.rows.len());
    for row in &values.rows {
        if row.content.len() != targets.len() {
            return Ok(None);
        }
        let Some(row) = inserted_row(work, &table, &targets, &row.content)? else { return Ok(None) };
        rows.push(row);
    }
    Ok(Some(InsertedRows { table, rows }))
}

fn inserted_row(
    work: &Work<'_>,
    table: &TableDef,
    targets: &[usize],
    row: &[Expr],
) -> Result<Option<Vec<InsertedValue>>> {
    let mut values = Vec::with_capacity(table.columns.len());
    for (place, column) in table.columns.iter().enumerate() {
        let given = targets.iter().position(|target| *target == place).map(|given| &row[given]);
        let cell = given.map_or(Cell::Default, |expr| Cell::of(expr, &column.kind));
        let identity = table.identity(column.id);
        if identity.is_some_and(|identity| identity.always) && !matches!(cell, Cell::Default) {
            return Ok(None);
        }
        values.push(match cell {
            Cell::Default if identity.is_some() => {
                InsertedValue::Sequence(identity.map_or(TableId(0), |identity| identity.sequence))
            }
            Cell::Null | Cell::Text(_) => match cell.value(&column.kind, &column.name) {
                Ok(value) => InsertedValue::Known(value),
                Err(_) => return Ok(None),
            },
            Cell::Parameter(number) => InsertedValue::Parameter(number),
            Cell::Computed(expr) => InsertedValue::Computed(Box::new(select(work, [expr.clone()])?)),
            Cell::Default => match default_value::literal_default(work, column)? {
                Some(value) => InsertedValue::Known(value),
                None => return Ok(None),
            },
        });
    }
    Ok(Some(values))
}

/// `SELECT items`
fn select(work: &Work<'_>, items: impl IntoIterator<Item = Expr>) -> Result<Query> {
    let mut query = sql_text::query("SELECT 1", work.settings())?;
    let SetExpr::Select(select) = &mut *query.body else { return Err(Error::internal("a SELECT is a SELECT")) };
    select.projection = items.into_iter().map(SelectItem::UnnamedExpr).collect();
    Ok(query)
}

/// The conditions of a table as the columns of a query of its rows.
pub(crate) fn checks(
    work: &Work<'_>,
    snapshot: &Arc<Snapshot>,
    table: &TableDef,
    checks: &[CheckDef],
) -> Result<Query> {
    let conditions = checks.iter().enumerate().map(|(number, check)| format!("({}) AS c{number}", check.sql));
    let conditions: Vec<String> = conditions.collect();
    let name = qualified_text(snapshot, table);
    sql_text::query(&format!("SELECT {} FROM {name}", conditions.join(", ")), work.settings())
}

/// `SELECT items FROM table`
pub(crate) fn of_rows(
    work: &Work<'_>,
    snapshot: &Arc<Snapshot>,
    table: &TableDef,
    items: Vec<SelectItem>,
) -> Result<Query> {
    let name = qualified_text(snapshot, table);
    let mut query = sql_text::query(&format!("SELECT 1 FROM {name}"), work.settings())?;
    let SetExpr::Select(select) = &mut *query.body else { return Err(Error::internal("a SELECT is a SELECT")) };
    select.projection = items;
    Ok(query)
}

fn qualified_text(snapshot: &Arc<Snapshot>, table: &TableDef) -> String {
    let schema = snapshot.catalog().schema_by_id(table.schema).expect("a table lives in a schema");
    format!("{}.{}", quoted(&lower(&schema.name)), quoted(&lower(&table.name)))
}

/// The key that `ON CONFLICT` looks at.
pub(crate) fn conflict_target(
    work: &Work<'_>,
    table: &TableDef,
    target: Option<&ast::ConflictTarget>,
) -> Result<ConflictTarget> {
    let Some(keyed) = &table.keyed else { return Err(unsupported("INSERT", "ON CONFLICT without a primary key")) };
    let places = |parts: &[KeyColumn]| {
        let mut places: Vec<Option<usize>> = parts.iter().map(|part| table.column_by_id(part.column)).collect();
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

/// The columns that `DO UPDATE SET` assigns, and the query of their values, and behind them of the condition: over the row that
/// has the key, under the table's name, and the one that was to be inserted, `excluded`.
pub(crate) fn conflict_update(
    work: &Work<'_>,
    snapshot: &Arc<Snapshot>,
    table: &TableDef,
    update: &ast::DoUpdate,
) -> Result<(Vec<usize>, Query)> {
    let mut columns = Vec::with_capacity(update.assignments.len());
    let mut items = Vec::with_capacity(update.assignments.len() + 1);
    for ast::Assignment { target, value } in &update.assignments {
        let ast::AssignmentTarget::ColumnName(name) = target else {
            return Err(unsupported("ON CONFLICT", "SET of several columns at once"));
        };
        let [name] = identifiers(name)?[..] else {
            return Err(unsupported("ON CONFLICT", "SET of a qualified column"));
        };
        columns.push(relation::column(table, work.statement.spell(name))?);
        items.push(value.clone());
    }
    items.extend(update.selection.clone());
    let name = qualified_text(snapshot, table);
    let sql = format!("SELECT 1 FROM {name} AS {} CROSS JOIN {name} AS excluded", quoted(&lower(&table.name)));
    let mut query = sql_text::query(&sql, work.settings())?;
    let SetExpr::Select(select) = &mut *query.body else { return Err(Error::internal("a SELECT is a SELECT")) };
    let item = |(place, expr): (usize, Expr)| SelectItem::ExprWithAlias {
        expr,
        alias: ast::Ident::with_quote('"', format!("\u{1}value{place}")),
    };
    select.projection = items.into_iter().enumerate().map(item).collect();
    Ok((columns, query))
}
