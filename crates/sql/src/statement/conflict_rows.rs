//! `INSERT ... SELECT ... ON CONFLICT`: runs the query and inserts each of its rows with the program of the same
//! statement that has a `VALUES` list in place of the query.

use std::sync::Arc;

use arrow::compute::concat_batches;
use rowmill_base::{Error, ErrorKind, Result, SqlType};
use rowmill_program::{Compiled, ProgramScratch, ResultRows};
use rowmill_storage::TableDef;
use rowmill_storage::keyed::{ColumnValues, ValueRef};
use rowmill_txn::Transaction;
use sqlparser::ast::{self, Expr, Insert, Query, SetExpr, Value};

use super::clause::unsupported;
use super::insert::{check_generated, query_rows};
use super::sql_text;
use crate::assign::assign;
use crate::outcome::{Outcome, RowStream};
use crate::session::Work;
use crate::walk::any_expr;

const STATEMENT: &str = "INSERT ... ON CONFLICT";

/// Inserts the rows of `query` into the columns `targets`, with the conflict clause of `insert`.
pub(super) fn insert(
    work: &Work<'_>,
    transaction: &mut Transaction,
    table: &Arc<TableDef>,
    targets: &[usize],
    query: &Query,
    insert: &Insert,
) -> Result<Outcome> {
    let is_parameter = |expr: &Expr| matches!(expr, Expr::Value(value) if matches!(value.value, Value::Placeholder(_)));
    if any_expr(&insert.on, is_parameter) || any_expr(&insert.returning, is_parameter) {
        return Err(unsupported(STATEMENT, "a parameter outside of the query")
            .hint("give the query a column with its value, and use EXCLUDED"));
    }
    check_generated(table, targets, |_, _| false)?;
    let rows = query_rows(work, transaction, table, targets, query)?.collect::<Result<Vec<_>>>()?;
    let columns: Vec<_> = targets.iter().map(|target| &table.columns[*target]).collect();
    // The rows are complete before the first one is written. So the query never sees rows of its own statement.
    let kinds: Vec<Option<SqlType>> = columns.iter().map(|column| Some(column.kind.clone())).collect();

    let view = transaction.view()?;
    let made = work.insert_program(&view, &with_values(work, insert, targets.len())?, &kinds)?;
    let made = made.ok_or_else(too_much)?;
    let compiled = Compiled::new(&made.program, view.catalog())?;
    drop(view);
    let (mut scratch, mut given, mut batches) = (ProgramScratch::default(), ResultRows::default(), Vec::new());
    scratch.set_cancel(work.cancel.clone());
    let mut changed = 0;
    for batch in &rows {
        let values = columns
            .iter()
            .zip(batch.columns())
            .map(|(column, values)| ColumnValues::new(&assign(values, &column.kind, &column.name)?, &column.kind));
        let values = values.collect::<Result<Vec<_>>>()?;
        for row in 0..batch.num_rows() {
            let parameters: Vec<ValueRef<'_>> = values.iter().map(|column| column.get(row)).collect();
            changed += compiled.run_write(transaction, &parameters, &mut scratch, &mut given)?;
            if let Some(schema) = made.schema.as_ref().filter(|_| !given.is_empty()) {
                batches.push(given.to_batch(schema)?);
            }
        }
    }
    match made.schema {
        None => Ok(Outcome::Changed { tag: "INSERT", rows: changed }),
        Some(schema) => {
            let all = concat_batches(&schema, &batches).map_err(|error| Error::internal(error.to_string()))?;
            Ok(Outcome::Rows(RowStream::ready(all)))
        }
    }
}

/// Returns the statement with a list of parameters in place of its query.
fn with_values(work: &Work<'_>, insert: &Insert, columns: usize) -> Result<Insert> {
    let places: Vec<String> = (1..=columns).map(|number| format!("${number}")).collect();
    let values = sql_text::query(&format!("VALUES ({})", places.join(", ")), work.settings())?;
    debug_assert!(matches!(*values.body, SetExpr::Values(_)), "it is a list of values");
    Ok(ast::Insert { source: Some(Box::new(values)), ..insert.clone() })
}

/// Returns the error for a statement that has no program.
pub(super) fn too_much() -> Error {
    Error::new(ErrorKind::Unsupported, format!("{STATEMENT} with values that need more than the row is not supported"))
        .hint("MERGE can compute them")
}
