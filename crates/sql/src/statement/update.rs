//! `UPDATE`: a columnar table deletes the old row and appends the new one; a keyed table replaces the row at its key.
//!
//! The rows of a columnar table stream. We read a batch of row numbers and values from the state before the statement.
//! The numbers go into the delete vectors, and the values into the open block, which is sealed when it is full. So an
//! update of every row of a large table holds only a few batches and the blocks that are being sealed. Columns without
//! an assignment pass through unchanged.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use rowmill_base::{Error, ErrorKind, Result};
use rowmill_program::meets_several;
use rowmill_storage::TableDef;
use rowmill_txn::Transaction;
use sqlparser::ast::{
    Assignment, AssignmentTarget, Expr, Ident, ObjectName, TableWithJoins, Update, UpdateTableFromKind,
};

use super::clause::{refuse, unsupported};
use super::keyed_change;
use super::relation;
use super::returning::Returning;
use super::row_query::{ChangedTable, numbered};
use super::row_sink::{ColumnSource, RowSink, default_of, generated, is_generated};
use crate::names::{identifiers, lower};
use crate::outcome::Outcome;
use crate::session::Work;

const STATEMENT: &str = "UPDATE";

/// The parts of the syntax tree that we execute. All others were refused.
pub(super) struct UpdateDefinition<'a> {
    pub(super) target: ChangedTable,
    pub(super) assignments: Vec<(&'a ObjectName, &'a Expr)>,
    pub(super) others: &'a [TableWithJoins],
    pub(super) selection: Option<&'a Expr>,
    returning: Option<Returning<'a>>,
}

pub(crate) fn run(work: &mut Work<'_>, update: &Update) -> Result<Outcome> {
    let definition = definition(work, update)?;
    work.write(|work, transaction| {
        let view = transaction.view()?;
        let table = relation::table(view.catalog(), &definition.target.name)?;
        let new_row = NewRow::of(work, &definition.target, &definition.assignments, &table)?;
        let query = definition.target.query(work, new_row.items, definition.others, definition.selection)?;
        let batches = work.rows(view, &query)?;
        let mut change = BatchChange {
            once: OncePerRow::new(!definition.others.is_empty()),
            sink: RowSink::new(Arc::clone(&table), new_row.sources),
            table: &table,
        };
        // The first column is the row number. Wrong types should fail before any row changes.
        change.sink.check_types(&batches.schema().fields()[1..])?;
        let (rows, written) = if table.keyed.is_some() {
            keyed_change::update(work, transaction, &change.sink, &table, batches)?
        } else {
            if definition.returning.is_some() {
                change.sink.keep_written();
            }
            for batch in batches {
                work.cancel.check()?;
                change.apply(work, transaction, &batch?)?;
            }
            (change.sink.rows(), change.sink.take_written())
        };
        match definition.returning {
            None => Ok(Outcome::Changed { tag: STATEMENT, rows }),
            Some(returning) => {
                returning.outcome(work, transaction, &table, definition.target.alias().clone(), &written)
            }
        }
    })
}

/// The columns of the new row: the expressions that the query computes, and the source of each column of the table.
pub(super) struct NewRow {
    pub(super) items: Vec<Expr>,
    pub(super) sources: Vec<ColumnSource>,
}

impl NewRow {
    /// Builds the new row of `target` from the values that are assigned to its columns.
    pub(super) fn of(
        work: &Work<'_>,
        target: &ChangedTable,
        assignments: &[(&ObjectName, &Expr)],
        table: &TableDef,
    ) -> Result<NewRow> {
        let mut assigned: Vec<Option<&Expr>> = vec![None; table.columns.len()];
        for (name, value) in assignments {
            let index = relation::column(table, work.statement.spell(column_name(target, name)?))?;
            let column = &table.columns[index];
            if is_generated(table, column) {
                return Err(generated(table, column));
            }
            if is_default(value) && table.identity(column.id).is_some() {
                return Err(unsupported(STATEMENT, "DEFAULT for a column that takes its values from a sequence"));
            }
            if assigned[index].replace(value).is_some() {
                return Err(Error::new(
                    ErrorKind::DuplicateColumn,
                    format!("column \"{}\" is set twice", table.columns[index].name),
                ));
            }
        }
        let mut row = NewRow { items: Vec::new(), sources: Vec::new() };
        for (column, value) in table.columns.iter().zip(assigned) {
            let item = match value {
                Some(value) if is_default(value) => {
                    row.sources.push(ColumnSource::Default(default_of(work, column)?));
                    continue;
                }
                Some(value) => value.clone(),
                None => target.column(&lower(&column.name)),
            };
            row.sources.push(ColumnSource::Input(row.items.len()));
            row.items.push(item);
        }
        Ok(row)
    }
}

