//! Turns the rows of `INSERT ... VALUES` into columns.
//!
//! ```text
//! (1, 'a', now())        column 1   texts "1", "2"       -> one pass of the text parser
//! (2, $1,  DEFAULT)  ->  column 2   text "a", value $1   -> one value each, joined
//!                        column 3   computed, default    -> one value each, joined
//! ```
//!
//! Values that must be computed become the columns of a query of one row, so each keeps its own type. For example, the
//! rows of `VALUES (1), ('2')` or `(DEFAULT), (now())` need no common type.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, StringViewBuilder};
use arrow::compute::concat;
use rowmill_base::{Error, ErrorKind, Result, Settings};
use rowmill_storage::{ColumnDef, TableDef};
use rowmill_txn::Transaction;
use sqlparser::ast::{Expr, Query, SelectItem, SetExpr};

use super::cell::{LiteralCell, parameter};
use super::default_value::{DefaultValue, default_of};
use super::row_sink::next_values;
use super::sql_text;
use super::write::ValueRows;
use super::write::executor::WriteExecutor;
use crate::assign::assign;
use crate::deep::with_room;
use crate::session::Work;

/// The most rows that are turned into columns at once. This bounds the memory beside the syntax tree.
const ROWS_AT_ONCE: usize = 8192;

/// The most values that one query computes. Each is a column of it.
const COMPUTED_AT_ONCE: usize = 512;

/// Gives the rows of `values` to `executor`.
pub(super) fn insert(
    work: &Work<'_>,
    transaction: &mut Transaction,
    executor: &mut WriteExecutor,
    values: &ValueRows<'_>,
) -> Result<()> {
    let (table, ValueRows { targets, rows }) = (Arc::clone(executor.table()), values);
    // One default serves all rows of the statement, so `now()` is the same in all of them.
    let mut defaults = Defaults::default();
    // A statement may have many thousand rows, so we convert and write them in portions.
    for rows in rows.chunks(ROWS_AT_ONCE) {
        work.cancel.check()?;
        let computed = ComputedValues::of(work, transaction, &table, targets, rows)?;
        let columns = targets.iter().enumerate().map(|(position, target)| {
            let column = &table.columns[*target];
            let cells = rows.iter().map(|row| LiteralCell::of(&row[position], &column.kind)).collect();
            let identity = table.identity(column.id);
            let default = |work: &Work<'_>| match identity {
                Some(identity) => next_values(transaction, identity.sequence, column, 1),
                None => defaults.value(work, column),
            };
            column_of(work, column, cells, &computed, default)
        });
        let columns = columns.collect::<Result<Vec<_>>>()?;
        executor.insert(transaction, &columns, rows.len())?;
    }
    Ok(())
}

/// The defaults of columns for which rows say `DEFAULT`. Each is evaluated at its first use.
#[derive(Default)]
struct Defaults(HashMap<String, DefaultValue>);

impl Defaults {
    fn value(&mut self, work: &Work<'_>, column: &ColumnDef) -> Result<ArrayRef> {
        if !self.0.contains_key(&column.name) {
            self.0.insert(column.name.clone(), default_of(work, column)?);
        }
        self.0[&column.name].rows(1)
    }
}

