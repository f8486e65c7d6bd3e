//! `RETURNING`: returns rows that a statement has written or removed.
//!
//! The items form a query over only these rows. The rows have the name that the statement uses for its table.

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::compute::concat_batches;
use arrow::datatypes::{Field, Schema, SchemaRef};
use rowmill_base::{Error, ErrorKind, Result};
use rowmill_exec::aggregate;
use rowmill_storage::TableDef;
use rowmill_txn::Transaction;
use sqlparser::ast::{Expr, Ident, Query, SelectItem, SetExpr, Visitor};

use super::new_rows;
use super::sql_text;
use crate::assign::assign;
use crate::outcome::{Outcome, RowStream};
use crate::session::Work;
use crate::walk::walk;

/// The items of a `RETURNING` clause.
#[derive(Clone, Copy, Debug)]
pub(super) struct Returning<'a>(pub(super) &'a [SelectItem]);

impl Returning<'_> {
    /// Returns the outcome of a statement that has written or removed `rows`, with all columns of `table`, which the
    /// statement calls `alias`.
    pub(super) fn outcome(
        self,
        work: &Work<'_>,
        transaction: &mut Transaction,
        table: &TableDef,
        alias: Ident,
        rows: &[RecordBatch],
    ) -> Result<Outcome> {
        refuse_aggregates(self.0)?;
        let rows = concat_batches(&schema_of_rows(table), rows).map_err(|error| Error::internal(error.to_string()))?;
        let mut query = sql_text::query("SELECT 1 FROM t AS t", work.settings())?;
        let SetExpr::Select(select) = &mut *query.body else { return Err(Error::internal("a SELECT is a SELECT")) };
        select.projection = self.0.to_vec();
        let ready = new_rows::ready(work, transaction, table, &rows, query, alias)?;
        let given = ready.start(None, work.started);
        let schema = given.schema();
        // All batches must be computed before the statement ends, because later statements may change the state they
        // read.
        let batches = given.collect::<Result<Vec<_>>>()?;
        Ok(Outcome::Rows(RowStream::new(schema, batches.into_iter().map(Ok))))
    }
}

/// Refuses aggregates and window functions, because an item belongs to one row.
fn refuse_aggregates(items: &[SelectItem]) -> Result<()> {
    let mut search = ReturningSearch { names: aggregate::names().collect(), queries: 0 };
    match items.iter().try_for_each(|item| walk(item, &mut search)) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(error),
    }
}

struct ReturningSearch {
    names: HashSet<&'static str>,
    /// How many subqueries enclose the current place. Inside of a subquery, aggregates are allowed.
    queries: usize,
}

impl Visitor for ReturningSearch {
    type Break = Error;

    fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<Error> {
        self.queries += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &Query) -> ControlFlow<Error> {
        self.queries -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<Error> {
        match expr {
            Expr::Function(call)
                // A subquery has its own rows, so it may aggregate.
                if self.queries == 0 && (call.over.is_some() || self.names.contains(&*call.name.to_string())) =>
            {
                let message = format!("{} is not allowed in RETURNING, which computes each row on its own", call.name);
                ControlFlow::Break(Error::new(ErrorKind::Grouping, message))
            }
            _ => ControlFlow::Continue(()),
        }
    }
}

/// Returns columns that a query has read as rows of `table`.
pub(super) fn rows_of(table: &TableDef, columns: &[ArrayRef]) -> Result<RecordBatch> {
    let typed = table.columns.iter().zip(columns).map(|(column, values)| assign(values, &column.kind, &column.name));
    let typed = typed.collect::<Result<Vec<_>>>()?;
    RecordBatch::try_new(schema_of_rows(table), typed).map_err(|error| Error::internal(error.to_string()))
}

/// Returns the schema of rows that are about to enter a table.
pub(super) fn schema_of_rows(table: &TableDef) -> SchemaRef {
    // All columns are nullable here. The transaction checks NOT NULL, and its error names the column.
    let fields = table.columns.iter().map(|column| Field::new(&column.name, column.kind.arrow(), true));
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}