/// Reads `column`, or `table.column` with the name or alias of the target.
fn column_name<'n>(target: &ChangedTable, name: &'n ObjectName) -> Result<&'n Ident> {
    match identifiers(name)?.as_slice() {
        [column] => Ok(column),
        [table, column] if target.is_called(table) => Ok(column),
        _ => Err(unsupported(STATEMENT, &format!("SET {name}, which is not a column of the table,"))),
    }
}

fn is_default(value: &Expr) -> bool {
    matches!(value, Expr::Identifier(name) if name.quote_style.is_none() && name.value == "default")
}

/// Changes a columnar table batch by batch.
struct BatchChange<'a> {
    once: OncePerRow,
    sink: RowSink,
    table: &'a TableDef,
}

impl BatchChange<'_> {
    fn apply(&mut self, work: &Work<'_>, transaction: &mut Transaction, batch: &RecordBatch) -> Result<()> {
        let (numbers, values): (&[u64], &[ArrayRef]) = numbered(batch);
        self.once.check(numbers, self.table)?;
        transaction.delete(self.table.id, numbers)?;
        // The query reads the state before the statement, so it never finds the rows that we append.
        self.sink.write_columns(work, transaction, values, numbers.len())
    }
}

/// Refuses to change a row twice. With `FROM`, a row of the target can meet several rows of the other tables, and no
/// rule says which of them should win.
struct OncePerRow(Option<HashSet<u64>>);

impl OncePerRow {
    fn new(can_repeat: bool) -> Self {
        OncePerRow(can_repeat.then(HashSet::new))
    }

    fn check(&mut self, numbers: &[u64], table: &TableDef) -> Result<()> {
        let Some(seen) = &mut self.0 else { return Ok(()) };
        if numbers.iter().all(|number| seen.insert(*number)) {
            return Ok(());
        }
        Err(meets_several(table))
    }
}

/// Destructures the syntax tree and refuses the clauses that we do not execute.
pub(super) fn definition<'a>(work: &Work<'_>, update: &'a Update) -> Result<UpdateDefinition<'a>> {
    let Update {
        update_token: _,
        optimizer_hints,
        table,
        assignments,
        from,
        selection,
        returning,
        output,
        or,
        order_by,
        limit,
    } = update;
    let clauses = [
        (!optimizer_hints.is_empty(), "an optimizer hint"),
        (output.is_some(), "OUTPUT"),
        (or.is_some(), "OR"),
        (!order_by.is_empty(), "ORDER BY"),
        (limit.is_some(), "LIMIT"),
    ];
    refuse(STATEMENT, clauses)?;
    let others = match from {
        None => &[],
        Some(UpdateTableFromKind::AfterSet(tables) | UpdateTableFromKind::BeforeSet(tables)) => tables.as_slice(),
    };
    Ok(UpdateDefinition {
        target: ChangedTable::of(work, STATEMENT, table)?,
        assignments: assigned_pairs(assignments)?,
        others,
        selection: selection.as_ref(),
        returning: returning.as_deref().map(Returning),
    })
}

/// Returns the assignments of `SET`, column by column.
pub(super) fn assigned_pairs(assignments: &[Assignment]) -> Result<Vec<(&ObjectName, &Expr)>> {
    let mut pairs = Vec::with_capacity(assignments.len());
    for Assignment { target, value } in assignments {
        pair_up(target, value, &mut pairs)?;
    }
    Ok(pairs)
}

/// Splits `a = 1`, or `(a, b) = (1, 2)`, into pairs.
fn pair_up<'a>(
    target: &'a AssignmentTarget,
    value: &'a Expr,
    pairs: &mut Vec<(&'a ObjectName, &'a Expr)>,
) -> Result<()> {
    match (target, value) {
        (AssignmentTarget::ColumnName(name), value) => pairs.push((name, value)),
        (AssignmentTarget::Tuple(names), Expr::Tuple(values)) if names.len() == values.len() => {
            pairs.extend(names.iter().zip(values));
        }
        (AssignmentTarget::Tuple(names), Expr::Tuple(values)) => {
            return Err(Error::new(
                ErrorKind::CardinalityViolation,
                format!("SET has {} columns, but {} values", names.len(), values.len()),
            ));
        }
        (AssignmentTarget::Tuple(_), _) => {
            return Err(unsupported(STATEMENT, "SET (...) = anything but a list of values"));
        }
    }
    Ok(())
}
