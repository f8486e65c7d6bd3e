//! What programs are made of, taken out of the syntax trees of `INSERT`, `UPDATE` and `DELETE` by the statements themselves, so
//! that a program means what they mean.

use std::sync::Arc;

use datafusion::arrow::array::ArrayRef;
use datafusion::sql::sqlparser::ast::{Delete, Expr, Insert, Query, SelectItem, SetExpr, Update};
use rowmill_base::{Error, Result};
use rowmill_storage::{CheckDef, TableDef};
use rowmill_txn::Snapshot;

use super::cell::Cell;
use super::default_value;
use super::insert::{self, Source};
use super::relation;
use super::row_sink::{self, ColumnSource};
use super::sql_text::{self, quoted};
use super::update::NewRow;
use super::{delete as deleting, update as updating};
use crate::names::lower;
use crate::session::Work;

/// A value of an inserted row.
pub(crate) enum InsertedValue {
    /// One value of the column's type.
    Known(ArrayRef),
    /// A parameter, by number from 0.
    Parameter(usize),
    /// The one column of this query without tables.
    Computed(Box<Query>),
}

/// The table of a `DELETE` and the query of the rows that it removes.
pub(crate) fn delete(
    work: &Work<'_>,
    snapshot: &Arc<Snapshot>,
    delete: &Delete,
) -> Result<Option<(Arc<TableDef>, Query)>> {
    let Ok((target, others)) = deleting::target(work, delete) else { return Ok(None) };
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
    let row = NewRow::of(work, &definition, &table)?;
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
        values.push(match cell {
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
    let schema = snapshot.catalog().schema_by_id(table.schema).expect("a table lives in a schema");
    let conditions = checks.iter().enumerate().map(|(number, check)| format!("({}) AS c{number}", check.sql));
    let conditions: Vec<String> = conditions.collect();
    let (schema, name) = (quoted(&lower(&schema.name)), quoted(&lower(&table.name)));
    sql_text::query(&format!("SELECT {} FROM {schema}.{name}", conditions.join(", ")), work.settings())
}
