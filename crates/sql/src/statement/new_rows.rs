//! Queries over rows that a statement has written or removed. The rows replace the table that they belong to.
//! `RETURNING` uses this.

use std::sync::Arc;

use arrow::array::RecordBatch;
use rowmill_base::{Error, Result, RowNumber};
use rowmill_storage::{Block, OpenRun, TableDef, TableSource};
use rowmill_txn::Transaction;
use sqlparser::ast::{Ident, Query, SetExpr};

use super::row_query::twin;
use crate::catalog::new_rows_twin;
use crate::names::{DEFAULT_SCHEMA, lower};
use crate::query::ReadyQuery;
use crate::session::Work;

/// Makes `query`, a SELECT of one table, ready to run over `rows` in place of that table, which the query calls
/// `alias`.
pub(super) fn ready(
    work: &Work<'_>,
    transaction: &mut Transaction,
    table: &TableDef,
    rows: &RecordBatch,
    mut query: Query,
    alias: Ident,
) -> Result<ReadyQuery> {
    let SetExpr::Select(select) = &mut *query.body else { return Err(Error::internal("a SELECT is a SELECT")) };
    // The catalog recognizes the twin by its suffix and returns our rows for it.
    select.from = vec![twin(DEFAULT_SCHEMA, &new_rows_twin(&lower(&table.name)), alias)];
    let context = work.context(transaction.view()?).with_new_rows(Arc::new(NewRows::new(table, rows)));
    work.ready_in(context, &query, work.statement.spellings(), work.params)
}

/// Rows of one statement as a table.
#[derive(Debug)]
struct NewRows {
    table: Arc<TableDef>,
    runs: [Arc<OpenRun>; 1],
}

impl NewRows {
    fn new(table: &TableDef, rows: &RecordBatch) -> NewRows {
        // NULLs are allowed here, because a missing value is found when the rows are written.
        let mut table = TableDef { keyed: None, ..table.clone() };
        table.columns.iter_mut().for_each(|column| column.nullable = true);
        let run = OpenRun::new(RowNumber(0), &table, rows);
        NewRows { table: Arc::new(table), runs: [Arc::new(run)] }
    }
}

impl TableSource for NewRows {
    fn table(&self) -> &Arc<TableDef> {
        &self.table
    }

    fn blocks(&self) -> &[Arc<Block>] {
        &[]
    }

    fn runs(&self) -> &[Arc<OpenRun>] {
        &self.runs
    }
}
