//! Operations of `ALTER TABLE` that write all rows of the table again: another type of a column, a primary key for a
//! columnar table, and a generated column.
//!
//! A query reads all rows in their new form before the table changes. They wait in memory, or in a temporary file, and
//! are then inserted like the rows of an `INSERT`, so that conditions and keys are checked. If a row fails, the
//! statement fails and the table is as before.

use std::sync::Arc;

use rowmill_base::{Error, ErrorKind, Result};
use rowmill_plan::write::{WriteAction, WriteSource};
use rowmill_storage::{ColumnDef, TableDef};
use rowmill_txn::{ColumnSpec, Transaction};
use sqlparser::ast::{
    AlterColumnOperation, AlterTableOperation, CastKind, DataType, Expr, Query, SelectItem, SetExpr, TableConstraint,
};

use super::alter_table::{STATEMENT, table_text};
use super::default_value::DefaultValue;
use super::foreign_key_clause::check_actions;
use super::generated_column::{self, NewGenerated, expression};
use super::key_clauses::{KeyClauses, def_of};
use super::named_type::sql_type;
use super::sequence::{counted_range, fit_sequence};
use super::sql_text::{self, quoted};
use super::write::binder::WriteBinder;
use super::write::executor::WriteExecutor;
use super::write::waiting::WaitingBatches;
use crate::outcome::RowStream;
use crate::session::Work;

/// Whether an operation writes all rows again.
pub(super) fn is_refill(operation: &AlterTableOperation) -> bool {
    matches!(
        operation,
        AlterTableOperation::AlterColumn { op: AlterColumnOperation::SetDataType { .. }, .. }
            | AlterTableOperation::AddConstraint { constraint: TableConstraint::PrimaryKey(_), .. }
    ) || matches!(operation, AlterTableOperation::AddColumn { column_def, .. } if expression(column_def).is_some())
}

/// Gives a column another type. `using` computes the new values, or the old ones are cast.
pub(super) fn set_type(
    work: &Work<'_>,
    transaction: &mut Transaction,
    table: &Arc<TableDef>,
    column: &ColumnDef,
    data_type: &DataType,
    using: Option<&Expr>,
) -> Result<()> {
    let kind = sql_type(transaction.catalog(), data_type)
        .map_err(|error| error.context(format!("column \"{}\"", column.name)))?;
    if table.identity(column.id).is_some() && counted_range(&kind).is_none() {
        let what = format!("column \"{}\" takes its values from a sequence, so it cannot be {kind}", column.name);
        return Err(Error::new(ErrorKind::DatatypeMismatch, what).hint("it can be SMALLINT, INTEGER or BIGINT"));
    }
    if let Some(place) = table.column_by_id(column.id).filter(|_| !table.rules.generated.is_empty()) {
        generated_column::check_new_type(work, &transaction.view()?, table, place, &kind)?;
    }
    if let Some(text) = &column.default {
        DefaultValue::of(work, text, &column.name, &kind).map_err(|error| {
            error
                .context(format!("DEFAULT {text} of column \"{}\"", column.name))
                .hint("drop the default first: ALTER COLUMN ... DROP DEFAULT")
        })?;
    }
    let query = rows_with_cast(work, transaction, table, column, data_type, using)?;
    let change = |transaction: &mut Transaction| {
        if let Some(identity) = table.identity(column.id) {
            fit_sequence(transaction, identity.sequence, &column.kind, &kind)?;
        }
        transaction.refill_with_type(table.id, column.id, kind)
    };
    refill(work, transaction, table, &query, change)
        .map_err(|error| error.context(format!("column \"{}\" of table \"{}\"", column.name, table.name)))
}

