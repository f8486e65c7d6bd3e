//! `DELETE`: finds the rows that `WHERE` selects. A columnar table marks them in the delete vectors of their blocks; a
//! keyed table removes them by their keys.

use std::collections::HashSet;

use arrow::array::{BooleanArray, RecordBatch};
use arrow::compute::filter_record_batch;
use rowmill_base::{Error, Result};
use rowmill_storage::TableDef;
use sqlparser::ast::{Delete, FromTable, TableWithJoins};

use super::clause::{refuse, unsupported};
use super::keyed_change;
use super::relation;
use super::returning::{Returning, rows_of};
use super::row_query::{ChangedTable, numbered, row_id};
use crate::names::lower;
use crate::outcome::Outcome;
use crate::session::Work;

const STATEMENT: &str = "DELETE";

/// The parts of the syntax tree that we execute. All others were refused.
pub(super) struct DeleteDefinition<'a> {
    pub(super) target: ChangedTable,
    /// The tables of `USING`.
    pub(super) others: &'a [TableWithJoins],
    returning: Option<Returning<'a>>,
}

pub(crate) fn run(work: &mut Work<'_>, delete: &Delete) -> Result<Outcome> {
    let DeleteDefinition { target, others, returning } = definition(work, delete)?;
    work.write(|work, transaction| {
        let view = transaction.view()?;
        let table = relation::table(view.catalog(), &target.name)?;
        let given =
            returning.iter().flat_map(|_| table.columns.iter().map(|column| target.column(&lower(&column.name))));
        let query = target.query(work, given.collect::<Vec<_>>(), others, delete.selection.as_ref())?;
        let found = work.rows(view, &query)?;
        if returning.is_none() && table.keyed.is_none() {
            let mut rows = 0;
            for batch in found {
                work.cancel.check()?;
                // With USING, a row can be found more than once. `delete` counts it only once.
                rows += transaction.delete(table.id, numbered(&batch?).0)?;
            }
            return Ok(Outcome::Changed { tag: STATEMENT, rows });
        }
        // A keyed table shows a change at once, so we must find all rows before we remove the first one.
        let found = found.collect::<Result<Vec<_>>>()?;
        let rows = match table.keyed.is_some() {
            true => keyed_change::delete(transaction, &table, &found)?,
            false => found.iter().map(|batch| transaction.delete(table.id, numbered(batch).0)).sum::<Result<u64>>()?,
        };
        match returning {
            None => Ok(Outcome::Changed { tag: STATEMENT, rows }),
            Some(returning) => {
                // RETURNING shows the rows as they were before the delete.
                let gone = each_once(&table, &found)?;
                returning.outcome(work, transaction, &table, target.alias().clone(), &gone)
            }
        }
    })
}

/// Returns the found rows without their numbers or keys. A row may be found more than once; each is returned once.
fn each_once(table: &TableDef, found: &[RecordBatch]) -> Result<Vec<RecordBatch>> {
    let mut seen = HashSet::new();
    let once = found.iter().map(|batch| {
        let is_first: BooleanArray = (0..batch.num_rows()).map(|row| Some(seen.insert(row_id(batch, row)))).collect();
        let batch = filter_record_batch(batch, &is_first).map_err(|error| Error::internal(error.to_string()))?;
        rows_of(table, &batch.columns()[1..])
    });
    once.collect()
}

/// Destructures the syntax tree and refuses the clauses that we do not execute.
pub(super) fn definition<'a>(work: &Work<'_>, delete: &'a Delete) -> Result<DeleteDefinition<'a>> {
    let Delete {
        delete_token: _,
        optimizer_hints,
        tables,
        from,
        using,
        selection: _,
        returning,
        output,
        order_by,
        limit,
    } = delete;
    let clauses = [
        (!optimizer_hints.is_empty(), "an optimizer hint"),
        (!tables.is_empty(), "several tables"),
        (output.is_some(), "OUTPUT"),
        (!order_by.is_empty(), "ORDER BY"),
        (limit.is_some(), "LIMIT"),
    ];
    refuse(STATEMENT, clauses)?;
    let (FromTable::WithFromKeyword(from) | FromTable::WithoutKeyword(from)) = from;
    let [table] = from.as_slice() else { return Err(unsupported(STATEMENT, "several tables")) };
    Ok(DeleteDefinition {
        target: ChangedTable::of(work, STATEMENT, table)?,
        others: using.as_deref().unwrap_or_default(),
        returning: returning.as_deref().map(Returning),
    })
}
