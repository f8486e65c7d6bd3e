//! Queries over rows that a statement has made, as a table of their own in the place of the table that they are of: what
//! conditions are asked of, and what `RETURNING` gives.

use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::sql::sqlparser::ast::{Ident, Query, SetExpr};
use rowmill_base::{Error, Result, RowNumber};
use rowmill_storage::{Block, OpenRun, TableDef, TableSource};
use rowmill_txn::Transaction;

use super::row_query::twin;
use crate::catalog::new_rows_twin;
use crate::names::{DEFAULT_SCHEMA, Spellings, lower};
use crate::query::Draft;
use crate::session::Work;

/// `query`, a SELECT of one table, over `rows` in the place of that, which is called `alias` in it.
pub(super) fn draft(
    work: &Work<'_>,
    transaction: &mut Transaction,
    table: &TableDef,
    rows: &RecordBatch,
    mut query: Query,
    alias: Ident,
    spellings: Spellings,
) -> Result<Draft> {
    let SetExpr::Select(select) = &mut *query.body else { return Err(Error::internal("a SELECT is a SELECT")) };
    select.from = vec![twin(DEFAULT_SCHEMA, &new_rows_twin(&lower(&table.name)), alias)];
    let context = work.context(transaction.view()?).with_new_rows(Arc::new(NewRows::new(table, rows)));
    let (planner, params) = (Arc::clone(work.planner()), work.params.to_vec());
    Ok(Draft { planner, context, query: Box::new(query), spellings, params })
}

/// Rows of one statement, as a table.
#[derive(Debug)]
struct NewRows {
    table: Arc<TableDef>,
    runs: [Arc<OpenRun>; 1],
}

impl NewRows {
    fn new(table: &TableDef, rows: &RecordBatch) -> NewRows {
        // What the rows lack is found when they are written.
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