/// Converts the cells of one column to an array.
fn column_of(
    work: &Work<'_>,
    column: &ColumnDef,
    cells: Vec<LiteralCell<'_>>,
    computed: &ComputedValues,
    mut default: impl FnMut(&Work<'_>) -> Result<ArrayRef>,
) -> Result<ArrayRef> {
    if let Some(texts) = all_texts(&cells) {
        return assign(&texts, &column.kind, &column.name);
    }
    let values = cells.iter().map(|cell| match cell {
        LiteralCell::Default => default(work),
        LiteralCell::Parameter(index) => match work.params.get(*index) {
            Some(value) => parameter(value, &column.kind, &column.name),
            None => Err(missing_parameter(*index)),
        },
        LiteralCell::Computed(expr) => assign(computed.value(expr), &column.kind, &column.name),
        LiteralCell::Null | LiteralCell::Text(_) => cell.value(&column.kind, &column.name),
    });
    let values = values.collect::<Result<Vec<ArrayRef>>>()?;
    if let [only] = values.as_slice() {
        return Ok(Arc::clone(only));
    }
    let values: Vec<&dyn Array> = values.iter().map(|value| &**value).collect();
    concat(&values).map_err(|error| Error::internal(format!("assigned values have one type: {error}")))
}

/// Returns the texts of a column if all its cells are texts or NULL.
fn all_texts(cells: &[LiteralCell<'_>]) -> Option<ArrayRef> {
    let mut texts = StringViewBuilder::with_capacity(cells.len());
    for cell in cells {
        match cell {
            LiteralCell::Null => texts.append_null(),
            LiteralCell::Text(text) => texts.append_value(text),
            LiteralCell::Parameter(_) | LiteralCell::Default | LiteralCell::Computed(_) => return None,
        }
    }
    Some(Arc::new(texts.finish()))
}

fn missing_parameter(index: usize) -> Error {
    Error::new(ErrorKind::CardinalityViolation, format!("the statement has no value for its parameter ${}", index + 1))
}

/// The computed values, keyed by the address of their expression in the syntax tree, which does not move.
struct ComputedValues(HashMap<*const Expr, ArrayRef>);

impl ComputedValues {
    fn of(
        work: &Work<'_>,
        transaction: &mut Transaction,
        table: &TableDef,
        targets: &[usize],
        rows: &[&[Expr]],
    ) -> Result<ComputedValues> {
        let mut exprs: Vec<&Expr> = Vec::new();
        for row in rows {
            for (expr, target) in row.iter().zip(targets) {
                if matches!(LiteralCell::of(expr, &table.columns[*target].kind), LiteralCell::Computed(_)) {
                    exprs.push(expr);
                }
            }
        }
        let mut values = HashMap::with_capacity(exprs.len());
        for exprs in exprs.chunks(COMPUTED_AT_ONCE) {
            let row = with_room(work.statement.room_bytes(), || evaluate(work, transaction, exprs))?;
            values.extend(exprs.iter().map(|expr| std::ptr::from_ref(*expr)).zip(row));
        }
        Ok(ComputedValues(values))
    }

    fn value(&self, expr: &Expr) -> &ArrayRef {
        self.0.get(&std::ptr::from_ref(expr)).expect("every computed value was computed")
    }
}

/// Returns the query of one row whose columns are `exprs`.
pub(crate) fn row_query(exprs: &[&Expr], settings: &Settings) -> Result<Query> {
    let mut query = sql_text::query("SELECT 1", settings)?;
    let SetExpr::Select(select) = &mut *query.body else { return Err(Error::internal("SELECT 1 is a SELECT")) };
    let items = exprs.iter().enumerate().map(|(position, expr)| SelectItem::ExprWithAlias {
        expr: (*expr).clone(),
        alias: format!("value{position}").as_str().into(),
    });
    select.projection = items.collect();
    Ok(query)
}

/// Evaluates `exprs` in one query. Returns one row of each.
fn evaluate(work: &Work<'_>, transaction: &mut Transaction, exprs: &[&Expr]) -> Result<Vec<ArrayRef>> {
    let query = row_query(exprs, work.settings())?;
    let mut rows = work.rows(transaction.view()?, &query)?;
    let batch = rows.next().transpose()?;
    match batch {
        Some(batch) if batch.num_rows() == 1 && rows.next().transpose()?.is_none() => Ok(batch.columns().to_vec()),
        _ => Err(Error::new(ErrorKind::CardinalityViolation, "a VALUES item does not give exactly one value")
            .hint("INSERT INTO ... SELECT inserts the rows of a query")),
    }
}