/// Returns the query of all rows of a table, with a column cast to a type, or with `using` in its place.
fn rows_with_cast(
    work: &Work<'_>,
    transaction: &mut Transaction,
    table: &TableDef,
    column: &ColumnDef,
    data_type: &DataType,
    using: Option<&Expr>,
) -> Result<Query> {
    let mut query = all_rows(work, transaction, table)?;
    let place = table.columns.iter().position(|other| other.id == column.id);
    let item = place.and_then(|place| match &mut *query.body {
        SetExpr::Select(select) => select.projection.get_mut(place),
        _ => None,
    });
    let Some(SelectItem::UnnamedExpr(value)) = item else {
        return Err(Error::internal("the query of all rows names each column"));
    };
    let old = std::mem::replace(value, Expr::value(sqlparser::ast::Value::Null));
    *value = Expr::Cast {
        kind: CastKind::Cast,
        expr: Box::new(using.cloned().unwrap_or(old)),
        data_type: data_type.clone(),
        array: false,
        format: None,
    };
    Ok(query)
}

/// Makes a columnar table a keyed table.
pub(super) fn add_primary_key(
    work: &Work<'_>,
    transaction: &mut Transaction,
    table: &Arc<TableDef>,
    constraint: &TableConstraint,
) -> Result<()> {
    let clauses = KeyClauses::of_addition("ALTER TABLE ADD PRIMARY KEY", constraint, table)?;
    let key = clauses.added_primary_key(work, table)?;
    let query = all_rows(work, transaction, table)?;
    refill(work, transaction, table, &query, |transaction| {
        transaction.refill_with_key(table.id, &key)?;
        clauses.name_primary_key(work, transaction, table.id)
    })
}

/// Adds a generated column, and computes it for all rows.
pub(super) fn add_generated(
    work: &Work<'_>,
    transaction: &mut Transaction,
    table: &Arc<TableDef>,
    spec: ColumnSpec,
    expr: &Expr,
) -> Result<()> {
    let mut columns: Vec<ColumnSpec> =
        table.columns.iter().map(|column| ColumnSpec::new(&*column.name, column.kind.clone())).collect();
    let known: Vec<usize> = table.rules.generated.iter().filter_map(|def| table.column_by_id(def.column)).collect();
    let new = NewGenerated { place: columns.len(), expr, is_untyped: false };
    columns.push(spec.clone());
    let checked = generated_column::check(work, &transaction.view()?, &table.name, &mut columns, &[new], &known)?;
    let text = checked.into_iter().map(|(_, text)| text).next();
    let text = text.ok_or_else(|| Error::internal("the generated column was checked"))?;
    let query = all_rows(work, transaction, table)?;
    refill(work, transaction, table, &query, |transaction| {
        transaction.refill_with_generated(table.id, spec, text)?;
        check_actions(work, &*def_of(transaction, table.id)?)
    })
}

/// Returns the query of all rows of a table, which names each column.
fn all_rows(work: &Work<'_>, transaction: &mut Transaction, table: &TableDef) -> Result<Query> {
    let columns: Vec<String> = table.columns.iter().map(|column| quoted(&column.name)).collect();
    let name = table_text(transaction.view()?.catalog(), table);
    sql_text::query(&format!("SELECT {} FROM {name}", columns.join(", ")), work.settings())
}

/// Reads the rows of `query`, changes the definition with `change`, which empties the table, and inserts the rows.
fn refill(
    work: &Work<'_>,
    transaction: &mut Transaction,
    table: &Arc<TableDef>,
    query: &Query,
    change: impl FnOnce(&mut Transaction) -> Result<()>,
) -> Result<()> {
    let view = transaction.view()?;
    let bound = work.with_planning_room(|| WriteBinder::new(work, &view, &[]).query(query))?;
    let rows = work.rows_of(view, bound.clone())?;
    let (schema, mut waiting) = (rows.schema(), WaitingBatches::new(work.engine().broker(), work.engine().temp()));
    for batch in rows {
        waiting.push(batch?)?;
    }
    change(transaction)?;
    let changed = def_of(transaction, table.id)?;
    let all: Vec<usize> = (0..changed.columns.len()).collect();
    let view = transaction.view()?;
    let binder = WriteBinder::new(work, &view, &[]);
    let action = WriteAction::Insert(binder.row_of(&changed, &all)?);
    let write = binder.plan(STATEMENT, changed, WriteSource::Query(bound), vec![action], None)?;
    let mut executor = WriteExecutor::new(work, write.tag, write.table, &write.plan)?;
    executor.insert_all(work, transaction, RowStream::new(schema, waiting.into_batches()?))
}
