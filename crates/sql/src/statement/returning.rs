//! `RETURNING`: returns rows that a statement has written or removed.
//!
//! The items were bound over the columns of one row, and of the rows of other tables that were joined to it. Here these
//! columns become those of a table that has only the written rows.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::compute::concat_batches;
use arrow::datatypes::FieldRef;
use rowmill_base::{ColumnId, Error, ErrorKind, Result, RowNumber, SqlType};
use rowmill_query::binder::BoundQuery;
use rowmill_storage::{Block, ColumnDef, OpenRun, TableDef, TableSource};
use rowmill_txn::Transaction;

use super::row_sink::schema_of_rows;
use crate::outcome::{Outcome, RowStream};
use crate::session::Work;

/// Returns the outcome of a statement that has written or removed `rows`, with all columns of `table` and then those
/// `beside`, which are of other tables. `query` has the bound items.
pub(super) fn outcome(
    work: &Work<'_>,
    transaction: &mut Transaction,
    table: &TableDef,
    beside: &[FieldRef],
    query: BoundQuery,
    rows: &[RecordBatch],
) -> Result<Outcome> {
    let table = with_columns(table, beside)?;
    let rows = concat_batches(&schema_of_rows(&table), rows).map_err(|error| Error::internal(error.to_string()))?;
    // A subquery of an item sees the rows that the statement has written.
    let view = transaction.view()?;
    let now = |id| Some(view.table(id)? as Arc<dyn TableSource>);
    let mut query = query.over(&now).ok_or_else(|| Error::internal("a statement drops no table that it reads"))?;
    query.read_rows_of(Arc::new(WrittenRows::new(table, &rows)));
    let given = work.rows_of(Arc::clone(&view), query)?;
    let schema = given.schema();
    // All batches must be computed before the statement ends, because later statements may change the state they read.
    let batches = given.collect::<Result<Vec<_>>>()?;
    Ok(Outcome::Rows(RowStream::new(schema, batches.into_iter().map(Ok))))
}

/// Returns a table that has these columns, too.
fn with_columns(table: &TableDef, fields: &[FieldRef]) -> Result<TableDef> {
    let mut table = table.clone();
    let first = table.columns.iter().map(|column| column.id.0 + 1).max().unwrap_or(0);
    for (id, field) in (first..).zip(fields) {
        let kind = SqlType::from_arrow(field.data_type()).filter(|_| !field.data_type().is_null());
        let Some(kind) = kind else {
            let what = format!("RETURNING of \"{}\", which is a column without a type", field.name());
            return Err(Error::new(ErrorKind::Unsupported, what).hint("CAST it to a type where it is made"));
        };
        table.columns.push(ColumnDef {
            id: ColumnId(id),
            name: field.name().clone(),
            kind,
            nullable: true,
            default: None,
            missing: None,
            part: None,
        });
    }
    Ok(table)
}

/// Rows of one statement as a table.
#[derive(Debug)]
struct WrittenRows {
    table: Arc<TableDef>,
    runs: [Arc<OpenRun>; 1],
}

impl WrittenRows {
    fn new(table: TableDef, rows: &RecordBatch) -> WrittenRows {
        // NULLs are allowed here, because a missing value is found when the rows are written.
        let mut table = TableDef { keyed: None, ..table };
        table.columns.iter_mut().for_each(|column| column.nullable = true);
        let run = OpenRun::new(RowNumber(0), &table, rows);
        WrittenRows { table: Arc::new(table), runs: [Arc::new(run)] }
    }
}

impl TableSource for WrittenRows {
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
